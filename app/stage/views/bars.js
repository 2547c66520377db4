// The needs and the time of a pair of kernels: a row for each, with a bar of A and a bar of B on one
// scale.
import { canvasView } from '../core/canvas.js';
import { blend, COLOURS, rgb } from '../core/paint.js';

const HEAD = 0.4; // em: above the first row
const TINT = { bytes: COLOURS.read, wavefronts: COLOURS.K, time: COLOURS.O };
const SHADES = [0.9, 0.45]; // of A, of B

export default function (host, { meta }, context) {
  const { rows, names } = meta;
  let em,
    width = 1,
    high = 1;

  const layout = size => {
    ({ em, width } = size);
    high = Math.max(4.4 * em, Math.min(10 * em, (size.height - HEAD * em) / rows.length));
    return Math.ceil(HEAD * em + rows.length * high);
  };
  const draw = (g, { at, paint }) =>
    rows.forEach((row, n) => drawRow(g, paint, row, HEAD * em + n * high, row.id === at?.row));
  // A value that is only a part of a side's need has no bar: it would look small.
  const drawRow = (g, paint, { id, title, values, said, parts }, y, lit) => {
    const sides = names.map((name, n) => `${'AB'[n]}: ${name}`);
    g.fillStyle = paint.text;
    g.font = `${lit ? 600 : 500} ${em}px ${paint.font}`;
    g.fillText(title, 4, y + 1.2 * em, width - 8);
    const left = Math.min(0.3 * width, Math.max(...sides.map(t => g.measureText(t).width)) + em),
      room = width - left - 8 * em,
      tall = Math.min(2.6 * em, (high - 2.4 * em) / 2);
    values.forEach((value, n) => {
      const w = parts[n] ? 0 : Math.max(2, (room * value) / Math.max(...values)),
        top = y + 1.7 * em + n * tall,
        base = top + tall / 2 + 0.35 * em;
      g.fillStyle = blend(rgb(TINT[id]), rgb(paint.background), SHADES[n]);
      g.fillRect(left, top, w, tall - 2);
      g.fillStyle = paint.text;
      g.font = `${em}px ${paint.font}`;
      g.fillText(sides[n], 4, base, left - 8);
      g.font = `600 ${1.1 * em}px ${paint.font}`;
      g.fillText(said[n], left + w + 0.5 * em, base);
    });
  };
  // Inside the edges, so that a frame around a row is whole.
  const locate = (x, y) => {
    const n = Math.floor((y - HEAD * em) / high),
      titled = y - HEAD * em - n * high < 1.6 * em; // a question leaves the titles
    return n >= 0 && n < rows.length && !titled && x >= 3 && x <= width - 3
      ? { row: rows[n].id }
      : null;
  };
  const describe = ({ row }) => {
    const { title, said } = rows.find(one => one.id === row);
    return `${title}\nA ${said[0]}, B ${said[1]}`;
  };
  const label = () =>
    rows.map(({ title, said }) => `${title}: A ${said[0]}, B ${said[1]}`).join('. ');
  return canvasView(host, context, {
    title: 'Needs and time',
    layout,
    draw,
    locate,
    describe,
    label,
  });
}
