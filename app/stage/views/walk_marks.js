// What the walk of a query head through its block table draws at a step, as marks that move: the
// entry's arrow grows to its page, the page's tokens slide down to K or V, and their bars rise.
import { Marks } from '../core/kinds.js';
import { COLOURS, number, rgb, signed } from '../core/paint.js';
import { slotsOf } from './pages.js';
import { addBars } from './walk_bars.js';
import { wayDown, wayOut } from './ways.js';

const MS = { load_q: 160, walk_k: 260, softmax: 260, walk_v: 260, write: 240 };

export const walkTime = frame => MS[frame.phase] ?? 240;

// walk: what the view knows of the run; laid: where its parts stand. at: the thing under the cursor.
export function walkMarks(walk, laid, { step, at, paint }) {
  return new WalkMarks(walk, laid, { step, at, paint }).made();
}

class WalkMarks {
  constructor(walk, laid, { step, at, paint }) {
    this.walk = walk;
    this.laid = laid;
    this.paint = paint;
    this.step = step;
    this.frame = walk.frameAt(step);
    this.state = walk.states[step];
    this.shown = walk.entryShown(at, step);
    this.entry = at?.token === undefined ? this.frame.logical : Math.floor(at.token / walk.size);
    this.role = this.frame.logical === this.shown ? this.frame.role?.toUpperCase() : undefined;
    this.marks = new Marks(laid.em);
  }
  made() {
    const { laid, frame } = this,
      covered = laid.low && frame.written; // there O stands in the place of K and V
    this.addTable();
    this.addPool();
    if (!covered) ['K', 'V'].forEach(tensor => this.addPage(tensor));
    if (this.entry !== undefined) this.addWays();
    addBars(this);
    if (!laid.low || frame.written) this.addOutput();
    return this.marks.list;
  }
  // Texts in the left column, where no arrow goes.
  beside(id, y, bold, ...lines) {
    const { marks, laid } = this,
      { em, left } = laid;
    marks.text(id, [0, y, left - 6], bold, { bold: true });
    lines.forEach((line, n) => marks.text(`${id} ${n}`, [0, y + (n + 1) * em * 1.25, left - 6], line));
  }

  addTable() {
    const { marks, walk, paint, state, entry } = this,
      { em, cells } = this.laid,
      { w, h } = cells;
    this.beside('table', em, `Table of ${walk.name}`, 'entry, page');
    walk.table.forEach((page, n) => {
      const [x, y] = cells.at(n),
        visited = state[n * walk.size] > 0,
        lit = n === entry,
        middle = { align: 'center' };
      marks.rect(`entry ${n}`, [x, y, w - 3, h], {
        fill: walk.colour,
        alpha: visited ? 0.28 : 0.08,
      });
      marks.rect(`entry edge ${n}`, [x + 0.5, y + 0.5, w - 4, h - 1], {
        stroke: lit ? paint.text : walk.colour,
        width: lit ? 3 : 1.5,
        span: [0, 0.1],
      });
      marks.text(`entry number ${n}`, [x + w / 2 - 1.5, y + em * 1.05], String(n), middle);
      marks.text(`entry page ${n}`, [x + w / 2 - 1.5, y + em * 2.2], String(page), {
        ...middle,
        bold: true,
        mono: true,
        size: em * 1.08,
      });
    });
  }
  addPool() {
    const { marks, walk, state, shown } = this,
      { em, place } = this.laid,
      slots = place.rows > 1 ? [`of ${walk.size} slots`] : [];
    this.beside('pool', place.top + em, 'Pool', `${walk.pages} pages`, ...slots);
    for (let page = 0; page < walk.pages; page++) {
      const entry = walk.table.indexOf(page),
        mine = entry >= 0,
        other = walk.others[page],
        unread = mine && !state[entry * walk.size] && entry !== shown;
      marks.add(`page ${page}`, 'page', place.at(page), {
        page,
        place,
        size: walk.size,
        colour: mine ? walk.colour : walk.another,
        fill: mine ? walk.fillOf(entry) : (other ?? 0),
        light: unread ? 0.35 : 1,
        note: mine && other ? 'shared' : '',
        span: [0.3, 0.5],
      });
    }
  }

