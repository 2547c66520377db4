// The picture of 32 buckets, as marks. Lanes on the left, memory above, banks below. Memory and banks have one x axis:
// the pile in a bank is what lies over it. So a column in one bank is a tower, and a leaning column is a flat layer.
import { Marks } from '../core/kinds.js';
import { PALETTE, rgb } from '../core/paint.js';
import { BANKS, COLUMNS, LANES, placeOf } from './buckets_rule.js';

const LINES = 48; // of memory: 32 rows of 48 words
const WAVES = PALETTE.wavefronts;

/** @param {{width: number, height: number, em: number}} size */
export function bucketsLayout({ width, height, em }) {
  const narrow = width < 600,
    left = (narrow ? 2.2 : 4.4) * em,
    head = 1.8 * em,
    numbers = 1.4 * em, // of the banks, below
    free = Math.max(20 * em, height - 2 * head - numbers),
    pitch = (width - left - 2) / BANKS,
    memory = { y: head, h: 0.46 * free },
    piles = { y: memory.y + memory.h + head, h: 0.54 * free },
    floor = piles.y + piles.h,
    line = memory.h / LINES,
    layer = piles.h / LANES;
  return {
    ...{ width, em, narrow, left, head, numbers, pitch, memory, piles, floor, line, layer },
    cell: Math.max(2, pitch - (narrow ? 1 : 3)),
    x: (/** @type {number} */ bank) => left + bank * pitch,
    pileY: (/** @type {number} */ pile) => floor - (pile + 1) * layer,
    wordY: (/** @type {number} */ word) => memory.y + Math.floor(word / BANKS) * line,
  };
}

/** @typedef {ReturnType<typeof bucketsLayout>} Layout */
/**
 * @typedef {object} Block a word on its way
 * @property {string} id
 * @property {number} row
 * @property {number} column
 * @property {number} bank
 * @property {number} word
 * @property {boolean} late it waits for another word of its bank
 * @property {number[]} lanes
 * @property {number} x
 * @property {number} y
 * @property {number} alpha
 */

/**
 * @param {Layout} at
 * @param {object} now
 * @param {import('./buckets_rule.js').Ask} now.ask
 * @param {number} now.width of a row, on its way
 * @param {number} now.swap of the XOR, on its way from 0 to 1
 * @param {Block[]} now.blocks
 * @param {boolean} now.fallen whether the words are in the banks
 * @param {number} now.top the height of the tallest pile, on its way
 * @param {number} now.tallest its bank
 * @param {string} now.says the big number
 * @param {boolean} now.bad whether it is more than needed
 * @param {number | null} now.lane under the pointer
 * @param {Paint} paint
 */
