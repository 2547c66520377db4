// A long way between two pictures of a view under a hand: marks with a `span` each take their turn.
// (tween.js caps the way between two steps, so that keys never wait.)
import { calm, makeLoop } from './follow.js';
import { at, diff, resting } from './tween.js';

/** @param {() => void} draw asks the view for its marks again */
export function makeGlide(draw) {
  /** @type {import('./tween.js').Mark[]} */ let shown = []; // the last marks that were drawn
  /** @type {any} */ let tracks = null;
  let begun = 0,
    length = 0,
    next = 0; // ms of the way to the next marks, 0 for a cut
  const loop = makeLoop(() => {
    draw();
    return !!tracks;
  });
  return {
    /** The next marks are a way of so many ms from what is drawn now. */
    begin(/** @type {number} */ ms) {
      next = calm() ? 0 : ms;
      if (!next) tracks = null;
    },
    /** No way: what moves is at its end. */
    end() {
      tracks = null;
      next = 0;
    },
    /** The marks to draw on the way to these. */
    pass(/** @type {import('./tween.js').Mark[]} */ marks) {
      if (next && shown.length) {
        tracks = diff(shown, marks);
        [begun, length, next] = [performance.now(), next, 0];
        loop.wake();
      }
      const share = tracks ? (performance.now() - begun) / length : 1;
      if (share >= 1) tracks = null;
      shown = tracks ? at(tracks, Math.max(0, share)) : resting(marks);
      return shown;
    },
    stop: loop.stop,
  };
}
