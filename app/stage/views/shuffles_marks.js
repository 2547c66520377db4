// The picture of a row in registers, as marks. Left is the tile of scores, each in the colour of its lane. Right is a
// column for each lane of the chosen row: its registers, its own largest score, and the larger one after each shuffle.
// The partners are half of the lanes apart, then a quarter, as in group_max of kernels/device/common.cuh.
import { Marks } from '../core/kinds.js';
import { PALETTE, addsUp, blend, figure, rgb, smallText } from '../core/paint.js';

const ENDS = 2.3; // lines of the picture for m and l
const [MINE, OTHERS] = [0.6, 0.36]; // how much of its colour a lane's thing has
const HUES = [PALETTE.phases.prefill, PALETTE.kernels[2], PALETTE.sequences[5], PALETTE.sequences[3]]; // of a row's lanes
export const PHASES = ['held', 'own', 'shuffle 1', 'shuffle 2', 'weights', 'sum', 'next', 'hand'];
/** Whether a phase is as late as another one. A next tile and the hand show the scores and the shuffles of the max. */
export const after = (/** @type {string} */ phase, /** @type {string} */ other) =>
  ['next', 'hand'].includes(phase) ? PHASES.indexOf(other) < 4 : PHASES.indexOf(phase) >= PHASES.indexOf(other);

/**
 * @param {{width: number, height: number, em: number}} size
 * @param {{rows: number, columns: number, lanes: number, slots: number}} of
 */
export function shufflesLayout({ width, height, em }, { rows, columns, lanes, slots }) {
  const narrow = width < 600,
    rounds = Math.log2(lanes),
    size = narrow || height < 340 ? em : Math.max(1.1 * em, Math.min(height / 36, width / 72)),
    foot = 2.6 * size, // shared memory
    head = 1.8 * size;
  const names = (narrow ? 4.6 : 7) * size,
    small = narrow ? Math.max(4, Math.min(9, (0.26 * height) / rows)) : 0,
    unit = narrow ? (width - names - 2) / columns : Math.min((0.44 * width - names) / columns, 2.4 * size),
    tall = narrow ? small : Math.max(3, Math.min(2.2 * unit, (height - foot - 2.6 * head) / rows)),
    grid = { x: names, y: 2 * head, unit, high: tall };
  const gridEnd = grid.y + rows * tall,
    left = narrow ? 0 : grid.x + columns * unit + 2 * size,
    top = narrow ? gridEnd + 0.6 * head : 0,
    gutter = narrow ? 0 : 6.2 * size,
    gap = narrow ? 5 : 0.9 * size,
    wide = (width - left - gutter - 2 + gap) / lanes - gap;
  // in units: a head, the registers, the own max, the shuffles with their arrows, and m and l
  const units = 1.2 + slots + 1.7 + rounds * 2.4 + ENDS,
    room = height - foot - top - head,
    line = Math.max(1.45 * size, Math.min(room / units, 3 * size)),
    list = { x: left + gutter, y: top + head, wide, gap, line, left, gutter },
    own = list.y + (1.2 + slots + 0.7) * line,
    bottom = own + (1 + rounds * 2.4 + ENDS) * line,
    shared = { y: Math.max(bottom, height - foot), h: foot - 0.5 * size };
  return {
    ...{ width, em: size, narrow, rounds, grid, gridEnd, list, own, slots, shared, columns, rows },
    height: shared.y + foot,
    x: (/** @type {number} */ lane) => list.x + lane * (wide + gap),
    slotY: (/** @type {number} */ slot) => list.y + (1.2 + slot) * line,
    roundY: (/** @type {number} */ round) => own + round * 2.4 * line,
  };
}

/** @typedef {ReturnType<typeof shufflesLayout>} Layout */
/** @typedef {{lane: number, keys: number[], scores: number[], weights: number[], max: number, sum: number}} Lane */

