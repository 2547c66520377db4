// A staircase of time on a log scale: each kernel is a stair, and its riser is as high as its gain, so gains that multiply
// add up. A later stair rests on the gains before it, one layer each. Lines across are rivals. Places only.
import { Marks } from '../core/kinds.js';
import { blend, rgb, short, smallText } from '../core/paint.js';
import { wrapped } from '../core/wrapped.js';
import { addChange } from './rungs_change.js';
import { addEnd, endHeight, isNarrow, SAVED, timeOf } from './rungs_end.js';

const BASE = 1.2; // em: what the first kernel stands on
const SPAN = 2.5; // the factor of the axis of the last stairs
const FEW = 1.3; // the least factor of an axis
const WIDEST = 0.22; // of the width: a stair
const CARD = 5; // stairs under the card of a change
const EARLY = 7; // the same while these have no stairs yet
const HEAD = 3.6; // em: a card over the stairs, without drawings
const DRAWN = 12.5; // em: the same with drawings
const LEAST = 13.8; // em: the stairs
/** @typedef {{width: number, height: number, em: number}} Size */
/** @typedef {(text: string, bold: boolean, px: number) => number} Wide */
/**
 * @typedef {object} Now what a step or the hand shows
 * @property {string} phase
 * @property {timing.TimedProblem} problem
 * @property {string} rung
 * @property {string} rival of the hand and of the limit
 * @property {string} goal the rival that the stairs lead to
 * @property {Set<string>} seen
 * @property {string[]} stairs our kernels, in their order
 * @property {(id: string) => string} factor words about the time of a row, or ""
 * @property {[string, string, string]} ratio a number, its words, and a line below it
 */
/** @typedef {(made: Marks, at: Size, meta: timing.RungsMeta, now: Now, paint: Paint, wide: Wide) => void} Adds */

const isDrawn = (/** @type {Now} */ { phase }) => phase === 'begin' || phase === 'rung';
/** Whether the card is over the stairs, not in their empty corner. */
const isAbove = (/** @type {number} */ width, /** @type {Now} */ now) => isNarrow(width) || now.phase === 'hand';
/** The height of a card over the stairs. */
const cardOf = (/** @type {number} */ width, /** @type {Now} */ now) =>
  isNarrow(width) && (isDrawn(now) || now.phase === 'limit') ? DRAWN : HEAD;

/**
 * The height that a step needs at least.
 * @param {Size} size @param {timing.RungsMeta} meta @param {Now} now
 */
export function rungsHeight({ width, em }, meta, now) {
  if (now.phase === 'end') return endHeight({ width, em }, meta, now.problem.us);
  return ((isAbove(width, now) ? cardOf(width, now) : 0) + LEAST + 6) * em;
}

/** @param {Size} at @param {timing.RungsMeta} meta @param {Now} now @param {Paint} paint @param {Wide} wide */
export function rungsMarks({ width, height: pane, em }, meta, now, paint, wide) {
  const at = { width, em, height: Math.max(pane, rungsHeight({ width, height: pane, em }, meta, now)) };
  const made = new Marks(at.em);
  if (now.phase === 'end') addEnd(made, at, meta, now, paint, wide);
  else addStairs(made, at, meta, now, paint, wide);
  return made.list;
}

const rowOf = (/** @type {timing.RungsMeta} */ meta, /** @type {string} */ id) =>
  /** @type {timing.Rung} */ (meta.rungs.find(one => one.id === id));

