// What each warp or warpgroup was at: a row for each, bars along one axis of time. The band is the
// step, the arrow leads from where the copy of its rows began to where its scores do. The wheel, +
// and - zoom about the pointer; dragging and the arrows with Alt pan; 0 shows all. The line at the
// top is the whole time, and what of it is shown.
import { canvasView } from '../core/canvas.js';
import { blend, button, COLOURS, element, number, rgb, smallText } from '../core/paint.js';

const TINT = {
  Q: COLOURS.Q,
  K: COLOURS.K,
  S: COLOURS.S,
  P: COLOURS.P,
  O: COLOURS.O,
  other: COLOURS.other,
};
const LEAST = 20,
  FEW = 4; // ns that the window shows at the closest; steps that it begins with

export default function (host, { meta, columns }, context) {
  const { clock } = context;
  const { rows, events, mhz, frames, row_of, tile: noun, legend: meanings } = meta,
    { start, end, row, event, tile } = columns,
    whole = end.reduce((most, v) => Math.max(most, v), 1);
  const first = rows.map((_, r) => row.indexOf(r)),
    past = rows.map((_, r) => row.lastIndexOf(r) + 1); // a row's bars, by time
  const several = new Set(rows.map(one => one.kernel)).size > 1;
  let em,
    small,
    box = { x: 0, y: 0, w: 1, h: 1 },
    shown = [0, Math.min(whole, frames[Math.min(FEW, frames.length - 1)].span[1])];
  const frameAt = step => frames[Math.min(step, frames.length - 1)];

  // ---- time ----
  const xOf = ns => box.x + ((ns - shown[0]) / (shown[1] - shown[0])) * box.w;
  const nsOf = x => shown[0] + ((x - box.x) / box.w) * (shown[1] - shown[0]);
  const show = (from, to) => {
    const wide = Math.min(whole, Math.max(LEAST, to - from)),
      at = Math.max(0, Math.min(whole - wide, from));
    shown = [at, at + wide];
  };
  const zoom = (factor, about) => show(about - (about - shown[0]) * factor, about + (shown[1] - about) * factor);
  const pan = share => show(shown[0] + share * (shown[1] - shown[0]), shown[1] + share * (shown[1] - shown[0]));
  // The first bar of a row that ends after a time: bars of a row do not overlap but for what is in
  // flight, and are in order.
  const from = (r, ns) => {
    let low = first[r],
      high = past[r];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (end[middle] < ns) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  // ---- drawing ----
  // colours by kind, of this theme: [of a bar, of what is in flight, of words on a bar]
  let tints = { of: '' };
  const tintsOf = paint => {
    if (tints.of === paint.background) return tints;
    tints = { of: paint.background };
    for (const [kind, colour] of Object.entries(TINT))
      tints[kind] = [...[0.85, 0.55].map(share => blend(rgb(colour), rgb(paint.background), share)), '#fff'];
    tints.wait = [paint.background, paint.background, paint.text];
    tints.band = blend(rgb(paint.primary), rgb(paint.background), 0.16);
    return tints;
  };
  const layout = size => {
    ({ em } = size);
    small = smallText(em);
    const label = Math.min(0.3 * size.width, 12 * em),
      axis = 1.8 * em,
      high = Math.max(0.9 * em, Math.min(14 * em, (size.height - axis - 10) / Math.max(1, rows.length)));
    box = { x: label, y: 8, w: Math.max(40, size.width - label - 4), h: high * rows.length, high };
    return Math.floor(box.y + box.h + axis);
  };
  const thickness = ({ flight }) => (flight ? Math.min(0.4 * box.high, 1.6 * em) : Math.min(0.76 * box.high, 8 * em));
  const draw = (g, { step, at, paint }) => {
    const band = frameAt(step)?.span;
    if (band) {
      g.fillStyle = tintsOf(paint).band;
      const x = Math.max(box.x, xOf(band[0]));
      g.fillRect(x, box.y, Math.max(2, Math.min(box.x + box.w, xOf(band[1])) - x), box.h);
    }
    rows.forEach((made, r) => drawRow(g, paint, made, r, at));
    drawAxis(g, paint);
    drawWhole(g, paint);
    if (!clock.covers.length) drawArrow(g, paint, frameAt(step)?.copied ?? []); // it tells when
  };
  const drawWhole = (g, paint) => {
    const unit = box.w / whole;
    g.fillStyle = paint.border;
    g.fillRect(box.x, 3, box.w, 1);
    g.fillStyle = paint.primary;
    g.fillRect(box.x + shown[0] * unit, 2, Math.max(3, (shown[1] - shown[0]) * unit), 3);
  };
  const drawArrow = (g, paint, [writer, began, leader, scores]) => {
    if (writer === undefined) return;
    const middle = who => box.y + (row_of[who] + 0.5) * box.high,
      above = writer === leader ? 0.44 * box.high : 0, // not over the words of its own bars
      [x0, x1] = [xOf(began), xOf(scores)],
      [y0, y1] = [middle(writer) - above, middle(leader) - above];
    if (x1 < box.x || x0 > box.x + box.w) return;
    const turn = Math.atan2(y1 - y0, x1 - x0),
      tip = 0.6 * em;
    g.save();
    g.beginPath();
    g.rect(box.x, box.y, box.w, box.h);
    g.clip();
    g.strokeStyle = g.fillStyle = paint.text;
    g.lineWidth = 2;
    g.beginPath();
    g.arc(x0, y0, 3, 0, 7);
    g.fill();
    g.beginPath();
    g.moveTo(x0, y0);
    g.lineTo(x1, y1);
    g.stroke();
    g.beginPath();
    g.moveTo(x1, y1);
    for (const side of [-0.4, 0.4]) g.lineTo(x1 - tip * Math.cos(turn + side), y1 - tip * Math.sin(turn + side));
    g.fill();
    g.restore();
    if (above && box.high > 7 * em) {
      g.font = `600 ${small}px ${paint.font}`;
      g.fillStyle = paint.text;
      g.textAlign = 'center';
      g.fillText(`${number(Math.round(scores - began))} ns ahead`, (x0 + x1) / 2, y0 - 4);
      g.textAlign = 'left';
    }
  };
  const drawRow = (g, paint, made, r, at) => {
    const y = box.y + r * box.high,
      thick = thickness(made),
      top = y + (box.high - thick) / 2;
    g.font = `${made.flight ? 400 : 600} ${small}px ${paint.font}`;
    g.fillStyle = paint.text;
    g.fillText(
      made.label ?? (made.flight ? made.name : `${several ? `${made.kernel.split('_')[0]} ` : ''}${made.name}`),
      0,
      y + box.high / 2 + 0.36 * small,
      box.x - 8,
    );
    g.save();
    g.beginPath();
    g.rect(box.x, y, box.w, box.high);
    g.clip();
    const unit = box.w / (shown[1] - shown[0]),
      colours = tintsOf(paint);
    for (let n = from(r, shown[0]), until = -1; n < past[r] && start[n] <= shown[1]; n++) {
      const x = xOf(start[n]),
        w = (end[n] - start[n]) * unit;
      if (x + w < until) continue; // within the last pixel that was painted
      const kind = events[event[n]].kind;
      if (kind !== 'wait') {
        g.fillStyle = colours[kind][Number(made.flight)];
        g.fillRect(x, top, Math.max(1, w - (w > 4 ? 1 : 0)), thick);
      } else {
        drawWait(g, paint, x, top, Math.max(1, w - 1), thick - 1);
      }
      until = x + Math.max(1, w);
      if (w > 0.8 * small && !made.flight) {
        drawWords(g, paint, n, Math.max(x, box.x), Math.min(x + w, box.x + box.w), y);
      }
      if (at?.bar === n) {
        g.strokeStyle = paint.primary;
        g.lineWidth = 2;
        g.strokeRect(x, top, Math.max(2, w), thick);
      }
    }
    g.restore();
  };
  // A wait is an empty box with lines across.
  const drawWait = (g, paint, x, top, w, h) => {
    g.save();
    g.beginPath();
    g.rect(x + 0.5, top + 0.5, w, h);
    g.strokeStyle = paint.border;
    g.lineWidth = 1;
    g.stroke();
    g.clip();
    g.beginPath();
    for (let at = x - h - ((x - h) % 8); at < x + w; at += 8) {
      g.moveTo(at, top + h);
      g.lineTo(at + h, top);
    }
    g.stroke();
    g.restore();
  };
  // The name of a bar with its tile, in the longest form that fits.
  const drawWords = (g, paint, n, from, to, y) => {
    const { title, short, kind } = events[event[n]],
      of = tile[n] >= 0 && kind !== 'wait' ? ` ${tile[n]}` : '',
      size = Math.min(box.high / 4, em);
    g.font = `${size}px ${paint.font}`;
    const said = [title, ...short]
        .map(name => `${name}${of}`)
        .find(words => g.measureText(words).width < to - from - 8),
      letter = short[1];
    if (!said && letter && to - from > g.measureText(letter).width + 2) {
      g.fillStyle = tintsOf(paint)[kind][2];
      g.textAlign = 'center';
      g.fillText(letter, (from + to) / 2, y + box.high / 2 + 0.36 * size);
      g.textAlign = 'left';
    }
    if (!said) return;
    if (kind === 'wait') {
      g.fillStyle = paint.background; // over the lines across
      g.fillRect(from + 2, y + box.high / 2 - 0.7 * size, g.measureText(said).width + 4, 1.3 * size);
    }
    g.fillStyle = tintsOf(paint)[kind][2];
    g.fillText(said, from + 4, y + box.high / 2 + 0.36 * size);
  };
  const drawAxis = (g, paint) => {
    const wide = shown[1] - shown[0],
      rough = (wide * 6 * em) / box.w,
      power = 10 ** Math.floor(Math.log10(rough)),
      step = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough);
    g.font = `${small}px ${paint.font}`;
    g.fillStyle = g.strokeStyle = paint.text;
    g.lineWidth = 1;
    g.textAlign = 'center';
    for (let ns = Math.ceil(shown[0] / step) * step; ns <= shown[1]; ns += step) {
      const x = xOf(ns),
        said = step >= 1000 ? `${ns / 1000} \u00b5s` : `${number(Math.round(ns))} ns`;
      g.globalAlpha = 0.25;
      g.fillRect(x, box.y, 1, box.h);
      g.globalAlpha = 1;
      if (x > box.x + 1.5 * em && x < box.x + box.w - 2 * em) g.fillText(said, x, box.y + box.h + 1.2 * em);
    }
    g.textAlign = 'left';
  };

  // ---- the cursor ----
  const thing = (r, bar) => ({
    row: r,
    bar,
    kernel: rows[r].kernel,
    writer: rows[r].writer,
    event: events[event[bar]].name,
    kind: events[event[bar]].kind,
    tile: tile[bar],
  });
  const locate = (x, y) => {
    const r = Math.floor((y - box.y) / box.high);
    if (r < 0 || r >= rows.length || x < box.x || x > box.x + box.w) return null;
    if (Math.abs(y - box.y - (r + 0.5) * box.high) > thickness(rows[r]) / 2) return null;
    const ns = nsOf(x),
      slack = (2 * (shown[1] - shown[0])) / box.w,
      exact = from(r, ns);
    if (exact < past[r] && start[exact] <= ns) return thing(r, exact);
    const near = from(r, ns - slack); // one too thin to be hit
    return near < past[r] && start[near] <= ns + slack ? thing(r, near) : null;
  };
  const describe = ({ row: r, bar }) => {
    const made = rows[r],
      one = events[event[bar]],
      ns = end[bar] - start[bar];
    const what = `${made.flight ? 'in flight: ' : ''}${one.title}${tile[bar] >= 0 ? `, ${noun} ${tile[bar]}` : ''}`;
    return (
      `${made.kernel}, ${rows.slice(0, r + 1).findLast(one => !one.flight).name}\n${what}\n` +
      `${number(Math.round(ns))} ns, ${number(Math.round((ns * mhz) / 1000))} cycles, from ` +
      `${number(Math.round(start[bar]))} ns on`
    );
  };
  const label = step =>
    `${frameAt(step)?.title ?? 'Nothing'}. ${frameAt(step)?.sentence ?? ''} ` +
    `${rows.length} rows from 0 to ${number(Math.round(whole))} ns.`;
  const used = new Set(Array.from(event, n => events[n].kind));
  const legend = [
    ...Object.entries(meanings)
      .filter(([kind]) => used.has(kind))
      .map(([kind, said]) => [`background:${TINT[kind]}`, said]),
    ...(used.has('wait')
      ? [
          [
            'border:1px solid currentColor;background:repeating-linear-gradient(135deg,currentColor 0 1px,transparent 1px 4px)',
            'waits',
          ],
        ]
      : []),
    ['', 'bars include their waits'],
    ['', '\u2192 from the start of a copy to its use'],
  ];
  const made = canvasView(host, context, {
    title: 'Pipeline',
    layout,
    draw,
    locate,
    describe,
    label,
    legend,
  });

  // ---- zoom and pan ----
  const canvas = host.querySelector('canvas'),
    middle = () => {
      // of the step, where it is in sight
      const band = frameAt(clock.step)?.span ?? [0, 0],
        at = (band[0] + band[1]) / 2;
      return at > shown[0] && at < shown[1] ? at : (shown[0] + shown[1]) / 2;
    };
  const all = () => {
      show(0, whole);
      made.draw();
    },
    times = factor => {
      zoom(factor, middle());
      made.draw();
    };
  host.dataset.zooms = ''; // + - and 0 are its own (keys.js)
  host.querySelector('.foot').append(
    element(
      'div',
      { class: 'grid-foot' },
      element(
        'span',
        { class: 'zoom', role: 'group', 'aria-label': 'Zoom' },
        'zoom ',
        button('\u2212', () => times(1.6), {
          'aria-label': 'Longer time',
          title: 'Longer time (key \u2212, or the wheel)',
        }),
        button('+', () => times(1 / 1.6), {
          'aria-label': 'Shorter time',
          title: 'Shorter time (key +, or the wheel)',
        }),
        button('all', all, { title: 'All of the block (key 0). Drag to move along the time.' }),
      ),
    ),
  );
  let held = null;
  const inPicture = e => e.clientX - canvas.getBoundingClientRect().left;
  const on = (type, listener) => canvas.addEventListener(type, listener, { passive: false });
  on('wheel', e => {
    e.preventDefault();
    zoom(e.deltaY > 0 ? 1.25 : 0.8, nsOf(inPicture(e)));
    made.draw();
  });
  on('pointerdown', e => {
    held = { x: e.clientX, shown: [...shown], moved: false };
  });
  on('pointermove', e => {
    if (!held || !e.buttons) {
      held = null;
      return;
    }
    held.moved ||= Math.abs(e.clientX - held.x) > 4;
    if (!held.moved) return;
    const ns = ((held.x - e.clientX) / box.w) * (held.shown[1] - held.shown[0]);
    show(held.shown[0] + ns, held.shown[1] + ns);
    made.draw();
  });
  canvas.addEventListener(
    'click',
    e => {
      if (held?.moved) e.stopImmediatePropagation();
    },
    true,
  ); // a drag pins nothing
  on('keydown', e => {
    if (e.key === '+' || e.key === '=') zoom(0.8, middle());
    else if (e.key === '-') zoom(1.25, middle());
    else if (e.key === '0') show(0, whole);
    else if (e.shiftKey && e.altKey && e.key === 'ArrowLeft') pan(-0.2);
    else if (e.shiftKey && e.altKey && e.key === 'ArrowRight') pan(0.2);
    else return;
    e.preventDefault();
    e.stopPropagation();
    made.draw();
  });
  // A step out of sight is brought into it.
  const onStep = () => {
    const band = frameAt(clock.step)?.span;
    if (!band || (band[0] >= shown[0] && band[1] <= shown[1])) return;
    const wide = shown[1] - shown[0];
    show(band[0] - 0.2 * wide, band[0] + 0.8 * wide);
    made.draw();
  };
  onStep();
  clock.addEventListener('step', onStep);
  return {
    draw: made.draw,
    unmount() {
      clock.removeEventListener('step', onStep);
      made.unmount();
    },
  };
}
