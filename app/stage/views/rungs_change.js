// What a rung changes, as small drawings: before and now. Places only.
import { COLOURS, rgb, blend } from '../core/paint.js';
import { wrapped } from '../core/wrapped.js';

/** @typedef {[number, number, number, number]} Rect */
/** @typedef {[number, number, string][]} Track pieces of a line of time: its start and length, of 12, and its kind */
/** @type {Record<string, string>} kind of a piece -> its colour */
const PIECES = { copy: COLOURS.read, work: COLOURS.S, products: COLOURS.S, exp: COLOURS.P };
/** @type {Record<string, {before: Track[], now: Track[]}>} kernel -> lines of time */
const TRACKS = {
  '08_pipeline': {
    before: [
      [
        [0, 3, 'copy'],
        [3, 3, 'work'],
        [6, 3, 'copy'],
        [9, 3, 'work'],
      ],
    ],
    now: [
      [
        [0, 3, 'copy'],
        [3, 3, 'copy'],
        [6, 3, 'copy'],
      ],
      [
        [3, 3, 'work'],
        [6, 3, 'work'],
        [9, 3, 'work'],
      ],
    ],
  },
  '10_warp_roles': {
    before: Array(3).fill([
      [0, 3, 'copy'],
      [3, 3, 'work'],
      [6, 3, 'copy'],
      [9, 3, 'work'],
    ]),
    now: [[[0, 12, 'copy']], [[1, 11, 'work']], [[1, 11, 'work']]],
  },
  '11_overlap': {
    before: [
      [
        [0, 4, 'products'],
        [4, 2, 'exp'],
        [6, 4, 'products'],
        [10, 2, 'exp'],
      ],
    ],
    now: [
      [
        [0, 4, 'products'],
        [4, 4, 'products'],
        [8, 4, 'products'],
      ],
      [
        [4, 2, 'exp'],
        [8, 2, 'exp'],
      ],
    ],
  },
};
const HUES = [COLOURS.Q, COLOURS.K, COLOURS.V, COLOURS.O]; // of four banks
const SCORES = [3, 4, 3.5, 5, 4.5, 9]; // of six tiles, of 10

/**
 * Drawings with a caption each, next to each other.
 * @param {import('../core/kinds.js').Marks} made
 * @param {number[]} panel its rectangle
 * @param {{kernel: string, now: boolean, text: string}[]} drawings
 * @param {{paint: Paint, px: number, wide: import('./rungs_marks.js').Wide}} given px: of text
 */
export function addChange(made, [left, top, width, height], drawings, { paint, px, wide }) {
  // lines of time are long: under each other in a narrow panel
  const under = drawings[0].kernel in TRACKS && width < 30 * px && height > 10 * px,
    w = under ? width : (width - px) / 2,
    captions = drawings.map(({ text, now }) => wrapped(text, w, 2, one => wide(one, now, px))),
    from = (1.3 * Math.max(...captions.map(({ length }) => length)) + 0.6) * px,
    h = Math.min((under ? height / 2 - 0.4 * px : height) - from, 11 * px);
  drawings.forEach(({ kernel, now }, n) => {
    const x = left + (under ? 0 : n * (w + px)),
      y = top + (under ? (n * height) / 2 : 0);
    captions[n].forEach((line, at) =>
      made.text(`change ${kernel} ${n} caption ${at}`, [x, y + (1.1 + 1.3 * at) * px], line, { bold: now, size: px }),
    );
    draw(made, [x, y + from, w, h], kernel, now, { paint, px, wide });
  });
}

/** @type {(made: import('../core/kinds.js').Marks, area: Rect, kernel: string, now: boolean,
 *  given: {paint: Paint, px: number, wide: import('./rungs_marks.js').Wide}) => void} */
