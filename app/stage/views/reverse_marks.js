// The forward as a map, and below it the same map in reverse: each step lights what it makes, and its inputs. Below the map
// a lane: bytes as areas, the numbers of a row as bars, two bars of time, or the tiles of the block's loop. Places only.
import { Marks } from '../core/kinds.js';
import { filled } from '../core/follow.js';
import { blend, COLOURS, rgb } from '../core/paint.js';
import { wrapped } from '../core/wrapped.js';
import { share } from './reverse_rule.js';

/** @type {Record<string, [number, number]>} part -> its column, and its row from the top */
const PLACES = {
  ...{ Q: [0, 0], K: [0, 1], S: [1, 0], LSE: [1, 1], P: [2, 0], V: [2, 1], O: [3, 0] },
  ...{ dQ: [0, 2], dK: [0, 3], dS: [1, 2], dP: [2, 2], dV: [2, 3], delta: [3, 1.5], dO: [3, 3] },
};
const ONE_A_QUERY = ['LSE', 'delta'];
const FORWARD = ['Q S', 'K S', 'S P', 'S LSE', 'P O', 'V O'];
const BACKWARD = ['dO dV', 'dO dP', 'dO delta', 'O delta', 'delta dS', 'dP dS', 'dS dQ', 'dS dK'];
/** @type {Record<string, number>} phase -> the lane's share of the height */
const LANES = { forward: 0.52, price: 0.46, share: 0.4, mean: 0.46, score_gradients: 0.46, next: 0.46, hand: 0.46 };
const ABOUT_P = ['price', 'share'];
const LINE = 4.4; // em: a lane of a formula
const LEAST = 14; // em: a lane with a drawing
const GROWS = 1; // by which a score grows where a row's weights share 1
const NARROW = 700; // pixels

/** @param {{width: number, height: number, em: number}} size @param {string} phase */
export function reverseLayout({ width, height, em }, phase) {
  const narrow = width < NARROW,
    rows = phase === 'forward' ? 2 : 4,
    least = rows * 2.7 * em + (rows > 2 ? 1.4 * em : 0), // of the map
    lane = phase in LANES ? Math.max(LEAST * em, LANES[phase] * height) : (narrow ? LINE + 1.6 : LINE) * em,
    map = Math.max(least, height - lane),
    gap = (narrow ? 1.6 : Math.max(3, Math.min(6, (0.09 * width) / em))) * em, // between two columns
    margin = (narrow ? 0.8 : 1.6) * em, // for the way around the columns
    w = (width - 2 * margin - 3 * gap) / 4,
    band = rows > 2 ? 1.2 * em : 0,
    pitch = (map - band - 0.6 * em) / rows,
    h = Math.min(pitch - 0.9 * em, 6.5 * em);
  /** @param {string} part @returns {number[]} its rectangle */
  const rect = part => {
    const [column, row] = PLACES[part],
      high = ONE_A_QUERY.includes(part) ? Math.min(h, 2.6 * em) : h,
      down = row >= 2 ? band : row === 1.5 ? band / 2 : 0,
      y = 0.3 * em + row * pitch + down + (ONE_A_QUERY.includes(part) && row === 1.5 ? (h - high) / 2 : 0);
    return [margin + column * (w + gap), y, w, high];
  };
  return { width, em, narrow, rect, gap, margin, rows, bars: [2, map, width - 4, lane], height: map + lane };
}

/** @typedef {ReturnType<typeof reverseLayout>} Layout */
/**
 * @typedef {object} Row the numbers of a query, as the hand has them
 * @property {number[]} P @property {number[]} dP @property {number[]} dS @property {number} delta
 */
