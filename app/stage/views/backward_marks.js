// What the backward draws at a step, as marks that move: rows fly from global memory to the SM, a
// line runs over the loop of a product, dQ flies back, dK and dV stay and grow.
import { Marks } from '../core/kinds.js';
import { COLOURS, PALETTE } from '../core/paint.js';
import { GROWING, PRODUCTS, alongKeys, boxOf, tensorOf } from './backward_model.js';

const DIM = 0.16, // a strip that the step does not touch
  DONE = 0.5; // a part of the map whose tile was worked on
const FLIGHT = { ease: 'both', passing: true },
  LINE = { ease: 'line', passing: true, alpha: 0.85 };
const colourOf = part => COLOURS[tensorOf(part)] ?? PALETTE.tensors.other;
const NAMES = { K: 'K\u1d40', V: 'V\u1d40', dK: 'dK\u1d40', dV: 'dV\u1d40' };

export const backwardTime = frame => (frame.made.length || frame.touched.length ? 260 : 180);

// model: backwardModel's; laid: backwardLayout's. Returns the marks of the step.
export function backwardMarks(model, laid, { step, paint }) {
  const made = new BackwardMarks(model, laid, { step, paint });
  if (laid.map) made.addMap();
  made.addStrips();
  made.addChip();
  made.addProducts();
  made.addLoop();
  made.addFlights();
  return made.marks.list;
}

/**
 * Rows [first, last] of a tensor in its strip of the map.
 * @param {any} laid
 * @param {string} part
 * @param {number[]} rows
 */
export function inStrip({ strips, unit }, part, [first, last]) {
  const [x, y, w, h] = strips[part],
    long = (last - first + 1) * unit;
  return alongKeys(part) ? [x + first * unit, y, long, h] : [x, y + first * unit, w, long];
}

class BackwardMarks {
  constructor(model, laid, { step, paint }) {
    this.model = model;
    this.laid = laid;
    this.paint = paint;
    this.step = step;
    this.frame = model.frameAt(step);
    this.before = step > 0 ? model.frames[step - 1] : null;
    this.marks = new Marks(laid.em);
  }
  get same() {
    return this.before?.block === this.frame.block && this.before?.launch === this.frame.launch;
  }

  // ---- global memory ----
  // The scores that exist only tile by tile: what was worked on, and the tile in work.
  addMap() {
    const { marks, laid, model, paint, frame, step } = this,
      { map, em, unit } = laid,
      [x, y, w, h] = map;
    marks.text('memory', [2, laid.title], 'Global memory', { bold: true });
    const seen = new Set();
    for (const past of model.frames.slice(0, step + 1)) {
      if (!past.queries || !past.keys || !past.made.length) continue;
      seen.add(`${past.queries} ${past.keys}`);
    }
    const place = ([r0, r1], [c0, c1]) => [
      x + c0 * unit,
      y + r0 * unit,
      (c1 - c0 + 1) * unit,
      (r1 - r0 + 1) * unit,
    ];
    for (const one of seen) {
      const [queries, keys] = one.split(' ').map(text => text.split(',').map(Number));
      marks.rect(`was ${one}`, place(queries, keys), { fill: COLOURS.P, alpha: 0.35 * DONE });
    }
    marks.rect('map', [x - 0.5, y - 0.5, w + 1, h + 1], { stroke: paint.border, dash: [3, 4] });
    if (frame.queries && frame.keys)
      marks.rect('tile', place(frame.queries, frame.keys), {
        fill: COLOURS.P,
        alpha: 0.75,
        ease: 'both',
      });
    const said = w > 14 * em ? 'P: no bytes in memory' : 'no P here';
    if (w > 5.5 * em)
      marks.text('no P', [x + w / 2, y + h / 2 + 0.35 * em, w - 6], said, { align: 'center' });
  }
  addStrips() {
    const { marks, laid, frame, model } = this,
      { em } = laid;
    for (const [part, box] of Object.entries(laid.strips)) {
      if (!model.parts.includes(part)) continue;
      marks.rect(`strip ${part}`, box, { fill: colourOf(part), alpha: DIM });
      const [x, y, w, h] = box,
        lying = alongKeys(part);
      const where = lying
        ? [x - 0.35 * em, y + h - 0.1 * em, 2 * em]
        : [x + w / 2, y - 0.35 * em, 2 * em];
      marks.text(`strip name ${part}`, /** @type {any} */ (where), part, {
        align: lying ? 'right' : 'center',
      });
    }
    for (const { part, kind, rows } of frame.touched)
      if (laid.strips[part]) {
        const box = inStrip(laid, part, rows);
        marks.rect(`on ${kind} ${part} ${rows}`, box, { fill: colourOf(part), span: [0, 0.15] });
        marks.rect(`edge ${kind} ${part} ${rows}`, box, {
          stroke: kind === 'load' ? COLOURS.read : COLOURS.written,
          width: 2.5,
          span: [0, 0.15],
        });
      }
  }

