// Two ways of attention over one memory, as marks. It gets all values and computes places only. Above, a bar of bytes for
// each way, on one scale. Below, what each way keeps in memory, and its chip with one tile. More tokens zoom out: the
// square of the first length becomes a cell of the new one.
import { Marks } from '../core/kinds.js';
import { COLOURS, smallText } from '../core/paint.js';

const TILE_KEYS = 128; // keys of a tile
const LEAST = 512; // tokens that fill the square's place: fewer take less of it
const GAP = 4; // between the strips
const SHARED = ['K', 'V', 'Q', 'O']; // what both ways move
const ORDER = ['S', 'P', ...SHARED];
const FLOW = ['Q', 'K', 'S', 'P', 'V', 'O']; // as attention makes them
const NAMES = ['Store the square', 'Keep one tile'];
const TRIPS = { S: 'S out and back', P: 'P out and back' };
const PALE = 0.16; // of what is not made yet

/** @param {{width: number, height: number, em: number}} size */
export function raceLayout({ width, height, em }) {
  const narrow = width < 700,
    half = width / 2,
    pad = narrow ? 4 : 0.9 * em,
    big = narrow ? 1.1 * em : 1.3 * em, // the size of names
    bar = narrow
      ? { x: 0, w: width, y: 2.9 * em, h: 1.3 * em, pitch: 3 * em }
      : { x: 11.5 * em, w: width - 21.5 * em, y: 1.6 * em, h: 1.7 * em, pitch: 2.2 * em },
    top = bar.y + bar.pitch + bar.h + 0.7 * em,
    room = Math.max((narrow ? 22 : 17) * em, height - top),
    strip = 1.45 * em,
    corner = 2 * (strip + GAP), // from the strips' outer edge to the square
    sheet = 0.9 * strip, // P lies on S, a little to the right and down
    title = 2 * em,
    aside = 11.5 * em, // the chip and its words beside the square
    across = half - 2 * pad - corner - sheet,
    down = room - title - corner - sheet,
    [under, beside] = [
      Math.min(across, down - (narrow ? 8.2 : 7.6) * em),
      Math.min(across - aside - 1.5 * em, down - 0.8 * em),
    ],
    below = narrow || under > beside, // the chip's place
    side = Math.max(4 * em, below ? under : beside);
  return {
    ...{ width, height: top + room, em, half, narrow, big, bar, top, room, strip, corner, sheet, side, pad },
    ...{ title, aside, below },
    free: Math.max(0, across - side - (below ? 0 : aside + 1.5 * em)), // of a half
  };
}

/** @typedef {ReturnType<typeof raceLayout>} Layout */
/**
 * @typedef {object} Side
 * @property {number} bytes moved so far
 * @property {number} all
 * @property {Record<string, number>} parts
 * @property {Record<string, number>} held bytes of each tensor in memory
 * @property {number} stage of its stages, 0 for S, 1 for P, 2 for O
 * @property {number} row of tiles
 * @property {number} key first key of the tile
 * @property {boolean} done
 * @property {string[]} lines beside its chip
 * @property {string[]} brief the same, on a phone
 */
/**
 * @typedef {object} Now
 * @property {number} tokens
 * @property {number} drawn tokens on their way
 * @property {number} height of a tile
 * @property {boolean} causal
 * @property {number} full bytes of a whole bar
 * @property {boolean} held the bars are of bytes held, not of bytes moved
 * @property {Side[]} sides
 * @property {(bytes: number) => [string, string]} says
 * @property {Record<string, string>} parts
 * @property {number} first tokens of the square that becomes a cell
 * @property {Record<string, string>} words
 */
/** @type {(at: Layout, now: Now, paint: Paint) => import('../core/tween.js').Mark[]} */
export function raceMarks(at, now, paint) {
  const made = new Marks(at.em);
  made.text('bytes are', [at.bar.x, 0.95 * at.em, at.bar.w], now.words.heads);
  now.sides.forEach((side, n) => addBar(made, at, now, side, n, paint));
  made.rect('memory', [0, at.top, at.width, at.height - at.top], { fill: paint.panel });
  made.add('border', 'line', [at.half, at.top, 0, at.height - at.top], { stroke: paint.border, width: 2 });
  now.sides.forEach((side, n) => addMemory(made, at, now, side, n, paint));
  return made.list;
}