/** A way between two parts. @type {(at: Layout, from: string, to: string) => number[][]} */
function wayOf({ rect, gap, margin, em }, from, to) {
  const [a, b] = [rect(from), rect(to)],
    [[c], [d]] = [PLACES[from], PLACES[to]],
    middle = (/** @type {number[]} */ [x, y, w, h]) => [x + w / 2, y + h / 2],
    [ax, ay] = middle(a),
    [bx, by] = middle(b);
  if (from === 'Q' && to === 'dK')
    return [
      [a[0], ay],
      [a[0] - 0.7 * margin, ay],
      [a[0] - 0.7 * margin, by],
      [b[0] - 2, by],
    ];
  if (from === 'P' && to === 'dV')
    return [
      [a[0], ay],
      [a[0] - 0.3 * gap, ay],
      [a[0] - 0.3 * gap, by],
      [b[0] - 2, by],
    ];
  if (to === 'dS' && from === 'delta')
    return [
      [a[0], ay],
      [bx, ay],
      [bx, b[1] - 2],
    ];
  if (c === d) {
    const down = a[1] < b[1];
    return [
      [ax, down ? a[1] + a[3] : a[1]],
      [bx, down ? b[1] - 2 : b[1] + b[3] + 2],
    ];
  }
  const right = d > c,
    x = right ? a[0] + a[2] : a[0],
    end = right ? b[0] - 2 : b[0] + b[2] + 2,
    edge = Math.min(0.32 * b[3], 1.2 * em),
    y = Math.abs(ay - by) < 0.5 * em ? by : ay < by ? b[1] + edge : b[1] + b[3] - edge;
  return [
    [x, ay],
    [end, y],
  ];
}

/** @typedef {{step: number, paint: Paint, row: Row, changed: number, wide: (text: string, bold?: boolean) => number}} Now
 *  changed: the key under the hand */
/** @param {Layout} at @param {backward.ReverseMeta} meta @param {Now} now */
export function reverseMarks(at, meta, now) {
  const { step, paint, wide } = now,
    { em } = at,
    made = new Marks(em),
    phase = meta.phases[step],
    lane = {
      ...{
        forward: () => addKept(made, at, meta.kept, paint, wide),
        share: () => addShare(made, at, meta, now),
      },
      ...{ mean: () => addBars(made, at, meta, now), score_gradients: () => addBars(made, at, meta, now) },
      ...{ price: () => meta.price && addPrice(made, at, meta.price, paint, wide) },
      ...{ next: () => addLoop(made, at, meta, paint), hand: () => addBars(made, at, meta, now) },
    }[phase];
  addMap(made, at, meta, now);
  if (lane) lane();
  else addFormula(made, at, meta.formulas[phase], wide);
  return made.list;
}

/** @type {(made: Marks, at: Layout, meta: backward.ReverseMeta, now: Now) => void} */
function addMap(made, at, meta, { step, paint, wide }) {
  const { em, narrow } = at,
    phase = meta.phases[step],
    making = phase === 'forward' ? ['S', 'P', 'O', 'LSE'] : meta.made[step],
    whole = ['forward', 'hand', 'next'].includes(phase),
    reads = making.flatMap(part => meta.parts[part].reads),
    strong = new Set(
      phase === 'forward' ? FORWARD : making.flatMap(part => meta.parts[part].reads.map(r => `${r} ${part}`)),
    ),
    known = new Set(meta.made.slice(0, step + 1).flat()),
    back = rgb(paint.background),
    drawn = (/** @type {string} */ part) => PLACES[part][1] < at.rows && (at.rows > 2 || PLACES[part][1] < 1.5);
  for (const way of new Set([...FORWARD, ...BACKWARD, ...strong])) {
    const [from, to] = way.split(' '),
      on = strong.has(way),
      there = [from, to].every(part => drawn(part) && meta.parts[part].seen[step]);
    if (!drawn(from) || !drawn(to)) continue;
    made.add(`way ${way}`, 'way', null, {
      points: wayOf(at, from, to),
      stroke: on ? paint.text : there && whole ? blend(rgb(paint.text), back, 0.5) : paint.border,
      width: on ? 3 : 1.5,
      head: (on ? 0.45 : 0.3) * em,
      ...(on && { grown: 1, enter: { grown: 0 }, ease: 'both' }),
    });
  }
  for (const [name, part] of Object.entries(meta.parts)) {
    if (!drawn(name)) continue;
    const [x, y, w, h] = at.rect(name),
      seen = part.seen[step],
      fresh = meta.made[step].includes(name),
      note = part.notes[step],
      lit = fresh || reads.includes(name) || whole || phase === 'kept' || (name === 'P' && ABOUT_P.includes(phase)),
      kind = name.replace(/^d(?=[A-Z])/, ''),
      hue = COLOURS[/** @type {keyof typeof COLOURS} */ (kind in COLOURS ? kind : 'other')],
      gradient = kind !== name || name === 'delta',
      colour = gradient ? blend(rgb(hue), back, 0.22) : hue,
      ink = seen && !gradient ? '#fff' : paint.text,
      short = ONE_A_QUERY.includes(name) || h < 3.4 * em,
      big = (narrow || short ? 1.1 : 1.7) * em,
      formula = fresh && seen && (!narrow || wide(meta.short[name] ?? '', true) < w) ? meta.short[name] : '',
      words = note || formula || (seen || !narrow ? part.said : ''),
      two = h >= 2.5 * em && words;
    made.rect(`${name} box`, [x, y, w, h], {
      ...(seen
        ? {
            fill: lit ? colour : blend(rgb(colour), back, 0.45),
            stroke: gradient ? hue : colour,
            width: gradient ? 2 : 1,
          }
        : { stroke: paint.border, dash: [4, 4] }),
    });
    const dim = seen && !lit ? paint.text : ink;
    made.text(`${name} name`, [x + w / 2, y + h / 2 + (two ? (short ? -0.2 : -0.1) * em : 0.36 * big), w - 4], name, {
      ...{ align: 'center', bold: true, size: big, fill: dim, alpha: seen ? 1 : 0.75 },
    });
    if (two)
      made.text(`${name} said`, [x + w / 2, y + h / 2 + (short ? 0.88 : 1.25) * em, w - 6], words, {
        ...{ align: 'center', fill: dim, bold: fresh || !!note, alpha: seen ? 1 : 0.75, size: narrow ? 12 : em },
      });
    made.add(`${name} area`, 'area', [x, y, w, h], {
      datum: { tensor: name },
      tip: `${name}: ${part.said}${meta.short[name] && seen ? `\n${name} ${meta.short[name]}` : ''}`,
    });
    if (fresh) made.rect(`${name} frame`, [x - 3, y - 3, w + 6, h + 6], { stroke: paint.text, width: 2.5 });
    if (part.product && known.has(name)) {
      const side = (narrow ? 1.2 : 1.4) * em,
        left = Math.min(x + w - 0.7 * side, at.width - side),
        top = Math.max(0, y - 0.45 * side);
      made.rect(`${name} product`, [left, top, side, side], { fill: paint.text });
      made.text(`${name} product is`, [left + side / 2, top + side / 2 + 0.36 * em], `${part.product}`, {
        ...{ align: 'center', bold: true, fill: paint.background },
      });
    }
  }
}

