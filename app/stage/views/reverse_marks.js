// The way back in pictures: the map of a tile's products with the loss at its end, the price of P, a row with numbers
// (reverse_row_marks.js), or the tiles of the block's loop. Each fills the window. Places only.
import { Marks } from '../core/kinds.js';
import { filled } from '../core/follow.js';
import { blend, COLOURS, PALETTE, rgb } from '../core/paint.js';
import { rowLayout } from './layouts/reverse_row.js';
import { addBox, addLoss } from './reverse_parts.js';
import { addRow } from './reverse_row_marks.js';

/** @type {Record<string, [number, number]>} part -> its column, and its row from the top. The way back mirrors the forward. */
const PLACES = {
  ...{ Q: [0, 0], K: [0, 1], S: [1, 0], LSE: [1, 1], P: [2, 0], V: [2, 1], O: [3, 0] },
  ...{ dQ: [0, 2], dK: [0, 3], dS: [1, 2], dP: [2, 2], dV: [2, 3], dO: [3, 2] },
};
const FORWARD = ['Q S', 'K S', 'S P', 'P O', 'V O', 'O loss'];
const BACKWARD = ['loss dO', 'dO dV', 'dO dP', 'dP dS', 'dS dQ', 'dS dK'];
const ROWS = 4,
  COLUMNS = 5;
const NARROW = 600; // pixels
/** @type {Record<string, string>} phase -> its scene. All others are of the map. */
const SCENES = { price: 'price', next: 'loop', grades: 'row', share: 'row', hand: 'row' };
export const sceneOf = (/** @type {string} */ phase) => SCENES[phase] ?? 'map';

/** @typedef {ReturnType<typeof mapLayout>} Layout */
/**
 * @typedef {object} Now
 * @property {number} step @property {Paint} paint
 * @property {import('./reverse_rule.js').Row} row as the hand has it
 * @property {number} changed the key under the hand
 * @property {number} due the change of the loss by dS: for the moved scores, or for one that rises by 1
 * @property {number} tile of the loop: how many are done, and one more at the end
 * @property {(text: string, bold?: boolean) => number} wide
 */

/** @param {{width: number, height: number, em: number}} size */
function mapLayout({ width, height: pane, em }) {
  const narrow = width < NARROW,
    height = Math.max(pane, ROWS * 2.9 * em + 2 * em),
    gap = (narrow ? 1.3 : Math.max(2.6, Math.min(5, (0.055 * width) / em))) * em, // between two columns
    margin = (narrow ? 0.8 : 1.5) * em, // for the way around the columns
    last = narrow ? 3.6 * em : Math.min(9 * em, 0.13 * width), // the loss
    w = (width - margin - 3 - (COLUMNS - 1) * gap - last) / (COLUMNS - 1),
    band = 2.4 * em,
    above = 0.6 * em,
    pitch = (height - band - above) / ROWS,
    h = pitch - (narrow ? 0.9 : 1.3) * em;
  /** @param {string} part @returns {number[]} its rectangle */
  const rect = part => {
    if (part === 'loss') return [width - 3 - last, above, last, 3 * pitch + band + h];
    const [column, row] = PLACES[part],
      high = part === 'LSE' ? Math.min(h, 4 * em) : h;
    return [margin + column * (w + gap), above + row * pitch + (row >= 2 ? band : 0), w, high];
  };
  return { width, em, narrow, rect, gap, margin, height, band: above + 2 * pitch - (pitch - h) / 2 + 0.5 * band };
}

/** All of a step's picture. @param {{width: number, height: number, em: number}} size @param {backward.Numbers} row */
export const reverseLayout = (size, row) => ({ size, row: rowLayout(size, row), map: mapLayout(size) });

/** @param {ReturnType<typeof reverseLayout>} at @param {backward.ReverseMeta} meta @param {Now} now */
export function reverseMarks(at, meta, now) {
  const made = new Marks(at.size.em),
    scene = sceneOf(meta.phases[now.step]);
  if (scene === 'row') addRow(made, at.row, meta, now);
  else if (scene === 'price' && meta.price) addPrice(made, at.size, meta.price, now);
  else if (scene === 'loop') addLoop(made, at.size, meta, now);
  else addMap(made, at.map, meta, now);
  return made.list;
}

