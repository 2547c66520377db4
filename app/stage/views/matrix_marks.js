// What the matrices of attention draw at a step, as marks that move: rows fly from global memory to
// the block's tiles on its SM, a line runs over the loop of a product, O flies back.
import { COLOURS, short, widest } from '../core/paint.js';
import { FLIGHT, GlobalMarks, NAMES, rowsOf, sourceOf } from './matrix_global.js';
import { meet } from './matrix_model.js';

const OLD = 0.3, // what is left of the tile before
  CARD = 4; // pixels between two tiles of one place
const LINE = { ease: 'line', passing: true, alpha: 0.85 };
const SOON = { span: [0, 0.12], out: [0, 0.3] };

// How long the way to a step takes, in milliseconds.
export function matrixTime(model, step) {
  const { touched, scores } = model.frameAt(step);
  if (touched.length) return 260;
  return scores || model.oNow(step) !== model.oNow(step - 1) ? 260 : 180;
}

// model: matrixModel's; laid: the layout, with em. Returns the marks of the step.
export function matrixMarks(model, laid, { step, paint }) {
  const made = new MatrixMarks(model, laid, { step, paint });
  made.addGlobal();
  made.addNames();
  made.addMeaning();
  made.addBlocks();
  if (laid.held) made.addChip();
  made.addOutlines();
  made.addLoop();
  return made.marks.list;
}

class MatrixMarks extends GlobalMarks {
  // ---- on the SM ----
  addChip() {
    const { marks, model, laid, paint, chip, frame } = this,
      { held, em } = laid,
      [x, y, w, h] = laid.chip,
      slot = { fill: paint.background, stroke: paint.border };
    marks.rect('chip', [x, y, w, h], { fill: paint.panel, stroke: paint.border });
    const who = model.launches > 1 ? `Launch ${frame.launch + 1}, block ${frame.block}` : `Block ${frame.block}`;
    const names = [`${who} on its SM: near`, `${who}: near`, `Block ${frame.block}`],
      fits = text => widest([text], `600 ${em}px ${paint.font}`) <= w;
    marks.text('chip name', [x, y - 0.45 * em, w], names.find(fits) ?? names[2], { bold: true });
    for (const place of Object.keys(held)) marks.rect(`slot ${place}`, held[place], slot);
    for (const tile of chip.tiles) this.addTile(tile);
    if (chip.score) this.addScores(chip.score);
    else if (!chip.tiles.length)
      marks.text('chip empty', [x + w / 2, held.K[1] + em, w], 'nothing is kept here', { align: 'center' });
    const state = Math.min(model.oNow(this.step), model.states - 1);
    if (state >= 0)
      marks.add(`held O ${state}`, 'image', held.O, {
        image: model.pictures.O[state],
        source: sourceOf('O', this.ofTile(this.whole)),
        ease: 'line',
        out: [0.9, 1],
      });
    this.addReads();
    const symbols = { ...NAMES, S: chip.score?.weighed ? 'P' : 'S' };
    for (const place of Object.keys(held)) {
      const count = chip.tiles.filter(one => one.place === place).length,
        [bx, by, wide] = held[place],
        rect = chip.tiles.findLast(one => one.place === place)?.rect,
        rows = rect && count === 1 ? `${symbols[place]}  ${rect[0]} to ${rect[1]}` : symbols[place],
        whole = count > 1 ? `${symbols[place]}, ${count} tiles` : rows,
        text = count > 1 || widest([whole], `600 ${em}px ${paint.font}`) <= wide ? whole : symbols[place];
      marks.text(`chip ${place}`, [bx, by - 0.4 * em - (count > 1 ? CARD * (count - 1) : 0)], text, {
        bold: true,
        fill: place === 'S' && chip.score ? COLOURS[symbols.S] : paint.text,
      });
    }
  }
  // How often each copied key or value is read, large: below the SM, or in the free place left of K.
  addReads() {
    const { marks, laid, frame, model } = this,
      { held, em } = laid,
      wanted = frame.scores ? 'K' : 'V',
      [, times] = Object.entries(frame.reads).find(([tensor]) => model.placeOf(tensor) === wanted) ?? [];
    if (!(times > 1)) return;
    const each = frame.scores ? 'Each key on the SM:' : 'Each value on the SM:',
      [x, top, room, high] = laid.reads ?? [held.Q[0], held.K[1], held.Q[2], held.Q[1] - held.K[1]];
    if (laid.reads) {
      const size = Math.min(room / 9, high - 1.9 * em, 3.4 * em);
      marks.text('reads 0', [x, top + 1.4 * em, room], each);
      marks.text('reads 1', [x, top + 1.5 * em + size, room], `1 copy, ${short(times)} reads`, { bold: true, size });
    } else if (high > 4.5 * em) {
      const size = Math.min(room / 4.6, (high - 3.2 * em) / 2.2, 2.4 * em);
      for (const [n, text] of size < em ? [] : ['1 copy,', `${short(times)} reads`].entries())
        marks.text(`reads ${n}`, [x, top + 1.2 * size * (n + 1), room], text, { bold: true, size });
    }
  }
  // A tile in shared memory. Its rows come one after another; the side that leads leaves first, or
  // they would cross.
  addTile({ place, tensor, rect, fresh, used }) {
    const { marks, paint } = this,
      first = place === 'Q' ? [this.model.row0, 0] : [rect[0], 0],
      behind = this.cardOf(place, rect),
      moved = box => [box[0] + behind, box[1] - behind, box[2], box[3]],
      box = moved(this.here(place, rect, first)),
      id = `${place} tile ${rect}`;
    this.image(id, place, box, sourceOf(place, rect), {
      alpha: used || fresh ? 1 : 0.55,
      ...(fresh && { span: [0.92, 1] }),
      ease: 'both',
      out: [0.6, 0.7],
    });
    const rows = fresh ? rowsOf(rect) : [];
    for (const [i, row] of rows.entries()) {
      const start = 0.3 * ((rows.length - 1 - i) / rows.length);
      this.image(`${place} ${row[0]}`, place, moved(this.here(place, row, first)), sourceOf(place, row), {
        enter: { rect: this.there(place, row) },
        span: [start, start + 0.7],
        ...FLIGHT,
      });
    }
    marks.rect(`held ${tensor} ${rect}`, box, {
      stroke: paint.text,
      width: 1.5,
      dash: [5, 3],
      ease: 'both',
      out: [0.6, 0.7],
    });
  }
  // How far a tile is behind those in use: several wait in one place.
  cardOf(place, rect) {
    const all = this.chip.tiles.filter(one => one.place === place);
    return CARD * (all.length - 1 - all.findIndex(one => one.rect === rect));
  }
  // The scores of the tile, and the weights that they become in the same place.
  addScores({ rect, weighed, old }) {
    const { marks, frame, paint, lit } = this,
      place = weighed ? 'P' : 'S',
      first = [rect[0], rect[2]],
      box = this.here('S', rect, first),
      came = weighed && lit.some(one => one.place === 'P' && one.kind === 'load');
    this.image(`held ${place} ${rect}`, place, box, sourceOf('S', this.ofTile(rect)), {
      alpha: old ? OLD : 1,
      ease: 'line',
      ...(came && { span: [0.92, 1] }),
      out: [0.2, 1],
    });
    for (const [i, row] of (came ? rowsOf(rect) : []).entries()) {
      const start = 0.3 * (1 - i / (rect[1] - rect[0] + 1));
      this.image(`P row ${row[0]}`, 'P', this.here('S', row, first), sourceOf('S', this.ofTile(row)), {
        enter: { rect: this.there('S', row) },
        span: [start, start + 0.7],
        ...FLIGHT,
      });
    }
    const shared = Object.keys(frame.resident).some(t => this.model.placeOf(t) === 'P');
    if (weighed && shared) marks.rect('held P', box, { stroke: paint.text, width: 1.5, dash: [5, 3] });
  }

