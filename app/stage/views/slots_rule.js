// Where a token is in a cache in pages. It has no DOM. A test compares it with the loads of a run.

/**
 * @param {number} token
 * @param {number[]} table the pages of its sequence, in order
 * @param {number[]} bases the byte at which each of these pages begins, for one KV head
 * @param {number} size slots of a page
 * @param {number} piece bytes from a slot to the next
 * @returns {{entry: number, slot: number, page: number, byte: number}} byte: the first one of its key
 */
export function placeOf(token, table, bases, size, piece) {
  const entry = Math.floor(token / size),
    slot = token % size;
  return { entry, slot, page: table[entry], byte: bases[entry] + piece * slot };
}
