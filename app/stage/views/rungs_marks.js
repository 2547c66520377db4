// Our kernels and their rivals as bars of time, on a scale that ends at the time before. Places only.
import { Marks } from '../core/kinds.js';
import { amount, blend, COLOURS, rgb } from '../core/paint.js';

const HEAD = 1.05; // rows: the line over a group
const LEAST = 1.45; // em: a row
const TALLEST = 2.6;
const NARROW = 600; // pixels: without the names of stops

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
 * @property {number} most µs at the end of the scale
 * @property {(id: string) => string} factor words after the time of a row, or ""
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
    title = 1.6 * em,
    row = Math.max(LEAST * em, Math.min(TALLEST * em, (height - title) / (rows.length + groups.length * HEAD))),
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
  return { rows, width, height: y, em, row, px, narrow, names, stops, tops, heads, left: names + stops };
}

/** @typedef {ReturnType<typeof rungsLayout>} Layout */
/** @param {Layout} at @param {timing.RungsMeta} meta @param {Now} now @param {Paint} paint
 *  @param {(text: string, bold: boolean, px: number) => number} wide */
export function rungsMarks(at, meta, now, paint, wide) {
  const { em, row, px, left, width } = at,
    made = new Marks(px),
    { us } = now.problem,
    room = width - left,
    end = room - 0.5 * em,
    line = us[now.rival],
    rivalAt = left + (line / now.most) * end,
    pale = (/** @type {string} */ colour, /** @type {number} */ share) =>
      blend(rgb(colour), rgb(paint.background), share);
  for (const [group, y] of at.heads) made.text(`head ${group}`, [0, y], meta.groups[group], { alpha: 0.75 });
  // the rival's time through all rows
  const top = 1.35 * px;
  if (rivalAt <= width)
    made.add('rival', 'line', [rivalAt, top, 0, at.height - top], {
      ...{ stroke: paint.text, dash: [5, 4], width: 1.5, ease: 'both' },
    });
  const said = now.versus.find(text => wide(text, true, px) <= width) ?? now.versus.at(-1) ?? '',
    half = wide(said, true, px) / 2;
  made.text('rival is', [Math.max(half, Math.min(width - half, rivalAt)), px], said, {
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
    const full = (time / now.most) * end,
      over = full > end,
      length = over ? room : Math.max(2, full),
      bar = [left, y + (row - high) / 2, length, high];
    made.rect(`${id} bar`, bar, {
      fill: ours ? pale(COLOURS.Q, isNow ? 1 : 0.5) : pale(paint.text, isRival ? 0.75 : 0.35),
      ...{ ease: 'both', enter: { rect: [bar[0], bar[1], 0, high] } },
    });
    const text = over ? `${shown} \u2192` : factor ? `${shown}, ${factor}` : shown,
      wanted = wide(text, isNow, px),
      within = over || length + wanted + 0.6 * em > room,
      crossed = !within && !isRival && rivalAt > left + length && rivalAt < left + length + wanted + em;
    if (crossed)
      made.rect(`${id} ground`, [left + length + 0.3 * em, y + 2, wanted + 0.4 * em, row - 4], {
        ...{ fill: isNow ? paint.panel : paint.background, ease: 'both' },
      });
    made.text(`${id} time`, [within ? left + length - 0.5 * em : left + length + 0.5 * em, base], text, {
      ...{ align: within ? 'right' : 'left', bold: isNow, ease: 'both' },
      fill: !within ? paint.text : isNow ? '#fff' : isRival ? paint.background : paint.text,
    });
  }
  return made.list;
}
