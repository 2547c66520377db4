// The picture of 32 buckets, as marks. Lanes on the left, memory above, banks below. Memory and banks have one x axis:
// the pile in a bank is what lies over it. So a column in one bank is a tower, and a leaning column is a flat layer.
import { Marks } from '../core/kinds.js';
import { PALETTE, rgb } from '../core/paint.js';
import { BANKS, COLUMNS, LANES, placeOf } from './buckets_rule.js';

const [FIRST, LATE] = [PALETTE.wavefronts.before, PALETTE.wrong]; // blue and orange: served in the first turn, and waits
const RULE = 3; // words that a bank names before anything is read
const OVER = 1.6; // banks of room on the right, for padding that sticks out

/** @param {{width: number, height: number, em: number}} size */
export function bucketsLayout({ width, height, em }) {
  const narrow = width < 600,
    size = narrow || height < 340 ? em : Math.max(1.1 * em, Math.min(height / 36, width / 72)),
    left = (narrow ? 2.6 : 6.6) * size,
    head = 1.9 * size,
    numbers = 1.4 * size, // of the banks, below
    free = Math.max(4 * em, height - 2 * head - numbers),
    pitch = (width - left - 2) / (BANKS + OVER),
    memory = { y: head, h: 0.46 * free },
    piles = { y: memory.y + memory.h + head, h: 0.54 * free },
    floor = piles.y + piles.h,
    layer = piles.h / LANES;
  return {
    ...{ width, em: size, narrow, left, head, numbers, pitch, memory, piles, floor, layer },
    cell: Math.max(2, pitch - (narrow ? 1 : 3)),
    every: pitch < 1.25 * size ? 4 : 1, // bank with a number
    x: (/** @type {number} */ bank) => left + bank * pitch,
    /** Where the line of a word is: with longer rows memory has more lines. */
    wordY: (/** @type {number} */ word, /** @type {number} */ rowWidth) =>
      memory.y + (Math.floor(word / BANKS) * memory.h) / Math.max(BANKS, rowWidth),
    pileY: (/** @type {number} */ pile) => floor - (pile + 1) * layer,
  };
}

/** @typedef {ReturnType<typeof bucketsLayout>} Layout */
/**
 * @typedef {object} Block a word on its way
 * @property {number | null} left turns until its bank gives it, null while none does
 * @property {string} id
 * @property {number} row
 * @property {number} bank
 * @property {number} word
 * @property {boolean} late it waits for another word of its bank
 * @property {number[]} lanes
 * @property {number} x
 * @property {number} y
 * @property {number} alpha
 */

const FEW = 4; // rows and columns of the cells that explain the XOR

/**
 * The first cells of the tile, with and without the XOR: their words, their banks, and the column that the lanes read.
 * @param {Layout} at
 * @param {number} room the height of the pane
 * @param {Paint} paint
 */
