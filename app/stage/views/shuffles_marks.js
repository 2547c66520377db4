// The picture of a row in registers, as marks. On top is one row of a tile of scores, a cell for each key. Its cells drop into
// the registers of the row's lanes. Below, the largest score goes to all of them: by shuffles, or once by shared memory.
// The partners are half of the lanes apart, then a quarter, as in group_max of kernels/device/common.cuh.
import { Marks } from '../core/kinds.js';
import { COLOURS, addsUp, blend, rgb, smallText } from '../core/paint.js';

const WARP = 32;
const ENDS = 2.4; // lines of the picture for m and l
const ROUND = 2.2; // from one shuffle to the next
const TINTS = [0.16, 0.32, 0.5, 0.68]; // how much of a score's colour a lane's thing has
const FIRST = ['row', 'held', 'own', 'shuffle 1', 'shuffle 2', 'warp', 'memory', 'weights', 'sum']; // of the first tile
const SCORES = ['next', 'last', 'hand']; // as after the shuffles of the max
/** Whether a phase is as late as another one of the first tile. */
export const after = (/** @type {string} */ phase, /** @type {string} */ other) =>
  FIRST.indexOf(SCORES.includes(phase) ? 'memory' : phase === 'rescale' ? 'sum' : phase) >= FIRST.indexOf(other);
const two = (/** @type {number} */ value) => value.toFixed(2).replace('-', '−');

/**
 * The row has the room of the shuffles as long as there are none, and the way through memory that of m and l.
 * @param {{width: number, height: number, em: number}} size
 * @param {{rows: number, columns: number, lanes: number, slots: number}} of
 * @param {string} phase
 */
