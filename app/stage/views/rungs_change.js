// What a rung changes: a row for before and a row for now, each with a small drawing and a bar of recorded time. All bars of
// a card have one scale. Places only.
import { COLOURS, PALETTE, rgb, blend } from '../core/paint.js';
import { wrapped } from '../core/wrapped.js';
import { SAVED, timeOf } from './rungs_end.js';

const BAR = 1.6; // em: of time
const THICK = 2.3; // em: of time, with words in it
const LINE = 1.3; // em
const [QUEUE, FREE] = [PALETTE.wrong, PALETTE.wavefronts.before]; // orange and blue, as in the stop Banks
const CELLS = 4; // of a small drawing: rows, banks, words

/** @typedef {{paint: Paint, px: number, wide: import('./rungs_marks.js').Wide}} Given px: of text */

/** The height of so many bars, in em. */
export const barsHeight = (/** @type {number} */ count) => count * (BAR + 0.4);

/**
 * Bars of time under each other, on one scale, each with its words.
 * @param {import('../core/kinds.js').Marks} made
 * @param {number[]} area
 * @param {{id: string, us: number, said: string, fill: string, less?: number, kind?: string, bare?: boolean}[]} bars less: µs
 *   of the bar before it. kind: what the change saves. bare: without its time
 * @param {Given} given
 * @param {string} [gone] a word for a saved part
 */
export function addBars(made, [x, y, w, h], bars, { paint, px, wide }, gone = '') {
  const most = Math.max(...bars.map(({ us, less }) => Math.max(us, less ?? 0))),
    pitch = h / bars.length,
    high = Math.min((bars.length > 2 ? THICK : BAR) * px, pitch - 3);
  bars.forEach(({ id, us, said, fill, less = 0, kind = '', bare }, n) => {
    const long = Math.max(2, (w * us) / most),
      top = y + (n + 1) * pitch - high,
      time = bare ? '' : timeOf(us),
      [base, name, room] = [top + high / 2 + 0.35 * px, wide(said, true, px), wide(time, true, px)],
      inside = name + room + 1.6 * px < long,
      saved = (w * less) / most - long;
    if (saved > 1) {
      const rect = [x + long + 1, top, saved - 1, high];
      made.rect(`bar ${id} saved`, rect, {
        ...{ fill: blend(rgb(SAVED[kind]), rgb(paint.background), 0.3), stroke: SAVED[kind], dash: [3, 3] },
        ...{ enter: { rect: [x + long + saved, top, 0, high] }, span: [0.4, 1] },
      });
      if (gone && wide(gone, false, px) + px < saved)
        made.text(`bar ${id} gone`, [x + long + saved / 2, base], gone, { align: 'center', size: px, span: [0.6, 1] });
    }
    made.rect(`bar ${id}`, [x, top, long, high], { fill, ease: 'both' });
    if (inside || (!said && room + px < long)) {
      if (said) made.text(`bar ${id} is`, [x + 0.6 * px, base], said, { bold: true, fill: paint.background, size: px });
      made.text(`bar ${id} time`, said ? [x + long - 0.6 * px, base] : [x + 0.6 * px, base], time, {
        ...{ bold: true, fill: paint.background, size: px, align: said ? 'right' : 'left' },
      });
    } else {
      const own = name + px < long; // the words are in the bar, and the time is after it
      if (own) made.text(`bar ${id} is`, [x + 0.6 * px, base], said, { bold: true, fill: paint.background, size: px });
      made.text(
        `bar ${id} time`,
        [x + long + Math.max(0, saved) + 0.5 * px, base],
        own ? time : [said, time].filter(Boolean).join(' '),
        { bold: true, size: px },
      );
    }
  });
}

/**
 * The rows of a change, or of several that share a step.
 * @param {import('../core/kinds.js').Marks} made
 * @param {number[]} area
 * @param {Given & {meta: timing.RungsMeta, now: import('./rungs_marks.js').Now}} given
 */
