// The parts of a step large, their formula in large type, and all names so far in a small map: the forward above, the
// backward below it. Below them a strip: bytes as areas, four numbers of a row as bars, two bars of time, or the tiles of
// the block's loop. Under the hand, all parts are there. Places only.
import { Marks } from '../core/kinds.js';
import { filled } from '../core/follow.js';
import { blend, COLOURS, rgb, short, smallText } from '../core/paint.js';
import { wrapped } from '../core/wrapped.js';
import { cut } from './reverse_rule.js';

/** @type {Record<string, [number, number]>} part -> its column, and its row from the top */
const PLACES = {
  ...{ Q: [0, 0], K: [0, 1], S: [1, 0], LSE: [1, 1], P: [2, 0], V: [2, 1], O: [3, 0] },
  ...{ dQ: [0, 2], dK: [0, 3], dS: [1, 2], dP: [2, 2], dV: [2, 3], delta: [3, 1.5], dO: [3, 3] },
};
/** @type {Record<string, Record<string, [number, number]>>} phase -> the places of the parts that take part */
const STEPS = {
  weights: { Q: [0, 0], K: [0, 1], S: [1, 0], LSE: [1, 1], P: [2, 0.5] },
  values: { dO: [0, 0.5], P: [1, 0], V: [1, 1], dV: [2, 0], dP: [2, 1] },
  mean: { dO: [0, 0], O: [0, 1], delta: [1, 0.5] },
  score_gradients: { P: [0, 0], dP: [0, 1], delta: [1, 0.5], dS: [2, 0.5] },
  queries: { dS: [0, 0.5], K: [1, 0], Q: [1, 1], dQ: [2, 0], dK: [2, 1] },
  hand: PLACES,
};
const BARE = ['forward', 'kept']; // only areas
const FEW = ['mean', 'score_gradients']; // the bars are the picture
const FLOW = ['Q S', 'K S', 'S P', 'P O', 'V O', 'dO dV', 'dO dP', 'dP dS', 'dS dQ', 'dS dK']; // the way there and back
/** @type {Record<string, number>} em from the right end of its column: the words of a part end there */
const LEFT_OF_A_WAY = { delta: -0.6, dO: -0.6, dS: 0.2, dV: 0.2 };
const THIN = 0.7; // em: a column of one number
const TALLEST = 1.7; // height of a number over its width
const WIDEST = 1.5; // width over height
const GROWS = 3; // by which a score grows where a row's weights share 1
const UNFOLDED = 700; // pixels from which a name and its words share a line

/** @param {{width: number, height: number, em: number}} size @param {Record<string, backward.Part>} parts
 *  @param {string} phase */
export function reverseLayout({ width, height, em }, parts, phase) {
  const windows = Object.values(parts).flatMap(part => part.windows),
    whole = phase === 'hand',
    places = STEPS[phase] ?? {},
    [across, down] = whole ? [4, 4] : [3, 2], // parts
    alone = !(phase in STEPS), // the strip has the whole window
    rows = Math.max(...windows.map(([, count]) => count)),
    columns = Math.max(...windows.map(([, , count]) => count)),
    narrow = width < UNFOLDED,
    head = whole || BARE.includes(phase) ? 0 : (narrow ? 4.8 : 6.6) * em, // of the formula and the map
    label = (narrow ? 2.5 : 2) * em,
    band = (!whole ? 1.6 : narrow ? 2.4 : 2.9) * em,
    least = (narrow ? 1 : whole ? 2.6 : 4) * em, // between two columns
    most = (width - (across - 1) * least - 4) / (across * columns), // pixels of a number
    strip = alone
      ? Math.max(narrow ? 15 * em : 10.5 * em, (narrow ? 0.7 : 1) * height - head)
      : narrow
        ? 11 * em
        : Math.max(10.5 * em, (FEW.includes(phase) ? 0.44 : 0.36) * height), // of the bars
    fits = (height - head - strip - down * label - band - 4) / (down * rows),
    room = narrow && fits < 0.8 * most ? 1.2 * most : fits, // a phone scrolls before its numbers get flat
    unit = Math.max(0.8, Math.min(most, WIDEST * room)),
    tall = Math.max(0.8, Math.min(TALLEST * unit, room)),
    gap = Math.min(9 * em, (width - across * columns * unit - 4) / (across - 1)),
    left = (width - across * columns * unit - (across - 1) * gap) / 2,
    line = label + rows * tall,
    top = head + (narrow ? strip : 0),
    high = alone ? 0 : down * line + band + 4,
    middle = top + 2 * line + band / 2;
  /** @param {string} part @param {number} tile @returns {number[]} its rectangle */
  const rect = (part, tile) => {
    const [column, row] = places[part],
      [, high, wide] = parts[part].windows[tile] ?? parts[part].windows[0],
      w = wide === 1 ? THIN * em : wide * unit,
      h = high * tall,
      x = left + column * (columns * unit + gap) + (wide === 1 ? 0 : (columns * unit - w) / 2),
      share = whole ? (row >= 2 ? 1 : row === 1.5 ? 0.5 : 0) : row, // of the band that is above it
      y = top + row * line + label + share * band;
    return [x, y, w, h];
  };
  const lane = (/** @type {number} */ column) => [
    left + column * (columns * unit + gap),
    left + column * (columns * unit + gap) + columns * unit,
  ];
  const bars = narrow
    ? [2, head, width - 4, strip]
    : alone
      ? [2, head, width - 4, strip]
      : [left, head + high, across * columns * unit + (across - 1) * gap, Math.max(strip, height - head - high)];
  return {
    ...{ width, em, unit, gap, left, label, middle, band, narrow, rect, lane, bars, places, whole, head },
    height: head + high + strip,
  };
}

