// The picture of a row in registers, as marks. The row's scores are bars. They drop into the registers of its lanes.
// Below, shuffles carry the largest one to all lanes, or add the weights up. A dashed line in each lane is the max that
// it knows. A lane is a place and never a colour: scores are purple, weights teal, and what has the max is blue.
// The partners are half of the lanes apart, then a quarter, as in group_max of kernels/device/common.cuh.
import { Marks } from '../core/kinds.js';
import { COLOURS, PALETTE, blend, minus, rgb } from '../core/paint.js';

const WARP = 32;
const PALE = 0.4; // of a score that is not its lane's largest
const TEALS = [1, 0.78, 0.56, 0.38]; // of the lanes' parts of a sum
const DASH = [9, 6];
const GONE = [0, 0.08]; // what leaves is gone before the new things come
/** The part of the time in which the things of another layout come to their places, or null. */
const settled = (/** @type {string} */ phase) =>
  ['warp', 'memory', 'gain'].includes(phase) ? [0.08, 0.16] : phase === 'sum' ? [0, 0.25] : null;
/**
 * What a phase shows. bars: of the row, tall in the lanes, or with room for shuffles below. of: the values in the
 * registers. finds: what the shuffles find, after how many of them.
 * @type {Record<string, {bars?: 'row' | 'tall' | 'deep', of: 'S' | 'P', finds?: 'max' | 'sum', rounds?: number}>}
 */
export const PHASES = {
  row: { bars: 'row', of: 'S' },
  own: { bars: 'deep', of: 'S', finds: 'max', rounds: 0 },
  'shuffle 1': { bars: 'deep', of: 'S', finds: 'max', rounds: 1 },
  'shuffle 2': { bars: 'deep', of: 'S', finds: 'max', rounds: 2 },
  warp: { of: 'S' },
  weights: { bars: 'tall', of: 'P' },
  sum: { bars: 'deep', of: 'P', finds: 'sum', rounds: 2 },
  memory: { of: 'S', finds: 'max', rounds: 2 },
  gain: { of: 'S' },
  hand: { bars: 'deep', of: 'S', finds: 'max', rounds: 2 },
};
const EARLY = ['row', 'own']; // the question on the way of a max comes after them

/**
 * @param {{width: number, height: number, em: number}} size
 * @param {{columns: number, lanes: number, slots: number}} of
 * @param {string} phase
 */
export function shufflesLayout({ width, height, em: least }, { columns, lanes, slots }, phase) {
  const { bars, finds } = PHASES[phase],
    narrow = width < 600,
    em = narrow || height < 34 * least ? least : Math.max(1.05 * least, Math.min(height / 34, width / 56)),
    rounds = Math.log2(lanes),
    gutter = (narrow ? 3.6 : 7.2) * em,
    gap = narrow ? 5 : 0.9 * em,
    list = { x: gutter, wide: (width - gutter - 2 + gap) / lanes - gap, gap },
    shared = { y: height - 3 * em, h: 3 * em - 2 },
    pitch = list.wide / slots,
    across = pitch < 3 * em ? Math.ceil(slots / 2) : slots; // cells of registers side by side
  const row = bars === 'row',
    head = 1.8 * em, // of a card: the name of its lane
    cell = { w: list.wide / across, h: (row ? 2.2 : 1.9) * em },
    cells = (slots / across) * cell.h,
    end = (finds === 'sum' ? 3.2 : 0.6) * em, // the result
    room = phase === 'memory' ? height : shared.y - 0.6 * em; // above shared memory
  // own max, and a line of chips after each shuffle
  const lowest = (rounds + 1) * 2 * em + rounds * 2 * em,
    deep = bars === 'deep' ? Math.max(lowest, Math.min(0.4 * room, 0.55 * (room - end - head - cells))) : 0,
    top = row ? 2.2 * em : 0,
    tall = room - top - head - cells - (row ? 4.4 * em : end + deep + (deep ? 0.8 * em : 0)),
    chart = row ? { y: top, h: Math.max(5 * em, tall) } : { y: top + head, h: Math.max(4.5 * em, tall) },
    y = row ? chart.y + chart.h + 3.8 * em : top, // of the cards
    own = chart.y + chart.h + cells + 0.8 * em,
    line = finds ? Math.min(2.5 * em, deep / (2.1 * rounds + 1)) : 0,
    free = phase === 'memory' ? { own: 3.4 * em, line: 2.4 * em, round: (room - 13.2 * em) / rounds } : null;
  return {
    ...{ width, em, narrow, rounds, list, head, line: free?.line ?? line, slots, shared, gutter },
    ...{ chart, cell, across, y, pitch, row, end: room - em },
    own: free?.own ?? own,
    round: free?.round ?? (deep - line) / rounds,
    height: Math.max(height, bars && !row ? chart.y + chart.h + cells + (deep && deep + 0.8 * em) + end + 3.5 * em : 0),
    unit: (width - gutter - 2) / columns,
    x: (/** @type {number} */ lane) => list.x + lane * (list.wide + gap),
    /** The box of a register, in its card. */
    register(/** @type {number} */ lane, /** @type {number} */ slot) {
      const [down, right] = [Math.floor(slot / across), slot % across];
      return [
        list.x + lane * (list.wide + gap) + right * cell.w + 2,
        (row ? y + head : chart.y + chart.h) + down * cell.h + 1,
        cell.w - 4,
        cell.h - 3,
      ];
    },
    roundY: (/** @type {number} */ n) => (free?.own ?? own) + n * (free?.round ?? (deep - line) / rounds),
  };
}

