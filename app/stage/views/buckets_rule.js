// The rule of a load from shared memory, and what the lanes of the picture `buckets` ask for. It has no DOM. A test
// compares it with kernels/trace/memory/model.py.
export const LANES = 32;
export const BANKS = 32;
const WORD = 4; // bytes

/** @typedef {{part: number, bank: number, word: number, turn: number, lanes: number[]}} Word turn: in its pass, by address */

/**
 * @param {(number | null)[]} offsets of 32 lanes in bytes, null for an inactive lane
 * @param {number} width bytes of one lane: 1, 2, 4, 8 or 16
 * @returns {{turns: number, ideal: number, words: Word[]}} turns: wavefronts. ideal: as many as without a conflict.
 */
export function sharedLoad(offsets, width) {
  const parts = passes(offsets, width),
    /** @type {Map<string, Word>} */ words = new Map();
  offsets.forEach((offset, lane) => {
    if (offset === null) return;
    for (let word = Math.floor(offset / WORD); word <= Math.floor((offset + width - 1) / WORD); word++) {
      const key = `${parts[lane]} ${word}`; // lanes with the same word of a pass share it
      if (!words.has(key)) words.set(key, { part: parts[lane], bank: word % BANKS, word, turn: 0, lanes: [] });
      words.get(key)?.lanes.push(lane);
    }
  });
  const piles = new Map(), // 'pass bank' -> its words so far
    fullest = new Map(), // pass -> the words of its fullest bank
    found = [...words.values()].sort((a, b) => a.part - b.part || a.word - b.word);
  for (const one of found) {
    const pile = `${one.part} ${one.bank}`;
    one.turn = piles.get(pile) ?? 0;
    piles.set(pile, one.turn + 1);
    fullest.set(one.part, Math.max(fullest.get(one.part) ?? 0, one.turn + 1));
  }
  const turns = [...fullest.values()].reduce((a, b) => a + b, 0);
  return { turns, ideal: fullest.size, words: found };
}

/** The pass of each lane. 8 bytes take two passes (half-warps), 16 bytes four (quarter-warps), less takes one. */
function passes(/** @type {(number | null)[]} */ offsets, /** @type {number} */ width) {
  const lanes = width === 8 ? 16 : width === 16 ? 8 : LANES,
    parts = offsets.map((_, lane) => Math.floor(lane / lanes));
  if (lanes === LANES) return parts;
  // Neighbouring passes merge if each active lane has the offset of its partner n^1, or each that of n^2.
  const merge = [1, 2].some(step =>
    offsets.every((offset, lane) => offset === null || [null, offset].includes(offsets[lane ^ step])),
  );
  return merge ? parts.map(part => part - (part % 2)) : parts;
}

export const WIDTHS = [30, 48]; // words of a row
export const COLUMNS = 32; // with values: the words of a row after them are padding

/** @typedef {{read: 'column' | 'same', xor: boolean, width: number}} Ask */

/** Where in its row a column lies. With XOR row r keeps column c at c ^ r. */
export const placeOf = (/** @type {boolean} */ xor, /** @type {number} */ row, /** @type {number} */ column) =>
  xor ? column ^ (row % BANKS) : column;

/**
 * Lane r reads the first column of row r, or all lanes read one word of row 0.
 * @param {Ask} ask a swizzled row has no padding, so its width plays no part
 */
export function access(ask) {
  const width = ask.xor ? BANKS : ask.width;
  const offsets = Array.from({ length: LANES }, (_, lane) => {
    const row = ask.read === 'same' ? 0 : lane;
    return WORD * (row * width + placeOf(ask.xor, row, 0));
  });
  const found = sharedLoad(offsets, WORD);
  return { ...found, width, bytes: WORD, offsets, words: found.words.map(word => ({ ...word, late: word.turn > 0 })) };
}