/** @type {(made: Marks, at: Layout, formula: string[], wide: (text: string, bold?: boolean) => number) => void} */
function addFormula(made, { em, narrow, bars: [left, top, width] }, [formula, means], wide) {
  const size = (narrow ? 1.25 : 1.6) * em,
    y = top + 1.8 * em;
  made.text('formula', [left, y, width], formula, { bold: true, size });
  const from = narrow ? left : left + (wide(formula, true) * size) / em + 1.6 * em;
  wrapped(means, left + width - from, 3, (/** @type {string} */ text) => wide(text)).forEach((text, n) =>
    made.text(`formula ${n}`, [from, y + ((narrow ? 1.7 : 0) + 1.4 * n) * em, left + width - from], text),
  );
}

const signed = (/** @type {number} */ one, digits = 2) => one.toFixed(digits).replace('-', '\u2212');

/** A row of P shares 1: before, and once a score has grown. @type {(made: Marks, at: Layout, meta: backward.ReverseMeta,
 *  now: Now) => void} */
function addShare(
  made,
  { em, bars: [left, top, width, high] },
  { row: { P, keys }, bar_words: words },
  { paint, wide },
) {
  const grown = P.indexOf(Math.max(...P)),
    after = share(P, grown, GROWS),
    tall = Math.min(4.5 * em, (high - 5.5 * em) / 2);
  [P, after].forEach((weights, n) => {
    const y = top + (2.2 + 2.2 * n) * em + n * tall;
    let x = left;
    made.text(
      `share ${n}`,
      [left, y - 0.45 * em, width],
      filled(n ? words.after : words.before, { key: keys[grown] }),
      {
        bold: true,
      },
    );
    weights.forEach((weight, k) => {
      const w = width * weight,
        begin = width * P.slice(0, k).reduce((a, b) => a + b, 0),
        text = [`${filled(words.key, { key: keys[k] })}: ${weight.toFixed(3)}`, weight.toFixed(3)];
      made.rect(`share ${n} ${k}`, [x, y, Math.max(1, w - 2), tall], {
        ...{ fill: k === grown ? COLOURS.P : blend(rgb(COLOURS.P), rgb(paint.background), 0.35) },
        ...{ ease: 'both', enter: { rect: [left + begin, y, Math.max(1, width * P[k] - 2), tall] } },
      });
      const shown = text.find(one => wide(one, true) < w - 8);
      if (shown)
        made.text(`share ${n} ${k} is`, [x + w / 2, y + tall / 2 + 0.36 * em, w - 4], shown, {
          ...{ align: 'center', bold: true, fill: k === grown ? '#fff' : paint.text },
        });
      x += w;
    });
    const rest = 1 - weights.reduce((a, b) => a + b, 0);
    if (rest > 0.01)
      made.text(`share ${n} rest`, [x + 0.4 * em, y + tall / 2 + 0.36 * em, width * rest], words.others, {});
  });
}