  // ---- what the step reads, makes and writes ----
  addOutlines() {
    const { marks, frame, paint, lit, laid, chip, model } = this;
    for (const { box, kind, rect } of lit)
      marks.rect(`${kind} ${box} ${rect}`, this.framed(box, rect, kind), {
        stroke: kind === 'store' ? COLOURS.written : COLOURS.read,
        width: 3,
        ...(kind === 'store' ? { span: [0.4, 0.9], out: [0, 0.3] } : SOON),
      });
    const mine = { stroke: paint.text, width: 3, ...SOON };
    for (const { tensor, rect } of frame.uses) {
      const place = model.placeOf(tensor),
        box = place === 'P' ? 'S' : place,
        tile = chip.tiles.find(one => one.tensor === tensor && meet(one.rect, rect));
      if (!box) continue;
      if (!laid.held) marks.rect(`use ${box} ${rect}`, this.there(box, rect), mine);
      else if (tile) marks.rect(`use ${box}`, this.inTile(tile, rect), mine);
      else if (box === 'S' && chip.score)
        marks.rect('use S', this.here('S', chip.score.rect, [chip.score.rect[0], chip.score.rect[2]]), mine);
    }
    if (frame.scores) {
      const { scores } = frame,
        rect = laid.held ? this.here('S', scores, [scores[0], scores[2]]) : this.there('S', scores);
      marks.rect('made', rect, { stroke: laid.held ? COLOURS.S : paint.text, width: 2.5, ...SOON });
    }
  }
  // A read frame goes around the frame of a write in the same place.
  framed(box, rect, kind) {
    const [x, y, w, h] = this.there(box, rect),
      around = kind === 'load' && box === 'S' && this.weighing ? 3 : 0;
    return [x - around, y - around, w + 2 * around, h + 2 * around];
  }
  inTile(tile, rect) {
    const behind = this.cardOf(tile.place, tile.rect),
      first = tile.place === 'Q' ? [this.model.row0, 0] : [tile.rect[0], 0],
      [x, y, w, h] = this.here(tile.place, rect, first);
    return [x + behind, y - behind, w, h];
  }
  // The loop of a product: the line is the index that it runs over.
  addLoop() {
    const { chip, frame, model, step } = this,
      tileOf = place => chip.tiles.findLast(one => one.place === place),
      [q, k, v] = ['Q', 'K', 'V'].map(tileOf),
      adds = step > 0 && step < model.writtenAt && model.oNow(step) !== model.oNow(step - 1);
    if (frame.scores && q && k) {
      this.run('Q', this.inTile(q, q.rect), 'x');
      this.run('K', this.inTile(k, k.rect), 'y');
    } else if (adds && v && chip.score) {
      const { rect } = chip.score;
      this.run('P', this.here('S', rect, [rect[0], rect[2]]), 'x');
      this.run('V', this.inTile(v, v.rect), 'y');
    }
  }
  /** @param {string} name @param {number[]} box @param {'x' | 'y'} along */
  run(name, [x, y, w, h], along) {
    const { heldUnit } = this.laid,
      thick = Math.max(1.5, heldUnit),
      bar = at => (along === 'x' ? [x + at * (w - thick), y, thick, h] : [x, y + at * (h - thick), w, thick]);
    this.marks.rect(`loop ${name}`, bar(1), {
      fill: this.paint.text,
      ...LINE,
      enter: { rect: bar(0) },
    });
  }
}
