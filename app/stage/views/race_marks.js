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
const NAMES = ['Store the square', 'Keep one tile'];
const AGAIN = 0.55; // of white over what is read again: pale in both themes
const INK = '#222'; // of a letter on it
const PALE = 0.16; // of what is not made yet
// The trips between memory and chip, each in its place: [tensor, to memory, stage of the way that stores, of the other].
// Where a way has none, its place stays empty.
/** @type {[string, boolean, number, number?][]} */
const TRIPS = [
  ['Q', false, 0, 0],
  ['K', false, 0, 0],
  ['S', true, 0],
  ['S', false, 1],
  ['P', true, 1],
  ['P', false, 2],
  ['V', false, 2, 0],
  ['O', true, 2, 0],
];
const ROUNDS = 6; // trips that are seen of a stage
const LEG = 0.35; // of the size of text: a chip's leg

/** @param {{width: number, height: number, em: number}} size */
export function raceLayout({ width, height, em }) {
  const narrow = width < 700,
    between = narrow ? 0.5 * em : em, // the two memories
    half = (width - between) / 2,
    big = narrow ? 1.1 * em : 1.3 * em, // the size of names
    bar = narrow
      ? { x: 0, w: width, y: 2.9 * em, h: 1.3 * em, pitch: 3 * em }
      : { x: 11.5 * em, w: width - 21.5 * em, y: 1.6 * em, h: 1.7 * em, pitch: 2.2 * em },
    top = bar.y + bar.pitch + bar.h + 0.7 * em,
    room = Math.max((narrow ? 23.5 : 19) * em, height - top),
    strip = 1.6 * em, // the thickness of Q, K, V and O
    corner = 2 * (strip + GAP), // from the strips' outer edge to the square
    sheet = 0.9 * strip, // P lies on S, a little to the right and down
    title = narrow ? 2 * em : 0.8 * em,
    [before, behind] = narrow ? [4, 4] : [6.6 * em, 2.6 * em], // of the strips: the memory's name, and the output's
    across = half - before - behind - 2 * (strip + GAP) - sheet,
    down = room - title - corner - sheet - 0.8 * em,
    road = narrow ? 3 * em : 3.8 * em, // from memory to chip
    beside = 11.5 * em, // a chip that stands there
    deep = narrow ? 5.2 * em : 5.4 * em, // one below
    [lower, aside] = [Math.min(across, down - road - deep - 0.6 * em), Math.min(across - road - beside, down)],
    below = narrow || lower >= aside, // the chip's place
    side = Math.max(4 * em, below ? lower : aside),
    memory = [below ? half : half - road - beside, title + corner + side + sheet + 0.8 * em];
  return {
    ...{ width, height: top + room, em, half, between, narrow, big, bar, top, room, strip, corner, sheet, side },
    ...{ title, before, road, memory, below, chip: below ? [half - 0.8 * em, deep] : [beside, memory[1] - 0.8 * em] },
    free: Math.max(0, across - side - (below ? 0 : road + beside)), // of a memory
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
 * @property {number} share of that stage
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
 * @property {number} once bytes of K, read once
 * @property {Side[]} sides
 * @property {(bytes: number) => [string, string]} says
 * @property {Record<string, string>} parts
 * @property {number} first tokens of the square that becomes a cell
 * @property {Record<string, string>} words
 */
/** @type {(at: Layout, now: Now, paint: Paint) => import('../core/tween.js').Mark[]} */
export function raceMarks(at, now, paint) {
  const made = new Marks(at.em);
  const { em, bar, narrow } = at,
    head = (narrow ? 0.95 : 1.05) * em;
  made.text('bytes are', [bar.x, head], now.words.heads, { size: smallText(em) });
  if (!now.held)
    made.text('pale is', [bar.x + bar.w, head], `${now.words.pale}${narrow ? '' : now.words.cache}`, {
      ...{ size: smallText(em), align: 'right' },
    });
  now.sides.forEach((side, n) => addBar(made, at, now, side, n, paint));
  now.sides.forEach((side, n) => addMemory(made, at, now, side, n, paint));
  now.sides.forEach((side, n) => addChip(made, at, now, side, n, paint));
  return made.list;
}

/**
 * The words of a short text ask each other, one after the other. Then one row of scores becomes weights, and its output.
 * @param {Layout} at
 * @param {{asked: number, mixed: number, parts: Record<string, string>, words: string[], says: string}} now asked, mixed:
 *   from 0 to 1
 * @param {Paint} paint
 */
export function askingMarks(at, { asked, mixed, parts, words, says }, paint) {
  const made = new Marks(at.em),
    { em, width, height } = at,
    narrow = width < 54 * em, // the names stand below
    count = words.length,
    text = narrow ? em : 1.15 * em, // its size
    box = 2 * text, // a word's height
    wide = 3.4 * text, // and its width beside the square
    thin = narrow ? 1.3 * text : 1.7 * text,
    names = narrow ? 0 : 10.2 * text, // beside the square, on both sides
    legend = narrow ? 3 * 1.8 * text : 0,
    corner = box + thin + 2 * GAP,
    across = width - 2 * names - 2 * (wide + GAP) - (narrow ? 0 : 3 * text),
    side = Math.min(across, height - legend - corner - 2.4 * text, 40 * em),
    cell = side / count,
    x = (width - side) / 2,
    y = Math.max(0, (height - legend - corner - side - 2 * text) / 2) + corner,
    mixes = Math.floor((count - 1) / 2), // the row that becomes weights
    [row, column] = [Math.floor(asked * count), Math.floor(((asked * count) % 1) * count)];
  const said = (/** @type {string} */ id, /** @type {number[]} */ [left, up, w, h], /** @type {string} */ name) =>
    made.text(id, [left + w / 2, up + h / 2 + 0.35 * text, w - 4], name, {
      ...{ size: text, fill: '#fff', align: 'center', bold: true },
    });
  const lettered = (/** @type {string} */ tensor, /** @type {number[]} */ square) => {
    made.rect(`of ${tensor}`, square, { fill: COLOURS[tensor] });
    said(`of ${tensor} is`, square, tensor);
  };
  const word = (
    /** @type {string} */ tensor,
    /** @type {number} */ n,
    /** @type {number[]} */ rect,
    /** @type {number} */ alpha,
    shows = true,
  ) => {
    made.rect(`${tensor} ${n}`, rect, { fill: COLOURS[tensor], alpha });
    if (shows) said(`${tensor} ${n} is`, rect, words[n]);
  };
  for (let n = 0; n < count; n++) {
    const along = x + n * cell,
      down = y + n * cell,
      heard = asked >= 1 || n <= column;
    word('K', n, [along, y - corner, cell - 2, box], heard ? 1 : 0.7);
    made.rect(`V ${n}`, [along, y - thin - GAP, cell - 2, thin], { fill: COLOURS.V, alpha: heard ? 1 : 0.7 });
    word('Q', n, [x - wide - GAP, down, wide, cell - 2], asked >= 1 ? (n === mixes ? 1 : 0.7) : n === row ? 1 : 0.7);
    const mixedIn = n === mixes && mixed >= 1;
    word('O', n, [x + side + GAP - 2, down, wide, cell - 2], mixedIn ? 1 : PALE, mixedIn);
    for (let k = 0; k < count; k++)
      made.rect(`S ${n} ${k}`, [x + k * cell, down, cell - 2, cell - 2], {
        ...{ fill: COLOURS[n === mixes && k < mixed * count ? 'P' : 'S'] },
        ...{ alpha: n < row || (n === row && k <= column) ? 1 : PALE },
      });
  }
  // the rows with the names of S and P, and V
  const weighs = [x, y + mixes * cell, side - 2, cell - 2];
  made.text('example', [x + side / 2, y + side + 1.4 * text], says, { size: text, bold: true, align: 'center' });
  const framed = () => mixed >= 1 && made.rect('row', weighs, { stroke: paint.text, width: 2.5 });
  const scores = [x, y + Math.max(0, count - 2) * cell, side - 2, cell - 2];
  const values = [x, y - thin - GAP, side - 2, thin];
  if (!narrow) {
    // each name beside or on its part
    const name = (/** @type {string} */ tensor, /** @type {number} */ up, right = true) => {
      const [short, means] = parts[tensor].split(': '),
        size = 1.6 * text,
        from = right ? x + side + wide + text : x - wide - text - GAP,
        way = right ? 1 : -1,
        align = right ? 'left' : 'right',
        square = [right ? from : from - size, up - 1.15 * text, size, size];
      lettered(tensor, square);
      made.text(`name ${tensor}`, [from + way * (size + 0.5 * text), up, names], short, {
        ...{ bold: true, size: 1.15 * text, align },
      });
      made.text(`means ${tensor}`, [from, up + 1.6 * text, names], means, { size: text, align });
    };
    const whole = (/** @type {string} */ tensor, /** @type {number[]} */ [left, up, w, h]) => {
      const tall = tensor === 'S' ? thin : h; // S stays in cells
      made.rect(`whole ${tensor}`, [left, up + (h - tall) / 2, w, tall], { fill: COLOURS[tensor] });
      said(`name ${tensor}`, [left, up, w, h], `${tensor} ${parts[tensor]}`);
    };
    const level = y + (mixes + 0.5) * cell - 0.25 * text;
    name('K', y - corner + 0.45 * box);
    name('Q', level, false);
    name('O', level);
    if (asked >= 1) whole('S', scores);
    if (mixed >= 1) whole('P', weighs);
    whole('V', values);
    framed();
    return made.list;
  }
  framed();
  for (const [tensor, rect] of /** @type {[string, number[]][]} */ ([
    ['S', scores],
    ['P', weighs],
    ['V', values],
  ]))
    if (tensor === 'V' || (tensor === 'S' ? asked : mixed) >= 1)
      said(`letter ${tensor}`, [rect[0] + rect[2] - cell, rect[1], cell, rect[3]], tensor);
  ['Q', 'K', 'S', 'P', 'V', 'O'].forEach((tensor, n) => {
    const up = y + side + 2.6 * text + (n % 3) * 1.8 * text,
      along = (Math.floor(n / 3) * width) / 2,
      size = 1.5 * text;
    lettered(tensor, [along, up, size, size]);
    made.text(
      `means ${tensor}`,
      [along + size + 0.5 * text, up + size / 2 + 0.36 * text, width / 2 - size - 0.9 * text],
      parts[tensor],
    );
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
  const after = ends ? 3.4 * em : 0; // of the word after the number
  if (ends) made.text(`ends ${n} is`, [width - after + 0.4 * em, base], ends, { size: smallText(em) });
  made.text(`moved ${n}`, [width - after, base], value, {
    ...{ bold: true, size: big, align: 'right', datum: { kind: 'moved', side: n } },
    tip: now.held ? `${value} of memory, modelled` : `${value} asked of memory ${ends}, modelled`,
  });
  made.rect(`bar ${n}`, [bar.x, y, bar.w, bar.h], { fill: paint.panel });
  if (!now.held && !side.done && bytes > 0)
    made.rect(`ends ${n}`, [bar.x, y, Math.min(bar.w, (bar.w * side.all) / now.full), bar.h], {
      ...{ stroke: paint.text, dash: [4, 3], width: 1.5 },
    });
  let { x } = bar;
  for (const tensor of ORDER) {
    const w = Math.max(0, Math.min((bar.w * parts[tensor]) / now.full, bar.x + most - x)),
      again = !now.held && 'KV'.includes(tensor) ? Math.max(0, w - (bar.w * now.once) / now.full) : 0, // read again
      says = now.says(parts[tensor]).join(' '),
      trips = w > 8 * em && side.done && !now.held,
      long = trips && 'SP'.includes(tensor) ? `${tensor} out and back` : tensor;
    made.rect(`part ${n} ${tensor}`, [x, y, w, bar.h], {
      ...{ fill: COLOURS[tensor], datum: { kind: 'part', side: n, tensor } },
      tip: `${tensor}: ${says} ${now.held ? 'of memory' : 'asked of memory'}, modelled`,
    });
    if (again)
      made.rect(`part ${n} ${tensor} again`, [x + w - again, y, again, bar.h], {
        fill: '#fff',
        alpha: AGAIN,
      });
    if (w > 1.4 * em)
      made.text(`part ${n} ${tensor} is`, [x + w / 2, y + bar.h / 2 + 0.36 * em], long, {
        ...{ bold: true, align: 'center', fill: again > 0.6 * w ? INK : '#fff' },
      });
    x += w;
  }
  if (bytes > 1.001 * now.full) made.add(`off ${n}`, 'off', [bar.x, y, bar.w, bar.h], { fill: paint.background });
}

/** Where a way's memory and its parts are. @type {(at: Layout, now: Now, n: number) => any} */
function placesOf(at, now, n) {
  const left = n * (at.half + at.between),
    column = left + at.before + at.free / 2;
  return {
    ...{ left, column, scale: at.side / Math.max(LEAST, now.drawn) },
    ...{ x: column + at.strip + GAP, y: at.top + at.title + at.corner }, // the square's corner
  };
}

/** What a way has in memory, and the tile on its way. @type {typeof addBar} */
function addMemory(made, at, now, side, n, paint) {
  const { strip, em, corner, sheet, narrow } = at,
    { left, column: from, scale, x, y } = placesOf(at, now, n),
    size = now.drawn * scale,
    stores = n === 0,
    turn = stores ? side.stage : 3,
    shift = stores && turn > 0 ? sheet : 0,
    band = now.height * scale,
    tall = Math.min(size, band),
    wide = Math.min(size, TILE_KEYS * scale),
    rows = side.done ? size : Math.min(size, side.row * band),
    key = side.key * scale,
    outs = x + size + (stores ? sheet : 0) + GAP; // of O
  made.rect(`memory ${n}`, [left, at.top, ...at.memory], { fill: paint.panel, stroke: paint.border, width: 1.5 });
  const holds = stores ? now.words.square_of : now.words.none_kept;
  if (narrow)
    made.text(`title ${n}`, [left + 0.6 * em, at.top + 1.4 * em], `${now.words.memory_of}: ${holds}`, { bold: true });
  else {
    made.text(`title ${n}`, [left + 0.9 * em, at.top + 2.1 * em], now.words.memory_of, { bold: true, size: 1.3 * em });
    made.text(`holds ${n}`, [left + 0.9 * em, at.top + 3.8 * em, from - left - 1.2 * em + strip], holds);
  }
  const short = (/** @type {string} */ tensor) => now.parts[tensor].split(':')[0];
  const bar = (/** @type {string} */ tensor, /** @type {number[]} */ rect, alpha = 1) =>
    made.add(`strip ${n} ${tensor} ${alpha}`, 'strip', rect, {
      ...{ fill: COLOURS[tensor], alpha, em, tensor, text: 'KV'.includes(tensor) ? short(tensor) : '' },
    });
  bar('K', [x, y - corner, size, strip]);
  bar('V', [x, y - strip - GAP, size, strip]);
  bar('Q', [from, y, strip, size]);
  bar('O', [outs, y, strip, size], PALE);
  bar('O', [outs, y, strip, turn >= 2 ? rows : 0]);
  if (!narrow) {
    made.text(`named ${n} Q`, [from + strip, y + size + 1.2 * em], short('Q'), { align: 'right' });
    made.text(`named ${n} O`, [outs + 0.4 * em, y + size + 1.2 * em], short('O'));
  }
  const cell = now.drawn > 1.1 * now.first ? now.first * scale : 0; // the square of the first length
  if (!stores) {
    made.add('empty', 'empty', [x, y, size, size], {
      ...{ band, cell, causal: now.causal, line: paint.border, stroke: paint.text, em },
      text: side.done ? now.words.gone : '',
    });
    if (!side.done)
      made.rect('band', [x, y + side.row * band, size, Math.min(band, size - side.row * band)], {
        ...{ fill: COLOURS.S, alpha: 0.25 },
      });
  }
  for (const [tensor, offset, all] of /** @type {[string, number, boolean][]} */ ([
    ['S', 0, turn > 0 || side.done],
    ['P', sheet, turn > 1 || side.done],
  ])) {
    if (!stores || (tensor === 'P' && turn === 0)) continue;
    made.add(`ink ${tensor}`, 'ink', [x + offset, y + offset, size, size], {
      ...{ tensor, fill: COLOURS[tensor], text: short(tensor), em, light: paint.background, band },
      ...{ rows: all ? size : rows, key: all ? 0 : key, covered: tensor === 'S' && turn > 0 ? sheet : 0 },
      ...{ causal: now.causal, step: TILE_KEYS * scale, cell: tensor === 'S' && turn > 0 ? 0 : cell },
    });
  }
  if (cell) {
    made.rect(`first ${n}`, [x + shift, y + shift, cell, cell], { stroke: paint.text, width: 2.5 });
    if (cell > 3.4 * em && !now.causal)
      made.text(`first ${n} is`, [x + shift + cell / 2, y + shift + cell / 2 + 0.35 * em, cell - 4], now.words.first, {
        ...{ bold: true, align: 'center', fill: stores ? '#fff' : paint.text },
      });
  }
  if (side.done) return;
  // the tile, and what of the strips it meets
  const along = Math.max(0, Math.min(key, size - wide)),
    up = Math.min(side.row * band, size - tall),
    grown = (/** @type {number} */ length) => Math.max(length, 0.7 * em);
  const framed = (/** @type {string} */ id, /** @type {number[]} */ [left, top, w, h], fill = '') =>
    made.rect(id, [left - (grown(w) - w) / 2, top - (grown(h) - h) / 2, grown(w), grown(h)], {
      ...(fill ? { fill, width: 2.5 } : { width: 2 }),
      stroke: paint.text,
    });
  const meets = [['K', 'Q'], [], ['V', 'O'], ['K', 'V', 'Q', 'O']][turn];
  for (const tensor of meets) {
    const rect = {
      K: [x + along, y - corner, wide, strip],
      V: [x + along, y - strip - GAP, wide, strip],
      Q: [from, y + up, strip, tall],
      O: [outs, y + up, strip, tall],
    };
    framed(`meets ${n} ${tensor}`, rect[/** @type {'K'} */ (tensor)]);
  }
  framed(`tile ${n}`, [x + shift + along, y + shift + up, wide, tall], COLOURS[stores && turn > 0 ? 'P' : 'S']);
}

/** A chip with its tiles, what it does, and the trips between it and memory. @type {typeof addBar} */
function addChip(made, at, now, side, n, paint) {
  const { em, narrow, below, road } = at,
    { left } = placesOf(at, now, n),
    stores = n === 0,
    turn = stores ? side.stage : 3,
    [wide, tall] = at.chip,
    [memoryWide, memoryTall] = at.memory,
    x = below ? left + (at.half - wide) / 2 : left + memoryWide + road,
    y = below ? at.top + memoryTall + road : at.top + 0.4 * em,
    pitch = (below ? wide : tall) / TRIPS.length,
    thick = Math.min(2 * em, 0.9 * pitch),
    gap = 0.3 * em, // to memory, and to the chip's legs
    long = road - 2 * gap - LEG * em;
  TRIPS.forEach(([tensor, back, ...stages], slot) => {
    const stage = stages[n];
    if (stage === undefined || (stage > side.stage && !side.done)) return;
    const goes = !side.done && stage === side.stage,
      middle = (slot + 0.5) * pitch - thick / 2;
    made.add(
      `trip ${n} ${slot}`,
      'trip',
      below ? [x + middle, at.top + memoryTall + gap, thick, long] : [left + memoryWide + gap, y + middle, long, thick],
      {
        ...{ fill: COLOURS[tensor], tensor, back, em, edge: paint.background },
        ...{ moving: goes ? (side.share * ROUNDS + 0.5) % 1 : null },
      },
    );
  });
  made.add(`chip ${n}`, 'chip', [x, y, wide, tall], { fill: paint.text, light: paint.background, em });
  const holds = side.done && stores ? [] : [['S'], ['S', 'P'], ['P'], ['S', 'P']][turn],
    size = below ? (narrow ? 1.6 : 2.6) * em : Math.min(4.4 * em, (wide - 2.2 * em) / 2),
    [tileX, tileY] = [x + 0.9 * em, below ? y + (tall - size) / 2 : y + em];
  holds.forEach((tensor, k) => {
    const rect = [tileX + k * (size + 4), tileY, size, size];
    made.rect(`holds ${n} ${tensor}`, rect, { fill: COLOURS[tensor] });
    made.text(`holds ${n} ${tensor} is`, [rect[0] + size / 2, tileY + size / 2 + 0.45 * em], tensor, {
      ...{ bold: true, align: 'center', fill: '#fff', size: 1.3 * em },
    });
  });
  const does = now.words[side.done ? (stores ? 'rests' : 'kept') : ['writes', 'weighs', 'mixes', 'keeps'][turn]],
    from = below
      ? tileX + (stores && !side.done ? 2 : holds.length) * (size + 4) + (holds.length ? 0.6 * em : 0)
      : tileX,
    room = x + wide - 0.7 * em - from,
    lines = wrapped([does, ...(narrow ? side.brief : side.lines)], room / (0.5 * em)),
    pace = 1.4 * em,
    start = below ? y + tall / 2 - ((lines.length - 1) * pace) / 2 + 0.36 * em : tileY + size + 1.8 * em;
  lines.forEach((text, row) =>
    made.text(`line ${n} ${row}`, [from, start + row * pace, room], text.said, {
      bold: text.bold,
      ...(row || narrow ? {} : { size: 1.1 * em }),
    }),
  );
}

/**
 * Lines of at most so many letters. The first and those with a `*` are bold.
 * @type {(texts: string[], most: number) => {said: string, bold: boolean}[]}
 */
function wrapped(texts, most) {
  return texts.filter(Boolean).flatMap((text, n) => {
    const lines = [''];
    for (const word of text.replace(/^[*]/, '').split(' ')) {
      const last = lines.length - 1;
      if (lines[last] && lines[last].length + word.length >= most) lines.push(word);
      else lines[last] = `${lines[last]} ${word}`.trim();
    }
    return lines.map(said => ({ said, bold: !n || text[0] === '*' }));
  });
}

/** @typedef {{name: string, share: number, value: string, fill?: string, parts?: [string, number][], again?: number}} Bar share: of the longest of its group. again: the share of its end
 * that is moved again */
/**
 * The recorded figures: for each quantity a bar of each way.
 * @param {Layout} at
 * @param {{title: string, from: string, bars: Bar[], end: string, notes?: string[]}[]} groups end: what the right one
 *   gains. notes: right of its bar, the first one large
 * @param {Paint} paint
 */
export function figureMarks(at, groups, paint) {
  const made = new Marks(at.em),
    { em, width, height, narrow, big } = at,
    tall = height / groups.length,
    thick = Math.min(3.6 * em, (tall - 4.4 * em) / (narrow ? 3.4 : 2.3)),
    from = narrow ? 0 : 13 * em,
    most = width - from - (narrow ? 0 : 9 * em);
  groups.forEach(({ title, from: source, bars, end, notes = [] }, n) => {
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
          ...{ fill: '#fff', alpha: AGAIN },
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
      if (row)
        notes.forEach((note, line) =>
          made.text(
            `note ${n} ${line}`,
            [width, up + (line ? 0.5 * thick + 1.1 * em : 0.45 * thick)],
            narrow ? note.replace(/.*, /, '') : note,
            {
              ...{ align: 'right', bold: !line, size: line ? smallText(em) : narrow ? em : big },
            },
          ),
        );
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
  // with its letter and its name, beside the tile's first place
  strip(g, { rect: [x, y, w, h], fill, alpha, tensor, text, em }, paint) {
    if (w <= 0 || h <= 0) return;
    g.fillStyle = fill;
    g.fillRect(x, y, w, h);
    if (Math.max(w, h) < 1.4 * em) return;
    g.globalAlpha = 1;
    g.fillStyle = alpha < 1 ? paint.text : '#fff';
    g.textAlign = text ? 'left' : 'center';
    g.font = `600 ${1.1 * em}px ${paint.font}`;
    const name = `${tensor} ${text}`.trim();
    g.fillText(
      g.measureText(name).width < w - 1.8 * em ? name : tensor,
      text ? x + Math.min(1.4 * em, 0.3 * w) : x + w / 2,
      y + h / 2 + 0.38 * em,
    );
  },
  // a trip between memory and chip: an arrow, and on it a packet while it goes
  trip(g, { rect: [x, y, w, h], fill, tensor, back, moving, em, edge }, paint) {
    const down = h > w,
      [long, thick] = down ? [h, w] : [w, h],
      middle = [x + w / 2, y + h / 2],
      way = back ? -1 : 1,
      tip = Math.min(0.55 * thick, 0.4 * long);
    g.save();
    g.translate(...middle);
    if (down) g.rotate(Math.PI / 2);
    g.scale(way, 1);
    g.globalAlpha = moving === null ? 1 : 0.28;
    g.fillStyle = fill;
    g.beginPath();
    g.moveTo(-long / 2, -0.36 * thick);
    for (const [along, off] of [
      [long / 2 - tip, -0.36],
      [long / 2 - tip, -0.5],
      [long / 2, 0],
      [long / 2 - tip, 0.5],
      [long / 2 - tip, 0.36],
      [-long / 2, 0.36],
    ])
      g.lineTo(along, off * thick);
    g.fill();
    g.restore();
    const size = 0.72 * thick;
    middle[down ? 1 : 0] += way * (moving === null ? -0.16 * thick : (moving - 0.5) * (long - size));
    g.globalAlpha = 1;
    g.fillStyle = fill;
    if (moving !== null) {
      g.strokeStyle = edge;
      g.lineWidth = 2;
      g.beginPath();
      g.roundRect(middle[0] - size / 2, middle[1] - size / 2, size, size, 3);
      g.stroke();
      g.fill();
    }
    g.fillStyle = '#fff';
    g.textAlign = 'center';
    g.font = `600 ${Math.max(12, Math.min(1.1 * em, 0.62 * thick))}px ${paint.font}`;
    g.fillText(tensor, middle[0], middle[1] + 0.36 * em);
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
    for (let at = band; band > 7 && at < size - 1; at += band) {
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
    const inCell = cell > 3.4 * em && !causal, // else the cells end around the letter
      large = Math.min(inCell ? 0.5 * cell : 0.24 * size, 6 * em),
      named = inCell ? Math.min(1.1 * em, cell / (0.6 * text.length)) : 1.1 * em,
      off = cell > 0.3 * size ? 0.75 : inCell ? (Math.floor(size / cell / 2) + 0.5) / (size / cell) : 0.5,
      across = (causal ? 0.3 : off) * size,
      down = (causal ? 0.72 : off) * size;
    if (size < 3 * em || (rows < down + 2 * em && rows < size)) return;
    g.fillStyle = '#fff';
    g.textAlign = 'center';
    g.font = `600 ${large}px ${paint.font}`;
    const middle = inCell ? 0.1 * cell : 0; // the name is in the cell, too
    if (cell && !inCell) {
      g.fillStyle = fill;
      g.fillRect(x + across - 2.4 * em, y + down - 0.9 * large, 4.8 * em, 0.9 * large + 2 * em);
      g.fillStyle = '#fff';
    }
    g.fillText(tensor, x + across, y + down + middle);
    g.font = `600 ${named}px ${paint.font}`;
    g.fillText(text, x + across, y + down + middle + (inCell ? 1.15 * named : 1.5 * em), size - 4);
  },
  chip(g, { rect: [x, y, w, h], fill, light, em }) {
    g.fillStyle = fill;
    const leg = LEG * em,
      most = 1.5 * em; // between legs
    for (let n = 1, count = Math.round(w / most); n < count; n++)
      g.fillRect(x + (w * n) / count - 2, y - leg, 4, h + 2 * leg);
    for (let n = 1, count = Math.round(h / most); n < count; n++)
      g.fillRect(x - leg, y + (h * n) / count - 2, w + 2 * leg, 4);
    g.beginPath();
    g.roundRect(x, y, w, h, 7);
    g.fill();
    g.fillStyle = light;
    g.beginPath();
    g.roundRect(x + 4, y + 4, w - 8, h - 8, 4);
    g.fill();
  },
};
