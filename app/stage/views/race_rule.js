// The bytes that two ways of attention ask of memory. It has no DOM. A test compares the way that keeps a tile with the
// trace of 03_flash.
//
// Both ways work on one tile of queries at a time. Both read Q once, K and V once for each tile of queries, and write O
// once. The way that stores S also writes S, reads S, writes P and reads P. Under a causal mask, only the way that keeps a
// tile leaves out the keys after a tile's last query. The other one makes the whole square, as torch's unfused attention.

/** @typedef {{batch: number, heads: number, dim: number, bytes: number}} Job */
/** @typedef {[tensor: string, kind: 'load' | 'store', bytes: number]} Moved */

/**
 * How many keys the tiles of queries before each tile have read: [0, first, first + second, ...].
 * @type {(tokens: number, height: number, causal: boolean) => number[]}
 */
export function keysRead(tokens, height, causal) {
  const sums = [0];
  for (let end = height; end < tokens + height; end += height)
    sums.push(sums[sums.length - 1] + (causal ? Math.min(tokens, end) : tokens));
  return sums;
}

/**
 * What happens one after the other, in all heads.
 * @param {number} tokens
 * @param {number} height queries of a tile
 * @param {boolean} causal
 * @param {Job} job
 * @returns {{store: Moved[][], keep: Moved[][]}}
 */
export function traffic(tokens, height, causal, { batch, heads, dim, bytes }) {
  const unit = batch * heads * bytes, // bytes of one number in every head
    matrix = unit * tokens * dim, // Q or O
    read = (/** @type {boolean} */ masked) => unit * keysRead(tokens, height, masked).slice(-1)[0] * dim, // K or V
    [again, fewer] = [read(false), read(causal)],
    square = unit * tokens * tokens; // S or P
  return {
    store: [
      [
        ['Q', 'load', matrix],
        ['K', 'load', again],
        ['S', 'store', square],
      ],
      [
        ['S', 'load', square],
        ['P', 'store', square],
      ],
      [
        ['P', 'load', square],
        ['V', 'load', again],
        ['O', 'store', matrix],
      ],
    ],
    keep: [
      [
        ['Q', 'load', matrix],
        ['K', 'load', fewer],
        ['V', 'load', fewer],
        ['O', 'store', matrix],
      ],
    ],
  };
}

/**
 * The bytes of memory that each way holds, in all heads.
 * @type {(tokens: number, job: Job) => {store: Record<string, number>, keep: Record<string, number>}}
 */
export function held(tokens, { batch, heads, dim, bytes }) {
  const unit = batch * heads * bytes,
    matrix = unit * tokens * dim,
    square = unit * tokens * tokens,
    shared = { Q: matrix, K: matrix, V: matrix, O: matrix };
  return { store: { S: square, P: square, ...shared }, keep: { S: 0, P: 0, ...shared } };
}

/** @type {(stages: Moved[][]) => number} */
export const total = stages => stages.flat().reduce((sum, [, , bytes]) => sum + bytes, 0);

/**
 * The bytes of each tensor after so many bytes of the stages, the stage, and its share.
 * @type {(stages: Moved[][], bytes: number) => {parts: Record<string, number>, stage: number, share: number}}
 */
export function after(stages, bytes) {
  /** @type {Record<string, number>} */ const parts = { K: 0, V: 0, S: 0, P: 0, Q: 0, O: 0 };
  let left = bytes;
  for (const [stage, list] of stages.entries()) {
    const whole = total([list]),
      share = Math.min(1, left / whole);
    for (const [tensor, , size] of list) parts[tensor] += size * share;
    left -= whole;
    if (left < 0) return { parts, stage, share };
  }
  return { parts, stage: stages.length - 1, share: 1 };
}

/**
 * The tile under the chip: its row of tiles, its first key, and the keys of its row.
 * @type {(sums: number[], share: number) => {row: number, key: number}}
 */
export function placeOf(sums, share) {
  const at = share * sums[sums.length - 1],
    row = Math.max(
      0,
      Math.min(
        sums.length - 2,
        sums.findLastIndex(sum => sum <= at),
      ),
    );
  return { row, key: Math.min(at, sums[row + 1]) - sums[row] };
}
