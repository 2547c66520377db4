// Where the numbers of a query's row are: S above P, or dP on the widths P. It needs no document, so its tests can use it.

export const GROWS = 1; // by which a score grows where a row's weights share 1
const LEAST = 20; // em: the height of a row's picture
const KNOWN = 0.8; // of the width, for the keys of a row with many others
const SCORES = ['forward', 'kept', 'weights', 'share'];

/** @param {{width: number, height: number, em: number}} size @param {string} phase @param {backward.Numbers} row */
export function rowLayout({ width, height: pane, em }, phase, row) {
  const height = Math.max(pane, LEAST * em),
    narrow = width < 600,
    big = narrow ? 1.2 * em : Math.max(1.6 * em, Math.min(height / 18, width / 36)),
    title = 1.9 * em,
    left = narrow ? 3.6 * em : Math.min(9 * em, 0.14 * width), // of what memory has
    room = width - left - 3,
    above = SCORES.includes(phase), // S is above P
    strip = above ? Math.max(big + 2.2 * em, 0.2 * height) : big + 1.6 * em, // the height of P
    top = above ? height - strip - 2 : title,
    chart = above
      ? { top: title, bottom: top - 3 * em - big }
      : { top: top + strip + title, bottom: height - 2.6 * em };
  const values = above ? [0, ...row.S, row.S[grown(row)] + GROWS] : [0, ...row.dP, row.delta],
    [low, high] = [Math.min(...values), Math.max(...values)],
    free = above ? [big + 0.4 * em, low < 0 ? big : 0] : [big + em, big + em], // for the numbers at the bars' ends
    y0 = chart.top + free[0],
    pitch = (chart.bottom - free[1] - y0) / (high - low || 1),
    sum = row.P.reduce((a, b) => a + b, 0),
    scale = (sum > 0.99 ? 1 : KNOWN) / sum;
  return {
    ...{ width, height, em, narrow, big, left, room, above, chart, strip: [top, strip] },
    y: (/** @type {number} */ value) => y0 + (high - value) * pitch,
    at: (/** @type {number} */ y) => high - (y - y0) / pitch,
    /** Left edge and width of each key, as wide as its weight. @type {(weights: number[]) => [number, number][]} */
    widths: weights => {
      let x = left;
      return weights.map(weight => {
        const w = room * weight * scale;
        x += w;
        return [x - w, w];
      });
    },
  };
}

export const grown = (/** @type {backward.Numbers} */ { P }) => P.indexOf(Math.min(...P));