/** A way between two parts. @type {(at: Layout, from: string, to: string) => number[][]} */
function wayOf({ rect, gap, margin, em }, from, to) {
  const [a, b] = [rect(from), rect(to)],
    [ax, ay] = [a[0] + a[2] / 2, a[1] + a[3] / 2],
    [bx, by] = [b[0] + b[2] / 2, b[1] + b[3] / 2];
  /** Out at the left, down, and in from the left. */
  const around = (/** @type {number} */ off) => [
    [a[0], ay],
    [a[0] - off, ay],
    [a[0] - off, by],
    [b[0] - 2, by],
  ];
  if (from === 'Q' && to === 'dK') return around(0.65 * margin);
  if (from === 'P' && to === 'dV') return around(0.4 * gap);
  if (from === 'loss' || to === 'loss') {
    const y = from === 'loss' ? by : ay;
    return from === 'loss'
      ? [
          [a[0], y],
          [b[0] + b[2] + 2, y],
        ]
      : [
          [a[0] + a[2], y],
          [b[0] - 2, y],
        ];
  }
  if (PLACES[from][0] === PLACES[to][0])
    return [
      [ax, a[1] + a[3]],
      [bx, b[1] - 2],
    ];
  const right = bx > ax,
    edge = Math.min(0.3 * b[3], 1.2 * em),
    y = Math.abs(ay - by) < 0.5 * em ? by : ay < by ? b[1] + edge : b[1] + b[3] - edge;
  return [
    [right ? a[0] + a[2] : a[0], ay],
    [right ? b[0] - 2 : b[0] + b[2] + 2, y],
  ];
}

/** @type {(made: Marks, at: Layout, meta: backward.ReverseMeta, now: Now) => void} */
function addMap(made, at, meta, now) {
  const { em, narrow, rect } = at,
    { step, paint, wide } = now,
    { map_words: words, sizes, phases } = meta,
    phase = phases[step],
    opening = phase === 'map',
    lost = phase === 'kept',
    making = opening ? ['S', 'P', 'O'] : meta.made[step],
    ways = lost
      ? ['P dV']
      : phase === 'error'
        ? ['loss dO']
        : making.flatMap(part => meta.parts[part].reads.map(from => `${from} ${part}`)),
    strong = new Set(opening ? FORWARD : ways),
    used = new Set(ways.flatMap(way => way.split(' '))),
    known = new Set(meta.made.slice(0, step + 1).flat());
  for (const way of new Set([...FORWARD, ...(known.has('LSE') && !lost ? ['LSE P'] : []), ...BACKWARD, ...strong])) {
    const [from, to] = way.split(' '),
      on = strong.has(way);
    made.add(`way ${way}`, 'way', null, {
      points: wayOf(at, from, to),
      stroke: on ? (lost ? PALETTE.wrong : paint.text) : paint.border,
      width: on ? 4 : 1.5,
      head: (on ? 0.5 : 0.3) * em,
      ...(on && { grown: 1, enter: { grown: 0 }, ease: 'both' }),
    });
  }
  for (const [name, part] of Object.entries(meta.parts)) {
    if (!PLACES[name] || (name === 'LSE' && !known.has(name))) continue;
    const box = rect(name),
      [x, y, w, h] = box,
      seen = part.made <= step && !(lost && (name === 'S' || name === 'P')),
      fresh = making.includes(name),
      waits = lost && (name === 'P' || name === 'dV'),
      lit = opening || fresh || used.has(name),
      full = opening && name === 'P' ? words.softmax : meta.short[name],
      formula = full && wide(full, true) * (12 / em) <= w - 4 ? full : '',
      size = narrow ? 1.2 * em : Math.max(1.6 * em, Math.min(0.3 * h, 0.2 * w)),
      price = filled(name === 'P' ? words.gone : words.kept, { size: sizes[name] }),
      kept = lost && (name === 'P' || name === 'LSE') ? (narrow ? sizes[name] : price) : '',
      said = kept || (waits ? words.waits : lost && name === 'S' ? words.none : '') || (fresh && formula) || part.said;
    addBox(
      made,
      box,
      {
        ...{ name, size: name === 'LSE' ? Math.min(size, 1.5 * em) : size, bold: fresh || !!kept || waits },
        said: narrow && said === part.said && !opening ? '' : said,
        look: waits ? 'wait' : !seen ? 'gone' : lit ? 'lit' : 'dim',
      },
      now,
    );
    made.add(`${name} area`, 'area', box, {
      datum: { tensor: name },
      tip: `${name}: ${part.said}${meta.short[name] && seen ? `\n${name} ${meta.short[name]}` : ''}`,
    });
    if (fresh && !opening) made.rect(`${name} frame`, [x - 4, y - 4, w + 8, h + 8], { stroke: paint.text, width: 3 });
    const first = narrow ? words[name]?.split(' ')[0] : words[name],
      number = opening ? first : known.has(name) && part.product;
    if (number) {
      const side = (narrow ? 1.3 : 2) * em,
        size = narrow ? 12 : (opening ? 1.1 : 1.3) * em,
        across = Math.max(side, (wide(`${number}`, true) * size) / em + 0.6 * em),
        left = Math.max(0, x - 0.35 * side),
        top = Math.max(0, y - 0.4 * side);
      made.rect(`${name} product`, [left, top, across, side], { fill: paint.text });
      made.text(`${name} product is`, [left + across / 2, top + side / 2 + 0.36 * size], `${number}`, {
        ...{ align: 'center', bold: true, fill: paint.background, size },
      });
    }
    if (name === 'LSE' && lit) {
      const size = narrow ? 12 : 1.3 * em,
        middle = x + w / 2;
      made.text('LSE is', [middle, y + h + 1.6 * size], words.lse, { align: 'center', bold: true, size });
      if (lost && !narrow) made.text('LSE stop', [middle, y + h + 3 * size], words.stop, { align: 'center' });
    }
  }
  const size = narrow ? em : 1.25 * em,
    left = rect('dQ')[0],
    most = rect('loss')[0] - left - em,
    back = wide(words.back, true) * (size / em) < most ? words.back : words.short;
  // later, ways cross its place
  if (opening || phase === 'error')
    made.text('map back', [left, at.band + 0.36 * size, most], back, { bold: true, size });
  const { dP, delta } = meta.row,
    column = rect('loss'),
    top = Math.max(...dP, delta) * 1.2,
    low = Math.min(0, ...dP);
  addLoss(made, column, {
    y: value => column[1] + (column[3] * (top - value)) / (top - low || 1),
    ...{
      value: delta,
      name: words.loss,
      said: opening ? words.wrong : words.toy,
      big: 1.7 * em,
      narrow,
      paint,
      em,
      wide,
    },
  });
}

