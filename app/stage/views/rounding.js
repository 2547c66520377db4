// How far each step moves O in every type, and below it the errors of S, P, l and O against float64 as
// they are so far. Colours go by powers of ten, because one step's error may be a thousandth of
// another's.
import { canvasView } from '../core/canvas.js';
import {
  blend,
  COLOURS,
  NOT_FINITE,
  PALETTE,
  exact,
  matrixImage,
  odd,
  rgb,
  smallText,
  spanOf,
  theme,
} from '../core/paint.js';
import { barRects, barsLayout, drawBars } from './rounding_bars.js';

const DECADES = 6; // below a panel's largest error; what is smaller has no colour
const HEAD = 3.45, // em: the titles over the panels
  TOP = 2.9; // em: the two lines over the table
const SHARE = { S: 0.31, P: 0.31, l: 0.1, O: 0.28 },
  OF = { S: 'key', P: 'key', l: 'tile', O: 'dim' };
const SAID = { S: 'scores', P: 'share of a key', l: 'sum, relative', O: 'output' };
// What makes the error: the type of the data, rounding by the kernel, or its arithmetic.
const KINDS = ['data', 'sum', 'sum', 'kernel', 'sum', 'sum', 'kernel', 'all'];
const KIND_TINT = { data: COLOURS.Q, kernel: COLOURS.P, sum: COLOURS.other, all: COLOURS.O };

