// Where a query's row is: lanes of S, P and dP, and the loss at their right. It needs no document, so its tests can use it.

export const MOST = 1.1; // by which a hand moves a score
const LEAST = 25; // em: the height of a row's picture
const KNOWN = 0.8; // of the width, for the keys of a row with many others

/** @param {{width: number, height: number, em: number}} size @param {Pick<backward.Numbers, 'S' | 'P' | 'dP' | 'delta'>} row */
export function rowLayout({ width, height: pane, em }, row) {
  const height = Math.max(pane, LEAST * em),
    narrow = width < 600,
    big = narrow ? 1.25 * em : Math.max(1.6 * em, Math.min(height / 18, width / 36)),
    gap = (narrow ? 0.6 : 1) * em,
    label = narrow ? 3.3 * em : Math.min(9 * em, 0.13 * width),
    left = label + gap,
    loss = narrow ? 3.6 * em : Math.min(9 * em, 0.13 * width),
    end = width - 2 - loss - (narrow ? 0.6 : 2.4) * em,
    room = end - left,
    scores = [0.7 * em, (narrow ? 0.26 : 0.27) * height],
    weights = [scores[0] + scores[1] + gap, big + 2 * em],
    top = weights[0] + weights[1] + gap,
    grades = [top, height - top - 2];
  const axis = (/** @type {number[]} */ values, /** @type {number[]} */ [from, high], /** @type {number[]} */ free) => {
    const [low, most] = [Math.min(...values), Math.max(...values)],
      pitch = (high - free[0] - free[1]) / (most - low || 1);
    return {
      y: (/** @type {number} */ value) => from + free[0] + (most - value) * pitch,
      at: (/** @type {number} */ y) => most - (y - from - free[0]) / pitch,
    };
  };
  const of_scores = axis([0, ...row.S.map(one => one - MOST), ...row.S.map(one => one + MOST)], scores, [
      0.4 * em,
      0.4 * em,
    ]),
    sum = row.P.reduce((a, b) => a + b, 0),
    scale = (sum > 0.99 ? 1 : KNOWN) / sum;
  /** Left edge and width of each key, as wide as its weight. @type {(weights: number[]) => [number, number][]} */
  const widths = weights => {
      let x = left;
      return weights.map(weight => {
        const w = room * weight * scale;
        x += w;
        return [x - w, w];
      });
    },
    own = widths(row.P),
    each = room / row.S.length;
  return {
    ...{ width, height, em, narrow, big, label, left, room, end, scores, weights, grades, widths },
    loss: [width - 2 - loss, grades[0], loss, grades[1]],
    score: of_scores,
    grade: axis([0, ...row.dP, row.delta], grades, [big + 1.2 * em, Math.min(...row.dP) < 0 ? big + em : 3]),
    /** Left edge and width of each score: over its weight, if all weights have room. A hand does not move them. */
    columns: own.every(([, w]) => w > 4 * em) ? own : own.map((_, n) => [left + n * each, each]),
  };
}