/** @typedef {ReturnType<typeof reverseLayout>} Layout */
/**
 * A way around the parts between two of them: through the gap next to the second one.
 * @param {Layout} at
 * @param {string} from
 * @param {string} to
 * @param {number} tile
 */
function wayOf(at, from, to, tile) {
  const [a, b] = [from, to].map(part => at.rect(part, tile)),
    [columns, turn] = [[from, to].map(part => at.places[part][0]), 0.45 * Math.min(at.gap, 3 * at.em)],
    middle = (/** @type {number[]} */ [, y, , h]) => y + h / 2,
    forward = columns[1] > columns[0];
  if (at.whole && to === 'delta') {
    const x = a[0] + a[2] - 2, // right of the words between
      down = a[1] < b[1];
    return [
      [x, down ? a[1] + a[3] + 2 : a[1] - at.label * 0.2],
      [x, middle(b)],
      [b[0] + b[2] + 3, middle(b)],
    ];
  }
  if (columns[0] === columns[1]) {
    const lane = at.lane(columns[0])[1] + turn;
    return [
      [a[0] + a[2] + 2, middle(a)],
      [lane, middle(a)],
      [lane, middle(b)],
      [b[0] + b[2] + 3, middle(b)],
    ];
  }
  const start = [forward ? a[0] + a[2] + 2 : a[0] - 2, middle(a)],
    end = [forward ? b[0] - 3 : b[0] + b[2] + 3, middle(b)],
    corner = forward ? at.lane(columns[1])[0] - turn : at.lane(columns[1])[1] + turn;
  return Math.abs(start[1] - end[1]) < 1 ? [start, end] : [start, [corner, start[1]], [corner, end[1]], end];
}

/**
 * @param {Layout} at
 * @param {backward.ReverseMeta} meta
 * @param {{step: number, paint: Paint, small: number, picked: {part: string, place: number[]} | null,
 *   image: (part: string, tile: number) => any, value: (part: string, place: number[], tile: number) => number, wide: (text: string, bold?: boolean) => number,
 *   grid: (part: string, tile: number) => Record<string, any>}} now picked: the number under the hand
 */
