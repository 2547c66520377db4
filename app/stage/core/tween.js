// Motion between two steps. A view gives each step as a list of marks, in the order in which they
// are drawn (kinds.js). Marks of one id move and recolour; the others enter or leave. An id names a
// thing, never a place: else one thing would seem to become another.
//
// At its end a motion draws the marks of the step themselves, not a mixture. The picture at rest
// never depends on the steps before it.

/**
 * Plain data: what is drawn, and hints for its way. All numbers, colours and lists of numbers of
 * two marks of one id are mixed on the way.
 * @typedef {object} Mark
 * @property {string} id
 * @property {string} kind rect, image, text, grid, way, or one that the view draws itself
 * @property {number[]} rect [x, y, width, height]
 * @property {number} [alpha]
 * @property {Record<string, any>} [enter] how the mark differs before it is there; {alpha: 0} without it
 * @property {Record<string, any>} [leave] how it differs once it is gone; {alpha: 0} without it
 * @property {number[]} [span] its part of the time, from 0 to 1: [0, 1] without it
 * @property {number[]} [out] the same for its leaving: [0, 0.5] without it
 * @property {'out' | 'both' | 'line'} [ease] out: starts at once; both: a flight; line: an even pace
 * @property {boolean} [area] width and height change by ratios, so that no shape swells on its way
 * @property {number} [lift] pixels that it rises on its way, with a shadow
 * @property {boolean} [passing] it is drawn on the way only
 * @property {Record<string, any>} [datum] the thing that it shows: to point at, to pin, to cover
 * @property {string} [tip] about the thing, a line each
 * @property {number | null} [go] the step that a click on it goes to
 * @property {(thing: any) => any} [press] of a grid: the step of a click on a thing, [choice, value], or nothing
 * @property {Record<string, any>} [grid] of an area: its things (areas.js)
 * @property {boolean} [hint] it is left out while a question covers something
 */

/** @type {Record<string, (t: number) => number>} */
export const EASE = {
  line: t => t,
  out: t => 1 - (1 - t) ** 3,
  both: t => (t < 0.5 ? 2 * t * t : 1 - 2 * (1 - t) ** 2), // twice the mean speed at most
};
const HINTS = new Set(['enter', 'leave', 'span', 'out', 'ease', 'area', 'lift', 'passing']);
const COLOURS = new Set(['fill', 'stroke']);
const MOST = 8; // steps a second; above this nothing moves
const LONGEST = 260; // milliseconds: with the last frame, a press settles within 300
const BACK = 150; // of a step back
const PART = 0.8; // of the time between two steps that play

const within = share => Math.max(0, Math.min(1, share));
const same = (a, b) =>
  a === b || (Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((v, n) => same(v, b[n])));

const parsed = new Map();
/**
 * @param {string} text #rgb, #rrggbb or rgb(...)
 * @returns {number[]} [r, g, b]
 */
export function channels(text) {
  if (!parsed.has(text)) {
    const hex = text.length === 4 ? text.replace(/[\da-f]/gi, '$&$&') : text;
    parsed.set(
      text,
      text.startsWith('#')
        ? [1, 3, 5].map(n => parseInt(hex.slice(n, n + 2), 16))
        : text
            .match(/[\d.]+/g)
            .slice(0, 3)
            .map(Number),
    );
  }
  return parsed.get(text);
}

/**
 * @param {string} name of the property
 * @param {any} a
 * @param {any} b
 * @param {number} t
 */
function mixed(name, a, b, t) {
  if (a === undefined || b === undefined) return b;
  if (COLOURS.has(name)) return `rgb(${mixed('', channels(a), channels(b), t).map(Math.round).join(',')})`;
  if (typeof a === 'number' && typeof b === 'number') return a + (b - a) * t;
  if (Array.isArray(a) && Array.isArray(b) && a.length === b.length) return b.map((v, n) => mixed('', a[n], v, t));
  return b; // an image, a text, a way with other corners
}

/**
 * @typedef {{from: Mark, to: Mark, moves: string[], span: number[], ease: (t: number) => number,
 *   lift: number}} Track
 */

/**
 * @param {Mark} from
 * @param {Mark} to
 * @param {Mark} hints
 * @param {number[]} span
 * @returns {Track}
 */
function track(from, to, { ease = 'out', lift = 0 }, span) {
  const moves = Object.keys(to).filter(name => !HINTS.has(name) && !same(from[name], to[name]));
  if (from.alpha !== to.alpha && !moves.includes('alpha')) moves.push('alpha');
  return { from, to, moves, span, ease: EASE[ease], lift: moves.includes('rect') ? lift : 0 };
}

/**
 * What moves from one step to another, in the order in which it is drawn. A mark that leaves stays
 * above the mark that was below it.
 * @param {Mark[]} a
 * @param {Mark[]} b
 * @returns {Track[]}
 */
