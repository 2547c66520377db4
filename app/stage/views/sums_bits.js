// The bits of float32 numbers, and sums of them in both orders.

const word = new DataView(new ArrayBuffer(4));
/** @type {(value: number) => number} the 32 bits of a float32, as a whole number from 0 */
export function bitsOf(value) {
  word.setFloat32(0, value);
  return word.getUint32(0);
}
/** @type {(value: number) => string} sign, exponent and fraction, as 0 and 1 */
export const bitText = value => bitsOf(value).toString(2).padStart(32, '0');
/** @type {(a: number, b: number) => number} how many of the bits differ */
export function differing(a, b) {
  let left = bitsOf(a) ^ bitsOf(b),
    count = 0;
  for (; left; left &= left - 1) count++;
  return count;
}

/**
 * The sum after each term, in float32, from 0.
 * @param {number[]} terms
 * @returns {number[]}
 */
export function running(terms) {
  let sum = 0;
  return terms.map(term => (sum = Math.fround(sum + term)));
}

/**
 * A number of dQ: its terms, and the sums in both orders. The sums are left out if they do not give
 * the bits of the two runs.
 * @param {number[]} terms the parts of the blocks in their order
 * @param {number} once the number after the first run
 * @param {number} again the number after the second run
 */
export function inBothOrders(terms, once, again) {
  const forward = running(terms),
    back = running(terms.toReversed()).toReversed();
  const same = bitsOf(forward.at(-1) ?? NaN) === bitsOf(once) && bitsOf(back[0]) === bitsOf(again);
  return { terms, forward: same ? forward : null, back: same ? back : null };
}
