// Our kernels and their rivals. A pair of bars of one linear scale is the picture of a step. Next to it, a dot for each
// kernel so far has its place on a logarithmic scale. Places only.
import { Marks } from '../core/kinds.js';
import { amount, blend, COLOURS, rgb } from '../core/paint.js';
import { addChange } from './rungs_change.js';

const HEAD = 1.05; // rows: the line over a group
const LEAST = 1.25; // em: a row
const TALLEST = 2.2;
const BELOW = 0.8; // the begin of the scale over the least time
const ABOVE = 1.15;
const NARROW = 600; // pixels: the bars over the dots
const [QUEUES, PADDED] = ['02_tiled', '04_warp_rows'];
const STRIP = 26; // em: the bars and drawings of a narrow picture

/** @type {(us: number) => string} */
export const timeOf = us =>
  amount(us, [
    [1e3, 'ms'],
    [1, '\u00b5s'],
  ]);

/** @typedef {{width: number, height: number, em: number}} Size */
/**
 * @typedef {object} Now what a step or the hand shows
 * @property {timing.TimedProblem} problem
 * @property {string} rung
 * @property {string} rival
 * @property {Set<string>} seen
 * @property {(id: string) => string} factor words about the time of a row, or ""
 * @property {string[]} bars rows with a bar, the first one of what the second is compared with
 * @property {string[]} ratio a number and its words
 * @property {string} versus the step's time next to the rival's, in words
 * @property {boolean} drawn whether the change has drawings
 */
/**
 * The rows in sight of a problem: the rivals first, so that no row moves when the next kernel comes.
 * @param {Size} size
 * @param {timing.RungsMeta} meta
 * @param {Record<string, number>} us of the problem
 * @param {Set<string>} seen
 * @param {(text: string, bold: boolean, px: number) => number} wide
 */
export function rungsLayout({ width, height, em }, meta, us, seen, wide) {
  const all = meta.rungs.filter(({ id }) => id in us),
    rows = ['rivals', 'float32', 'float16'].flatMap(group =>
      all.filter(one => one.group === group && seen.has(one.id)),
    ),
    groups = new Set(all.map(({ group }) => group)).size,
    narrow = width < NARROW,
    strip = narrow ? STRIP * em : 0,
    foot = 1.8 * em, // the axis
    part = narrow ? width : Math.max(26 * em, 0.5 * width), // of the dots
    row = Math.max(LEAST * em, Math.min(TALLEST * em, (height - strip - foot) / (all.length + groups * HEAD))),
    px = Math.max(12, Math.min(1.1 * em, 0.74 * row)),
    left = Math.max(...meta.rungs.map(({ said }) => wide(said, true, px))) + 0.8 * em,
    right = wide('8.88 ms', true, px) + 0.8 * em;
  let y = strip,
    group = '';
  /** @type {Map<string, number>} */
  const tops = new Map();
  /** @type {[string, number][]} */
  const heads = [];
  for (const { id, group: own } of rows) {
    if (own !== group) {
      y += HEAD * row;
      heads.push([own, y - 0.25 * row]);
      group = own;
    }
    tops.set(id, y);
    y += row;
  }
  const times = all.map(({ id }) => us[id]),
    [least, most] = [Math.min(...times) * BELOW, Math.max(...times) * ABOVE],
    place = (/** @type {number} */ time) =>
      left + (Math.log(time / least) / Math.log(most / least)) * (part - left - right),
    ticks = Array.from({ length: 9 }, (_, n) => 10 ** n).filter(tick => tick > least && tick < most);
  return {
    ...{ rows, width, height: y + foot, foot: y, em, row, px, part, left, tops, heads, place, ticks, strip },
    main: narrow ? [0, 0, width, strip - em] : [part + 2 * em, 0, width - part - 2 * em, Math.min(height, 42 * em)],
  };
}

/** @typedef {ReturnType<typeof rungsLayout>} Layout */
/** @param {Layout} at @param {timing.RungsMeta} meta @param {Now} now @param {Paint} paint
 *  @param {(text: string, bold: boolean, px: number) => number} wide */