/**
 * The vertical place of a value in the bars of a phase, and the value of a place.
 * @param {Layout} at @param {string} phase @param {number[]} range of the scores
 */
export function scale({ chart, row, em }, phase, range) {
  const [low, high] = PHASES[phase].of === 'P' ? [0, 1.06] : range,
    top = chart.y + 0.5 * em,
    tall = chart.h - (row ? 0.8 : 1.2) * em;
  return {
    toY: (/** @type {number} */ value) => top + ((high - value) / (high - low)) * tall,
    unit: tall / (high - low), // pixels
  };
}

/** @typedef {ReturnType<typeof shufflesLayout>} Layout */
/** @typedef {{lane: number, keys: number[], scores: number[], weights: number[], max: number, sum: number}} Lane */

/**
 * @param {Layout} at
 * @param {object} now
 * @param {string} now.phase
 * @param {number} now.rounds shuffles that are done
 * @param {number} now.first the tile's first key
 * @param {Lane[]} now.lanes of the chosen row
 * @param {number[][]} now.grid the scores of the tile, NaN without one
 * @param {number} now.row the chosen one
 * @param {number} now.row0 the tile's first one
 * @param {number} now.chosen its place in the tile
 * @param {number} now.l
 * @param {number[]} now.range the lowest and the highest score that is drawn
 * @param {number | null} now.lifted the key whose score is moved
 * @param {string[]} now.shared the tensors in shared memory
 * @param {registers.ShufflesMeta['reductions']} now.reductions
 * @param {registers.ShufflesMeta['gain']} now.gain
 * @param {Paint} paint
 */
export function shufflesMarks(at, now, paint) {
  const made = new Marks(at.em),
    { finds } = PHASES[now.phase];
  if (now.phase === 'row') addTile(made, at, now, paint);
  if (now.phase === 'warp') addWarp(made, at, now, paint);
  else if (now.phase === 'gain') addGain(made, at, now, paint);
  else {
    addLanes(made, at, now, paint);
    if (finds) addShuffles(made, at, now, paint);
    if (now.phase === 'memory') addMemory(made, at, now, paint);
    else addEnd(made, at, now, paint);
  }
  if (now.phase !== 'memory') addShared(made, at, now, paint);
  const span = settled(now.phase),
    enters = span ? { span } : {};
  return made.list.map(mark => ({ ...enters, out: GONE, ...mark }));
}

/** @typedef {Parameters<typeof shufflesMarks>[1]} Now */
/** @typedef {(made: Marks, at: Layout, now: Now, paint: Paint) => void} Add */

/** A colour over the page's own. */
const over = (/** @type {string} */ colour, /** @type {Paint} */ paint, /** @type {number} */ share) =>
  blend(rgb(colour), rgb(paint.background), share);
const quiet = (/** @type {Paint} */ paint) => over(paint.text, paint, 0.13); // of a lane's name
/** Of a lane's largest score, on its way: blue once it is the largest of all. */
const chip = (/** @type {boolean} */ holds, /** @type {Paint} */ paint) =>
  holds ? paint.primary : over(COLOURS.S, paint, 0.3);
const onChip = (/** @type {boolean} */ holds, /** @type {Paint} */ paint) => (holds ? paint.background : paint.text);

