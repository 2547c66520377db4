// The picture of a row in registers, as marks. The row's scores are bars. They drop into the registers of its lanes.
// Below, shuffles carry the largest one to all lanes, or add the weights up. A line in each lane has the max that it
// knows.
// The partners are half of the lanes apart, then a quarter, as in group_max of kernels/device/common.cuh.
import { Marks } from '../core/kinds.js';
import { COLOURS, PALETTE, blend, minus, rgb, smallText } from '../core/paint.js';

const WARP = 32;
// of the lanes: no part of attention and no max has one of them, and black text is clear on each
const HUES = [PALETTE.wavefronts.now, PALETTE.sequences[3], PALETTE.peers[4], PALETTE.axis];
const GONE = [0, 0.08]; // what leaves is gone before the new things come
/** The part of the time in which the things of another layout come to their places, or null. */
const settled = (/** @type {string} */ phase) =>
  ['warp', 'memory'].includes(phase) ? [0.08, 0.16] : phase === 'sum' ? [0, 0.25] : null;
/**
 * What a phase shows. bars: of the row, tall in the lanes, or with room for shuffles below. of: the values in the
 * registers. finds: what the shuffles find, after how many of them.
 * @type {Record<string, {bars?: 'row' | 'tall' | 'deep', of: 'S' | 'P', finds?: 'max' | 'sum', rounds?: number}>}
 */
