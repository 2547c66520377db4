// Which query head reads which KV head, at several ratios of heads: the step's query head lit, and
// how often each KV head was read so far. Below, the size of a cache that the reader types.
import { canvasView } from '../core/canvas.js';
import { COLOURS, element, number } from '../core/paint.js';
import calculator from './calculator.js';
import { fitting } from './pages.js';

export default function (host, { meta }, context) {
  const { frames, num_heads, panels, types } = meta,
    frameAt = step => frames[Math.min(step, frames.length - 1)];
  let em, boxes;

  const layout = ({ width, height, em: size }) => {
    // side by side, or one under the other
    em = size;
    const least = Math.max(9.5 * em, num_heads * 2 * em),
      columns = Math.max(1, Math.min(panels.length, Math.floor(width / least))),
      rows = Math.ceil(panels.length / columns);
    const w = width / columns,
      h = Math.max(10.5 * em, Math.min(32 * em, height / rows - em)),
      gap = em;
    boxes = panels.map((panel, n) => {
      const x = (n % columns) * w + em,
        y = Math.floor(n / columns) * (h + gap),
        inner = w - 2 * em,
        each = inner / num_heads,
        r = Math.min(1.7 * em, each * 0.45, (h - 5.6 * em) / 5);
      const queries = Array.from({ length: num_heads }, (_, head) => [
        x + (head + 0.5) * each,
        y + 2.4 * em + r,
      ]);
      const stores = Array.from({ length: panel.kv_heads }, (_, k) => [
        x + ((k + 0.5) * inner) / panel.kv_heads,
        y + h - 3.2 * em - r,
      ]);
      return { x, y, w: inner, h, r, queries, stores, part: inner / panel.kv_heads };
    });
    return Math.max(...boxes.map(box => box.y + box.h));
  };
  const timesRead = (panel, k, step) =>
    panel.links.filter(([head, store]) => store === k && head <= frameAt(step).head).length;
  const draw = (g, { step, at, paint }) =>
    panels.forEach((panel, n) => {
      const box = boxes[n],
        now = frameAt(step).head;
      g.textAlign = 'left';
      g.fillStyle = paint.text;
      g.font = `600 ${em * 1.1}px ${paint.font}`;
      g.fillText(panel.title, box.x, box.y + 1.2 * em);
      const used = g.measureText(panel.title + '  ').width;
      g.font = `${em}px ${paint.font}`;
      g.fillText(
        fitting(
          g,
          [
            `holds ${number(panel.held)} bytes of K and V`,
            `holds ${number(panel.held)} bytes`,
            `${number(panel.held)} B`,
          ],
          box.w - used,
        ),
        box.x + used,
        box.y + 1.2 * em,
      );
      for (const [head, k] of panel.links) {
        const lit = head === now || (at?.panel === n && (at.head === head || at.store === k));
        g.globalAlpha = lit ? 1 : head < now ? 0.6 : 0.2;
        g.strokeStyle = lit ? paint.text : COLOURS.K;
        g.lineWidth = lit ? 3 : 2;
        g.beginPath();
        g.moveTo(...box.queries[head]);
        g.lineTo(...box.stores[k]);
        g.stroke();
        g.globalAlpha = 1;
      }
      g.textAlign = 'center';
      const node = ([x, y], text, colour, lit) => {
        g.fillStyle = colour;
        g.beginPath();
        g.arc(x, y, box.r, 0, 7);
        g.fill();
        if (lit) {
          g.strokeStyle = paint.text;
          g.lineWidth = 3;
          g.stroke();
        }
        g.fillStyle = '#fff';
        g.font = `600 ${em}px ${paint.font}`;
        g.fillText(fitting(g, text, 2 * box.r - 2), x, y + em * 0.36);
      };
      box.queries.forEach((point, head) =>
        node(point, [`Q${head}`, String(head)], COLOURS.Q, head === now),
      );
      box.stores.forEach((point, k) => {
        const times = timesRead(panel, k, step),
          reading = panel.links.some(([head, store]) => head === now && store === k);
        node(point, [`KV${k}`, String(k)], COLOURS.K, reading);
        g.fillStyle = paint.text;
        g.font = `${reading ? 600 : 400} ${em}px ${paint.font}`;
        g.fillText(
          fitting(g, [`read ${times}\u00d7`, `${times}\u00d7`], box.part),
          point[0],
          point[1] + box.r + 1.4 * em,
        );
      });
      g.textAlign = 'left';
    });
  const near = (points, x, y, r) => points.findIndex(([px, py]) => Math.hypot(x - px, y - py) <= r);
  const locate = (x, y) => {
    for (const [panel, box] of boxes.entries()) {
      const head = near(box.queries, x, y, box.r),
        store = near(box.stores, x, y, box.r);
      if (head >= 0) return { panel, head };
      if (store >= 0) return { panel, store };
    }
    return null;
  };
  const describe = (at, step) => {
    const { title, links } = panels[at.panel];
    if (at.head !== undefined)
      return `${title}: query head ${at.head} reads KV head ${links.find(([head]) => head === at.head)[1]}`;
    const heads = links.filter(([, k]) => k === at.store).map(([head]) => head);
    return (
      `${title}: KV head ${at.store} is read by query head${heads.length > 1 ? 's' : ''} ` +
      `${heads.join(', ')}\nread ${timesRead(panels[at.panel], at.store, step)} of ` +
      `${heads.length} times so far`
    );
  };
  const label = step => `${frameAt(step).title}. ${frameAt(step).sentence}`;
  const inner = element('div', { class: 'view' }),
    below = element('div', { class: 'sizing' });
  host.replaceChildren(inner, below);
  const sizes = calculator(below, { meta: { types } }, context);
  const view = canvasView(inner, context, {
    title: 'Heads',
    layout,
    draw,
    locate,
    describe,
    label,
    legend: [
      [`background:${COLOURS.Q}`, 'query head'],
      [`background:${COLOURS.K}`, 'KV head'],
    ],
  });
  return {
    unmount() {
      sizes.unmount();
      view.unmount();
    },
  };
}
