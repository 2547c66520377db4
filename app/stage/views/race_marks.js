// Two chips over one memory, as marks. It gets all values and computes places only. One scale at every length: a token
// has the same pixels, so the tile stays as large as it was and the square runs off.
import { Marks } from '../core/kinds.js';
import { COLOURS, smallText } from '../core/paint.js';

const TILE_KEYS = 128; // keys of the tile under a chip, to the same scale as all else
const GAP = 4; // between the strips
const SHARED = ['K', 'V', 'Q', 'O']; // what both sides move
const ORDER = [...SHARED, 'S', 'P'];
const FLOW = ['Q', 'K', 'S', 'P', 'V', 'O']; // as attention makes them
const NAMES = ['Store the square', 'Keep one tile'];
const FACTS = 4; // rows of recorded figures
const TRIPS = { S: 'S out and back', P: 'P out and back' };
const PALE = 0.16; // of what is not made yet

/** @param {{width: number, height: number, em: number}} size */
export function raceLayout({ width, height, em }) {
  const half = width / 2,
    narrow = width < 700,
    big = narrow ? 1.4 * em : 1.9 * em,
    bar = { y: narrow ? 3.3 * em : 1.25 * big, h: 1.6 * em },
    top = bar.y + bar.h + 0.6 * em,
    room = Math.max((narrow ? 20 : 15) * em, height - top),
    line = 1.55 * em,
    rows = room < 20 * em ? FACTS - 2 : room < 24 * em ? FACTS - 1 : FACTS,
    card = { y: top + room - rows * line - 1.1 * em, h: rows * line + 0.7 * em, rows },
    head = 1.9 * em + 2 * (1.45 * em + GAP), // above the square
    across = Math.min(0.62 * half, half - 2 * (1.45 * em + GAP) - 2.6 * em), // next to the strips
    side = Math.max(Math.min(across, card.y - top - head - 1.5 * em), 0.3 * room),
    scale = side / 2048; // pixels of a token
  return {
    ...{ width, height: top + room, em, half, narrow, big, bar, card, line, top, scale },
    strip: Math.max(1.45 * em, TILE_KEYS * scale),
    pad: narrow ? 4 : 0.9 * em,
  };
}

/** @typedef {ReturnType<typeof raceLayout>} Layout */
/** @typedef {[name: string, share: number, value: string, alpha?: number]} Fact share: of the longest bar, -1 without a bar */
/**
 * @typedef {object} Side
 * @property {number} bytes moved so far
 * @property {number} all
 * @property {Record<string, number>} parts
 * @property {number} stage of its stages, 0 for S, 1 for P, 2 for O; 3: all at once
 * @property {number} row of tiles
 * @property {number} key first key of the tile
 * @property {boolean} done
 */
/**
 * @param {Layout} at
 * @param {{tokens: number, drawn: number, height: number, causal: boolean, tiles: number, whole: number,
 *   sides: Side[], says: (bytes: number) => [string, string], parts: Record<string, string>,
 *   facts: Fact[][] | null, gone: string, heads: string, narrow: string, shortly: string, ends: [string, string],
 *   recorded: string}} now drawn: tokens on their way
 * @param {Paint} paint
 */
export function raceMarks(at, now, paint) {
  const made = new Marks(at.em);
  made.rect('memory', [0, at.top, at.width, at.height - at.top], { fill: paint.panel });
  now.sides.forEach((side, n) => addSide(made, at, now, side, n, paint));
  made.add('border', 'line', [at.half, at.top, 0, at.height - at.top], { stroke: paint.border, width: 2 });
  if (at.half > 36 * at.em)
    made.text('memory is', [at.width - at.pad, at.top + 1.3 * at.em], 'memory', { align: 'right' });
  if (now.facts) addFacts(made, at, now.facts, now.recorded, paint);
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
    legend = narrow ? 0 : 18 * text,
    columns = narrow && height < 40 * em ? 2 : 1, // of the names
    lines = FLOW.length / columns,
    under = narrow ? lines * 1.8 * text + 2 * text : 0,
    corner = [box * 1.7 + thin + 2 * GAP, box + thin + 2 * GAP],
    side = Math.min(width - legend - corner[0] - 3 * text, height - under - corner[1] - 2.2 * text, 34 * em),
    cell = side / count,
    left = (width - corner[0] - side - (legend ? legend + 2 * text : 0)) / 2,
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
  const rows = narrow ? 1.8 * text : Math.min(2.9 * text, (side + corner[1]) / FLOW.length),
    [from, begin] = narrow
      ? [columns > 1 ? 0 : left, y + side + 2.6 * text]
      : [x + side + 2 * text, y - corner[1] + (side + corner[1] - FLOW.length * rows) / 2];
  FLOW.forEach((tensor, n) => {
    const up = begin + (n % lines) * rows,
      along = from + (Math.floor(n / lines) * width) / columns,
      size = Math.min(1.6 * text, rows - 3);
    made.rect(`name ${tensor}`, [along, up, size, size], { fill: COLOURS[tensor] });
    made.text(`name ${tensor} is`, [along + size / 2, up + size / 2 + 0.36 * text], tensor, {
      ...{ size: text, fill: '#fff', bold: true, align: 'center' },
    });
    const room = columns > 1 ? width / columns - size - 0.9 * text : 0;
    made.text(`means ${tensor}`, [along + size + 0.5 * text, up + size / 2 + 0.36 * text, room], parts[tensor], {
      size: text,
    });
  });
  return made.list;
}