// The tile of scores as a small square, dark where a score is high: the row of the picture is one of its rows.
/** @type {Add} */
function addTile(made, at, now, paint) {
  const { em, narrow, gutter, chart } = at,
    side = gutter - (narrow ? 0.6 : 1.6) * em,
    top = chart.y + (narrow ? 1.4 : 0.4) * em,
    cell = { w: side / now.grid[0].length, h: side / now.grid.length },
    y = top + now.chosen * cell.h,
    [low, high] = now.range;
  now.grid.forEach((scores, n) => {
    scores.forEach((score, key) =>
      made.rect(`cell ${n} ${key}`, [key * cell.w, top + n * cell.h, cell.w, cell.h], {
        fill: Number.isNaN(score)
          ? paint.panel
          : over(COLOURS.S, paint, Math.max(0.08, Math.min(1, (score - low) / (high - low)))),
        datum: { row: now.row0 + n, key: now.first + key },
        out: [0, 0.2],
      }),
    );
  });
  made.rect('chosen', [1, y - 1, side - 2, cell.h + 2], { stroke: paint.text, width: 2.5 });
  const name = narrow ? ['tile of', 'scores'] : ['a tile of', 'scores S'];
  name.forEach((text, n) => made.text(`tile is ${n}`, [0, top + side + (1.3 + 1.2 * n) * em], text, { bold: !n }));
  made.text(
    'row is',
    [at.list.x, 1.2 * em, at.width - at.list.x],
    narrow ? `scores of query ${now.row}` : `scores of query ${now.row}: how well each key fits it`,
    { bold: true, size: 1.1 * em },
  );
}

// A card for each lane: its name, and its registers with their values. In the phase of the row, the bars are above,
// each with the number of its lane.
/** @type {Add} */
function addLanes(made, at, now, paint) {
  const { list, em, chart, gutter, narrow, row } = at,
    { bars, of, finds } = PHASES[now.phase];
  if (!bars) return;
  const settles = settled(now.phase),
    weighs = of === 'P',
    { toY } = scale(at, now.phase, now.range),
    zero = toY(0),
    cards = at.register(0, at.slots - 1)[1] + at.cell.h - at.y,
    best = Math.max(...now.lanes.map(({ max }) => max)),
    knew = finds === 'max' ? known(now, at.rounds)[now.rounds] : [],
    all = knew.length > 0 && knew.every(one => one === best) && now.rounds > 0,
    label = (/** @type {string} */ id, /** @type {number} */ y, /** @type {string[]} */ said, fill = paint.text) =>
      said.forEach((text, n) =>
        made.text(`${id} ${text}`, [0, y + (0.35 + 1.2 * (n - (said.length - 1) / 2)) * em, gutter - 0.4 * em], text, {
          ...{ bold: !n, size: narrow ? em : 1.05 * em, fill },
        }),
      );
  const cellsAt = (at.register(0, 0)[1] + at.y + cards) / 2;
  label('of registers', cellsAt, narrow ? ['regis-', 'ters'] : ['registers']);
  const named = all ? toY(best) : weighs ? toY(1) : -Infinity, // the line m
    middle = weighs ? toY(0.5) : zero;
  if (all) label('of m', named, narrow ? [`m ${minus(best)}`] : [`m = ${minus(best)}`], paint.primary);
  if (weighs && finds !== 'sum') label('of m', named, narrow ? ['m: 1'] : ['score m:', 'weight 1'], paint.primary);
  if (!row)
    label(
      'of bars',
      Math.max(middle, named + 1.4 * em),
      weighs && !narrow ? ['weights', 'e^(s − m)'] : [weighs ? 'weights' : 'scores'],
    );
  now.lanes.forEach((lane, n) => {
    const x = at.x(n);
    made.rect(`card ${n}`, [x, at.y, list.wide, cards], { fill: paint.panel });
    made.rect(`head ${n}`, [x, at.y, list.wide, at.head - 3], { fill: quiet(paint) });
    made.text(`lane ${n}`, [x + list.wide / 2, at.y + at.head / 2 + 0.25 * em, list.wide - 6], `lane ${lane.lane}`, {
      ...{ bold: true, align: 'center', size: 1.1 * em },
    });
  });
  made.add('zero', 'line', [list.x, zero, at.width - list.x - 2, 0], { stroke: paint.border });
  if (row) label('goes to', chart.y + chart.h + 1.5 * em, [narrow ? 'lane' : 'its lane']);
  now.lanes.forEach((lane, n) => {
    lane.keys.forEach((key, slot) => {
      const cell = at.register(n, slot),
        value = weighs ? lane.weights[slot] : lane.scores[slot],
        wide = row ? at.unit : at.pitch,
        left = row ? list.x + (key - now.first) * wide : at.x(n) + slot * wide,
        thick = (row ? 0.74 : 0.62) * wide,
        end = toY(value),
        rect = [left + (wide - thick) / 2, Math.min(end, zero), thick, Math.max(1.5, Math.abs(end - zero))],
        own = finds === 'max' && lane.scores[slot] === lane.max,
        moves = key === now.lifted,
        // one register after another, but not to another layout
        turn = settles ? 0 : (0.6 * (slot * now.lanes.length + n)) / (at.slots * now.lanes.length),
        way = { span: settles ?? [turn, turn + 0.4], ease: 'both' };
      made.rect(`bar ${n} ${slot}`, rect, {
        ...{ fill: over(weighs ? COLOURS.P : COLOURS.S, paint, finds !== 'max' || own || moves ? 1 : PALE), ...way },
        datum: { lane: lane.lane, register: key },
        ...(moves ? { stroke: paint.text, width: 2 } : {}),
      });
      made.rect(`register ${n} ${slot}`, cell, {
        ...(row ? { stroke: paint.border, dash: [4, 3] } : { fill: paint.background, stroke: paint.border }),
        datum: { lane: lane.lane, register: key, of: 'register' },
      });
      const size = narrow ? Math.max(12, Math.min(1.1 * em, cell[2] / 3.1)) : Math.min(1.15 * em, cell[2] / 3.1);
      if (!row) {
        made.text(
          `value ${n} ${slot} ${weighs} ${value}`,
          [cell[0] + cell[2] / 2, cell[1] + cell[3] / 2 + 0.35 * size, cell[2]],
          minus(value),
          {
            ...{ mono: true, align: 'center', bold: own, size, enter: { alpha: 0 } },
            span: settles ?? [turn + 0.3, turn + 0.4],
          },
        );
        return;
      }
      const tag = [left + 0.08 * wide, chart.y + chart.h + 0.6 * em, 0.84 * wide, 1.7 * em],
        size1 = Math.min(1.05 * em, Math.max(12, wide / 2.2));
      made.rect(`tag ${key}`, tag, { fill: quiet(paint), out: [0, 0.2] });
      made.text(`tag is ${key}`, [left + wide / 2, tag[1] + tag[3] / 2 + 0.35 * size1, tag[2]], `${lane.lane}`, {
        ...{ bold: true, align: 'center', size: size1, out: [0, 0.2] },
      });
    });
    // the max that a lane knows, as a line: the lines of all lanes meet
    const knows = weighs ? 1 : knew[n];
    if (finds !== 'max' && now.phase !== 'weights') return;
    const met = all || weighs;
    made.add(`level ${n}`, 'line', [at.x(n), toY(knows), list.wide + (met && n < 3 ? list.gap : 0), 0], {
      ...{ stroke: met || (now.rounds > 0 && knows === best) ? paint.primary : paint.text, width: 2.5, dash: DASH },
      ...{ enter: { alpha: 0 }, span: [0.35, 0.9] },
    });
  });
}

