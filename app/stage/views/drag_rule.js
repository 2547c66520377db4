// The rule of the online softmax for a row, in float32 as the kernel computes it. It has no DOM. A test compares it with
// runs of 03_flash, with and without the max and the rescaling.
const float = Math.fround;

/**
 * The row after each tile.
 * @typedef {object} State
 * @property {number} m
 * @property {number} factor of all before the tile
 * @property {number} l
 * @property {number[]} o
 * @property {number[]} weights of the keys so far, as they count now
 */

/**
 * @param {ArrayLike<number>} scores of one row
 * @param {ArrayLike<number>} v [keys * dims]
 * @param {number} tile its keys
 * @param {{subtract?: boolean, rescale?: boolean, seen?: number, end?: number}} [how] SUBTRACT_MAX and RESCALE of the
 *   kernel. With a causal mask, the keys that the row sees, and the end of the keys that its block reads: later tiles
 *   are skipped
 * @returns {State[]}
 */
export function onePass(scores, v, tile, how = {}) {
  const { subtract = true, rescale = true, seen = scores.length, end = scores.length } = how;
  const dims = v.length / scores.length,
    states = [];
  let m = subtract ? -Infinity : 0,
    l = 0,
    o = Array(dims).fill(0),
    /** @type {number[]} */ weights = [];
  for (let first = 0; first < end; first += tile) {
    const own = Array.from({ length: tile }, (_, n) => (first + n < seen ? float(scores[first + n]) : -Infinity)),
      next = subtract ? Math.max(m, ...own) : 0,
      factor = rescale ? float(Math.exp(float(m - next))) : 1,
      p = own.map(score => float(Math.exp(float(score - next))));
    l = float(float(l * factor) + p.reduce((sum, one) => float(sum + one), 0));
    o = o.map((sum, dim) =>
      p.reduce((at, one, n) => float(one * v[(first + n) * dims + dim] + at), float(sum * factor)),
    );
    weights = [...weights.map(weight => float(weight * factor)), ...p];
    m = next;
    states.push({ m, factor, l, o, weights });
  }
  return states;
}

/**
 * The largest error of o / l, as a share of the largest number of the exact row. NaN if o has one.
 * @param {State} state
 * @param {ArrayLike<number>} scores of the keys so far
 * @param {ArrayLike<number>} v
 */
export function errorOf({ o, l }, scores, v) {
  const dims = o.length,
    most = Math.max(...Array.from(scores)),
    p = Array.from(scores, score => Math.exp(score - most)),
    sum = p.reduce((a, b) => a + b, 0),
    right = o.map((_, dim) => p.reduce((at, one, key) => at + one * v[key * dims + dim], 0) / sum),
    off = o.map((value, dim) => Math.abs(value / l - right[dim]));
  return off.some(Number.isNaN) ? NaN : Math.max(...off) / Math.max(...right.map(Math.abs));
}
