// Our kernels and their rivals as bars of time, on a scale that ends at the time before. Places only.
import { Marks } from '../core/kinds.js';
import { amount, COLOURS } from '../core/paint.js';

const HEAD = 1.5; // rows: the line over a group
const TALLEST = 2.6; // em: a row
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
 */
/**
 * @param {Size} size
 * @param {timing.RungsMeta} meta
 * @param {(text: string, bold: boolean, px: number) => number} wide
 */
export function rungsLayout({ width, height, em }, meta, wide) {
  const groups = [...new Set(meta.rungs.map(({ group }) => group))],
    title = 1.5 * em,
    row = Math.max(
      1.25 * em,
      Math.min(TALLEST * em, (height - title) / (meta.rungs.length + groups.length * HEAD * 0.75)),
    ),
    px = Math.min(1.1 * em, 0.74 * row),
    narrow = width < NARROW,
    names = Math.max(...meta.rungs.map(({ said }) => wide(said, true, px))) + 0.8 * em,
    stops = narrow ? 0 : Math.max(...meta.rungs.map(({ stop }) => wide(stop, false, px))) + 1.2 * em;
  let y = title,
    group = '';
  /** @type {Map<string, number>} */
  const tops = new Map();
  /** @type {[string, number][]} */
  const heads = [];
  for (const { id, group: own } of meta.rungs) {
    if (own !== group) {
      heads.push([own, y + 0.9 * HEAD * 0.75 * row]);
      y += HEAD * 0.75 * row;
      group = own;
    }
    tops.set(id, y);
    y += row;
  }
  return { width, height: y, em, row, px, narrow, names, stops, tops, heads, left: names + stops };
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
    rivalAt = line === undefined ? -1 : left + (line / now.most) * end;
  for (const [group, y] of at.heads) made.text(`head ${group}`, [0, y], meta.groups[group], { alpha: 0.75 });
  // the rival's time through all rows
  if (rivalAt > left && rivalAt <= width)
    made.add('rival', 'line', [rivalAt, at.heads[0][1] + 0.2 * em, 0, at.height - at.heads[0][1] - 0.2 * em], {
      ...{ stroke: paint.text, dash: [5, 4], width: 1.5, ease: 'both' },
    });
  for (const { id, said, stop, group } of meta.rungs) {
    const y = /** @type {number} */ (at.tops.get(id)),
      base = y + 0.5 * row + 0.36 * px,
      time = now.seen.has(id) ? us[id] : undefined,
      isNow = id === now.rung,
      ours = group !== 'rivals',
      alpha = time === undefined ? 0.5 : 1;
    if (isNow) made.rect('now', [0, y + 1, width, row - 2], { fill: paint.panel, ease: 'both' });
    made.text(`${id} name`, [0, base], said, { bold: isNow || id === now.rival, alpha });
    if (stop && at.stops) made.text(`${id} stop`, [at.names, base], stop, { alpha: 0.65 * alpha });
    const datum = { row: id },
      shown = time === undefined ? '' : timeOf(time),
      factor = time === undefined ? '' : now.factor(id);
    made.add(`${id} area`, 'area', [0, y, width, row], {
      datum,
      tip: `${ours ? `${id}: ` : ''}${said}${shown ? `\n${shown}${factor ? `, ${factor}` : ''}` : ''}`,
    });
    if (time === undefined) continue;
    const full = (time / now.most) * end,
      over = full > end,
      length = over ? room : Math.max(2, full),
      high = 0.66 * row;
    made.rect(`${id} bar`, [left, y + (row - high) / 2, length, high], {
      ...{ fill: ours ? COLOURS.Q : paint.text, alpha: ours ? (isNow ? 1 : 0.55) : id === now.rival ? 0.8 : 0.4 },
      ...{ ease: 'both', enter: { rect: [left, y + (row - high) / 2, 0, high] } },
    });
    const text = over ? `${shown} \u2192` : factor ? `${shown}, ${factor}` : shown,
      wanted = wide(text, isNow, px),
      within = over || length + wanted + 0.6 * em > room;
    made.text(`${id} time`, [within ? left + length - 0.5 * em : left + length + 0.5 * em, base], text, {
      ...{ align: within ? 'right' : 'left', bold: isNow, fill: within ? paint.background : paint.text },
      ease: 'both',
    });
  }
  return made.list;
}
