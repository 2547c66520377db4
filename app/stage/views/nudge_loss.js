// The loss sum(o * do) of attention in float64, and how it changes when one input does.

/**
 * The query heads that share a head of K and V, and that head.
 * @typedef {object} Heads
 * @property {number} group query heads
 * @property {number} n queries
 * @property {number} keys
 * @property {number} d numbers of a query
 * @property {number} scale the factor on q k
 * @property {boolean} causal
 * @property {number} offset query i sees the keys up to i + offset
 * @property {ArrayLike<number>} q [group, n, d]
 * @property {ArrayLike<number>} k [keys, d]
 * @property {ArrayLike<number>} v [keys, d]
 * @property {ArrayLike<number>} do [group, n, d]
 */

/**
 * @param {Heads} heads
 * @returns {number}
 */
export function lossOf(heads) {
  const { group, n, keys, d, causal, offset } = heads;
  let sum = 0;
  for (let row = 0; row < group * n; row++)
    sum += rowLoss(heads, row * d, causal ? Math.min(keys, (row % n) + offset + 1) : keys);
  return sum;
}

// One query: its weights, then sum over the keys of weight * (v do).
function rowLoss({ d, scale, q, k, v, do: dO }, at, seen) {
  const scores = [];
  for (let key = 0; key < seen; key++) scores.push(scale * dot(q, at, k, key * d, d));
  const most = Math.max(...scores);
  let weights = 0,
    sum = 0;
  for (let key = 0; key < seen; key++) {
    const weight = Math.exp(scores[key] - most);
    weights += weight;
    sum += weight * dot(dO, at, v, key * d, d);
  }
  return weights ? sum / weights : 0;
}
function dot(a, first, b, other, d) {
  let sum = 0;
  for (let i = 0; i < d; i++) sum += a[first + i] * b[other + i];
  return sum;
}

/**
 * The change of the loss when one number of an input changes by eps.
 * @param {Heads} heads
 * @param {'q' | 'k' | 'v'} name of the input
 * @param {number} place of the number in it
 * @param {number} eps
 */
export function changeOf(heads, name, place, eps) {
  const moved = Float64Array.from(heads[name]);
  moved[place] += eps;
  return lossOf({ ...heads, [name]: moved }) - lossOf(heads);
}
