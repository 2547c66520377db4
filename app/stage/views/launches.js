// The launches and copies of one run, or of two on one scale: a row for each stream, and the gaps
// with their lengths in a strip under the row. A line is at the time of the step. Launches by a kernel
// have a row of their own. Below the axis are the lengths of the host's calls. No recording has their
// place, so they are apart from the run.
import { canvasView } from '../core/canvas.js';
import { matches } from '../core/covers.js';
import { blend, COLOURS, number, rgb, smallText } from '../core/paint.js';
import { launchesLayout } from './layouts/launches.js';

const TINTS = [COLOURS.K, COLOURS.O, COLOURS.P, COLOURS.S],
  COPY = COLOURS.Q;
const MICRO = 1e3; // ns
const BRACKET =
  'border:1.5px solid currentColor;border-top:0;width:1.1rem;height:.35rem;border-radius:0';
const DASHED =
  'background:repeating-linear-gradient(currentColor 0 3px,transparent 3px 5px) 0 0/2px 100% no-repeat;' +
  'width:.5rem;height:.9rem';

export default function (host, { meta }, context) {
  const { clock } = context,
    { panels, frames, purposes, window: wide, lead, note, label: source } = meta;
  const names = [
    ...new Set(panels.flatMap(one => one.bars.filter(bar => !bar.copy).map(bar => bar.entry))),
  ];
  let em = 13,
    small = 13,
    box = launchesLayout({ width: 1, height: 1, em: 13 }, []);
  const frameAt = step => frames[Math.min(step, frames.length - 1)];
  const micro = ns => `${Number((ns / MICRO).toPrecision(3)).toLocaleString('en')} µs`;
  const tintOf = bar =>
    bar.copy ? COPY : TINTS[Math.max(0, names.indexOf(bar.entry)) % TINTS.length];
  const xOf = ns => box.x + (ns / wide) * box.w;
  const layout = size => {
    ({ em } = size);
    small = smallText(em);
    box = launchesLayout(
      size,
      panels.map(one =>
        one.lanes.map((parts, row) => ({
          parts,
          gaps: one.gaps.some(gap => gap.row === row && gap.end > gap.start),
        })),
      ),
    );
    return box.height;
  };

  // ---- marks: bars grow as far as the time of the step ----
  const marks = ({ step, paint }) => {
    const { at, panel, bar: current } = frameAt(step),
      ended = current < 0;
    const back = rgb(paint.background);
    const listed = [];
    panels.forEach((one, p) => {
      const place = box.panels[p];
      listed.push(
        text(`title ${p}`, titleOf(one), 0, place.y + 1.25 * em, box.x + box.w, { bold: true }),
      );
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
      one.bars.forEach((bar, n) => {
        const [y, h] = partOf(one, place.rows[bar.row], bar),
          x = xOf(bar.start),
          w = Math.max(2, xOf(bar.end) - x),
          seen = ended ? w : Math.max(0, Math.min(w, xOf(at) - x)),
          lit = p === panel && n === current;
        listed.push({
          id: `bar ${p} ${n}`,
          kind: 'rect',
          rect: [x, y, w, h],
          fill: blend(rgb(tintOf(bar)), back, lit ? 0.9 : 0.35),
          stroke: lit ? paint.primary : undefined,
          width: 2,
        });
        listed.push({
          id: `done ${p} ${n}`,
          kind: 'rect',
          rect: [x, y, seen, h],
          fill: blend(rgb(tintOf(bar)), back, 0.9),
        });
      });
    });
    panels.forEach((one, p) => {
      const [top] = box.panels[p].rows,
        foot = box.panels[p].rows[one.rows.length - 1];
      listed.push({
        id: `now ${p}`,
        kind: 'line',
        rect: [xOf(at), top.y, 0, foot.y + foot.h - top.y],
        stroke: paint.text,
        width: 1.5,
        dash: [4, 3],
      });
    });
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
  const titleOf = one =>
    clock.covers.length
      ? one.title
      : `${one.title}: ${micro(one.total)}, ${micro(one.idle)} of it idle`;

  // ---- the names of bars, the lengths of gaps and the axis do not move ----
  const over = (g, { at, paint }) => {
    panels.forEach((one, p) => {
      const rows = box.panels[p].rows;
      one.bars.forEach(bar => drawName(g, paint, one, bar, partOf(one, rows[bar.row], bar)));
      const ends = rows.map(() => 0); // of the last label of each row
      one.gaps.forEach((gap, n) => {
        const asked = clock.covers.some(cover => matches({ panel: p, gap: n }, cover));
        if (!asked) ends[gap.row] = drawGap(g, paint, gap, rows[gap.row], ends[gap.row]);
      });
    });
    drawAxis(g, paint);
    if (box.host) drawHost(g, paint);
    if (at?.bar >= 0) {
      const one = panels[at.panel],
        bar = one.bars[at.bar],
        x = xOf(bar.start),
        [y, h] = partOf(one, box.panels[at.panel].rows[bar.row], bar);
      g.strokeStyle = paint.primary;
      g.lineWidth = 2;
      g.strokeRect(x, y, Math.max(3, xOf(bar.end) - x), h);
    }
  };
  // The name of a bar, with its length below if there is room. A short last bar has it on its right.
  const drawName = (g, paint, one, bar, part) => {
    const [top, high] = part;
    if (high < 1.1 * small) return;
    const x = xOf(bar.start) + 3,
      room = xOf(bar.end) - x - 3,
      middle = top + high / 2;
    g.font = `600 ${small}px ${paint.font}`;
    const wide = said => g.measureText(said).width + 4,
      names = [bar.name, bar.name.replace('copy of ', ''), bar.name.replace(/^\D* /, '')],
      said = names.find(one => wide(one) <= room);
    if (said) {
      const takes = micro(bar.end - bar.start),
        both = high > 3.4 * small && wide(takes) <= room && !clock.covers.length;
      onPlate(g, paint, said, x, both ? middle - 0.7 * small : middle);
      g.font = `${small}px ${paint.font}`;
      if (both) onPlate(g, paint, takes, x, middle + 0.7 * small);
      return;
    }
    const last = one.bars.every(other => other === bar || other.start < bar.start),
      after = xOf(bar.end) + 3;
    if (!last) return;
    const named = [`${bar.name} ${micro(bar.end - bar.start)}`, bar.name].find(
      one => after + wide(one) < box.x + box.w,
    );
    if (named) onPlate(g, paint, clock.covers.length ? bar.name : named, after, middle);
  };
  // A text on a plate of the background.
  const onPlate = (g, paint, said, x, middle) => {
    g.fillStyle = paint.background;
    g.globalAlpha = 0.85;
    g.fillRect(x, middle - 0.68 * small, g.measureText(said).width + 4, 1.36 * small);
    g.globalAlpha = 1;
    g.fillStyle = paint.text;
    g.fillText(said, x + 2, middle + 0.36 * small);
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
    const said = micro(length),
      size = g.measureText(said).width,
      left = Math.max(box.x + 2, Math.min(x + w / 2 - size / 2, box.x + box.w - size - 2));
    if (left < last + 4) return last;
    g.fillStyle = paint.text;
    g.fillText(said, left, foot + 2 + 0.9 * small);
    return left + size;
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
      if (x + w / 2 < box.x + box.w) g.fillText(said, x - w / 2, box.axis + 1.2 * em);
    }
  };

  // The host's calls: a bar for each panel, from the left edge, with its length behind it.
  const drawHost = (g, paint) => {
    const { y, rows } = box.host;
    g.fillStyle = paint.text;
    g.font = `600 ${small}px ${paint.font}`;
    g.fillText(lead, 2, y + 1.35 * em, box.x + box.w);
    g.font = `${small}px ${paint.font}`;
    panels.forEach((one, p) => {
      const row = rows[p],
        w = Math.min(box.w, Math.max(2, xOf(one.host) - box.x)),
        middle = row.y + row.h / 2,
        [short] = one.calls.split(/(?<=µs)\. /);
      g.fillStyle = paint.text;
      g.fillText(panels.length > 1 ? ['above', 'below'][p] : 'host', 2, middle + 0.36 * small);
      g.fillStyle = blend(rgb(paint.text), rgb(paint.background), 0.3);
      g.fillRect(box.x, row.y, w, row.h);
      if (xOf(one.host) > box.x + box.w) drawBreak(g, paint, row);
      if (clock.covers.length) return;
      g.fillStyle = paint.text;
      const right = box.x + w + 6,
        end = box.x + box.w,
        fits = (said, x) => x + g.measureText(said).width < end;
      const [said, x] = [
        [one.calls, right],
        [one.calls, box.x + 6],
        [short, right],
      ].find(([said, x]) => fits(said, x)) ?? [short, box.x + 6];
      g.fillText(said, x, middle + 0.36 * small, end - x);
    });
  };

  // Two gaps near the right end of a bar that is longer than the axis.
  const drawBreak = (g, paint, row) => {
    g.fillStyle = paint.background;
    for (const n of [1, 2])
      g.fillRect(box.x + box.w - (0.4 * n + 0.3) * em, row.y, 0.15 * em, row.h);
  };

  // ---- the cursor ----
  const locate = (x, y) => {
    const inside = row => y >= row.y && y < row.y + row.h + row.strip,
      p = box.panels.findIndex(one => one.rows.some(inside));
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
      const { start, end, before, after, since } = one.gaps[gap];
      const ends = `from the ${since} of ${one.bars[before].name} to the start of ${one.bars[after].name}`;
      return `gap: ${number(Math.round(end - start))} ns\n${ends} (${source})`;
    }
    return `${one.rows[row]}: nothing`;
  };
  const label = step =>
    `${panels.map(one => `${titleOf(one)}, ${one.bars.length} launches and copies`).join('. ')}. ` +
    `${frameAt(step)?.sentence ?? ''}`;
  const legend = [
    ...names.map((name, n) => [
      `background:${TINTS[n % TINTS.length]}`,
      purposes[name] ? `${name}: ${purposes[name]}` : name,
    ]),
    ...(panels.some(one => one.bars.some(bar => bar.copy))
      ? [[`background:${COPY}`, 'copy from host memory']]
      : []),
    [BRACKET, 'a gap: neither kernel nor copy on the row'],
    ['', 'pale: not yet run'],
    ...(panels.some(one => one.gaps.some(gap => gap.since === 'start'))
      ? [[BRACKET, 'the first of children: from the start of their parent']]
      : []),
    [DASHED, 'time of the step'],
  ];
  return canvasView(host, context, {
    title: 'Time line',
    layout,
    marks,
    over,
    locate,
    describe,
    label,
    said: () => (box.host ? note : `${lead} ${note}`),
    legend,
  });
}
