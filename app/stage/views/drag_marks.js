// The picture of a row under a hand, as marks. It gets all values and computes places only. From top to bottom: the
// scores with the line m, the weights as they count now, l as the same weights laid end to end, and O. Right of l and O
// is what the block remembers, or the map of all tiles. Before the first tile, the three passes of an ordinary softmax.
import { Marks } from '../core/kinds.js';
import { COLOURS, PALETTE, exact, number, short, smallText } from '../core/paint.js';

const SHARES = { score: 0.5, weight: 0.24, sum: 0.07, o: 0.19 }; // of the height without titles
const FILLED = 0.74; // of the room of a bar
const GONE = { score: 0.28, weight: 0.6 }; // how much of a used bar is seen
export const FLOAT_RANGE = 88.72; // ln of the largest float
const POWERS = [0, 10, 20, 30]; // of 10, on the log scale
const LEAST_TEXT = 13; // pixels
const LEAST = 17; // lines of text in the picture at least
const LOG_10 = Math.log(10);
export const PASSES = [
  ['pass 1: find the largest score, m, so that no weight is too large', '1: find m, the largest'],
  ['pass 2: sum the weights e^(score − m) to l', '2: sum weights to l'],
  ['pass 3: add weight × V, the values of a key, to the output O', '3: add weight × V to O'],
];

/**
 * Where everything is.
 * @param {{width: number, height: number, em: number}} size
 * @param {{keys: number, tile: number, dims: number, lowest: number, highest: number}} row
 */
export function dragLayout({ width, height: pane, em }, { keys, tile, dims, lowest, highest }) {
  const narrow = width < 600,
    height = Math.max(pane, LEAST * em),
    size = narrow || height < 340 ? Math.max(LEAST_TEXT, em) : Math.max(1.2 * em, Math.min(height / 34, width / 64)),
    right = (narrow ? 2.2 : 3) * size, // of the numbers of an axis
    gap = narrow ? 5 : 16, // between two tiles
    pitch = (width - right - gap * (keys / tile - 1)) / keys,
    head = 1.7 * size,
    free = height - 4 * head;
  let y = 0;
  const lane = (/** @type {number} */ share) => {
    const made = { title: y + 0.75 * head, y: y + head, h: share * free };
    y = made.y + made.h;
    return made;
  };
  const lanes = { score: lane(SHARES.score), weight: lane(SHARES.weight), sum: lane(SHARES.sum), o: lane(SHARES.o) },
    { score, sum, o } = lanes,
    low = (narrow ? 0.62 : 0.66) * (width - right), // l and O are no rows of keys
    side = { x: low + 1.2 * size, y: sum.title - 0.75 * head + 4, w: width - low - 1.2 * size, h: 0 };
  side.h = o.y + o.h - side.y - 3;
  return {
    ...{ width, height, em: size, narrow, right, gap, pitch, tile, lanes, lowest, highest, low, side },
    bar: Math.max(2, FILLED * pitch),
    x: (/** @type {number} */ key) => key * pitch + gap * Math.floor(key / tile),
    scoreY: (/** @type {number} */ s) => score.y + ((highest - s) / (highest - lowest)) * score.h,
    scoreAt: (/** @type {number} */ at) => highest - ((at - score.y) / score.h) * (highest - lowest),
    from: narrow ? 0 : 8.5 * size, // where O begins: no bar of it is under a key
    dim: (low - (narrow ? 0 : 8.5 * size)) / dims,
    sumEnd: 0, // where l ends, as drawn last
  };
}

const figure = (/** @type {number} */ value) =>
  !Number.isFinite(value) || Math.abs(value) >= 1e5 ? short(value, 2) : value.toFixed(Math.abs(value) >= 100 ? 0 : 2);