export function reverseMarks(at, meta, now) {
  const { step, paint, small, picked, image, wide, grid } = now,
    { em } = at,
    made = new Marks(small),
    tile = meta.tile[step],
    making = meta.made[step],
    phase = meta.phases[step],
    known = new Set(meta.made.slice(0, step + 1).flat()),
    strong = new Set(making.flatMap(part => meta.parts[part].reads.map(read => `${read} ${part}`))),
    reads = making.flatMap(part => meta.parts[part].reads);
  // the two halves
  const line = (/** @type {string} */ id, /** @type {number} */ x, /** @type {number} */ w) =>
    made.add(id, 'line', [x, at.middle, w, 0], { stroke: paint.border, dash: [2, 4] });
  if (at.whole) {
    line('halves', 0, at.lane(3)[0] - 0.5 * em);
    made.text('forward', [at.left, at.middle - 0.35 * em], 'forward \u2191', { bold: true });
    made.text('backward', [at.left, at.middle + 1.05 * em], 'backward \u2193', { bold: true });
  } else if (at.head) addHead(made, at, meta, step, paint, wide);
  // the ways
  for (const way of new Set([...FLOW, ...strong])) {
    const [from, to] = way.split(' '),
      on = strong.has(way);
    if (!(from in at.places && to in at.places) || (!on && !at.whole)) continue;
    made.add(`way ${way}`, 'way', null, {
      points: wayOf(at, from, to, tile),
      stroke: on ? COLOURS.S : paint.border,
      width: on ? 3 : 1.5,
      head: (on ? 0.45 : 0.3) * em,
      ...(on && { grown: 1, enter: { grown: 0 }, ease: 'both' }),
    });
  }
  const where = meta.tiles[tile],
    [, end] = at.lane(2);
  if (at.whole && !at.narrow) {
    const long = wide(where) + 6;
    made.rect('tile ground', [end - long, at.middle - 1.25 * em, long, 1.2 * em], { fill: paint.background });
    made.text('tile', [end, at.middle - 0.35 * em], where, { alpha: 0.75, align: 'right' });
  }
  // the parts
  for (const [name, part] of Object.entries(meta.parts)) {
    if (!(name in at.places)) continue;
    const rect = at.rect(name, tile),
      [x, y, w] = rect,
      seen = part.seen[step],
      note = part.notes[step],
      fresh = making.includes(name),
      lit = fresh || reads.includes(name),
      row = at.lane(at.places[name][0]),
      room = at.narrow
        ? row[1] - row[0] + (at.places[name][0] < 3 ? at.gap - 6 : 0)
        : Math.max(w, row[1] - x) + 0.5 * at.gap,
      up = y - at.label,
      words = note || (!seen ? '' : fresh ? part.formula : part.said),
      strongly = !!note || fresh,
      after = wide(name, true) + 0.5 * em,
      before = at.whole ? LEFT_OF_A_WAY[name] : undefined, // no way crosses these words
      least = before === undefined ? Infinity : row[1] + before * em - after - wide(words, strongly),
      from = at.narrow ? row[0] : Math.min(x, least);
    made.rect(`${name} slot`, rect, { stroke: paint.border, dash: [3, 4] });
    made.text(`${name} name`, [from, up + (at.narrow ? 0.95 : 1.4) * em], name, { bold: true, alpha: seen ? 1 : 0.6 });
    if (at.narrow) {
      const [first] = part.said.split(' '),
        fits = words && [words, part.said].find(text => wide(text, strongly) <= room);
      made.text(`${name} said`, [from, up + 2.05 * em, room], words && (fits || first), { bold: strongly });
    } else
      made.text(`${name} said`, [from + after, up + 1.4 * em, room - after], words, {
        bold: strongly,
        ...(fresh && { fill: COLOURS.S }),
      });
    if (seen)
      made.add(`${name} numbers ${tile}`, 'image', rect, { image: image(name, tile), ease: 'line', out: [0, 0.6] });
    made.add(
      `${name} area`,
      'area',
      rect,
      seen ? grid(name, tile) : { datum: { tensor: name }, tip: `${name}: ${part.said}` },
    );
    const frame = (/** @type {string} */ stroke) =>
      made.rect(`${name} frame`, rect, { stroke, width: 3, span: [0, 0.2], out: [0, 0.3] });
    if (fresh) frame(COLOURS.S);
    else if (lit || (note && seen && name !== 'dQ')) frame(paint.text);
    if (part.product && known.has(name)) {
      const side = em,
        corner = Math.min(x + w + 1, at.width - side);
      made.rect(`${name} product`, [corner, y - 0.15 * em, side, side], { fill: COLOURS.S });
      made.text(`${name} product is`, [corner + side / 2, y + 0.65 * em], `${part.product}`, {
        ...{ align: 'center', bold: true, fill: '#fff', size: smallText(em) },
      });
    }
  }
  if (picked && picked.part in at.places) addPicked(made, at, meta, picked, tile, paint);
  if (phase === 'forward' || phase === 'kept') addKept(made, at, meta.kept, phase, paint, wide);
  else if (phase === 'price' && meta.price) addPrice(made, at, meta.price, paint, wide);
  else if (phase === 'next') addLoop(made, at, meta, tile, paint);
  else addBars(made, at, meta, now, tile);
  return made.list;
}