  // The page as it lies in memory: K as pieces of X numbers by slot, V as dims by slot. Rows follow
  // one another in memory.
  addPage(tensor) {
    const { marks, walk, paint, shown } = this,
      { half, gap, top, high } = this.laid.box,
      x = tensor === 'K' ? 0 : half + gap,
      page = walk.table[shown],
      rows = tensor === 'K' ? walk.chunks : walk.head_dim,
      reading = this.role === tensor,
      wide = half / walk.size;
    marks.rect(`${tensor} of ${page}`, [x, top, walk.fillOf(shown) * wide, high], {
      fill: COLOURS[tensor],
      alpha: reading ? 1 : 0.3,
      out: [0, reading ? 0.2 : 0],
      ...(reading ? { span: [0.84, 1] } : { enter: {} }), // what is not read changes at once
    });
    if (reading) this.addFlight(tensor, x);
    marks.add(`${tensor} grid`, 'grid', [x, top, half, high], {
      columns: walk.size,
      rows: high / rows > 3 ? rows : 1,
      stroke: paint.background,
      width: 0.7,
    });
    if (reading && tensor === 'K') this.addLanes(x, page);
    marks.rect(`${tensor} edge`, [x + 0.5, top + 0.5, half - 1, high - 1], {
      stroke: reading ? paint.text : paint.border,
      width: reading ? 2.5 : 1,
    });
    this.addName(tensor, x, page);
  }
  // The tokens on their way from the pool: each token is one thing, wherever it is.
  addFlight(tensor, x) {
    const { marks, walk, shown } = this,
      { box, place } = this.laid,
      slots = slotsOf(place, walk.size),
      [px, py] = place.at(walk.table[shown]),
      wide = box.half / walk.size;
    for (let slot = 0; slot < walk.fillOf(shown); slot++) {
      const start = 0.34 + (0.16 * slot) / walk.size;
      marks.rect(`${tensor} ${shown * walk.size + slot}`, [x + slot * wide, box.top, wide, box.high], {
        fill: COLOURS[tensor],
        passing: true,
        ease: 'both',
        span: [start, start + 0.34],
        enter: {
          rect: [px + slot * slots.wide, py + slots.head, slots.wide, slots.high],
          fill: walk.colour,
        },
      });
    }
  }
  // Where the lanes of the first load read.
  addLanes(x, page) {
    const { marks, walk, frame, shown } = this,
      { em, box } = this.laid,
      { half, top, high } = box,
      wide = half / walk.size,
      tall = high / walk.chunks,
      base = walk.bases[shown],
      late = { fill: '#fff', span: [0.8, 1], out: [0, 0.1] };
    frame.request.forEach((offset, lane) => {
      if (offset === null) return;
      const piece = (offset - base) / 16,
        row = Math.floor(piece / walk.size),
        slot = piece % walk.size,
        id = `lane ${lane} of ${page}`;
      if (tall >= em && wide >= 1.5 * em)
        marks.text(id, [x + (slot + 0.5) * wide, top + (row + 0.5) * tall + em * 0.36], String(lane), {
          ...late,
          align: 'center',
          mono: true,
        });
      else
        marks.rect(id, [x + (slot + 0.3) * wide, top + (row + 0.25) * tall, wide * 0.4, Math.max(tall * 0.5, 1)], late);
    });
  }
  addName(tensor, x, page) {
    const { marks, walk, shown } = this,
      { em, box } = this.laid,
      from = `from byte ${number(walk.bases[shown])}`,
      shape =
        tensor === 'K'
          ? `[${walk.chunks}, ${walk.size}] \u00d7 16 bytes`
          : `[${walk.head_dim}, ${walk.size}] \u00d7 ${walk.item} bytes`;
    marks.add(`${tensor} name`, 'label', [x, box.top + box.high + 1.25 * em, box.half, em], {
      name: `${tensor} of page ${page}`,
      notes: [`${shape}, ${from}`, from],
    });
  }

  // From the table's entry to its page, and from there to the page enlarged.
  addWays() {
    const { marks, walk, paint, shown, frame } = this,
      { em, cells, place, box } = this.laid,
      page = walk.table[shown],
      [px, py] = place.at(page),
      to = frame.role === 'v' ? box.half * 1.5 + box.gap : box.half / 2,
      name = `${frame.role} ${shown}`,
      way = {
        stroke: paint.text,
        head: em * 0.4,
        grown: 1,
        enter: { grown: 0 },
        ease: 'both',
        out: [0, 0.15],
      };
    const down = wayDown(cells, shown, place, page, cells.bottom + 0.6 * em),
      out = wayOut(place, page, [to, box.top], place.bottom + 0.7 * em);
    marks.add(`down ${name}`, 'way', null, { ...way, points: down, span: [0.02, 0.4] });
    marks.add(`out ${name}`, 'way', null, { ...way, points: out, span: [0.36, 0.72] });
    marks.rect(`lit page ${name}`, [px, py, place.w, place.h], {
      stroke: paint.text,
      width: 2.5,
      span: [0.34, 0.42],
      out: [0, 0.15],
    });
  }

  addOutput() {
    const { marks, walk, paint, frame } = this,
      { em, left, width, box } = this.laid,
      { head_dim } = walk,
      wide = (width - left) / head_dim;
    this.beside('O', box.oTop + em, `O, head ${walk.head}`);
    if (frame.written) {
      const tone = signed(rgb(paint.background));
      for (let dim = 0; dim < head_dim; dim++) {
        const start = (0.5 * dim) / head_dim;
        marks.rect(`O ${dim}`, [left + dim * wide, box.oTop, wide + 0.5, box.oHigh], {
          fill: `rgb(${tone(walk.o[dim], walk.oSpan).map(Math.round).join(',')})`,
          span: [start, start + 0.5],
        });
      }
    } else marks.text('no O', [left + 6, box.oTop + 0.95 * em], 'not written yet');
    marks.rect('O edge', [left + 0.5, box.oTop + 0.5, width - left - 1, box.oHigh - 1], {
      stroke: paint.border,
    });
  }
}