/**
 * @param {ReturnType<typeof dragLayout>} at
 * @param {object} now the values
 * @param {number} now.row
 * @param {number[]} now.scores
 * @param {number} now.times the scores' factor
 * @param {number} now.read tiles
 * @param {number} now.m
 * @param {number} now.before m before the last tile
 * @param {number[]} now.shown the weights on their way, as shares of their lane
 * @param {number[]} now.weights where they go
 * @param {number[]} now.ghosts the weights of earlier tiles before the factor
 * @param {number} now.l
 * @param {string} now.sum how l came about, with l, or ""
 * @param {number} now.fullL l that fills its lane
 * @param {number[]} now.o as drawn
 * @param {number} now.fullO
 * @param {number} now.dims of O
 * @param {number[] | null} now.right what O should be
 * @param {boolean} now.log without m: weights on a log scale up to the largest float
 * @param {Set<number>} now.wrong keys with a weight against the old m
 * @param {string} now.off the error of O, or ""
 * @param {number | null} now.knob the key in the hand, or the one that asks for it
 * @param {number} now.pulse from 0 to 1, or -1
 * @param {number | null} now.long keys of the row that the reader thinks of, null for this one
 * @param {number[]} now.passes how far each pass is
 * @param {{seen: number, ends: number[], own: number, on: boolean} | null} now.causal the map, and whether it hides keys
 * @param {{id: string, x: number, y: number, alpha: number, factor: number}[]} now.chips
 * @param {Paint} paint
 */
export function dragMarks(at, now, paint) {
  const made = new Marks(at.em);
  if (now.long) {
    addGrowth(made, at, now, paint);
    return made.list;
  }
  addScores(made, at, now, paint);
  if (!now.read) {
    addPasses(made, at, now, paint);
    return made.list;
  }
  if (now.log) addLimit(made, at, now, paint);
  else addLine(made, at, now, paint);
  addWeights(made, at, now, paint);
  addSum(made, at, now, paint);
  addOutput(made, at, now, paint);
  if (now.causal) addMap(made, at, now, paint);
  else addKept(made, at, now, paint);
  if (now.knob !== null) addKnob(made, at, now, paint);
  for (const { id, x, y, alpha, factor } of now.chips)
    made.add(id, 'pill', [x, y, 0, at.em], { text: `× ${factor.toFixed(2)}`, fill: paint.primary, alpha });
  return made.list;
}

/** @typedef {Parameters<typeof dragMarks>[1]} Now */
/** @typedef {ReturnType<typeof dragLayout>} Layout */
/** @typedef {(made: Marks, at: Layout, now: Now, paint: Paint) => void} Add */

const isRead = (/** @type {Now} */ { read }, /** @type {Layout} */ { tile }, /** @type {number} */ key) =>
  key < read * tile;
/** The end of the keys that the row's block reads, and of those that the row sees. */
const bounds = (/** @type {Now} */ { causal, scores }) =>
  causal?.on ? { end: causal.ends[causal.own], seen: causal.seen } : { end: scores.length, seen: scores.length };