/**
 * @param {Layout} at
 * @param {object} now
 * @param {string} now.phase one of PHASES
 * @param {number} now.tile its number
 * @param {number} now.tiles of the row
 * @param {number} now.first its first key
 * @param {Lane[]} now.lanes of the chosen row
 * @param {number[][]} now.grid the thread of each score of the tile, or -1
 * @param {number} now.row the chosen one
 * @param {number} now.row0 the tile's first one
 * @param {number} now.chosen its place in the tile
 * @param {number} now.warp
 * @param {number} now.before m before the tile
 * @param {number} now.sumBefore l before the tile
 * @param {number} now.m
 * @param {number} now.l
 * @param {number | null} now.lifted the key whose score is made the largest
 * @param {string[]} now.shared the tensors in shared memory
 * @param {Paint} paint
 */
export function shufflesMarks(at, now, paint) {
  const made = new Marks(at.em),
    paper = rgb(paint.background);
  const shade = (/** @type {number} */ n, /** @type {number} */ share) =>
    blend(rgb(HUES[n % HUES.length]), paper, share);
  addTile(made, at, now, paint, shade);
  addLanes(made, at, now, paint, shade);
  addMax(made, at, now, paint, shade);
  addShared(made, at, now, paint, shade);
  return made.list;
}

/** @typedef {Parameters<typeof shufflesMarks>[1]} Now */
/** @typedef {(made: Marks, at: Layout, now: Now, paint: Paint, shade: (n: number, share: number) => string) => void} Add */

/** @type {Add} */
function addTile(made, at, now, paint, shade) {
  const { grid, em } = at,
    fits = Math.min(smallText(em), 0.6 * grid.unit, 0.9 * grid.high),
    digits = fits >= 11 ? fits : 0, // their size
    wide = now.grid[0].length * grid.unit;
  made.text(
    'title',
    [0, 1.1 * em, at.narrow ? at.width : grid.x + wide],
    `scores of tile ${now.tile + 1}, keys ${now.first} to ${now.first + now.grid[0].length - 1}`,
    { bold: true },
  );
  // the lanes of the chosen row over its columns, and next to each row its lanes: so many a row, in order
  made.text('columns are', [grid.x - 0.5 * em, grid.y - 0.5 * em], at.narrow ? 'lane' : 'row: lanes', {
    align: 'right',
  });
  if (grid.unit >= 1.3 * em)
    now.grid[now.chosen].forEach((thread, key) =>
      made.text(`column ${key}`, [grid.x + (key + 0.5) * grid.unit, grid.y - 0.5 * em], `${thread % 32}`, {
        ...{ align: 'center', size: em, bold: true },
      }),
    );
  let warp = -1;
  now.grid.forEach((threads, n) => {
    const y = grid.y + n * grid.high,
      place = [...new Set(threads)].sort((a, b) => a - b),
      own = Math.floor(Math.max(...threads) / 32);
    if (grid.high > em && place[0] >= 0)
      made.text(
        `lanes ${n}`,
        [grid.x - 0.5 * em, y + grid.high / 2 + 0.35 * em],
        `${n === now.chosen ? `row ${now.row}: ` : ''}${place[0] % 32}–${place[place.length - 1] % 32}`,
        { align: 'right', bold: n === now.chosen },
      );
    if (own !== warp && n !== now.chosen) {
      made.text(`warp ${own}`, [0, y + Math.max(grid.high, em) * 0.8], `warp ${own}`, { bold: own === now.warp });
      warp = own;
    }
    threads.forEach((thread, key) => {
      const x = grid.x + key * grid.unit,
        fill = thread < 0 ? paint.panel : shade(place.indexOf(thread), n === now.chosen ? MINE : OTHERS);
      made.rect(`cell ${n} ${key}`, [x, y, grid.unit - 1, grid.high - 1], {
        ...{ fill, datum: { row: now.row0 + n, key: now.first + key } },
      });
      if (thread >= 0 && digits)
        made.text(`lane ${n} ${key}`, [x + grid.unit / 2, y + grid.high / 2 + 0.35 * digits], `${thread % 32}`, {
          ...{ align: 'center', bold: n === now.chosen, size: digits },
        });
    });
  });
  const y = grid.y + now.chosen * grid.high;
  made.rect('chosen', [grid.x - 2, y - 2, wide + 3, grid.high + 3], { stroke: paint.text, width: 2.5 });
  if (grid.high > em) return; // its name is there
  made.text('row is', [grid.x - 0.5 * em, y + grid.high / 2 + 0.35 * em], `row ${now.row}`, {
    bold: true,
    align: 'right',
  });
}

