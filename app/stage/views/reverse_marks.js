// The way back in pictures: a row with numbers (reverse_row_marks.js), the price of P, the map of a tile's products, or the
// tiles of the block's loop. Each fills the window. Places only.
import { Marks } from '../core/kinds.js';
import { filled } from '../core/follow.js';
import { blend, COLOURS, colourOf, rgb } from '../core/paint.js';
import { rowLayout } from './layouts/reverse_row.js';
import { addRow } from './reverse_row_marks.js';

/** @type {Record<string, [number, number]>} part -> its column, and its row from the top */
const PLACES = {
  ...{ Q: [0, 0], K: [0, 1], S: [1, 0], LSE: [1, 1], P: [2, 0], V: [2, 1], O: [3, 0] },
  ...{ dQ: [0, 2], dK: [0, 3], dS: [1, 2], dP: [2, 2], dV: [2, 3], delta: [3, 1.5], dO: [3, 3] },
};
const ONE_A_QUERY = ['LSE', 'delta'];
const FORWARD = ['Q S', 'K S', 'S P', 'P O', 'V O'];
const BACKWARD = ['LSE P', 'dO dV', 'dO dP', 'dO delta', 'O delta', 'delta dS', 'dP dS', 'dS dQ', 'dS dK'];
const ROWS = 4;
const NARROW = 600; // pixels
/** @type {Record<string, string>} phase -> its scene. All others are of the map. */
const SCENES = { price: 'price', next: 'loop' };
for (const phase of ['forward', 'kept', 'weights', 'share', 'grades', 'mean', 'hand']) SCENES[phase] = 'row';
/** @type {Record<string, string>} phase of the row -> its node of the map */
const HERE = { grades: 'dP', mean: 'delta', hand: 'dS' };
export const sceneOf = (/** @type {string} */ phase) => SCENES[phase] ?? 'map';

/** @typedef {ReturnType<typeof mapLayout>} Layout */
/**
 * @typedef {object} Row the numbers of a query, as the hand has them
 * @property {number[]} P @property {number[]} dP @property {number[]} dS @property {number} delta
 */
/** @typedef {{step: number, paint: Paint, row: Row, changed: number, wide: (text: string, bold?: boolean) => number}} Now
 *  changed: the key under the hand */

/** @param {{width: number, height: number, em: number}} size */
function mapLayout({ width, height: pane, em }) {
  const narrow = width < NARROW,
    height = Math.max(pane, ROWS * 2.7 * em + 1.4 * em),
    gap = (narrow ? 1.6 : Math.max(3, Math.min(6, (0.09 * width) / em))) * em, // between two columns
    margin = (narrow ? 0.8 : 1.6) * em, // for the way around the columns
    w = (width - 2 * margin - 3 * gap) / 4,
    band = 1.2 * em,
    pitch = (height - band - 0.6 * em) / ROWS,
    h = pitch - (narrow ? 0.9 : 1.4) * em;
  /** @param {string} part @returns {number[]} its rectangle */
  const rect = part => {
    const [column, row] = PLACES[part],
      high = ONE_A_QUERY.includes(part) ? Math.min(h, 3.2 * em) : h,
      down = row >= 2 ? band : row === 1.5 ? band / 2 : 0,
      y = 0.5 * em + row * pitch + down + (row === 1.5 ? (h - high) / 2 : 0);
    return [margin + column * (w + gap), y, w, high];
  };
  return { width, em, narrow, rect, gap, margin, height };
}

/** All of a step's picture. @param {{width: number, height: number, em: number}} size @param {string} phase
 *  @param {backward.Numbers} row */
export const reverseLayout = (size, phase, row) => ({
  ...{ size, row: rowLayout(size, phase, row), map: mapLayout(size) },
});

/** @param {ReturnType<typeof reverseLayout>} at @param {backward.ReverseMeta} meta @param {Now} now */
export function reverseMarks(at, meta, now) {
  const made = new Marks(at.size.em),
    scene = sceneOf(meta.phases[now.step]);
  if (scene === 'row') {
    addRow(made, at.row, meta, now);
    addHere(made, at.row, meta, now);
  } else if (scene === 'price' && meta.price) addPrice(made, at.size, meta.price, now);
  else if (scene === 'loop') addLoop(made, at.size, meta, now.paint);
  else addMap(made, at.map, meta, now);
  return made.list;
}

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

