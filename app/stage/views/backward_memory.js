// The map of global memory in the backward: every tensor as a strip, and the scores that no strip
// holds, because they exist only tile by tile.
import { COLOURS, PALETTE, smallText } from '../core/paint.js';
import { wrapped } from '../core/wrapped.js';
import { alongKeys, tensorOf } from './backward_model.js';

const DIM = 0.16, // a strip that the step does not touch
  WRITTEN = 0.6, // rows that the block has written
  OTHERS = 0.35, // rows that other blocks of an earlier launch have written
  BLOCKS = 4; // arrows of blocks at most
export const COMPUTED = 'P: not in global memory';
export const colourOf = part => COLOURS[tensorOf(part)] ?? PALETTE.tensors.other;
// The red of O would look like a mistake here.
const stripColour = part => (tensorOf(part) === 'O' ? PALETTE.tensors.other : colourOf(part));

/**
 * Rows [first, last] of a tensor in its strip.
 * @param {any} laid
 * @param {string} part
 * @param {number[]} rows
 */
export function inStrip({ strips, across, down }, part, [first, last]) {
  const [x, y, w, h] = strips[part],
    count = last - first + 1;
  return alongKeys(part) ? [x + first * across, y, count * across, h] : [x, y + first * down, w, count * down];
}

/**
 * Adds the marks of the map at a step.
 * @param {import('../core/kinds.js').Marks} marks
 * @param {any} model backwardModel's
 * @param {any} laid backwardLayout's
 * @param {{step: number, paint: any, hide: (text: string) => string}} now
 */
export function addMemory(marks, model, laid, { step, paint, hide }) {
  const frame = model.frameAt(step);
  marks.text('memory', laid.title, 'Global memory', { bold: true });
  const sizes = `${model.n} queries, ${model.keys} keys, d = ${model.d}`;
  marks.text('sizes', laid.sizes, sizes, { size: smallText(laid.em) });
  addScores(marks, model, laid, { step, paint });
  const sums = model.adds && !laid.small && frame.launch < model.launches.length - 1; // the last launch scales them
  for (const [part, box] of Object.entries(laid.strips))
    if (model.parts.includes(part)) addStrip(marks, laid, part, box, paint, sums && part === 'dQ' ? 'dQ sums' : part);
  for (const part of finished(model, frame.launch))
    if (laid.strips[part]) marks.rect(`others ${part}`, laid.strips[part], { fill: stripColour(part), alpha: OTHERS });
  for (const [key, part, rows] of written(model, step))
    marks.rect(key, inStrip(laid, part, rows), { fill: stripColour(part), alpha: WRITTEN });
  if (!frame.whole) addNext(marks, model, laid, { step, paint });
  if (model.parts.includes('delta')) addDelta(marks, laid, frame, { paint, hide });
  if (model.facts.every(({ said }) => hide(said) === said)) addFacts(marks, model, laid, { frame, paint });
  addBlocks(marks, model, laid, step);
  const inOrder = [...frame.touched].sort((a, b) => a.kind.localeCompare(b.kind)); // loads first
  for (const { part, kind, rows } of inOrder) {
    if (!laid.strips[part]) continue;
    const box = inStrip(laid, part, rows);
    marks.rect(`on ${kind} ${part} ${rows}`, box, { fill: stripColour(part), span: [0, 0.15] });
    marks.rect(`edge ${kind} ${part} ${rows}`, box, {
      stroke: kind === 'load' ? COLOURS.read : COLOURS.written,
      width: 2.5,
      span: [0, 0.15],
    });
  }
}

// The rows of gradients that the block has written in earlier steps: [key, part, rows].
function written(model, step) {
  const stores = model.frames
    .slice(0, step)
    .flatMap(frame => frame.touched.filter(t => t.kind === 'store' && t.part.startsWith('d')));
  const found = stores.map(({ part, rows }) => [`written ${part} ${rows}`, part, rows]);
  return new Map(found.map(one => [one[0], one])).values();
}

// The parts that a launch before has written: all its blocks have ended, so every row is there.
function finished(model, launch) {
  const before = model.frames.filter(frame => frame.launch < launch);
  const stores = before.flatMap(frame => frame.touched.filter(t => t.kind === 'store'));
  return new Set(stores.map(({ part }) => part).filter(part => part.startsWith('d')));
}

// An arrow from the tile in work to the next one of the block's loop.
function addNext(marks, model, { map, em, across, down }, { step, paint }) {
  const { queries, keys, launch } = model.frameAt(step);
  if (!queries || !keys) return;
  const next = model.frames
    .slice(step)
    .find(f => f.launch === launch && f.queries && f.keys && `${f.queries} ${f.keys}` !== `${queries} ${keys}`);
  if (!next) return;
  const middle = ([first, last]) => (first + last + 1) / 2;
  const at = f => [map[0] + middle(f.keys) * across, map[1] + middle(f.queries) * down];
  marks.add('next tile', 'way', null, {
    points: [at({ queries, keys }), at(next)],
    stroke: paint.text,
    width: 1.5,
    head: 0.4 * em,
  });
  const [x, y] = at(next);
  const name = [x + 0.6 * em, y + 0.35 * em, map[0] + map[2] - x - em];
  marks.text('next name', /** @type {any} */ (name), 'next tile', { size: smallText(em) });
}

