// Two chips over one memory, as marks. It gets all values and computes places only. One scale at every length: a token
// has the same pixels, so the tile stays as large as it was and the square runs off.
import { Marks } from '../core/kinds.js';
import { COLOURS } from '../core/paint.js';

const TILE_KEYS = 128; // keys of the tile under a chip, to the same scale as all else
const GAP = 4; // between the strips
const ORDER = ['K', 'V', 'S', 'P', 'Q', 'O'];
const NAMES = ['Store S and P', 'Keep a tile on the chip'];
const FACTS = 3; // rows of recorded figures

/** @param {{width: number, height: number, em: number}} size */
export function raceLayout({ width, height, em }) {
  const half = width / 2,
    narrow = width < 700,
    big = narrow ? 1.5 * em : 2 * em,
    odometer = narrow ? 3.4 * em : big,
    bar = { y: 1.1 * big + odometer * (narrow ? 1 : 0.35), h: 1.5 * em },
    facts = bar.y + bar.h + 0.4 * em,
    line = 1.45 * em,
    top = facts + FACTS * line + 0.6 * em,
    room = Math.max(12 * em, height - top),
    scale = Math.min(0.6 * half, 0.66 * room) / 2048, // pixels of a token
    strip = Math.max(1.15 * em, TILE_KEYS * scale);
  return {
    ...{ width, height: top + room, em, half, narrow, big, bar, facts, line, top, scale, strip },
    pad: narrow ? 4 : 1.4 * em,
  };
}

/** @typedef {ReturnType<typeof raceLayout>} Layout */
/**
 * @typedef {object} Side
 * @property {number} bytes moved so far
 * @property {number} all
 * @property {Record<string, number>} parts
 * @property {number} stage of its stages, 0 for S, 1 for P, 2 for O; 3: all at once
 * @property {number} row of tiles
 * @property {number} key first key of the tile
 * @property {boolean} done
 * @property {[string, number, string][]} facts [name, share of the longest or -1, value] of its recorded figures
 */
/**
 * @param {Layout} at
 * @param {{tokens: number, drawn: number, height: number, causal: boolean, tiles: number, whole: number,
 *   sides: Side[], says: (bytes: number) => [string, string], recorded: boolean}} now drawn: tokens on their way
 * @param {Paint} paint
 */
export function raceMarks(at, now, paint) {
  const made = new Marks(at.em);
  made.rect('memory', [0, at.top, at.width, at.height - at.top], { fill: paint.panel });
  now.sides.forEach((side, n) => addSide(made, at, now, side, n, paint));
  made.add('border', 'line', [at.half, at.top, 0, at.height - at.top], { stroke: paint.border });
  if (!at.narrow) made.text('memory is', [at.width - at.pad, at.top + 1.3 * at.em], 'memory', { align: 'right' });
  return made.list;
}

