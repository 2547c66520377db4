// V1 and V2 on one axis of tokens: how far each block has come through K and V, and below what the
// second kernel combines.
import { canvasView } from '../core/canvas.js';
import { COLOURS, exact, short } from '../core/paint.js';
import { drawLabel, fitting } from './pages.js';
import { drawWay } from './ways.js';

const LEGEND = [
  [`background:${COLOURS.K}`, 'K read'],
  [`background:${COLOURS.V}`, 'V read'],
];

export default function (host, { meta }, context) {
  const { frames, length, parts, v1, v2, name, head } = meta,
    frameAt = step => frames[Math.min(step, frames.length - 1)];
  let em, width, left, scale, bar, y1, y2, y3;

  const layout = pane => {
    ({ em, width } = pane);
    left = 2 * em;
    scale = (width - left - 2) / length;
    const fixed = 2 * (1.5 + 1.6) * em + 1.2 * em + 0.8 * em + 1.8 * em + 2.2 * em;
    bar = Math.max(0.9 * em, Math.min(2.6 * em, (pane.height - fixed) / 4));
    y1 = 1.5 * em;
    y2 = y1 + 2 * bar + 1.6 * em + 0.8 * em + 1.5 * em;
    y3 = y2 + 2 * bar + 1.6 * em + 1.8 * em;
    return y3 + 2.2 * em;
  };
  const lane = (g, paint, y, one, texts, first) => {
    const x = left + one.first * scale,
      w = (one.end - one.first) * scale - (one.end < length ? 3 : 0),
      busy = one.phase !== 'done';
    for (const [n, key, colour] of [
      [0, 'k', COLOURS.K],
      [1, 'v', COLOURS.V],
    ]) {
      const top = y + n * bar;
      g.fillStyle = paint.panel;
      g.fillRect(x, top, w, bar - 2);
      g.fillStyle = colour;
      g.fillRect(x, top, Math.max(0, Math.min(w, (one[key] - one.first) * scale)), bar - 2);
      g.strokeStyle = paint.border;
      g.lineWidth = 1;
      g.strokeRect(x + 0.5, top + 0.5, w - 1, bar - 3);
    }
    g.strokeStyle = paint.text;
    g.lineWidth = 2;
    if (busy) g.strokeRect(x, y - 1, w, 2 * bar);
    g.fillStyle = paint.text;
    g.font = `${em}px ${paint.font}`;
    g.fillText(fitting(g, texts, w), x, y + 2 * bar + 1.1 * em);
    if (first) {
      g.font = `600 ${em}px ${paint.mono}`;
      g.fillText('K', 0.5 * em, y + bar / 2 + 0.3 * em);
      g.fillText('V', 0.5 * em, y + 1.5 * bar + 0.3 * em);
    }
  };
  const draw = (g, { step, at, paint }) => {
    const frame = frameAt(step),
      label = (name, note, y) => drawLabel(g, paint, em, name, [note], 0, y, width);
    label('V1', `one block for query head ${head} of ${name}: tokens 0 to ${length - 1}`, em);
    lane(
      g,
      paint,
      y1,
      frame.v1,
      frame.v1.state ? [`m = ${short(v1.m, 4)}, l = ${short(v1.l, 4)}`] : [],
      true,
    );
    label(
      'V2',
      `${frame.v2.length} block${frame.v2.length > 1 ? 's' : ''}, one for each partition`,
      y2 - 0.5 * em,
    );
    frame.v2.forEach((one, n) => {
      const m = `m ${short(parts[n].m, 3)}`,
        tokens = `${one.first} to ${one.end - 1}`;
      lane(
        g,
        paint,
        y2,
        one,
        one.state
          ? [`${m}, l ${short(parts[n].l, 3)}`, m]
          : [`tokens ${tokens}`, tokens, String(one.first)],
        n === 0,
      );
    });
    // the second kernel, and what it takes from every block
    const said = {
      combine: `Second kernel: l = \u03a3 l\u1d62 e^(m\u1d62 \u2212 m) = ${short(v2.l, 5)}, m = ${short(v2.m, 4)}`,
      write: 'Second kernel: O = \u03a3 O\u1d62 e^(m\u1d62 \u2212 m) / l',
      done: 'Second kernel: O is written',
    }[frame.reduce];
    const working = frame.reduce !== null && frame.reduce !== 'done',
      y = y3,
      from = y2 + 2 * bar + 1.5 * em;
    g.font = `${em}px ${paint.font}`;
    if (frame.reduce !== null)
      frame.v2.forEach((one, n) => {
        const x = left + ((one.first + one.end) / 2) * scale,
          weight = `\u00d7 ${short(parts[n].weight, 3)}`;
        drawWay(
          g,
          [
            [x, from],
            [x, y],
          ],
          working ? paint.text : paint.border,
          em,
        );
        g.fillStyle = paint.text;
        g.fillText(
          fitting(g, [weight], ((one.end - one.first) * scale) / 2 - 8),
          x + 0.6 * em,
          y - 0.6 * em,
        );
      });
    g.strokeStyle = working ? paint.text : paint.border;
    g.lineWidth = working ? 2 : 1;
    if (frame.reduce === null) g.setLineDash([4, 4]);
    g.strokeRect(left + 0.5, y + 0.5, width - left - 3, 1.8 * em);
    g.setLineDash([]);
    g.fillStyle = paint.text;
    g.textAlign = 'center';
    g.fillText(
      fitting(
        g,
        [
          said ?? 'The second kernel waits for all partitions',
          said ? 'Second kernel' : 'Second kernel: waits',
        ],
        width - left - 12,
      ),
      (left + width) / 2,
      y + 1.25 * em,
    );
    g.textAlign = 'left';
    if (at) {
      g.strokeStyle = paint.primary;
      g.lineWidth = 2;
      const top = at.partition === null ? y1 : y2;
      g.beginPath();
      g.moveTo(left + (at.token + 0.5) * scale, top - 2);
      g.lineTo(left + (at.token + 0.5) * scale, top + 2 * bar);
      g.stroke();
    }
  };
  const locate = (x, y) => {
    const token = Math.floor((x - left) / scale),
      within = top => y >= top && y < top + 2 * bar;
    if (token < 0 || token >= length || !(within(y1) || within(y2))) return null;
    return within(y1)
      ? { token, partition: null }
      : { token, partition: frameAt(0).v2.findIndex(one => token >= one.first && token < one.end) };
  };
  const describe = ({ token, partition }, step) => {
    const frame = frameAt(step),
      one = partition === null ? frame.v1 : frame.v2[partition],
      numbers = partition === null ? v1 : parts[partition];
    const known = one.state ? `\nm = ${exact(numbers.m)}, l = ${exact(numbers.l)}` : '',
      weight =
        partition !== null && frame.reduce !== null
          ? `, weight e^(m\u1d62 \u2212 m) = ${exact(numbers.weight)}`
          : '';
    return (
      `token ${token}, ${partition === null ? 'V1' : `partition ${partition}`}: K ` +
      `${token < one.k ? 'read' : 'not yet'}, V ` +
      `${token < one.v ? 'read' : 'not yet'}${known}${weight}`
    );
  };
  const label = step => `${frameAt(step).title}. ${frameAt(step).sentence}`;
  return canvasView(host, context, {
    title: 'V1 and V2',
    layout,
    draw,
    locate,
    describe,
    label,
    legend: LEGEND,
  });
}
