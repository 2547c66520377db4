// Our kernels and their rivals. A pair of bars of one linear scale is the picture of a step, above its drawings. Below, the
// ladder: a column for each change, as high as its gain. Under the hand: the speeds of all kernels as bars. At the end: what
// the stops saved. Places only.
import { Marks } from '../core/kinds.js';
import { filled } from '../core/follow.js';
import { amount, blend, COLOURS, PALETTE, rgb, short } from '../core/paint.js';
import { wrapped } from '../core/wrapped.js';
import { addChange } from './rungs_change.js';

const NARROW = 600; // pixels
const LEAST = 1.22; // em: a row of the list of speeds
const TALLEST = 2.6;
const STRIP = 8.4; // em: the ladder, at least
const SHARE = 0.32; // of the height: the ladder where there is room
const CHIP = 2.8; // em: a stop of the end
const LINE = 1.6; // em: the same in a narrow picture, without its words
const [QUEUES, PADDED] = ['02_tiled', '04_warp_rows'];
/** @type {Record<string, string>} what a change saves -> its colour */
const SAVED = { trips: COLOURS.read, waiting: PALETTE.wavefronts.conflict, work: COLOURS.S };

/** @type {(us: number) => string} */
export const timeOf = us =>
  amount(us, [
    [1e3, 'ms'],
    [1, '\u00b5s'],
  ]);

/** @typedef {{width: number, height: number, em: number}} Size */
/** @typedef {(text: string, bold: boolean, px: number) => number} Wide */
/**
 * @typedef {object} Now what a step or the hand shows
 * @property {string} phase
 * @property {timing.TimedProblem} problem
 * @property {string} rung
 * @property {string} rival
 * @property {Set<string>} seen
 * @property {string[]} ladder our kernels with a change, in their order
 * @property {(id: string) => string} factor words about the time of a row, or ""
 * @property {string[]} bars rows with a bar, the first one of what the second is compared with
 * @property {string[]} ratio a number and its words
 * @property {string} versus the step's time next to the rival's, in words
 * @property {boolean} drawn whether the change has drawings
 */

/**
 * The height that a step needs at least.
 * @param {Size} size @param {timing.RungsMeta} meta @param {Now} now
 */
export function rungsHeight({ width, em }, meta, now) {
  if (now.phase === 'hand') return (LEAST * Object.keys(now.problem.us).length + 2.2) * em;
  if (now.phase !== 'end')
    return (4.4 + 3.1 * now.bars.length + (now.phase === 'limit' ? 1.5 * (meta.notes.length + 1) : 0) + STRIP) * em;
  const columns = columnsOf(width, em),
    kinds = Object.keys(meta.saves),
    rows = kinds.map(kind => Math.ceil(meta.ends.filter(({ saves }) => saves === kind).length / columns));
  return (
    ((width < NARROW ? 6.2 : 4.2) + 3.1 * kinds.length + rows.reduce((sum, one) => sum + one, 0) * chipOf(width)) * em
  );
}
const chipOf = (/** @type {number} */ width) => (width < NARROW ? LINE : CHIP);
/** Stops in a row of the end. */
const columnsOf = (/** @type {number} */ width, /** @type {number} */ em) =>
  Math.max(2, Math.min(5, Math.floor(width / (12.5 * em))));

/** @param {Size} at @param {timing.RungsMeta} meta @param {Now} now @param {Paint} paint @param {Wide} wide */
export function rungsMarks({ width, height: pane, em }, meta, now, paint, wide) {
  const at = { width, em, height: Math.max(pane, rungsHeight({ width, height: pane, em }, meta, now)) };
  const made = new Marks(at.em);
  if (now.phase === 'hand') addSpeeds(made, at, meta, now, paint, wide);
  else if (now.phase === 'end') addEnd(made, at, meta, now, paint, wide);
  else {
    addMain(made, at, meta, now, paint, wide);
    addLadder(made, at, meta, now, paint, wide);
  }
  return made.list;
}

/** @typedef {(made: Marks, at: Size, meta: timing.RungsMeta, now: Now, paint: Paint, wide: Wide) => void} Adds */

/** The ratio of a step, its times and the rival's as bars of one linear scale, and below them what the change is.
 *  @type {Adds} */