/** @type {(made: Marks, at: Layout, now: Parameters<typeof raceMarks>[1], side: Side, n: number, paint: Paint) => void} */
function addSide(made, at, now, side, n, paint) {
  const left = n * at.half + at.pad,
    wide = at.half - 2 * at.pad,
    [value, unit] = now.says(side.bytes),
    { em, bar, narrow } = at;
  made.text(`name ${n}`, [left, 0.8 * at.big], NAMES[n], { bold: true, size: 0.75 * at.big });
  const place = narrow ? [left, 0.8 * at.big + 2 * em] : [left + wide, 0.8 * at.big];
  made.text(`moved ${n}`, [place[0], place[1]], `${value} ${unit} moved`, {
    ...{ bold: true, size: narrow ? 1.25 * em : 0.85 * at.big, align: narrow ? 'left' : 'right' },
    ...{ datum: { kind: 'moved', side: n }, tip: `${value} ${unit} moved, modelled` },
  });
  made.rect(`bar ${n}`, [left, bar.y, wide, bar.h], { fill: paint.panel });
  let x = left;
  for (const tensor of ORDER) {
    const w = (wide * side.parts[tensor]) / now.whole,
      says = now.says(side.parts[tensor]).join(' ');
    made.rect(`part ${n} ${tensor}`, [x, bar.y, w, bar.h], {
      ...{ fill: COLOURS[tensor], datum: { kind: 'part', side: n, tensor }, tip: `${tensor}: ${says} moved, modelled` },
    });
    if (w > 1.4 * em)
      made.text(`part ${n} ${tensor} is`, [x + w / 2, bar.y + 1.1 * em], tensor, {
        bold: true,
        align: 'center',
        fill: '#fff',
      });
    x += w;
  }
  side.facts.forEach(([name, share, says], row) => {
    const y = at.facts + (row + 0.75) * at.line,
      from = left + (narrow ? 0 : 10 * em),
      most = left + wide - from - 6 * em;
    if (narrow) return made.text(`fact ${n} ${row}`, [left, y, wide], `${name}: ${says}`);
    made.text(`fact ${n} ${row}`, [left, y], name);
    if (share >= 0)
      made.rect(`time ${n} ${row}`, [from, y - 0.75 * em, Math.max(2, share * most), 0.9 * em], { fill: paint.text });
    made.text(`fact ${n} ${row} is`, [from + (share >= 0 ? Math.max(2, share * most) + 0.5 * em : 0), y], says, {
      ...{ bold: true, datum: { kind: 'fact', side: n, name }, tip: `${name}: ${says}, recorded` },
    });
  });
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
      ...{ fill: COLOURS[tensor], alpha, clip, em },
      text: alpha === 1 ? tensor : '',
    });
  bar('K', [x, y - corner, size, strip]);
  bar('V', [x, y - strip - GAP, size, strip]);
  bar('Q', [x - corner, y, strip, size]);
  bar('O', [x - strip - GAP, y, strip, size], 0.14);
  bar('O', [x - strip - GAP, y, strip, turn >= 2 ? rows : 0]);
  const common = { clip, size, causal: now.causal, line: paint.border, light: paint.background };
  if (!stores) made.add('empty', 'empty', [x, y, size, size], { ...common, stroke: paint.text });
  for (const [tensor, from, all] of /** @type {[string, number, boolean][]} */ ([
    ['S', 0, turn > 0 || side.done],
    ['P', sheet, turn > 1 || side.done],
  ])) {
    if (!stores || (tensor === 'P' && turn === 0)) continue;
    const whole = at.height - y - from;
    made.add(`ink ${tensor}`, 'ink', [x + from, y + from, size, size], {
      ...{
        ...common,
        fill: COLOURS[tensor],
        rows: all ? size : rows,
        key: all ? 0 : key,
        tall,
        step: TILE_KEYS * scale,
        em,
      },
      ...{
        letter: all ? tensor : '',
        screens: tensor === 'P' ? size / whole : 0,
        room: [at.half - (x - n * at.half) - from, whole],
      },
    });
  }
  const often = side.done || !side.row ? '' : `: ${side.row + 1} of ${now.tiles.toLocaleString('en')}`,
    times = now.tiles === 1 ? 'once' : `${now.causal ? 'up to ' : ''}${now.tiles.toLocaleString('en')} times`,
    which = turn === 3 || side.done ? 'K, V' : turn === 0 ? 'K' : 'V';
  if (turn !== 1 || side.done)
    made.text(
      `again ${n}`,
      [at.narrow ? left : x, y - corner - 0.5 * em],
      side.done ? `K, V read ${times}` : `${which} read again${often}`,
      { bold: true },
    );
  const inSight = [at.half - (x - n * at.half) - shift - wide - 1.5 * em, at.height - y - shift - tall - 2.2 * em],
    top = side.done
      ? Math.min(size - tall, inSight[1])
      : Math.min(side.row * now.height * scale, at.height - y - tall / 2),
    across = side.done ? (size < 4 * em ? size + 1.6 * em : Math.min(size - wide, inSight[0])) : key;
  made.add(`chip ${n}`, 'chip', [x + shift + across, y + shift + Math.max(0, top), wide, tall], {
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
  strip(g, { rect: [x, y, w, h], fill, clip, text, em }, paint) {
    within(g, clip, () => {
      g.fillStyle = fill;
      g.fillRect(x, y, w, h);
      if (!text || Math.max(w, h) < 1.4 * em || Math.min(w, h) < em) return;
      g.fillStyle = '#fff';
      g.font = `600 ${em}px ${paint.font}`;
      g.textAlign = 'center';
      g.fillText(text, x + Math.min(w, 0.9 * em) / 2 + (w > h ? 2 : 0), y + Math.min(h, em) * 0.8);
    });
  },
  // where the square would be
  empty(g, { rect: [x, y, size], clip, causal, line, stroke }) {
    within(g, clip, () => {
      if (causal) masked(g, x, y, size, line);
      g.strokeStyle = stroke;
      g.lineWidth = 1.5;
      g.setLineDash([3, 6]);
      g.strokeRect(x, y, size, size);
      g.setLineDash([]);
    });
  },
  // a stored matrix, as far as it is written
  ink(
    g,
    { rect: [x, y, size], clip, causal, line, light, fill, rows, key, tall, step, letter, screens, room, em },
    paint,
  ) {
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
      if (!letter || size < 3 * em) return;
      g.fillStyle = '#fff';
      g.textAlign = 'center';
      if (letter === 'S') {
        g.font = `600 ${em}px ${paint.font}`;
        g.fillText('S', x + 0.8 * em, causal ? y + high / 2 : y + 1.2 * em);
        return;
      }
      const inner = Math.min(wide, high), // of the triangle in sight
        across = causal ? 0.28 * inner : wide / 2,
        down = causal ? 0.78 * inner : high / 2,
        large = Math.min(0.3 * inner, 8 * em);
      g.font = `600 ${large}px ${paint.font}`;
      g.fillText('P', x + across, y + down);
      if (screens <= 1.1 || causal) return;
      g.font = `600 ${1.3 * em}px ${paint.font}`;
      g.fillText(`${screens.toFixed(1)} screens tall`, x + across, y + down + 2 * em, room[0] - 8);
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
            ? left - 8 - room
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