export function shufflesLayout({ width, height, em }, { rows, columns, lanes, slots }, phase) {
  const narrow = width < 600,
    rounds = Math.log2(lanes),
    [row, early, memory] = [phase === 'row', !after(phase, 'own'), phase === 'memory'],
    size = narrow || height < 36 * em ? em : Math.max(1.1 * em, Math.min(height / 36, width / 72)),
    gutter = narrow ? 0 : 6.6 * size,
    gap = narrow ? 5 : 0.9 * size,
    foot = 3.4 * size; // shared memory
  const strip = {
      ...{ x: gutter, y: (narrow ? 6.1 : 2.9) * size, high: (narrow ? 1.8 : row ? 5.5 : 2.5) * size },
      unit: (width - gutter - 2) / columns,
    },
    tile = {
      x: 0,
      y: (narrow ? 0.3 : 1.5) * size,
      w: narrow ? 4.4 * size : gutter - 1.8 * size,
      h: (narrow || !row ? 3.9 : 6.9) * size,
    };
  const list = { x: gutter, y: strip.y + strip.high + 2 * size, wide: (width - gutter - 2 + gap) / lanes - gap, gap },
    units = slots + (early ? 0.2 : 1.6 + rounds * ROUND + ENDS),
    top = 1.7 * size, // of a card: the name of its lane
    room = height - foot - list.y - top - (early && !row ? 3 : 0.6) * size,
    line = Math.max(1.3 * size, Math.min(room / units, (early ? 4.6 : 2.4) * size)),
    own = list.y + top + (slots + 0.6) * line,
    bottom = early ? list.y + top + slots * line + (row ? 0 : 2.4 * size) : own + (1 + rounds * ROUND + ENDS) * line,
    shared = { y: Math.max(bottom + 0.6 * size, height - foot), h: foot - 2 },
    round = memory ? (shared.y - own - line - 2.6 * size) / rounds : ROUND * line;
  return {
    ...{
      width,
      em: size,
      narrow,
      rounds,
      strip,
      tile,
      list,
      top,
      line,
      round,
      own,
      slots,
      shared,
      gutter,
      columns,
      rows,
    },
    height: shared.y + foot,
    x: (/** @type {number} */ lane) => list.x + lane * (list.wide + gap),
    slotY: (/** @type {number} */ slot) => list.y + top + slot * line,
    roundY: (/** @type {number} */ n) => own + n * round,
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
    paper = rgb(paint.background),
    weighs = after(now.phase, 'weights');
  const shade = (/** @type {number} */ n, kind = weighs ? COLOURS.P : COLOURS.S) =>
    blend(rgb(kind), paper, TINTS[n % TINTS.length]);
  addRow(made, at, now, paint, shade);
  if (now.phase === 'warp') addWarp(made, at, now, paint, shade);
  else {
    addLanes(made, at, now, paint, shade);
    if (after(now.phase, 'own')) addMax(made, at, now, paint, shade);
    if (now.phase === 'memory') addMemory(made, at, now, paint, shade);
  }
  addShared(made, at, now, paint, shade);
  return made.list;
}

/** @typedef {Parameters<typeof shufflesMarks>[1]} Now */
/** @typedef {(made: Marks, at: Layout, now: Now, paint: Paint, shade: (n: number, kind?: string) => string) => void} Add */

const cellOf = (/** @type {Layout} */ { strip }, /** @type {number} */ place) => [
  strip.x + place * strip.unit,
  strip.y,
  strip.unit - 2,
  strip.high,
];

// The tile as a small square with the chosen row, and that row as cells of its keys.
/** @type {Add} */
function addRow(made, at, now, paint, shade) {
  const { tile, strip, em, narrow } = at,
    small = smallText(em),
    cell = { w: tile.w / now.grid[0].length, h: tile.h / now.grid.length },
    y = tile.y + now.chosen * cell.h;
  made.text('tile is', narrow ? [tile.w + 0.8 * em, 1.3 * em] : [0, em], `tile ${now.tile + 1}`, { bold: true });
  now.grid.forEach((threads, n) => {
    const place = [...new Set(threads)].sort((a, b) => a - b);
    threads.forEach((thread, key) =>
      made.rect(`cell ${n} ${key}`, [tile.x + key * cell.w, tile.y + n * cell.h, cell.w, cell.h], {
        fill: thread < 0 ? paint.panel : shade(place.indexOf(thread), COLOURS.S),
        datum: { row: now.row0 + n, key: now.first + key },
      }),
    );
  });
  made.rect('chosen', [tile.x - 1, y - 1, tile.w + 2, cell.h + 2], { stroke: paint.text, width: 2 });
  if (!narrow)
    for (const [n, down] of [0, 1].entries())
      made.add(
        `zoom ${n}`,
        'line',
        [
          tile.x + tile.w + 1,
          y + down * cell.h,
          strip.x - tile.x - tile.w - 1,
          strip.y + down * strip.high - y - down * cell.h,
        ],
        { stroke: paint.border },
      );
  const said = `row ${now.row} of the scores: ${now.grid[0].length} keys`;
  made.text('row is', narrow ? [tile.w + 0.8 * em, 2.9 * em] : [strip.x, em], said, { bold: true });
  if (!narrow) made.text('keys are', [strip.x - 0.4 * em, strip.y - 0.45 * em], 'key', { size: small, align: 'right' });
  if (narrow) made.text('keys are', [tile.w + 0.8 * em, 4.4 * em], 'above: key, below: lane', { size: small });
  else made.text('lane is', [strip.x - 0.4 * em, strip.y + strip.high + em], 'lane', { size: small, align: 'right' });
  const lanes = [...new Set(now.grid[now.chosen])].sort((a, b) => a - b),
    every = strip.unit < 1.35 * em ? 4 : 1;
  now.grid[now.chosen].forEach((thread, place) => {
    const rect = cellOf(at, place),
      middle = rect[0] + rect[2] / 2;
    made.rect(`place ${place}`, rect, { fill: shade(lanes.indexOf(thread), COLOURS.S), alpha: 0.3 });
    if (place % every) return;
    const text = { size: small, align: 'center' };
    made.text(`key ${place}`, [middle, strip.y - 0.45 * em], `${now.first + place}`, text);
    made.text(`lane of ${place}`, [middle, strip.y + strip.high + em], `${thread % WARP}`, text);
  });
}

// A column for each lane: its name and its registers. In the phase of the row, the scores are still above.
/** @type {Add} */
function addLanes(made, at, now, paint, shade) {
  const { list, em, line, strip } = at,
    weighs = after(now.phase, 'weights'),
    above = now.phase === 'row',
    big = Math.max(em, Math.min(1.5 * em, 0.52 * line, list.wide / (at.narrow ? 6 : 8)));
  if (!at.narrow)
    (above ? ['registers'] : ['registers', `hold ${weighs ? 'weights' : 'scores'}`]).forEach((text, n) =>
      made.text(`registers ${n}`, [0, at.slotY(0) + 0.5 * line + (0.35 + 1.3 * n) * em, at.gutter - 0.4 * em], text, {
        bold: !n,
      }),
    );
  if (now.phase === 'held')
    made.text(
      'knows',
      [list.x, at.slotY(at.slots) + 2 * em, at.width - list.x],
      'Which lane knows the largest score of the row?',
      {
        ...{ bold: true, size: Math.min(1.5 * em, (at.width - list.x) / 25), fill: paint.primary },
        ...{ enter: { alpha: 0 }, span: [0.9, 1], out: [0, 0.05] },
      },
    );
  now.lanes.forEach((lane, n) => {
    const x = at.x(n),
      high = at.top - 3;
    made.rect(`card ${n}`, [x, list.y, list.wide, at.top + at.slots * line], { stroke: paint.border });
    made.rect(`head ${n}`, [x, list.y, list.wide, high], { fill: shade(n, COLOURS.S) });
    made.text(`lane ${n}`, [x + list.wide / 2, list.y + high / 2 + 0.35 * em, list.wide - 6], `lane ${lane.lane}`, {
      ...{ bold: true, align: 'center' },
    });
    lane.keys.forEach((key, slot) => {
      const home = [x + 4, at.slotY(slot) + 1, list.wide - 8, line - 4],
        rect = above ? cellOf(at, key - now.first) : home,
        best = lane.scores[slot] === lane.max && after(now.phase, 'own') && !weighs,
        value = weighs ? lane.weights[slot] : lane.scores[slot],
        turn = (0.6 * (slot * now.lanes.length + n)) / (at.slots * now.lanes.length), // one register after another
        way = { span: [turn, turn + 0.4], ease: 'both' },
        fits = !above || strip.unit >= 40,
        size = above ? Math.max(12, Math.min(1.3 * em, strip.unit / 3.6)) : big;
      made.rect(`empty ${n} ${slot}`, home, { stroke: paint.border, dash: [3, 3] });
      made.rect(`slot ${n} ${slot}`, rect, {
        ...{ fill: shade(n), datum: { lane: lane.lane, register: key }, ...way },
        ...(best || key === now.lifted ? { stroke: paint.text, width: 2 } : {}),
      });
      const baseline = rect[1] + rect[3] / 2 + 0.35 * size;
      if (!above)
        made.text(`key ${n} ${slot} ${now.first}`, [rect[0] + 0.4 * em, baseline], `${at.narrow ? '' : 'key '}${key}`, {
          ...{ size: smallText(em), enter: { alpha: 0 }, span: [0.7, 1] },
        });
      if (fits)
        made.text(
          `value ${n} ${slot} ${weighs} ${now.tile} ${value}`,
          [rect[0] + (above ? rect[2] / 2 + 1.2 * size : rect[2] - 0.5 * em), baseline],
          two(value),
          { mono: true, align: 'right', bold: best, size, enter: { alpha: 0 }, ...way },
        );
    });
  });
}

// The own max or sum of each lane, then the shuffles, then m or l. Beside the other way they have half of the room.
/** @type {Add} */
function addMax(made, at, now, paint, shade) {
  const { list, em, line } = at,
    sums = now.phase === 'sum' || now.phase === 'rescale',
    name = sums ? 'sum' : 'max',
    half = halves(at, 0),
    wide = now.phase === 'memory' ? half.wide : list.wide,
    left = now.phase === 'memory' ? half.x : at.x,
    combine = sums ? (/** @type {number} */ a, /** @type {number} */ b) => a + b : Math.max,
    rounds = sums ? at.rounds : [...Array(at.rounds).keys()].filter(n => after(now.phase, `shuffle ${n + 1}`)).length;
  let values = now.lanes.map(lane => (sums ? lane.sum : lane.max));
  const best = Math.max(...values),
    size = Math.max(em, Math.min(1.4 * em, 0.55 * line, wide / 5)),
    middle = (/** @type {number} */ n) => left(n) + wide / 2;
  for (let round = 0; round <= rounds; round++) {
    const y = at.roundY(round),
      apart = now.lanes.length >> round,
      begin = sums ? (0.6 * round) / rounds : 0; // the shuffles of the sum in one step, one after another
    if (round) {
      const before = values;
      values = values.map((value, n) => combine(value, before[n ^ apart]));
      now.lanes.forEach((_, n) => {
        for (const from of [n, n ^ apart]) {
          const carries = !sums && before[from] === best;
          made.add(`${name} way ${round} ${n} ${from}`, 'way', [0, 0, 0, 0], {
            points: [
              [middle(from), y - at.round + line + 1],
              [middle(n), y - 2],
            ],
            ...{
              stroke: carries ? paint.primary : from === n ? paint.border : paint.text,
              width: carries ? 3.5 : from === n ? 1 : 1.8,
            },
            ...{ head: 5, enter: { grown: 0 }, span: [begin, begin + 0.35], out: [0, 0.1] },
          });
        }
      });
    }
    const partner = apart === 1 ? 'neighbours' : `${apart} lanes away`,
      said = round ? [`shuffle ${round}`, partner] : [`own ${name}`];
    if (!at.narrow)
      said.forEach((text, n) =>
        made.text(
          `${name} line ${round} ${n}`,
          [0, y + line * 0.5 + 0.35 * em - (said.length - 1 - 2 * n) * 0.6 * em, at.gutter - 0.4 * em],
          text,
          { bold: !n },
        ),
      );
    values.forEach((value, n) => {
      const holds = !sums && rounds > 0 && value === best, // no lane knows before the shuffles
        slot = now.lanes[n].scores.indexOf(now.lanes[n].max),
        from = [at.x(n) + 4, at.slotY(slot) + 1, list.wide - 8, line - 4];
      made.rect(`${name} ${round} ${n}`, [left(n), y, wide, line], {
        ...{
          fill: holds ? paint.primary : shade(n, sums ? COLOURS.P : COLOURS.S),
          stroke: holds ? paint.primary : paint.border,
        },
        enter: round || sums ? { alpha: 0 } : { rect: from },
        span: round ? [begin + 0.3, begin + 0.4] : [0, 0.5],
        datum: {
          said: `${round ? `after shuffle ${round}` : `own ${name}`} of lane ${now.lanes[n].lane}: ${two(value)}`,
        },
      });
      made.text(`${name} of ${round} ${n} ${value}`, [middle(n), y + line / 2 + 0.35 * size], two(value), {
        ...{ mono: true, align: 'center', bold: holds || round === rounds, size, enter: { alpha: 0 } },
        ...{ span: round ? [begin + 0.35, begin + 0.4] : [0.4, 0.6], ...(holds ? { fill: paint.background } : {}) },
      });
    });
  }
  const y = at.roundY(at.rounds) + line + 1.9 * em,
    most = at.width - list.x,
    large = { bold: true, size: Math.min(1.35 * em, most / 22) };
  if (now.phase === 'own')
    made.text('asks', [list.x, at.roundY(1) + line / 2, most], 'The max of the row? No lane sees all four.', {
      ...{ bold: true, size: Math.min(1.6 * em, most / 22), fill: paint.primary },
    });
  if (rounds < at.rounds || now.phase === 'memory' || now.phase === 'hand') return;
  const said = {
    next: newMax(now),
    last: `m = ${two(now.m)} and l = ${two(now.l)}: final, after all ${now.first + at.columns} keys`,
    rescale: newSum(now),
    sum: `l = ${two(now.l)}: the sum so far`,
  };
  const first = /** @type {Record<string, string>} */ (said)[now.phase] ?? `m = ${two(best)}: the max so far`;
  made.text(`ends ${first}`, [list.x, y, most], first, large);
}

const newMax = (/** @type {Now} */ { before, m, lanes }) =>
  `m = ${two(m)}: the larger of ${two(before)} before and ${two(Math.max(...lanes.map(({ max }) => max)))}`;
const newSum = (/** @type {Now} */ { before, m, sumBefore, l }) => `l = ${addsUp(sumBefore, Math.exp(before - m), l)}`;

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
    size = Math.max(em, Math.min(1.4 * em, 0.55 * line, wide / 5));
  const late = (/** @type {number} */ from) => ({ enter: { alpha: 0 }, span: [from, from + 0.06], out: [0, 0.1] });
  const name = (/** @type {string} */ text, /** @type {number} */ y, bold = true) => {
    if (!narrow) made.text(`mem ${text}`, [start, y + 0.35 * em, at.gutter - 0.6 * em], text, { bold, ...late(0.1) });
  };
  made.add('between', 'line', [start - (narrow ? 0.4 : 1) * em, rows[0], 0, rows[2] + line + 2.2 * em - rows[0]], {
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
  name('shared memory', rows[1] + 0.5 * line);
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
      made.text(`mem value ${row} ${n}`, [middle(n), rows[row] + line / 2 + 0.35 * size], two(said), {
        ...{ mono: true, align: 'center', size, bold: said === best, ...late(when) },
        ...(said === best ? { fill: paint.background } : {}),
      });
  });
  const y = rows[2] + line + 1.6 * em,
    large = { bold: true, size: Math.max(em, Math.min(1.25 * em, room / 19)) };
  made.text('mem left', [halves(at, 0).start, y, room], `${narrow ? '' : 'each lane: '}${at.rounds} shuffles`, {
    ...{ ...large, fill: paint.primary },
  });
  made.text(
    'mem right',
    [start, y, room],
    narrow ? 'write, wait, read' : `each lane: 1 write, 1 wait, ${values.length} reads`,
    {
      ...large,
      ...late(0.88),
    },
  );
}

