// What a row of the online softmax draws at a step, as marks that move: scores fall and become
// weights, these lie down end to end and become l. Where m rises, one factor scales weights, l and O.
import { Marks } from '../core/kinds.js';
import { COLOURS, PALETTE, exact, short } from '../core/paint.js';
import { num } from './row_model.js';

const MS = { scores: 240, max: 260, rescale: 260, weights: 260, sum: 260, output: 260, final: 200 };
const JUDGED = ['rescale', 'weights', 'sum', 'output', 'final'];
const BEFORE = 0.25; // how full what a thing was before the rescale is
const inner = each => each - (each > 3 ? 1 : 0);
const named = value => (Number.isFinite(value) ? short(value, 4) : exact(value));

export const rowTime = frame => MS[frame.group] ?? 240;

// row: rowModel's. laid: {em, left, w, panels} of the layout.
export function rowMarks(row, laid, { step, paint }) {
  const made = new RowMarks(row, laid, { step, paint });
  made.addScores();
  made.addWeights();
  if (laid.panels.sum) made.addSum();
  made.addOutput();
  made.addTile();
  if (made.scaling) made.addFactor();
  return made.marks.list;
}

class RowMarks {
  constructor(row, laid, { step, paint }) {
    this.row = row;
    this.laid = laid;
    this.paint = paint;
    this.step = step;
    this.frame = row.frames[step];
    this.marks = new Marks(laid.em);
    const { group, tile, rescale } = this.frame;
    this.factor = group === 'rescale' && tile > 0 ? num(rescale) : null;
    this.scaling = this.factor !== null && Number.isFinite(this.factor);
  }
  get shrinks() {
    return this.scaling && this.factor !== 1;
  }
  here(key) {
    return this.frame.tile < 0 || this.row.tile_of[key] === this.frame.tile;
  }
  // A column's left edge and width.
  place({ each }, index) {
    return [this.laid.left + index * each, Math.max(inner(each), 0.6)];
  }
  bar(panel, index, zero, top) {
    const [x, wide] = this.place(panel, index);
    return [x, Math.min(zero, top), wide, Math.max(Math.abs(top - zero), 0.6)];
  }
  // One key after another, of those of the tile.
  inTurn(key, part) {
    const start = (part * (key % this.row.block_kv)) / this.row.block_kv;
    return this.here(key) ? [start, start + 1 - part] : [0, 1];
  }
  panel({ kind, y, h }, label, note, lo, hi) {
    const { em, left, w } = this.laid;
    this.marks.add(`panel ${kind}`, 'axis', [left, y, w, h], { em, label, note, lo, hi });
  }
  // What is no number fills its place; the panel says what it is, and of how many.
  lost(panel, what, places) {
    const { marks, laid } = this,
      { kind, y, h } = panel;
    if (!places.length) return;
    for (const [index] of places) {
      const [x, wide] = this.place(panel, index);
      marks.rect(`lost ${kind} ${index}`, [x, y + 1, wide, h - 2], { fill: PALETTE.wrong });
    }
    const names = new Map();
    for (const [, value] of places) names.set(exact(value), (names.get(exact(value)) ?? 0) + 1);
    const said = [...names].map(([name, count]) => `${name} in ${count}`).join(', ');
    marks.add(`lost ${kind}`, 'lost', [laid.left, y, laid.w, h], {
      em: laid.em,
      text: `${said} of ${Math.round(laid.w / panel.each)} ${what}`,
    });
  }

