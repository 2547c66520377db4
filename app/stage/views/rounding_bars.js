// The picture of rounding for a guided reader: how far each step moves O, in the type of the kernel,
// and next to it the error in the end, in each type. Each part has one linear scale.
import { blend, rgb, smallText } from '../core/paint.js';

const LEAST = 44, // em: a narrower picture has its parts one under the other
  LABEL = 9.6, // em: the names of the steps
  NUMBER = 5, // em: right of a bar
  HEAD = 2.2, // em: a title
  FEW = 7.5; // em: of the map of O at least

/**
 * Where the parts are: {steps, types, map}, each with x, y, w and h, the first two with the height of
 * a row, and the height of all.
 * @param {{width: number, height: number, em: number}} size
 * @param {number} steps
 * @param {number} types
 */
export function barsLayout({ width, height, em }, steps, types) {
  const apart = width < LEAST * em,
    w = apart ? width - 2 : 0.58 * width,
    room = apart ? 2.2 * em * steps : height - HEAD * em - 4,
    row = Math.max(1.7 * em, Math.min(3.4 * em, room / steps)),
    first = { x: 0, y: HEAD * em, w, row, h: row * steps },
    x = apart ? 0 : w + 1.6 * em,
    right = width - x - 2,
    top = apart ? first.y + first.h + 1.2 * em : 0,
    each = 2.9 * em,
    second = { x, y: top + HEAD * em, w: right, row: each, h: each * types },
    under = second.y + second.h + (HEAD + 0.6) * em,
    least = Math.max(FEW * em, Math.min(height - under - 4, 12 * em)),
    map = { x, y: under, w: right, h: least };
  const high = Math.max(first.y + first.h, map.y + map.h) + 4;
  return { steps: first, types: second, map, height: Math.ceil(high) };
}

/**
 * @param {CanvasRenderingContext2D} g
 * @param {any} paint
 * @param {number} em
 * @param {ReturnType<typeof barsLayout>} box
 * @param {{label: string, steps: {name: string, value: number, tint: string, now: boolean}[],
 *   types: {name: string, value: number, tint: string, own: boolean}[],
 *   short: (value: number) => string, wrong: string}} shown
 */
export function drawBars(g, paint, em, box, { label, steps, types, short, wrong }) {
  const small = smallText(em);
  const title = (text, { x, y, w }) => {
    g.fillStyle = paint.text;
    g.font = `600 ${em}px ${paint.font}`;
    g.fillText(text, x, y - 0.8 * em, w);
  };
  const most = all => Math.max(1e-30, ...all.map(one => one.value).filter(Number.isFinite));
  const bar = (value, largest, x, y, w, h, tint, bold) => {
    const finite = Number.isFinite(value),
      long = finite ? Math.max(1, (value / largest) * (w - NUMBER * em)) : 0.5 * em;
    g.fillStyle = finite ? blend(rgb(tint), rgb(paint.background), bold ? 0.85 : 0.6) : wrong;
    g.fillRect(x, y, long, h);
    g.fillStyle = paint.text;
    g.font = `${bold ? 600 : 400} ${em}px ${paint.font}`;
    g.fillText(short(value), x + long + 0.4 * em, y + h / 2 + 0.36 * em);
  };
  title(`${label}: how far each step moves O (RMS)`, box.steps);
  const largest = most(steps);
  steps.forEach(({ name, value, tint, now }, n) => {
    const { x, w, row } = box.steps,
      y = box.steps.y + n * row;
    if (now) {
      g.fillStyle = paint.panel;
      g.fillRect(x, y, w, row);
    }
    g.fillStyle = paint.text;
    g.font = `${now ? 600 : 400} ${em}px ${paint.font}`;
    g.fillText(name, x + 4, y + row / 2 + 0.36 * em, LABEL * em - 8);
    bar(value, largest, x + LABEL * em, y + 0.2 * row, w - LABEL * em, 0.6 * row, tint, now);
  });
  title('In the end: error of O (RMS), by type', box.types);
  const all = most(types);
  types.forEach(({ name, value, tint, own }, n) => {
    const { x, w, row } = box.types,
      y = box.types.y + n * row;
    g.fillStyle = paint.text;
    g.font = `${own ? 600 : 400} ${small}px ${paint.font}`;
    g.fillText(name, x, y + 0.85 * small, w);
    bar(value, all, x, y + 1.15 * em, w, 1.25 * em, tint, own);
  });
  title('Error of each number of O so far', { ...box.map, y: box.map.y - 1.1 * em });
}

/**
 * The rectangles of all steps, and of each type's bar.
 * @param {ReturnType<typeof barsLayout>} box
 * @param {number} em
 */
export function barRects({ steps, types }, em) {
  const { x, y, w, h } = steps,
    bars = Array.from({ length: Math.round(types.h / types.row) }, (_, type) => [
      ...[types.x, types.y + type * types.row + em, types.w, types.row - em],
    ]);
  return [[x + LABEL * em, y, w - LABEL * em, h], ...bars];
}