/** What each lane knows after each round of shuffles, from its own max or sum. */
function known(/** @type {Now} */ now, /** @type {number} */ rounds, sums = false) {
  const values = [now.lanes.map(lane => (sums ? lane.sum : lane.max))];
  for (let round = 1; round <= rounds; round++) {
    const before = values[round - 1],
      apart = before.length >> round;
    values.push(before.map((one, n) => (sums ? one + before[n ^ apart] : Math.max(one, before[n ^ apart]))));
  }
  return values;
}
/** The lanes whose parts a lane has after a round. */
const heard = (/** @type {number} */ lane, /** @type {number} */ round, /** @type {number} */ lanes) =>
  [...Array(lanes).keys()].filter(other => other % (lanes >> round) === lane % (lanes >> round));

// The own max or sum of each lane, then the shuffles. Next to the other way they have half of the room.
/** @type {Add} */
function addShuffles(made, at, now, paint) {
  const { list, em, line, narrow } = at,
    { rounds } = now,
    name = PHASES[now.phase].finds ?? 'max',
    sums = name === 'sum',
    half = halves(at, 0),
    apartFrom = now.phase === 'memory',
    atOnce = sums || apartFrom || now.phase === 'hand', // all shuffles in one step, one after another
    wide = apartFrom ? half.wide : list.wide,
    left = apartFrom ? half.x : at.x,
    values = known(now, at.rounds, sums),
    best = Math.max(...values[0]),
    whole = values[at.rounds][0],
    size = Math.max(em, Math.min(1.5 * em, 0.62 * line, wide / 4.2)),
    middle = (/** @type {number} */ n) => left(n) + wide / 2;
  for (let round = 0; round <= rounds; round++) {
    const y = at.roundY(round),
      apart = now.lanes.length >> round,
      begin = atOnce && round ? (sums ? 0.3 * round : 0.45 * (round - 1)) : 0;
    if (round)
      now.lanes.forEach((_, n) => {
        for (const from of [n, n ^ apart]) {
          const carries = !sums && values[round - 1][from] === best;
          // the way of another max is another way
          made.add(`${name} way ${round} ${n} ${from} ${carries}`, 'way', [0, 0, 0, 0], {
            points: [
              [middle(from), y - at.round + line + 1],
              [middle(n), y - 2],
            ],
            stroke: carries ? paint.primary : from === n ? paint.border : over(paint.text, paint, 0.55),
            width: carries ? 4 : from === n ? 1.2 : 1.8,
            ...{ head: 6, enter: { grown: 0 }, span: [begin, begin + 0.35], out: [0, 0.1] },
          });
        }
      });
    const partner = apart === 1 ? 'neighbours' : `${apart} lanes away`,
      said = narrow
        ? [round ? 'shuffle' : 'own', round ? `${round}` : name]
        : round
          ? [`shuffle ${round}`, partner]
          : [`own ${name}`];
    if (!narrow || !apartFrom)
      said.forEach((text, n) =>
        made.text(
          `${name} line ${round} ${n}`,
          [0, y + line * 0.5 + 0.35 * em - (said.length - 1 - 2 * n) * 0.6 * em, at.gutter - 0.4 * em],
          text,
          { bold: !n, size: narrow ? em : 1.05 * em },
        ),
      );
    values[round].forEach((value, n) => {
      const holds = !sums && rounds > 0 && value === best, // no lane knows before the shuffles
        slot = now.lanes[n].scores.indexOf(now.lanes[n].max),
        late = { span: round ? [begin + 0.3, begin + 0.4] : sums ? [0.15, 0.3] : [0, 0.5] };
      made.rect(`${name} ${round} ${n}`, [left(n), y, wide, line], {
        ...{ fill: sums ? paint.panel : chip(holds, paint), ...late },
        enter: round || sums || apartFrom ? { alpha: 0 } : { rect: at.register(n, slot) },
        datum: {
          said: `${round ? `after shuffle ${round}` : `own ${name}`} of lane ${now.lanes[n].lane}: ${minus(value)}`,
        },
      });
      const parts = wide - 3.1 * size; // left of the number
      let x = left(n);
      for (const one of sums ? heard(n, round, now.lanes.length) : []) {
        const part = (now.lanes[one].sum / whole) * parts;
        made.rect(`part ${round} ${n} ${one}`, [x, y, part, line], {
          ...{ fill: over(COLOURS.P, paint, TEALS[one % TEALS.length]), enter: { alpha: 0 }, ...late },
        });
        x += part;
      }
      const x1 = sums ? left(n) + wide - 0.4 * em : middle(n);
      made.text(`${name} of ${round} ${n} ${value}`, [x1, y + line / 2 + 0.35 * size], minus(value), {
        ...{ mono: true, align: sums ? 'right' : 'center', bold: holds || round === at.rounds, size },
        ...{ enter: { alpha: 0 }, span: round ? [begin + 0.35, begin + 0.4] : sums ? [0.2, 0.3] : [0.4, 0.6] },
        ...(sums ? {} : { fill: onChip(holds, paint) }),
      });
    });
  }
}