/** The numbers of a row as bars: P and dP with its average, or dS = P (dP - delta). @type {(made: Marks, at: Layout,
 *  meta: backward.ReverseMeta, now: Now) => void} */
function addBars(made, { em, narrow, bars: [left, top, width, high] }, meta, { step, paint, row, changed, wide }) {
  const { bar_words: words, phases } = meta,
    { keys, of, query } = meta.row,
    average = phases[step] === 'mean',
    sign = (narrow ? 1.2 : 2) * em,
    each = (width - 2 * sign) / 3,
    up = top + 4.8 * em,
    down = top + high - 2.6 * em,
    few = (/** @type {number} */ one) => one.toFixed(narrow ? 2 : 4),
    mean = filled(words.delta, { value: signed(row.delta) });
  made.text(
    'bars of',
    [left, top + 1.2 * em, width],
    `${filled(of === keys.length ? words.row : words.some, { query, of, count: keys.length })}${narrow ? `, ${mean}` : ''}`,
    { bold: true },
  );
  /** @type {{part: string, title: string, values: number[], line?: number, zero?: number, said: (n: number) => string}[]} */
  const groups = [
    { part: 'P', title: words.P, values: row.P, said: n => few(row.P[n]) },
    {
      ...{ part: 'dP', title: average ? words.dP : words.less, values: row.dP, line: row.delta },
      ...{ zero: average ? 0 : row.delta, said: n => signed(row.dP[n] - (average ? 0 : row.delta)) },
    },
    ...(average
      ? []
      : [{ part: 'dS', title: words.dS, values: row.dS, said: (/** @type {number} */ n) => signed(row.dS[n]) }]),
  ];
  groups.forEach(({ part, title, values, line, zero = 0, said }, g) => {
    const x = left + g * (each + sign),
      all = [...values, line ?? 0, 0],
      [low, top_] = [Math.min(...all), Math.max(...all)],
      y = (/** @type {number} */ one) => up + ((down - up) * (top_ - one)) / (top_ - low || 1),
      step = each / values.length,
      hue = COLOURS[part === 'dS' ? 'S' : 'P'],
      fill = part === 'P' ? hue : blend(rgb(hue), rgb(paint.background), 0.35);
    made.text(`bars ${g}`, [x, top + 2.8 * em, each], title, { bold: true });
    if (g && !average)
      made.text(`bars sign ${g}`, [x - sign / 2, (up + down) / 2], g > 1 ? '=' : '\u00d7', {
        ...{ align: 'center', bold: true, size: 1.4 * em },
      });
    made.rect(`bars ${part} zero`, [x, y(zero), each, 1], { fill: paint.text });
    values.forEach((one, n) => {
      const [from, to] = [y(zero), y(one)],
        box = [x + (n + 0.15) * step, Math.min(from, to), 0.7 * step, Math.max(1, Math.abs(to - from))],
        middle = x + (n + 0.5) * step,
        on = part === 'dP' && n === changed && phases[step] === 'hand';
      made.text(
        `bars ${part} key ${n}`,
        [middle, top + high - 0.5 * em, step],
        filled(narrow ? '{key}' : words.key, { key: keys[n] }),
        {
          ...{ align: 'center', bold: on },
        },
      );
      made.rect(`bars ${part} ${n}`, box, {
        ...{ fill, stroke: on ? paint.text : hue, width: on ? 3 : 1.5, ease: 'both' },
        enter: { rect: [box[0], from, box[2], 0] },
      });
      made.text(
        `bars ${part} value ${n}`,
        [middle, to < from || (to === from && one >= zero) ? to - 0.35 * em : to + 1.05 * em, step],
        said(n),
        {
          ...{ align: 'center', bold: true, ease: 'both', size: narrow ? 12 : em },
        },
      );
    });
    if (line === undefined) return;
    made.rect('bars delta', [x, y(line) - 1.5, each, 3], {
      fill: paint.text,
      ease: 'both',
      enter: { rect: [x, y(0), each, 3] },
    });
    if (narrow) return;
    made.rect('bars delta swatch', [x + each - wide(mean, true) - 1.7 * em, top + 2.3 * em, 1.3 * em, 3], {
      fill: paint.text,
    });
    made.text('bars delta is', [x + each, top + 2.8 * em], mean, { align: 'right', bold: true });
  });
  if (average) {
    const x = left + 2 * (each + sign);
    made.text('sum', [x, top + 2.8 * em, each], narrow ? 'delta' : words.average, { bold: true });
    const lines = keys.map((_, n) => `${n ? '+ ' : ''}${few(row.P[n])} \u00d7 (${signed(row.dP[n])})`);
    if (of !== keys.length) lines.push(words.rest);
    [...lines, `= ${signed(row.delta)}`].forEach((text, n) =>
      made.text(`sum ${n}`, [x, up + (0.8 + 1.6 * n) * em, each], text, { bold: n === lines.length, mono: !narrow }),
    );
  } else if (of === keys.length && !narrow)
    made.text('bars zero', [left + width, top + 1.2 * em, 0.6 * width], words.zero, { align: 'right', bold: true });
}

