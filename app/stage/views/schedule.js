// The schedule of warpgroups on the tensor cores: two modelled orders and the marks of this run, one
// under the other on one scale. The last panel shows the key tiles from the step on.
import { canvasView } from '../core/canvas.js';
import { blend, COLOURS, number, rgb, smallText } from '../core/paint.js';
import { scheduleLayout } from './layouts/schedule.js';

const TINT = {
  S: COLOURS.S,
  softmax: COLOURS.P,
  O: COLOURS.O,
  products: COLOURS.S,
  flight: COLOURS.O,
};
const SHORT = { S: 'S', softmax: 'softmax', O: 'O', products: 'S', other: '', flight: 'O' };
const WORDS = {
  S: 'scores of the products of Q and K',
  softmax: 'softmax',
  O: 'output: products of P and V',
  products: 'products started, waits for its scores',
  other: 'other work and waits',
  flight: 'output in flight: from its start to the wait for it',
};

/** @type {Picture<pipeline.ScheduleMeta>} */
export default function (host, { meta, columns }, context) {
  const { clock } = context;
  const { panels, kinds, window: wide, rule, frames } = meta,
    { panel, row, kind, tile, start, end, owner } = columns;
  let em,
    small,
    box = scheduleLayout({ width: 1, height: 1, em: 13 }, []);
  const bars = panels.map((_, p) => Array.from(panel.keys()).filter(n => panel[n] === p));
  const frameAt = step => frames[Math.min(step, frames.length - 1)];
  const beginOf = (p, step) =>
    panels[p].begin >= 0 ? panels[p].begin : (frameAt(step)?.span[0] ?? 0);
  const shared = p => panels[p].begin >= 0; // its last row is the tensor cores
  const isShared = n => shared(panel[n]) && row[n] === panels[panel[n]].rows.length - 1;
  const text = n => {
    const short = SHORT[kinds[kind[n]]];
    return short && tile[n] >= 0 ? `${short} ${tile[n]}` : short;
  };
  const ownerOf = n =>
    owner[n] < 0 ? '' : `${panels[panel[n]].rows[owner[n]].split(' ').at(-1)}: `;
  const layout = size => {
    ({ em } = size);
    small = smallText(em);
    box = scheduleLayout(
      size,
      panels.map(one => one.rows),
    );
    return box.height;
  };

  // ---- drawing ----
  const draw = (g, { step, at, paint }) => {
    panels.forEach((one, p) => {
      g.font = `600 ${small}px ${paint.font}`;
      g.fillStyle = paint.text;
      const head = clock.covers.length ? one.title.split(':')[0] : one.title, // a time can answer a question
        said = `${head}${one.own && one.begin >= 0 ? ', as this kernel' : ''}`;
      g.fillText(said, 0, box.panels[p].y + 1.25 * em);
      const after = g.measureText(said).width + 0.6 * em;
      g.font = `${small}px ${paint.font}`;
      g.globalAlpha = 0.75;
      const told = clock.covers.length || !one.note ? one.label : `${one.label}: ${one.note}`,
        fits = [told, one.label].find(t => after + g.measureText(t).width < box.x + box.w);
      if (fits) g.fillText(fits, after, box.panels[p].y + 1.25 * em);
      g.globalAlpha = 1;
      one.rows.forEach((name, r) => drawName(g, paint, name, box.panels[p].rows[r]));
      const from = beginOf(p, step);
      drawBars(g, paint, p, from, at);
      drawFrame(g, paint, p, from);
      drawTexts(g, paint, p, from);
    });
    drawAxis(g, paint);
  };
  const drawName = (g, paint, name, y) => {
    g.font = `${small}px ${paint.font}`;
    g.fillStyle = paint.text;
    g.fillText(name, 6, y + box.row / 2 + 0.36 * small, box.x - 12); // a frame can be around it
    g.strokeStyle = paint.border;
    g.lineWidth = 1;
    g.strokeRect(box.x + 0.5, y + 1.5, box.w - 1, box.row - 3);
  };
  const drawBars = (g, paint, p, from, at) => {
    const unit = box.w / wide;
    g.save();
    g.beginPath();
    g.rect(box.x, box.panels[p].y, box.w, box.panels[p].rows.at(-1) + box.row - box.panels[p].y);
    g.clip();
    for (const n of bars[p]) {
      if (end[n] <= from || start[n] >= from + wide) continue;
      const x = box.x + (start[n] - from) * unit,
        w = (end[n] - start[n]) * unit,
        y = box.panels[p].rows[row[n]] + 2;
      g.fillStyle = tintOf(paint, kinds[kind[n]]);
      g.fillRect(x, y, Math.max(1, w - 1), box.row - 4);
      if (at?.bar === n) {
        g.strokeStyle = paint.primary;
        g.lineWidth = 2;
        g.strokeRect(x, y, Math.max(2, w - 1), box.row - 4);
      }
    }
    g.restore();
  };
  const tintOf = (paint, name) =>
    TINT[name]
      ? blend(rgb(TINT[name]), rgb(paint.background), 0.85)
      : blend(rgb(paint.text), rgb(paint.background), 0.25);
  // The names of the bars, over the frame, on a plate in the colour of their bar.
  const drawTexts = (g, paint, p, from) => {
    const unit = box.w / wide;
    g.font = `${small}px ${paint.font}`;
    for (const n of bars[p]) {
      const left = Math.max(box.x, box.x + (start[n] - from) * unit),
        room = Math.min(box.x + (end[n] - from) * unit, box.x + box.w) - left - 5,
        middle = box.panels[p].rows[row[n]] + box.row / 2,
        widthOf = one => g.measureText(one).width,
        said = [ownerOf(n) + text(n), text(n)].find(one => one && widthOf(one) <= room),
        width = said ? widthOf(said) : 0;
      if (!said) continue;
      g.fillStyle = tintOf(paint, kinds[kind[n]]);
      g.fillRect(left + 2, middle - 0.6 * small, width + 2, 1.2 * small);
      g.fillStyle = '#fff';
      g.fillText(said, left + 3, middle + 0.36 * small);
    }
  };
  // The time of the first softmax of the first row, over all rows: what the others do meanwhile.
  const drawFrame = (g, paint, p, from) => {
    const n = bars[p].find(m => kinds[kind[m]] === 'softmax' && row[m] === 0 && start[m] >= from);
    if (n === undefined || end[n] > from + wide) return;
    const x = box.x + ((start[n] - from) * box.w) / wide,
      rows = box.panels[p].rows;
    g.strokeStyle = paint.text;
    g.lineWidth = 2;
    g.setLineDash([5, 3]);
    g.strokeRect(
      x,
      rows[0] - 1,
      ((end[n] - start[n]) * box.w) / wide,
      rows.at(-1) + box.row - rows[0] + 2,
    );
    g.setLineDash([]);
    if (bars[p].some(m => isShared(m) && start[m] < end[n] && end[m] > start[n]) || !shared(p))
      return;
    g.font = `${small}px ${paint.font}`;
    g.fillStyle = paint.text;
    g.textAlign = 'center';
    const middle = x + ((end[n] - start[n]) * box.w) / wide / 2;
    g.fillText('at rest', middle, rows.at(-1) + box.row / 2 + 0.36 * small);
    g.textAlign = 'left';
  };
  const drawAxis = (g, paint) => {
    const rough = (wide * 6 * em) / box.w,
      power = 10 ** Math.floor(Math.log10(rough)),
      step = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough) ?? rough;
    g.font = `${small}px ${paint.font}`;
    g.fillStyle = paint.text;
    for (let ns = 0; ns <= wide; ns += step) {
      const x = box.x + (ns / wide) * box.w,
        said = `${number(ns)} ns`;
      g.fillRect(x, box.axis, 1, 4);
      if (x + g.measureText(said).width < box.x + box.w)
        g.fillText(said, x + 3, box.axis + 1.2 * em);
    }
  };

  // ---- the cursor ----
  const locate = (x, y) => {
    const p = box.panels.findIndex(one => one.rows.some(top => y >= top && y < top + box.row));
    if (p < 0 || x < 0 || x > box.x + box.w) return null;
    const r = box.panels[p].rows.findIndex(top => y >= top && y < top + box.row);
    if (x < box.x) return { panel: p, row: r, bar: -1 };
    const ns = beginOf(p, clock.step) + ((x - box.x) / box.w) * wide,
      bar = bars[p].find(n => row[n] === r && start[n] <= ns && ns < end[n]);
    return { panel: p, row: r, bar: bar ?? -1 };
  };
  const describe = ({ panel: p, row: r, bar }) => {
    const { label, rows } = panels[p];
    if (bar < 0) return `${rows[r]}: nothing (${label})`;
    const of = tile[bar] >= 0 ? `, key tile ${tile[bar]}` : '';
    return (
      `${rows[r]}: ${WORDS[kinds[kind[bar]]]}${of}\n` +
      `${number(Math.round(end[bar] - start[bar]))} ns (${label})`
    );
  };
  const label = step =>
    `${panels.map(one => `${one.title} (${one.label})`).join('. ')}. ${rule} ` +
    `${frameAt(step)?.sentence ?? ''}`;
  const legend = [
    [`background:${TINT.S}`, 'scores (S)'],
    [`background:${TINT.softmax}`, 'softmax'],
    [`background:${TINT.O}`, 'output (O)'],
    ['background:color-mix(in srgb, currentColor 25%, transparent)', 'other work and waits'],
    ['border:2px dashed currentColor', 'one softmax of the first warpgroup'],
    ['', '1: a product of warpgroup 1'],
    ['', rule],
  ];
  return canvasView(host, context, {
    title: 'Idea and run',
    layout,
    draw,
    locate,
    describe,
    label,
    legend,
  });
}