/** The formula of a step, and the names so far where they are in the whole. @type {(made: Marks, at: Layout,
 *  meta: backward.ReverseMeta, step: number, paint: Paint, wide: (text: string, bold?: boolean) => number) => void} */
function addHead(made, at, meta, step, paint, wide) {
  const { em, narrow, width } = at,
    phase = meta.phases[step],
    [formula, means] = meta.formulas[phase] ?? ['', ''],
    [each, row] = [4 * em, 1.5 * em],
    left = narrow ? 2 : 4.6 * each,
    size = (narrow ? 1.35 : 1.9) * em;
  made.text(`formula ${phase}`, [left, (narrow ? 1.4 : 2) * em, width - left], formula, { bold: true, size });
  wrapped(means, width - left, 2, (/** @type {string} */ text) => wide(text)).forEach((text, n) =>
    made.text(`formula ${phase} ${n}`, [left, (narrow ? 2.8 : 3.7) * em + 1.35 * n * em, width - left], text),
  );
  if (narrow) return;
  for (const [name, [column, down]] of Object.entries(PLACES)) {
    const { seen } = meta.parts[name],
      making = meta.made[step].includes(name),
      reads = meta.made[step].some(part => meta.parts[part].reads.includes(name)),
      box = [2 + column * each, 0.2 * em + down * row + (down >= 2 ? 0.3 * em : 0), each - 0.5 * em, row - 0.25 * em];
    if (!seen[step]) continue;
    made.rect(`map ${name}`, box, {
      ...(making ? { fill: COLOURS.S } : { fill: paint.panel, stroke: reads ? paint.text : paint.border }),
      width: reads ? 2 : 1,
    });
    made.text(`map ${name} is`, [box[0] + box[2] / 2, box[1] + 0.95 * em], name, {
      ...{ align: 'center', bold: making || reads, fill: making ? '#fff' : paint.text },
    });
  }
}

/** The number under the hand, and those that it is made of. @type {(made: Marks, at: Layout, meta: backward.ReverseMeta,
 *  picked: {part: string, place: number[]}, tile: number, paint: Paint) => void} */
function addPicked(made, at, meta, { part, place }, tile, paint) {
  const spot = (/** @type {string} */ name, /** @type {(number | null)[]} */ [row, column]) => {
    const [x, y, w, h] = at.rect(name, tile),
      [, rows, columns, row0, column0] = meta.parts[name].windows[tile],
      [cw, ch] = [w / columns, h / rows];
    return [
      x + (column === null ? 0 : (column - column0) * cw),
      y + (row === null ? 0 : (row - row0) * ch),
      column === null ? w : cw,
      row === null ? h : ch,
    ];
  };
  const ring = (/** @type {string} */ name, /** @type {number[]} */ [x, y, w, h], /** @type {string} */ stroke) =>
    made.rect(`picked ${name}`, [x - 2, y - 2, w + 4, h + 4], { stroke, width: 2.5 });
  for (const name of meta.parts[part].reads) {
    if (!(name in at.places)) continue;
    ring(name, spot(name, cut(meta.parts[part], meta.parts[name], place)), paint.text);
    made.add(`picked way ${name}`, 'way', null, {
      ...{ points: wayOf(at, name, part, tile), stroke: COLOURS.S, width: 2.5, head: 0.4 * at.em },
    });
  }
  ring(part, spot(part, place), COLOURS.S);
}

/** Bytes as areas: the square that the forward does not keep, next to what it keeps. @type {(made: Marks, at: Layout,
 *  kept: backward.Kept, phase: string, paint: Paint, wide: (text: string, bold?: boolean) => number) => void} */