/** Bytes as areas: P, and the one number of each query. @type {(made: Marks, at: Layout, kept: backward.Kept, paint: Paint,
 *  wide: (text: string, bold?: boolean) => number) => void} */
function addKept(made, { em, narrow, bars: [left, top, width, high] }, kept, paint, wide) {
  const [name, most, said] = kept.square,
    [small, bytes, of] = kept.one,
    first = top + 2 * em,
    side = Math.min(high - 2.6 * em, (narrow ? 0.5 : 0.45) * width),
    x = left + side + (narrow ? 1.2 : 2.4) * em,
    room = left + width - x,
    long = Math.max(3, side * Math.sqrt(bytes / most)),
    big = (narrow ? 1.2 : 1.5) * em,
    down = first + 2 * big + long;
  made.text('kept title', [left, top + 1.2 * em, width], kept.title, { alpha: 0.8 });
  made.rect('kept square', [left, first, side, side], { fill: COLOURS.P });
  [name, said].forEach((line, n) =>
    made.text(`kept square ${n}`, [left + side / 2, first + side / 2 + (n - 0.2) * 1.8 * em, side], line, {
      ...{ align: 'center', bold: true, fill: '#fff', size: (n ? 1.3 : 2) * em },
    }),
  );
  made.text('kept one', [x, first + big, room], `${small}: ${of}, ${kept.less}`, { bold: true, size: big });
  made.rect('kept one is', [x, down - long, long, long], { fill: paint.text });
  wrapped(kept.says, room, 9, (/** @type {string} */ text) => wide(text)).forEach((text, n) =>
    made.text(`kept says ${n}`, [x, down + (2 + 1.4 * n) * em, room], text),
  );
}

/** Queries tile by tile, the sums that stay, and the rows that leave. @type {(made: Marks, at: Layout,
 *  meta: backward.ReverseMeta, paint: Paint) => void} */