/** @type {Add} */
function addScores(made, at, now, paint) {
  const { score, weight } = at.lanes,
    zero = at.scoreY(0),
    { end, seen } = bounds(now),
    name = at.narrow ? 'scores of one query' : `scores of query ${now.row}: how well each key fits it`;
  made.text('title score', [0, score.title], name, { bold: true });
  const wide = at.tile * at.pitch + at.gap / 1.5 - (at.pitch - at.bar),
    tall = (now.read ? weight.y + weight.h : score.y + score.h) - score.y + 8;
  for (let key = 0; key < now.scores.length; key += at.tile) {
    const n = key / at.tile + 1,
      left = at.x(key) - at.gap / 3,
      used = n < now.read,
      skipped = key >= end;
    made.rect(`tile ${n}`, [left, score.y - 4, wide, tall], n === now.read && !used ? { fill: paint.panel } : {});
    if (skipped)
      made.add(`skipped ${n}`, 'hatch', [left, score.y - 4, wide, tall], { stroke: PALETTE.axis, gap: 12, alpha: 0.5 });
    if (score.h < 9 * at.em && (used || n > now.read) && now.read && !skipped) continue; // no room
    const state = skipped ? 'skipped' : !now.read || n > now.read ? '' : used ? 'used' : 'now',
      bold = state === 'now' || skipped;
    made.text(
      `tile ${n} is`,
      [left + wide / 2, score.y + 0.9 * at.em],
      at.narrow || !state ? state || `tile ${n}` : `tile ${n}: ${state}`,
      {
        ...{ align: 'center', alpha: bold || !now.read ? 1 : 0.65, bold },
      },
    );
  }
  now.scores.forEach((s, key) => {
    const y = at.scoreY(s),
      read = isRead(now, at, key),
      rect = [at.x(key), Math.min(y, zero), at.bar, Math.max(1, Math.abs(zero - y))],
      thing = { datum: { kind: 'score', index: key }, tip: `score[${now.row}, ${key}] = ${exact(s * now.times)}` };
    if (key >= seen) made.rect(`score ${key}`, rect, { fill: PALETTE.axis, alpha: key < end ? 0.6 : 0.3, ...thing });
    else if (now.read && !read)
      made.rect(`score ${key}`, [rect[0] + 0.5, rect[1], rect[2] - 1, rect[3]], { stroke: COLOURS.S, ...thing });
    else {
      const used = now.read && key < (now.read - 1) * at.tile;
      made.rect(`score ${key}`, rect, { fill: COLOURS.S, alpha: used ? GONE.score : 1, ...thing });
    }
  });
  if (now.causal) {
    const x = at.x(now.causal.seen) - (now.causal.seen % at.tile ? (at.pitch - at.bar) / 2 : at.gap / 2);
    made.add('own key', 'line', [x, score.y + 1.3 * at.em, 0, score.h - 1.3 * at.em], { stroke: paint.text, width: 2 });
    made.text('later', [x + at.em / 2, score.y + score.h - 0.2 * at.em], at.narrow ? 'later →' : 'later keys →', {
      bold: true,
    });
  }
  made.add('zero', 'line', [0, zero, at.width - at.right, 0], { stroke: PALETTE.axis });
  for (const s of [2, 0, -2])
    if (s > at.lowest)
      made.text(`axis ${s}`, [at.width, at.scoreY(s) + 0.35 * at.em], short(s * now.times, 2), {
        ...{ align: 'right', alpha: 0.75, size: smallText(at.em) },
      });
}

// Each pass reads the whole row: a mark for each key, from left to right.
/** @type {Add} */
function addPasses(made, at, now, paint) {
  const { weight, o } = at.lanes,
    each = (o.y + o.h - weight.title) / PASSES.length;
  PASSES.forEach(([long, brief], n) => {
    const top = weight.title + n * each,
      y = top + 0.55 * each,
      done = now.passes[n] * now.scores.length;
    made.text(`pass ${n}`, [0, top + Math.min(0.42 * each, 1.5 * at.em)], at.narrow ? brief : long, {
      ...{ bold: true, alpha: done > 0 ? 1 : 0.5 },
    });
    for (const key of now.scores.keys())
      made.rect(`read ${n} ${key}`, [at.x(key), y, at.bar, Math.max(4, 0.2 * each)], {
        ...(key < done ? { fill: COLOURS.S } : { fill: paint.panel }),
      });
  });
}

// The line m, and the gap between the old and the new line: its exponent.
/** @type {Add} */
function addLine(made, at, now, paint) {
  const y = at.scoreY(now.m / now.times),
    old = at.scoreY(now.before / now.times),
    left = at.x((now.read - 1) * at.tile) - at.gap / 2,
    gap = now.m - now.before;
  if (Number.isFinite(gap) && gap > 0.02) {
    made.add('m before', 'line', [0, old, left, 0], { stroke: paint.text, width: 1.5, alpha: 0.5, dash: [2, 5] });
    made.add('gap', 'line', [left, old, 0, y - old], { stroke: paint.primary, width: 4 });
    if (old - y > 0.75 * at.em) {
      const both = left > 9 * at.em, // narrow, the first tile has no room for the factor
        wide = (both ? 7.6 : 2.4) * at.em;
      made.rect('gap plate', [left - 7 - wide, (y + old) / 2 - 0.55 * at.em, wide, 1.1 * at.em], {
        ...{ fill: paint.background, alpha: 0.85 },
      });
      made.text(
        'gap is',
        [left - 8, (y + old) / 2 + at.em / 3],
        both ? `e^(−${gap.toFixed(2)}) = ${Math.exp(-gap).toFixed(2)}` : gap.toFixed(2),
        {
          ...{ bold: true, align: 'right', fill: paint.primary },
        },
      );
    }
  }
  const end = bounds(now).end < now.scores.length ? at.x(bounds(now).end) - at.gap : at.width - at.right;
  made.add('m', 'line', [0, y, end, 0], { stroke: paint.text, width: 2.5, dash: [9, 6] });
  made.text(
    'm is',
    [0, y - 0.4 * at.em],
    at.narrow ? `m = ${figure(now.m)}` : `m, the largest so far = ${figure(now.m)}`,
    {
      ...{ bold: true, datum: { kind: 'm' }, tip: `m = ${exact(now.m)}` },
    },
  );
}