function addKept(made, at, kept, phase, paint, wide) {
  const { em, narrow } = at,
    gone = phase === 'kept',
    [left, top, width, high] = at.bars,
    [name, most, said] = kept.square,
    side = Math.min(high - (narrow ? 12 : 3) * em, (narrow ? 0.6 : 0.5) * width),
    first = top + 2 * em,
    lines = [name, said, ...(gone ? [kept.gone] : [])],
    times = Math.round(most / Math.min(...kept.parts.map(([, bytes]) => bytes))).toLocaleString('en'),
    from = narrow ? left : left + side + 2 * em, // of what is kept
    room = left + width - from,
    parts = gone ? kept.parts : kept.parts.filter(([part]) => part === 'LSE'),
    big = side * Math.sqrt(Math.max(...kept.parts.map(([, bytes]) => bytes)) / most),
    each = Math.min(7 * em, room / parts.length),
    down = narrow ? first + side + big + 4.4 * em : first + big + 4 * em;
  made.text('kept title', [left, top + 1.2 * em, width], kept.title, { alpha: 0.8 });
  made.rect('kept square', [left, first, side, side], {
    ...(gone ? { stroke: paint.text, dash: [5, 4], width: 1.5 } : { fill: COLOURS.P }),
  });
  lines.forEach((line, n) =>
    made.text(`kept square ${n}`, [left + side / 2, first + side / 2 + (n - 0.2) * 1.8 * em, side], line, {
      ...{ align: 'center', bold: true, fill: gone ? paint.text : '#fff', size: (n ? 1.3 : 2) * em },
    }),
  );
  parts.forEach(([part, bytes, of], n) => {
    const long = Math.max(2, side * Math.sqrt(bytes / most)),
      x = from + n * each;
    made.rect(`kept ${part}`, [x, down - long, long, long], { fill: part === 'LSE' ? COLOURS.O : paint.text });
    made.text(`kept ${part} name`, [x, down - (gone ? big : long) - 1.9 * em], part, {
      ...{ bold: true, size: (gone ? 1.1 : 1.5) * em },
    });
    made.text(`kept ${part} is`, [x, down - (gone ? big : long) - 0.6 * em, each - 0.3 * em], of, { bold: !gone });
  });
  if (!gone)
    made.text('kept ratio', [from + 6 * em, down - 1.2 * em, room - 6 * em], filled(kept.less, { times }), {
      ...{ bold: true, size: 1.5 * em },
    });
  wrapped(kept.says[phase], Math.min(room, 28 * em), 7, (/** @type {string} */ text) => wide(text)).forEach((text, n) =>
    made.text(`kept says ${n}`, [from, down + (2 + 1.4 * n) * em, room], text),
  );
}

/** Queries tile by tile, the sums that stay, and the rows that leave. @type {(made: Marks, at: Layout,
 *  meta: backward.ReverseMeta, tile: number, paint: Paint) => void} */
function addLoop(made, at, meta, tile, paint) {
  const { em } = at,
    { spans, loop_words: words } = meta,
    [left, top, width, high] = at.bars,
    first = meta.parts.Q.windows[tile][3],
    here = Math.max(
      0,
      spans.findIndex(span => parseInt(span) === first),
    ),
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
      ['row', memory, now ? COLOURS.S : done ? paint.panel : ''],
    ])) {
      made.rect(`loop ${name} ${n}`, [x, y + n * row, each, row - 3], { stroke: paint.border, ...(fill && { fill }) });
      made.text(`loop ${name} ${n} is`, [x + 0.5 * em, y + n * row + row / 2 + 0.2 * em, each - em], span, {
        ...{ bold: now, fill: now ? '#fff' : paint.text, alpha: now || done ? 1 : 0.6 },
      });
    }
  });
  const at_y = y + (here + 0.5) * row - 1,
    share = (here + 1) / spans.length;
  made.rect('loop sums', [held, y + box * (1 - share), each, box * share - 3], {
    ...{ fill: COLOURS.S, ease: 'both', enter: { rect: [held, y + box, each, 0] } },
  });
  made.rect('loop registers', [held, y, each, box - 3], { stroke: paint.text, width: 2 });
  made.text(
    'loop sums are',
    [held + each / 2, y + box - 0.8 * em, each - 0.6 * em],
    filled(words.sums, { count: here + 1, of: spans.length }),
    { align: 'center', bold: true, fill: '#fff' },
  );
  const way = (/** @type {string} */ id, /** @type {number} */ from) =>
    made.add(id, 'way', null, {
      ...{
        points: [
          [from + 4, at_y],
          [from + gap - 4, at_y],
        ],
        stroke: COLOURS.S,
        width: 3,
        head: 0.45 * em,
      },
    });
  way('loop in', queries + each);
  way('loop out', held + each);
}

/** Four numbers of a row as bars, as far as a step has come to dS = P * (dP - delta). @type {(made: Marks, at: Layout,
 *  meta: backward.ReverseMeta, now: {step: number, paint: Paint, small: number, wide: (text: string, bold?: boolean) => number,
 *  value: (part: string, place: number[], tile: number) => number}, tile: number) => void} */
