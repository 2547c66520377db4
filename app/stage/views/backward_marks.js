// What the backward draws at a step, as marks that move: rows fly from global memory to the SM, the
// chain of tiles lights one product, a line runs over the sum of this product, and gradients grow or
// fly back to memory.
import { Marks } from '../core/kinds.js';
import { COLOURS, smallText } from '../core/paint.js';
import { addMemory, inStrip } from './backward_memory.js';
import { DELTA, GROWING, PRODUCTS, SQUARES, alongKeys, formulaOf, shortFormula } from './backward_model.js';

const FLIGHT = { ease: 'both', passing: true },
  LINE = { ease: 'line', passing: true, alpha: 0.85 },
  LIT = { span: [0, 0.12], out: [0, 0.3] },
  PALE = 0.25, // not on the SM now
  IDLE = 0.55, // the name of a part that the launch neither reads nor makes
  NOW = COLOURS.S; // made in the step
const COLUMN_OF = { P: 'LSE', dS: 'delta' }, // the number per query that makes a tile of it
  NEXT = { S: 'P', dP: 'dS' };
// From left to right and from row to row of the chain.
/** @type {[string, string][]} */
const ARROWS = [
  ['Q', 'S'],
  ['K', 'S'],
  ['S', 'P'],
  ['P', 'dV'],
  ['dO', 'dP'],
  ['V', 'dP'],
  ['dP', 'dS'],
  ['P', 'dS'],
  ['dS', 'dK'],
  ['dS', 'dQ'],
];
// Delta has dO and O, and the place of V and dP in the launch that makes it.
/** @type {[string, string][]} */
const OF_DELTA = [
    ['dO', 'delta'],
    ['O', 'delta'],
  ],
  UNDER_DELTA = ['V', 'dP'];

export const backwardTime = frame => (frame.made.length || frame.touched.length ? 260 : 180);

// model: backwardModel's; laid: backwardLayout's. Returns the marks of the step.
export function backwardMarks(model, laid, now) {
  const marks = new Marks(laid.em);
  addMemory(marks, model, laid, now);
  new Chain(marks, model, laid, now).add();
  return marks.list;
}

class Chain {
  constructor(marks, model, laid, { step, paint, hide }) {
    this.marks = marks;
    this.model = model;
    this.laid = laid;
    this.paint = paint;
    this.hide = hide;
    this.frame = model.frameAt(step);
    this.step = step;
    this.ofDelta = this.frame.made.includes('delta');
    this.hidden = this.ofDelta ? UNDER_DELTA : ['O'];
    const { made, whole } = this.frame;
    this.now = whole ? [] : PRODUCTS.filter(product => made.includes(product.made));
    if (this.ofDelta) this.now = [DELTA];
    const reads = this.now.flatMap(product => product.reads);
    this.lit = new Set([...made, ...reads, this.frame.ready]);
  }
  add() {
    const { marks, laid, paint } = this;
    marks.rect('chip', laid.chip, { fill: paint.panel, stroke: paint.border });
    this.addHeadings();
    const drawn = part => !this.hidden.includes(part);
    for (const arrow of ARROWS) if (arrow.every(drawn)) this.addArrow(arrow);
    if (this.ofDelta) OF_DELTA.forEach(arrow => this.addArrow(arrow));
    for (const part of Object.keys(laid.held).filter(drawn)) this.addBox(part);
    for (const part of ['Q', 'dO', 'K', 'V', 'O'].filter(drawn)) this.addOperand(part);
    for (const part of SQUARES.filter(drawn)) this.addSquare(part);
    for (const part of ['P', 'dS']) this.addColumn(part);
    for (const part of GROWING) this.addGrowing(part);
    this.addFrames();
    this.addLoop();
    this.addFlights();
  }

