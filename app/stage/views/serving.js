// A KV cache that serves requests: their phases one above the other on an axis of steps, beneath
// them the pool as the step leaves it, and what contiguous slots would reserve. A press on a step
// of the axis goes there.
import { canvasView } from '../core/canvas.js';
import { PALETTE, element, guided, number } from '../core/paint.js';
import { placePages } from './layouts/pages.js';
import {
  drawLabel,
  drawPool,
  drawUsage,
  fitting,
  outlinePage,
  runButtons,
  tellSlot,
} from './pages.js';

const { prefill, decode } = PALETTE.phases;

/** @type {Picture<block_table.ServingMeta>} */
export default function (host, { meta }, context) {
  const { clock } = context;
  const { frames, visits, size, slot_bytes } = meta,
    last = frames.length - 1,
    count = frames[0].free.length,
    frameAt = step => frames[Math.min(step, last)];
  const widest = Math.max(1, ...frames.map(f => Math.max(f.usage.held, f.usage.reserved)));
  let em,
    width,
    left,
    wide,
    row,
    top,
    place,
    few = false, // a guided reader sees requests and pool only
    low = false;

  const layout = pane => {
    ({ em, width } = pane);
    few = guided();
    low = few || pane.height < 26 * em;
    const right = Math.min(width > 60 * em ? 21 * em : 9 * em, 0.3 * width);
    left = Math.round(Math.min(9.5 * em, width * 0.22));
    wide = (width - left - right) / Math.max(1, last);
    top = 1.6 * em;
    row = Math.max(1.25 * em, Math.min(2.4 * em, (0.42 * pane.height - top) / visits.length));
    const below = few ? 0.4 * em : low ? 1.6 * em : 1.8 * em + 2 * 1.9 * em,
      pool = top + visits.length * row + 2.6 * em;
    place = placePages(count, {
      left: 0.4 * em,
      top: pool,
      width: width - 0.4 * em,
      height: Math.max(2 * em, pane.height - pool - below),
      em,
      high: (few ? 7 : 5.5) * em,
    });
    return place.bottom + below + 2;
  };
  const x = step => left + (step - 1) * wide,
    y = n => top + n * row;
  const there = (frame, visit) => frame.sequences.find(s => s.name === visit.name);
  const slack = s => s.table.length * size - s.length;
  const bytesOf = slots => (slot_bytes ? ` = ${number(slots * slot_bytes)} B` : '');

  const draw = (g, { step, at, paint }) => {
    const frame = frameAt(step);
    const text = (words, at, base, room, bold = 400) => {
      g.font = `${bold} ${em}px ${paint.font}`;
      g.fillStyle = paint.text;
      g.fillText(fitting(g, [words].flat(), room), at, base);
    };
    text(['prompt + answer', 'tokens'], 0.9 * em, em, left - em);
    text(
      ['tokens, and empty slots of the last page', 'tokens, empty slots', 'tokens'],
      x(last + 1) + 0.7 * em,
      em,
      width - x(last + 1) - 0.7 * em,
    );
    const every = Math.max(1, Math.ceil((2 * em) / wide));
    g.textAlign = 'center';
    for (let n = 1; n <= last; n++)
      if (n === step || (n % every === 0 && Math.abs(n - step) * wide > 2 * em))
        text(String(n), x(n) + wide / 2, em, 4 * em, n === step ? 600 : 400);
    g.textAlign = 'left';
    visits.forEach((visit, n) => drawVisit(g, paint, visit, y(n), step, frame, text));
    if (step) {
      g.strokeStyle = paint.text;
      g.lineWidth = 2;
      g.strokeRect(x(step) - 1, top - 2, wide + 2, visits.length * row + 3);
    }
    drawLabel(
      g,
      paint,
      em,
      'Pool',
      [
        `${count} pages of ${size} slots (outlined: written in this step, dashed: freed)`,
        `${count} pages of ${size} slots`,
      ],
      0,
      place.top - 0.9 * em,
      width,
    );
    drawPool(g, paint, place, frame, count, size, frame.copied);
    if (at?.page !== undefined) outlinePage(g, paint, place, at.page);
    if (few) return;
    const free = frame.free.join(', ');
    text(
      [
        `Free list, next first: ${free || 'empty'}`,
        `Free list, next first: ${frame.free.slice(0, 8).join(', ')}, ...`,
      ],
      0,
      place.bottom + 1.35 * em,
      width,
    );
    if (!low) drawUsage(g, paint, em, place.bottom + 1.9 * em, width, widest, frame.usage);
  };
  const drawVisit = (g, paint, visit, from, step, frame, text) => {
    const now = there(frame, visit),
      base = from + row / 2 + 0.35 * em,
      { name, arrives, start, end, gone, prompt, answer, parent } = visit;
    const parts = [prompt, answer].filter(Boolean).join(' + ');
    g.fillStyle = visit.colour;
    g.fillRect(0, from + 1, 0.45 * em, row - 3);
    text(name, 0.9 * em, base, 5 * em, 600);
    const used = 0.9 * em + g.measureText(`${name}  `).width;
    text([parent ? `${parent} + ${parts}` : parts, parts], used, base, left - used - 0.3 * em);
    const bar = (first, after, colour, words) => {
      // steps first to after - 1; those to come are pale
      const done = Math.max(first, Math.min(after, step + 1)),
        h = row - 3;
      for (const [a, b, alpha] of [
        [first, done, 1],
        [done, after, 0.3],
      ]) {
        if (b <= a) continue;
        g.globalAlpha = alpha;
        g.fillStyle = colour;
        g.fillRect(x(a) + 0.5, from + 1, (b - a) * wide - 1, h);
        g.globalAlpha = 1;
      }
      if (first > step) return text(words, x(first) + 4, base, (after - first) * wide - 6);
      g.fillStyle = '#000';
      g.font = `${em}px ${paint.font}`;
      g.fillText(fitting(g, words, (done - first) * wide - 6), x(first) + 4, base);
    };
    const line = (first, after, dash) => {
      if (after <= first) return;
      g.strokeStyle = paint.text;
      g.lineWidth = dash ? 1.5 : 2;
      g.setLineDash(dash ? [2, 3] : []);
      g.globalAlpha = first > step ? 0.3 : 1;
      g.beginPath();
      g.moveTo(x(first) + 1, from + row / 2);
      g.lineTo(x(after) - 1, from + row / 2);
      g.stroke();
      g.setLineDash([]);
      g.globalAlpha = 1;
    };
    line(arrives, start, true);
    if (prompt) bar(start, start + 1, prefill, [String(prompt)]);
    else
      fork(
        g,
        paint,
        start > step,
        x(start) + 0.5,
        y(visits.findIndex(v => v.name === parent)),
        from,
        text,
      );
    if (answer) bar(start + 1, end + 1, decode, [`${answer} tokens`, String(answer)]);
    line(end + 1, gone ?? last + 1, false);
    const where = x(last + 1) + 0.7 * em,
      room = width - where;
    if (frame.waiting.includes(name)) text('waits', where, base, room);
    if (now)
      text(
        [
          `${now.length} tokens, ${slack(now)} empty${bytesOf(slack(now))}`,
          `${now.length}, ${slack(now)} empty`,
          String(now.length),
        ],
        where,
        base,
        room,
      );
  };

  // One more answer: from its parent down, or up, to the cell in which it begins.
  const fork = (g, paint, later, at, above, from, text) => {
    const h = row - 3,
      middle = at + wide / 2,
      [edge, end] = above < from ? [above + h, from + 1] : [above + 1, from + h];
    g.globalAlpha = later ? 0.3 : 1;
    g.strokeStyle = paint.text;
    g.lineWidth = 1.5;
    g.strokeRect(at + 0.5, from + 1.5, wide - 2, h - 1);
    g.beginPath();
    g.moveTo(middle, edge);
    g.lineTo(middle, end);
    g.stroke();
    g.globalAlpha = 1;
    text('fork', at + 3, from + row / 2 + 0.35 * em, wide - 5);
  };

  const locate = (px, py) => {
    const n = Math.floor((py - top) / row),
      step = 1 + Math.floor((px - left) / wide);
    if (py >= top && n < visits.length)
      return px < left || step > last
        ? { request: visits[n].name }
        : { request: visits[n].name, step };
    const found = place.find(px, py);
    return (
      found && {
        page: found.page,
        slot: Math.min(size - 1, Math.floor(found.x / (place.w / size))),
      }
    );
  };
  const describe = (at, step) => {
    const frame = frameAt(step);
    if (at.page !== undefined) return tellSlot(frame, at, size);
    const visit = visits.find(v => v.name === at.request),
      { name, arrives, start, end, gone, prompt, answer, shared, parent } = visit,
      held = there(frame, visit);
    if (at.step === undefined)
      return held
        ? `${name}: ${held.length} tokens in pages ${held.table.join(', ')}\n` +
            `${slack(held)} slots of the last page are empty${bytesOf(slack(held))}`
        : `${name} holds no page after this step`;
    const tokens = shared + prompt + Math.max(0, Math.min(at.step, end) - start),
      so = `${name}, step ${at.step}: `;
    if (at.step < arrives) return `${so}has not come`;
    if (at.step < start) return `${so}waits`;
    if (at.step === start)
      return prompt
        ? `${so}prefill, ${prompt} tokens at once${parent ? `, after ${shared} of ${parent}` : ''}`
        : `${so}forked from ${parent} with ${shared} tokens, all shared`;
    if (at.step <= end)
      return `${so}decode, token ${at.step - start} of ${answer}; ${tokens} in all`;
    return gone !== null && at.step >= gone ? `${so}has ended` : `${so}stays, ${tokens} tokens`;
  };
  const label = step => {
    const frame = frameAt(step),
      each = frame.sequences.map(
        s =>
          `${s.name}: ${s.length} tokens in pages ${s.table.join(', ')}, ${slack(s)} empty slots`,
      );
    return `${frame.title}. ${frame.sentence} ${each.join('; ')}${each.length ? '. ' : ''}${frame.waste}`;
  };
  const click = at => {
    if (at.step !== undefined) clock.set(at.step, 'user');
  };
  const legend = [
    [`background:${prefill}`, 'prefill: all tokens of the prompt at once'],
    [`background:${decode}`, 'decode: a token in each step'],
    ...(visits.some(v => !v.prompt)
      ? [['border:1.5px solid currentColor', 'fork: one more answer, all pages shared']]
      : []),
    ['border-top:2px dotted currentColor;height:0;vertical-align:middle', 'waits'],
    ['border-top:2px solid currentColor;height:0;vertical-align:middle', 'stays'],
  ];

  const inner = element('div', { class: 'view' }),
    run = runButtons(frameAt, context);
  host.replaceChildren(inner, element('div', {}, ...run.nodes));
  const view = canvasView(inner, context, {
    title: 'Serving',
    layout,
    draw,
    locate,
    describe,
    label,
    click,
    legend,
    said: step => frameAt(step).waste,
  });
  return {
    unmount() {
      run.end();
      view.unmount();
    },
  };
}