function addBars(made, at, meta, { step, paint, small, wide, value }, tile) {
  const { em, narrow } = at,
    words = meta.bar_words,
    phase = meta.phases[step],
    [left, top, width, high] = at.bars,
    [row, ...columns] = meta.bars[tile],
    [, , , row0, column0] = meta.parts.P.windows[tile],
    query = row0 + row,
    keys = columns.map(column => column0 + column),
    two = (/** @type {number} */ one) => Math.round(100 * one) / 100,
    signed = (/** @type {number} */ one, digits = 2) => one.toFixed(digits).replace('-', '\u2212'),
    numbers = (/** @type {string} */ part) => keys.map(key => value(part, [query, key], tile)),
    few = (/** @type {number} */ one) =>
      (Math.abs(one) < 1e-4 ? short(one, 2) : one.toPrecision(Math.abs(one) < 0.1 ? 2 : 3)).replace('-', '\u2212'),
    weights = numbers('P'),
    changes = numbers('dP').map(two),
    mean = two(value('delta', [query, 0], tile)),
    less = meta.parts.dS.seen[step], // delta is subtracted
    size = narrow ? smallText(em) : em,
    sign = (less || phase === 'weights' ? 1.6 : 2) * em, // of ×, =
    each = (width - 2 * sign) / 3,
    up = top + 4.1 * em,
    down = top + high - 2.6 * em,
    // one score grows: so does its weight, and the sum of the row stays 1
    grown = weights.indexOf(Math.max(...weights)),
    sum = 1 + weights[grown] * (Math.exp(GROWS) - 1),
    after = (weights[grown] * Math.exp(GROWS)) / sum;
  made.text(
    'bars of',
    [left, top + 1.2 * em, width],
    filled(narrow ? words.narrow : words.row, { query, keys: keys.join(', ') }),
    {
      bold: true,
    },
  );
  /** @typedef {{part: string, title: string, note?: string, values: number[], line?: number, zero?: number, said: (n: number) => string}} Group */
  const weight = { part: 'P', title: 'P', values: weights, said: (/** @type {number} */ n) => few(weights[n]) },
    change = {
      ...{ part: 'dP', title: less ? words.times : 'dP', values: changes },
      ...((less || phase === 'mean') && { line: mean, note: filled(words.delta, { value: signed(mean) }) }),
      zero: less ? mean : 0, // bars begin at delta once it is subtracted
      said: (/** @type {number} */ n) => signed(less ? changes[n] - mean : changes[n]),
    },
    scores = numbers('S'),
    slopes = numbers('dS');
  /** @type {Group[]} */
  const groups =
      phase === 'weights'
        ? [
            { part: 'S', title: words.made, values: scores, said: n => signed(scores[n]) },
            {
              ...{ ...weight, title: words.weights },
              note: filled(words.lse, { value: signed(value('LSE', [query, 0], tile)) }),
            },
          ]
        : phase === 'share'
          ? []
          : less
            ? [
                weight,
                change,
                { part: 'dS', title: narrow ? 'dS' : words.product, values: slopes, said: n => few(slopes[n]) },
              ]
            : [weight, change],
    signs = less ? ['×', '='] : phase === 'weights' ? ['→'] : [],
    most = Math.max(...changes.map(Math.abs)),
    named = Math.max(
      0,
      changes.findIndex(one => Math.abs(one) === most),
    );
  groups.forEach(({ part, title, note, values, line, zero = 0, said }, g) => {
    const x = left + g * (each + sign),
      all = [...values, line ?? 0, 0],
      [low, high_] = [Math.min(...all), Math.max(...all)],
      y = (/** @type {number} */ one) => up + ((down - up) * (high_ - one)) / (high_ - low),
      step = each / values.length;
    made.text(`bars ${g}`, [x, top + 2.6 * em, note ? each - wide(note, true) - 0.6 * em : each], title, {
      bold: true,
    });
    if (g && signs[g - 1])
      made.text(`bars sign ${g}`, [x - sign / 2, (up + down) / 2], signs[g - 1], { align: 'center', bold: true });
    made.rect(`bars ${part} zero`, [x, y(zero), each, 1], { fill: paint.text });
    values.forEach((one, n) => {
      const [from, to] = [y(zero), y(one)],
        box = [x + (n + 0.2) * step, Math.min(from, to), 0.6 * step, Math.max(1, Math.abs(to - from))],
        middle = x + (n + 0.5) * step;
      made.text(`bars ${part} key ${n}`, [middle, top + high - 0.3 * em, step], `${narrow ? '' : 'key '}${keys[n]}`, {
        ...{ align: 'center', size: smallText(em), alpha: 0.75 },
      });
      made.rect(`bars ${part} ${n}`, box, {
        ...{ fill: COLOURS[part === 'P' ? 'P' : part === 'dP' ? 'O' : 'S'], ease: 'both' },
        enter: { rect: [box[0], from, box[2], 0] },
      });
      made.text(`bars ${part} value ${n}`, [middle, to < from ? to - 0.35 * em : to + 1.05 * em, step], said(n), {
        ...{ align: 'center', size, bold: true, ease: 'both' },
      });
    });
    if (note)
      made.text(`bars ${g} note`, [x + each, top + 2.6 * em, each], note, {
        ...{ align: 'right', bold: true, size: small },
      });
    if (line === undefined) return;
    made.rect('bars delta', [x, y(line) - 1, each, 2.5], { fill: paint.text, enter: { rect: [x, y(0), each, 2.5] } });
  });
  // what the step says about them
  const about = {
      ...{ key: keys[named], change: signed(changes[named] / 100, 3) },
      ...(phase === 'share' && {
        ...{ key: keys[grown], before: few(weights[grown]), after: few(after) },
        ...{ percent: Math.round(100 / sum), more: GROWS },
      }),
      ...(phase === 'mean' && {
        ...{ weight: few(weights[named]), change: signed(changes[named]), mean: signed(mean) },
        slope: few(slopes[named]),
      }),
    },
    is = !less && words[`${phase === 'weights' ? 'lse' : phase}_is`];
  if (is) {
    const x = left + 2 * (each + sign);
    wrapped(filled(is, about), each, 8, (/** @type {string} */ text) => wide(text)).forEach((text, n) =>
      made.text(`bars say ${n}`, [x, up + (0.2 + 1.35 * n) * em, each], text),
    );
  }
  if (phase === 'share') {
    const long = 2 * each + sign,
      tall = Math.min(6 * em, (high - 5.4 * em) / 2);
    for (const [n, name, part] of /** @type {[number, string, number][]} */ ([
      [0, 'before', weights[grown]],
      [1, 'after', after],
    ])) {
      const y = top + (2.9 + n * 2) * em + n * tall;
      made.text(`share ${name}`, [left, y - 0.35 * em, long], filled(words[name], about), { bold: true });
      made.rect(`share ${name} rest`, [left + long * part, y, long * (1 - part), tall], {
        fill: blend(rgb(COLOURS.P), rgb(paint.background), 0.25),
      });
      made.rect(`share ${name} key`, [left, y, Math.max(2, long * part), tall], {
        ...{ fill: COLOURS.P, enter: { rect: [left, y, Math.max(2, long * weights[grown]), tall] }, ease: 'both' },
      });
      made.text(
        `share ${name} others`,
        [left + long - 0.5 * em, y + tall / 2 + 0.35 * em, long * (1 - part) - em],
        filled(words.others, { rest: (1 - part).toFixed(3) }),
        { align: 'right' },
      );
    }
  }
  // their place in the matrices
  for (const part of groups.map(one => one.part)) {
    if (!(part in at.places)) continue;
    const [x, y, w, h] = at.rect(part, tile),
      [, rows, count] = meta.parts[part].windows[tile];
    columns.forEach((column, n) => {
      const box = [x + (w * column) / count, y + (h * row) / rows, w / count, h / rows];
      made.rect(`bars of ${part} ${n}`, [box[0] - 2, box[1] - 2, box[2] + 4, box[3] + 4], {
        ...{ stroke: paint.text, width: 1.5 },
      });
    });
  }
}

/** Two bars of µs. @type {(made: Marks, at: Layout, price: backward.Price, paint: Paint,
 *  wide: (text: string, bold?: boolean) => number) => void} */
function addPrice(made, at, price, paint, wide) {
  const { em } = at,
    [left, top, most, room] = at.bars,
    total = (/** @type {[string, number][]} */ bar) => bar.reduce((sum, [, us]) => sum + us, 0),
    scale = (most - 5.5 * em) / Math.max(total(price.keep), total(price.make)),
    high = Math.min(5 * em, 0.16 * room),
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