// Without m: the score above which a weight is too large.
/** @type {Add} */
function addLimit(made, at, now, paint) {
  const s = FLOAT_RANGE / now.times,
    far = s > at.highest;
  const y = far ? at.lanes.score.y + 1.8 * at.em : at.scoreY(s),
    said = at.narrow ? 'limit 88.7' : '88.7: above it, e^score is too large for a float';
  if (!far)
    made.add('limit', 'line', [0, y, at.width - at.right, 0], { stroke: PALETTE.wrong, width: 2.5, dash: [9, 6] });
  const text = far ? `${said} (far up)` : said,
    base = y + (y - at.lanes.score.y < 3 * at.em ? 1.1 : -0.4) * at.em;
  made.rect('limit plate', [0, base - 0.95 * at.em, 0.53 * text.length * at.em, 1.25 * at.em], {
    fill: paint.background,
  });
  made.text('limit is', [0, base], text, { bold: true, fill: PALETTE.wrong });
}

/** @type {Add} */
function addWeights(made, at, now) {
  const { weight } = at.lanes,
    floor = weight.y + weight.h,
    right = at.width - at.right,
    power = at.narrow ? 'weights e^(score − m)' : 'weights e^(score − m): how much each key counts',
    name = now.log ? 'weights e^score, on a log scale' : power,
    axis = (/** @type {string} */ id, /** @type {number} */ y, /** @type {string} */ said) =>
      made.text(`weight axis ${id}`, [at.width, y + 0.35 * at.em], said, {
        ...{ align: 'right', alpha: 0.75, size: smallText(at.em) },
      });
  made.text('title weight', [0, weight.title], name, { bold: true });
  if (now.log) {
    made.add('ceiling', 'line', [0, weight.y, right, 0], { stroke: PALETTE.wrong, width: 2.5 });
    made.text(
      'ceiling is',
      [right, weight.y - 0.35 * at.em],
      at.narrow ? '3.4e38' : 'the largest float: 3.4e38 = e^88.7',
      {
        ...{ align: 'right', fill: PALETTE.wrong, bold: true },
      },
    );
    for (const power of POWERS) {
      const y = floor - (power * LOG_10 * weight.h) / FLOAT_RANGE;
      axis(`${power}`, power ? y : y - 0.4 * at.em, power ? `1e${power}` : '1');
      made.add(`weight line ${power}`, 'line', [0, y, right, 0], { stroke: PALETTE.axis, alpha: 0.35 });
    }
  } else axis('top', weight.y + 0.3 * at.em, '1');
  for (const key of now.scores.keys()) {
    if (!isRead(now, at, key) || key >= bounds(now).seen) continue;
    const value = now.weights[key],
      high = Math.max(1, Math.min(1, now.shown[key]) * weight.h),
      used = key < (now.read - 1) * at.tile;
    made.add(`weight ${key}`, Number.isFinite(value) ? 'rect' : 'lost', [at.x(key), floor - high, at.bar, high], {
      ...{ fill: now.wrong.has(key) ? PALETTE.wrong : COLOURS.P, alpha: used && !now.log ? GONE.weight : 1 },
      ...{ datum: { kind: 'weight', index: key }, tip: `weight of key ${key} = ${short(value, 7)}` },
    });
  }
  now.ghosts.forEach((value, key) => {
    const high = value * weight.h;
    made.rect(`ghost ${key}`, [at.x(key) + 0.6, floor - high, at.bar - 1.2, high], {
      ...{ stroke: COLOURS.P, width: 1.2, alpha: 0.6 },
    });
  });
  made.add('floor', 'line', [0, floor, right, 0], { stroke: PALETTE.axis });
}