function addMain(made, { width: w, height, em }, meta, now, paint, wide) {
  const { us } = now.problem,
    narrow = w < NARROW,
    size = (narrow ? 1 : 1.2) * em,
    [times, does, than] = now.ratio,
    big = 3.2 * em,
    text = wide(times, true, big) + 0.7 * em,
    most = Math.max(...now.bars.map(id => us[id])),
    top = 4.2 * em,
    ladder = stripOf(height, em),
    h = height - ladder - top,
    { id: kernel, change, saves } = /** @type {timing.Rung} */ (meta.rungs.find(({ id }) => id === now.rung)),
    drawings = change.map((said, n) => ({ kernel, now: n === change.length - 1, text: said }));
  // the cost that stays until the padded rows
  if (kernel === QUEUES) drawings.push({ kernel: PADDED, now: false, text: meta.words.queue });
  const notes = (now.phase === 'limit' ? meta.notes : []).flatMap(note =>
      wrapped(note, w, 3, one => wide(one, false, em)),
    ),
    least = 3.1 * em * now.bars.length,
    drawn = now.drawn && h - least > 7 * em,
    step = drawn
      ? Math.max(3.1 * em, Math.min(4.6 * em, (0.5 * h) / now.bars.length))
      : Math.min(6.4 * em, (h - 1.5 * em * notes.length - 0.6 * em) / now.bars.length),
    high = step - 1.9 * em;
  made.text('ratio', [0, 3 * em], times, { bold: true, size: big });
  made.text('ratio does', [text, 1.4 * em, w - text], does, { size });
  made.text('ratio than', [text, 2.9 * em, w - text], than, { bold: true, size });
  const tag = now.phase === 'rung' ? meta.saves[saves] : '',
    long = tag ? wide(tag, true, size) + 2 * em : 0;
  if (tag && text + wide(than, true, size) + long < w) {
    made.rect('saves', [w - long, 0.7 * em, long, 2.3 * em], { fill: SAVED[saves], ease: 'both' });
    made.text('saves is', [w - long / 2, 1.85 * em + 0.36 * size], tag, {
      ...{ align: 'center', bold: true, fill: '#fff', size },
    });
  }
  now.bars.forEach((id, n) => {
    const y = top + n * step,
      isNow = id === now.rung,
      ours = meta.rungs.find(one => one.id === id),
      more = id === now.rival && now.versus ? ` ${now.versus}` : '',
      said = `${ours?.said}: ${timeOf(us[id])}`,
      whole = [said + more, said].find(one => wide(one, isNow, em) < w) ?? said,
      wanted = Math.max(2, (w * us[id]) / most);
    made.text(`bar ${id} is`, [0, y + em, w], whole, { bold: isNow, ease: 'both' });
    made.rect(`bar ${id}`, [0, y + 1.4 * em, wanted, high], {
      ...{ ease: 'both', enter: { rect: [0, y + 1.4 * em, 0, high] }, fill: barFill(meta, id, isNow, paint) },
    });
  });
  const from = top + now.bars.length * step + 0.5 * em;
  notes.forEach((note, n) => made.text(`note ${n}`, [0, from + (0.6 + 1.4 * n) * em, w], note, {}));
  if (drawn)
    addChange(made, [0, from, w, height - ladder - from], narrow ? drawings.slice(0, 2) : drawings, {
      ...{ paint, px: em },
    });
}

/** @type {(meta: timing.RungsMeta, id: string, strong: boolean, paint: Paint) => string} */
function barFill(meta, id, strong, paint) {
  const rival = meta.rungs.find(one => one.id === id)?.group === 'rivals',
    back = rgb(paint.background);
  return rival ? blend(rgb(paint.text), back, strong ? 0.75 : 0.5) : blend(rgb(COLOURS.Q), back, strong ? 1 : 0.6);
}

/** The height of the ladder. */
const stripOf = (/** @type {number} */ height, /** @type {number} */ em) => Math.max(STRIP * em, SHARE * height);