/**
 * The words of a short text ask each other, one after the other.
 * @param {Layout} at
 * @param {{asked: number, parts: Record<string, string>, words: string[], says: string}} now asked: from 0 to 1
 */
export function askingMarks(at, { asked, parts, words, says }) {
  const made = new Marks(at.em),
    { em, width, height } = at,
    narrow = width < 45 * em,
    count = words.length,
    text = narrow ? em : 1.3 * em, // its size
    box = 2 * text, // a word's height, and half of its least width
    thin = 1.1 * text,
    said = narrow ? text : 1.1 * em, // the size of the names
    legend = narrow ? 0 : 17 * said,
    columns = narrow && height < 40 * em ? 2 : 1, // of the names
    lines = FLOW.length / columns,
    under = narrow ? lines * 1.8 * text + 2 * text : 0,
    corner = [box * 1.7 + thin + 2 * GAP, box + thin + 2 * GAP],
    side = Math.min(width - legend - corner[0] - 2 * text, height - under - corner[1] - 2.2 * text, 40 * em),
    cell = side / count,
    left = (width - corner[0] - side - (legend ? legend + text : 0)) / 2,
    x = left + corner[0],
    y = (height - under - corner[1] - side - 1.8 * text) / 2 + corner[1],
    [row, column] = [Math.floor(asked * count), Math.floor(((asked * count) % 1) * count)];
  const word = (
    /** @type {string} */ tensor,
    /** @type {number} */ n,
    /** @type {number[]} */ rect,
    /** @type {boolean} */ on,
  ) => {
    made.rect(`${tensor} ${n}`, rect, { fill: COLOURS[tensor], alpha: on ? 1 : 0.7 });
    const place = /** @type {[number, number, number]} */ ([
      rect[0] + rect[2] / 2,
      rect[1] + rect[3] / 2 + 0.35 * text,
      rect[2] - 4,
    ]);
    made.text(`${tensor} ${n} is`, place, words[n], { size: text, fill: '#fff', align: 'center', bold: true });
  };
  const letter = (/** @type {string} */ tensor, /** @type {number} */ dx, /** @type {number} */ dy) =>
    made.text(`letter ${tensor}`, [x + dx, y + dy], tensor, { size: text, bold: true, align: 'center' });
  for (let n = 0; n < count; n++) {
    const across = x + n * cell,
      down = y + n * cell;
    word('K', n, [across, y - corner[1], cell - 2, box], asked >= 1 || n <= column);
    made.rect(`V ${n}`, [across, y - thin - GAP, cell - 2, thin], {
      fill: COLOURS.V,
      alpha: asked >= 1 || n <= column ? 1 : 0.7,
    });
    word('Q', n, [x - corner[0], down, box * 1.7, cell - 2], asked >= 1 || n === row);
    made.rect(`O ${n}`, [x - thin - GAP, down, thin, cell - 2], { fill: COLOURS.O, alpha: n < row ? 1 : PALE });
    for (let k = 0; k < count; k++)
      made.rect(`S ${n} ${k}`, [x + k * cell, down, cell - 2, cell - 2], {
        ...{ fill: COLOURS.S, alpha: n < row || (n === row && k <= column) ? 1 : PALE },
      });
  }
  letter('K', -0.9 * text - GAP, -corner[1] + 0.7 * box);
  letter('V', -0.9 * text - GAP, -GAP - 0.15 * text);
  letter('Q', -corner[0] + 0.85 * box, side + 1.1 * text);
  letter('O', -GAP - thin / 2, side + 1.1 * text);
  made.text('example', [x + side / 2, y + side + 1.2 * text], says, { size: text, bold: true, align: 'center' });
  const rows = narrow ? 1.8 * text : Math.min(3.6 * text, (side + corner[1]) / FLOW.length),
    [from, begin] = narrow
      ? [columns > 1 ? 0 : left, y + side + 2.6 * text]
      : [x + side + text, y - corner[1] + (side + corner[1] - FLOW.length * rows) / 2];
  FLOW.forEach((tensor, n) => {
    const up = begin + (n % lines) * rows,
      along = from + (Math.floor(n / lines) * width) / columns,
      size = Math.min(1.6 * text, rows - 3);
    made.rect(`name ${tensor}`, [along, up, size, size], { fill: COLOURS[tensor] });
    made.text(`name ${tensor} is`, [along + size / 2, up + size / 2 + 0.36 * text], tensor, {
      ...{ size: text, fill: '#fff', bold: true, align: 'center' },
    });
    const room = columns > 1 ? width / columns - size - 0.9 * text : 0;
    made.text(`means ${tensor}`, [along + size + 0.5 * text, up + size / 2 + 0.36 * said, room], parts[tensor], {
      size: said,
    });
  });
  return made.list;
}