// What the step ends with: the question on the way of the max, or l.
/** @type {Add} */
function addEnd(made, at, now, paint) {
  const { list, em, narrow, gutter, end } = at,
    { phase } = now,
    most = at.width - list.x,
    large = Math.min(2 * em, most / 12),
    late = { enter: { alpha: 0 }, span: [0.9, 1], out: [0, 0.05] };
  if (phase === 'own')
    made.text(
      'asks',
      [list.x, at.roundY(1) + 0.7 * at.line, most],
      'How does each lane learn the largest of all four?',
      {
        ...{ bold: true, size: Math.min(1.7 * em, most / 23), fill: paint.primary, ...late },
      },
    );
  if (phase !== 'sum') return;
  const is = minus(now.l),
    said = narrow ? 'all lanes know it' : 'the sum of all weights: all four lanes know it';
  made.text('is l', [0, end + 0.1 * em, gutter - 0.3 * em], 'l', { bold: true, size: 1.6 * em, ...late });
  made.text(`ends ${is}`, [list.x, end + 0.1 * em], is, { bold: true, size: large, fill: paint.primary, ...late });
  const x = list.x + 0.62 * large * (is.length + 0.6);
  made.text('ends with', [x, end, at.width - x], said, { bold: true, size: 1.15 * em, ...late });
}

