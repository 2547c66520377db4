// The matrices of attention in global memory, as marks: what a step reads is lit, what it writes
// comes from the SM.
import { Marks } from '../core/kinds.js';
import { COLOURS, PALETTE, widest } from '../core/paint.js';
import { onChip } from './matrix_model.js';

const DIM = 0.14, // what a step does not read: plain, as its values mean nothing to the step
  OLD = 0.45; // what an earlier step has made
export const FLIGHT = { ease: 'both', passing: true };
const WORDS = { K: 'keys', V: 'values', S: 'scores', P: 'weights', O: 'output' };
const LONG = {
  Q: 'queries: they ask',
  K: 'keys: they answer',
  V: 'values: they are mixed',
  S: 'scores: how well both fit',
  P: 'weights: scores as shares',
  O: 'output: mixed values',
};
const MEANING = [
  'Each token has three vectors:',
  'Q, a query: what it asks',
  'K, a key: what it offers',
  'V, a value: what it carries',
  '',
  'S = scale \u00b7 Q K\u1d40',
  'How well a query fits a key',
  'P = softmax of a row of S',
  'Weights that sum to one',
  'O = P V',
  'The values, mixed by weights',
]; // a formula is bold
export const NAMES = { Q: 'Q', K: 'K\u1d40', S: 'S', V: 'V', O: 'O' };

/**
 * The pixels of elements [r0, r1] x [c0, c1] in a place's box, of which [row, col] is the first. K
 * is drawn with keys along x.
 * @param {string} place
 * @param {number[]} box
 * @param {number} unit
 * @param {number[]} rect
 * @param {number[]} [first]
 * @returns {[number, number, number, number]}
 */
export function pixelsIn(place, [x, y], unit, [r0, r1, c0, c1], [row, col] = [0, 0]) {
  const [across, down, wide, high] =
    place === 'K' ? [r0 - row, c0 - col, r1 - r0 + 1, c1 - c0 + 1] : [c0 - col, r0 - row, c1 - c0 + 1, r1 - r0 + 1];
  return [x + across * unit, y + down * unit, wide * unit, high * unit];
}
// The same in the place's picture.
/** @type {(place: string, rect: number[]) => number[]} */
export const sourceOf = (place, rect) => pixelsIn(place, [0, 0], 1, rect);
/**
 * One by one, as they lie in memory.
 * @param {number[]} rect
 */
export const rowsOf = ([r0, r1, c0, c1]) => Array.from({ length: r1 - r0 + 1 }, (_, i) => [r0 + i, r0 + i, c0, c1]);

export class GlobalMarks {
  constructor(model, laid, { step, paint }) {
    this.model = model;
    this.laid = laid;
    this.paint = paint;
    this.step = step;
    this.frame = model.frameAt(step);
    this.chip = laid.held ? onChip(model, step) : { tiles: [], score: null };
    this.marks = new Marks(laid.em);
    this.whole = [model.row0, model.row0 + model.rows - 1, 0, model.d - 1]; // the tile's part of O
    this.lit = this.frame.touched
      .map(one => ({ ...one, place: model.placeOf(one.tensor) }))
      .filter(one => one.place)
      .map(one => ({ ...one, box: one.place === 'P' ? 'S' : one.place }));
  }
  // Where elements are in global memory, and on the SM, of a tile that begins at `first`.
  there(place, rect) {
    return pixelsIn(place, this.laid.boxes[place], this.laid.unit, rect);
  }
  here(place, rect, first) {
    return pixelsIn(place, this.laid.held[place], this.laid.heldUnit, rect, first);
  }
  // A picture's rows are those of the traced tile in S, P and O.
  /** @param {number[]} rect */
  ofTile([r0, r1, c0, c1]) {
    const { row0 } = this.model;
    return [r0 - row0, r1 - row0, c0, c1];
  }
  image(id, picture, rect, source, more) {
    this.marks.add(id, 'image', rect, { image: this.model.pictures[picture], source, ...more });
  }

