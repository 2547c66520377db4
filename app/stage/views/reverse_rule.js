// What a change of a score does to its row and to the loss. It needs no document, so its tests can use it.

/**
 * @typedef {object} Row the numbers of a query
 * @property {number[]} S @property {number[]} P @property {number[]} dP @property {number[]} dS
 * @property {number} delta the average of dP by P over all keys, and so the query's part of the loss O · dO
 */

/**
 * The row once the score of a key is larger: its weight takes from all others, so the average of dP moves.
 * @param {Pick<Row, 'S' | 'P' | 'dP' | 'delta'>} row
 * @param {number} key
 * @param {number} by
 * @returns {Row}
 */
export function raised({ S, P, dP, delta }, key, by) {
  const more = P[key] * (Math.exp(by) - 1),
    mean = (delta + more * dP[key]) / (1 + more),
    weights = P.map((weight, n) => (weight + (n === key ? more : 0)) / (1 + more));
  return {
    S: S.map((score, n) => score + (n === key ? by : 0)),
    ...{ P: weights, dP, delta: mean, dS: weights.map((weight, n) => weight * (dP[n] - mean)) },
  };
}
