// Which numbers make a number of a part. It needs no document, so its tests can use it.

/**
 * The numbers of a part that a number of another one is made of: [rows, columns], each a number or null for all.
 * @param {backward.Part} made
 * @param {backward.Part} read
 * @param {number[]} place row and column
 * @returns {(number | null)[]}
 */
export function cut(made, read, [row, column]) {
  const of = (/** @type {string} */ axis) =>
    !axis ? 0 : axis === made.rows ? row : axis === made.columns ? column : null;
  return [of(read.rows), of(read.columns)];
}