  // ---- global memory ----
  addGlobal() {
    const { marks, model, laid, lit, step } = this,
      { boxes } = laid;
    if (laid.held) marks.text('global', [boxes.Q[0], laid.title], 'Global memory: far', { bold: true });
    for (const place of ['Q', 'K', 'V']) {
      marks.add(`all ${place}`, 'rect', boxes[place], { fill: COLOURS[place], alpha: DIM });
      for (const { kind, rect } of lit.filter(one => one.place === place))
        this.image(`lit ${kind} ${place} ${rect}`, place, this.there(place, rect), sourceOf(place, rect), {
          span: [0, 0.12],
          out: [0, 0.4],
        });
      if (!laid.held) this.addUsed(place);
    }
    if (model.storesS || !laid.held) this.addStored();
    else this.addWhere();
    const [x, y, w, h] = this.there('S', [this.whole[0], this.whole[1], 0, model.keys - 1]);
    marks.add('masked', 'image', [x, y, w, h], { image: model.pictures.masked, alpha: 0.5 });
    if (step >= model.writtenAt || (!laid.held && model.oNow(step) >= 0)) this.addWritten();
  }
  // Without a picture of the SM, what is read there is lit where it came from.
  addUsed(place) {
    const used = this.frame.uses.filter(one => this.model.placeOf(one.tensor) === place);
    for (const { rect } of used)
      this.image(`used ${place} ${rect}`, place, this.there(place, rect), sourceOf(place, rect));
  }
  // Scores that are in global memory, and the weights in their place.
  addStored() {
    const { model, step, frame, laid } = this,
      { frames } = model,
      last = Math.min(step, frames.length - 1);
    const weighed = this.nameOfS === 'P',
      read = this.lit.some(one => one.box === 'S');
    for (let past = 0; past <= last; past++) {
      const rect = frames[past].scores;
      if (!rect) continue;
      const kept = past === step || (!frame.scores && read);
      this.image(
        `${weighed ? 'P' : 'S'} ${past}`,
        weighed ? 'P' : 'S',
        this.there('S', rect),
        sourceOf('S', this.ofTile(rect)),
        {
          alpha: kept ? 1 : OLD,
          ...(past === step &&
            laid.held && {
              enter: { rect: this.here('S', rect, [rect[0], rect[2]]) },
              ease: 'both',
              span: [0.45, 1],
            }),
          out: [0, 1],
        },
      );
    }
  }
  // The weights take the place of the scores.
  get nameOfS() {
    const { frames, placeOf } = this.model,
      stored = ({ tensor, kind }) => placeOf(tensor) === 'P' && kind === 'store';
    return frames.slice(0, this.step + 1).some(f => f.touched.some(stored)) ? 'P' : 'S';
  }
  // Whether the step reads scores and writes weights in their place.
  get weighing() {
    const touches = (place, kind) => this.lit.some(one => one.place === place && one.kind === kind);
    return touches('S', 'load') && touches('P', 'store');
  }
  // Where in S the block is: a place without bytes.
  addWhere() {
    const { marks, chip, paint, laid } = this,
      { em, boxes } = laid,
      { rect = null, old = true } = chip.score ?? {},
      tile = old ? chip.tiles.find(one => one.place === 'K' && one.fresh)?.rect : null,
      keys = old ? tile?.slice(0, 2) : rect.slice(2),
      [x, y, w, h] = boxes.S;
    if (keys) {
      const [r0, r1] = this.whole;
      marks.rect('where', this.there('S', [r0, r1, ...keys]), {
        fill: COLOURS.S,
        alpha: 0.28,
        ease: 'both',
      });
    }
    const said = w > 15 * em ? 'S and P are never in global memory' : 'no S, no P here';
    if (w > 6.5 * em && h > 3 * em)
      marks.text('no S', [x + w / 2, y + h / 2 + 0.35 * em, w - 4], said, {
        align: 'center',
        alpha: 0.8,
        fill: paint.text,
      });
    marks.rect('no S edge', [x - 0.5, y - 0.5, w + 1, h + 1], {
      stroke: paint.border,
      dash: [3, 4],
    });
  }
  // O: its rows come from the SM.
  addWritten() {
    const { marks, model, whole, step, laid } = this,
      state = model.oNow(step),
      fresh = step === model.writtenAt && laid.held;
    marks.add(`O ${state}`, 'image', this.there('O', whole), {
      image: model.pictures.O[state],
      ...(fresh ? { span: [0.92, 1] } : { out: [0.9, 1] }),
    });
    if (fresh)
      for (const [i, row] of rowsOf(whole).entries()) {
        const start = (0.3 * i) / model.rows;
        marks.add(`O row ${row[0]}`, 'image', this.there('O', row), {
          image: model.pictures.O[state],
          source: sourceOf('O', this.ofTile(row)),
          enter: { rect: this.here('O', row, [whole[0], 0]) },
          span: [start, start + 0.7],
          ...FLIGHT,
        });
      }
  }
  addNames() {
    const { marks, model, laid, paint, step } = this,
      { boxes, em, gap } = laid,
      { n, keys, d } = model,
      placeholder = laid.held && !model.storesS;
    for (const [place, [x, y, w, h]] of Object.entries(boxes)) {
      if (place !== 'S' || !placeholder)
        marks.rect(`edge ${place}`, [x - 0.5, y - 0.5, w + 1, h + 1], { stroke: paint.border });
      const name = place === 'S' && !this.weighing ? this.nameOfS : NAMES[place];
      marks.text(`name ${place}`, [x, y - 5], name, {
        bold: true,
      });
    }
    const note = (place, said) => {
      const wrong = model.oddAt(place, step),
        [x, y, w] = boxes[place],
        from = x + em * 1.6;
      if (wrong)
        marks.rect(`wrong ${place}`, [from, y - 5 - 0.7 * em, 0.7 * em, 0.7 * em], {
          fill: PALETTE.wrong,
        });
      marks.text(`note ${place}`, [from + (wrong ? em : 0), y - 5, wrong ? w + gap - 2.6 * em : 0], wrong || said, {
        alpha: wrong ? 1 : 0.75,
      });
    };
    const [wide, narrow] = [boxes.S[2], boxes.Q[2]],
      word = WORDS[this.nameOfS];
    // in full, if it ends before its neighbour
    const noteFully = (place, said) => {
      const text = LONG[place === 'S' ? this.nameOfS : place],
        [x, , w] = boxes[place],
        end = 'VO'.includes(place) ? (laid.chip?.[0] ?? x + w) - gap / 2 : x + w + gap - 6,
        fits = laid.held && x + 1.6 * em + widest([text], `${em}px ${paint.font}`) < end;
      note(place, fits ? text : said);
    };
    if (this.weighing) note('S', '\u2192 P, weights');
    else noteFully('S', wide > 14 * em ? `${word}, ${n} \u00d7 ${keys}` : wide > 5 * em ? word : '');
    noteFully('Q', narrow > 9 * em ? `queries, ${n} \u00d7 ${d}` : narrow > 5 * em ? 'queries' : '');
    if (narrow > 3.5 * em) for (const place of ['K', 'V']) noteFully(place, WORDS[place]);
    const state = model.oNow(step),
      under = !laid.held && state >= 0 && state < model.states;
    if (under) note('O', 'so far');
    else if (model.oddAt('O', step) || narrow > 5 * em) noteFully('O', WORDS.O);
  }
  // What the matrices are, where there is room above Q.
  addMeaning() {
    const { marks, laid } = this,
      { boxes, em, gap } = laid,
      wide = boxes.K[0] - gap,
      high = boxes.Q[1] - 2 * em,
      bold = text => text.includes('=');
    if (laid.held || widest(MEANING, `600 ${em}px ${this.paint.font}`) > wide) return;
    if (high < 1.35 * em * MEANING.length) return;
    for (const [n, text] of MEANING.entries())
      marks.text(`meaning ${n}`, [0, 1.4 * em + 1.35 * em * n], text, { bold: bold(text) });
  }
  // Which block makes which part of the output.
  addBlocks() {
    const { marks, model, whole, paint, step } = this,
      { em } = this.laid,
      sharing = step <= (model.makers.at(-1)?.[2] ?? -1); // a block makes a tile of S, not yet rows of O
    for (const [rect, block, made] of sharing ? model.makers : []) {
      const [x, y, w, h] = this.there('S', rect);
      marks.rect(`score block ${block}`, [x - 0.5, y - 0.5, w + 1, h + 1], { stroke: paint.border });
      if (step < made && h > em && w > 4 * em)
        marks.text(`score block name ${block}`, [x + w / 2, y + h / 2 + 4, w], `block ${block}`, { align: 'center' });
    }
    for (const [r0, r1, c0, c1, block] of sharing ? [] : model.blocks) {
      const [x, y, w, h] = this.there('O', [r0, r1, c0, c1]);
      if (h > 4) marks.rect(`block ${block}`, [x - 0.5, y - 0.5, w + 1, h + 1], { stroke: paint.border });
      if (h < em || w < 4 * em || (r0 === model.row0 && model.oNow(step) >= 0)) continue;
      const place = /** @type {[number, number]} */ ([x + w / 2, y + h / 2 + 4]);
      marks.text(`block name ${block}`, place, `block ${block}`, { align: 'center' });
    }
    const [x, y, w, h] = this.there('O', whole);
    marks.rect('traced', [x - 0.5, y - 0.5, w + 1, h + 1], { stroke: paint.text, alpha: 0.6 });
  }
}
