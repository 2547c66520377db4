// Which step of which frames is shown: pure functions of a bundle's content.

// The stage's frames, or those of a picture with a clock of its own (meta.clock).
/**
 * @type {(content: Content, picture: string) => {frames: Frame[], state: story.State[], provenance?: story.Provenance,
 *   provenances?: (story.Provenance | null)[]} | null}
 */
export const ownClock = (content, picture) =>
  content.views.find(view => view.id === picture && view.meta.clock)?.meta ?? null;
/** @type {(content: Content, picture: string) => Frame[]} */
export const framesOf = (content, picture) => ownClock(content, picture)?.frames ?? content.frames;

// The lines of code of a frame. key: of Code.lit.
/** @type {(frame: any, key: string) => Record<string, number>} */
export const linesOf = (frame, key) => frame?.[key] ?? {};

// The pictures of a bundle in order. Views with one id are drawn next to each other.
/** @param {Content} content */
export const picturesOf = content => [...new Map(content.views.map(({ id, title }) => [id, { id, title }])).values()];

// The value of the choice that the step is, such as a moment of a cache.
/** @type {(content: Content, step: number) => number} */
export const valueAt = (content, step) => content.step_values?.[step] ?? step;
// The last step with at most this value.
/** @type {(content: Content, frames: Frame[], value: number) => number} */
export const stepUpTo = (content, frames, value) => {
  const last = frames.findLastIndex((_, step) => valueAt(content, step) <= value);
  return Math.max(0, last);
};

// A link's step, counted from 1, among `count` steps: {step, missing}. missing: a sentence if the
// link asks for a step that is not there.
/** @param {string | number} wanted @param {number} count */
export function stepWanted(wanted, count) {
  const last = Math.max(0, count - 1),
    asked = Number(wanted);
  if (Number.isInteger(asked) && asked >= 1 && asked <= last + 1) return { step: asked - 1, missing: '' };
  return {
    step: Math.min(last, Math.max(0, Math.trunc(asked) - 1 || 0)),
    missing: `step is ${wanted}. Here it can be 1 to ${last + 1}.`,
  };
}

// The step of `frames` that shows what `step` of `before` showed: the same tile and phase, and as
// often as it had come by then.
/** @param {Frame[]} before @param {number} step @param {Frame[]} frames */
export function sameMoment(before, step, frames) {
  /** @param {Frame} frame */
  const key = frame => `${frame.tile} ${frame.phase ?? frame.title}`;
  const now = key(before[step]),
    nth = before.slice(0, step).filter(frame => key(frame) === now).length;
  const same = frames.map((_, n) => n).filter(n => key(frames[n]) === now);
  return same[Math.min(nth, same.length - 1)] ?? Math.min(step, Math.max(0, frames.length - 1));
}

// The first line of code, from 1: the line after the front matter, which is a comment at the top.
/** @param {string[]} lines */
export function codeLine(lines) {
  if (!lines[0]?.startsWith('/*')) return 1;
  const end = lines.findIndex(line => line.trim() === '*/');
  return Math.min(lines.length, end + 2);
}