function addLoop(made, at, meta, paint) {
  const { em } = at,
    { spans, loop_words: words } = meta,
    [left, top, width, high] = at.bars,
    here = 1, // the second tile of queries
    pale = (/** @type {'Q' | 'K' | 'V'} */ part) => blend(rgb(COLOURS[part]), rgb(paint.background), 0.22),
    gap = (at.narrow ? 1.6 : 3.2) * em,
    each = (width - 2 * gap) / 3,
    room = high - 4.8 * em,
    y = top + 3.3 * em,
    row = Math.min(5 * em, room / spans.length),
    box = row * spans.length,
    [queries, held, memory] = [0, 1, 2].map(n => left + n * (each + gap));
  made.text('loop title', [left, top + 1.2 * em, width], words.title, { bold: true });
  for (const [name, x] of /** @type {[string, number][]} */ ([
    ['queries', queries],
    ['held', held],
    ['memory', memory],
  ]))
    made.text(`loop ${name}`, [x, y - 0.5 * em, each], words[name], { bold: true });
  spans.forEach((span, n) => {
    const now = n === here,
      done = n < here;
    for (const [name, x, fill] of /** @type {[string, number, string][]} */ ([
      ['query', queries, now ? COLOURS.Q : done ? paint.panel : ''],
      ['row', memory, now ? pale('Q') : done ? paint.panel : ''],
    ])) {
      made.rect(`loop ${name} ${n}`, [x, y + n * row, each, row - 3], { stroke: paint.border, ...(fill && { fill }) });
      made.text(`loop ${name} ${n} is`, [x + 0.5 * em, y + n * row + row / 2 + 0.2 * em, each - em], span, {
        ...{ bold: now, fill: now && name === 'query' ? '#fff' : paint.text, alpha: now || done ? 1 : 0.6 },
      });
    }
  });
  const at_y = y + (here + 0.5) * row - 1,
    share = (here + 1) / spans.length;
  for (const [n, part] of /** @type {[number, 'K' | 'V'][]} */ ([
    [0, 'K'],
    [1, 'V'],
  ])) {
    const x = held + (n * each) / 2;
    made.rect(`loop sums ${part}`, [x, y + box * (1 - share), each / 2, box * share - 3], {
      ...{ fill: pale(part), stroke: COLOURS[part], width: 2, ease: 'both' },
      enter: { rect: [x, y + box, each / 2, 0] },
    });
    made.text(`loop sums ${part} is`, [x + each / 4, y + box * (1 - share / 2), each / 2], `d${part}`, {
      ...{ align: 'center', bold: true, size: 1.3 * em },
    });
  }
  made.rect('loop registers', [held, y, each, box - 3], { stroke: paint.text, width: 2 });
  made.text(
    'loop sums are',
    [held + each / 2, y + box - 0.8 * em, each - 0.6 * em],
    filled(words.sums, { count: here + 1, of: spans.length }),
    { align: 'center', bold: true },
  );
  const way = (/** @type {string} */ id, /** @type {number} */ from) =>
    made.add(id, 'way', null, {
      ...{
        points: [
          [from + 4, at_y],
          [from + gap - 4, at_y],
        ],
        stroke: paint.text,
        width: 3,
        head: 0.45 * em,
      },
    });
  way('loop in', queries + each);
  way('loop out', held + each);
}

/** Two bars of µs. @type {(made: Marks, at: Layout, price: backward.Price, paint: Paint,
 *  wide: (text: string, bold?: boolean) => number) => void} */
function addPrice(made, at, price, paint, wide) {
  const { em } = at,
    [left, top, most, room] = at.bars,
    total = (/** @type {[string, number][]} */ bar) => bar.reduce((sum, [, us]) => sum + us, 0),
    scale = (most - 5.5 * em) / Math.max(total(price.keep), total(price.make)),
    high = Math.min(5 * em, 0.22 * room),
    first = top + 1.8 * em,
    tops = [first, first + high + 2 * em];
  /** @type {['keep' | 'make', string[]][]} */
  const bars = [
    ['keep', [COLOURS.written, COLOURS.read]],
    ['make', [COLOURS.S, COLOURS.P]],
  ];
  bars.forEach(([name, colours], n) => {
    const y = tops[n];
    let x = left;
    made.text(`price ${name}`, [left, y - 0.4 * em], price.words[name], { bold: true });
    price[name].forEach(([said, us], k) => {
      const w = us * scale,
        text = `${said} ${Math.round(us)} µs`;
      made.rect(`price ${name} ${k}`, [x, y, w - 2, high], {
        ...{ fill: colours[k], enter: { rect: [x, y, 0, high] }, ease: 'both' },
      });
      const shown = [text, said].find(one => wide(one, true) < w - 0.6 * em);
      if (shown)
        made.text(`price ${name} ${k} is`, [x + 0.4 * em, y + high / 2 + 0.35 * em], shown, {
          bold: true,
          fill: '#fff',
        });
      x += w;
    });
    made.text(`price ${name} sum`, [x + 0.4 * em, y + high / 2 + 0.35 * em], `${Math.round(total(price[name]))} µs`, {
      bold: true,
    });
  });
  wrapped(price.said, most, 3, (/** @type {string} */ text) => wide(text)).forEach((text, n) =>
    made.text(`price said ${n}`, [left, tops[1] + high + (1.5 + 1.3 * n) * em, most], text),
  );
}