export function swapMarks(at, room, paint) {
  const made = new Marks(at.em),
    { em, narrow } = at,
    wide = (at.width - 2) / 2 - (narrow ? 0.5 : 1.2) * em,
    names = (narrow ? 2.8 : 3.4) * em,
    cell = { w: (wide - names) / FEW, h: Math.max(1.6 * em, Math.min(5.4 * em, (room - 8.2 * em) / FEW)) },
    two = cell.h > 2.8 * em; // lines in a cell
  [false, true].forEach((xor, n) => {
    const [x, y] = [n * (at.width - wide), 0],
      left = x + names,
      top = y + 4.2 * em,
      banks = Array.from({ length: FEW }, (_, row) => placeOf(xor, row, 0));
    const title = xor ? 'With XOR' : 'Without XOR',
      rule = xor ? ': column c at place c XOR row' : ': column c at place c';
    made.text(`${xor} is`, [x, y + 1.1 * em, wide], `${title}${narrow ? '' : rule}`, {
      ...{ bold: true, size: (narrow ? 1 : 1.15) * em },
    });
    made.text(`${xor} bank is`, [x, top - 0.6 * em], 'bank', { bold: true });
    for (let place = 0; place < FEW; place++)
      made.text(`${xor} bank ${place}`, [left + (place + 0.5) * cell.w, top - 0.6 * em], `${place}`, {
        ...{ bold: true, align: 'center' },
      });
    for (let row = 0; row < FEW; row++) {
      const up = top + row * cell.h;
      made.text(`${xor} row ${row}`, [x, up + cell.h / 2 + 0.35 * em], `row ${row}`);
      for (let column = 0; column < FEW; column++) {
        const place = placeOf(xor, row, column),
          word = row * COLUMNS + place,
          read = !column,
          late = read && !xor && row > 0,
          middle = left + (place + 0.5) * cell.w;
        made.rect(`${xor} cell ${row} ${column}`, [left + place * cell.w, up, cell.w - 3, cell.h - 3], {
          ...{ fill: read ? (late ? LATE : FIRST) : paint.panel, stroke: paint.border },
          ...{
            datum: { kind: 'word', word },
            tip: `row ${row}, column ${column}: word ${word} mod 32 = bank ${place}`,
          },
        });
        const ink = read ? { fill: late ? '#000' : '#fff', bold: true } : {},
          says = two ? [`column ${column}`, `word ${word}`] : [`${word}`];
        says.forEach((text, line) =>
          made.text(
            `${xor} word ${row} ${column} ${line}`,
            [middle - 1, up + cell.h / 2 + (0.35 + 1.3 * (line - (says.length - 1) / 2)) * em, cell.w - 6],
            text,
            { align: 'center', ...ink },
          ),
        );
      }
    }
    const end = top + FEW * cell.h + 1.4 * em;
    const found = `banks ${banks.join(', ')}`,
      more = xor ? 'Two rows differ, so c XOR row differs, too.' : 'And 28 more rows, 28 more columns.';
    (narrow
      ? ['Words of column 0:', found]
      : [`Column 0: ${found}, ... ${xor ? 'No two lanes meet.' : 'They take turns.'}`, more]
    ).forEach((text, line) =>
      made.text(`${xor} says ${line}`, [x, end + 1.5 * line * em, wide], text, {
        ...{ bold: !line, fill: line || xor ? paint.text : LATE },
      }),
    );
  });
  return made.list;
}

/**
 * @param {Layout} at
 * @param {object} now
 * @param {import('./buckets_rule.js').Ask} now.ask
 * @param {number} now.width of a row, on its way
 * @param {number} now.swap of the XOR, on its way from 0 to 1
 * @param {Block[]} now.blocks
 * @param {number} now.out how far the padding sticks out of its rows
 * @param {boolean} now.asks whether the words are still in memory
 * @param {number} now.top the height of the tallest pile, on its way
 * @param {number} now.tallest its bank
 * @param {string} now.says the big number
 * @param {boolean} now.bad whether it is more than needed
 * @param {number | null} now.lane under the pointer
 * @param {Paint} paint
 */