/** The bytes of a way. @type {(made: Marks, at: Layout, now: Now, side: Side, n: number, paint: Paint) => void} */
function addBar(made, at, now, side, n, paint) {
  const { em, bar, big, narrow, width } = at,
    y = bar.y + n * bar.pitch,
    base = narrow ? y - 0.5 * em : y + 0.5 * bar.h + 0.36 * big,
    ends = now.held ? '' : now.words[side.done ? 'in_all' : 'sofar'],
    bytes = now.held ? Object.values(side.held).reduce((a, b) => a + b, 0) : side.bytes,
    parts = now.held ? side.held : side.parts,
    value = now.says(bytes).join(' '),
    most = bar.w * Math.min(1, bytes / now.full);
  made.text(`name ${n}`, [0, base], NAMES[n], { bold: true, size: big });
  made.text(`moved ${n}`, [width, base], `${value} ${ends}`.trim(), {
    ...{ bold: true, size: big, align: 'right', datum: { kind: 'moved', side: n } },
    tip: now.held ? `${value} of memory, modelled` : `${value} asked of memory ${ends}, modelled`,
  });
  made.rect(`bar ${n}`, [bar.x, y, bar.w, bar.h], { fill: paint.panel });
  if (!now.held && !side.done)
    made.rect(`ends ${n}`, [bar.x, y, Math.min(bar.w, (bar.w * side.all) / now.full), bar.h], {
      ...{ stroke: paint.text, dash: [4, 3], width: 1.5 },
    });
  let { x } = bar;
  for (const tensor of ORDER) {
    const w = Math.max(0, Math.min((bar.w * parts[tensor]) / now.full, bar.x + most - x)),
      says = now.says(parts[tensor]).join(' '),
      trips = w > 8 * em && side.done && !now.held,
      long = trips ? (TRIPS[/** @type {'S'} */ (tensor)] ?? tensor) : tensor;
    made.rect(`part ${n} ${tensor}`, [x, y, w, bar.h], {
      ...{ fill: COLOURS[tensor], datum: { kind: 'part', side: n, tensor } },
      tip: `${tensor}: ${says} ${now.held ? 'of memory' : 'asked of memory'}, modelled`,
    });
    if (w > 1.4 * em)
      made.text(`part ${n} ${tensor} is`, [x + w / 2, y + bar.h / 2 + 0.36 * em], long, {
        ...{ bold: true, align: 'center', fill: '#fff' },
      });
    x += w;
  }
  if (bytes > 1.001 * now.full) made.add(`off ${n}`, 'off', [bar.x, y, bar.w, bar.h], { fill: paint.background });
}

