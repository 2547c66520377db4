// The needs and the time of one side of a pair: a row for each, with the other side's bar in pale
// below it. Both sides have one scale.
import { canvasView } from '../core/canvas.js';
import { blend, COLOURS, rgb } from '../core/paint.js';

const HEAD = 2; // em: the name of the side
const TINT = { bytes: COLOURS.read, wavefronts: COLOURS.K, time: COLOURS.O };

export default function (host, { meta }, context) {
  const { rows, names, own } = meta,
    other = 1 - own,
    side = n => 'AB'[n];
  let em,
    width = 1,
    high = 1;

  const layout = size => {
    ({ em, width } = size);
    high = Math.max(4.4 * em, Math.min(10 * em, (size.height - HEAD * em) / rows.length));
    return Math.ceil(HEAD * em + rows.length * high);
  };
  const draw = (g, { at, paint }) => {
    g.fillStyle = paint.text;
    g.font = `600 ${1.15 * em}px ${paint.font}`;
    g.fillText(`${side(own)}: ${names[own]}`, 0, 1.3 * em, width);
    rows.forEach((row, n) => drawRow(g, paint, row, HEAD * em + n * high, row.id === at?.row));
  };
  const drawRow = (g, paint, { id, title, values, said }, y, lit) => {
    g.fillStyle = paint.text;
    g.font = `${lit ? 600 : 400} ${em}px ${paint.font}`;
    g.fillText(title, 0, y + 1.1 * em, width - 4);
    const room = width - 9 * em,
      thick = high - 3.6 * em,
      most = Math.max(...values),
      tint = rgb(TINT[id]);
    [
      [own, y + 1.4 * em, thick, 0.9],
      [other, y + 1.6 * em + thick, 1.1 * em, 0.25],
    ].forEach(([n, top, tall, share]) => {
      const w = Math.max(2, (room * values[n]) / most);
      g.fillStyle = blend(tint, rgb(paint.background), share);
      g.fillRect(0, top, w, tall);
      g.fillStyle = paint.text;
      g.font = `${n === own ? 600 : 400} ${n === own ? 1.15 * em : em}px ${paint.font}`;
      const text = n === own ? said[n] : `${side(n)}: ${said[n]}`;
      g.fillText(text, w + 0.5 * em, top + tall / 2 + 0.35 * em);
    });
  };
  const locate = (x, y) => {
    const n = Math.floor((y - HEAD * em) / high);
    return y >= HEAD * em && n < rows.length && x >= 0 && x <= width ? { row: rows[n].id } : null;
  };
  const describe = ({ row }) => {
    const { title, said } = rows.find(one => one.id === row);
    return `${title}\nA ${said[0]}, B ${said[1]}`;
  };
  const label = () =>
    rows.map(({ title, said }) => `${title}: A ${said[0]}, B ${said[1]}`).join('. ');
  return canvasView(host, context, {
    title: `Needs and time, ${side(own)}`,
    layout,
    draw,
    locate,
    describe,
    label,
  });
}