/** Recorded figures over the lower end of memory. @type {(made: Marks, at: Layout, facts: Fact[][], recorded: string, paint: Paint) => void} */
function addFacts(made, at, facts, recorded, paint) {
  const { em, card, half, pad, narrow, line } = at,
    alone = !facts[1].length; // one sentence in place of figures
  facts.forEach((rows, n) => {
    if (!rows.length) return;
    const inset = 0.7 * em,
      left = n * half + pad,
      wide = alone ? 2 * half - 2 * pad : half - 2 * pad;
    made.rect(`card ${n}`, [left, card.y, wide, card.h], { fill: paint.background, stroke: paint.border });
    if (n && !narrow)
      made.text('recorded', [left + wide - inset, card.y + 0.35 * em + (card.rows - 0.28) * line], recorded, {
        align: 'right',
        size: smallText(em),
      });
    rows.slice(0, card.rows).forEach(([name, share, says, alpha = 1], row) => {
      const y = card.y + 0.35 * em + (row + 0.72) * line,
        from = left + inset + (narrow ? 0 : 11 * em),
        most = left + wide - from - (narrow ? inset : 6.5 * em),
        long = Math.max(2, share * most);
      if (share >= 0)
        made.rect(`time ${n} ${row}`, [from, y - 0.82 * em, long, 1.1 * em], {
          ...{ fill: paint.text, alpha: narrow ? 0.3 * alpha : alpha },
        });
      made.text(`fact ${n} ${row}`, [alone ? half : left + inset, y + (alone ? line : 0)], name, {
        align: alone ? 'center' : 'left',
      });
      made.text(`fact ${n} ${row} is`, [narrow ? left + wide - inset : from + long + 0.5 * em, y], says, {
        ...{ bold: true, align: narrow ? 'right' : 'left' },
        ...{ datum: { kind: 'fact', side: n, name }, tip: `${name}: ${says}` },
      });
    });
  });
}

/** @type {(made: Marks, at: Layout, now: Parameters<typeof raceMarks>[1], side: Side, n: number, paint: Paint) => void} */
function addSide(made, at, now, side, n, paint) {
  const left = n * at.half + at.pad,
    wide = at.half - 2 * at.pad,
    [value, unit] = now.says(side.bytes),
    { em, bar, narrow } = at;
  made.text(`name ${n}`, [left, 0.8 * at.big], NAMES[n], { bold: true, size: 0.75 * at.big });
  const place = narrow ? [left, 0.8 * at.big + 1.6 * em] : [left + wide, 0.8 * at.big];
  made.text(`moved ${n}`, [place[0], place[1]], `${value} ${unit} ${now.ends[side.done ? 1 : 0]}`, {
    ...{ bold: true, size: narrow ? 1.25 * em : 0.85 * at.big, align: narrow ? 'left' : 'right' },
    ...{
      datum: { kind: 'moved', side: n },
      tip: `${value} ${unit} asked of memory ${now.ends[side.done ? 1 : 0]}, modelled`,
    },
  });
  if (n || at.half > 36 * em)
    made.text(
      `moved ${n} is`,
      [narrow ? left + wide : left + wide - 10.6 * em, place[1]],
      at.half > 42 * em ? now.heads : narrow ? now.shortly : now.narrow,
      {
        ...{ size: smallText(em), align: 'right' },
      },
    );
  made.rect(`bar ${n}`, [left, bar.y, wide, bar.h], { fill: paint.panel });
  let x = left;
  for (const tensor of ORDER) {
    const w = (wide * side.parts[tensor]) / now.whole,
      says = now.says(side.parts[tensor]).join(' ');
    made.rect(`part ${n} ${tensor}`, [x, bar.y, w, bar.h], {
      ...{
        fill: COLOURS[tensor],
        datum: { kind: 'part', side: n, tensor },
        tip: `${tensor}: ${says} asked of memory, modelled`,
      },
    });
    if (w > 1.4 * em)
      made.text(
        `part ${n} ${tensor} is`,
        [x + w / 2, bar.y + 1.15 * em],
        w > 8 * em && side.done ? (TRIPS[/** @type {'S'} */ (tensor)] ?? tensor) : tensor,
        {
          ...{ bold: true, align: 'center', fill: '#fff' },
        },
      );
    x += w;
  }
  addMemory(made, at, now, side, n, paint);
}