export function addChange(made, [x, y, w, h], { meta, now, paint, px, wide }) {
  const given = { paint, px, wide },
    { us } = now.problem,
    rowOf = (/** @type {string} */ id) => /** @type {timing.Rung} */ (meta.rungs.find(one => one.id === id)),
    stairs = now.stairs,
    before = stairs[stairs.indexOf(now.adds[0]) - 1],
    past = blend(rgb(paint.text), rgb(paint.background), 0.62);
  if (now.adds.length > 1) {
    const [{ change }] = now.adds.map(rowOf),
      bars = now.adds.map((id, n) => ({
        ...{ id, us: us[id], said: rowOf(id).change.at(-1) ?? '', fill: paint.primary, kind: rowOf(id).saves },
        ...{ less: us[stairs[stairs.indexOf(id) - 1]], bare: n < now.adds.length - 1 },
      }));
    const all = [{ id: 'before', us: us[before], said: change[0], fill: past }, ...bars];
    return addBars(made, [x, y, w, Math.min(h, 3 * px * all.length)], all, given);
  }
  const { id: kernel, change, saves } = rowOf(now.rung),
    pitch = h / 2;
  change.forEach((text, n) => {
    const top = y + n * pitch,
      parts = text.split('; '),
      each = (w - (parts.length - 1) * px) / parts.length,
      lines = parts.map(part => wrapped(part, each, 2, one => wide(one, true, px))),
      from = (LINE * Math.max(...lines.map(({ length }) => length)) + 0.5) * px;
    lines.forEach((part, at) =>
      part.forEach((line, row) =>
        made.text(`change ${n} caption ${at} ${row}`, [x + at * (each + px), top + (0.9 + LINE * row) * px], line, {
          ...{ bold: n > 0, size: px },
        }),
      ),
    );
    draw(made, [x, top + from, w, pitch - from - (BAR + 1.1) * px], kernel, n > 0, given);
    const bar = n
      ? { id: 'now', us: us[kernel], said: '', fill: paint.primary, less: us[before], kind: saves }
      : { id: 'before', us: us[before], said: '', fill: past };
    // the bar of before is as long as its row: both rows have one scale
    addBars(made, [x, top + pitch - (BAR + 0.7) * px, w, (BAR + 0.2) * px], [bar], given, meta.words.saved);
  });
}

/** @type {(made: import('../core/kinds.js').Marks, area: [number, number, number, number], kernel: string, now: boolean,
 *  given: Given) => void} */