  addScores() {
    const { marks, row, paint, frame } = this,
      { left, w } = this.laid,
      { scores, range, n, block_kv, keys } = row,
      [first, last] = [keys[0], keys[n - 1]],
      panel = this.laid.panels.score,
      { y, h, each } = panel,
      said = frame.m === null ? '' : `, ${row.m_name} = ${named(num(frame.m))}`,
      odd = [];
    this.panel(
      panel,
      `Scores of query ${row.row}${said}`,
      `${last - first + 1 === n ? 'keys' : `${n} of keys`} ${first} to ${last}, tiles of ${block_kv}`,
      ...range,
    );
    const at = this.scoreAt;
    for (let key = 0; key < Math.min(n, frame.keys); key++) {
      if (!Number.isFinite(scores[key])) {
        odd.push([key, scores[key]]);
        continue;
      }
      const rect = this.bar(panel, key, at(0), at(scores[key]));
      marks.rect(`score ${key}`, rect, {
        fill: COLOURS.S,
        alpha: this.here(key) ? 1 : 0.45,
        enter: { rect: [rect[0], at(0), rect[2], 0] },
        span: frame.group === 'scores' ? this.inTurn(key, 0.45) : [0, 1],
      });
    }
    for (let key = block_kv; key < n; key += block_kv)
      marks.rect(`wall ${key}`, [left + key * each, y, 1, h], { fill: paint.border });
    this.lost(panel, 'scores', odd);
    this.addMax(w);
  }
  get scoreAt() {
    const { y, h } = this.laid.panels.score,
      [lo, hi] = this.row.range;
    return value => y + h - ((value - lo) / (hi - lo || 1)) * h;
  }
  // The running max, tile by tile, and the one that holds, over the whole row.
  addMax(w) {
    const { marks, row, paint, frame, step } = this,
      { left } = this.laid,
      { y, h, each } = this.laid.panels.score,
      line = { stroke: paint.text, width: 2.5 },
      level = m => Math.max(y + 1, Math.min(y + h - 1, this.scoreAt(m))),
      stair = row.maxima[step];
    let before = null;
    for (const [tile, m] of stair) {
      const first = tile < 0 ? 0 : row.tile_of.indexOf(tile),
        last = tile < 0 ? row.n - 1 : row.tile_of.lastIndexOf(tile),
        x = left + first * each,
        wide = (last + 1 - first) * each,
        from = before ?? y + h - 1;
      if (before !== null)
        marks.add(`rise to ${tile}`, 'line', [x, before, 0, level(m) - before], {
          ...line,
          enter: { rect: [x, before, 0, 0] },
        });
      marks.add(`m of ${tile}`, 'line', [x, level(m), wide, 0], {
        ...line,
        enter: { rect: [x, from, wide, 0] },
      });
      before = level(m);
    }
    if (frame.m === null || !stair.length) return;
    this.addRise(w, level);
    marks.add('m', 'line', [left, level(num(frame.m)), w, 0], {
      stroke: paint.text,
      width: 1.25,
      dash: [5, 4],
      enter: { rect: [left, y + h - 1, w, 0] },
    });
  }
  // How far m has risen: the height of the band is the exponent of the factor.
  addRise(w, level) {
    const { marks, paint, frame } = this,
      { left } = this.laid,
      [m, before] = [num(frame.m), num(frame.m_before ?? NaN)];
    if (!['max', 'rescale'].includes(frame.group) || frame.tile <= 0 || !(m > before)) return;
    const [top, bottom] = [level(m), level(before)];
    marks.rect('risen', [left, top, w, bottom - top], {
      fill: paint.primary,
      alpha: BEFORE,
      enter: { rect: [left, bottom, w, 0] },
    });
  }

  addWeights() {
    const { marks, row, paint, frame, step } = this,
      { n, weightTop } = row,
      panel = this.laid.panels.weight,
      at = this.weightAt,
      formula = 'e^(score \u2212 m)',
      online = row.ordinary ? `Weights ${formula} / l` : `Weights ${formula}, rescaled since`,
      sum = row.ordinary && frame.l !== null ? `; sum l = ${named(num(frame.l))}` : '',
      fresh = frame.group === 'weights',
      odd = [];
    this.panel(panel, online + sum, '', 0, weightTop);
    for (let key = 0; key < Math.min(n, frame.weighed); key++) {
      const value = row.weight(step, key),
        due = row.due(step, key),
        off = this.judged && row.off(step, key) > 0;
      if (!Number.isFinite(value)) {
        odd.push([key, value]);
        continue;
      }
      const rect = this.bar(panel, key, at(0), at(value));
      if (this.shrinks)
        this.was(`weight ${key}`, this.bar(panel, key, at(0), at(row.weight(step - 1, key))), COLOURS.P);
      marks.rect(`weight ${key}`, rect, {
        fill: off ? PALETTE.wrong : COLOURS.P,
        alpha: this.here(key) || off ? 1 : 0.6,
        ease: fresh ? 'both' : 'out',
        enter: { rect: this.scoreBar(key), fill: COLOURS.S },
        span: fresh ? this.inTurn(key, 0.35) : [0, 1],
      });
      if (Number.isFinite(due))
        marks.rect(`due ${key}`, [rect[0], at(due) - 0.75, rect[2], 1.5], {
          fill: paint.text,
          span: fresh && this.here(key) ? [0.8, 1] : [0, 1],
        });
    }
    this.lost(panel, 'weights', odd);
  }
  get judged() {
    return JUDGED.includes(this.frame.group);
  }
  get weightAt() {
    const { y, h } = this.laid.panels.weight;
    return value => y + h - Math.min(1, value / this.row.weightTop) * h;
  }
  scoreBar(key) {
    const score = this.row.scores[key];
    return this.bar(this.laid.panels.score, key, this.scoreAt(0), this.scoreAt(Number.isFinite(score) ? score : 0));
  }
  // What a thing was before the rescale: where it shrinks from.
  was(id, rect, fill) {
    this.marks.rect(`was ${id}`, rect, { fill, alpha: BEFORE, enter: {}, out: [0, 0.6] });
  }