export function bucketsMarks(at, now, paint) {
  const made = new Marks(at.em),
    { em, cell, memory } = at,
    columns = Math.min(COLUMNS, Math.ceil(now.width)),
    line = memory.h / Math.max(BANKS, now.width);
  const wordAt = (/** @type {number} */ row, /** @type {number} */ column) =>
    row * now.width + column + (placeOf(true, row, column) - column) * now.swap;
  const wordY = (/** @type {number} */ word) => at.wordY(word, now.width),
    laneY = (/** @type {number} */ lane) => wordY(lane * now.width) + line / 2, // of its row
    cellAt = (/** @type {number} */ word) => [at.x(word % BANKS), wordY(word), cell, Math.max(1.5, line - 1)];
  const padded = Math.floor(now.width + 1e-6) > COLUMNS || now.out > 0;

  made.text(
    'memory is',
    [at.left, 0.68 * at.head],
    at.narrow ? 'tile in shared memory' : 'a tile in shared memory: 32 rows of words (4 bytes)',
    {
      bold: true,
    },
  );
  if (padded) {
    const said = at.narrow ? 'unused words' : 'unused words (padding)',
      right = at.left + BANKS * at.pitch;
    made.text('unused is', [right, 0.68 * at.head], said, { align: 'right' });
    const x = right - (at.narrow ? 7.6 : 11.4) * em;
    made.rect('unused', [x, 0.68 * at.head - 0.75 * em, 0.8 * em, 0.8 * em], { fill: paint.text });
  }
  if (now.swap > 0)
    made.text(
      'xor is',
      [at.left + BANKS * at.pitch, 0.68 * at.head],
      at.narrow ? 'column c at c XOR r' : 'row r keeps column c at place c XOR r',
      { align: 'right', alpha: now.swap },
    );
  made.add('memory', 'tile', [at.left, memory.y, BANKS * at.pitch, memory.h], {
    ...{ columns, wordAt, cellAt, light: paint.panel, ink: paint.text, unused: Math.floor(now.width + 1e-6) - COLUMNS },
  });
  if (now.out > 0)
    for (let lane = 0; lane < LANES; lane++)
      made.rect(
        `out ${lane}`,
        [at.x(BANKS) - (1 - now.out) * at.pitch, wordY(lane * BANKS), cell, Math.max(1.5, line - 1)],
        {
          ...{ fill: paint.text, alpha: now.out },
        },
      );
  // the bank in which each row begins
  const begins = now.width % 1 === 0 && !now.asks && !at.narrow && now.ask.read === 'column' && now.out === 0;
  made.text('lanes are', [0, 0.68 * at.head], at.narrow || begins ? 'lane' : 'lane (thread)', { bold: true });
  // each so many lanes have a number: an odd one, so that their banks are not all even
  const named = [3, 5, 7].find(every => every * line >= 1.15 * em) ?? 9;
  for (let lane = 0; lane < LANES; lane += named) made.text(`lane ${lane}`, [0, laneY(lane) + em / 3], `${lane}`);
  if (begins) {
    made.text('begins', [at.left - 0.4 * em, 0.68 * at.head], 'bank', { bold: true, align: 'right' });
    for (let lane = 0; lane < LANES; lane += named)
      made.text(`begins ${lane}`, [at.left - 0.4 * em, laneY(lane) + em / 3], `${wordAt(lane, 0) % BANKS}`, {
        ...{ bold: true, align: 'right', fill: now.bad ? LATE : paint.primary },
      });
  }
  /** @type {number[]} */ let served = []; // the cell of the word that is read now
  for (const block of now.blocks) {
    const lane = block.lanes[0],
      [x, y, , h] = cellAt(wordAt(now.ask.read === 'same' ? 0 : block.row, 0)), // lines end at the tile's edge
      serves = block.left === 0,
      done = block.left !== null && block.left < 0,
      fill = block.late ? LATE : FIRST,
      all = block.lanes.length > 1,
      tip = `lane${all ? `s ${lane} to ${block.lanes.at(-1)}` : ` ${lane}`}: word ${block.word} mod 32 = bank ${block.bank}`,
      thing = { datum: { kind: 'word', lane, word: block.word }, tip },
      fromX = (at.narrow ? 1.6 : 2) * em,
      chip = 0.6 * em,
      toX = at.left - (begins ? 2 * em : 2);
    for (const from of block.lanes) {
      const alpha = now.lane === null ? (done ? 0.15 : 1) : now.lane === lane ? 1 : 0.15;
      made.rect(`is ${from}`, [fromX, laneY(from) - line / 2, chip, Math.max(1.5, line - 1)], {
        fill,
        alpha,
        ...thing,
      });
      made.add(`way ${from}`, 'line', [fromX + chip, laneY(from), toX - fromX - chip, y + h / 2 - laneY(from)], {
        ...{ stroke: fill, width: serves ? 4 : 1.5, alpha: serves ? alpha : 0.75 * alpha },
      });
    }
    made.rect(`asked ${block.id}`, [x, y, cell, h], { fill, ...(done ? { alpha: 0.25 } : {}), ...thing });
    if (serves) served = [x - 3, y - 3, cell + 6, h + 6];
  }
  if (served.length) made.rect('served', served, { fill: FIRST, stroke: paint.text, width: 2 });
  addBanks(made, at, now, paint);
  return made.list;
}