// What attention as written keeps of a row, and what one pass keeps: a square for each number. They are all of the
// picture, as it has no row of so many keys.
/** @type {Add} */
function addGrowth(made, at, now, paint) {
  const { em, narrow, width, height } = at,
    long = /** @type {number} */ (now.long),
    kept = now.dims + 2,
    across = narrow ? 40 : 64,
    pitch = (width - 2) / across,
    large = 2.4 * em,
    head = 3 * em,
    below = head + Math.ceil(kept / across) * pitch + 2.2 * em, // of one pass
    rows = Math.max(1, Math.floor((height - below - head - 1.6 * em) / pitch)),
    least = height - below;
  const title = (
    /** @type {number} */ n,
    /** @type {number} */ y,
    /** @type {number} */ size,
    /** @type {string} */ of,
  ) => {
    const fill = n ? paint.primary : paint.text,
      said = number(size);
    made.text(`grown ${n}`, [0, y + 2 * em], said, { bold: true, size: large, fill });
    const x = large * (0.52 * String(size).length + 0.25 * (said.length - String(size).length)) + 0.5 * em;
    made.text(`grows ${n}`, [x, y + 1.9 * em, width - x], of, { bold: true, size: 1.15 * em, fill });
  };
  const square = (
    /** @type {string} */ id,
    /** @type {number} */ y,
    /** @type {number} */ n,
    /** @type {string} */ fill,
  ) => made.rect(id, [(n % across) * pitch, y + Math.floor(n / across) * pitch, pitch - 2, pitch - 2], { fill });
  title(0, 0, long, narrow ? 'scores kept, as written' : 'scores kept, if attention is written as its formula');
  const fits = Math.min(long, rows * across);
  for (let n = 0; n < fits; n++) square(`kept score ${n}`, head, n, COLOURS.S);
  if (fits < long) {
    const times = long / fits;
    made.text(
      'grows on',
      [width - 2, head + rows * pitch + 1.1 * em],
      `↓ ${times < 10 ? times.toFixed(1) : number(Math.round(times))} times as many squares`,
      {
        ...{ align: 'right', bold: true },
      },
    );
  }
  title(1, least, kept, narrow ? 'numbers kept in one pass' : 'numbers kept in one pass, however long the row');
  for (let n = 0; n < kept; n++)
    square(`kept number ${n}`, least + head, n, n > 1 ? COLOURS.O : n ? COLOURS.P : paint.text);
  const y = height - 0.7 * em;
  ['m', 'l'].forEach((name, n) =>
    made.text(`kept ${name}`, [(n + 0.5) * pitch - 1, y], name, { bold: true, align: 'center' }),
  );
  made.text(
    'kept O',
    [2 * pitch, y, width - 2 * pitch],
    `O: ${now.dims} sums.${narrow ? '' : ' At the end, O ÷ l is the answer.'}`,
    {
      bold: true,
    },
  );
}

// l: the weights laid end to end.
/** @type {Add} */
function addSum(made, at, now, paint) {
  const { sum } = at.lanes,
    right = at.low,
    whole = { datum: { kind: 'sum' }, tip: `l = ${exact(now.l)}` },
    said = at.narrow ? `l = ${figure(now.l)}` : `l, the sum of the weights = ${now.sum || figure(now.l)}`;
  made.text('title sum', [0, sum.title], said, { bold: true });
  made.rect('sum', [0, sum.y, right, sum.h], { fill: paint.panel, ...whole });
  if (now.log) {
    const finite = Number.isFinite(now.l),
      share = finite ? Math.max(0, Math.log(now.l) / FLOAT_RANGE) : 1;
    made.add('l', finite ? 'rect' : 'lost', [0, sum.y, right * share, sum.h], { fill: COLOURS.P });
    return;
  }
  let x = 0;
  for (const key of now.scores.keys()) {
    if (!isRead(now, at, key)) break;
    const wide = Math.min(right - x, (now.shown[key] * right) / now.fullL);
    made.rect(`part ${key}`, [x, sum.y, Math.max(0, wide - (wide > 3 ? 1 : 0)), sum.h], {
      fill: now.wrong.has(key) ? PALETTE.wrong : COLOURS.P,
    });
    x += wide;
  }
  at.sumEnd = x;
}

