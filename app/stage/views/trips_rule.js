// How many queries and keys come from global memory. It has no DOM. A test compares it with runs.

/**
 * @param {number} tokens queries, and keys
 * @param {number} side queries of a tile, and keys
 * @returns {{tile: number, all: number, each: number}} trips of a whole tile, of all tiles, and of each key
 */
export function trips(tokens, side) {
  const each = Math.ceil(tokens / side); // the rows of tiles
  return { tile: 2 * side, all: 2 * tokens * each, each };
}