/** The stairs, the rivals' lines and the card. @type {Adds} */
function addStairs(made, { width, height, em }, meta, now, paint, wide) {
  const { us } = now.problem,
    narrow = isNarrow(width),
    above = isAbove(width, now),
    rivals = meta.rungs.filter(({ id, group }) => group === 'rivals' && now.seen.has(id) && id in us),
    lined = [...rivals, ...(now.phase === 'hand' && !rivals.some(({ id }) => id === now.rival) ? [now.rival] : [])].map(
      one => (typeof one === 'string' ? rowOf(meta, one) : one),
    ),
    // ---- places ----
    px = narrow ? em : smallText(em), // of names
    axis = wrapped(meta.words.line, 4.2 * px, 3, one => wide(one, false, px)),
    left = narrow ? 0 : Math.max(...['\u00d7 100', ...axis].map(one => wide(one, false, px))) + 0.8 * px,
    right = narrow ? 0 : Math.max(...lined.map(one => wide(one.short, true, px))) + 0.7 * px,
    zoomed = now.phase === 'limit',
    all = [...now.stairs, ...lined.map(({ id }) => id)].map(id => us[id]),
    fast = Math.min(...all),
    slow = zoomed ? SPAN * fast : Math.max(...all),
    columns = now.stairs.filter(id => us[id] < slow || !zoomed),
    each = Math.min((width - left - right) / columns.length, narrow ? width : WIDEST * width),
    names = columns.map(id => rowOf(meta, id).short),
    fits = names.every(name => wide(name, true, px) < each - 2),
    foot = height - (fits || narrow ? 1.5 : 2.8) * px - 2,
    top = (above ? cardOf(width, now) * em : 0) + 1.6 * em,
    base = zoomed ? 0 : BASE * em,
    level = (/** @type {number} */ time) =>
      foot - Math.max(0, base + ((foot - base - top) * Math.log(slow / time)) / Math.log(Math.max(slow / fast, FEW))),
    first = us[now.stairs[0]],
    dim = blend(rgb(paint.text), rgb(paint.background), 0.72),
    faint = blend(rgb(paint.text), rgb(paint.background), 0.14);
  const xOf = (/** @type {number} */ n) => Math.round(left + n * each),
    wideOf = (/** @type {number} */ n) => xOf(n + 1) - xOf(n) - (narrow ? 1 : 2);

  // ---- the scale ----
  if (!narrow)
    for (let times = 1; first / times > fast * 0.98; times *= 10) {
      const y = level(first / times);
      if (y > foot - 1) continue;
      made.rect(`scale ${times}`, [left, y, width - left - right, 1], { fill: faint, ease: 'both' });
      made.text(`scale ${times} is`, [left - 0.6 * px, y + 0.35 * px], `\u00d7 ${times}`, {
        ...{ align: 'right', fill: dim, size: px, ease: 'both' },
      });
    }

  const tens = [level(first), level(first / 10)];
  if (!narrow && tens[0] < foot && tens[0] - tens[1] > (1.3 * axis.length + 2) * px && first > 10 * fast)
    axis.forEach((line, n) =>
      made.text(
        `axis ${n}`,
        [left - 0.6 * px, (tens[0] + tens[1]) / 2 + (0.35 + 1.3 * (n - axis.length / 2 + 0.5)) * px],
        line,
        {
          ...{ align: 'right', fill: dim, size: px, ease: 'both' },
        },
      ),
    );

  // ---- the even path, to guess from ----
  if (now.phase === 'begin') {
    const [x, y] = [xOf(0) + wideOf(0), level(first)],
      [dx, dy] = [xOf(columns.length - 1) + wideOf(columns.length - 1) - x, level(us[now.goal]) - y];
    made.add('even', 'line', [x, y, dx, dy], { stroke: dim, width: 2, dash: [7, 6], leave: { alpha: 0 } });
    // to the right of the line, below it
    made.text('even is', [x + 0.5 * dx + 0.7 * em, y + 0.5 * dy + 0.9 * em], meta.words.even, { fill: dim, size: px });
  }

  // ---- the stairs ----
  columns.forEach((id, n) => {
    const seen = now.seen.has(id),
      isNow = id === now.rung,
      one = rowOf(meta, id),
      x = xOf(n),
      w = wideOf(n),
      y = level(us[id]),
      place = now.stairs.indexOf(id),
      before = us[now.stairs[place - 1]];
    if (!narrow || (isNow && now.phase !== 'begin')) {
      const half = wide(one.short, isNow, px) / 2,
        middle = Math.max(half, Math.min(width - half, x + w / 2));
      made.text(`stair ${id} name`, [middle, foot + (fits || narrow || n % 2 ? 1.3 : 2.5) * px], one.short, {
        ...{ align: 'center', bold: isNow, fill: seen ? paint.text : dim, size: px, ease: 'both' },
      });
    }
    if (!seen) return;
    let from = Math.max(level(first), y);
    const layer = (
      /** @type {string} */ of,
      /** @type {number} */ low,
      /** @type {number} */ high,
      /** @type {string} */ fill,
    ) =>
      made.rect(`stair ${id} ${of}`, [x, high, w, low - high], {
        ...{ fill, ease: 'both', enter: { rect: [x, low, w, 0] }, leave: { alpha: 0 } },
        span: of === id ? [0.3, 1] : [0, 0.5],
      });
    layer('first', foot, from, blend(rgb(paint.text), rgb(paint.background), 0.22));
    let riser = 0;
    for (let k = 1; k <= place; k++) {
      const of = now.stairs[k],
        high = Math.max(y, Math.min(from, level(us[of]))),
        strong = k < place ? 0.26 : isNow || now.phase !== 'rung' ? 1 : 0.86;
      if (from - high > 0.05)
        layer(of, from, high, blend(rgb(SAVED[rowOf(meta, of).saves] ?? dim), rgb(paint.background), strong));
      riser = from - high;
      from = high;
    }
    made.add(`stair ${id} area`, 'area', [x, y - 1.6 * em, w, foot - y + 1.6 * em], {
      datum: { row: id },
      tip: `${id}: ${one.said}\n${[timeOf(us[id]), now.factor(id)].filter(Boolean).join(', ')}`,
    });
    if (y >= foot || (narrow && !isNow)) return;
    // in the riser, or over a thin one and the lines there
    const said = before ? `\u00d7 ${short(before / us[id], 3)}` : timeOf(us[id]),
      size = isNow ? 1.15 * em : em,
      inside = before && riser > 1.2 * size,
      half = wide(said, isNow, size) / 2,
      hatched = isNow && !isDrawn(now) ? Math.max(0, Math.min(0.9 * em, w - 2 * half)) : 0,
      middle = Math.max(left + half, Math.min(width - right - half, x + (w - hatched) / 2)),
      lines = lined.map(({ id }) => level(us[id])).sort((a, b) => b - a),
      isClear = (/** @type {number} */ low) => lines.every(line => line > low + 2 || line < low - size),
      free = lines.reduce(
        (low, line) => (line < low + 2 && line > low - size ? line - 0.4 * size : low),
        y - 0.4 * size,
      ),
      within = (riser > 3 * size ? [0.5, 0.75, 0.25] : [0.5]).map(share => y + share * riser + 0.35 * size),
      at = inside ? (within.find(isClear) ?? within[0]) : free;
    if (!inside && at < y - size)
      made.rect(`stair ${id} to`, [middle, at + 3, 1, y - at - 4], { fill: dim, ease: 'both' });
    if (2 * half < w + (narrow ? 0 : 8))
      made.text(`stair ${id} gain`, [middle, at], said, {
        ...{ align: 'center', bold: isNow || inside, size, ease: 'both', span: [0.5, 1] },
        fill: inside ? '#fff' : paint.text,
      });
  });

  // ---- the rivals ----
  const places = lined.map(one => ({ ...one, y: level(us[one.id]) })).filter(({ y }) => y < foot - 0.5 * em);
  places.sort((a, b) => a.y - b.y);
  const isStrong = (/** @type {string} */ id) => id === (now.phase === 'hand' || zoomed ? now.rival : now.goal),
    main = places.find(({ id }) => isStrong(id))?.y ?? -Infinity;
  let under = 0; // the end of the label above
  places.forEach(({ id, short: name, said, y }, n) => {
    const strong = isStrong(id),
      fill = strong ? paint.text : dim,
      isNear = [places[n - 1], places[n + 1]].some(other => other && Math.abs(other.y - y) < 2.7 * px),
      time = timeOf(us[id]),
      more = { bold: strong, fill, size: px, ease: 'both' };
    made.add(`rival ${id}`, 'line', [left, y, width - left - right, 0], {
      ...{ stroke: fill, width: strong ? 2.5 : 1, dash: strong ? undefined : [6, 4], ease: 'both' },
    });
    if (narrow) {
      // at the left, where the stairs are low, and never on another name
      const free = places.every(other => other.id === id || Math.abs(other.y - y) > 1.4 * px || other.y > y);
      const isUnder = places.some(other => other.y < y && y - other.y < 1.3 * px); // a line is where its name goes
      if (strong || (free && y < level(us[columns[0]]) && Math.abs(y - main) > 1.4 * px))
        made.text(`rival ${id} is`, [0, y + (isUnder ? 1.15 : -0.35) * px], `${name} ${time}`, more);
    } else {
      const both = `${name} ${time}`,
        lines = !isNear ? [name, time] : [wide(both, strong, px) < right - 0.6 * px ? both : name],
        from = Math.max(under, y - 0.65 * lines.length * px);
      lines.forEach((line, at) =>
        made.text(`rival ${id} ${at}`, [width - right + 0.6 * px, from + (1.3 * at + 1) * px], line, more),
      );
      under = from + 1.3 * lines.length * px;
    }
    made.add(`rival ${id} area`, 'area', [narrow ? 0 : width - right, y - 1.3 * em, right || width / 2, 2.6 * em], {
      datum: { row: id },
      tip: `${said}\n${[time, now.factor(id)].filter(Boolean).join(', ')}`,
    });
  });

  // ---- the way that is left ----
  const here = columns.indexOf(now.rung),
    tread = level(us[now.rung]),
    to = isDrawn(now) ? now.goal : now.rival,
    gap = tread - level(us[to]);
  if (isDrawn(now) && gap > 4.6 * em && !narrow) {
    const freeOf = (/** @type {number} */ y) =>
        Math.min(2.6 * em, ...[...places, { y: tread }].map(one => Math.abs(one.y - (y + 0.1 * em)))),
      x = xOf(columns.length - 1) + 0.5 * each,
      rest = `\u00d7 ${short(us[now.rung] / us[to], 3)}`,
      // the place that is farthest from all lines
      middle = [0.25, 0.35, 0.45, 0.55, 0.65]
        .map(share => tread - share * gap)
        .reduce((best, y) => (freeOf(y) > freeOf(best) + 1 ? y : best));
    made.rect('way foot', [xOf(here), tread, x - xOf(here), 1.5], { fill: dim, ease: 'both' });
    made.add('way', 'way', null, {
      points: [
        [x, tread],
        [x, tread - gap + 3],
      ],
      ...{ stroke: paint.text, width: 2.5, head: 6, ease: 'both' },
    });
    made.text('way is', [x - 0.8 * em, middle], rest, { align: 'right', bold: true, size: 1.7 * em, ease: 'both' });
    made.text('way to', [x - 0.8 * em, middle + 1.4 * em], meta.words.left, { align: 'right', ease: 'both' });
  }
  if (!isDrawn(now) && Math.abs(gap) > 2) {
    const w = Math.min(0.3 * wideOf(here), 0.9 * em),
      x = xOf(here) + wideOf(here) - w - 1,
      high = Math.min(tread, tread - gap);
    made.add('gap', 'hatch', [x, high, w, Math.abs(gap)], { stroke: paint.text, gap: 5, ease: 'both' });
    made.rect('gap edge', [x, high, w, Math.abs(gap)], { stroke: paint.text, width: 1.5, ease: 'both' });
  }

  // ---- the card ----
  if (above) return addCard(made, [0, 0, width, cardOf(width, now) * em], meta, now, paint, wide, em);
  const count = zoomed ? 2 : now.phase === 'rung' && here < CARD ? EARLY : CARD,
    most = Math.min(...(zoomed ? columns.slice(0, count) : now.stairs.slice(0, CARD)).map(id => level(us[id])));
  addCard(made, [left, 0, count * each - 0.9 * em, most - 0.6 * em], meta, now, paint, wide, em);
}