export const PHASES = {
  row: { bars: 'row', of: 'S' },
  held: { bars: 'tall', of: 'S' },
  own: { bars: 'deep', of: 'S', finds: 'max', rounds: 0 },
  'shuffle 1': { bars: 'deep', of: 'S', finds: 'max', rounds: 1 },
  'shuffle 2': { bars: 'deep', of: 'S', finds: 'max', rounds: 2 },
  warp: { of: 'S' },
  weights: { bars: 'tall', of: 'P' },
  sum: { bars: 'deep', of: 'P', finds: 'sum', rounds: 2 },
  last: { bars: 'tall', of: 'P' },
  memory: { of: 'S', finds: 'max', rounds: 2 },
  hand: { bars: 'deep', of: 'S', finds: 'max', rounds: 2 },
};
const EARLY = ['row', 'held', 'own']; // the question on the way of a max comes after them

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
    head = 1.7 * em, // of a card: the name of its lane
    cell = { w: list.wide / across, h: (row ? 2.2 : 1.9) * em },
    cells = (slots / across) * cell.h,
    end = bars === 'tall' ? 3.6 * em : 3.4 * em, // the result
    room = phase === 'memory' ? height : shared.y - 0.6 * em; // above shared memory
  // own max, and a line of chips after each shuffle
  const lowest = (rounds + 1) * 2 * em + rounds * 2 * em,
    deep = bars === 'deep' ? Math.max(lowest, Math.min(0.4 * room, 0.55 * (room - end - head - cells))) : 0,
    top = row ? 2.2 * em : 0,
    tall = room - top - head - cells - (row ? 3.6 * em : end + deep + (deep ? 0.8 * em : 0)),
    chart = row ? { y: top, h: Math.max(5 * em, tall) } : { y: top + head, h: Math.max(4.5 * em, tall) },
    y = row ? chart.y + chart.h + 3 * em : top, // of the cards
    own = chart.y + chart.h + cells + 0.8 * em,
    line = finds ? Math.min(2.5 * em, deep / (2.1 * rounds + 1)) : 0,
    free = phase === 'memory' ? { own: 3.4 * em, line: 2.4 * em, round: (room - 11.6 * em) / rounds } : null;
  return {
    ...{ width, em, narrow, rounds, list, head, line: free?.line ?? line, slots, shared, gutter },
    ...{ chart, cell, across, y, pitch, row, end: room - (bars === 'tall' ? 1.2 : 1) * em },
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

/** @typedef {ReturnType<typeof shufflesLayout>} Layout */
/** @typedef {{lane: number, keys: number[], scores: number[], weights: number[], max: number, sum: number}} Lane */

/**
 * @param {Layout} at
 * @param {object} now
 * @param {string} now.phase
 * @param {number} now.tile its number
 * @param {number} now.first its first key
 * @param {Lane[]} now.lanes of the chosen row
 * @param {number[][]} now.grid the thread of each score of the tile, or -1
 * @param {number} now.row the chosen one
 * @param {number} now.row0 the tile's first one
 * @param {number} now.chosen its place in the tile
 * @param {number} now.before m before the tile
 * @param {number} now.m
 * @param {number} now.l
 * @param {number[]} now.parts what each tile so far adds to l, against the m of now
 * @param {number} now.most the largest l of the row
 * @param {number[]} now.range the lowest and the highest score that is drawn
 * @param {number | null} now.lifted the key whose score is made the largest
 * @param {string[]} now.shared the tensors in shared memory
 * @param {Paint} paint
 */
export function shufflesMarks(at, now, paint) {
  const made = new Marks(at.em),
    { finds } = PHASES[now.phase],
    shade = (/** @type {number} */ n) => HUES[n % HUES.length];
  if (now.phase === 'row') addTile(made, at, now, paint, shade);
  if (now.phase === 'warp') addWarp(made, at, now, paint, shade);
  else {
    addLanes(made, at, now, paint, shade);
    if (finds) addShuffles(made, at, now, paint, shade);
    if (now.phase === 'memory') addMemory(made, at, now, paint, shade);
    else addEnd(made, at, now, paint, shade);
  }
  if (now.phase !== 'memory') addShared(made, at, now, paint, shade);
  const span = settled(now.phase),
    enters = span ? { span } : {};
  return made.list.map(mark => ({ ...enters, out: GONE, ...mark }));
}

/** @typedef {Parameters<typeof shufflesMarks>[1]} Now */
/** @typedef {(made: Marks, at: Layout, now: Now, paint: Paint, shade: (n: number) => string) => void} Add */

// The tile of scores as a small square: the row of the picture is one of its rows.
/** @type {Add} */
function addTile(made, at, now, paint, shade) {
  const { em, narrow, gutter, chart } = at,
    side = gutter - (narrow ? 0.6 : 1.6) * em,
    top = chart.y + (narrow ? 1.4 : 0.4) * em,
    cell = { w: side / now.grid[0].length, h: side / now.grid.length },
    y = top + now.chosen * cell.h;
  now.grid.forEach((threads, n) => {
    const place = [...new Set(threads)].sort((a, b) => a - b);
    threads.forEach((thread, key) =>
      made.rect(`cell ${n} ${key}`, [key * cell.w, top + n * cell.h, cell.w, cell.h], {
        fill: thread < 0 ? paint.panel : shade(place.indexOf(thread)),
        datum: { row: now.row0 + n, key: now.first + key },
        out: [0, 0.2],
      }),
    );
  });
  made.rect('chosen', [1, y - 1, side - 2, cell.h + 2], { stroke: paint.text, width: 2.5 });
  const name = narrow ? ['tile of', 'scores'] : ['a tile of', 'scores S'];
  name.forEach((text, n) => made.text(`tile is ${n}`, [0, top + side + (1.3 + 1.2 * n) * em], text, { bold: !n }));
  const said = `row ${now.row}: how well query ${now.row} fits each of ${now.grid[0].length} keys`;
  made.text(
    'row is',
    [at.list.x, 1.2 * em, at.width - at.list.x],
    narrow ? `row ${now.row}: its ${now.grid[0].length} scores` : said,
    {
      ...{ bold: true, size: 1.1 * em },
    },
  );
}

// A card for each lane: its name, and its registers with their values. In the phase of the row, the bars are above.
/** @type {Add} */
function addLanes(made, at, now, paint, shade) {
  const { list, em, chart, gutter, narrow, row } = at,
    { bars, of, finds } = PHASES[now.phase];
  if (!bars) return;
  const settles = settled(now.phase),
    weighs = of === 'P',
    [low, high] = weighs ? [0, 1.06] : now.range,
    inside = { y: chart.y + 0.5 * em, h: chart.h - (row ? 1.8 : 1.2) * em },
    toY = (/** @type {number} */ value) => inside.y + ((high - value) / (high - low)) * inside.h,
    zero = toY(0),
    cards = at.register(0, at.slots - 1)[1] + at.cell.h - at.y,
    best = Math.max(...now.lanes.map(({ max }) => max)),
    rounds = PHASES[now.phase].rounds ?? 0,
    knew = finds === 'max' ? known(now, at.rounds)[rounds] : [],
    label = (/** @type {string} */ id, /** @type {number} */ y, /** @type {string[]} */ said) =>
      said.forEach((text, n) =>
        made.text(`${id} ${text}`, [0, y + (0.35 + 1.2 * (n - (said.length - 1) / 2)) * em, gutter - 0.4 * em], text, {
          ...{ bold: !n, size: narrow ? em : 1.05 * em },
        }),
      );
  const cellsAt = (at.register(0, 0)[1] + at.y + cards) / 2;
  if (narrow) label('of registers', cellsAt, ['regis-', 'ters']);
  else label('of registers', cellsAt, row ? ['registers', 'of each lane'] : ['registers']);
  if (!row)
    label('of bars', toY(weighs ? 0.5 : 0), weighs ? ['weights', ...(narrow ? [] : ['e^(s − m)'])] : ['scores']);
  now.lanes.forEach((lane, n) => {
    const x = at.x(n);
    made.rect(`card ${n}`, [x, at.y, list.wide, cards], { fill: paint.panel });
    made.rect(`head ${n}`, [x, at.y, list.wide, at.head - 3], { fill: shade(n) });
    made.text(`lane ${n}`, [x + list.wide / 2, at.y + at.head / 2 + 0.3 * em, list.wide - 6], `lane ${lane.lane}`, {
      ...{ bold: true, align: 'center', size: 1.1 * em, fill: '#000' },
    });
  });
  made.add('zero', 'line', [list.x, zero, at.width - list.x - 2, 0], { stroke: paint.border });
  now.lanes.forEach((lane, n) => {
    lane.keys.forEach((key, slot) => {
      const cell = at.register(n, slot),
        value = weighs ? lane.weights[slot] : lane.scores[slot],
        wide = row ? at.unit : at.pitch,
        left = row ? list.x + (key - now.first) * wide : at.x(n) + slot * wide,
        thick = (row ? 0.78 : 0.62) * wide,
        end = toY(value),
        rect = [left + (wide - thick) / 2, Math.min(end, zero), thick, Math.max(1.5, Math.abs(end - zero))],
        own = finds === 'max' && lane.scores[slot] === lane.max,
        // one register after another, but not to another layout
        turn = settles ? 0 : (0.6 * (slot * now.lanes.length + n)) / (at.slots * now.lanes.length),
        way = { span: settles ?? [turn, turn + 0.4], ease: 'both' };
      made.rect(`bar ${n} ${slot}`, rect, {
        ...{ fill: shade(n), ...way, datum: { lane: lane.lane, register: key } },
        ...(own || key === now.lifted ? { stroke: paint.text, width: 2 } : {}),
      });
      made.rect(`register ${n} ${slot}`, cell, {
        ...(row ? { stroke: paint.border, dash: [4, 3] } : { fill: paint.background, stroke: paint.border }),
        datum: { lane: lane.lane, register: key, of: 'register' },
      });
      const size = narrow ? Math.max(12, Math.min(1.1 * em, cell[2] / 3.1)) : Math.min(1.15 * em, cell[2] / 3.1);
      if (!row)
        made.text(
          `value ${n} ${slot} ${weighs} ${now.tile} ${value}`,
          [cell[0] + cell[2] / 2, cell[1] + cell[3] / 2 + 0.35 * size, cell[2]],
          minus(value),
          {
            mono: true,
            align: 'center',
            bold: own,
            size,
            enter: { alpha: 0 },
            span: settles ?? [turn + 0.3, turn + 0.4],
          },
        );
      else if (wide >= 2.4 * em || !(key % 4)) {
        const center = rect[0] + thick / 2;
        made.text(`key ${key}`, [center, chart.y + chart.h + em], narrow ? `${key}` : `key ${key}`, {
          ...{ align: 'center', size: smallText(em), out: [0, 0.2] },
        });
        if (wide >= 2.4 * em)
          made.text(`score ${key}`, [center, value > 0 ? end - 0.35 * em : end + em], minus(value), {
            ...{ mono: true, align: 'center', size: Math.min(1.05 * em, wide / 3.2), out: [0, 0.2] },
          });
      }
    });
    if (finds !== 'max') return;
    // the max that a lane knows, as a line: the lines of all lanes meet
    const knows = knew[n],
      all = knows === best && rounds > 0;
    made.add(`level ${n}`, 'line', [at.x(n), toY(knows), list.wide + (all && n < 3 ? list.gap : 0), 0], {
      ...{ stroke: all ? paint.primary : paint.text, width: all ? 4 : 2.5, enter: { alpha: 0 }, span: [0.35, 0.9] },
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

// The own max or sum of each lane, then the shuffles. Beside the other way they have half of the room.
/** @type {Add} */
function addShuffles(made, at, now, paint, shade) {
  const { list, em, line, narrow } = at,
    { finds: name = 'max', rounds = 0 } = PHASES[now.phase],
    sums = name === 'sum',
    half = halves(at, 0),
    apartFrom = now.phase === 'memory',
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
      begin = sums ? (0.6 * round) / at.rounds : 0; // the shuffles of the sum in one step, one after another
    if (round)
      now.lanes.forEach((_, n) => {
        for (const from of [n, n ^ apart]) {
          const carries = !sums && values[round - 1][from] === best;
          made.add(`${name} way ${round} ${n} ${from}`, 'way', [0, 0, 0, 0], {
            points: [
              [middle(from), y - at.round + line + 1],
              [middle(n), y - 2],
            ],
            ...{
              stroke: carries ? paint.primary : from === n ? paint.border : paint.text,
              width: carries ? 4 : from === n ? 1.2 : 2,
            },
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
        late = { span: round ? [begin + 0.3, begin + 0.4] : sums ? [0.25, 0.4] : [0, 0.5] };
      made.rect(`${name} ${round} ${n}`, [left(n), y, wide, line], {
        ...{ fill: holds ? paint.primary : sums ? paint.panel : shade(n), ...late },
        enter: round || sums || apartFrom ? { alpha: 0 } : { rect: at.register(n, slot) },
        datum: {
          said: `${round ? `after shuffle ${round}` : `own ${name}`} of lane ${now.lanes[n].lane}: ${minus(value)}`,
        },
      });
      let x = left(n);
      for (const one of sums ? heard(n, round, now.lanes.length) : []) {
        const part = (now.lanes[one].sum / whole) * wide;
        made.rect(`part ${round} ${n} ${one}`, [x, y, part, line], { fill: shade(one), enter: { alpha: 0 }, ...late });
        x += part;
      }
      const x1 = sums ? left(n) + wide - 0.5 * em : middle(n),
        over = !sums || x > x1 - size; // a lane's colour
      made.text(`${name} of ${round} ${n} ${value}`, [x1, y + line / 2 + 0.35 * size], minus(value), {
        ...{
          mono: true,
          align: sums ? 'right' : 'center',
          bold: holds || round === at.rounds,
          size,
          enter: { alpha: 0 },
        },
        ...{
          span: round ? [begin + 0.35, begin + 0.4] : [0.4, 0.6],
          ...(holds || over ? { fill: holds ? paint.background : '#000' } : {}),
        },
      });
    });
  }
}

// What the step ends with: the question, m, or l as the parts of the tiles so far.
/** @type {Add} */
function addEnd(made, at, now, paint) {
  const { list, em, narrow, gutter, end } = at,
    { phase } = now,
    most = at.width - list.x,
    late = { enter: { alpha: 0 }, span: [0.85, 1], out: [0, 0.05] },
    asks = {
      held: 'Which lane knows the largest score of the row?',
      own: 'The max of the row? No lane sees all four.',
    };
  const asked = /** @type {Record<string, string>} */ (asks)[phase];
  if (asked) {
    const y = phase === 'own' ? at.roundY(1) + 0.6 * at.line : end;
    made.text('asks', [list.x, y, most], asked, {
      ...{ bold: true, size: Math.min(1.7 * em, most / 21), fill: paint.primary, ...late },
    });
    return;
  }
  const large = Math.min(2 * em, most / 12),
    result = (/** @type {string} */ name, /** @type {string} */ is, /** @type {string} */ said) => {
      made.text(`is ${name}`, [0, end + 0.1 * em, gutter - 0.3 * em], name, { bold: true, size: 1.6 * em, ...late });
      made.text(`ends ${is}`, [list.x, end + 0.1 * em], is, { bold: true, size: large, fill: paint.primary, ...late });
      const x = list.x + 0.62 * large * (is.length + 0.6);
      if (!narrow || x + 0.5 * em * said.length < at.width)
        made.text(`ends with ${said}`, [x, end, at.width - x], said, { bold: true, size: 1.15 * em, ...late });
    };
  if (phase === 'shuffle 2')
    result('m', minus(now.m), narrow ? 'all lanes know it' : 'the max so far: all four lanes know it');
  if (phase === 'hand') result('max', minus(Math.max(...now.lanes.map(({ max }) => max))), 'all four lanes know it');
  if (phase === 'weights')
    result('m', minus(now.m), narrow ? 'the largest has weight 1' : 'the largest score has weight 1');
  if (!['sum', 'last'].includes(phase)) return;
  const high = 2 * em,
    y = end - 1.5 * em,
    unit = (most - 5.5 * em) / now.most;
  made.text('is l', [0, end + 0.1 * em, gutter - 0.3 * em], 'l', { bold: true, size: 1.6 * em });
  if (!narrow) made.text('is l said', [1.5 * em, end, gutter - 2 * em], 'the sum', {});
  let x = list.x;
  now.parts.forEach((part, n) => {
    made.rect(`l part ${n}`, [x, y, part * unit - 1.5, high], {
      ...{
        fill: blend(rgb(COLOURS.P), rgb(paint.background), n % 2 ? 0.75 : 1),
        enter: { alpha: 0 },
        span: [0.6, 0.9],
      },
    });
    const name = [`tile ${n + 1}`, `${n + 1}`].find(one => part * unit > 0.62 * em * one.length + 0.6 * em);
    if (name)
      made.text(`l part is ${n}`, [x + (part * unit) / 2, end, part * unit - 4], name, {
        ...{ align: 'center', bold: true, fill: '#000', enter: { alpha: 0 }, span: [0.8, 1] },
      });
    x += part * unit;
  });
  made.text(`l is ${minus(now.l)}`, [x + 0.4 * em, end + 0.1 * em], minus(now.l), {
    ...{ bold: true, size: Math.min(1.7 * em, large), fill: paint.primary, ...late },
  });
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

// The same max through shared memory, beside the shuffles: each lane writes, waits for the others, and reads all.
/** @type {Add} */
function addMemory(made, at, now, paint, shade) {
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
  made.add('between', 'line', [start - (narrow ? 0.4 : 1) * em, 0.6 * em, 0, rows[2] + line + 1.9 * em], {
    stroke: paint.border,
  });
  const box = [x(0) - 5, rows[1] - 5, 4 * (x(1) - x(0)) - (x(1) - x(0) - wide) + 10, line + 10],
    gate = rows[1] + line + 10;
  made.rect('mem box', box, { fill: paint.panel, stroke: paint.text, width: 1.5, ...late(0.1) });
  made.rect('mem gate', [box[0], gate, box[2], 1.25 * em], { fill: paint.text, ...late(0.45) });
  made.text('mem gate is', [box[0] + box[2] / 2, gate + em, box[2]], narrow ? 'wait' : 'wait for all lanes', {
    ...{ fill: paint.background, bold: true, align: 'center', size: smallText(em), ...late(0.45) },
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
      ...{ fill: holds ? paint.primary : shade(n), stroke: holds ? paint.primary : paint.border, ...late(0) },
    });
    made.add(`mem write ${n}`, 'way', [0, 0, 0, 0], {
      points: [
        [middle(n), rows[0] + line + 1],
        [middle(n), rows[1] - 2],
      ],
      ...{
        stroke: holds ? paint.primary : paint.text,
        width: holds ? 3.5 : 1.8,
        enter: { grown: 0 },
        span: [0.15, 0.35],
      },
    });
    made.rect(`mem slot ${n}`, [x(n), rows[1], wide, line], {
      ...{ fill: holds ? paint.primary : shade(n), stroke: holds ? paint.primary : paint.border, ...late(0.33) },
    });
    for (let to = 0; to < values.length; to++)
      made.add(`mem read ${n} ${to}`, 'way', [0, 0, 0, 0], {
        points: [
          [middle(n), from],
          [middle(to), rows[2] - 2],
        ],
        ...{ stroke: holds ? paint.primary : paint.text, width: holds ? 3 : 1, head: 4 },
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
        fill: said === best ? paint.background : '#000',
      });
  });
  const y = rows[2] + line + 2.1 * em,
    large = { bold: true, size: Math.max(em, Math.min(1.6 * em, room / 17)) };
  const sides = [
    [`${at.rounds} shuffles`, 'past all memory, without a wait', 'no wait'],
    ['write, wait, read', `all lanes wait, then each reads ${values.length} numbers`, `reads ${values.length}`],
  ];
  sides.forEach(([total, said, short], n) => {
    const x = halves(at, n).start;
    made.text(`mem total ${n}`, [x, y, room], total, {
      ...large,
      ...(n ? {} : { fill: paint.primary }),
      ...late(0.16),
    });
    made.text(`mem said ${n}`, [x, y + 1.5 * em, room], narrow ? short : said, late(0.16));
  });
}

// A row for all lanes of a warp: each shuffle doubles the lanes that know its max.
/** @type {Add} */
function addWarp(made, at, now, paint) {
  const { em, narrow, shared } = at,
    pale = blend(rgb(COLOURS.S), rgb(paint.background), 0.4),
    rounds = Math.log2(WARP),
    left = narrow ? 2.2 * em : 9.5 * em,
    unit = (at.width - left - 2) / WARP,
    top = 3.4 * em,
    pitch = (shared.y - top - 0.4 * em) / (rounds + 0.6),
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
      made.text(`warp shuffle ${round}`, [0, y - (pitch - high) / 2 + 0.35 * em], `shuffle ${round}`, {
        size: smallText(em),
      });
  }
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