/** @type {typeof addSide} */
function addMemory(made, at, now, side, n, paint) {
  const { strip, scale, em } = at,
    corner = 2 * (strip + GAP), // from the strips' outer edge to the square
    size = now.drawn * scale,
    stores = n === 0,
    sheet = Math.min(strip + 6, 0.4 * size + 3), // P lies on S, a little to the right and down
    left = n * at.half + Math.max(at.pad, (at.half - corner - size - sheet) / 2),
    [x, y] = [left + corner, at.top + 1.9 * em + corner], // the square's corner
    clip = [n * at.half, at.top, at.half, at.height - at.top],
    turn = stores ? side.stage : 3,
    shift = stores && turn > 0 ? sheet : 0,
    tall = Math.min(size, now.height * scale),
    wide = Math.min(size, TILE_KEYS * scale),
    rows = side.done ? size : Math.min(size, side.row * now.height * scale),
    key = side.key * scale;
  const bar = (/** @type {string} */ tensor, /** @type {number[]} */ rect, alpha = 1) =>
    made.add(`strip ${n} ${tensor} ${alpha}`, 'strip', rect, {
      ...{ fill: COLOURS[tensor], alpha, clip, em, tensor, text: now.parts[tensor] },
    });
  bar('K', [x, y - corner, size, strip]);
  bar('V', [x, y - strip - GAP, size, strip]);
  bar('Q', [x - corner, y, strip, size]);
  if (turn < 2 || !rows) bar('O', [x - strip - GAP, y, strip, size], PALE);
  else
    made.rect(`pale ${n}`, [x - strip - GAP, y, strip, Math.min(size, at.height - y)], {
      fill: COLOURS.O,
      alpha: PALE,
    });
  bar('O', [x - strip - GAP, y, strip, turn >= 2 ? rows : 0]);
  const common = { clip, size, em, causal: now.causal, line: paint.border, light: paint.background };
  const end = now.facts ? at.card.y : at.height; // of the part of memory in sight
  const inSight = [at.half - (x - n * at.half) - shift - wide - 1.5 * em, end - y - shift - tall - 1.6 * em],
    top = side.done ? Math.min(size - tall, inSight[1]) : Math.min(side.row * now.height * scale, end - y - tall / 2),
    across = side.done ? (size < 4 * em ? size + 1.6 * em : Math.min(size - wide, inSight[0])) : key,
    [chipX, chipY] = [x + shift + across, y + shift + Math.max(0, top)],
    chip = [chipX - 0.8 * em, chipY - 0.8 * em, chipX + wide + 0.8 * em, chipY + tall + 0.8 * em];
  if (!stores)
    made.add('empty', 'empty', [x, y, size, size], {
      ...{ ...common, stroke: paint.text, end, text: side.done ? now.gone : '' },
    });
  for (const [tensor, from, all] of /** @type {[string, number, boolean][]} */ ([
    ['S', 0, turn > 0 || side.done],
    ['P', sheet, turn > 1 || side.done],
  ])) {
    if (!stores || (tensor === 'P' && turn === 0)) continue;
    const whole = at.height - y - from;
    made.add(`ink ${tensor}`, 'ink', [x + from, y + from, size, size], {
      ...{ ...common, tensor, fill: COLOURS[tensor], text: now.parts[tensor], tall, step: TILE_KEYS * scale },
      ...{ rows: all ? size : rows, key: all ? 0 : key, end, covered: tensor === 'S' && turn > 0 ? sheet : 0 },
      ...{ chip, screens: tensor === 'P' ? size / whole : 0, room: [at.half - (x - n * at.half) - from, whole] },
    });
  }
  const often = side.done || !side.row ? '' : `: ${side.row + 1} of ${now.tiles.toLocaleString('en')}`,
    times = now.tiles === 1 ? 'once' : `${now.causal ? 'up to ' : ''}${now.tiles.toLocaleString('en')} times`,
    which = turn === 3 || side.done ? 'K, V' : turn === 0 ? 'K' : 'V';
  if (turn !== 1 || side.done)
    made.text(
      `again ${n}`,
      [at.narrow ? left : x, y - corner - 0.5 * em],
      side.done ? `K, V read ${times}` : `${which} read${often ? ' again' : ''}${often}`,
      { bold: true },
    );
  made.add(`chip ${n}`, 'chip', [chipX, chipY, wide, tall], {
    ...{ clip, turn, fill: paint.text, light: paint.background, pad: at.narrow ? 4 : 8, em, side: TILE_KEYS * scale },
    text: side.done ? '' : ['writes S', 'reads S, writes P', 'reads P, writes O', 'keeps S and P'][turn],
  });
}