// A column for each lane: its name and its registers.
/** @type {Add} */
function addLanes(made, at, now, paint, shade) {
  const { list, em, grid } = at,
    weighs = after(now.phase, 'weights'),
    holds = weighs ? 'weights' : 'scores',
    title = at.narrow
      ? `row ${now.row}: ${now.lanes.length} lanes and their registers`
      : `row ${now.row}: ${now.lanes.length} lanes (threads) of warp ${now.warp}, each with its own registers`;
  made.text('lanes are', [list.left, list.y - 0.7 * em, at.width - list.left], title, { bold: true });
  if (!at.narrow)
    made.text('registers are', [list.left, at.slotY(0) + list.line * 0.65, list.gutter - em], `registers`, {});
  if (!at.narrow)
    made.text('registers hold', [list.left, at.slotY(1) + list.line * 0.65, list.gutter - em], `hold ${holds}`, {});
  now.lanes.forEach((lane, n) => {
    const x = at.x(n);
    made.rect(`card ${n}`, [x, list.y, list.wide, (1.2 + at.slots) * list.line], { stroke: paint.border });
    made.rect(`head ${n}`, [x, list.y, list.wide, 1.1 * list.line], { fill: shade(n, MINE) });
    made.text(
      `lane ${n}`,
      [x + list.wide / 2, list.y + 0.55 * list.line + 0.35 * em, list.wide - 6],
      `lane ${lane.lane}`,
      {
        ...{ bold: true, align: 'center' },
      },
    );
    lane.keys.forEach((key, slot) => {
      const y = at.slotY(slot),
        rect = [x + 3, y + 1, list.wide - 6, list.line - 3],
        best = lane.scores[slot] === lane.max && now.phase !== 'held' && !weighs,
        value = weighs ? lane.weights[slot] : lane.scores[slot],
        cell = [grid.x + (key - now.first) * grid.unit, grid.y + now.chosen * grid.high, grid.unit, grid.high];
      made.rect(`slot ${n} ${slot}`, rect, {
        ...{
          fill: shade(n, key === now.lifted ? MINE : OTHERS),
          enter: { rect: cell },
          datum: { lane: lane.lane, register: key },
        },
        ...(best ? { stroke: paint.text, width: 2 } : {}),
      });
      const baseline = y + list.line / 2 + 0.35 * em;
      if (list.wide > 7 * em)
        made.text(`key ${n} ${slot}`, [x + 0.5 * em, baseline], `key ${key}`, { alpha: 0.8, size: smallText(em) });
      made.text(
        `value ${n} ${slot} ${weighs} ${now.tile} ${value}`,
        [x + list.wide - 0.6 * em, baseline],
        figure(value, 2),
        {
          ...{ mono: true, align: 'right', bold: best, enter: { alpha: 0 } },
        },
      );
    });
  });
}