function draw(made, [x, y, w, h], kernel, now, { paint, px, wide }) {
  const id = `change ${kernel} ${now}`,
    box = (/** @type {string} */ name, /** @type {number[]} */ rect, /** @type {string} */ fill, more = {}) =>
      made.rect(`${id} ${name}`, rect, { ...(fill ? { fill } : { stroke: paint.border }), ...more }),
    dashed = (/** @type {string} */ name, /** @type {number[]} */ rect) =>
      made.rect(`${id} ${name}`, rect, { stroke: paint.text, dash: [3, 3] }),
    arrow = (/** @type {string} */ name, /** @type {number[][]} */ points, width = 1.5) =>
      made.add(`${id} ${name}`, 'way', null, {
        ...{ points, stroke: paint.text, width, head: 2.2 * width, grown: 1, enter: { grown: 0 } },
      }),
    inside = (
      /** @type {string} */ name,
      /** @type {number[]} */ [bx, by, bw, bh],
      /** @type {string} */ text,
      fill = '#fff',
    ) =>
      made.text(`${id} ${name} is`, [bx + bw / 2, by + bh / 2 + 0.35 * px, bw - 4], text, {
        align: 'center',
        fill,
        size: px,
      });
  if (kernel in TRACKS) {
    const lines = TRACKS[kernel][now ? 'now' : 'before'],
      most = Math.max(TRACKS[kernel].now.length, TRACKS[kernel].before.length),
      row = Math.min(h / most, 3.2 * px);
    lines.forEach((pieces, line) =>
      pieces.forEach(([from, long, kind], n) => {
        const rect = [x + (from * w) / 12, y + line * row, (long * w) / 12 - 2, row - 3];
        box(`${line} ${n}`, rect, PIECES[kind]);
        if (row > 1.25 * px && wide(kind, false, px) < rect[2] - 2) inside(`${line} ${n}`, rect, kind);
      }),
    );
    return;
  }
  const u = h / 4; // of four
  /** Memory at the left, and the threads at the right. */
  const sides = (/** @type {number} */ arrows, /** @type {number} */ thick, /** @type {boolean} */ whole) => {
    const wide = 0.34 * w,
      memory = [x, y, wide, h],
      chip = [x + w - wide, y, wide, h];
    box('memory', memory, blend(rgb(COLOURS.K), rgb(paint.background), 0.25));
    inside('memory', memory, 'memory', paint.text);
    if (whole) box('tile', chip, COLOURS.K);
    else Array.from({ length: 4 }, (_, n) => box(`tile ${n}`, [chip[0], y + n * u, wide, u - 2], COLOURS.K));
    Array.from({ length: arrows }, (_, n) => {
      const at = y + ((n + 0.5) * h) / arrows;
      return arrow(
        `arrow ${n}`,
        [
          [x + wide + 3, at],
          [x + w - wide - 3, at],
        ],
        thick,
      );
    });
    return chip;
  };
  const side = Math.min(h, 0.4 * w);
  if (kernel === '01_naive' || (kernel === '03_flash' && !now)) {
    for (const [n, part] of /** @type {[number, 'S' | 'P'][]} */ ([
      [0, 'S'],
      [1, 'P'],
    ])) {
      const square = [x + n * (side + px), y, side, side];
      box(part, square, COLOURS[part]);
      inside(part, square, part);
    }
  } else if (kernel === '03_flash') {
    const tile = Math.min(h, w / 9);
    Array.from({ length: 6 }, (_, n) =>
      n === 3
        ? box('tile', [x + n * tile, y, tile - 3, tile - 3], COLOURS.S)
        : dashed(`tile ${n}`, [x + n * tile, y, tile - 3, tile - 3]),
    );
    const kept = [x + 6.6 * tile, y, w - 6.6 * tile, tile - 3];
    box('kept', kept, COLOURS.P);
    inside('kept', kept, 'm, l');
  } else if (kernel === '02_tiled') sides(now ? 1 : 4, now ? 4 : 1.5, false);
  else if (kernel === '09_wgmma') {
    // a tile comes by six requests or by one, and many small products or a large one use it
    const tall = w < 1.6 * h,
      [cells, arrows] = now ? [1, 1] : [4, 6],
      [copyWide, copyHigh] = tall ? [w, 0.36 * h] : [0.5 * w, h],
      side = tall ? Math.min(w, h - copyHigh - 0.6 * px) : Math.min(h, w - copyWide - 2 * px),
      [left, top] = tall ? [x, y + copyHigh + 0.6 * px] : [x + copyWide + 1.5 * px, y],
      cell = side / cells;
    box('memory', [x, y, 0.3 * copyWide, copyHigh], blend(rgb(COLOURS.K), rgb(paint.background), 0.25));
    for (let n = 0; n < arrows; n++) {
      const at = y + ((n + 0.5) * copyHigh) / arrows;
      arrow(
        `arrow ${n}`,
        [
          [x + 0.3 * copyWide + 3, at],
          [x + 0.7 * copyWide - 3, at],
        ],
        now ? 4 : 1,
      );
    }
    box('tile', [x + 0.7 * copyWide, y, 0.3 * copyWide, copyHigh], COLOURS.K);
    if (now && 0.3 * copyWide > 1.2 * wide('tile', false, px))
      inside('tile', [x + 0.7 * copyWide, y, 0.3 * copyWide, copyHigh], 'tile');
    for (let n = 0; n < cells * cells; n++)
      box(
        `product ${n}`,
        [left + (n % cells) * cell, top + Math.floor(n / cells) * cell, cell - 2, cell - 2],
        COLOURS.S,
      );
    if (now && side > wide('product', false, px) + 8) inside('product', [left, top, side, side], 'product');
  } else if (kernel === '04_warp_rows') {
    const wide = Math.min(w / 6, 3 * px);
    Array.from({ length: 4 }, (_, n) => {
      const bank = now ? n : 0,
        up = now ? 0 : n;
      box(`bank ${n}`, [x + n * (wide + 4), y + h - 1.5, wide, 1.5], paint.text);
      return box(`word ${n}`, [x + bank * (wide + 4), y + h - 2 - (up + 1) * u, wide, u - 2], COLOURS.K);
    });
  } else if (kernel === '05_register_tiles') {
    const wide = 0.3 * w,
      key = [x, y + h / 2 - 0.8 * px, wide, 1.6 * px];
    box('key', key, COLOURS.K);
    inside('key', key, 'key');
    Array.from({ length: now ? 4 : 1 }, (_, n) => {
      const at = now ? y + (n + 0.5) * u : y + h / 2;
      box(`query ${n}`, [x + w - wide, at - u / 2, wide, u - 2], COLOURS.Q);
      return arrow(`arrow ${n}`, [
        [x + wide + 3, y + h / 2],
        [x + w - wide - 4, at],
      ]);
    });
  } else if (kernel === '06_mma') {
    const cell = Math.min(u, w / 16),
      count = now ? 4 : 1;
    for (const [g, hue] of [COLOURS.Q, COLOURS.K, COLOURS.S].entries()) {
      const from = x + g * (count + 1.6) * cell;
      for (let n = 0; n < count * count; n++)
        box(`${g} ${n}`, [from + (n % count) * cell, y + Math.floor(n / count) * cell, cell - 1.5, cell - 1.5], hue);
      if (g)
        made.text(`${id} sign ${g}`, [from - 0.8 * cell, y + (count * cell) / 2 + 0.3 * px], g > 1 ? '=' : '×', {
          ...{ align: 'center', size: px },
        });
    }
  } else if (kernel === '07_swizzle') {
    const wide = Math.min(w / 6, 3 * px);
    for (let n = 0; n < 16; n++) {
      const [row, col] = [Math.floor(n / 4), n % 4];
      box(`${n}`, [x + col * wide, y + row * u, wide - 2, u - 2], HUES[now ? row ^ col : col]);
    }
    made.rect(`${id} column`, [x - 2, y - 2, wide + 2, h + 2], { stroke: paint.text, width: 2 });
  } else if (kernel === '12_optimistic') {
    const each = w / SCORES.length;
    let most = 0;
    SCORES.forEach((score, n) => {
      const before = most;
      if (!now || !n || score > most + 3) most = Math.max(most, score);
      const high = (score * h) / 10;
      box(
        `score ${n}`,
        [x + n * each + 2, y + h - high, each - 4, high],
        blend(rgb(COLOURS.S), rgb(paint.background), 0.45),
      );
      box(`max ${n}`, [x + n * each, y + h - (most * h) / 10 - 1.5, each, 3], most > before ? COLOURS.O : paint.text);
    });
  }
}