/** A column for each change, as high as its gain. @type {Adds} */
function addLadder(made, { width, height, em }, meta, now, paint, wide) {
  const { us } = now.problem,
    changes = now.ladder.slice(1),
    gains = changes.map((id, n) => us[now.ladder[n]] / us[id]),
    narrow = width < NARROW,
    each = width / changes.length,
    px = narrow ? 0.92 * em : em,
    foot = height - 1.6 * em,
    strip = stripOf(height, em),
    top = height - strip + 2.8 * em,
    tall = foot - top,
    most = Math.max(...gains),
    title = [meta.words.ladder, meta.words.ladder_short].find(one => wide(one, true, em) < 0.6 * width) ?? '';
  made.text('ladder', [0, height - strip + 1.2 * em], title, { bold: true });
  // what a colour is
  if (!narrow) {
    let x = width;
    for (const [kind, said] of Object.entries(meta.saves).reverse()) {
      x -= wide(said, false, em) + 1.7 * em;
      made.rect(`kind ${kind}`, [x, height - strip + 0.4 * em, 0.9 * em, 0.9 * em], { fill: SAVED[kind] });
      made.text(`kind ${kind} is`, [x + 1.2 * em, height - strip + 1.2 * em], said);
    }
  }
  made.rect('ladder foot', [0, foot, width, 1], { fill: paint.text });
  changes.forEach((id, n) => {
    const x = n * each,
      one = /** @type {timing.Rung} */ (meta.rungs.find(rung => rung.id === id)),
      seen = now.seen.has(id),
      isNow = id === now.rung,
      high = (tall * gains[n]) / most,
      name = narrow ? `${n + 1}` : one.short;
    made.text(`ladder ${id} name`, [x + each / 2, height - 0.35 * em, each - 4], name, {
      ...{ align: 'center', bold: isNow, alpha: seen ? 1 : 0.75, size: px },
    });
    made.add(`ladder ${id} area`, 'area', [x, top - 1.2 * em, each, tall + 2.8 * em], {
      datum: { row: id },
      tip: seen ? `${id}: ${one.said}\n${timeOf(us[id])}, ${now.factor(id)}` : `${id}: ${one.said}`,
    });
    if (!seen) {
      made.rect(`ladder ${id} slot`, [x + 0.14 * each, foot - tall / most, 0.72 * each, tall / most], {
        ...{ stroke: paint.border, dash: [3, 3] },
      });
      return;
    }
    made.rect(`ladder ${id}`, [x + 0.14 * each, foot - high, 0.72 * each, high], {
      ...{ fill: blend(rgb(SAVED[one.saves]), rgb(paint.background), isNow || now.phase !== 'rung' ? 1 : 0.6) },
      ...{ ease: 'both', enter: { rect: [x + 0.14 * each, foot, 0.72 * each, 0] } },
    });
    if (isNow)
      made.rect('ladder now', [x + 0.14 * each - 3, foot - high - 3, 0.72 * each + 6, high + 6], {
        ...{ stroke: paint.text, width: 2, ease: 'both' },
      });
    made.text(`ladder ${id} gain`, [x + each / 2, foot - high - 0.5 * em, each - 2], `\u00d7 ${short(gains[n], 3)}`, {
      ...{ align: 'center', bold: isNow, size: px },
    });
  });
}

/** All kernels of a problem, the slowest first: as fast as their bars are long, next to a rival. @type {Adds} */
function addSpeeds(made, { width, height, em }, meta, now, paint, wide) {
  const { us } = now.problem,
    rows = meta.rungs.filter(({ id }) => id in us).sort((a, b) => us[b.id] - us[a.id]),
    narrow = width < NARROW,
    head = 2 * em,
    row = Math.max(LEAST * em, Math.min(TALLEST * em, (height - head) / rows.length)),
    px = Math.max(12, Math.min(1.1 * em, 0.62 * row)),
    left = Math.min(0.44 * width, Math.max(...rows.map(({ said }) => wide(said, true, px))) + 0.8 * em),
    right = wide(narrow ? '88.8 ms' : '88.8 ms, 88.8 times as long', true, px) + em,
    fastest = Math.min(...rows.map(({ id }) => us[id])),
    room = width - left - right,
    long = (/** @type {string} */ id) => (room * fastest) / us[id],
    at = rows.findIndex(({ id }) => id === now.rival),
    title = filled(meta.words.speed, { rival: meta.rungs.find(({ id }) => id === now.rival)?.said ?? '' });
  made.text('speeds', [0, 1.2 * em, width], title, { bold: true });
  rows.forEach(({ id, said, group }, n) => {
    const y = head + n * row,
      base = y + row / 2 + 0.36 * px,
      strong = id === now.rung || id === now.rival,
      text = [timeOf(us[id]), ...(narrow || !now.factor(id) ? [] : [now.factor(id)])].join(', ');
    made.text(`speed ${id} name`, [0, base, left - 0.5 * em], said, { bold: strong, size: px, ease: 'both' });
    made.rect(`speed ${id}`, [left, y + 0.12 * row, Math.max(2, long(id)), 0.76 * row], {
      ...{ fill: barFill(meta, id, strong, paint), ease: 'both' },
    });
    made.text(`speed ${id} is`, [left + long(id) + 0.5 * em, base], text, { bold: strong, size: px, ease: 'both' });
    made.add(`speed ${id} area`, 'area', [0, y, width, row], {
      datum: { row: id },
      tip: `${group === 'rivals' ? '' : `${id}: `}${said}\n${timeOf(us[id])}${now.factor(id) ? `, ${now.factor(id)}` : ''}`,
    });
  });
  made.rect('speed line', [left + long(now.rival) - 1, head + row * at, 2, row * (rows.length - at)], {
    fill: paint.text,
    ease: 'both',
  });
}