  // l: the weights end to end, and the sum that the kernel has logged around them.
  addSum() {
    const { marks, row, paint, frame, step } = this,
      { left, w } = this.laid,
      { y, h } = this.laid.panels.sum,
      unit = w / row.lTop,
      l = frame.l === null ? null : row.l[step],
      since = row.l_factor[step],
      fresh = frame.group === 'sum',
      scaled = since === 1 ? '' : ` = ${named(num(frame.l))} \u00d7 ${named(since)}`,
      said = l === null ? '' : `${scaled} = ${named(l)}`;
    this.panel(this.laid.panels.sum, `Their sum l${said}`, '', NaN, NaN);
    if (l === null) return;
    if (this.shrinks) this.was('l', [left, y + 3, num(frame.l) * unit, h - 6], COLOURS.P);
    let sum = 0;
    for (let key = 0; key < row.summed[step]; key++) {
      const value = row.weight(step, key);
      if (!Number.isFinite(value)) continue;
      const rect = this.bar(this.laid.panels.weight, key, this.weightAt(0), this.weightAt(value)),
        wide = value * unit;
      marks.rect(`part ${key}`, [left + sum * unit, y + 3, Math.max(wide - 0.6, 0.3), h - 6], {
        fill: COLOURS.P,
        alpha: this.here(key) ? 1 : 0.6,
        area: fresh,
        ease: fresh ? 'both' : 'out',
        enter: { rect },
        span: fresh ? this.inTurn(key, 0.35) : [0, 1],
      });
      sum += value;
    }
    const wrong = row.l_off[step] > 0;
    if (Number.isFinite(l))
      marks.rect('l', [left, y + 2, Math.min(w, Math.max(0, l * unit)), h - 4], {
        stroke: wrong ? PALETTE.wrong : paint.text,
        width: wrong ? 3 : 1.5,
        enter: { rect: [left, y + 2, 0, h - 4] },
      });
    else this.lost({ ...this.laid.panels.sum, each: w }, 'sums', [[0, l]]);
  }

  addOutput() {
    const { marks, row, paint, frame, step } = this,
      { left, w } = this.laid,
      panel = this.laid.panels.o,
      { y, h } = panel,
      done = frame.group === 'final',
      span = row.spans[done ? 1 : 0],
      ends = span > 1e-29 ? span : NaN, // of nothing finite there is no scale
      at = value => y + h / 2 - (value / span) * (h / 2),
      rest = row.ordinary ? 'O so far' : 'O so far, not yet divided by l',
      odd = [];
    this.panel(panel, done ? 'O: the row, divided by l' : rest, `dims 0 to ${row.d - 1}`, -ends, ends);
    marks.rect('zero', [left, y + h / 2, w, 1], { fill: paint.border });
    for (let dim = 0; dim < row.d && frame.o >= 0; dim++) {
      const value = row.oAt(step, dim),
        rect = this.bar(panel, dim, at(0), at(value));
      if (!Number.isFinite(value)) {
        odd.push([dim, value]);
        continue;
      }
      if (this.shrinks) this.was(`o ${dim}`, this.bar(panel, dim, at(0), at(row.oAt(step - 1, dim))), COLOURS.O);
      const off = done && row.o_off[dim] > 0;
      marks.rect(`o ${dim}`, rect, {
        fill: off ? PALETTE.wrong : COLOURS.O,
        enter: { rect: [rect[0], at(0), rect[2], 0] },
      });
      if (!done) continue;
      marks.rect(`o due ${dim}`, [rect[0], at(row.oTrue[dim]) - 0.75, rect[2], 1.5], {
        fill: paint.text,
      });
    }
    this.lost(panel, 'dims', odd);
  }

  // The tile in work.
  addTile() {
    const { marks, row, frame, paint } = this,
      first = frame.tile >= 0 ? row.tile_of.indexOf(frame.tile) : -1,
      last = row.tile_of.lastIndexOf(frame.tile);
    if (first < 0) return;
    for (const kind of ['score', 'weight']) {
      const { y, h, each } = this.laid.panels[kind],
        rect = [this.laid.left + first * each, y, (last - first + 1) * each, h];
      marks.rect(`tile ${kind}`, rect, { stroke: paint.text, width: 2, ease: 'both' });
    }
  }
  // The factor, on all that it scales.
  addFactor() {
    const { frame, factor, row, step } = this,
      { em, panels } = this.laid,
      [m, before] = [num(frame.m), num(frame.m_before ?? NaN)],
      power = row.is_power[step] && factor !== 1 ? `e^(${named(before)} \u2212 ${named(m)}) = \u00d7 ` : '';
    const said = factor === 1 ? 'm did not rise: \u00d7 1' : `\u00d7 ${power}${named(factor)}`;
    this.tell('weight', panels.weight.y + 1.5 * em, said, factor === 1 ? em : 1.25 * em);
    if (factor === 1) return;
    if (panels.sum) this.tell('sum', panels.sum.y + panels.sum.h / 2 + 0.35 * em, `\u00d7 ${named(factor)}`, em);
    this.tell('o', panels.o.y + 1.3 * em, `\u00d7 ${named(factor)}`, em);
  }
  tell(kind, y, text, size) {
    const { left, w } = this.laid;
    this.marks.add(`factor ${kind}`, 'said', [left + w - 6, y, w - 12, size], {
      text,
      span: [0, 0.25],
      out: [0, 0.3],
    });
  }
}