// Under the strips: delta comes from O and dO.
function addDelta(marks, { strips, em, small }, frame, { paint, hide }) {
  const on = frame.made.includes('delta') && !frame.whole,
    [ox, dox, dx] = ['O', 'dO', 'delta'].map(part => strips[part][0] + strips[part][2] / 2),
    end = strips.delta[1] + strips.delta[3],
    low = end + 0.7 * em,
    size = smallText(em),
    stroke = on ? COLOURS.S : paint.text;
  marks.add('O to delta', 'line', [ox, end + 2, 0, low - end - 2], { stroke });
  marks.add('dO to delta', 'line', [dox, end + 2, 0, low - end - 2], { stroke });
  const points = [
    [ox, low],
    [dx, low],
    [dx, end + 2],
  ];
  marks.add('to delta', 'way', null, { points, stroke, width: on ? 2.5 : 1, head: 0.3 * em });
  const said = small ? 'delta = sum(dO * O)' : "delta: a row's sum of dO * O",
    at = /** @type {any} */ ([strips.Q[0], low + 1.3 * size]);
  marks.text('of delta', at, hide(said), { size, bold: on });
}

// The five answers. The one of the step is lit. An open question hides them. A low panel leaves out
// the last ones that are not lit.
function addFacts(marks, model, { panel, em, small }, { frame, paint }) {
  if (!panel) return;
  const [x, y, w, h] = panel,
    size = small ? Math.max(0.88 * em, 11) : smallText(em),
    row = 1.2 * size,
    stores = frame.touched.filter(t => t.kind === 'store').map(t => t.part),
    now = frame.whole ? [] : frame.made.length ? frame.made : stores;
  const shown = model.facts.map(({ said, of }, i) => ({
    i,
    on: of.some(part => now.includes(part)),
    lines: wrapped(said, (w - 0.7 * em) / (0.43 * size), Infinity, text => text.length),
  }));
  const tall = () => shown.reduce((sum, { lines }) => sum + lines.length * row + 0.25 * size, 0);
  while (tall() > h + size && shown.some(({ on }) => !on))
    shown.splice(
      shown.findLastIndex(({ on }) => !on),
      1,
    );
  let top = y;
  shown.forEach(({ i, on, lines }) => {
    if (on) marks.rect(`lit ${i}`, [x, top, w, lines.length * row], { fill: COLOURS.S, alpha: 0.15 });
    marks.rect(`bar ${i}`, [x, top, on ? 4 : 2, lines.length * row], {
      fill: on ? COLOURS.S : paint.border,
    });
    lines.forEach((line, n) => {
      const at = /** @type {any} */ ([x + 0.7 * em, top + n * row + size, w - 0.7 * em]);
      marks.text(`fact ${i} ${n}`, at, line, { size });
    });
    top += lines.length * row + 0.25 * size;
  });
}

// The blocks that add to the rows of dQ in work.
function addBlocks(marks, model, { strips, em, edge, down, small }, step) {
  const { queries, keys, made, touched } = model.frameAt(step),
    [x, y, w] = strips.dQ;
  const adds = made.includes('dQ') || touched.some(t => t.part === 'dQ' && t.kind === 'store');
  if (!model.adds || !adds || !queries || !keys || edge - x - w < 5.5 * em) return;
  const blocks = Math.min(BLOCKS, Math.ceil(model.keys / model.cols)),
    top = y + ((queries[0] + queries[1] + 1) / 2) * down;
  for (let n = 0; n < blocks; n++) {
    const from = [x + w + (small ? 1.5 : 2.4) * em, top + (n - (blocks - 1) / 2) * 1.4 * em];
    marks.add(`block ${n}`, 'way', null, {
      points: [from, [x + w + 3, top]],
      stroke: COLOURS.written,
      width: 1.5,
      head: 0.4 * em,
    });
    marks.text(`block name ${n}`, [from[0] + 0.3 * em, from[1] + 0.35 * em], `block ${n}`);
  }
}

// The tiles of P in this launch so far are hatched, and the tile in work has an edge. A later launch
// computes them anew.
function addScores(marks, model, { map, em, across, down, caption }, { step, paint }) {
  const [x, y, w, h] = map,
    frame = model.frameAt(step),
    seen = new Map();
  const place = ([r0, r1], [c0, c1]) => [x + c0 * across, y + r0 * down, (c1 - c0 + 1) * across, (r1 - r0 + 1) * down];
  for (const { launch, queries, keys, made, whole } of model.frames.slice(0, step + 1))
    if (!whole && launch === frame.launch && queries && keys && made.includes('P'))
      seen.set(`${queries} ${keys}`, place(queries, keys));
  for (const [tile, box] of seen)
    marks.add(`was ${tile}`, 'hatch', box, { stroke: paint.text, alpha: 0.45, gap: 0.6 * em });
  marks.rect('map', [x - 0.5, y - 0.5, w + 1, h + 1], { stroke: paint.border, dash: [3, 4] });
  if (frame.queries && frame.keys)
    marks.rect('tile', place(frame.queries, frame.keys), {
      stroke: paint.text,
      width: 2.5,
      ease: 'both',
    });
  const name = model.parts.includes('P') ? 'P' : COMPUTED;
  if (w > 7 * em)
    marks.text('no P', [x + w / 2, caption, w + 0.6 * em], name, {
      align: 'center',
      size: smallText(em),
    });
}

/**
 * @param {any} marks @param {any} laid @param {string} part
 * @param {number[]} box @param {any} paint @param {string} name
 */
function addStrip(marks, { em }, part, box, paint, name) {
  const [x, y, w, h] = box,
    lying = alongKeys(part);
  marks.rect(`strip ${part}`, box, { fill: stripColour(part), alpha: DIM });
  marks.rect(`strip edge ${part}`, box, { stroke: paint.border }); // seen in dark, too
  const where = lying ? [x - 0.4 * em, y + h - 0.05 * em] : [x + w / 2, y - 0.55 * em];
  marks.text(`strip name ${part}`, /** @type {any} */ (where), name, {
    align: lying ? 'right' : 'center',
  });
}