export function rungsMarks(at, meta, now, paint, wide) {
  const { row, px, left, part, place } = at,
    made = new Marks(px),
    { us } = now.problem,
    rivalAt = place(us[now.rival]),
    pale = (/** @type {string} */ colour, /** @type {number} */ share) =>
      blend(rgb(colour), rgb(paint.background), share);
  for (const [group, y] of at.heads)
    made.text(`head ${group}`, [0, y], meta.groups[group], { alpha: 0.75, ease: 'both' });
  // the axis
  const top = at.strip + 0.4 * px;
  for (const tick of at.ticks) {
    made.add(`tick ${tick}`, 'line', [place(tick), top, 0, at.foot - top], {
      ...{ stroke: paint.border, width: 1, ease: 'both' },
    });
    made.text(`tick ${tick} is`, [place(tick), at.foot + 1.1 * px], timeOf(tick), {
      ...{ align: 'center', alpha: 0.75, ease: 'both' },
    });
  }
  const axis = [meta.words.axis, meta.words.axis_short].find(
    text => wide(text, true, px) < (place(at.ticks[0] ?? 0) || part) - 2 * px,
  );
  if (axis) made.text('axis', [0, at.foot + 1.1 * px], axis, { bold: true, ease: 'both' });
  // the rival's time through all rows
  made.add('rival', 'line', [rivalAt, top, 0, at.foot - top], {
    ...{ stroke: paint.text, dash: [5, 4], width: 1.5, ease: 'both' },
  });
  for (const { id, said, group } of at.rows) {
    const y = /** @type {number} */ (at.tops.get(id)),
      middle = y + 0.5 * row,
      base = middle + 0.36 * px,
      isNow = id === now.rung,
      isRival = id === now.rival,
      ours = group !== 'rivals',
      [x, radius] = [place(us[id]), (isNow || isRival ? 0.3 : 0.22) * row],
      fill = ours ? pale(COLOURS.Q, isNow ? 1 : 0.7) : pale(paint.text, isRival ? 0.8 : 0.45),
      factor = now.factor(id);
    if (isNow) made.rect('now', [0, y + 1, part, row - 2], { fill: paint.panel, ease: 'both' });
    made.text(`${id} name`, [0, base], said, { bold: isNow || isRival, ease: 'both' });
    made.add(`${id} area`, 'area', [0, y, part, row], {
      datum: { row: id },
      tip: `${ours ? `${id}: ` : ''}${said}\n${timeOf(us[id])}${factor ? `, ${factor}` : ''}`,
    });
    made.rect(`${id} line`, [left, middle - 0.75, x - left, 1.5], {
      ...{ fill, ease: 'both', enter: { rect: [left, middle - 0.75, 0, 1.5] } },
    });
    made.add(`${id} dot`, 'dot', [x - radius, middle - radius, 2 * radius, 2 * radius], { fill, ease: 'both' });
    made.text(`${id} time`, [part - 0.4 * px, base], timeOf(us[id]), {
      ...{ align: 'right', bold: isNow || isRival, ease: 'both' },
    });
  }
  addMain(made, at, meta, now, paint, wide);
  return made.list;
}

/** The ratio of a step, its two times and the rival's as bars of one linear scale, and below them what the change is.
 *  @type {(made: Marks, at: Layout, meta: timing.RungsMeta, now: Now, paint: Paint,
 *  wide: (text: string, bold: boolean, px: number) => number) => void} */
function addMain(made, { main: [x, y, w, h], em }, meta, now, paint, wide) {
  const { us } = now.problem,
    size = 1.15 * em,
    [times, does, than] = now.ratio,
    big = 3.4 * em,
    text = x + wide(times, true, big) + 0.8 * em,
    most = Math.max(...now.bars.map(id => us[id])),
    bars = y + 5 * em,
    step = now.drawn ? 3.9 * em : Math.min(6 * em, (h - 5 * em) / now.bars.length),
    high = step - 2.3 * em;
  made.text('ratio', [x, y + 3.2 * em], times, { bold: true, size: big });
  made.text('ratio does', [text, y + 1.7 * em, x + w - text], does, { size });
  made.text('ratio than', [text, y + 3.2 * em, x + w - text], than, { bold: true, size });
  now.bars.forEach((id, n) => {
    const top = bars + n * step,
      isNow = id === now.rung,
      ours = meta.rungs.find(one => one.id === id),
      more = id === now.rival && now.versus ? ` ${now.versus}` : '',
      said = `${ours?.said}: ${timeOf(us[id])}`,
      whole = [said + more, said].find(one => wide(one, isNow, em) < w) ?? said,
      wanted = Math.max(2, (w * us[id]) / most);
    made.text(`bar ${n} is`, [x, top + em, w], whole, { bold: isNow, size: em });
    made.rect(`bar ${n}`, [x, top + 1.4 * em, wanted, high], {
      ...{ ease: 'both', enter: { rect: [x, top + 1.4 * em, 0, high] } },
      fill:
        ours?.group === 'rivals'
          ? blend(rgb(paint.text), rgb(paint.background), 0.6)
          : blend(rgb(COLOURS.Q), rgb(paint.background), isNow ? 1 : 0.7),
    });
  });
  if (!now.drawn) return;
  const { id: kernel, change } = /** @type {timing.Rung} */ (meta.rungs.find(({ id }) => id === now.rung)),
    drawings = change.map((said, n) => ({ kernel, now: n === change.length - 1, text: said })),
    from = bars + now.bars.length * step + 0.6 * em;
  // the cost that stays until the padded rows
  if (kernel === QUEUES) drawings.push({ kernel: PADDED, now: false, text: meta.words.queue });
  if (y + h - from > 5 * em) addChange(made, [x, from, w, y + h - from], drawings, { paint, px: em });
}