/** What a way has in memory, and its chip. @type {typeof addBar} */
function addMemory(made, at, now, side, n, paint) {
  const { strip, em, corner, sheet, narrow, below, pad } = at,
    scale = at.side / Math.max(LEAST, now.drawn),
    size = now.drawn * scale,
    stores = n === 0,
    left = n * at.half + pad + at.free / 2,
    top = at.top + at.title,
    [x, y] = [left + corner, top + corner], // the square's corner
    turn = stores ? side.stage : 3,
    shift = stores && turn > 0 ? sheet : 0,
    band = now.height * scale,
    tall = Math.min(size, band),
    wide = Math.min(size, TILE_KEYS * scale),
    rows = side.done ? size : Math.min(size, side.row * band),
    key = side.key * scale;
  made.text(`title ${n}`, [left, at.top + 1.4 * em], stores ? now.words.left : now.words.right, { bold: true });
  const bar = (/** @type {string} */ tensor, /** @type {number[]} */ rect, alpha = 1) =>
    made.add(`strip ${n} ${tensor} ${alpha}`, 'strip', rect, {
      ...{ fill: COLOURS[tensor], alpha, em, tensor, text: now.parts[tensor] },
    });
  bar('K', [x, y - corner, size, strip]);
  bar('V', [x, y - strip - GAP, size, strip]);
  bar('Q', [x - corner, y, strip, size]);
  bar('O', [x - strip - GAP, y, strip, size], PALE);
  bar('O', [x - strip - GAP, y, strip, turn >= 2 ? rows : 0]);
  const cell = now.drawn > 1.1 * now.first ? now.first * scale : 0; // the square of the first length
  if (!stores) {
    made.add('empty', 'empty', [x, y, size, size], {
      ...{
        band,
        cell,
        causal: now.causal,
        line: paint.border,
        stroke: paint.text,
        em,
        text: side.done ? now.words.gone : '',
      },
    });
    if (!side.done)
      made.rect('band', [x, y + side.row * band, size, Math.min(band, size - side.row * band)], {
        ...{ fill: COLOURS.S, alpha: 0.25 },
      });
  }
  for (const [tensor, from, all] of /** @type {[string, number, boolean][]} */ ([
    ['S', 0, turn > 0 || side.done],
    ['P', sheet, turn > 1 || side.done],
  ])) {
    if (!stores || (tensor === 'P' && turn === 0)) continue;
    made.add(`ink ${tensor}`, 'ink', [x + from, y + from, size, size], {
      ...{ tensor, fill: COLOURS[tensor], text: now.parts[tensor], em, light: paint.background, band },
      ...{ rows: all ? size : rows, key: all ? 0 : key, covered: tensor === 'S' && turn > 0 ? sheet : 0 },
      ...{
        causal: now.causal,
        step: TILE_KEYS * scale,
        cell: tensor === 'S' && turn > 0 ? 0 : cell,
      },
    });
  }
  const origin = stores && turn > 0 ? sheet : 0;
  if (cell) {
    made.rect(`first ${n}`, [x + origin, y + origin, cell, cell], { stroke: paint.text, width: 2.5 });
    if (cell > 3.4 * em && !now.causal)
      made.text(
        `first ${n} is`,
        [x + origin + cell / 2, y + origin + cell / 2 + 0.35 * em, cell - 4],
        now.words.first,
        {
          ...{ bold: true, align: 'center', fill: stores ? '#fff' : paint.text },
        },
      );
  }

  // ---- the chip, and the tile in it ----
  const big = below ? (narrow ? 3 : 4.4) * em : Math.min(8 * em, 0.4 * at.room),
    chipX = below ? (narrow ? left : x) + 0.9 * em : x + at.side + sheet + 2.4 * em,
    chipY = below ? y + at.side + sheet + 1.9 * em : y,
    along = Math.max(0, Math.min(key, size - wide)),
    tile = [x + shift + along, y + shift + Math.min(side.row * band, size - tall), wide, tall];
  if (!side.done) {
    const grown = Math.max(0, (0.7 * em - Math.min(wide, tall)) / 2);
    made.rect(`tile ${n}`, [tile[0] - grown, tile[1] - grown, tile[2] + 2 * grown, tile[3] + 2 * grown], {
      ...{ fill: COLOURS[stores && turn > 0 ? 'P' : 'S'], stroke: paint.text, width: 2.5 },
    });
    const ends = below
      ? [
          [tile[0], tile[1] + tall, chipX, chipY],
          [tile[0] + wide, tile[1] + tall, chipX + big, chipY],
        ]
      : [
          [tile[0] + wide, tile[1], chipX, chipY],
          [tile[0] + wide, tile[1] + tall, chipX, chipY + big],
        ];
    ends.forEach(([x0, y0, x1, y1], end) =>
      made.add(`lens ${n} ${end}`, 'line', [x0, y0, x1 - x0, y1 - y0], { stroke: paint.text, width: 1 }),
    );
  }
  made.add(`chip ${n}`, 'chip', [chipX, chipY, big, big], {
    ...{ fill: paint.text, light: paint.background, em: 1.4 * em },
    holds: side.done && stores ? [] : [['S'], ['S', 'P'], ['P'], ['S', 'P']][turn],
  });
  const from = below ? chipX + big + 0.8 * em : chipX - 0.4 * em,
    beside = below ? n * at.half + at.half - pad - from : at.aside,
    does = now.words[side.done ? (stores ? 'rests' : 'kept') : ['writes', 'weighs', 'mixes', 'keeps'][turn]],
    lines = wrapped([does, ...(narrow ? side.brief : side.lines)], beside / (0.53 * em)),
    start = below ? chipY + 0.4 * em : chipY + big + 1.9 * em;
  lines.forEach((text, row) =>
    made.text(`line ${n} ${row}`, [from, start + 1.4 * row * em, beside], text.said, {
      ...{ bold: text.bold, ...(text.small ? { size: smallText(em) } : {}) },
    }),
  );
}