export function bucketsMarks(at, now, paint) {
  const made = new Marks(at.em),
    { em, cell, memory, piles } = at,
    columns = Math.min(COLUMNS, Math.ceil(now.width));
  const wordAt = (/** @type {number} */ row, /** @type {number} */ column) =>
    row * now.width + column + (placeOf({ ...now.ask, xor: true }, row, column) - column) * now.swap;
  const laneY = (/** @type {number} */ lane) => at.wordY(lane * now.width) + at.line / 2; // of its row
  const cellAt = (/** @type {number} */ word) => [at.x(word % BANKS), at.wordY(word), cell, Math.max(1.5, at.line - 1)];

  made.text(
    'memory is',
    [at.left, 0.7 * at.head],
    at.narrow ? 'a tile, 32 words a line' : 'A tile in shared memory, 32 words a line. Framed: unused words of a row',
    {
      bold: true,
    },
  );
  made.add('memory', 'tile', [at.left, memory.y, at.width - at.left, memory.h], {
    ...{ columns, wordAt, cellAt, light: paint.panel, ink: paint.text, unused: Math.floor(now.width + 1e-6) - COLUMNS },
  });
  made.text('lanes are', [0, 0.7 * at.head], at.narrow ? 'lane' : 'lanes', { bold: true });
  for (let lane = 0; lane < LANES; lane += at.narrow ? 8 : 4)
    made.text(`lane ${lane}`, [0, laneY(lane) + em / 3], `${lane}`);
  for (const block of now.blocks) {
    const [x, y, , h] = cellAt(wordAt(block.row, block.column)),
      fill = block.late ? PALETTE.wrong : WAVES.now,
      lane = block.lanes[0],
      tip = `lane ${block.lanes.length > 1 ? `${lane} to ${block.lanes.at(-1)}` : lane}: word ${block.word} mod 32 = bank ${block.bank}`,
      thing = { datum: { kind: 'word', lane, word: block.word }, tip },
      [fromX, fromY] = [(at.narrow ? 1.4 : 1.8) * em, laneY(lane)];
    made.add(`way ${block.id}`, 'line', [fromX, fromY, x - fromX - 1, y + h / 2 - fromY], {
      ...{ stroke: fill, alpha: now.lane === null ? 0.45 : now.lane === lane ? 1 : 0.1 },
    });
    made.rect(`asked ${block.id}`, [x, y, cell, h], { fill, ...thing });
  }
  made.text(
    'banks are',
    [at.left, piles.y - 0.55 * em],
    at.narrow ? 'banks: a word each a turn' : '32 banks: each gives one word a turn',
    {
      bold: true,
    },
  );
  for (let bank = 0; bank < BANKS; bank++) {
    made.rect(`bank ${bank}`, [at.x(bank), piles.y, cell, piles.h], {
      ...{ fill: paint.panel, datum: { kind: 'bank', bank }, tip: `bank ${bank}` },
    });
    if (!(bank % (at.narrow ? 4 : 1)))
      made.text(`bank ${bank} is`, [at.x(bank) + cell / 2, at.floor + 1.1 * em], `${bank}`, {
        align: 'center',
      });
  }
  made.add('floor', 'line', [at.left, at.floor, at.width - at.left, 0], { stroke: PALETTE.axis, width: 1.5 });
  if (!now.fallen) return made.list;
  for (const block of now.blocks)
    made.rect(`block ${block.id}`, [block.x, block.y, cell, Math.max(2, at.layer - 1)], {
      ...{ fill: block.late ? PALETTE.wrong : WAVES.now, alpha: block.alpha },
      ...{ datum: { kind: 'block', lane: block.lanes[0], word: block.word, bank: block.bank } },
      tip: `word ${block.word} mod 32 = bank ${block.bank}`,
    });
  const size = (at.narrow ? 3 : 4.6) * em,
    high = Math.max(piles.y + 0.9 * size, Math.min(at.pileY(now.top - 1), at.floor) - 0.25 * size);
  made.rect(
    'plate',
    [
      at.x(Math.min(now.tallest + 1, BANKS - 11)) + em / 2,
      high - 0.85 * size,
      now.says.length * 0.56 * size,
      1.1 * size,
    ],
    {
      ...{ fill: paint.panel, alpha: now.says ? 0.85 : 0 },
    },
  );
  made.text('turns', [at.x(Math.min(now.tallest + 1, BANKS - 11)) + em, high], now.says, {
    ...{ size, bold: true, fill: now.bad ? PALETTE.wrong : paint.text, datum: { kind: 'turns' } },
  });
  return made.list;
}

/** @type {import('../core/kinds.js').Kinds} */
export const BUCKETS_KINDS = {
  // The tile's cells, row after row, the darker the later their column.
  tile(g, { rect, columns, wordAt, cellAt, light, ink, unused }) {
    g.fillStyle = light;
    g.fillRect(...rect);
    const [r, b, l] = rgb(ink);
    for (let column = 0; column < columns; column++) {
      g.fillStyle = `rgba(${r}, ${b}, ${l}, ${0.1 + (0.26 * column) / COLUMNS})`;
      for (let row = 0; row < LANES; row++) g.fillRect(...cellAt(wordAt(row, column)));
    }
    g.strokeStyle = ink;
    g.lineWidth = 1;
    for (let column = COLUMNS; column < COLUMNS + unused; column++)
      for (let row = 0; row < LANES; row++) {
        const [x, y, w, h] = cellAt(wordAt(row, column));
        g.strokeRect(x + 0.5, y + 0.5, w - 1, Math.max(0.5, h - 1));
      }
  },
};