  // ---- on the SM ----
  addChip() {
    const { marks, laid, paint, frame } = this,
      { held, em } = laid,
      [x, y, w, h] = laid.chip;
    marks.rect('chip', [x, y, w, h], { fill: paint.panel, stroke: paint.border });
    marks.text('chip name', [x, y - 0.45 * em, w], `Block ${frame.block} on its SM`, {
      bold: true,
    });
    for (const [box, rect] of Object.entries(held))
      marks.rect(`slot ${box}`, rect, { fill: paint.background, stroke: paint.border });
    for (const part of ['Q', 'dO', 'K', 'V']) this.addOperand(part);
    for (const [box, parts] of /** @type {[string, string[]][]} */ ([
      ['S', ['P', 'S']],
      ['dP', ['dS', 'dP']],
    ]))
      this.addSquare(
        box,
        parts.find(part => frame.done.includes(part)),
      );
    for (const part of GROWING) this.addGrowing(part);
    for (const part of ['LSE', 'delta']) this.addColumn(part);
    for (const [box, [bx, by, bw]] of Object.entries(held))
      marks.text(`name ${box}`, [bx, by - 0.35 * em, bw + em], this.nameOf(box), { bold: true });
  }
  nameOf(box) {
    const { done } = this.frame;
    if (box === 'S' && done.includes('P')) return 'P';
    if (box === 'dP' && done.includes('dS')) return 'dS';
    return NAMES[box] ?? box;
  }
  addOperand(part) {
    const { frame, model, laid } = this,
      rows = alongKeys(part) ? frame.keys : frame.queries;
    if (!rows || !frame.holds.includes(part)) return;
    const fresh = frame.touched.find(t => t.part === part && t.kind === 'load');
    this.marks.add(`${part} ${rows}`, 'image', this.onChip(part, rows), {
      image: model.pictures[part],
      source: this.sourceOf(part, rows),
      ease: 'both',
      ...(fresh && laid.map && { enter: { rect: inStrip(laid, part, rows), alpha: 1 } }),
    });
  }
  // Its rows at the edge of its box: the last tile may be smaller.
  onChip(part, [first, last]) {
    const [x, y, w, h] = this.laid.held[part],
      long = (last - first + 1) * this.laid.heldUnit;
    return alongKeys(part) ? [x, y, long, h] : [x, y, w, long];
  }
  sourceOf(part, [first, last]) {
    const { d, n } = this.model,
      low = first + this.frame.head * n;
    return alongKeys(part) ? [first, 0, last - first + 1, d] : [0, low, d, last - first + 1];
  }
  addSquare(box, part) {
    const { frame, laid, model } = this,
      state = part ? frame.state[part] : -1;
    if (state < 0) return;
    const [x, y] = laid.held[box],
      [r0, r1, c0, c1] = model.rectOf(part, state),
      unit = laid.heldUnit;
    this.marks.add(
      `${part} ${state}`,
      'image',
      [x, y, (c1 - c0 + 1) * unit, (r1 - r0 + 1) * unit],
      {
        image: model.pictures[part][state],
        ease: 'line',
        out: [0.2, 1],
      },
    );
  }
  // LSE next to the scores, delta next to dP: a number for each query.
  addColumn(part) {
    const { frame, laid, model, marks } = this,
      { em } = laid;
    if (!frame.queries || !frame.holds.includes(part)) return;
    const [x, y] = laid.held[part === 'LSE' ? 'S' : 'dP'],
      [first, last] = frame.queries,
      wide = 0.55 * em;
    const box = [x - wide - 0.3 * em, y, wide, (last - first + 1) * laid.heldUnit];
    marks.add(`${part} ${frame.head} ${first}`, 'image', box, {
      image: model.pictures[part],
      source: [0, first + frame.head * model.n, 1, last - first + 1],
    });
    marks.rect(`edge ${part}`, box, { stroke: this.paint.border });
    marks.text(`column ${part}`, [box[0] + wide, y - 0.35 * em], part, {
      align: 'right',
      bold: true,
    });
  }
  addGrowing(part) {
    const { frame, model } = this,
      state = frame.state[part];
    if (state < 0) return;
    const [first, last] = model.rectOf(part, state);
    this.marks.add(`${part} state ${state}`, 'image', this.onChip(part, [first, last]), {
      image: model.pictures[part][state],
      ease: 'line',
      out: [0.9, 1],
    });
  }