  // The launch and block, the tiles without numbers, and where each column lives
  addHeadings() {
    const { marks, laid, model, frame } = this,
      { small, heading, chip, em } = laid,
      tiles = [...SQUARES, ...GROWING],
      logged = tiles.filter(part => model.logs(part)),
      [launch, name] = model.launches[frame.launch].split(', '),
      block = `block ${frame.block} of ${model.blocks[frame.launch]}`,
      here = small ? `${launch}: ${block}` : `${launch}, ${name}: ${block}, on its SM`,
      rest = logged.length < tiles.length && !small;
    const wide = rest ? chip[2] - 17 * em : chip[2];
    const said = frame.whole ? 'One tile, from its inputs to its gradients' : here;
    marks.text('chip name', [...heading, wide], said, { bold: true });
    if (rest) {
      const text = `Only ${logged.join(', ').replace(/, (?=\w+$)/, ' and ')} are logged here.`;
      const place = [heading[0] + chip[2], heading[1], 16 * em];
      marks.text('logged', /** @type {any} */ (place), text, { align: 'right' });
    }
    if (!laid.places) return;
    const ends = [...laid.columns.slice(1), chip[0] + chip[2]];
    model.places[frame.launch].forEach((place, i) => {
      const x = laid.columns[i],
        text = small ? place.replace('shared memory', 'shared').replace('registers, then', 'regs,') : place;
      marks.text(`place ${i}`, [x, laid.places, ends[i] - x - 0.3 * em], text, {
        size: smallText(em),
      });
    });
  }

  // ---- the chain ----
  addArrow([from, to]) {
    const { marks, laid, paint, frame } = this,
      on = frame.made.includes(to);
    marks.add(`arrow ${from} ${to}`, 'way', null, {
      points: this.wayOf(from, to),
      stroke: on ? NOW : paint.border,
      width: on ? 3 : 1.5,
      head: on ? 0.45 * laid.em : 0.32 * laid.em,
    });
  }
  // From a box to the next column, over a corner close to the next one: names stand next to the boxes.
  wayOf(from, to) {
    const { em } = this.laid,
      [x, y, w, h] = this.nodeOf(from),
      [tx, ty, , th] = to === 'delta' ? this.columnBox('dS') : this.nodeOf(to);
    if (from === 'P' && to === 'dS')
      return [
        [x + w / 2, y + h + 3],
        [x + w / 2, ty - 1.5 * this.laid.letter],
      ];
    const end = [tx - (COLUMN_OF[to] ? 1.2 * em : 0) - 3, ty + th / 2],
      start = [x + w + 3, y + h / 2],
      corner = end[0] - 1.1 * em;
    return Math.abs(start[1] - end[1]) < 1 ? [start, end] : [start, [corner, start[1]], [corner, end[1]], end];
  }
  // A part that the kernel does not log has its formula only, in a box of one line.
  nodeOf(part) {
    const { laid, model } = this,
      [x, y, w, h] = laid.held[part],
      { em } = laid;
    if (model.logs(part)) return [x, y, w, h];
    const wide = Math.min(this.roomOf(part), 9 * em),
      most = part === 'dK' ? laid.held.dQ[1] - 3.5 * em : Infinity; // the name of dQ is under it
    return [x, Math.min(y + h / 2 - em, most), wide, 2 * em];
  }
  roomOf(part) {
    const { laid } = this,
      [x, , w] = laid.held[part],
      [scores, weights, gradients] = laid.ends;
    if (GROWING.includes(part)) return gradients - x - 4;
    if (!SQUARES.includes(part)) return Math.max(w + laid.em, laid.columns[1] - x - 2 * laid.em);
    return (NEXT[part] ? scores : weights) - x;
  }
  addBox(part) {
    const { marks, laid, paint, model } = this,
      { em } = laid,
      box = this.nodeOf(part),
      bold = this.lit.has(part),
      logs = model.logs(part),
      whole = formulaOf(part),
      formula = model.adds && part === 'dQ' ? whole.replace('dQ +=', 'dQ part =') : whole,
      short = laid.small && this.hide(formula) === formula, // its letter could answer
      text = short ? shortFormula(formula) : formula,
      alpha = model.uses(this.frame, part) ? 1 : IDLE;
    marks.rect(`slot ${part}`, box, { stroke: paint.border, dash: logs ? [2, 4] : [] });
    const where = logs
      ? [box[0], box[1] - 0.35 * em, this.roomOf(part)]
      : [box[0] + 0.4 * em, box[1] + 1.35 * em, box[2] - 0.6 * em];
    const shape = logs ? this.shapeOf(part) : '',
      size = where[2] < 0.4 * laid.letter * text.length ? smallText(em) : laid.letter;
    marks.text(`name ${part}`, /** @type {any} */ (where), text, { bold, size, alpha });
    if (laid.small || !shape) return;
    const [x, y, w, h] = box,
      tiny = smallText(em),
      beside = [x + w + 0.4 * em, y + h / 2 + 0.35 * tiny, 5 * em],
      room = [x + w + 3, y + h / 2 - 0.6 * tiny, 0.4 * em + 0.5 * tiny * shape.length, 1.2 * tiny];
    marks.rect(`room ${part}`, room, { fill: paint.panel }); // it interrupts the arrow
    marks.text(`shape ${part}`, /** @type {any} */ (beside), shape, { size: tiny });
  }
  // Rows and columns of the tile in work, once it is there
  shapeOf(part) {
    const { frame, model } = this,
      of = span => span && span[1] - span[0] + 1;
    const rows = of(alongKeys(part) ? frame.keys : frame.queries),
      cols = SQUARES.includes(part) ? of(frame.keys) : model.d;
    const there = this.onSm(part);
    return there && rows && cols ? `[${rows}, ${cols}]` : '';
  }
  onSm(part) {
    const { frame } = this;
    if (GROWING.includes(part)) return frame.state[part] >= 0;
    return SQUARES.includes(part) ? frame.done.includes(part) : frame.holds.includes(part);
  }
  addFrames() {
    const { marks, paint, frame } = this;
    for (const { made, reads } of this.now)
      for (const part of reads)
        marks.rect(`reads ${made} ${part}`, this.boxNow(part), {
          stroke: paint.text,
          width: 2.5,
          ...LIT,
        });
    const loaded = frame.touched.filter(t => t.kind === 'load' && !frame.made.length);
    for (const { part } of loaded)
      if (this.laid.held[part])
        marks.rect(`loads ${part}`, this.boxNow(part), { stroke: COLOURS.read, width: 3, ...LIT });
    for (const part of [...frame.made, frame.ready])
      if (this.laid.held[part] && !frame.whole)
        marks.rect(`makes ${part}`, this.boxNow(part), {
          stroke: NOW,
          width: 3.5,
          ...LIT,
        });
    for (const part of frame.flying) this.addFlying(part);
  }
  // A product that runs on the tensor cores
  addFlying(part) {
    const { marks, laid } = this,
      { em } = laid,
      size = smallText(em),
      [x, y, w, h] = this.nodeOf(part),
      beside = this.model.logs(part),
      top = part === 'dK' ? y - 0.4 * em : y + h + size + 0.2 * em,
      at = beside ? [x + w + 0.5 * em, y + h / 2 + 0.35 * size] : [x + 0.4 * em, top];
    marks.rect(`flying ${part}`, [x - 3, y - 3, w + 6, h + 6], {
      stroke: NOW,
      width: 2.5,
      dash: [6, 4],
    });
    marks.text(`in flight ${part}`, /** @type {any} */ (at), 'in flight', { size, bold: true });
  }