/** Draws within the half of a side. @type {(g: any, clip: number[], draw: () => void) => void} */
function within(g, clip, draw) {
  g.save();
  g.beginPath();
  g.rect(...clip);
  g.clip();
  draw();
  g.restore();
}
/** The triangle above the diagonal, or the one below it. @type {(g: any, x: number, y: number, size: number, upper: boolean) => void} */
function triangle(g, x, y, size, upper) {
  g.beginPath();
  g.moveTo(x, y);
  g.lineTo(x + (upper ? size : 0), y + (upper ? 0 : size));
  g.lineTo(x + size, y + size);
  g.closePath();
}

/** What a causal mask leaves out. @type {(g: any, x: number, y: number, size: number, fill: string) => void} */
function masked(g, x, y, size, fill) {
  g.fillStyle = fill;
  g.globalAlpha = 0.35;
  triangle(g, x, y, size, true);
  g.fill();
  g.globalAlpha = 1;
}

/** @type {import('../core/kinds.js').Kinds} */
export const RACE_KINDS = {
  // named in it, as far as its length allows; a name runs down an upright one
  strip(g, { rect: [x, y, w, h], fill, alpha, clip, tensor, text, em }, paint) {
    const upright = h > w,
      seen = upright ? Math.min(h, clip[1] + clip[3] - y) : Math.min(w, clip[0] + clip[2] - x);
    within(g, clip, () => {
      g.fillStyle = fill;
      g.fillRect(x, y, w, h);
      g.globalAlpha = 1;
      g.font = `600 ${em}px ${paint.font}`;
      const names = [`${tensor} ${text}`, `${tensor} ${text.split(':')[0]}`, tensor],
        name = names.find(one => g.measureText(one).width <= seen - 0.6 * em);
      if (!name || Math.min(w, h) < em) return;
      g.fillStyle = alpha < 1 ? paint.text : '#fff';
      g.textAlign = 'left';
      g.translate(upright ? x + w / 2 - 0.34 * em : x + 0.3 * em, upright ? y + 0.3 * em : y + h / 2 + 0.36 * em);
      if (upright) g.rotate(Math.PI / 2);
      g.fillText(name, 0, 0);
    });
  },
  // where the square would be
  empty(g, { rect: [x, y, size], clip, causal, line, stroke, text, end, em }, paint) {
    within(g, clip, () => {
      if (causal) masked(g, x, y, size, line);
      g.strokeStyle = stroke;
      g.lineWidth = 1.5;
      g.setLineDash([3, 6]);
      g.strokeRect(x, y, size, size);
      g.setLineDash([]);
      const wide = Math.min(size, clip[0] + clip[2] - x),
        large = Math.min(1.7 * em, wide / (0.56 * text.length || 1));
      if (large < 0.9 * em) return;
      g.font = `600 ${large}px ${paint.font}`;
      g.fillStyle = paint.text;
      g.textAlign = 'center';
      g.fillText(text, x + wide / 2, y + Math.min(size, end - y) / 2);
    });
  },
  // a stored matrix, as far as it is written
  ink(g, mark, paint) {
    const { clip, causal, line, light, fill, rows, key, tall, step, screens, room, covered, end, em, tensor, text } =
        mark,
      { chip } = mark, // its left, top, right and bottom
      [x, y, size] = mark.rect;
    within(g, clip, () => {
      if (causal) {
        masked(g, x, y, size, line);
        triangle(g, x, y, size, false);
        g.clip();
      }
      g.fillStyle = fill;
      g.fillRect(x, y, size, rows);
      if (key) g.fillRect(x, y + rows, key, Math.min(tall, size - rows));
      g.fillStyle = light;
      g.globalAlpha = 0.22;
      const [wide, high] = [Math.min(size, room[0]), Math.min(rows, room[1])];
      for (let at = step; at < wide; at += step) g.fillRect(x + at, y, 1, high);
      if (tall > 4) for (let at = tall; at < high; at += tall) g.fillRect(x, y + at, wide, 1);
      g.globalAlpha = 1;
      const inner = Math.min(size, end - y) - (causal ? 0 : 0.1 * em), // in sight
        name = text.split(':')[0];
      if (inner < 3 * em || rows < 1.6 * em) return;
      g.fillStyle = '#fff';
      g.font = `600 ${em}px ${paint.font}`;
      if (covered) {
        const whole = `${tensor} ${text}`;
        g.textAlign = 'left';
        if (causal) return g.fillText(tensor, x + 0.3 * em, y + inner / 2);
        return g.fillText(
          g.measureText(whole).width < wide - em ? whole : tensor,
          x + 0.4 * em,
          y + 0.5 * covered + 0.36 * em,
        );
      }
      const large = Math.min(0.24 * inner, 6 * em),
        across = causal ? 0.3 * Math.min(wide, inner) : wide / 2,
        down = causal ? 0.72 * inner : inner / 2;
      if (rows < down + 2 * em && rows < size) return;
      if (!causal && chip[1] < y + down + 2 * em && chip[3] > y + down - large && chip[0] < x + across + 7 * em) return;
      g.textAlign = 'center';
      g.font = `600 ${large}px ${paint.font}`;
      g.fillText(tensor, x + across, y + down);
      g.font = `600 ${1.1 * em}px ${paint.font}`;
      const fits = g.measureText(text).width < wide - em && !causal;
      g.fillText(fits ? text : name, x + across, y + down + 1.5 * em, wide - 4);
      if (screens > 1.1 && !causal && down + 4 * em < inner)
        g.fillText('it goes on, far below', x + across, y + down + 3 * em, wide - 8);
    });
  },
  // a chip over its tile, equal on both sides; what it holds has the colour of its tensor
  chip(g, { rect: [x, y, w, h], clip, turn, fill, light, pad, em, side, text }, paint) {
    within(g, clip, () => {
      const box = side + 2 * pad,
        [left, up] = [x + w / 2 - box / 2, y + h / 2 - box / 2];
      g.fillStyle = fill;
      for (let n = 1; n < 4; n++) {
        g.fillRect(left + (box * n) / 4 - 1.5, up - 4, 3, box + 8);
        g.fillRect(left - 4, up + (box * n) / 4 - 1.5, box + 8, 3);
      }
      g.beginPath();
      g.roundRect(left, up, box, box, 5);
      g.fill();
      g.fillStyle = light;
      g.beginPath();
      g.roundRect(left + 2.5, up + 2.5, box - 5, box - 5, 3);
      g.fill();
      const tall = Math.max(2, Math.min(h, side)),
        from = up + box / 2 - tall / 2,
        holds = [['S'], ['S', 'P'], ['P'], ['S', 'P']][turn];
      holds.forEach((tensor, n) => {
        g.fillStyle = COLOURS[tensor];
        g.fillRect(left + pad + (n * side) / holds.length, from, side / holds.length, tall);
      });
      if (!text) return;
      g.font = `600 ${1.1 * em}px ${paint.font}`;
      const room = g.measureText(text).width + em,
        right = left + box + 8 + room < clip[0] + clip[2] - 4,
        at = right
          ? left + box + 8
          : left - 8 - room > clip[0]
            ? Math.min(left - 8, clip[0] + clip[2] - 4) - room
            : Math.max(clip[0] + 2, clip[0] + clip[2] - room - 4),
        middle = up + box / 2 + (right || left - 8 - room > clip[0] ? 0 : box / 2 + 1.2 * em);
      g.fillStyle = light;
      g.beginPath();
      g.roundRect(at, middle - 0.9 * em, room, 1.8 * em, 6);
      g.fill();
      g.fillStyle = fill;
      g.textAlign = 'left';
      g.fillText(text, at + em / 2, middle + 0.38 * em);
    });
  },
};