/** What the stops saved: for each kind, the product of its gains as a bar, and its stops. @type {Adds} */
function addEnd(made, { width, height, em }, meta, now, paint, wide) {
  const { us } = now.problem,
    gain = (/** @type {string} */ id) => us[now.ladder[now.ladder.indexOf(id) - 1]] / us[id],
    product = (/** @type {string[]} */ ids) => ids.reduce((all, id) => all * gain(id), 1),
    kinds = Object.keys(meta.saves).map(kind => {
      const stops = meta.ends.filter(({ saves }) => saves === kind);
      return { kind, stops, times: product(stops.flatMap(({ rungs }) => rungs)) };
    }),
    columns = columnsOf(width, em),
    chip = chipOf(width),
    rows = kinds.map(({ stops }) => Math.ceil(stops.length / columns)),
    spare = height - rungsHeight({ width, height, em }, meta, now),
    more = Math.max(0, Math.min(1.6 * em, spare / (rows.reduce((sum, one) => sum + one, 0) + kinds.length))),
    each = width / columns,
    size = 1.35 * em,
    named = Math.max(...kinds.map(({ kind }) => wide(meta.saves[kind], true, size))) + em,
    room = width - named - wide('\u00d7 88.8', true, size) - em,
    most = Math.max(...kinds.map(({ times }) => times)),
    [first, last] = [now.ladder[0], now.ladder[now.ladder.length - 1]],
    whole = filled(meta.words.whole, {
      ...{ before: timeOf(us[first]), after: timeOf(us[last]), times: short(us[first] / us[last], 3) },
      factors: kinds.map(({ times }) => `\u00d7 ${short(times, 3)}`).join(' '),
    });
  let y = 0.2 * em;
  kinds.forEach(({ kind, stops, times }, k) => {
    const high = 1.8 * em + more,
      long = (room * times) / most;
    made.text(`end ${kind}`, [0, y + high / 2 + 0.36 * size], meta.saves[kind], { bold: true, size });
    made.rect(`end ${kind} bar`, [named, y, long, high], {
      ...{ fill: SAVED[kind], ease: 'both', enter: { rect: [named, y, 0, high] }, span: [0.25 * k, 0.5 + 0.25 * k] },
    });
    made.text(`end ${kind} times`, [named + long + 0.5 * em, y + high / 2 + 0.36 * size], `\u00d7 ${short(times, 3)}`, {
      ...{ bold: true, size },
    });
    y += high + 0.4 * em;
    stops.forEach(({ stop, said, rungs }, n) => {
      const x = (n % columns) * each,
        top = y + Math.floor(n / columns) * (chip * em + more) + 0.5 * more,
        factor = rungs.length ? ` \u00d7 ${short(product(rungs), 3)}` : '';
      made.rect(`end ${kind} ${stop} mark`, [x, top + 0.15 * em, 0.3 * em, (chip - 0.6) * em], { fill: SAVED[kind] });
      made.text(`end ${kind} ${stop}`, [x + 0.8 * em, top + 1.05 * em, each - 1.2 * em], `${stop}${factor}`, {
        bold: true,
      });
      if (chip > LINE) made.text(`end ${kind} ${stop} is`, [x + 0.8 * em, top + 2.35 * em, each - 1.2 * em], said);
      made.add(`end ${kind} ${stop} area`, 'area', [x, top, each - 0.3 * em, (chip - 0.3) * em], {
        datum: { stop },
        tip: [`${stop}: ${said}`, ...rungs.map(id => `${id}: \u00d7 ${short(gain(id), 3)}`)].join('\n'),
      });
    });
    y += rows[k] * (chip * em + more) + 0.9 * em;
  });
  for (const [id, text, bold, px] of /** @type {[string, string, boolean, number][]} */ ([
    ['end whole', whole, true, 1.2 * em],
    ['end order', meta.words.order, false, em],
  ]))
    wrapped(text, width, 2, one => wide(one, bold, px)).forEach((line, n) => {
      y += 1.2 * px;
      made.text(`${id} ${n}`, [0, y, width], line, { bold, size: px });
    });
}