/** The boxes of a half of the picture: 0 left, 1 right. */
function halves(/** @type {Layout} */ { width, list, narrow, em, gutter }, /** @type {number} */ n) {
  const room = (width - 8 - (narrow ? 0.8 : 2) * em) / 2,
    names = narrow ? 0 : gutter,
    gap = narrow ? 3 : 0.5 * list.gap,
    start = n * (width - 8 - room),
    wide = (room - names + gap) / 4 - gap;
  return { start, wide, room, x: (/** @type {number} */ lane) => start + names + lane * (wide + gap) };
}

// The same max through shared memory, next to the shuffles: each lane writes, waits for the others, and reads all.
/** @type {Add} */
function addMemory(made, at, now, paint) {
  const { em, line, narrow } = at,
    { start, wide, room, x } = halves(at, 1),
    values = now.lanes.map(({ max }) => max),
    best = Math.max(...values),
    rows = [0, 0.78, 2].map(at.roundY),
    middle = (/** @type {number} */ n) => x(n) + wide / 2,
    size = Math.max(em, Math.min(1.4 * em, 0.6 * line, wide / 4.4));
  const late = (/** @type {number} */ from) => ({ enter: { alpha: 0 }, span: [from, from + 0.06], out: [0, 0.1] });
  const name = (/** @type {string} */ text, /** @type {number} */ y, bold = true) => {
    if (!narrow) made.text(`mem ${text}`, [start, y + 0.35 * em, at.gutter - 0.6 * em], text, { bold, ...late(0.1) });
  };
  ['by shuffles', 'by shared memory'].forEach((text, n) =>
    made.text(`way is ${n}`, [halves(at, n).start, 1.7 * em, room], text, {
      ...{ bold: true, size: narrow ? 1.2 * em : 1.6 * em, ...(n ? {} : { fill: paint.primary }) },
    }),
  );
  made.add('between', 'line', [start - (narrow ? 0.4 : 1) * em, 0.6 * em, 0, rows[2] + line + 2.6 * em], {
    stroke: paint.border,
  });
  const box = [x(0) - 5, rows[1] - 5, 4 * (x(1) - x(0)) - (x(1) - x(0) - wide) + 10, line + 10],
    gate = rows[1] + line + 10;
  made.rect('mem box', box, { fill: paint.panel, stroke: paint.text, width: 1.5, ...late(0.1) });
  made.rect('mem gate', [box[0], gate, box[2], 1.25 * em], { fill: PALETTE.wavefronts.now, ...late(0.45) });
  made.text('mem gate is', [box[0] + box[2] / 2, gate + em, box[2]], narrow ? 'wait' : 'wait for all lanes', {
    ...{ fill: '#000', bold: true, align: 'center', ...late(0.45) },
  });
  name('own max', rows[0] + line / 2);
  name('write', (rows[0] + line + rows[1]) / 2);
  name('shared', rows[1] + 0.5 * line - 0.6 * em);
  name('memory', rows[1] + 0.5 * line + 0.6 * em);
  name('read', (gate + 1.25 * em + rows[2]) / 2);
  name('max', rows[2] + line / 2);
  values.forEach((value, n) => {
    const holds = value === best,
      from = rows[1] + line + 11 + 1.25 * em;
    made.rect(`mem own ${n}`, [x(n), rows[0], wide, line], {
      ...{ fill: chip(holds, paint), ...late(0) },
    });
    made.add(`mem write ${n}`, 'way', [0, 0, 0, 0], {
      points: [
        [middle(n), rows[0] + line + 1],
        [middle(n), rows[1] - 2],
      ],
      ...{
        stroke: holds ? paint.primary : over(paint.text, paint, 0.55),
        width: holds ? 3.5 : 1.8,
        enter: { grown: 0 },
        span: [0.15, 0.35],
      },
    });
    made.rect(`mem slot ${n}`, [x(n), rows[1], wide, line], {
      ...{ fill: chip(holds, paint), ...late(0.33) },
    });
    for (let to = 0; to < values.length; to++)
      made.add(`mem read ${n} ${to}`, 'way', [0, 0, 0, 0], {
        points: [
          [middle(n), from],
          [middle(to), rows[2] - 2],
        ],
        ...{ stroke: holds ? paint.primary : over(paint.text, paint, 0.55), width: holds ? 3 : 1, head: 4 },
        ...{ enter: { grown: 0 }, span: [0.6, 0.85] },
      });
    made.rect(`mem end ${n}`, [x(n), rows[2], wide, line], { fill: paint.primary, ...late(0.85) });
    for (const [row, said, when] of [
      [0, value, 0],
      [1, value, 0.33],
      [2, best, 0.88],
    ])
      made.text(`mem value ${row} ${n}`, [middle(n), rows[row] + line / 2 + 0.35 * size], minus(said), {
        ...{ mono: true, align: 'center', size, bold: said === best, ...late(when) },
        fill: onChip(said === best, paint),
      });
  });
  const y = rows[2] + line + 2.6 * em; // what a lane does
  [
    [`${at.rounds} shuffles`, 'by each lane'],
    [narrow ? `write, wait, ${now.lanes.length} reads` : `1 write, 1 wait, ${now.lanes.length} reads`, 'by each lane'],
  ].forEach(([text, whose], n) => {
    const left = halves(at, n).start;
    made.text(`counts ${n}`, [left, y, room], text, {
      ...{ bold: true, size: (narrow ? 1.1 : 1.7) * em, fill: n ? paint.text : paint.primary, ...late(0.9) },
    });
    made.text(`counts by ${n}`, [left, y + 1.6 * em, room], whose, { bold: true, ...late(0.9) });
  });
}

