// A staircase of time on a log scale: each kernel is a stair, and its riser is as high as its gain, so gains that multiply
// add up. A later stair rests on the gains before it, one layer each. Dashed risers are the changes that follow: they
// share what is left. Lines across are rivals that were passed. Places only.
import { Marks } from '../core/kinds.js';
import { blend, rgb, short, smallText } from '../core/paint.js';
import { wrapped } from '../core/wrapped.js';
import { addBars, addChange, barsHeight } from './rungs_change.js';
import { addEnd, endHeight, isNarrow, SAVED, timeOf } from './rungs_end.js';

const BASE = 1.2; // em: what the first kernel stands on
const FEW = 1.3; // the least factor of an axis
const WIDEST = 0.22; // of the width: a stair
const CARD = 5; // stairs under the card of a change
const NUMBER = 3.9; // em: the number of a card
const ROWS = 13.2; // em: the drawings of a card over narrow stairs
const LEAST = 13.8; // em: the stairs
/** @typedef {{width: number, height: number, em: number}} Size */
/** @typedef {(text: string, bold: boolean, px: number) => number} Wide */
/**
 * @typedef {object} Now what a step or the hand shows
 * @property {string} phase
 * @property {timing.TimedProblem} problem
 * @property {string} rung
 * @property {string} rival of the hand
 * @property {Set<string>} seen
 * @property {string[]} adds the kernels that are new
 * @property {string[]} news the rivals that are new
 * @property {string[]} stairs our kernels, in their order
 * @property {string} known the change that an answer named, or ""
 * @property {(id: string) => string} factor words about the time of a row, or ""
 * @property {[string, string, string]} ratio a number, its words, and a line below it
 */
/** @typedef {(made: Marks, at: Size, meta: timing.RungsMeta, now: Now, paint: Paint, wide: Wide) => void} Adds */

/** Whether the card is over the stairs, not in their empty corner. */
const isAbove = (/** @type {number} */ width, /** @type {Now} */ { phase }) =>
  phase === 'hand' || (isNarrow(width) && phase === 'rung');
/** The height of a card over the stairs. */
const cardOf = (/** @type {number} */ width, /** @type {Now} */ { phase }) =>
  NUMBER + (phase === 'rung' ? ROWS : isNarrow(width) ? 4.6 : 0.6);

/**
 * The height that a step needs at least.
 * @param {Size} size @param {timing.RungsMeta} meta @param {Now} now
 */
