// Our kernels and their rivals as bars of time, on a logarithmic scale. Places only.
import { Marks } from '../core/kinds.js';
import { amount, blend, COLOURS, rgb } from '../core/paint.js';
import { addChange } from './rungs_change.js';

const HEAD = 1.05; // rows: the line over a group
const LEAST = 1.25; // em: a row
const TALLEST = 2.6;
const BELOW = 0.5; // the begin of the scale over the least time
const ABOVE = 1.1;
const NARROW = 600; // pixels: without the names of stops
const STRIP = 6.4; // em: the drawings over the rows of a narrow picture
const LEAST_PANEL = 11; // em: its width next to the rows

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
 * @property {(id: string) => string} factor words after the time of a row, or ""
 * @property {boolean} toScale whether the panel has the times of row and rival
 * @property {string[]} versus the rival's time in words, the longest first
 */
/**
 * The rows with a time in a problem.
 * @param {Size} size
 * @param {timing.RungsMeta} meta
 * @param {Record<string, number>} us of the problem
 * @param {(text: string, bold: boolean, px: number) => number} wide
 */
export function rungsLayout({ width, height, em }, meta, us, wide) {
  const rows = meta.rungs.filter(({ id }) => id in us),
    groups = [...new Set(rows.map(({ group }) => group))],
    strip = width < NARROW ? STRIP * em : 0,
    title = strip + 1.6 * em,
    foot = 1.6 * em, // the axis
    room = height - title - foot,
    row = Math.max(LEAST * em, Math.min(TALLEST * em, room / (rows.length + groups.length * HEAD))),
    px = Math.max(12, Math.min(1.1 * em, 0.74 * row)),
    narrow = width < NARROW,
    names = Math.max(...meta.rungs.map(({ said }) => wide(said, true, px))) + 0.8 * em,
    stops = narrow ? 0 : Math.max(...meta.rungs.map(({ stop }) => wide(stop, false, px))) + 1.2 * em;
  let y = title,
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
  const left = names + stops,
    times = rows.map(({ id }) => us[id]),
    [least, most] = [Math.min(...times) * BELOW, Math.max(...times) * ABOVE],
    place = (/** @type {number} */ time) =>
      left + (Math.log(time / least) / Math.log(most / least)) * (width - left - 0.5 * em),
    ticks = Array.from({ length: 9 }, (_, n) => 10 ** n).filter(tick => tick > least && tick < most);
  // the place of the drawings: right of our fast rows, whose bars are short
  const ours = rows.filter(({ group }) => group === 'float16').slice(2),
    from = Math.max(...ours.map(({ id }) => place(us[id]) + wide('8.88 ms, 8.88 times as long', true, px))) + 1.2 * em,
    [first, last] = [ours[0], ours.at(-1)].map(one => tops.get(one?.id ?? '') ?? 0),
    panel = strip
      ? [0, 0, width, strip]
      : width - from > LEAST_PANEL * em && last - first > 2 * row
        ? [from, first, width - from, last - first + 2 * row]
        : null;
  return {
    ...{ rows, width, height: y + foot, foot: y, em, row, px, narrow, names, stops, tops, heads, left, place, ticks },
    ...{ strip, panel },
  };
}

/** @typedef {ReturnType<typeof rungsLayout>} Layout */
/** @param {Layout} at @param {timing.RungsMeta} meta @param {Now} now @param {Paint} paint
 *  @param {(text: string, bold: boolean, px: number) => number} wide */