/**
 * Lines of at most so many letters. The first and those with a `*` are bold, those with a `~` small.
 * @type {(texts: string[], most: number) => {said: string, bold: boolean, small: boolean}[]}
 */
function wrapped(texts, most) {
  return texts.filter(Boolean).flatMap((text, n) => {
    const bold = !n || text[0] === '*',
      small = text[0] === '~',
      lines = [''];
    for (const word of text.replace(/^[*~]/, '').split(' ')) {
      const last = lines.length - 1;
      if (lines[last] && lines[last].length + word.length >= most) lines.push(word);
      else lines[last] = `${lines[last]} ${word}`.trim();
    }
    return lines.map(said => ({ said, bold, small }));
  });
}

/** @typedef {{name: string, share: number, value: string, fill?: string, parts?: [string, number][], again?: number}} Bar share: of the longest of its group. again: the share of its end
 * that is moved again */
/**
 * The recorded figures: for each quantity a bar of each way.
 * @param {Layout} at
 * @param {{title: string, from: string, bars: Bar[], end: string}[]} groups end: what the right one gains
 * @param {Paint} paint
 */
export function figureMarks(at, groups, paint) {
  const made = new Marks(at.em),
    { em, width, height, narrow, big } = at,
    tall = height / groups.length,
    thick = Math.min(3.6 * em, (tall - 4.4 * em) / (narrow ? 3.4 : 2.3)),
    from = narrow ? 0 : 13 * em,
    most = width - from - (narrow ? 0 : 9 * em);
  groups.forEach(({ title, from: source, bars, end }, n) => {
    const top = n * tall + 0.6 * em;
    made.text(`group ${n}`, [0, top + big], title, { bold: true, size: 1.15 * big });
    made.text(`end ${n}`, [width, top + big], end, { bold: true, size: 1.15 * big, align: 'right' });
    made.text(`source ${n}`, [narrow ? 0 : from, top + (narrow ? big + 1.4 * em : big)], source, {
      size: narrow ? smallText(em) : em,
    });
    bars.forEach((bar, row) => {
      const y = top + big + (narrow ? 1.9 : 0.7) * em + row * (thick + (narrow ? 1.5 * em : 0.35 * em)),
        base = narrow ? y + em : y + thick / 2 + 0.36 * em,
        up = narrow ? y + 1.3 * em : y,
        long = Math.max(2, bar.share * most);
      made.text(`bar ${n} ${row} of`, [0, base, narrow ? 0 : from - 0.6 * em], bar.name, {
        size: narrow ? em : 1.15 * em,
      });
      made.rect(`bar ${n} ${row}`, [from, up, long, thick], {
        ...{ fill: row ? paint.primary : paint.text, alpha: row ? 1 : 0.55 },
        ...{ datum: { kind: 'fact', side: row, name: title }, tip: `${title}, ${bar.name}: ${bar.value}` },
      });
      if (bar.again)
        made.rect(`bar ${n} ${row} again`, [from + (1 - bar.again) * long, up, bar.again * long, thick], {
          ...{ fill: paint.background, alpha: 0.6 },
        });
      let x = from;
      for (const [tensor, share] of bar.parts ?? []) {
        made.rect(`bar ${n} ${row} ${tensor}`, [x, up, share * long, thick], { fill: COLOURS[tensor] });
        if (share * long > 1.4 * em)
          made.text(`bar ${n} ${row} ${tensor} is`, [x + (share * long) / 2, up + thick / 2 + 0.36 * em], tensor, {
            ...{ bold: true, align: 'center', fill: '#fff' },
          });
        x += share * long;
      }
      made.text(`bar ${n} ${row} is`, narrow ? [width, base] : [from + long + 0.6 * em, base], bar.value, {
        bold: true,
        size: narrow ? em : big,
        align: narrow ? 'right' : 'left',
      });
    });
  });
  return made.list;
}