  // ---- the products ----
  // The names of the five products: the one of this step is framed, and so are its operands.
  addProducts() {
    const { marks, laid, frame, paint } = this,
      { em } = laid,
      [x, y, w] = laid.products,
      each = w / PRODUCTS.length;
    PRODUCTS.forEach(({ made, text }, i) => {
      const now = frame.made.includes(made),
        made_ = frame.done.includes(made);
      if (now)
        marks.rect('product', [x + i * each - 3, y - em, each - 2, 1.4 * em], {
          stroke: colourOf(made),
          width: 2,
          ease: 'both',
        });
      marks.text(`product ${made}`, [x + i * each + 2, y, each - 10], text, {
        bold: now,
        alpha: now || made_ ? 1 : 0.6,
      });
    });
    for (const { made, reads } of this.now) {
      for (const part of reads)
        marks.rect(`reads ${made} ${part}`, this.boxNow(part), {
          stroke: paint.text,
          width: 2.5,
          span: [0, 0.12],
          out: [0, 0.3],
        });
      marks.rect(`makes ${made}`, this.boxNow(made), {
        stroke: colourOf(made),
        width: 3,
        span: [0, 0.12],
        out: [0, 0.3],
      });
    }
    for (const part of ['P', 'dS'])
      if (frame.made.includes(part) && !this.now.length)
        marks.rect(`makes ${part}`, this.boxNow(part), {
          stroke: colourOf(part),
          width: 3,
          span: [0, 0.12],
          out: [0, 0.3],
        });
  }
  get now() {
    return PRODUCTS.filter(({ made }) => this.frame.made.includes(made));
  }
  boxNow(part) {
    const { frame, laid } = this,
      box = boxOf(part);
    if (box === part && part !== 'S' && part !== 'dP') {
      const rows = alongKeys(part) ? frame.keys : frame.queries;
      return rows ? this.onChip(part, rows) : laid.held[part];
    }
    const [x, y, w, h] = laid.held[box];
    if (!frame.queries || !frame.keys) return [x, y, w, h];
    const size = ([first, last]) => (last - first + 1) * laid.heldUnit;
    return [x, y, size(frame.keys), size(frame.queries)];
  }
  // The sum of a product: the line is the index that it runs over, in both operands.
  addLoop() {
    const { marks, laid, paint } = this,
      thick = Math.max(1.5, laid.heldUnit);
    for (const { made, reads, over } of this.now)
      for (const part of reads) {
        const [x, y, w, h] = this.boxNow(part),
          along = over === 'dim' ? (alongKeys(part) ? 'y' : 'x') : over === 'query' ? 'y' : 'x';
        const bar = at =>
          along === 'x' ? [x + at * (w - thick), y, thick, h] : [x, y + at * (h - thick), w, thick];
        marks.rect(`loop ${made} ${part}`, bar(1), {
          fill: paint.text,
          ...LINE,
          enter: { rect: bar(0) },
        });
      }
  }
  // A gradient that the step writes flies from the SM to its strip.
  addFlights() {
    const { marks, frame, laid, model } = this;
    for (const { part, kind, rows } of frame.touched) {
      const state = frame.state[part] ?? -1;
      if (kind !== 'store' || !laid.map || !GROWING.includes(part) || state < 0) continue;
      marks.add(`flies ${part} ${rows}`, 'image', inStrip(laid, part, rows), {
        image: model.pictures[part][state],
        enter: { rect: this.onChip(part, rows), alpha: 1 },
        ...FLIGHT,
      });
    }
  }
}