export default function (host, { meta, columns }, context) {
  const { row0, rows, keys, dims, tiles, block, at, stages, absent, frames } = meta,
    wide = { S: keys, P: keys, l: tiles, O: dims };
  const { background, text } = theme(host),
    paper = rgb(background),
    ink = rgb(text),
    ends = [rgb(PALETTE.sign.below), rgb(PALETTE.sign.above)];
  const stepOf = step => Math.min(step, frames.length - 1),
    heads = [...stages.slice(1), 'In the end']; // of the steps after the first, and of all

  // ---- numbers ----
  const plain = value =>
    // NaN and infinity come as text
    typeof value === 'string' ? Number(value.replace('inf', 'Infinity')) : value;
  const runs = meta.runs.map(run => ({
    ...run,
    error: plain(run.error),
    parts: run.parts.map(plain),
  }));
  const matrix = (name, step) =>
    columns[name].subarray(
      at[name][step] * rows * wide[name],
      (at[name][step] + 1) * rows * wide[name],
    );
  const there = name => matrix(name, 0); // NaN where there is nothing, at any step
  const changed = (name, step) => {
    const now = matrix(name, step),
      before = matrix(name, Math.max(0, step - 1));
    return now.map((value, n) => value - before[n]);
  };
  const made = new Map(),
    of = (alone, name, step) => {
      const key = `${alone} ${name} ${alone ? step : at[name][step]}`;
      if (!made.has(key))
        made.set(key, build(alone ? changed(name, step) : matrix(name, step), name));
      return made.get(key);
    };
  const spans = Object.fromEntries(Object.keys(wide).map(name => [name, spanOf(columns[name])]));
  const tint = (value, span) => {
    const share = value
      ? Math.max(0, Math.min(1, 1 + Math.log10(Math.abs(value) / span) / DECADES))
      : 0;
    return paper.map((v, i) => v + (ends[value < 0 ? 0 : 1][i] - v) * share ** 2);
  };
  const build = (values, name) => {
    const n = wide[name],
      seen = there(name);
    const image = matrixImage(
      n,
      rows,
      (y, x) => (Number.isNaN(seen[y * n + x]) ? undefined : values[y * n + x]),
      spans[name],
      tint,
      ink,
    );
    const known = values.filter((_, i) => !Number.isNaN(seen[i])),
      wrong = odd(known);
    const most = known.reduce((large, v) => Math.max(large, Math.abs(v)), 0);
    return {
      values,
      image,
      said: wrong || (most ? short(most) : ''),
      upto: wrong || (most ? `up to ${short(most)}` : 'none'),
    };
  };
  const short = (value, digits = 1) =>
    value === 0
      ? '0'
      : Number.isFinite(value)
        ? value.toExponential(digits).replace('e-', 'e\u2212')
        : String(value).replace('Infinity', 'inf');

  // ---- layout ----
  let em,
    small,
    area = { top: 0, width: 1, high: 1 },
    table = null,
    bars = null; // of a guided reader, in place of the table
  const layout = size => {
    ({ em } = size);
    small = smallText(em);
    const guided = host.closest('.wg')?.dataset.depth === 'guided' && !absent.length;
    bars = guided ? barsLayout(size, heads.length - 1, runs.length) : null;
    if (bars) return bars.height;
    const line = Math.max(1.5 * em, Math.min(3.6 * em, (0.45 * size.height) / runs.length)),
      top = (TOP + 0.4) * em + (runs.length + absent.length) * line,
      high = Math.max(2.4 * em, Math.min(size.height - top - HEAD * em, 7.5 * em));
    const label = Math.min(0.3 * size.width, 11.5 * em);
    table = { x: label, y: 0.3 * em, w: (size.width - label - 2) / heads.length, line, label };
    area = { top, width: size.width, high };
    return Math.floor(top + HEAD * em + high);
  };
  const panels = () =>
    bars
      ? [{ name: 'O', ...bars.map, first: false, head: 0 }]
      : rowOf(Object.keys(SHARE), area.top, area.high);
  const rowOf = (names, head, h) => {
    const left = 2.4 * em,
      gap = 0.9 * em,
      whole = names.reduce((sum, name) => sum + SHARE[name], 0),
      room = area.width - left - (names.length - 1) * gap - 2;
    let x = left;
    return names.map((name, n) => {
      const w = (room * SHARE[name]) / whole,
        y = head + HEAD * em;
      x += w + gap;
      return { name, x: x - w - gap, y, w, h, first: n === 0, head: head + 1.5 * em };
    });
  };

  // ---- drawing ----
  const draw = (g, { step: now, at: thing, paint }) => {
    const step = stepOf(now);
    g.imageSmoothingEnabled = false;
    for (const panel of panels()) drawPanel(g, paint, panel, step, thing);
    if (bars) drawGuided(g, paint, step, thing);
    else drawTable(g, paint, step, thing);
  };
  const chosen = runs.findIndex(run => run.chosen);
  const drawGuided = (g, paint, step, thing) => {
    const own = runs[chosen],
      tint = n => KIND_TINT[KINDS[n]],
      values = valuesOf(own);
    drawBars(g, paint, em, bars, {
      label: own.label,
      steps: heads.slice(0, -1).map((name, n) => {
        const value = values[n];
        return { name, value, tint: tint(n), now: n + 1 === step };
      }),
      types: runs.map(run => {
        const { label: name, error: value } = run;
        return { name, value, tint: KIND_TINT.all, own: run.chosen };
      }),
      short,
      wrong: PALETTE.wrong,
    });
    if (thing?.run === undefined) return;
    const last = thing.stage === heads.length,
      { x, y, w, row } = last ? bars.types : bars.steps;
    g.strokeStyle = paint.primary;
    g.lineWidth = 2;
    g.strokeRect(x + 1, y + (last ? thing.run : thing.stage - 1) * row, w - 2, row);
  };
  const drawPanel = (g, paint, { name, x, y, w, h, first, head }, step, thing) => {
    const { image, said, upto } = of(false, name, step);
    g.fillStyle = paint.text;
    if (first) {
      g.font = `600 ${em}px ${paint.font}`;
      g.fillText(
        step ? 'Errors so far, element by element' : 'No errors so far',
        0,
        head - 0.35 * em,
      );
      g.font = `${small}px ${paint.font}`;
      g.textAlign = 'right';
      g.fillText(
        String(row0),
        x - 5,
        y + Math.max(0.8 * small, Math.min(h / rows / 2 + 0.35 * small, h / 2)),
      );
      if (rows > 1)
        g.fillText(
          String(row0 + rows - 1),
          x - 5,
          y + h - Math.max(0, Math.min(h / rows / 2 - 0.35 * small, h / 2)),
        );
      g.textAlign = 'left';
    }
    g.fillStyle = COLOURS[name] ?? COLOURS.other;
    g.fillRect(x, y - 0.95 * em, 0.7 * em, 0.7 * em);
    g.fillStyle = paint.text;
    g.font = `600 ${em}px ${paint.font}`;
    g.fillText(name, x + em, y - 0.3 * em);
    g.font = `${small}px ${paint.font}`;
    const from = x + 2.1 * em,
      words = [`${SAID[name]}: ${upto}`, upto, said].find(
        t => from + g.measureText(t).width < x + w + 0.5 * em,
      );
    if (words) g.fillText(words, from, y - 0.3 * em);
    g.drawImage(image, x, y, w, h);
    g.lineWidth = 1;
    g.strokeStyle = paint.border;
    g.strokeRect(x - 0.5, y - 0.5, w + 1, h + 1);
    const pixels = (w / keys) * block;
    if ('SP'.includes(name) && said && pixels > 6)
      for (let c = pixels; c < w - 1; c += pixels) {
        g.beginPath();
        g.moveTo(x + c, y);
        g.lineTo(x + c, y + h);
        g.stroke();
      }
    if (thing?.row === undefined) return;
    g.strokeStyle = paint.primary;
    g.strokeRect(x, y + ((thing.row - row0) * h) / rows, w, Math.max(2, h / rows));
    const column = thing[OF[name]];
    if (column !== undefined)
      g.strokeRect(x + (column * w) / wide[name], y, Math.max(2, w / wide[name]), h);
  };
  const valuesOf = run => [...run.parts.slice(1), run.error];
  const most = values => Math.max(1e-30, ...values.filter(v => Number.isFinite(v))),
    mostOfAll = most(runs.map(run => run.error));
  // The share of a bar: of the largest in its row, at the end of the largest of all types.
  const bar = (value, run, last) => value / (last ? mostOfAll : most(run.parts.slice(1)));
  // A head in two lines, parted at its first space.
  const linesOf = head => [head.split(' ')[0], head.split(' ').slice(1).join(' ')];
  const drawTable = (g, paint, step, thing) => {
    const { x, y, w, line, label } = table;
    g.font = `600 ${em}px ${paint.font}`;
    g.fillStyle = paint.text;
    g.fillText('O moves by (RMS)', 0, y + 0.9 * em, label - 4);
    g.font = `${small}px ${paint.font}`;
    g.fillText('Linear, a scale for each row', 0, y + 2.2 * em, label - 6);
    heads.forEach((head, n) => {
      const last = n === heads.length - 1;
      g.font = `${n + 1 === step || last ? 600 : 400} ${em}px ${paint.font}`;
      const lines = last ? [head, 'one scale'] : linesOf(head);
      lines.forEach((line, m) => g.fillText(line, x + n * w, y + (0.9 + 1.3 * m) * em, w - 3));
    });
    runs.forEach((run, number) => {
      const top = y + TOP * em + number * line;
      g.font = `${run.chosen ? 600 : 400} ${em}px ${paint.font}`;
      g.fillStyle = paint.text;
      g.fillText(run.label, 0, top + 0.5 * line + 0.36 * em, label - 6);
      valuesOf(run).forEach((value, n) => {
        const here = n + 1 === step,
          last = n === heads.length - 1,
          finite = Number.isFinite(value);
        g.fillStyle = finite
          ? blend(rgb(KIND_TINT[KINDS[n]]), rgb(paint.background), here || last ? 0.6 : 0.35)
          : PALETTE.wrong;
        g.fillRect(
          x + n * w,
          top + 1,
          finite ? bar(value, run, last) * (w - 6) : 0.5 * em,
          line - 3,
        );
        g.fillStyle = paint.text;
        g.font = `${run.chosen && here ? 600 : 400} ${em}px ${paint.font}`;
        g.fillText(
          short(value, w > 4 * em ? 1 : 0),
          x + n * w + (finite ? 3 : 0.7 * em),
          top + 0.5 * line + 0.36 * em,
          w - 6,
        );
      });
    });
    absent.forEach(([type, why], number) => {
      g.font = `${em}px ${paint.font}`;
      g.fillStyle = paint.text;
      g.fillText(
        type,
        0,
        y + TOP * em + (runs.length + number + 0.5) * line + 0.36 * em,
        label - 6,
      );
      g.fillText(
        `not beside: ${why}`,
        x,
        y + TOP * em + (runs.length + number + 0.5) * line + 0.36 * em,
        heads.length * w,
      );
    });
    const framed = (n, first, last) => {
      const from = first < 0 ? y : y + TOP * em + first * line;
      g.strokeRect(x + n * w - 2, from, w - 2, y + TOP * em + last * line - from);
    };
    g.strokeStyle = paint.text;
    g.lineWidth = 1.5;
    if (step) framed(step - 1, -1, runs.length);
    g.strokeStyle = paint.primary;
    if (thing?.run !== undefined) framed(thing.stage - 1, thing.run, thing.run + 1);
  };

  // ---- the cursor ----
  const areas = () => {
    const gridOf = (rect, columns, count, thing) => ({
      rect,
      datum: {},
      grid: { columns, count, thing },
    });
    const maps = panels().map(({ name, x, y, w, h }) => {
      const columns = wide[name];
      return gridOf([x, y, w, h], columns, rows * columns, number => ({
        part: name,
        alone: false,
        row: row0 + Math.floor(number / columns),
        [OF[name]]: number % columns,
      }));
    });
    if (bars) {
      const [steps, ...types] = barRects(bars, em);
      const step = number => ({ run: chosen, stage: number + 1 });
      return [
        gridOf(steps, 1, heads.length - 1, step),
        ...types.map((rect, run) => ({ rect, datum: { run, stage: heads.length } })),
        ...maps,
      ];
    }
    const { x, y, w, line } = table,
      columns = heads.length;
    const cell = number => ({
      run: Math.floor(number / columns),
      stage: 1 + (number % columns),
    });
    const rect = [x, y + TOP * em, columns * w, runs.length * line];
    return [gridOf(rect, columns, runs.length * columns, cell), ...maps];
  };
  const signed = value =>
    value === 0
      ? 'no error'
      : Number.isFinite(value)
        ? `${exact(Math.abs(value))} ${value < 0 ? 'below' : 'above'} float64`
        : String(value);
  const describe = (thing, now) => {
    const step = stepOf(now);
    if (thing.run !== undefined) {
      const run = runs[thing.run],
        value = valuesOf(run)[thing.stage - 1],
        end = thing.stage === heads.length;
      return (
        `${run.label}, ${run.kernel}, rows ${run.rows[0]} to ${run.rows[1] - 1}\n` +
        `${end ? `RMS error of O: ${exact(value)}` : `${stages[thing.stage]} moves O by ${exact(value)} (RMS)`}`
      );
    }
    const { part, row } = thing,
      column = thing[OF[part]],
      n = (row - row0) * wide[part] + column;
    const head = `${part} of row ${row}, ${OF[part]} ${column}`;
    if (Number.isNaN(there(part)[n])) return `${head}: hidden by the causal mask`;
    const so = of(false, part, step).values[n],
      alone = of(true, part, step).values[n];
    return `${head}\nso far ${signed(so)}${part === 'l' ? ', of itself' : ''}\nthis step moves it by ${exact(alone)}`;
  };
  const errorsAt = step =>
    ['S', 'P', 'l', 'O']
      .map(name => `${name}, ${SAID[name]}: ${of(false, name, step).upto}`)
      .join('; ');
  const label = step =>
    `${frames[stepOf(step)].title}. ${frames[stepOf(step)].sentence} ${errorsAt(stepOf(step))}.`;
  const legend = [
    [`background:${KIND_TINT.data}`, 'rounding of the data: any kernel in this type has it'],
    [`background:${KIND_TINT.kernel}`, 'rounding by the kernel'],
    [`background:${KIND_TINT.sum}`, 'arithmetic of the kernel'],
    [
      `background:linear-gradient(90deg,${PALETTE.sign.below},transparent,${PALETTE.sign.above})`,
      'error below and above float64: from the largest of the panel down to a millionth of it',
    ],
    ...(Object.values(columns).some(values =>
      values.some(v => v === Infinity || v === -Infinity),
    ) || runs.some(run => !Number.isFinite(run.error))
      ? [NOT_FINITE]
      : []),
  ];
  return canvasView(host, context, {
    title: 'Errors',
    layout,
    draw,
    areas,
    describe,
    label,
    legend,
  });
}
