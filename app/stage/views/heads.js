// Which query head reads which KV head, at several ratios of heads: the step's query head lit, and
// how often each KV head was read so far. Below, the size of a cache that the reader types.
import { canvasView } from '../core/canvas.js';
import { Marks } from '../core/kinds.js';
import { COLOURS, element, number } from '../core/paint.js';
import calculator from './calculator.js';
import { PAGE_KINDS, fitting } from './pages.js';

// A head, or a read on its way: a disc with a name.
function drawNode(g, { rect: [x, y, w], fill, stroke, texts = [], em }, paint) {
  const r = w / 2;
  g.fillStyle = fill;
  g.beginPath();
  g.arc(x + r, y + r, r, 0, 7);
  g.fill();
  if (stroke) {
    [g.strokeStyle, g.lineWidth] = [stroke, 3];
    g.stroke();
  }
  if (!texts.length) return;
  g.fillStyle = '#fff';
  g.textAlign = 'center';
  g.font = `600 ${em}px ${paint.font}`;
  g.fillText(fitting(g, texts, w - 2), x + r, y + r + em * 0.36);
  g.textAlign = 'left';
}

/** @type {Picture<block_table.HeadsMeta>} */
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
  // A read flies from its KV head to the query head of the step.
  const addLinks = (marks, paint, panel, n, now) => {
    const box = boxes[n];
    for (const [head, k] of panel.links) {
      const [x, y] = box.queries[head],
        [kx, ky] = box.stores[k],
        lit = head === now,
        small = 0.45 * box.r,
        dot = (cx, cy) => [cx - small, cy - small, 2 * small, 2 * small];
      marks.add(`link ${n} ${head}`, 'line', [x, y, kx - x, ky - y], {
        stroke: lit ? paint.text : head < now ? COLOURS.K : paint.border,
        width: lit ? 3 : 2,
      });
      if (lit)
        marks.add(`read ${n} ${head}`, 'node', dot(x, y), {
          fill: COLOURS.K,
          stroke: paint.text,
          enter: { rect: dot(kx, ky) },
          passing: true,
          ease: 'both',
        });
    }
  };
  const addNodes = (marks, paint, panel, n, step) => {
    const box = boxes[n],
      now = frameAt(step).head,
      node = (id, [x, y], texts, fill, lit) => {
        const rect = [x - box.r, y - box.r, 2 * box.r, 2 * box.r];
        marks.add(id, 'node', rect, { texts, fill, em, ...(lit && { stroke: paint.text }) });
      };
    box.queries.forEach((point, head) =>
      node(`Q ${n} ${head}`, point, [`Q${head}`, String(head)], COLOURS.Q, head === now),
    );
    box.stores.forEach((point, k) => {
      const times = timesRead(panel, k, step),
        reading = panel.links.some(([head, store]) => head === now && store === k);
      node(`KV ${n} ${k}`, point, [`KV${k}`, String(k)], COLOURS.K, reading);
      marks.text(
        `times ${n} ${k}`,
        [point[0], point[1] + box.r + 1.4 * em, box.part],
        `${box.part < 3.6 * em ? '' : 'read '}${times}\u00d7`,
        { align: 'center', bold: reading },
      );
    });
  };
  const marks = ({ step, paint }) => {
    const made = new Marks(em);
    panels.forEach((panel, n) => {
      const { x, y, w } = boxes[n],
        held = number(panel.held);
      made.add(`name ${n}`, 'label', [x, y + 1.2 * em, w, em], {
        name: w < 12 * em ? panel.title.split(' (')[0] : panel.title,
        notes: [`holds ${held} bytes of K and V`, `holds ${held} bytes`, `${held} B`],
      });
      addLinks(made, paint, panel, n, frameAt(step).head);
      addNodes(made, paint, panel, n, step);
    });
    return made.list;
  };
  const over = (g, { at, paint }) => {
    if (!at) return;
    const box = boxes[at.panel];
    [g.strokeStyle, g.lineWidth] = [paint.primary, 3];
    for (const [head, k] of panels[at.panel].links) {
      if (at.head !== head && at.store !== k) continue;
      g.beginPath();
      g.moveTo(...box.queries[head]);
      g.lineTo(...box.stores[k]);
      g.stroke();
    }
  };
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
    marks,
    over,
    kinds: { ...PAGE_KINDS, node: drawNode },
    ms: () => 260,
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