/**
 * The number of a step, its words, and what the change is.
 * @param {Marks} made @param {[number, number, number, number]} area @param {timing.RungsMeta} meta @param {Now} now
 * @param {Paint} paint @param {Wide} wide @param {number} em
 */
function addCard(made, [x, y, w, h], meta, now, paint, wide, em) {
  const [number, does, below] = now.ratio,
    { id: kernel, change, saves } = rowOf(meta, now.rung),
    fill = now.phase === 'rung' ? SAVED[saves] : paint.text,
    big = Math.min(3.2 * em, (3.2 * em * 0.62 * w) / wide(number, true, 3.2 * em)),
    after = x + wide(number, true, big) + 0.7 * em,
    narrow = x + w - after < wide(does, true, 1.15 * em);
  made.rect('card', [x - 2, y, w + 0.4 * em + 2, h], { fill: paint.background });
  made.text('number', [x, y + 2.7 * em], number, { bold: true, fill, size: big, ease: 'both' });
  made.text('does', [after, y + 1.35 * em, narrow ? x + w - after : 0], does, { bold: true, fill, size: 1.15 * em });
  made.text('below', [after, y + 2.75 * em, x + w - after], below);
  const notes =
    now.phase === 'limit' ? meta.notes.flatMap(note => wrapped(note, w, 3, one => wide(one, false, em))) : [];
  notes.forEach((note, n) => made.text(`note ${n}`, [x, y + (4.6 + 1.4 * n) * em], note, {}));
  if (!isDrawn(now)) return;
  const drawings = change.map((text, n) => ({ kernel, now: n === change.length - 1, text }));
  addChange(made, [x, y + 3.7 * em, w, h - 3.9 * em], drawings, { paint, px: em, wide });
}