/** @type {Add} */
function addOutput(made, at, now, paint) {
  const { o } = at.lanes,
    middle = o.y + o.h / 2,
    so = at.narrow ? `O: ${now.dims} sums of weight × V` : 'O, the output: each key adds weight × V',
    name = now.off ? `O is ${now.off}` : now.log ? 'O ÷ l, without m' : so;
  made.text('title o', [0, o.title], name, { bold: true, fill: now.off ? PALETTE.wrong : paint.text });
  if (!at.narrow)
    [`${now.dims} sums,`, 'one a column', 'of V'].forEach((text, n) =>
      made.text(`o has ${n}`, [0, middle + (0.35 + 1.2 * (n - 1)) * at.em, at.from - at.em], text),
    );
  made.add('middle', 'line', [at.from, middle, at.low - at.from, 0], { stroke: PALETTE.axis });
  if (now.o.every(Number.isFinite))
    made.text('o axis', [at.low, o.title], `up to ±${short(now.fullO / 1.1, 2)}`, {
      ...{ align: 'right', alpha: 0.75, size: smallText(at.em) },
    });
  const box = (/** @type {number} */ value, /** @type {number} */ dim) => {
    const high = (Math.min(1, Math.abs(value) / now.fullO) * o.h) / 2;
    return [at.from + dim * at.dim, value < 0 ? middle : middle - high, Math.max(1, FILLED * at.dim), high];
  };
  now.o.forEach((value, dim) => {
    const thing = {
      datum: { kind: 'o', index: dim },
      tip: `O[${dim}] = ${short(value, 7)}`,
    };
    if (Number.isFinite(value)) made.rect(`o ${dim}`, box(value, dim), { fill: COLOURS.O, ...thing });
    else made.add(`o ${dim}`, 'lost', [at.from + dim * at.dim, o.y, Math.max(1, FILLED * at.dim), o.h], thing);
  });
  now.right?.forEach((value, dim) => {
    if (Number.isFinite(value)) made.rect(`right ${dim}`, box(value, dim), { stroke: paint.text, width: 1.5 });
  });
}

// What the block remembers of a row, however long it is. Without m: what a float can hold.
/** @type {Add} */
function addKept(made, at, now, paint) {
  const { side, lanes } = at,
    large = Math.min(2.4 * at.em, side.w / 7),
    texts = now.log
      ? ['the largest float', '3.4e38 = e^88.7']
      : ['remembered: m, l, O', `${now.dims + 2}${at.narrow ? '' : ' numbers'}`];
  made.text('kept is', [side.x, lanes.sum.title, side.w], texts[0], { bold: true });
  made.text('kept all', [side.x, lanes.sum.y + lanes.sum.h / 2 + 0.36 * large, side.w], texts[1], {
    ...{ bold: true, size: large, fill: now.log ? PALETTE.wrong : paint.primary },
  });
}

// All tiles of scores, by query tile and key tile: those right of the diagonal are skipped.
/** @type {Add} */
function addMap(made, at, now, paint) {
  const { side } = at,
    { ends, own, on } = /** @type {NonNullable<Now['causal']>} */ (now.causal),
    columns = now.scores.length / at.tile,
    head = at.narrow ? 2.5 * at.em : 1.3 * at.em,
    high = Math.min((side.h - head) / ends.length, 2.4 * at.em),
    wide = Math.min((side.w - (at.narrow ? 0 : 7.5 * at.em)) / columns, 1.6 * high);
  const computed = ends.reduce((sum, end) => sum + (on ? Math.ceil(end / at.tile) : columns), 0);
  const title = at.narrow
    ? ['all tiles:', `${computed} of ${columns * ends.length} tiles`]
    : ['all tiles: queries ↓ keys →'];
  title.forEach((said, n) =>
    made.text(`map title ${n}`, [side.x, side.y + (n + 0.8) * at.em, side.w], said, { bold: !n }),
  );
  ends.forEach((end, tile) => {
    for (let n = 0; n < columns; n++) {
      const rect = [side.x + n * wide, side.y + head + tile * high, wide - 2, high - 2],
        last = Math.ceil(end / at.tile) - 1,
        thing = { datum: { kind: 'tile', query: tile, key: n } };
      if (on && n > last)
        made.add(`map ${tile} ${n}`, 'hatch', rect, {
          stroke: PALETTE.axis,
          gap: 6,
          width: 1,
          ...thing,
          tip: 'skipped whole',
        });
      else
        made.rect(`map ${tile} ${n}`, rect, {
          fill: COLOURS.S,
          alpha: 0.8,
          ...thing,
          tip: on && n === last ? 'computed, later keys masked' : 'computed',
        });
      if (on && n === last) made.add(`mask ${tile}`, 'half', rect, { fill: PALETTE.axis });
    }
  });
  made.rect('map own', [side.x - 2, side.y + head + own * high - 2, columns * wide + 2, high + 2], {
    stroke: paint.text,
    width: 2.5,
  });
  if (at.narrow) return;
  const x = side.x + columns * wide + 0.6 * at.em;
  made.text('own is', [x, side.y + head + (own + 0.5) * high + 0.35 * at.em], 'this query', { bold: true });
  made.text(
    'map is',
    [x, side.y + head + (ends.length - 0.5) * high + 0.35 * at.em],
    `${computed} of ${columns * ends.length} tiles`,
    { bold: true, fill: paint.primary },
  );
}