/** @type {(made: Marks, at: Layout, meta: backward.ReverseMeta, now: Now) => void} */
function addMap(made, at, meta, { step, paint, wide }) {
  const { em, narrow } = at,
    opening = meta.phases[step] === 'map',
    making = opening ? ['S', 'P', 'O'] : meta.made[step],
    reads = making.flatMap(part => meta.parts[part].reads),
    strong = new Set(opening ? FORWARD : making.flatMap(part => meta.parts[part].reads.map(r => `${r} ${part}`))),
    known = new Set(meta.made.slice(0, step + 1).flat()),
    back = rgb(paint.background);
  for (const way of new Set([...FORWARD, ...BACKWARD, ...strong])) {
    const [from, to] = way.split(' '),
      on = strong.has(way);
    made.add(`way ${way}`, 'way', null, {
      points: wayOf(at, from, to),
      stroke: on ? paint.text : paint.border,
      width: on ? 4 : 1.5,
      head: (on ? 0.5 : 0.3) * em,
      ...(on && { grown: 1, enter: { grown: 0 }, ease: 'both' }),
    });
  }
  for (const [name, part] of Object.entries(meta.parts)) {
    const [x, y, w, h] = at.rect(name),
      seen = part.made <= step,
      fresh = making.includes(name),
      lit = fresh || reads.includes(name) || opening,
      hue = colourOf(name),
      gradient = /^d[A-Z]/.test(name) || name === 'delta',
      colour = gradient ? blend(rgb(hue), back, 0.22) : hue,
      short = ONE_A_QUERY.includes(name) || h < 3.4 * em,
      big = narrow || short ? 1.15 * em : Math.max(1.7 * em, Math.min(0.3 * h, 0.2 * w)),
      formula = fresh && (!narrow || wide(meta.short[name] ?? '', true) < w) ? meta.short[name] : '',
      words = formula || part.said,
      under = (fresh && !narrow && !short ? 1.15 : 1) * em,
      two = h >= 2.5 * em && !(narrow && wide(words) > w - 4 && !formula),
      ink = seen && lit && !gradient ? '#fff' : paint.text;
    made.rect(`${name} box`, [x, y, w, h], {
      ...(seen
        ? {
            fill: lit ? colour : blend(rgb(colour), back, 0.45),
            stroke: gradient ? hue : colour,
            width: gradient ? 2 : 1,
          }
        : { stroke: hue, dash: [4, 4] }),
    });
    const middle = y + h / 2,
      line = two ? (short ? 0 : 0.05 * big) : 0.36 * big;
    made.text(`${name} name`, [x + w / 2, middle + line, w - 4], name, {
      ...{ align: 'center', bold: true, size: big, fill: ink },
    });
    if (two)
      made.text(`${name} said`, [x + w / 2, middle + line + 1.25 * under, w - 6], words, {
        ...{ align: 'center', fill: ink, bold: fresh, size: narrow ? 12 : under },
      });
    made.add(`${name} area`, 'area', [x, y, w, h], {
      datum: { tensor: name },
      tip: `${name}: ${part.said}${meta.short[name] && seen ? `\n${name} ${meta.short[name]}` : ''}`,
    });
    if (fresh && !opening) made.rect(`${name} frame`, [x - 4, y - 4, w + 8, h + 8], { stroke: paint.text, width: 3 });
    const number = opening ? ['S', 'O'].includes(name) && '×' : known.has(name) && part.product;
    if (number) {
      const side = (narrow ? 1.2 : 2) * em,
        left = Math.min(x + w - 0.7 * side, at.width - side),
        top = Math.max(0, y - 0.4 * side);
      made.rect(`${name} product`, [left, top, side, side], { fill: paint.text });
      made.text(`${name} product is`, [left + side / 2, top + 0.72 * side], `${number}`, {
        ...{ align: 'center', bold: true, fill: paint.background, size: narrow ? 12 : 1.3 * em },
      });
    }
  }
}

/** Where a step of the row is on the map, in its free corner. @type {(made: Marks, at: ReturnType<typeof rowLayout>,
 *  meta: backward.ReverseMeta, now: Now) => void} */
function addHere(made, { em, narrow, left, strip: [top, high] }, meta, { step, paint, wide }) {
  const here = HERE[meta.phases[step]];
  if (!here || narrow) return;
  const at = mapLayout({ width: left - 0.8 * em, height: top + high - 2, em: 0.24 * em }),
    { reads } = meta.parts[here],
    back = rgb(paint.background);
  for (const part of Object.keys(meta.parts)) {
    const [x, y, w, h] = at.rect(part),
      lit = part === here,
      size = Math.max(12, 0.9 * em),
      over = lit ? Math.max(0, (wide(part, true) * size) / em + 6 - w) : 0, // a name may need more
      hue = colourOf(part);
    made.rect(
      `here ${part}`,
      [x - over, lit ? Math.min(y, y + h - 1.2 * size) : y, w + over, lit ? Math.max(h, 1.2 * size) : h],
      {
        fill: lit ? paint.text : blend(rgb(hue), back, reads.includes(part) ? 0.7 : 0.25),
      },
    );
    if (lit || (reads.includes(part) && (wide(part, true) * size) / em < w - 2))
      made.text(`here ${part} is`, [x - over + (w + over) / 2, y + h / 2 + 0.36 * size, w + over], part, {
        ...{ align: 'center', bold: true, fill: lit ? paint.background : paint.text, size },
      });
  }
  for (const part of reads)
    made.add(`here way ${part}`, 'way', null, {
      points: wayOf(at, part, here),
      stroke: paint.text,
      width: 1.5,
      head: 4,
    });
}

