// What a change of a number does to its row. It needs no document, so its tests can use it.

/**
 * The weights of a row once one score has grown: the row still adds up to what it was.
 * @param {number[]} weights
 * @param {number} grown
 * @param {number} by
 * @returns {number[]}
 */
export function share(weights, grown, by) {
  const more = weights[grown] * (Math.exp(by) - 1);
  return weights.map((weight, n) => (weight + (n === grown ? more : 0)) / (1 + more));
}

/**
 * A row of dS = P (dP - delta) once the dP of a key is another one.
 * @param {{P: number[], dP: number[], delta: number}} row
 * @param {number} key
 * @param {number} value
 */
export function moved({ P, dP, delta }, key, value) {
  const after = dP.map((one, n) => (n === key ? value : one)),
    mean = delta + P[key] * (value - dP[key]);
  return { P, dP: after, delta: mean, dS: after.map((one, n) => P[n] * (one - mean)) };
}