function draw(made, [x, y, w, h], kernel, now, { paint, px, wide }) {
  const id = `change ${kernel} ${now}`,
    far = blend(rgb(COLOURS.K), rgb(paint.background), 0.25),
    grey = blend(rgb(paint.text), rgb(paint.background), 0.16),
    box = (/** @type {string} */ name, /** @type {number[]} */ rect, /** @type {string} */ fill, more = {}) =>
      made.rect(`${id} ${name}`, rect, { ...(fill && { fill }), ...more }),
    dashed = (/** @type {string} */ name, /** @type {number[]} */ rect, stroke = paint.text) =>
      made.rect(`${id} ${name}`, rect, { stroke, dash: [3, 3] }),
    arrow = (
      /** @type {string} */ name,
      /** @type {[number, number]} */ from,
      /** @type {[number, number]} */ to,
      width = 1.5,
    ) =>
      made.add(`${id} ${name}`, 'way', null, {
        ...{ points: [from, to], stroke: paint.text, width, head: 2.2 * width, grown: 1, enter: { grown: 0 } },
      }),
    inside = (
      /** @type {string} */ name,
      /** @type {number[]} */ [bx, by, bw, bh],
      /** @type {string} */ text,
      fill = '#fff',
    ) =>
      wide(text, false, px) < bw - 2 &&
      bh > px &&
      made.text(`${id} ${name} is`, [bx + bw / 2, by + bh / 2 + 0.35 * px], text, {
        ...{ align: 'center', fill, size: px },
      }),
    u = h / CELLS,
    four = Array.from({ length: CELLS }, (_, n) => n);
  if (kernel === '02_tiled') {
    // memory at the left, four rows of a tile at the right
    const side = 0.3 * w;
    box('memory', [x, y, side, h], far);
    inside('memory', [x, y, side, h], 'memory', paint.text);
    for (const n of four) box(`row ${n}`, [x + w - side, y + n * u, side, u - 2], COLOURS.Q);
    if (now) {
      const tile = [x + 0.5 * w - 0.09 * w, y + 0.2 * h, 0.18 * w, 0.6 * h];
      arrow('fetch', [x + side + 3, y + h / 2], [tile[0] - 3, y + h / 2], 4);
      box('tile', tile, COLOURS.K);
      inside('tile', tile, 'tile');
      for (const n of four)
        arrow(`use ${n}`, [tile[0] + tile[2] + 3, y + h / 2], [x + w - side - 3, y + (n + 0.5) * u - 1], 1.5);
    } else
      for (const n of four)
        arrow(`fetch ${n}`, [x + side + 3, y + (n + 0.5) * u - 1], [x + w - side - 3, y + (n + 0.5) * u - 1], 2);
  } else if (kernel === '03_flash') {
    if (now) {
      const tile = Math.min(h, w / 9);
      for (let n = 0; n < 6; n++) {
        const rect = [x + n * tile, y + (h - tile) / 2, tile - 3, tile - 3];
        if (n === 3) box('tile', rect, COLOURS.S);
        else dashed(`tile ${n}`, rect);
      }
      const kept = [x + 6.6 * tile, y + (h - tile) / 2, Math.min(w - 6.6 * tile, 4 * px), tile - 3];
      box('kept', kept, COLOURS.P);
      inside('kept', kept, 'm, l');
    } else
      for (const [n, part] of /** @type {[number, 'S' | 'P'][]} */ ([
        [0, 'S'],
        [1, 'P'],
      ])) {
        const square = [x + n * (h + px), y, h, h];
        box(part, square, COLOURS[part]);
        inside(part, square, part);
      }
  } else if (kernel === '04_warp_rows' || kernel === '07_swizzle') {
    // four words of a read: in one bank they queue
    const isGrid = kernel === '07_swizzle',
      cell = Math.min(0.13 * w, 3.6 * px),
      fill = now ? FREE : QUEUE;
    for (const bank of four) {
      const left = x + bank * (cell + 3);
      for (const row of isGrid ? four : []) box(`cell ${bank} ${row}`, [left, y + row * u, cell, u - 2], grey);
      if (!isGrid) box(`bank ${bank}`, [left, y + h - 2, cell, 2], paint.text);
    }
    for (const n of four) {
      const left = x + (now ? n : 0) * (cell + 3);
      box(`word ${n}`, [left, isGrid ? y + n * u : y + h - 3 - ((now ? 0 : n) + 1) * (u - 0.75), cell, u - 2], fill);
    }
    const right = x + CELLS * (cell + 3) + 0.8 * px;
    made.text(`${id} turns`, [right, y + h / 2 + 0.45 * px], now ? '1 turn' : '4 turns', {
      bold: true,
      fill: now ? paint.primary : QUEUE,
      size: 1.3 * px,
    });
  } else if (kernel === '05_register_tiles') {
    const side = 0.28 * w,
      key = [x, y + h / 2 - Math.min(0.9 * px, h / 2), side, Math.min(1.8 * px, h)];
    box('key', key, COLOURS.K);
    inside('key', key, 'a key');
    for (const n of now ? four : [0]) {
      const at = now ? y + (n + 0.5) * u : y + h / 2;
      box(`query ${n}`, [x + w - side, at - u / 2 + 1, side, u - 2], COLOURS.Q);
      arrow(`arrow ${n}`, [x + side + 3, y + h / 2], [x + w - side - 4, at]);
    }
  } else if (kernel === '06_mma') {
    const cell = Math.min(u, w / 17),
      count = now ? CELLS : 1,
      top = y + (h - count * cell) / 2;
    for (const [g, hue] of [COLOURS.Q, COLOURS.K, COLOURS.S].entries()) {
      const from = x + g * (count + 1.8) * cell;
      for (let n = 0; n < count * count; n++)
        box(`${g} ${n}`, [from + (n % count) * cell, top + Math.floor(n / count) * cell, cell - 1.5, cell - 1.5], hue);
      if (g)
        made.text(`${id} sign ${g}`, [from - 0.9 * cell, y + h / 2 + 0.35 * px], g > 1 ? '=' : '\u00d7', {
          ...{ align: 'center', bold: true, size: 1.2 * px },
        });
    }
  } else if (kernel === '08_pipeline') {
    // a place for a tile, or two: while one is worked on, the next arrives
    const side = 0.22 * w,
      places = now ? 2 : 1,
      high = now ? h / 2 - 2 : 0.7 * h,
      topOf = (/** @type {number} */ n) => (now ? y + n * (h / 2 + 2) : y + 0.15 * h),
      middle = x + 0.42 * w;
    box('memory', [x, y, side, h], far);
    inside('memory', [x, y, side, h], 'memory', paint.text);
    for (let n = 0; n < places; n++) {
      const rect = [middle, topOf(n), 0.2 * w, high],
        copied = n === places - 1;
      if (copied) {
        made.rect(`${id} place ${n}`, rect, { fill: far, stroke: COLOURS.K, dash: [3, 3] });
        arrow('copy', [x + side + 3, topOf(n) + high / 2], [middle - 3, topOf(n) + high / 2], 3);
      } else box(`place ${n}`, rect, COLOURS.K);
      inside(`place ${n}`, rect, now ? (copied ? 'next' : 'tile') : 'tile', copied ? paint.text : '#fff');
    }
    const work = [x + w - side, now ? topOf(0) : y + 0.15 * h, side, high];
    if (now) {
      arrow('use', [middle + 0.2 * w + 3, topOf(0) + high / 2], [work[0] - 3, topOf(0) + high / 2], 3);
      box('work', work, COLOURS.S);
      inside('work', work, 'work');
    } else {
      dashed('work', work, QUEUE);
      inside('work', work, 'waits', QUEUE);
    }
  } else if (kernel === '09_wgmma') {
    // a tile comes by many requests or by one. Four warps multiply each for itself, or together
    const half = (w - px) / 2,
      side = 0.32 * half,
      right = x + half + px;
    box('memory', [x, y, side, h], far);
    box('tile', [x + half - side, y, side, h], COLOURS.K);
    const arrows = now ? 1 : 6;
    for (let n = 0; n < arrows; n++) {
      const at = y + ((n + 0.5) * h) / arrows;
      arrow(`arrow ${n}`, [x + side + 3, at], [x + half - side - 3, at], now ? 5 : 1.2);
    }
    if (now) {
      box('product', [right, y, half, h], COLOURS.S);
      inside('product', [right, y, half, h], '4 warps, 1 product');
    } else
      for (const n of four) {
        const rect = [right + (n * half) / CELLS, y + 0.15 * h, half / CELLS - 3, 0.7 * h];
        box(`product ${n}`, rect, COLOURS.S);
        inside(`product ${n}`, rect, `${n + 1}`);
      }
  }
}
