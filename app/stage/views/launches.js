// The launches and copies of runs on one axis of time: a row for the host's calls if they go on during
// the run, a row for each stream, and the gaps with their lengths in a strip under the row. A scene has
// some of the panels, and its own axis. The launch, copy or call of the step has an outline.
import { canvasView } from '../core/canvas.js';
import { matches } from '../core/covers.js';
import { blend, COLOURS, number, rgb, smallText } from '../core/paint.js';
import { launchesLayout } from './layouts/launches.js';

const TINTS = [COLOURS.K, COLOURS.O, COLOURS.P, COLOURS.S],
  COPY = COLOURS.Q,
  PALE = 0.6, // of a colour in a bar, but in the step's one
  HOST = 0.55, // of the text's colour in a call
  WAIT = '#e69f00',
  WAITS = 0.4;
const MICRO = 1e3; // ns
const BRACKET =
  'border:1.5px solid currentColor;border-top:0;width:1.1rem;height:.35rem;border-radius:0';

/** @type {Picture<launches.LaunchMeta>} */
export default function (host, { meta }, context) {
  const { clock } = context,
    { panels, frames, purposes, windows, notes, label: source } = meta;
  const names = [
    ...new Set(panels.flatMap(one => one.bars.filter(bar => bar.entry).map(bar => bar.entry))),
  ];
  const own = windows.map((_, scene) =>
    panels.flatMap((one, p) => (one.scene === scene ? [p] : [])),
  );
  let em = 13,
    small = 13,
    boxes = [],
    box = null, // of the scene of the step
    wide = windows[0];
  const frameAt = step => frames[Math.min(step, frames.length - 1)];
  const look = step => {
    const { scene } = frameAt(step);
    [box, wide] = [boxes[scene], windows[scene]];
    return own[scene];
  };
  const micro = ns => `${Number((ns / MICRO).toPrecision(3)).toLocaleString('en')} µs`;
  const shadeOf = lit => (lit ? 0.95 : PALE);
  const tintOf = (bar, paint) =>
    bar.copy
      ? rgb(COPY)
      : bar.entry
        ? rgb(TINTS[names.indexOf(bar.entry) % TINTS.length])
        : rgb(blend(rgb(paint.text), rgb(paint.background), HOST));
  const xOf = ns => box.x + (ns / wide) * box.w;
  const layout = size => {
    ({ em } = size);
    small = smallText(em);
    const rowsOf = one =>
      one.lanes.map((parts, row) => ({
        parts,
        gaps: one.gaps.some(gap => gap.row === row && gap.end > gap.start),
      }));
    boxes = own.map(listed => {
      const placed = launchesLayout(
        size,
        listed.map(p => rowsOf(panels[p])),
      );
      const at = Object.fromEntries(listed.map((p, n) => [p, placed.panels[n]]));
      return { ...placed, panels: at };
    });
    look(clock.step);
    return Math.max(...boxes.map(one => one.height));
  };

  // ---- marks ----
  const marks = ({ step, paint }) => {
    const shown = look(step),
      { panel, bar: current } = frameAt(step),
      back = rgb(paint.background);
    const listed = [];
    for (const p of shown) {
      const one = panels[p],
        place = box.panels[p];
      const title = text(`title ${p}`, titleOf(one), 0, place.y + 1.2 * em, box.x + box.w);
      listed.push({ ...title, bold: true });
      one.rows.forEach((name, r) => {
        const { y, h } = place.rows[r];
        listed.push(text(`row ${p} ${r}`, name, 2, y + h / 2 + 0.36 * small, box.x - 6));
        listed.push({
          id: `frame ${p} ${r}`,
          kind: 'rect',
          rect: [box.x + 0.5, y + 1.5, box.w - 1, h - 3],
          stroke: paint.border,
        });
      });
      one.gaps.forEach((gap, n) => {
        if (!gap.late || clock.covers.length) return;
        const { y, h } = place.rows[gap.row],
          x = xOf(gap.start);
        const rect = [x, y + 3, xOf(Math.min(gap.late, gap.end)) - x, h - 6];
        listed.push({
          id: `wait ${p} ${n}`,
          kind: 'rect',
          rect,
          fill: blend(rgb(WAIT), back, WAITS),
        });
      });
      one.bars.forEach((bar, n) => {
        const [y, h] = partOf(one, place.rows[bar.row], bar),
          x = xOf(bar.start),
          lit = p === panel && n === current;
        listed.push({
          id: `bar ${p} ${n}`,
          kind: 'rect',
          rect: [x, y, Math.max(2, xOf(bar.end) - x - 0.5), h],
          fill: blend(tintOf(bar, paint), back, shadeOf(lit)),
          stroke: lit ? paint.primary : undefined,
          width: 3,
        });
      });
    }
    return listed;
  };
  // [top, height] of a bar: bars of a stream at the same time share its row
  const partOf = (one, row, bar) => {
    const h = (row.h - 6) / one.lanes[bar.row];
    return [row.y + 3 + bar.lane * h, h - (one.lanes[bar.row] > 1 ? 2 : 0)];
  };
  const text = (id, said, x, y, most, more = {}) => ({
    id,
    kind: 'text',
    rect: [x, y, most, small],
    text: said,
    ...more,
  });
  const titleOf = one => (clock.covers.length ? one.title : `${one.title}: ${one.said}`);

  // ---- the names of bars, the lengths of gaps and the axis do not move ----
  const over = (g, { at, paint, step }) => {
    const { panel, bar: current } = frameAt(step);
    for (const p of look(step)) {
      const one = panels[p],
        { rows } = box.panels[p];
      one.bars.forEach((bar, n) =>
        drawName(g, paint, one, bar, partOf(one, rows[bar.row], bar), p === panel && n === current),
      );
      const ends = rows.map(() => 0); // of the last label of each row
      one.gaps.forEach((gap, n) => {
        const asked = clock.covers.some(cover => matches({ panel: p, gap: n }, cover));
        if (!asked) ends[gap.row] = drawGap(g, paint, gap, rows[gap.row], ends[gap.row]);
      });
    }
    drawAxis(g, paint);
    if (at?.bar >= 0 && box.panels[at.panel]) {
      const one = panels[at.panel],
        bar = one.bars[at.bar],
        x = xOf(bar.start),
        [y, h] = partOf(one, box.panels[at.panel].rows[bar.row], bar);
      g.strokeStyle = paint.primary;
      g.lineWidth = 2;
      g.strokeRect(x, y, Math.max(3, xOf(bar.end) - x), h);
    }
  };
  // The name of a bar with its length, or as much as fits: in the bar, or behind the last one.
  const drawName = (g, paint, one, bar, part, lit) => {
    const [top, high] = part;
    if (high < 0.9 * small) return;
    g.font = `600 ${small}px ${paint.font}`;
    const same = one.bars.filter(other => other.row === bar.row && other.lane === bar.lane),
      later = same.filter(other => other.start > bar.start).map(other => other.start),
      [from, to] = [xOf(bar.start), xOf(bar.end)],
      named = [bar.name, bar.name.replace('copy of ', '')];
    if (!clock.covers.length) named.unshift(`${bar.name} ${micro(bar.end - bar.start)}`);
    const behind = { from: to, to: xOf(Math.min(wide, ...later)), texts: named },
      places = [
        { from, to, texts: named },
        ...(later.length ? [] : [behind]),
        { from, to, texts: [bar.name.replace(/^\D* /, ''), bar.name.slice(0, 3)] },
        behind,
      ];
    for (const place of places) {
      const fits = text => g.measureText(text).width + 4 <= place.to - place.from,
        said = place.texts.find(fits);
      if (!said) continue;
      g.fillStyle = place.from === from ? inkOn(tintOf(bar, paint), lit, paint) : paint.text;
      g.fillText(said, place.from + (place === behind ? 4 : 2), top + high / 2 + 0.36 * small);
      return;
    }
  };
  // Black or white, against the colour of a bar.
  const inkOn = (tint, lit, paint) => {
    const [red, green, blue] = rgb(blend(tint, rgb(paint.background), shadeOf(lit)));
    return 0.3 * red + 0.59 * green + 0.11 * blue > 120 ? '#000' : '#fff';
  };
  // A gap has a bracket in the strip under its row, and its length if there is room after the label before.
  // Returns the end of the row's last label.
  const drawGap = (g, paint, gap, row, last) => {
    const length = gap.end - gap.start;
    if (length <= 0) return last;
    const x = xOf(gap.start),
      w = xOf(gap.end) - x,
      foot = row.y + row.h + 3;
    g.strokeStyle = paint.text;
    g.lineWidth = 1.5;
    g.beginPath();
    g.moveTo(x, foot - 4);
    g.lineTo(x, foot);
    g.lineTo(x + w, foot);
    g.lineTo(x + w, foot - 4);
    g.stroke();
    g.font = `${small}px ${paint.font}`;
    const told = gap.late && !clock.covers.length ? ['idle %'] : [],
      texts = [...told, '%'].map(text => text.replace('%', micro(length)));
    for (const said of [...texts, texts.at(-1).replace(' µs', '')]) {
      const size = g.measureText(said).width,
        left = Math.max(box.x + 2, Math.min(x + w / 2 - size / 2, box.x + box.w - size - 2));
      if (left < last + 4 || (size > w && said.startsWith('idle'))) continue;
      g.fillStyle = paint.text;
      g.fillText(said, left, foot + 2 + 0.9 * small);
      return left + size;
    }
    return last;
  };
  const drawAxis = (g, paint) => {
    const rough = (wide * 6 * em) / box.w,
      power = 10 ** Math.floor(Math.log10(rough)),
      every = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough) ?? rough;
    g.font = `${small}px ${paint.font}`;
    g.fillStyle = paint.text;
    for (let ns = 0; ns <= wide; ns += every) {
      const x = xOf(ns),
        said = `${number(ns / MICRO)} µs`;
      g.fillRect(x, box.axis, 1, 4);
      const w = g.measureText(said).width;
      g.fillText(said, Math.min(x - w / 2, box.x + box.w - w), box.axis + 1.2 * em);
    }
  };

  // ---- the cursor ----
  const locate = (x, y) => {
    const inside = row => y >= row.y && y < row.y + row.h + row.strip,
      p = look(clock.step).find(n => box.panels[n].rows.some(inside)) ?? -1;
    if (p < 0 || x < box.x || x > box.x + box.w) return null;
    const r = box.panels[p].rows.findIndex(inside),
      ns = ((x - box.x) / box.w) * wide,
      { bars, gaps } = panels[p];
    const within = one => {
      const [top, high] = partOf(panels[p], box.panels[p].rows[r], one);
      return y >= top - 3 && y < top + high + 3;
    };
    const bar = bars.findIndex(
      one => one.row === r && one.start <= ns && ns < one.end && within(one),
    );
    if (bar >= 0) return { panel: p, row: r, bar, gap: -1 };
    return {
      panel: p,
      row: r,
      bar: -1,
      gap: gaps.findIndex(one => one.row === r && one.start <= ns && ns < one.end),
    };
  };
  const describe = ({ panel: p, row, bar, gap }) => {
    const one = panels[p];
    if (bar >= 0) {
      const { name, start, end, bytes } = one.bars[bar];
      const moved = bytes ? `, ${number(bytes)} bytes` : '';
      const [takes, from] = [end - start, start].map(ns => number(Math.round(ns)));
      return `${name}${moved}\n${takes} ns from ${from} ns on (${source})`;
    }
    if (gap >= 0) {
      const { start, end, before, after, since, late } = one.gaps[gap];
      const why = late ? ', the GPU waits for a call' : '';
      const ends = `from the ${since} of ${one.bars[before].name} to the start of ${one.bars[after].name}`;
      return `gap: ${number(Math.round(end - start))} ns${why}\n${ends} (${source})`;
    }
    return `${one.rows[row]}: nothing`;
  };
  const label = step =>
    `${own[frameAt(step).scene].map(p => titleOf(panels[p])).join('. ')}. ${frameAt(step).sentence}`;
  const legend = [
    ...names.map((name, n) => [
      `background:${TINTS[n % TINTS.length]};opacity:${PALE}`,
      purposes[name] ? `${name}: ${purposes[name]}` : name,
    ]),
    ...(panels.some(one => one.bars.some(bar => bar.copy))
      ? [[`background:${COPY};opacity:${PALE}`, 'copy from host memory']]
      : []),
    ...(panels.some(one => one.rows.includes('host'))
      ? [[`background:currentColor;opacity:${PALE * HOST}`, 'a call of the host']]
      : []),
    ...(panels.some(one => one.gaps.some(gap => gap.late))
      ? [[`background:${WAIT};opacity:${WAITS}`, 'the GPU waits for a late call']]
      : []),
    [BRACKET, 'a gap: the row is idle'],
    ...(panels.some(one => one.gaps.some(gap => gap.since === 'start'))
      ? [[BRACKET, 'the first of children: from the start of their parent']]
      : []),
  ];
  return canvasView(host, context, {
    title: 'Time line',
    layout,
    marks,
    over,
    locate,
    describe,
    label,
    said: step => notes[frameAt(step).scene],
    legend,
  });
}