export function rungsHeight({ width, em }, meta, now) {
  if (now.phase === 'end') return endHeight({ width, em });
  return ((isAbove(width, now) ? cardOf(width, now) : 0) + LEAST + (isNarrow(width) ? 1.5 : 6)) * em;
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
    isHand = now.phase === 'hand',
    columns = now.stairs,
    last = columns[columns.length - 1],
    lined = meta.rungs.filter(
      ({ id, group }) =>
        id in us && ((group === 'rivals' && now.seen.has(id)) || (isHand && id === now.rival && id !== now.rung)),
    ),
    // ---- places ----
    px = narrow ? em : smallText(em), // of names
    left = narrow ? 0 : wide('\u00d7 100', false, px) + 0.8 * px,
    right = narrow ? 0 : wide('FlashAttention-2', true, px) + 0.7 * px,
    all = [...columns, ...lined.map(({ id }) => id)].map(id => us[id]),
    fast = Math.min(...all),
    slow = Math.max(...all),
    each = Math.min((width - left - right) / columns.length, narrow ? width : WIDEST * width),
    names = columns.map(id => rowOf(meta, id).short),
    fits = names.every(name => wide(name, true, px) < each - 2),
    foot = height - (fits || narrow ? 1.5 : 2.8) * px - 2,
    top = (above ? cardOf(width, now) * em : 0) + 1.7 * em,
    base = BASE * em,
    level = (/** @type {number} */ time) =>
      foot - Math.max(0, base + ((foot - base - top) * Math.log(slow / time)) / Math.log(Math.max(slow / fast, FEW))),
    first = us[columns[0]],
    dim = blend(rgb(paint.text), rgb(paint.background), 0.72),
    faint = blend(rgb(paint.text), rgb(paint.background), 0.14),
    here = columns.indexOf(now.rung),
    tread = level(us[now.rung]),
    future = columns.slice(here + 1),
    reach = (narrow ? width : xOf(CARD)) - left - 0.9 * em; // of a card in the corner
  function xOf(/** @type {number} */ n) {
    return Math.round(left + n * each);
  }
  /** The stair where a rival's line begins: the first one that is faster. */
  const beginOf = (/** @type {string} */ id) => {
    const first = columns.findIndex(one => us[one] < us[id]);
    return isHand ? 0 : first < 0 || first > here ? here : first;
  };
  const wideOf = (/** @type {number} */ n) => xOf(n + 1) - xOf(n) - (narrow ? 1 : 2);
  const nameOf = (/** @type {number} */ n, /** @type {string} */ text, more = {}) => {
    const half = wide(text, true, px) / 2,
      middle = Math.max(half, Math.min(width - half, xOf(n) + wideOf(n) / 2));
    made.text(`stair ${columns[n]} name`, [middle, foot + (fits || narrow || n % 2 ? 1.3 : 2.5) * px], text, {
      ...{ align: 'center', size: px, ease: 'both', ...more },
    });
  };

  // ---- the scale ----
  if (!narrow)
    for (let times = 1; first / times > fast * 0.98; times *= 10) {
      const y = level(first / times);
      if (y > foot - 1) continue;
      const hidden = now.phase === 'rung' && times > 10; // under the card
      made.rect(`scale ${times}`, [left, y, width - left - right, 1], { fill: faint, ease: 'both' });
      if (!hidden)
        made.text(`scale ${times} is`, [left - 0.6 * px, y + 0.35 * px], `\u00d7 ${times}`, {
          ...{ align: 'right', fill: dim, size: px, ease: 'both' },
        });
    }

  if (!narrow && lined.every(({ id }) => Math.abs(level(us[id]) - level(first)) > 3 * px))
    meta.words.axis
      .split('|')
      .forEach((line, n) =>
        made.text(`axis ${n}`, [width - right + 0.6 * px, level(first) + (1.3 * n - 0.3) * px], line, { size: px }),
      );

  // ---- the changes that follow: they share what is left ----
  const goal = level(us[last]),
    own = (/** @type {string} */ id) => level(us[columns[columns.indexOf(id) - 1]]) - level(us[id]),
    known = now.phase === 'begin' ? now.known : '',
    share = (tread - goal - (known ? own(known) : 0)) / Math.max(1, future.length - (known ? 1 : 0));
  let from = tread;
  future.forEach((id, n) => {
    const high = id === known ? own(known) : share,
      rect = [xOf(here + 1 + n), from - high, wideOf(here + 1 + n), high];
    made.rect(`stair ${id} ${id}`, rect, {
      ...(id === known
        ? { fill: SAVED[rowOf(meta, id).saves] }
        : { fill: blend(rgb(paint.text), rgb(paint.background), 0.05), stroke: dim, dash: [4, 4], alpha: 0.8 }),
      ease: 'both',
    });
    if (id === known) {
      made.text(`stair ${id} gain`, [rect[0] + rect[2] / 2, from - high / 2 + 0.35 * em, rect[2]], gainOf(id), {
        ...{ align: 'center', bold: true, fill: '#fff', size: 1.15 * em, span: [0.6, 1] },
      });
      nameOf(columns.indexOf(id), rowOf(meta, id).short, { bold: true });
    }
    if (now.phase === 'begin')
      made.add(`stair ${id} area`, 'area', [rect[0], goal, rect[2], foot - goal], {
        datum: { row: id },
      });
    from -= high;
  });
  function gainOf(/** @type {string} */ id) {
    return `\u00d7 ${short(us[columns[columns.indexOf(id) - 1]] / us[id], 3)}`;
  }
  if (future.length) {
    const x = now.phase === 'begin' ? left : left + reach + 0.9 * em;
    made.rect('goal', [x, goal, width - right - x, 2], { fill: paint.text, ease: 'both' });
    (narrow ? [`${meta.words.last} ${timeOf(us[last])}`] : [meta.words.last, timeOf(us[last])]).forEach((line, n) =>
      made.text(
        `goal ${n}`,
        narrow ? [width, goal - 0.4 * px] : [width - right + 0.6 * px, goal + (1.3 * n + 0.35) * px],
        line,
        {
          ...{ bold: true, align: narrow ? 'right' : 'left', size: px },
        },
      ),
    );
  }
  if (now.phase === 'begin') {
    const [number, does, below] = now.ratio,
      x = xOf(0) + 0.5 * wideOf(0),
      size = (narrow ? 2.6 : 4.2) * em,
      y = goal + 0.36 * (tread - goal),
      beside = x + 1.1 * em;
    made.add('way', 'way', null, {
      points: [
        [x, tread - 1.8 * em],
        [x, goal + 4],
      ],
      ...{ stroke: paint.text, width: 4, head: 10, grown: 1, enter: { grown: 0 }, ease: 'both' },
    });
    made.text('number', [beside, y], number, { bold: true, fill: paint.text, size, ease: 'both' });
    made.text('does', [beside, y + 1.7 * em], does, { bold: true, fill: paint.text, size: 1.15 * em });
    if (!narrow) made.text('below', [beside, y + 3.2 * em], below, { size: em });
    const changes = meta.words.changes.replace('{n}', `${future.length}`),
      all = [xOf(1), xOf(columns.length)];
    if (!known)
      made.text('changes', [(all[0] + all[1]) / 2, foot + 1.3 * px], changes, {
        align: 'center',
        size: px,
        bold: true,
      });
    const middle = Math.ceil(future.length / 2) + here;
    if (!known)
      made.text('even is', [xOf(middle + 1) + 0.6 * em, tread - share * (middle - here - 0.5)], meta.words.even, {
        ...{ fill: dim, size: px },
      });
  }

  // ---- the stairs ----
  columns.forEach((id, n) => {
    if (!now.seen.has(id)) return;
    const isNow = now.adds.includes(id) || (isHand && id === now.rung),
      one = rowOf(meta, id),
      x = xOf(n),
      w = wideOf(n),
      y = level(us[id]),
      before = us[columns[n - 1]];
    if (!narrow || id === now.rung) nameOf(n, one.short, { bold: isNow, fill: isNow ? paint.text : dim });
    let from = Math.max(level(first), y);
    const layer = (
      /** @type {string} */ of,
      /** @type {number} */ low,
      /** @type {number} */ high,
      /** @type {string} */ fill,
    ) =>
      made.rect(`stair ${id} ${of}`, [x, high, w, low - high], {
        ...{ fill, alpha: 1, ease: 'both', enter: { rect: [x, low, w, 0] }, leave: { alpha: 0 } },
        span: of === id ? [0.3, 1] : [0, 0.5],
      });
    layer('first', foot, from, blend(rgb(paint.text), rgb(paint.background), 0.22));
    let riser = 0;
    for (let k = 1; k <= n; k++) {
      const of = columns[k],
        high = Math.max(y, Math.min(from, level(us[of]))),
        strong = k < n ? 0.26 : isNow || isHand ? 1 : 0.8;
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
    // in the riser, or over a thin one
    const said = before ? gainOf(id) : timeOf(us[id]),
      size = isNow && (!narrow || now.adds.length < 2) ? 1.15 * em : em,
      inside = before && riser > 1.2 * size,
      half = wide(said, isNow, size) / 2,
      hatched = isHand && id === now.rung ? Math.max(0, Math.min(0.9 * em, w - 2 * half)) : 0,
      middle = Math.max(left + half, Math.min(width - right - half, x + (w - hatched) / 2)),
      lines = lined
        .filter(({ id }) => beginOf(id) <= n)
        .map(({ id }) => level(us[id]))
        .sort((a, b) => b - a),
      isClear = (/** @type {number} */ low) => lines.every(line => line > low + 2 || line < low - size),
      free = lines.reduce(
        (low, line) => (line < low + 2 && line > low - size ? line - 0.4 * size : low),
        y - 0.4 * size,
      ),
      within = (riser > 3 * size ? [0.5, 0.75, 0.25] : [0.5]).map(share => y + share * riser + 0.35 * size),
      at = inside ? (within.find(isClear) ?? within[0]) : free;
    if (2 * half < w + (narrow ? 0 : 8) && !(narrow && now.adds.length > 1))
      made.text(`stair ${id} gain`, [middle, at], said, {
        ...{ align: 'center', bold: isNow || inside, size, ease: 'both', span: [0.5, 1] },
        fill: inside ? '#fff' : paint.text,
      });
  });

  // ---- the rivals: a line begins at the stair that passes it ----
  const places = lined.map(one => ({ ...one, y: level(us[one.id]) })).filter(({ y }) => y < foot - 0.5 * em);
  places.sort((a, b) => a.y - b.y);
  const isStrong = (/** @type {string} */ id) => (isHand ? id === now.rival : now.news.includes(id)),
    main = places.find(({ id }) => isStrong(id))?.y ?? -Infinity;
  let under = future.length ? goal + 2 * px : 0; // the end of the label above
  places.forEach(({ id, short: name, said, y }, n) => {
    const strong = isStrong(id),
      fill = strong ? paint.text : dim,
      isNear = [places[n - 1], places[n + 1]].some(other => other && Math.abs(other.y - y) < 2.7 * px),
      time = timeOf(us[id]),
      x = xOf(beginOf(id)),
      more = { bold: strong, fill, size: px, ease: 'both' };
    made.add(`rival ${id}`, 'line', [x, y, width - right - x, 0], {
      ...{ stroke: fill, width: strong ? 2.5 : 1, dash: strong ? undefined : [6, 4], ease: 'both' },
      enter: { rect: [width - right, y, 0, 0] },
    });
    if (narrow) {
      // never on another name
      const free = places.every(other => other.id === id || Math.abs(other.y - y) > 1.4 * px || other.y > y),
        isUnder = places.some(other => other.y < y && y - other.y < 1.3 * px), // a line is where its name goes
        label = `${name} ${time}`,
        room = x - wide(label, strong, px) > 0;
      if (strong || (free && (room || !isHand) && Math.abs(y - main) > 1.4 * px))
        made.text(
          `rival ${id} is`,
          room ? [x - 0.3 * px, y + 0.35 * px] : [isHand ? 0 : width, y + (isUnder ? 1.15 : -0.35) * px],
          label,
          {
            ...more,
            align: isHand ? 'left' : 'right',
          },
        );
    } else {
      const both = `${name} ${time}`,
        lines = !isNear ? [name, time] : [wide(both, strong, px) < right - 0.6 * px ? both : name],
        from = Math.max(under, y - 0.65 * lines.length * px);
      lines.forEach((line, at) =>
        made.text(`rival ${id} ${at}`, [width - right + 0.6 * px, from + (1.3 * at + 1) * px], line, more),
      );
      under = from + 1.3 * lines.length * px;
    }
    if (!narrow && now.news.includes(id) && id === meta.beside)
      wrapped(meta.missing, width - right - xOf(here + 1) - px, 3, one => wide(one, true, px)).forEach((line, at) =>
        made.text('missing ' + at, [xOf(here + 1) + 0.5 * px, y + (1.3 * at + 1.4) * px], line, {
          ...{ bold: true, size: px, span: [0.5, 1] },
        }),
      );
    made.add(`rival ${id} area`, 'area', [narrow ? 0 : width - right, y - 1.3 * em, right || width / 2, 2.6 * em], {
      datum: { row: id },
      tip: `${said}\n${[time, now.factor(id)].filter(Boolean).join(', ')}`,
    });
  });
  if (isHand && Math.abs(tread - level(us[now.rival])) > 2) {
    const gap = tread - level(us[now.rival]),
      w = Math.min(0.3 * wideOf(here), 0.9 * em),
      rect = [xOf(here) + wideOf(here) - w - 1, Math.min(tread, tread - gap), w, Math.abs(gap)];
    made.add('gap', 'hatch', rect, { stroke: paint.text, gap: 5, ease: 'both' });
    made.rect('gap edge', rect, { stroke: paint.text, width: 1.5, ease: 'both' });
  }

  // ---- the card ----
  if (now.phase === 'begin') return;
  const most = Math.min(...columns.slice(0, CARD).map(id => level(us[id]))),
    card = above ? [0, 0, width, cardOf(width, now) * em] : [left, 0, reach, most - 0.8 * em];
  addCard(made, card, meta, now, paint, wide, em);
}

/**
 * The number of a step, its words, and what the change is.
 * @param {Marks} made @param {number[]} area @param {timing.RungsMeta} meta @param {Now} now
 * @param {Paint} paint @param {Wide} wide @param {number} em
 */
function addCard(made, [x, y, w, h], meta, now, paint, wide, em) {
  const [number, does, below] = now.ratio,
    isHand = now.phase === 'hand',
    fill = isHand || now.adds.length > 1 ? paint.text : SAVED[rowOf(meta, now.rung).saves],
    size = 3.2 * em,
    after = x + wide(number, true, size) + 0.7 * em,
    { us } = now.problem;
  made.text('number', [x, y + 2.7 * em], number, { bold: true, fill, size, ease: 'both' });
  wrapped(does, w / 2, 2, one => wide(one, true, 1.15 * em)).forEach((line, n) =>
    made.text(`does${n || ''}`, [after, y + (1.4 + 1.35 * n) * em], line, { bold: true, fill, size: 1.15 * em }),
  );
  if (below) made.text('below', [after, y + 2.75 * em, x + w - after], below);
  if (!isHand) return addChange(made, [x, y + NUMBER * em, w, h - NUMBER * em], { meta, now, paint, px: em, wide });
  // the last kernel and its rival, on one scale
  const beside = !isNarrow(w),
    most = Math.max(us[now.rung], us[now.rival]),
    nameOf = (/** @type {string} */ id) => {
      const { said, short } = rowOf(meta, id); // in its bar, with its time
      return wide(said, true, em) + 5 * em < ((x + w - left) * us[id]) / most ? said : short;
    },
    left = beside ? x + 0.46 * w : x;
  addBars(
    made,
    [left, beside ? y + 0.3 * em : y + NUMBER * em, x + w - left, barsHeight(2) * em],
    [now.rung, now.rival].map((id, n) => ({
      ...{ id: `hand ${n}`, us: us[id], said: n ? nameOf(id) : meta.words.ours },
      fill: n ? blend(rgb(paint.text), rgb(paint.background), 0.62) : paint.primary,
    })),
    { paint, px: em, wide },
  );
}