export function rungsMarks(at, meta, now, paint, wide) {
  const { em, row, px, left, width, place } = at,
    made = new Marks(px),
    { us } = now.problem,
    room = width - left,
    rivalAt = place(us[now.rival]),
    pale = (/** @type {string} */ colour, /** @type {number} */ share) =>
      blend(rgb(colour), rgb(paint.background), share);
  for (const [group, y] of at.heads) made.text(`head ${group}`, [0, y], meta.groups[group], { alpha: 0.75 });
  // the axis
  const top = at.strip + 1.35 * px;
  for (const tick of at.ticks) {
    made.add(`tick ${tick}`, 'line', [place(tick), top, 0, at.foot - top], { stroke: paint.border, width: 1 });
    made.text(`tick ${tick} is`, [place(tick), at.foot + 1.1 * px], timeOf(tick), { align: 'center', alpha: 0.75 });
  }
  at.ticks.slice(1).forEach((tick, n) => {
    const [a, b] = [place(at.ticks[n]), place(tick)];
    if (b - a > 9 * px)
      made.text(`times ${tick}`, [(a + b) / 2, at.foot + 1.1 * px], '\u2190 \u00d7 10 \u2192', {
        align: 'center',
        bold: true,
      });
  });
  const axis = [meta.words.axis, meta.words.axis_short].find(text => wide(text, true, px) < left - 2 * px);
  if (axis) made.text('axis', [0, at.foot + 1.1 * px], axis, { bold: true });
  // the rival's time through all rows
  made.add('rival', 'line', [rivalAt, top, 0, at.foot - top], {
    ...{ stroke: paint.text, dash: [5, 4], width: 1.5, ease: 'both' },
  });
  const said = now.versus.find(text => wide(text, true, px) <= width) ?? now.versus.at(-1) ?? '',
    half = wide(said, true, px) / 2;
  made.text('rival is', [Math.max(half, Math.min(width - half, rivalAt)), at.strip + px], said, {
    ...{ align: 'center', bold: true, ease: 'both' },
  });
  for (const { id, said, stop, group } of at.rows) {
    const y = /** @type {number} */ (at.tops.get(id)),
      base = y + 0.5 * row + 0.36 * px,
      time = now.seen.has(id) ? us[id] : undefined,
      isNow = id === now.rung,
      isRival = id === now.rival,
      ours = group !== 'rivals',
      alpha = time === undefined ? 0.5 : 1,
      high = 0.66 * row;
    if (isNow) made.rect('now', [0, y + 1, width, row - 2], { fill: paint.panel, ease: 'both' });
    made.text(`${id} name`, [0, base], said, { bold: isNow || isRival, alpha, ease: 'both' });
    if (stop && at.stops && time !== undefined)
      made.text(`${id} stop`, [at.names, base], stop, { alpha: 0.65 * alpha, ease: 'both' });
    const shown = time === undefined ? '' : timeOf(time),
      factor = time === undefined ? '' : now.factor(id);
    made.add(`${id} area`, 'area', [0, y, width, row], {
      datum: { row: id },
      tip: `${ours ? `${id}: ` : ''}${said}${shown ? `\n${shown}${factor ? `, ${factor}` : ''}` : ''}`,
    });
    if (time === undefined) continue;
    const length = Math.max(2, place(time) - left),
      bar = [left, y + (row - high) / 2, length, high];
    made.rect(`${id} bar`, bar, {
      fill: ours ? pale(COLOURS.Q, isNow ? 1 : 0.5) : pale(paint.text, isRival ? 0.75 : 0.35),
      ...{ ease: 'both', enter: { rect: [bar[0], bar[1], 0, high] } },
    });
    const fits = (/** @type {string} */ text, /** @type {number} */ space) => wide(text, isNow, px) + em <= space,
      whole = factor ? `${shown}, ${factor}` : shown,
      text = fits(whole, Math.max(room - length, length)) ? whole : shown,
      within = !fits(text, room - length),
      wanted = wide(text, isNow, px),
      under = [rivalAt, ...at.ticks.map(place)].some(x => x > left + length && x < left + length + wanted + em);
    if (!within && under)
      made.rect(`${id} ground`, [left + length + 0.3 * em, y + 2, wanted + 0.4 * em, row - 4], {
        ...{ fill: isNow ? paint.panel : paint.background, ease: 'both' },
      });
    made.text(`${id} time`, [within ? left + length - 0.5 * em : left + length + 0.5 * em, base], text, {
      ...{ align: within ? 'right' : 'left', bold: isNow, ease: 'both' },
      fill: !within ? paint.text : isNow ? '#fff' : isRival ? paint.background : paint.text,
    });
  }
  if (at.panel) addPanel(made, at.panel, at, meta, now, paint);
  return made.list;
}

/** What the row of a step changes. With the hand and at the limit: two bars to scale. @type {(made: Marks, panel: number[], at: Layout,
 *  meta: timing.RungsMeta, now: Now, paint: Paint) => void} */
function addPanel(made, [x, y, w, h], { px }, meta, now, paint) {
  const { change } = /** @type {timing.Rung} */ (meta.rungs.find(({ id }) => id === now.rung)),
    small = Math.max(12, 0.85 * px);
  made.rect('panel', [x, y, w, h], { fill: paint.background, stroke: paint.border });
  if (!now.toScale) {
    addChange(made, [x, y, w, h], now.rung, change, { paint, px: small });
    return;
  }
  made.text('scale', [x + 0.5 * px, y + 1.2 * small, w - px], meta.words.scale, { bold: true, size: small });
  const both = [now.rung, now.rival],
    most = Math.max(...both.map(id => now.problem.us[id])),
    each = (h - 2 * small) / 2;
  both.forEach((id, n) => {
    const us = now.problem.us[id],
      top = y + 1.8 * small + n * each,
      name = `${meta.rungs.find(one => one.id === id)?.said}: ${timeOf(us)}`;
    made.text(`scale ${n}`, [x + 0.5 * px, top + small, w - px], name, { size: small });
    made.rect(
      `scale ${n} bar`,
      [x + 0.5 * px, top + 1.35 * small, Math.max(1, ((w - px) * us) / most), each - 2 * small],
      {
        ...{ fill: n ? paint.text : COLOURS.Q, ease: 'both' },
      },
    );
  });
}