/** Queries tile by tile, the sums that stay, and the rows that leave. @type {(made: Marks,
 *  size: {width: number, height: number, em: number}, meta: backward.ReverseMeta, paint: Paint) => void} */
function addLoop(made, { width: all, height, em }, meta, paint) {
  const narrow = all < NARROW,
    { spans, loop_words: words } = meta,
    [left, width] = [2, all - 4],
    here = 1, // the second tile of queries
    pale = (/** @type {'Q' | 'K' | 'V'} */ part) => blend(rgb(COLOURS[part]), rgb(paint.background), 0.22),
    gap = (narrow ? 1.6 : 4) * em,
    each = (width - 2 * gap) / 3,
    y = 2.2 * em,
    row = (height - y - 0.6 * em) / spans.length,
    box = row * spans.length,
    label = (narrow ? 1 : 1.5) * em,
    [queries, held, memory] = [0, 1, 2].map(n => left + n * (each + gap));
  for (const [name, x] of /** @type {[string, number][]} */ ([
    ['queries', queries],
    ['held', held],
    ['memory', memory],
  ]))
    made.text(`loop ${name}`, [x, y - 0.6 * em, each], words[name], { bold: true, size: (narrow ? 1 : 1.3) * em });
  spans.forEach((span, n) => {
    const now = n === here,
      done = n < here;
    for (const [name, x, fill] of /** @type {[string, number, string][]} */ ([
      ['query', queries, now ? COLOURS.Q : done ? paint.panel : ''],
      ['row', memory, now ? pale('Q') : done ? paint.panel : ''],
    ])) {
      made.rect(`loop ${name} ${n}`, [x, y + n * row, each, row - 3], { stroke: paint.border, ...(fill && { fill }) });
      made.text(`loop ${name} ${n} is`, [x + each / 2, y + (n + 0.5) * row + 0.36 * label, each - em], span, {
        ...{ align: 'center', bold: now, fill: now && name === 'query' ? '#fff' : paint.text, size: label },
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
      ...{ align: 'center', bold: true, size: 1.6 * label },
    });
  }
  made.rect('loop registers', [held, y, each, box - 3], { stroke: paint.text, width: 2 });
  const sums = filled(words.sums, { count: here + 1, of: spans.length });
  made.text('loop sums are', [held + each / 2, y + 0.5 * row + 0.36 * label, each - 0.6 * em], sums, {
    ...{ align: 'center', bold: true, size: label },
  });
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

/** Two bars of µs. @type {(made: Marks, size: {width: number, height: number, em: number}, price: backward.Price,
 *  now: Now) => void} */
function addPrice(made, { width, height, em }, price, { wide }) {
  const narrow = width < NARROW,
    total = (/** @type {[string, number][]} */ bar) => bar.reduce((sum, [, us]) => sum + us, 0),
    big = (narrow ? 1.7 : 3) * em,
    scale = (width - (narrow ? 4.4 : 3.6) * big) / Math.max(total(price.keep), total(price.make)),
    title = (narrow ? 1.1 : 1.5) * em,
    room = height / 2,
    high = room - 2.2 * title - em;
  /** @type {['keep' | 'make', string[]][]} */
  const bars = [
    ['keep', [COLOURS.written, COLOURS.read]],
    ['make', [COLOURS.S, COLOURS.P]],
  ];
  bars.forEach(([name, colours], n) => {
    const y = n * room + 2 * title;
    let x = 2;
    made.text(`price ${name}`, [2, y - 0.6 * title, width], price.words[name], { bold: true, size: title });
    price[name].forEach(([said, us], k) => {
      const w = us * scale;
      made.rect(`price ${name} ${k}`, [x, y, w - 2, high], {
        ...{ fill: colours[k], enter: { rect: [x, y, 0, high] }, ease: 'both' },
      });
      const size = Math.min(title, (0.9 * w * em) / wide(said, true));
      made.text(`price ${name} ${k} is`, [x + w / 2, y + high / 2 + 0.36 * size, w], said, {
        ...{ align: 'center', bold: true, fill: '#fff', size },
      });
      x += w;
    });
    made.text(
      `price ${name} sum`,
      [x + 0.3 * big, y + high / 2 + 0.36 * big, 4.5 * big],
      `${Math.round(total(price[name]))} µs`,
      {
        ...{ bold: true, size: big },
      },
    );
  });
}