// A row for all lanes of a warp: each shuffle doubles the lanes that know its max. Below, the cycles of both ways.
/** @type {Add} */
function addWarp(made, at, now, paint) {
  const { em, narrow, shared } = at,
    pale = over(COLOURS.S, paint, PALE),
    rounds = Math.log2(WARP),
    left = narrow ? 2.2 * em : 9.5 * em,
    unit = (at.width - left - 2) / WARP,
    top = 3.4 * em,
    times = now.reductions ? shared.y - 6.8 * em : shared.y,
    pitch = (times - top - 0.4 * em) / (rounds + 0.6),
    high = 0.5 * pitch,
    owner = now.lanes.reduce((best, lane) => (lane.max > best.max ? lane : best)).lane;
  made.text(
    'warp is',
    [0, 1.6 * em, at.width],
    narrow ? 'a row for all 32 lanes' : 'If all 32 lanes of a warp share one row:',
    { bold: true, size: 1.3 * em },
  );
  let knows = new Set([owner]);
  for (let round = 0; round <= rounds; round++) {
    const y = top + round * pitch,
      before = knows,
      begin = (0.8 * Math.max(0, round - 1)) / rounds,
      apart = WARP >> round;
    if (round) knows = new Set([...before].flatMap(lane => [lane, lane ^ apart]));
    made.text(
      `warp count ${round}`,
      [0, y + high / 2 + 0.35 * em],
      narrow ? `${knows.size}` : `${knows.size} lane${round ? 's know' : ' knows'}`,
      {
        ...{ bold: true, size: (narrow ? 1.3 : 1.2) * em },
        ...(round ? { enter: { alpha: 0 }, span: [begin + 0.15, begin + 0.2] } : {}),
      },
    );
    if (round)
      for (const from of before)
        made.add(`warp way ${round} ${from}`, 'way', [0, 0, 0, 0], {
          points: [
            [left + (from + 0.5) * unit, y - pitch + high + 1],
            [left + ((from ^ apart) + 0.5) * unit, y - 2],
          ],
          ...{
            stroke: paint.primary,
            width: 2,
            head: narrow ? 2.5 : 4,
            enter: { grown: 0 },
            span: [begin, begin + 0.16],
          },
        });
    for (let lane = 0; lane < WARP; lane++)
      made.rect(`warp ${round} ${lane}`, [left + lane * unit, y, unit - (narrow ? 1 : 3), high], {
        ...{ fill: knows.has(lane) ? paint.primary : pale },
        datum: { said: `lane ${lane}: ${knows.has(lane) ? 'knows the max' : 'knows a smaller one'}` },
        ...(round ? { enter: { fill: pale }, span: [begin + 0.14, begin + 0.2] } : {}),
      });
    if (round && !narrow)
      made.text(`warp shuffle ${round}`, [0, y - (pitch - high) / 2 + 0.35 * em], `shuffle ${round}`, {});
  }
  if (!now.reductions) return;
  const { cycles, said, title, ways } = now.reductions,
    late = { enter: { alpha: 0 }, span: [0.9, 1] },
    longest = Math.max(...cycles);
  made.text('times are', [0, times + 0.8 * em, at.width - 4], title, { bold: true, ...late });
  cycles.forEach((count, n) => {
    const y = times + (1.5 + 2.4 * n) * em,
      bar = [left, y, ((at.width - left - 2) * count) / longest, 2 * em],
      fill = n ? PALETTE.wavefronts.now : paint.primary;
    if (!narrow) made.text(`time by ${n}`, [0, y + 1.35 * em, left - em], ways[n], { bold: true, ...late });
    made.rect(`time ${n}`, bar, { fill, enter: { rect: [left, y, 0, bar[3]] }, span: [0.85, 1] });
    made.text(`time is ${n}`, [left + 0.6 * em, y + 1.4 * em], narrow ? `${ways[n]}: ${said[n]}` : said[n], {
      ...{ bold: true, size: 1.15 * em, fill: n ? '#000' : paint.background, ...late },
    });
  });
}