export function diff(a, b) {
  const before = new Map(resting(a).map(mark => [mark.id, mark])),
    after = new Set();
  for (const { id } of b) {
    if (after.has(id)) throw new Error(`Two marks have the id ${id}.`);
    after.add(id);
  }
  const gone = new Map([['', []]]); // id of the mark below -> the tracks of those that leave
  let below = '';
  for (const mark of before.values()) {
    if (after.has(mark.id)) {
      below = mark.id;
      gone.set(below, []);
    } else {
      const end = { ...mark, ...(mark.leave ?? { alpha: 0 }) };
      gone.get(below).push(track(mark, end, mark, mark.out ?? [0, 0.5]));
    }
  }
  return [
    ...gone.get(''),
    ...b.flatMap(mark => {
      const from = before.get(mark.id) ?? { ...mark, ...(mark.enter ?? { alpha: 0 }) };
      return [track(from, mark, mark, mark.span ?? [0, 1]), ...(gone.get(mark.id) ?? [])];
    }),
  ];
}

const byRatio = (a, b, t) => (a > 0 && b > 0 ? a * (b / a) ** t : a + (b - a) * t);

/**
 * The marks at a share of the way, 0 to 1.
 * @param {Track[]} tracks
 * @param {number} share
 * @returns {(Mark & {air?: number})[]} air: how high a lifted mark is, 0 to 1
 */
export function at(tracks, share) {
  return tracks.map(one => (one.moves.length ? along(one, share) : one.to)).filter(seen);
}
const seen = mark => mark.alpha !== 0;

/** @param {any} track @param {number} share */
function along({ from, to, moves, span: [start, end], ease, lift }, share) {
  const t = ease(within((share - start) / (end - start || 1e-9))),
    mark = { ...to };
  for (const name of moves)
    mark[name] =
      name === 'alpha' ? mixed(name, from.alpha ?? 1, to.alpha ?? 1, t) : mixed(name, from[name], to[name], t);
  if (to.area && moves.includes('rect')) for (const n of [2, 3]) mark.rect[n] = byRatio(from.rect[n], to.rect[n], t);
  if (lift) {
    mark.air = 4 * t * (1 - t);
    mark.rect[1] -= lift * mark.air;
  }
  return mark;
}

/** @param {Mark[]} marks */
export const resting = marks => marks.filter(mark => !mark.passing && seen(mark));

/** The time of motions. A test may give another. */
export const browserTime = {
  now: () => performance.now(),
  request: tick => requestAnimationFrame(tick),
  cancel: id => cancelAnimationFrame(id),
};

/**
 * The motion of one picture. One step onward takes `ms`, one step back BACK; a jump is a cut. The
 * next step starts from the end of what still moves.
 */
export class Motion {
  shown = []; // the marks of the step
  from = []; // the marks of the step before, while it moves
  tracks = null; // null at rest
  request = 0;
  last = -Infinity; // when the last step came
  began = 0;
  ms = 0;
  back = false;

  /**
   * @param {object} parts
   * @param {(marks: Mark[]) => void} parts.paint draws on a clean canvas
   * @param {() => typeof browserTime} [parts.time]
   * @param {() => boolean} [parts.still] whether nothing is to move
   * @param {() => number} [parts.pace] steps a second while they play, else 0
   */
  constructor({ paint, time = () => browserTime, still = () => false, pace = () => 0 }) {
    this.paint = paint;
    this.time = time;
    this.still = still;
    this.pace = pace;
  }
  get running() {
    return !!this.tracks;
  }
  /** @param {Mark[]} marks */
  show(marks) {
    this.stop();
    this.shown = marks;
    this.paint(resting(marks));
  }
  /**
   * @param {Mark[]} marks
   * @param {{ms?: number, back?: boolean}} [way]
   */
  go(marks, { ms = 240, back = false } = {}) {
    const now = this.time().now(),
      fast = now - this.last < 1000 / MOST || this.pace() > MOST;
    this.last = now;
    this.stop();
    if (fast || this.still() || !this.shown.length) return this.show(marks);
    const most = Math.min(LONGEST, this.pace() ? (PART * 1000) / this.pace() : Infinity);
    [this.from, this.shown] = [this.shown, marks];
    [this.back, this.began, this.ms] = [back, now, Math.min(back ? BACK : ms, most)];
    this.plan();
    this.tick();
  }
  /**
   * The same step with other marks, as the cursor changes them: what moves goes on.
   * @param {Mark[]} marks
   */
  change(marks) {
    if (!this.running) return this.show(marks);
    this.shown = marks;
    this.plan();
  }
  plan() {
    const { from, shown, back } = this;
    this.tracks = back ? diff(shown, from) : diff(from, shown);
  }
  tick() {
    const share = (this.time().now() - this.began) / this.ms;
    if (share >= 1) return this.show(this.shown);
    this.paint(at(this.tracks, within(this.back ? 1 - share : share)));
    this.request = this.time().request(() => this.tick());
  }
  stop() {
    if (this.running) this.time().cancel(this.request);
    this.tracks = null;
  }
  finish() {
    if (this.running) this.show(this.shown);
  }
}