  // ---- the tiles ----
  addOperand(part) {
    const { model, laid } = this,
      rowsOf = one => (alongKeys(part) ? one.keys : one.queries),
      there = one => one.holds.includes(part) && rowsOf(one),
      held = there(this.frame),
      frame = held ? this.frame : this.model.nearest(this.step, there);
    if (!frame) return;
    const rows = rowsOf(frame),
      fresh = held && frame.touched.find(t => t.part === part && t.kind === 'load'),
      low = rows[0] + (alongKeys(part) ? 0 : frame.head * model.n);
    this.marks.add(`${part} ${rows}`, 'image', this.onChip(part, rows), {
      image: model.pictures[part],
      source: [0, low, model.d, rows[1] - rows[0] + 1],
      ease: 'both',
      ...(!held && { alpha: PALE }),
      ...(fresh && { enter: { rect: inStrip(laid, part, rows), alpha: 1 } }),
    });
    if (laid.small || !held) return;
    const [x, y] = laid.held[part],
      said = `${alongKeys(part) ? 'keys' : 'queries'} ${rows[0]} to ${rows[1]}`;
    this.marks.text(`span ${part}`, [x + 2 * laid.em, y - 0.35 * laid.em, 8.5 * laid.em], said, {
      size: laid.letter,
    });
  }
  // Its rows at the edge of its box: the last tile may be smaller.
  onChip(part, [first, last]) {
    const [x, y, w] = this.laid.held[part];
    return [x, y, w, (last - first + 1) * this.laid.heldUnit];
  }
  addSquare(part) {
    const { frame, laid, model } = this,
      done = one => one.state[part] >= 0 && one.done.includes(part),
      state = (done(frame) ? frame : model.nearest(this.step, done))?.state[part] ?? -1;
    if (state < 0) return;
    const [x, y] = laid.held[part],
      [r0, r1, c0, c1] = model.rectOf(part, state),
      unit = laid.heldUnit,
      spent = frame.done.includes(NEXT[part]) && !frame.made.includes(part),
      pale = (spent && !frame.whole) || !done(frame);
    this.marks.add(`${part} ${state}`, 'image', [x, y, (c1 - c0 + 1) * unit, (r1 - r0 + 1) * unit], {
      image: model.pictures[part][state],
      ease: 'line',
      out: [0.2, 1],
      ...(pale && { alpha: PALE }),
    });
  }
  // LSE next to P, delta next to dS: a number for each query.
  addColumn(part) {
    const { frame, laid, model, marks } = this,
      { em } = laid,
      name = COLUMN_OF[part];
    if (part === 'P' && this.ofDelta) return;
    const known = frame.holds.includes(name) || frame.made.includes(name);
    if (!frame.queries || !known || !model.logs(part)) return;
    const [first, last] = frame.queries,
      box = this.columnBox(part);
    marks.add(`${name} ${frame.head} ${first}`, 'image', box, {
      image: model.pictures[name],
      source: [0, first + frame.head * model.n, 1, last - first + 1],
    });
    marks.rect(`edge ${name}`, box, { stroke: this.paint.border });
    const made = frame.made.includes(name);
    const read = frame.made.includes(part) && !frame.whole;
    if (made || read)
      marks.rect(`edge now ${name}`, box, {
        stroke: made ? NOW : this.paint.text,
        width: 3,
        ...LIT,
      });
    const at = made ? box[0] - 0.2 * em : box[0] + box[2],
      under = /** @type {any} */ ([at, box[1] + box[3] + 1.2 * em]);
    marks.text(`column ${name}`, under, name, {
      align: made ? 'left' : 'right',
      bold: made || read,
    });
    if (!made) return;
    const [fx, fy, , fh] = laid.held.dP,
      [ox, , ow] = laid.held.O,
      from = laid.small ? ox + ow + 0.5 * em : fx - em,
      most = box[0] - from - 2.6 * em;
    marks.text('formula of delta', [from, fy + fh / 2 + 0.35 * em, most], formulaOf(name), {
      bold: true,
    });
  }
  // LSE or delta: left of the tile that it makes
  columnBox(part) {
    const { frame, laid } = this,
      [x, y, , h] = laid.held[part],
      wide = 0.55 * laid.em,
      rows = frame.queries ? frame.queries[1] - frame.queries[0] + 1 : h / laid.heldUnit;
    return [x - wide - 0.3 * laid.em, y, wide, rows * laid.heldUnit];
  }
  addGrowing(part) {
    const { frame, model } = this,
      there = one => one.state[part] >= 0,
      held = there(frame),
      state = (held ? frame : model.nearest(this.step, there))?.state[part] ?? -1;
    if (state < 0) return;
    const [first, last] = model.rectOf(part, state);
    this.marks.add(`${part} state ${state}`, 'image', this.onChip(part, [first, last]), {
      image: model.pictures[part][state],
      ease: 'line',
      out: [0.9, 1],
      ...(!held && { alpha: PALE }),
    });
  }
  boxNow(part) {
    const { frame, laid, model } = this,
      rows = alongKeys(part) ? frame.keys : frame.queries;
    if (!model.logs(part)) return this.nodeOf(part);
    if (!rows) return laid.held[part];
    const [x, y, w, h] = this.onChip(part, rows);
    if (!SQUARES.includes(part) || !frame.keys) return [x, y, w, h];
    return [x, y, (frame.keys[1] - frame.keys[0] + 1) * laid.heldUnit, h];
  }
  // The sum of a product: the line is the index that it runs over, in both operands.
  addLoop() {
    const { marks, laid, paint, model } = this,
      thick = Math.max(1.5, laid.heldUnit);
    for (const { made, reads, over } of this.now)
      for (const part of reads) {
        if (!model.logs(part)) continue;
        const [x, y, w, h] = this.boxNow(part),
          along = over === 'dim' || (over === 'key' && SQUARES.includes(part)) ? 'x' : 'y';
        const bar = at => (along === 'x' ? [x + at * (w - thick), y, thick, h] : [x, y + at * (h - thick), w, thick]);
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
      if (kind !== 'store' || !GROWING.includes(part) || state < 0) continue;
      marks.add(`flies ${part} ${rows}`, 'image', inStrip(laid, part, rows), {
        image: model.pictures[part][state],
        enter: { rect: this.onChip(part, rows), alpha: 1 },
        ...FLIGHT,
      });
    }
  }
}