// The recorded times: one pass, with padded rows, and with rows in registers.
/** @type {Add} */
function addGain(made, at, now, paint) {
  if (!now.gain) return;
  const { us, said, names, factors, notes } = now.gain,
    { em, narrow, width, shared } = at,
    wraps = new RegExp(`.{1,${Math.floor(width / (0.5 * em))}}(?: |$)`, 'g'),
    lines = notes.flatMap(note => note.match(wraps) ?? []),
    below = 1.55 * em * lines.length,
    each = (shared.y - below - 1.6 * em) / us.length,
    most = width - (narrow ? 9 : 15) * em, // of a bar, left of its time
    longest = Math.max(...us);
  us.forEach((one, n) => {
    const y = n * each + 0.32 * each,
      bar = [0, y, (most * one) / longest, 0.46 * each],
      last = n === us.length - 1,
      fill = last ? paint.primary : paint.text,
      middle = y + bar[3] / 2,
      begin = 0.15 + 0.25 * n,
      late = { enter: { alpha: 0 }, span: [begin + 0.2, begin + 0.3] };
    made.text(`gain of ${n}`, [0, y - 0.5 * em, width], names[n], { bold: true, size: 1.2 * em, fill });
    made.rect(`gain ${n}`, bar, {
      fill: last ? paint.primary : over(paint.text, paint, 0.3),
      ...{ enter: { rect: [0, y, 0, bar[3]] }, span: [begin, begin + 0.25] },
    });
    made.text(`gain is ${n}`, [bar[2] + 0.8 * em, middle + 0.45 * em], said[n], {
      ...{ bold: true, size: (narrow ? 1.1 : 1.35) * em, fill, ...late },
    });
    made.text(`gain factor ${n}`, [bar[2] + (narrow ? 5.2 : 7) * em, middle + 0.6 * em], factors[n], {
      ...{ bold: true, size: (narrow ? 1.3 : 2) * em, fill, ...late },
    });
  });
  lines.forEach((line, n) =>
    made.text(`gain note ${n}`, [0, us.length * each + (1.3 + 1.5 * n) * em, width - 2], line, {}),
  );
}

// Shared memory: it has the tiles, and no score or weight of the row.
/** @type {Add} */
function addShared(made, at, now, paint) {
  const { shared, em, narrow, width } = at,
    middle = shared.y + shared.h / 2,
    side = 0.66 * shared.h;
  made.rect('shared', [1, shared.y, width - 2, shared.h], { fill: paint.panel, stroke: paint.border });
  const names = narrow ? ['shared', 'memory'] : ['shared memory'];
  names.forEach((text, n) =>
    made.text(`shared ${n}`, [0.7 * em, middle + (0.35 + 1.2 * (n - (names.length - 1) / 2)) * em], text, {
      bold: true,
    }),
  );
  let x = (narrow ? 5 : 8.6) * em;
  for (const name of now.shared) {
    made.rect(`holds ${name}`, [x, middle - side / 2, side, side], { fill: /** @type {any} */ (COLOURS)[name] });
    made.text(`holds ${name} is`, [x + side / 2, middle + 0.35 * em], name, {
      align: 'center',
      bold: true,
      fill: '#fff',
    });
    x += 1.15 * side;
  }
  if (EARLY.includes(now.phase)) return; // the question asks it
  x += 0.8 * em;
  const each = Math.min((width - x - 0.6 * em) / 2, 7.5 * em),
    size = 1.9 * em;
  ['scores', 'weights'].forEach((text, n) => {
    made.text(`none ${n}`, [x + n * each, middle + 0.36 * size], '0', { bold: true, size, fill: paint.primary });
    made.text(`none of ${n}`, [x + n * each + 1.5 * em, middle + 0.35 * em, each - 1.6 * em], text, { bold: true });
  });
  if (width - x > 32 * em)
    made.text('none is', [x + 2 * each, middle + 0.35 * em, width - x - 2 * each], 'they stay in registers');
}