/** The triangle above the diagonal, hatched. @type {(g: any, x: number, y: number, size: number, fill: string, gap: number) => void} */
function masked(g, x, y, size, fill, gap) {
  g.save();
  g.beginPath();
  g.moveTo(x, y);
  g.lineTo(x + size, y);
  g.lineTo(x + size, y + size);
  g.closePath();
  g.clip();
  g.strokeStyle = fill;
  g.lineWidth = gap / 3;
  g.beginPath();
  for (let at = 0; at < 2 * size; at += gap) {
    g.moveTo(x + at, y);
    g.lineTo(x + at - size, y + size);
  }
  g.stroke();
  g.restore();
}

/** @type {import('../core/kinds.js').Kinds} */
export const RACE_KINDS = {
  // named in it, as far as its length allows; a name runs down an upright one
  strip(g, { rect: [x, y, w, h], fill, alpha, tensor, text, em }, paint) {
    if (w <= 0 || h <= 0) return;
    const upright = h > w,
      seen = Math.max(w, h);
    g.save();
    g.fillStyle = fill;
    g.fillRect(x, y, w, h);
    g.globalAlpha = 1;
    g.font = `600 ${em}px ${paint.font}`;
    const names = [`${tensor} ${text}`, `${tensor} ${text.split(':')[0]}`, tensor],
      name = names.find(one => g.measureText(one).width <= seen - 0.6 * em);
    if (name && Math.min(w, h) >= em) {
      g.fillStyle = alpha < 1 ? paint.text : '#fff';
      g.textAlign = 'left';
      g.translate(upright ? x + w / 2 - 0.34 * em : x + 0.3 * em, upright ? y + 0.3 * em : y + h / 2 + 0.36 * em);
      if (upright) g.rotate(Math.PI / 2);
      g.fillText(name, 0, 0);
    }
    g.restore();
  },
  // a bar that goes on beyond its place
  off(g, { rect: [x, y, w, h], fill }) {
    g.fillStyle = fill;
    for (let n = 1; n < 4; n++) {
      const at = x + w - 0.7 * n * h;
      g.beginPath();
      g.moveTo(at, y);
      g.lineTo(at + 0.18 * h, y);
      g.lineTo(at + 0.5 * h, y + h / 2);
      g.lineTo(at + 0.18 * h, y + h);
      g.lineTo(at, y + h);
      g.lineTo(at + 0.32 * h, y + h / 2);
      g.fill();
    }
  },
  // where the square would be: the bands of the tiles
  empty(g, { rect: [x, y, size], band, cell, causal, line, stroke, text, em }, paint) {
    if (causal) masked(g, x, y, size, line, 0.6 * em);
    g.strokeStyle = stroke;
    g.lineWidth = 0.6;
    g.globalAlpha = 0.6;
    g.beginPath();
    for (let at = band; band > 3 && at < size - 1; at += band) {
      g.moveTo(x, y + at);
      g.lineTo(x + size, y + at);
    }
    g.stroke();
    g.globalAlpha = 1;
    g.lineWidth = 1.5;
    g.setLineDash([3, 6]);
    g.strokeRect(x, y, size, size);
    g.setLineDash([]);
    if (!text) return;
    const large = Math.min(1.3 * em, (size - em) / (0.56 * text.length));
    if (large < 0.9 * em) return;
    g.font = `600 ${large}px ${paint.font}`;
    const wide = g.measureText(text).width + em,
      middle = y + (cell ? 0.75 : 0.5) * size;
    g.fillStyle = paint.panel;
    g.fillRect(x + size / 2 - wide / 2, middle - 1.1 * large, wide, 2 * large);
    g.fillStyle = paint.text;
    g.textAlign = 'center';
    g.fillText(text, x + size / 2, middle + 0.3 * large);
  },
  // a stored matrix, as far as it is written
  ink(g, mark, paint) {
    const { causal, light, fill, rows, key, band, step, covered, em, tensor, text, cell } = mark,
      [x, y, size] = mark.rect;
    g.fillStyle = fill;
    g.fillRect(x, y, size, rows);
    if (key) g.fillRect(x, y + rows, key, Math.min(band, size - rows));
    g.fillStyle = light;
    g.globalAlpha = 0.22;
    for (let at = step; step > 4 && at < size - 1; at += step) g.fillRect(x + at, y, 1, rows);
    for (let at = band; band > 4 && at < rows; at += band) g.fillRect(x, y + at, size, 1);
    g.globalAlpha = 0.9;
    for (let at = cell; cell && at < size - 1; at += cell) {
      g.fillRect(x + at - 1, y, 2, rows);
      if (at < rows) g.fillRect(x, y + at - 1, size, 2);
    }
    g.globalAlpha = 1;
    if (covered) {
      if (size < 6 * em) return;
      g.fillStyle = '#fff';
      g.textAlign = 'left';
      g.font = `600 ${em}px ${paint.font}`;
      const whole = `${tensor} ${text}`;
      g.fillText(g.measureText(whole).width < size - em ? whole : tensor, x + 0.4 * em, y + 0.5 * covered + 0.36 * em);
      return;
    }
    if (causal) masked(g, x, y, size, light, 0.6 * em);
    const large = Math.min(0.24 * size, 6 * em),
      off = cell > 0.3 * size ? 0.75 : cell ? 0.625 : 0.5, // in a cell
      across = (causal ? 0.3 : off) * size,
      down = (causal ? 0.72 : off) * size;
    if (size < 3 * em || (rows < down + 2 * em && rows < size)) return;
    g.fillStyle = '#fff';
    g.textAlign = 'center';
    g.font = `600 ${large}px ${paint.font}`;
    g.fillText(tensor, x + across, y + down);
    g.font = `600 ${1.1 * em}px ${paint.font}`;
    const fits = g.measureText(text).width < size - em && !causal && !cell;
    g.fillText(fits ? text : text.split(':')[0], x + across, y + down + 1.5 * em, size - 4);
  },
  // a chip with the tile that it holds, in the colours of its tensors
  chip(g, { rect: [x, y, w, h], fill, light, em, holds }, paint) {
    g.fillStyle = fill;
    const leg = 0.09 * w;
    for (let n = 1; n < 6; n++) {
      g.fillRect(x + (w * n) / 6 - 2, y - leg, 4, h + 2 * leg);
      g.fillRect(x - leg, y + (h * n) / 6 - 2, w + 2 * leg, 4);
    }
    g.beginPath();
    g.roundRect(x, y, w, h, 7);
    g.fill();
    g.fillStyle = light;
    g.beginPath();
    g.roundRect(x + 4, y + 4, w - 8, h - 8, 4);
    g.fill();
    const pad = 0.14 * w,
      inner = w - 2 * pad;
    holds.forEach((/** @type {string} */ tensor, /** @type {number} */ n) => {
      const wide = inner / holds.length;
      g.fillStyle = COLOURS[tensor];
      g.fillRect(x + pad + n * wide, y + pad, wide - (n < holds.length - 1 ? 2 : 0), inner);
      g.fillStyle = '#fff';
      g.textAlign = 'center';
      g.font = `600 ${em}px ${paint.font}`;
      g.fillText(tensor, x + pad + (n + 0.5) * wide, y + h / 2 + 0.36 * em);
    });
  },
};