/** @type {Add} */
function addKnob(made, at, { knob, scores, pulse }, paint) {
  const key = /** @type {number} */ (knob),
    x = at.x(key) + at.bar / 2,
    y = at.scoreY(scores[key]),
    r = at.narrow ? 9 : 11;
  if (pulse >= 0)
    made.add('ring', 'ring', [x, y, r * (1 + 1.4 * pulse), 0], { stroke: paint.primary, alpha: 1 - pulse });
  made.add('knob', 'knob', [x, y, r, 0], { fill: paint.primary, stroke: paint.background });
}

/** @type {import('../core/kinds.js').Kinds} */
export const DRAG_KINDS = {
  // a label with a coloured ground around a point. rect: [x, y, 0, size]
  pill(g, { rect: [x, y, , size], text, fill }, paint) {
    g.font = `600 ${size}px ${paint.font}`;
    const w = g.measureText(text).width + size,
      h = 1.5 * size;
    g.fillStyle = fill;
    g.beginPath();
    g.roundRect(x - w / 2, y - h / 2, w, h, h / 2);
    g.fill();
    g.fillStyle = paint.background;
    g.textAlign = 'center';
    g.fillText(text, x, y + 0.35 * size);
  },
  // rect: [x, y, radius, 0]
  ring(g, { rect: [x, y, r], stroke }) {
    g.strokeStyle = stroke;
    g.lineWidth = 3;
    g.beginPath();
    g.arc(x, y, r, 0, 2 * Math.PI);
    g.stroke();
  },
  // the corner above the diagonal of a tile: its masked scores
  half(g, { rect: [x, y, w, h], fill }) {
    g.fillStyle = fill;
    g.beginPath();
    g.moveTo(x, y);
    g.lineTo(x + w, y);
    g.lineTo(x + w, y + h);
    g.fill();
  },
  knob(g, { rect: [x, y, r], fill, stroke }) {
    g.fillStyle = fill;
    g.strokeStyle = stroke;
    g.lineWidth = 2;
    g.beginPath();
    g.arc(x, y, r, 0, 2 * Math.PI);
    g.fill();
    g.stroke();
    g.fillStyle = stroke;
    for (const way of [-1, 1]) {
      g.beginPath();
      g.moveTo(x - 0.32 * r, y + 0.2 * way * r);
      g.lineTo(x + 0.32 * r, y + 0.2 * way * r);
      g.lineTo(x, y + 0.65 * way * r);
      g.fill();
    }
  },
  // NaN or infinite: chequered, so that no colour of a value is taken for one
  lost(g, { rect: [x, y, w, h] }, paint) {
    const side = 4;
    for (let row = 0; row * side < h; row++)
      for (let column = 0; column * side < w; column++) {
        g.fillStyle = (row + column) % 2 ? paint.text : PALETTE.wrong;
        const [left, top] = [x + column * side, y + row * side];
        g.fillRect(left, top, Math.min(side, x + w - left), Math.min(side, y + h - top));
      }
  },
};