/** Queries tile by tile, the sums of the block, and the sums of dQ in memory, to which other blocks add, too.
 *  @type {(made: Marks, size: {width: number, height: number, em: number}, meta: backward.ReverseMeta, now: Now) => void} */
function addLoop(made, { width: all, height, em }, meta, now) {
  const { paint, tile, wide } = now,
    narrow = all < NARROW,
    { spans, others, loop_words: words } = meta,
    [left, width] = [2, all - 4],
    count = spans.length,
    done = Math.min(tile, count),
    here = tile > count ? -1 : tile - 1, // the tile on the SM
    back = rgb(paint.background),
    sum = (/** @type {'Q' | 'K' | 'V'} */ part, share = 0.4) => blend(rgb(COLOURS[part]), back, 0.04 + 0.5 * share),
    gap = (narrow ? 1.6 : 4) * em,
    side = (narrow ? 0.29 : 0.27) * (width - 2 * gap),
    middle = width - 2 * gap - 2 * side,
    y = 2.2 * em,
    row = (height - y - 0.6 * em) / count,
    label = (narrow ? 1 : 1.4) * em,
    ghost = others ? Math.min(0.16 * row * count, 5 * em) : 0, // another block
    box = row * count - 4 - (ghost && ghost + 0.6 * em),
    title = (narrow ? 1 : 1.3) * em,
    [queries, held, memory] = [left, left + side + gap, left + side + middle + 2 * gap];
  for (const [name, x, most] of /** @type {[string, number, number][]} */ ([
    ['queries', queries, side],
    ['held', held, middle],
    ['memory', memory, side],
  ]))
    made.text(`loop ${name}`, [x, y - 0.6 * em, most], words[name], { bold: true, size: title });
  spans.forEach((span, n) => {
    const is = n === here,
      past = n < done && !is,
      top = y + n * row;
    for (const [name, x, part, fill] of /** @type {[string, number, string, string]} */ /** @type {any} */ ([
      ['query', queries, 'Q', is ? sum('Q', 0.7) : past ? sum('Q', 0.15) : ''],
      ['row', memory, 'dQ', n < done ? sum('Q') : ''],
    ])) {
      made.rect(`loop ${name} ${n}`, [x, top, side, row - 4], {
        ...(fill ? { fill, stroke: COLOURS.Q, width: is ? 4 : 1.5 } : { stroke: COLOURS.Q, dash: [5, 4] }),
      });
      made.text(`loop ${name} ${n} part`, [x + side / 2, top + row / 2 - 0.1 * label, side - 6], part, {
        ...{ align: 'center', bold: true, size: 1.3 * label },
      });
      made.text(`loop ${name} ${n} is`, [x + side / 2, top + row / 2 + 1.2 * label, side - 6], span, {
        ...{ align: 'center', size: Math.max(12, 0.85 * label) },
      });
    }
  });
  made.rect('loop block', [held, y, middle, box], { stroke: paint.text, width: 2 });
  const inner = (narrow ? 0.5 : 1) * em,
    half = (middle - 3 * inner) / 2,
    stays = Math.min(0.24 * box, 5 * em),
    sums = y + 2 * inner + stays + 1.6 * label,
    high = y + box - inner - sums,
    said = filled(here < 0 ? words.all : words.added, { count: done });
  /** @type {('K' | 'V')[]} */ (['K', 'V']).forEach((part, n) => {
    const x = held + inner + n * (half + inner),
      under = Math.max(12, Math.min(label, ((half - 6) * em) / wide(said, true)));
    addBox(
      made,
      [x, y + inner, half, stays],
      { name: part, said: narrow ? '' : meta.parts[part].said, size: 1.5 * label },
      now,
    );
    made.rect(`d${part} box`, [x, sums, half, high], {
      ...{ fill: sum(part, done / count), stroke: COLOURS[part], width: here < 0 ? 4 : 2 },
      ...{ datum: { tensor: `d${part}` }, tip: `d${part}: ${meta.parts[`d${part}`].said}` },
    });
    made.text(`d${part} name`, [x + half / 2, sums + high / 2 - 0.1 * label, half - 6], `d${part}`, {
      ...{ align: 'center', bold: true, size: 1.6 * label },
    });
    made.text(`d${part} said`, [x + half / 2, sums + high / 2 + 1.5 * label, half - 6], said, {
      ...{ align: 'center', bold: true, size: under },
    });
  });
  made.text('loop sums are', [held + middle / 2, sums - 0.5 * label, middle - 2 * inner], words.sums, {
    ...{ align: 'center', bold: true, size: label },
  });
  /** An arrow at a height. @type {(id: string, from: number, at: number, colour: string, width?: number) => void} */
  const arrow = (id, from, at, colour, width = 4) =>
    made.add(id, 'way', null, {
      points: [
        [from + 4, at],
        [from + gap - 4, at],
      ],
      ...{ stroke: colour, width, head: 0.5 * em },
    });
  const plus = (/** @type {string} */ id, /** @type {number} */ at) =>
    made.text(id, [memory - gap / 2, at - 0.5 * em], '+', { align: 'center', bold: true, size: 1.6 * label });
  if (others) {
    const top = y + row * count - 4 - ghost,
      [other, keys] = words.other.split(', '),
      size = narrow ? 12 : title;
    made.rect('loop other', [held, top, middle, ghost], { stroke: paint.text, width: 1.5, dash: [5, 4] });
    made.text('loop other is', [held + middle / 2, top + ghost / 2 - 0.15 * size, middle - 6], other, {
      ...{ align: 'center', bold: true, size },
    });
    made.text('loop other keys', [held + middle / 2, top + ghost / 2 + 1.05 * size, middle - 6], keys, {
      ...{ align: 'center', size: Math.max(12, 0.85 * size) },
    });
    arrow('loop other out', held + middle, top + ghost / 2, paint.text, 2);
    plus('loop other plus', top + ghost / 2);
  }
  spans.slice(0, done).forEach((_, n) => {
    const at_y = y + (n + (others ? 0.35 : 0.5)) * row;
    if (n === here) arrow('loop in', queries + side, at_y, paint.text);
    arrow(`loop out ${n}`, held + middle, at_y, paint.text, n === here ? 4 : 2);
    plus(`loop plus ${n}`, at_y);
  });
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
  /** @type {['keep' | 'make', string[], string[]][]} */
  const bars = [
    ['keep', [COLOURS.written, COLOURS.read], ['price write', 'price read']],
    ['make', [COLOURS.S, COLOURS.P], ['S box', 'P box']],
  ];
  bars.forEach(([name, colours, ids], n) => {
    const y = n * room + 2 * title;
    let x = 2;
    made.text(`price ${name}`, [2, y - 0.6 * title, width], price.words[name], { bold: true, size: title });
    price[name].forEach(([said, us], k) => {
      const w = us * scale;
      made.rect(ids[k], [x, y, w - 2, high], {
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