// A row for all lanes of a warp: each shuffle doubles the lanes that know its max.
/** @type {Add} */
function addWarp(made, at, now, paint, shade) {
  const { em, narrow, list, shared } = at,
    rounds = Math.log2(WARP),
    left = narrow ? 2.2 * em : 9.5 * em,
    unit = (at.width - left - 2) / WARP,
    top = list.y + 2.2 * em,
    pitch = (shared.y - top - 0.4 * em) / (rounds + 0.6),
    high = 0.5 * pitch,
    owner = now.lanes.reduce((best, lane) => (lane.max > best.max ? lane : best)).lane;
  made.text(
    'warp is',
    [0, list.y + 1.1 * em, at.width],
    narrow ? 'a row for all 32 lanes' : 'If all 32 lanes of a warp share one row:',
    {
      ...{ bold: true, size: 1.15 * em },
    },
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
        bold: true,
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
        ...{ fill: knows.has(lane) ? paint.primary : shade(0) },
        datum: { said: `lane ${lane}: ${knows.has(lane) ? 'knows the max' : 'knows a smaller one'}` },
        ...(round ? { enter: { fill: shade(0) }, span: [begin + 0.14, begin + 0.2] } : {}),
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
  if (!after(now.phase, 'shuffle 1')) return; // the question before asks it
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
