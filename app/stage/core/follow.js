// What a picture under a hand needs: sentences with values, a loop, and numbers that follow.
// Told anew in each frame, they lag but never stop. Numbers with growing delays form a wave.
// (A tween that restarts would wait until the hand rests.)

const quiet = matchMedia('(prefers-reduced-motion: reduce)');
/** Whether the reader prefers no motion. Then every change is at once. */
export const calm = () => quiet.matches;

/**
 * A sentence with values in place of its {names}.
 * @type {(text: string, values?: Record<string, string | number>) => string}
 */
export const filled = (text, values = {}) => text.replace(/\{(\w+)\}/g, (_, name) => String(values[name]));

const LAG = 0.07; // seconds in which 63 % of the way is covered
const LONGEST = 0.05; // seconds of a frame, as far as motion counts them

/**
 * Calls frame(ms, seconds since the frame before) while it returns true. `wake` starts it again, `stop` ends it.
 * @param {(now: number, seconds: number) => boolean} frame
 */
export function makeLoop(frame) {
  let last = 0,
    request = 0;
  const tick = (/** @type {number} */ now) => {
    request = 0;
    const more = frame(now, last ? Math.min(LONGEST, (now - last) / 1000) : 0.016);
    last = more ? now : 0;
    if (more) wake();
  };
  const wake = () => {
    request ||= requestAnimationFrame(tick);
  };
  const stop = () => {
    cancelAnimationFrame(request);
    request = 0;
  };
  return { wake, stop };
}

export class Follower {
  /** @type {[number, number][]} */ waiting = []; // [from when on, value], in the order of time

  /** @param {number} value */
  constructor(value) {
    this.value = this.goal = value;
  }
  /** @param {number} value @param {number} [when] ms: it heads for the value from then on */
  aim(value, when = 0) {
    if ((this.waiting.at(-1)?.[1] ?? this.goal) === value) return;
    this.waiting = this.waiting.filter(([at]) => at < when);
    this.waiting.push([when, value]);
  }
  /** @param {number} value */
  jump(value) {
    this.value = this.goal = value;
    this.waiting = [];
  }
  get rests() {
    return !this.waiting.length && this.value === this.goal;
  }
  // One frame on. Returns whether it still moves.
  /** @param {number} now @param {number} seconds */
  step(now, seconds) {
    while (this.waiting.length && this.waiting[0][0] <= now) [, this.goal] = /** @type {any} */ (this.waiting.shift());
    const left = this.goal - this.value;
    if (calm() || !Number.isFinite(left) || Math.abs(left) < 1e-4) this.value = this.goal;
    else this.value += left * (1 - Math.exp(-seconds / LAG));
    return !this.rests;
  }
}