// The own max or sum of each lane, then the shuffles, then m or l.
/** @type {Add} */
function addMax(made, at, now, paint, shade) {
  const { list, em } = at;
  if (!after(now.phase, 'own')) {
    made.text('asks', [at.x(0), at.roundY(1), at.width - at.x(0)], 'Which lane knows the largest score of the row?', {
      ...{ bold: true, size: Math.min(1.7 * em, (at.width - at.x(0)) / 23), fill: paint.primary },
    });
    return;
  }
  const sums = now.phase === 'sum',
    name = sums ? 'sum' : 'max',
    combine = sums ? (/** @type {number} */ a, /** @type {number} */ b) => a + b : Math.max,
    rounds = sums ? at.rounds : [...Array(at.rounds).keys()].filter(n => after(now.phase, `shuffle ${n + 1}`)).length;
  let values = now.lanes.map(lane => (sums ? lane.sum : lane.max));
  const best = Math.max(...values),
    high = list.line,
    middle = (/** @type {number} */ n) => at.x(n) + list.wide / 2;
  for (let round = 0; round <= rounds; round++) {
    const y = at.roundY(round),
      apart = now.lanes.length >> round,
      span = round === rounds ? [0.4, 1] : [0, 0.6];
    if (round) {
      const before = values;
      values = values.map((value, n) => combine(value, before[n ^ apart]));
      now.lanes.forEach((_, n) => {
        for (const from of [n, n ^ apart]) {
          const carries = !sums && before[from] === best;
          made.add(`${name} way ${round} ${n} ${from}`, 'way', [0, 0, 0, 0], {
            points: [
              [middle(from), y - 1.4 * list.line + 1],
              [middle(n), y - 2],
            ],
            ...{
              stroke: carries ? paint.primary : from === n ? paint.border : paint.text,
              width: carries ? 3 : from === n ? 1 : 1.6,
            },
            ...{ head: 5, enter: { grown: 0 }, span: [0, 0.6] },
          });
        }
      });
    }
    const partner = apart === 1 ? 'neighbour' : `${apart} lanes away`,
      said = round ? [`shuffle ${round}`, partner] : [`own ${name}`];
    if (!at.narrow)
      said.forEach((text, n) =>
        made.text(
          `${name} line ${round} ${n}`,
          [list.left, y + list.line * 0.65 - (said.length - 1 - 2 * n) * 0.55 * em, list.gutter - 0.4 * em],
          text,
          { bold: !n },
        ),
      );
    values.forEach((value, n) => {
      const holds = !sums && value === best,
        rect = [at.x(n), y, list.wide, high],
        slot = now.lanes[n].scores.indexOf(now.lanes[n].max);
      made.rect(`${name} ${round} ${n}`, rect, {
        fill: holds ? paint.primary : shade(n, OTHERS),
        stroke: holds ? paint.primary : paint.border,
        enter: round
          ? { alpha: 0 }
          : sums
            ? { alpha: 0 }
            : { rect: [at.x(n) + 3, at.slotY(slot) + 1, list.wide - 6, list.line - 3] },
        ...{
          span,
          datum: { said: `${round ? `after shuffle ${round}` : `own ${name}`} of lane ${now.lanes[n].lane}` },
        },
      });
      made.text(
        `${name} of ${round} ${n} ${value}`,
        [at.x(n) + list.wide / 2, y + high / 2 + 0.35 * em],
        figure(value, 2),
        {
          ...{ mono: true, align: 'center', bold: holds || round === rounds, enter: { alpha: 0 }, span },
          ...(holds ? { fill: paint.background } : {}),
        },
      );
    });
  }
  if (rounds < at.rounds) return;
  const so = now.phase === 'next' && now.tile === now.tiles - 1 ? '' : ' so far',
    y = at.roundY(at.rounds) + 1.2 * list.line + 1.1 * em,
    old = Number.isFinite(now.before) && !now.lifted ? `the larger of ${figure(now.before, 4)} (before) and ` : '',
    said = sums ? `l, the row's sum so far = ${figure(now.l, 4)}` : `m${so} = ${old}${figure(best, 4)}`;
  made.text('ends', [list.x, y, at.width - list.x], said, { bold: true, size: 1.15 * em });
  if (now.phase !== 'next') return;
  const all = `l${so} = ${addsUp(now.sumBefore, Math.exp(now.before - now.m), now.l)}`;
  made.text('ends l', [list.x, y + 1.5 * em, at.width - list.x], all, { bold: true, size: 1.15 * em });
}

// Shared memory, which no score of the row visits.
/** @type {Add} */
function addShared(made, at, now, paint) {
  const { shared, em } = at;
  made.rect('shared', [1, shared.y, at.width - 2, shared.h], { fill: paint.panel, stroke: paint.border });
  made.text(
    'shared is',
    [0.8 * em, shared.y + shared.h / 2 + 0.35 * em, at.width - 1.6 * em],
    at.narrow
      ? `shared memory: ${now.shared.join(', ')}. No score, no weight`
      : `shared memory of the block holds ${now.shared.join(', ')}. Scores and weights stored there: 0`,
    { bold: true },
  );
}
