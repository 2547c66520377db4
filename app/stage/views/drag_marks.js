// The picture of a row under a hand, as marks. It gets all values and computes places only. From top to bottom: the
// scores with the line m, the weights as they count now, l as the same weights laid end to end, and O.
import { Marks } from '../core/kinds.js';
import { COLOURS, PALETTE, exact, short } from '../core/paint.js';

const SHARES = { score: 0.5, weight: 0.24, sum: 0.07, o: 0.19 }; // of the height without titles
const FILLED = 0.74; // of the room of a bar
export const FLOAT_RANGE = 88.72; // ln of the largest float

/**
 * Where everything is.
 * @param {{width: number, height: number, em: number}} size
 * @param {{keys: number, tile: number, dims: number, lowest: number, highest: number}} row
 */
export function dragLayout({ width, height, em }, { keys, tile, dims, lowest, highest }) {
  const narrow = width < 600,
    size = narrow ? em : 1.2 * em,
    right = narrow ? 4 : 10,
    gap = narrow ? 5 : 16, // between two tiles
    pitch = (width - right - gap * (keys / tile - 1)) / keys,
    head = 1.7 * size,
    free = Math.max(10 * em, height - 4 * head);
  let y = 0;
  const lane = (/** @type {number} */ share) => {
    const made = { title: y + 0.75 * head, y: y + head, h: share * free };
    y = made.y + made.h;
    return made;
  };
  const lanes = { score: lane(SHARES.score), weight: lane(SHARES.weight), sum: lane(SHARES.sum), o: lane(SHARES.o) },
    { score } = lanes;
  return {
    ...{ width, em: size, narrow, right, gap, pitch, tile, lanes, lowest, highest, bar: Math.max(2, FILLED * pitch) },
    x: (/** @type {number} */ key) => key * pitch + gap * Math.floor(key / tile),
    scoreY: (/** @type {number} */ s) => score.y + ((highest - s) / (highest - lowest)) * score.h,
    scoreAt: (/** @type {number} */ at) => highest - ((at - score.y) / score.h) * (highest - lowest),
    dim: ((narrow ? 0.8 : 0.66) * (width - right)) / dims, // O is no row of keys: its numbers stand apart
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
 * @param {number} now.fullL l that fills its lane
 * @param {number[]} now.o as drawn
 * @param {number} now.fullO
 * @param {number} now.dims of O
 * @param {number[] | null} now.right what O should be
 * @param {boolean} now.divided O is divided by l
 * @param {boolean} now.log without m: weights on a log scale up to the largest float
 * @param {Set<number>} now.wrong keys with a weight against the old m
 * @param {string} now.off the error of O, or ""
 * @param {number | null} now.knob the key in the hand, or the one that asks for it
 * @param {number} now.pulse from 0 to 1, or -1
 * @param {{id: string, x: number, y: number, alpha: number, factor: number}[]} now.chips
 * @param {Paint} paint
 */
export function dragMarks(at, now, paint) {
  const made = new Marks(at.em);
  addScores(made, at, now, paint);
  if (now.read && !now.log) addLine(made, at, now, paint);
  addWeights(made, at, now, paint);
  addSum(made, at, now, paint);
  addOutput(made, at, now, paint);
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

/** @type {Add} */
function addScores(made, at, now, paint) {
  const { score, weight } = at.lanes,
    zero = at.scoreY(0),
    name = at.narrow ? 'scores' : 'scores: how well each key fits the query';
  made.text('title score', [0, score.title], name, { bold: true });
  const wide = at.tile * at.pitch + at.gap / 1.5 - (at.pitch - at.bar),
    tall = weight.y + weight.h - score.y + 8;
  for (let key = 0; key < now.scores.length; key += at.tile) {
    const n = key / at.tile + 1,
      left = at.x(key) - at.gap / 3;
    made.rect(`tile ${n}`, [left, score.y - 4, wide, tall], n === now.read ? { fill: paint.panel } : {});
    made.text(`tile ${n} is`, [left + wide - 4, score.y + 0.9 * at.em], `tile ${n}`, {
      ...{ align: 'right', alpha: n <= now.read ? 1 : 0.6 },
    });
  }
  now.scores.forEach((s, key) => {
    const y = at.scoreY(s);
    made.rect(`score ${key}`, [at.x(key), Math.min(y, zero), at.bar, Math.max(1, Math.abs(zero - y))], {
      ...{ fill: COLOURS.S, alpha: isRead(now, at, key) ? 1 : 0.3 },
      ...{ datum: { kind: 'score', index: key }, tip: `score[${now.row}, ${key}] = ${exact(s * now.times)}` },
    });
  });
  made.add('zero', 'line', [0, zero, at.width - at.right, 0], { stroke: PALETTE.axis });
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
    if (old - y > at.em)
      made.text('gap is', [left - 8, (y + old) / 2 + at.em / 3], gap.toFixed(2), {
        ...{ bold: true, align: 'right', fill: paint.primary },
      });
  }
  made.add('m', 'line', [0, y, at.width - at.right, 0], { stroke: paint.text, width: 2.5, dash: [9, 6] });
  made.text('m is', [0, y - 0.4 * at.em], at.narrow ? `m = ${figure(now.m)}` : `largest so far, m = ${figure(now.m)}`, {
    ...{ bold: true, datum: { kind: 'm' }, tip: `m = ${exact(now.m)}` },
  });
}

/** @type {Add} */
function addWeights(made, at, now) {
  const { weight } = at.lanes,
    floor = weight.y + weight.h,
    right = at.width - at.right,
    power = at.narrow ? 'weights e^(score − m)' : 'weights e^(score − m): how much each key counts',
    name = now.log ? 'weights e^score, log scale up to 3.4e38' : power;
  made.text('title weight', [0, weight.title], name, { bold: true });
  if (now.log) made.add('ceiling', 'line', [0, weight.y, right, 0], { stroke: PALETTE.wrong, width: 2.5 });
  for (const key of now.scores.keys()) {
    if (!isRead(now, at, key)) continue;
    const value = now.weights[key],
      high = Math.max(1, Math.min(1, now.shown[key]) * weight.h);
    made.add(`weight ${key}`, Number.isFinite(value) ? 'rect' : 'lost', [at.x(key), floor - high, at.bar, high], {
      fill: now.wrong.has(key) ? PALETTE.wrong : COLOURS.P,
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

// l: the weights laid end to end.
/** @type {Add} */
function addSum(made, at, now, paint) {
  const { sum } = at.lanes,
    right = at.width - at.right,
    whole = { datum: { kind: 'sum' }, tip: now.read ? `l = ${exact(now.l)}` : '' },
    value = now.read ? ` = ${figure(now.l)}` : '';
  made.text('title sum', [0, sum.title], `l = sum of the weights${value}`, { bold: true });
  made.rect('sum', [0, sum.y, right, sum.h], { fill: paint.panel, ...whole });
  if (now.log && now.read) {
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
    so = at.narrow
      ? `O: ${now.dims} sums of weight × V`
      : `O, the output: ${now.dims} numbers, each a sum of weight × V`,
    name = now.off ? `O is ${now.off}` : now.divided ? 'O ÷ l: the answer to this query' : so;
  made.text('title o', [0, o.title], name, { bold: true, fill: now.off ? PALETTE.wrong : paint.text });
  made.add('middle', 'line', [0, middle, at.width - at.right, 0], { stroke: PALETTE.axis });
  if (!now.read) return;
  const box = (/** @type {number} */ value, /** @type {number} */ dim) => {
    const high = (Math.min(1, Math.abs(value) / now.fullO) * o.h) / 2;
    return [dim * at.dim, value < 0 ? middle : middle - high, Math.max(1, FILLED * at.dim), high];
  };
  now.o.forEach((value, dim) => {
    const thing = {
      datum: { kind: 'o', index: dim },
      tip: `${now.divided ? 'O ÷ l' : 'O'}[${dim}] = ${short(value, 7)}`,
    };
    if (Number.isFinite(value)) made.rect(`o ${dim}`, box(value, dim), { fill: COLOURS.O, ...thing });
    else made.add(`o ${dim}`, 'lost', [dim * at.dim, o.y, Math.max(1, FILLED * at.dim), o.h], thing);
  });
  now.right?.forEach((value, dim) => {
    if (Number.isFinite(value)) made.rect(`right ${dim}`, box(value, dim), { stroke: paint.text, width: 1.5 });
  });
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