/** @type {(made: Marks, at: Layout, now: Parameters<typeof bucketsMarks>[1], paint: Paint) => void} */
function addBanks(made, at, now, paint) {
  const { em, cell, piles } = at,
    title = piles.y - 0.55 * em;
  const key = (
    /** @type {string} */ id,
    /** @type {number} */ x,
    /** @type {string} */ fill,
    /** @type {string} */ said,
  ) => {
    made.rect(`key ${id}`, [x, title - 0.75 * em, 0.8 * em, 0.8 * em], { fill });
    made.text(`key ${id} is`, [x + 1.1 * em, title], said);
  };
  const name = () => {
    made.text(
      'banks are',
      [at.left, title],
      now.asks
        ? at.narrow
          ? '32 banks and their words'
          : '32 banks keep the words: each gives one word a turn. The words of each bank:'
        : at.narrow
          ? '32 banks'
          : '32 banks: each gives one word a turn',
      {
        bold: true,
      },
    );
    const right = at.left + BANKS * at.pitch;
    if (!now.asks) {
      key('first', right - (at.narrow ? 10.5 : 12) * em, FIRST, 'read now');
      key('late', right - 4.6 * em, LATE, 'waits');
    }
  };
  for (let bank = 0; bank < BANKS; bank++) {
    made.rect(`bank ${bank}`, [at.x(bank), piles.y, cell, piles.h], {
      ...{ fill: paint.panel, datum: { kind: 'bank', bank }, tip: `bank ${bank}` },
    });
    if (!(bank % at.every))
      made.text(`bank ${bank} is`, [at.x(bank) + cell / 2, at.floor + 1.1 * em], `${bank}`, { align: 'center' });
  }
  made.add('floor', 'line', [at.left, at.floor, BANKS * at.pitch, 0], { stroke: PALETTE.axis, width: 1.5 });
  if (now.asks) {
    name();
    const { every } = at,
      step = Math.min(2 * em, piles.h / 8),
      top = piles.y + 1.4 * em;
    for (let bank = 0; bank < BANKS; bank += every) {
      for (let row = 0; row < RULE; row++)
        made.text(`in bank ${bank} ${row}`, [at.x(bank) + cell / 2, top + row * step], `${bank + row * BANKS}`, {
          ...{ align: 'center', fill: paint.primary },
        });
      made.text(`in bank ${bank} more`, [at.x(bank) + cell / 2, top + RULE * step], '…', { align: 'center' });
    }
    const said = at.narrow
      ? ['Each word lives in one bank:', 'its number mod 32.']
      : ['Each word lives in one bank: its number mod 32.', 'So a word is in the bank below it.'];
    said.forEach((text, n) =>
      made.text(`rule ${n}`, [at.x(0) + 0.4 * em, top + (RULE + 1.8) * step + n * 2 * em, BANKS * at.pitch], text, {
        ...{ bold: true, size: (at.narrow ? 1.2 : 1.5) * em },
      }),
    );
    return;
  }
  for (const block of now.blocks)
    made.rect(`block ${block.id}`, [block.x, block.y, cell, Math.max(2, at.layer - 1)], {
      ...{ fill: block.late ? LATE : FIRST, alpha: block.alpha },
      ...{ datum: { kind: 'block', lane: block.lanes[0], word: block.word, bank: block.bank } },
      tip: `word ${block.word} mod 32 = bank ${block.bank}`,
    });
  made.rect('names', [at.left, title - 0.95 * em, BANKS * at.pitch, 1.35 * em], { fill: paint.background }); // words fall behind
  name();
  const size = (at.narrow ? 3 : 4.6) * em,
    high = Math.max(piles.y + 0.9 * size, Math.min(at.pileY(now.top - 1), at.floor) - 0.25 * size),
    left = at.x(Math.min(now.tallest + 1, BANKS - 11));
  made.rect('plate', [left + em / 2, high - 0.85 * size, now.says.length * 0.56 * size, 1.1 * size], {
    ...{ fill: paint.panel, alpha: now.says ? 0.85 : 0 },
  });
  made.text('turns', [left + em, high], now.says, {
    ...{ size, bold: true, fill: now.bad ? LATE : paint.text, datum: { kind: 'turns' } },
  });
}

/** @type {import('../core/kinds.js').Kinds} */
export const BUCKETS_KINDS = {
  // The tile's cells, row after row: the later their column, the stronger. An unused word has the colour of text.
  tile(g, { rect, columns, wordAt, cellAt, light, ink, unused }) {
    g.save();
    g.beginPath();
    g.rect(...rect); // rows on their way do not leave it
    g.clip();
    g.fillStyle = light;
    g.fillRect(...rect);
    const [r, b, l] = rgb(ink);
    for (let column = 0; column < columns; column++) {
      g.fillStyle = `rgba(${r}, ${b}, ${l}, ${0.1 + (0.26 * column) / COLUMNS})`;
      for (let row = 0; row < LANES; row++) g.fillRect(...cellAt(wordAt(row, column)));
    }
    g.fillStyle = `rgba(${r}, ${b}, ${l}, 0.85)`;
    for (let column = COLUMNS; column < COLUMNS + unused; column++)
      for (let row = 0; row < LANES; row++) {
        g.fillRect(...cellAt(wordAt(row, column)));
      }
    g.restore();
  },
};
