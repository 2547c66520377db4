// Which step of which frames is shown: pure functions of a bundle's content.

// The stage's frames, or those of a picture with a clock of its own (meta.clock).
export const ownClock = (content, picture) =>
  content.views.find(view => view.id === picture && view.meta.clock)?.meta ?? null;
export const framesOf = (content, picture) => ownClock(content, picture)?.frames ?? content.frames;

// The pictures of a bundle in order. Views with one id are drawn next to each other.
export const picturesOf = content => [
  ...new Map(content.views.map(({ id, title }) => [id, { id, title }])).values(),
];

// The value of the choice that the step is, such as a moment of a cache.
export const valueAt = (content, step) => content.step_values?.[step] ?? step;
// The last step with at most this value.
export const stepUpTo = (content, frames, value) =>
  Math.max(
    0,
    frames.findLastIndex((_, step) => valueAt(content, step) <= value),
  );

// A link's step, counted from 1, among `count` steps: {step, missing}. missing: a sentence if the
// link asks for a step that is not there.
export function stepWanted(wanted, count) {
  const last = Math.max(0, count - 1),
    asked = Number(wanted);
  if (Number.isInteger(asked) && asked >= 1 && asked <= last + 1)
    return { step: asked - 1, missing: '' };
  return {
    step: Math.min(last, Math.max(0, Math.trunc(asked) - 1 || 0)),
    missing: `step is ${wanted}. Here it can be 1 to ${last + 1}.`,
  };
}

// The step of `frames` that shows what `step` of `before` showed: the same tile and phase, and as
// often as it had come by then.
export function sameMoment(before, step, frames) {
  const key = frame => `${frame.tile} ${frame.phase ?? frame.title}`;
  const now = key(before[step]),
    nth = before.slice(0, step).filter(frame => key(frame) === now).length;
  const same = frames.map((_, n) => n).filter(n => key(frames[n]) === now);
  return same[Math.min(nth, same.length - 1)] ?? Math.min(step, Math.max(0, frames.length - 1));
}
