// One product of the tensor cores: A left, B above, C where they meet. A cell's colour is the lane
// that holds it. The cells of the chosen element's lane have a frame and its number, in all three.
// In the free corner are the products that make the chosen element of C, a line for each, next to
// the row of B that it takes: two numbers, and their product as a bar. A click chooses an element and tells its way.
import { canvasView } from '../core/canvas.js';
import { matches } from '../core/covers.js';
import { blend, colourOf, PALETTE, exact, figure, number, rgb, smallText, theme } from '../core/paint.js';
import { fragmentsLayout, numberSize } from './layouts/fragments.js';

const LANES = 32,
  K = 16,
  BANKS = 32,
  FEW = 4, // products in a low picture
  ROOMY = 1.35, // em: lines that do not touch
  HUES = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#d55e00', '#56b4e9', '#8a6fd1', '#777'],
  SHADES = [0.3, 0.45, 0.6, 0.75],
  ONE = { queries: 'query', keys: 'key', dims: 'dim' };

/** @type {Picture<tensor_cores.FragmentsMeta>} */
export default function (host, { meta, columns }, context) {
  const { clock } = context;
  const { instruction, scale, sum_bits, dtype, kinds, matrices, fetches, bases, symbols, frames } = meta;
  const partOf = name => name.split(' ')[0]; // of a matrix: `Q of dK` is the part Q
  const frameAt = step => frames[Math.min(step, frames.length - 1)];
  const group = instruction === 'wgmma';
  let em,
    box = {},
    chosen = { part: 'C', i: 0, j: 0 },
    of = { i: 0, j: 0 };

  // ---- elements ----
  const place = (name, row, col) => {
    const [row0, col0, rows, cols] = matrices[name],
      r = row - row0,
      c = col - col0;
    return r < 0 || c < 0 || r >= rows || c >= cols ? -1 : r * cols + c;
  };
  const known = Object.fromEntries(
    Object.keys(matrices).map(name => [
      name,
      Object.fromEntries(
        ['value', 'lane', 'register', 'half', 'byte', 'fetch', 'by'].map(what => [what, columns[`${name}_${what}`]]),
      ),
    ]),
  );
  const has = (name, what, n) => (n < 0 ? -1 : (known[name][what]?.[n] ?? -1));
  const laneOf = (name, row, col) => has(name, 'lane', place(name, row, col));
  // A number as the instruction takes it: zero beyond an edge.
  const taken = (name, row, col) => {
    const n = place(name, row, col);
    return n < 0 ? 0 : known[name].value[n];
  };
  // Where cell (i, j) of a part lies: matrix, row, column.
  const element = (f, part, i, j) => {
    const { a, b, c, turned } = kinds[f.phase],
      name = { A: a, B: b, C: c }[part],
      at = [(part === 'B' ? f.k : f.rows)[0] + i, (part === 'A' ? f.k : f.cols)[0] + j];
    return [name, ...(turned.includes(part) ? at.reverse() : at)];
  };
  const factors = (f, i, j) =>
    Array.from({ length: K }, (_, k) => [taken(...element(f, 'A', i, k)), taken(...element(f, 'B', k, j))]);
  // An element of C at a step: before the product and after it, and at the end of its tile.
  const sumsOf = (step, i, j) => {
    const n = Math.min(step, frames.length - 1),
      [before, after, end] = columns.places.subarray(3 * n, 3 * n + 3),
      at = i * (frames[n].cols[1] - frames[n].cols[0]) + j,
      ends = name => (end < 0 ? NaN : columns[name][end + at]),
      logged = ends('logged'),
      due = ends('due');
    return {
      before: before < 0 ? 0 : columns.c[before + at],
      after: columns.c[after + at],
      last: end >= 0,
      ...{ logged, due: Number.isNaN(due) ? logged : due, error: ends('error') },
    };
  };
  const valueAt = (f, step, part, i, j) => (part === 'C' ? sumsOf(step, i, j).after : taken(...element(f, part, i, j)));

  // ---- words ----
  const who = (f, part, i, j) => {
    const [name, row, col] = element(f, part, i, j),
      n = place(name, row, col),
      lane = has(name, 'lane', n);
    if (lane < 0) return null;
    const bits = has(name, 'half', n),
      register = `${part.toLowerCase()}${has(name, 'register', n)}`;
    return (
      `${group ? `lane ${lane % LANES} of the warpgroup's warp ${Math.floor(lane / LANES)}` : `lane ${lane}`}, ` +
      `register ${register}${bits < 0 ? '' : bits ? ', high half' : ', low half'}`
    );
  };
  // Where an element of Q, K or V lies: in global memory, and in shared memory with its bank, its
  // piece of 128 bytes and that piece's place.
  const lies = (name, row, col) => {
    const n = place(name, row, col),
      [base, rowStep, dimStep, item] = bases[partOf(name)],
      at = base + row * rowStep + col * dimStep,
      byte = has(name, 'byte', n);
    return {
      at,
      first: at * item,
      byte,
      bank: Math.floor(byte / 4) % BANKS,
      piece: Math.floor((col % 64) / 8),
      to: Math.floor((byte % 128) / 16),
      fetch: fetches[has(name, 'fetch', n)],
    };
  };
  // The way of a weight or of its gradient, which the kernel makes itself.
  const ofSquare = (name, n, holder) => {
    const said = [`the ${partOf(name) === 'P' ? 'weight of the key' : 'number of this pair'}, rounded to ${dtype}`],
      byte = has(name, 'byte', n),
      fetch = fetches[has(name, 'fetch', n)];
    if (byte >= 0)
      said.push(
        `byte ${number(byte)} of ${partOf(name)} in shared memory, bank ${Math.floor(byte / 4) % BANKS}`,
        `fetched by the ldmatrix of ${fetch.place} (${fetch.wavefronts} wavefronts, ${fetch.ideal} at best)`,
        `then in ${holder}`,
      );
    else if (!known[name].lane)
      said.push('all warpgroups store it in shared memory, and the tensor cores fetch it from there');
    else if (holder) said.push(`in ${holder}: it never was in memory`);
    else said.push('a hidden key, or a row beyond the last: nothing is logged, and it counts as 0');
    return said;
  };
  const way = (f, part, i, j) => {
    const [name, row, col] = element(f, part, i, j),
      n = place(name, row, col),
      holder = who(f, part, i, j),
      said = [];
    if (!bases[partOf(name)]) return ofSquare(name, n, holder);
    if (n < 0) return ['beyond the last row: zeros'];
    const { at, first, byte, bank, piece, to, fetch } = lies(name, row, col);
    said.push(`element ${number(at)} of ${symbols[partOf(name)]} in global memory (byte ${number(first)})`);
    if (byte >= 0)
      said.push(
        `byte ${number(byte)} of ${symbols[partOf(name)]} in shared memory, bank ${bank}: piece ` +
          `${piece} of its 128 bytes lies in place ` +
          `${to}${piece === to ? '' : ' (swizzled)'}`,
      );
    if (fetch)
      said.push(
        `fetched by the ldmatrix of ${fetch.place} (${fetch.wavefronts} wavefronts, ` +
          `${fetch.ideal} at best), its row addressed by lane ${has(name, 'by', n)}`,
      );
    else if (byte >= 0) said.push('the tensor cores fetch it from there');
    if (holder) said.push(`then in ${holder}`);
    return said;
  };
  const title = (f, part, i, j) => {
    const [name, row, col] = element(f, part, i, j);
    return `${partOf(name)}[${row}, ${col}]`;
  };
  // An element of C in words, such as `S of query 8 and key 16`: a query comes before a key.
  const named = (f, i, j) => {
    const { down, across } = kinds[f.phase],
      both = [`${ONE[down]} ${f.rows[0] + i}`, `${ONE[across]} ${f.cols[0] + j}`];
    return `${partOf(f.phase)} of ${(across === 'queries' ? both.reverse() : both).join(' and ')}`;
  };
  const ofC = (f, step, i, j) => {
    const { before, after, last, due, logged, error } = sumsOf(step, i, j),
      holder = who(f, 'C', i, j),
      said = [
        `${exact(before)} before, ${exact(after)} after this product (derived)`,
        holder ? `in ${holder}` : 'no lane logs it: hidden, beyond an edge, or without a probe',
      ];
    if (!last || !holder || Number.isNaN(logged)) return said;
    const times = kinds[f.phase].scaled ? `times ${scale}: ${f.phase === 'S' ? 'the score ' : ''}${exact(due)}; ` : '',
      off = Number.isFinite(error)
        ? `, ${error ? `${figure(Math.abs(error), 3)} ${error < 0 ? 'below' : 'above'}` : 'equal to'} ` +
          'the sum in float64 (derived)'
        : '';
    said.push(`${times}the kernel logged ${exact(logged)}${off}`);
    return said;
  };
  const told = (step, { part, i, j }) => {
    const f = frameAt(step),
      head = `${title(f, part, i, j)}${part === 'C' ? '' : ` = ${exact(valueAt(f, step, part, i, j))}`}`;
    return `${head}: ${(part === 'C' ? ofC(f, step, i, j) : way(f, part, i, j)).join('\n')}`;
  };
  // The same in a line, under the picture.
  const shortly = (step, thing) => {
    const f = frameAt(step),
      { part, i, j } = thing,
      [name, row, col] = element(f, part, i, j),
      holder = who(f, part, i, j);
    if (part === 'C' || !bases[partOf(name)] || has(name, 'byte', place(name, row, col)) < 0)
      return `${told(step, thing).replaceAll('\n', '; ')}.`;
    const { at, byte, bank, piece, to, fetch } = lies(name, row, col);
    const stops = [
      `global memory, element ${number(at)}`,
      `shared memory, byte ${number(byte)}, bank ${bank} (piece ${piece} in place ${to})`,
    ];
    stops.push(fetch ? `ldmatrix, ${fetch.place}` : 'tensor cores', ...(holder ? [holder] : []));
    return `${title(f, part, i, j)} = ${exact(valueAt(f, step, part, i, j))}: ${stops.join(' \u2192 ')}.`;
  };

  // ---- layout ----
  const layout = size => {
    ({ em } = size);
    box = fragmentsLayout(size, {
      widest: Math.max(...frames.map(f => f.cols[1] - f.cols[0])),
      tallest: Math.max(...frames.map(f => f.rows[1] - f.rows[0])),
    });
    return box.height;
  };
  const shape = (f, part) => {
    const rows = f.rows[1] - f.rows[0],
      cols = f.cols[1] - f.cols[0];
    return part === 'A' ? [rows, K] : part === 'B' ? [K, cols] : [rows, cols];
  };
  const cell = (f, part) => {
    const [rows, cols] = shape(f, part),
      { w, h } = box[part];
    return { w: Math.min(w / cols, 5 * em), h: h / rows, rows, cols };
  };

  // ---- drawing ----
  const draw = (g, { step, at, paint }) => {
    if (!frames.length) return;
    const f = frameAt(step),
      who = inside(step, at ?? chosen),
      held = covered(who) ? -1 : laneOf(...element(f, who.part, who.i, who.j));
    for (const part of ['A', 'B', 'C']) drawPart(g, paint, f, part, held);
    const seen = at?.part === 'C' ? at : of;
    drawList(g, paint, f, step, seen);
    frameRow(g, paint, f, 'A', seen.i, null);
    frameRow(g, paint, f, 'B', null, seen.j);
    for (const thing of [chosen, at]) if (thing) mark(g, f, thing, thing === at ? paint.primary : paint.text);
    for (const part of ['A', 'B', 'C']) drawHeld(g, paint, f, part, held); // over the frames
  };
  const drawHeld = (g, paint, f, part, held) => {
    const c = cell(f, part),
      text = sizeIn(part, c);
    if (!text || held < 0) return;
    const lanes = lanesOf(f, part, c).map(row => row.map(lane => (lane === held ? lane : -1)));
    g.save();
    [g.strokeStyle, g.lineWidth, g.lineJoin] = [tintOf(held), 3, 'round'];
    drawNumbers(g, paint, part, c, text, lanes, held, true);
    g.restore();
  };
  const sizeIn = (part, c) => numberSize(c, 0.8 * smallText(em), part === 'B' ? 'down' : 'across');
  const lanes = new Map(); // frame -> part -> the lane of each cell
  const lanesOf = (f, part, { rows, cols }) => {
    if (!lanes.has(f)) {
      lanes.clear();
      lanes.set(f, {});
    }
    return (lanes.get(f)[part] ??= Array.from({ length: rows }, (_, i) =>
      Array.from({ length: cols }, (_, j) => laneOf(...element(f, part, i, j))),
    ));
  };
  const mark = (g, f, { part, i, j }, ink) => {
    const c = cell(f, part),
      { x, y } = box[part];
    if (i >= c.rows || j >= c.cols) return;
    g.strokeStyle = ink;
    g.lineWidth = 2.5;
    g.strokeRect(x + j * c.w, y + i * c.h, Math.max(3, c.w), Math.max(3, c.h));
  };
  const frameRow = (g, paint, f, part, i, j) => {
    const c = cell(f, part),
      { x, y } = box[part];
    g.strokeStyle = paint.text;
    g.lineWidth = 1.5;
    if (i !== null && i < c.rows) g.strokeRect(x, y + i * c.h, c.w * c.cols, c.h);
    if (j !== null && j < c.cols) g.strokeRect(x + j * c.w, y, c.w, c.h * c.rows);
  };
  const drawPart = (g, paint, f, part, held) => {
    const c = cell(f, part),
      { x, y } = box[part],
      small = smallText(em),
      text = sizeIn(part, c),
      gap = Math.min(c.w, c.h) > 7 ? 1 : 0,
      lanes = lanesOf(f, part, c);
    lanes.forEach((row, i) =>
      row.forEach((lane, j) => {
        const [cx, cy] = [x + j * c.w, y + i * c.h];
        g.fillStyle = lane < 0 ? paint.panel : tintOf(lane);
        const [di, dj] = part === 'B' ? [1, 0] : [0, 1], // no line between two neighbours of a lane
          opens = lanes[i + di]?.[j + dj] === lane,
          closes = (di ? i : j) % 2 && lanes[i - di]?.[j - dj] === lane,
          wide = (opens && dj ? 2 : 1) * c.w - gap,
          tall = (opens && di ? 2 : 1) * c.h - gap;
        g.fillRect(cx, cy, opens && dj ? c.w : c.w - gap, opens && di ? c.h : c.h - gap);
        if (lane < 0 || lane !== held || closes) return;
        g.strokeStyle = paint.text;
        g.lineWidth = Math.min(2, Math.max(1, c.h / 6));
        g.strokeRect(cx + 1, cy + 1, Math.max(1, wide - 2), Math.max(1, tall - 2));
      }),
    );
    if (text) drawNumbers(g, paint, part, c, text, lanes, held);
    drawEights(g, paint, x, y, c);
    drawHead(g, paint, f, part, small);
    if (part !== 'A') return;
    const each = Math.max(1, Math.ceil((1.15 * small) / c.h), c.rows > 16 ? 8 : 1);
    for (let i = 0; i < c.rows; i += each)
      g.fillText(String(f.rows[0] + i), 2, y + i * c.h + Math.min(c.h, 1.2 * em) * 0.5 + 0.35 * small, 2.3 * em);
  };
  // Eight lanes in a row have one colour in four shades.
  const tints = Array.from({ length: LANES }, (_, n) =>
    blend(rgb(HUES[Math.floor(n / 4) % HUES.length]), rgb(theme(host).background), SHADES[n % SHADES.length]),
  );
  const tintOf = lane => tints[lane % LANES];
  // The lanes' numbers: one for two neighbours of a lane, and bold for the chosen lane.
  const drawNumbers = (g, paint, part, c, text, lanes, held, edged = false) => {
    const [di, dj] = part === 'B' ? [1, 0] : [0, 1];
    let weight = 0; // of the font that is set
    g.fillStyle = paint.text;
    g.textAlign = 'center';
    lanes.forEach((row, i) =>
      row.forEach((lane, j) => {
        if (lane < 0 || ((part === 'B' ? i : j) % 2 && lanes[i - di]?.[j - dj] === lane)) return;
        const due = lane === held ? 700 : 400;
        if (due !== weight) g.font = `${due} ${text}px ${paint.font}`;
        weight = due;
        const two = lanes[i + di]?.[j + dj] === lane ? 1 : 0.5;
        const [x, y] = [
          box[part].x + (j + (dj ? two : 0.5)) * c.w,
          box[part].y + (i + (di ? two : 0.5)) * c.h + 0.36 * text,
        ];
        if (edged) g.strokeText(String(lane % LANES), x, y);
        g.fillText(String(lane % LANES), x, y);
      }),
    );
    g.textAlign = 'left';
  };
  // A register of all lanes is a square of eight rows and columns, or half of it.
  const drawEights = (g, paint, x, y, c) => {
    g.strokeStyle = paint.text;
    g.lineWidth = 1;
    for (let i = 0; i < c.rows; i += 8)
      for (let j = 0; j < c.cols; j += 8)
        g.strokeRect(x + j * c.w, y + i * c.h, c.w * Math.min(8, c.cols - j), c.h * 8);
  };
  const drawHead = (g, paint, f, part, small) => {
    const { x, y } = box[part],
      name = partOf(element(f, part, 0, 0)[0]),
      { along, across, labels } = kinds[f.phase],
      tall = kinds[f.phase].down === 'queries' ? 'rows' : kinds[f.phase].down;
    const [[down, rows], [over, cols]] = {
      A: [
        [tall, f.rows],
        [along, f.k],
      ],
      B: [
        [along, f.k],
        [across, f.cols],
      ],
      C: [
        [tall, f.rows],
        [across, f.cols],
      ],
    }[part].map(([axis, [first, end]]) => [axis, `${first} to ${end - 1}`]);
    const up = box.lines === 2 ? 1.1 * em : 0;
    g.fillStyle = colourOf(name);
    g.fillRect(x, y - 1.55 * em - up, 0.7 * em, 0.7 * em);
    g.fillStyle = paint.text;
    g.font = `600 ${em}px ${paint.font}`;
    const head = `${part} = ${labels[part]}`;
    g.fillText(head, x + 1.1 * em, y - 0.9 * em - up);
    const beside = up ? 0 : g.measureText(head).width + 1.6 * em;
    g.font = `${small}px ${paint.font}`;
    const said = [`${down} ${rows}, ${over} ${cols}`, `${over} ${cols}`];
    const fits = said.find(one => g.measureText(one).width <= box[part].w - beside);
    if (fits) g.fillText(fits, x + beside, y - 0.7 * em);
  };
  // The products of one element of C, beside the rows of B: a number of A, a number of B, and a bar
  // for their product.
  const drawList = (g, paint, f, step, { i, j }) => {
    const [rows, cols] = shape(f, 'C'),
      r = Math.min(i, rows - 1),
      c = Math.min(j, cols - 1),
      { a, b, along, labels } = kinds[f.phase];
    const x = box.A.x,
      wide = box.A.w + 0.6 * em,
      all = factors(f, r, c),
      { before, after } = sumsOf(step, r, c),
      lines = linesOf(all, along, f.k, box.B.h / (K + 1) < ROOMY * em),
      high = Math.min(lines.length < K ? 1.9 * em : Infinity, box.B.h / (lines.length + 1)),
      top = box.B.y + high; // below the heads
    g.fillStyle = paint.text;
    g.font = `600 ${em}px ${paint.font}`;
    const fitting = said => said.find(one => g.measureText(one).width <= wide) ?? said.at(-1),
      from = `row ${f.rows[0] + r} of ${labels.A} \u00d7 column ${f.cols[0] + c} of ${labels.B}`,
      rounded = sum_bits === 16 ? ', rounded to fp16' : '';
    g.fillText(fitting([`${named(f, r, c)} = ${from}`, `${partOf(f.phase)}: ${from}`]), x, box.B.y - 0.9 * em, wide);
    g.fillText(
      fitting([
        `before this product ${short(before)}, after it ${short(after)}${rounded}`,
        `${short(before)}, then ${short(after)}`,
      ]),
      x,
      top + high * lines.length + 1.25 * em,
      wide,
    );
    const size = numberSize({ w: wide, h: high }, em);
    if (!size) return; // no room for sixteen lines: only their sum
    g.font = `${size}px ${paint.font}`;
    const ends = [0.36, 0.58].map(share => x + share * wide),
      zero = x + 0.8 * wide,
      reach = 0.19 * wide,
      most = Math.max(...lines.map(({ long }) => Math.abs(long)), 1e-30);
    const pairs = lines.filter(one => one.pair.length).length;
    [a, b].forEach((name, n) => {
      g.fillStyle = blend(rgb(colourOf(partOf(name))), rgb(paint.background), 0.16);
      const width = g.measureText('\u22120.0000').width + 6;
      g.fillRect(ends[n] - width + 3, top, width, high * pairs);
      g.fillStyle = paint.text;
      g.textAlign = 'right';
      g.fillText([labels.A, labels.B][n], ends[n], top - 0.3 * size, width);
    });
    g.textAlign = 'center';
    g.fillText('product', zero, top - 0.3 * size, 2 * reach);
    g.textAlign = 'left';
    lines.forEach(({ name, pair, long }, k) => {
      const y = top + (k + 0.5) * high + 0.36 * size,
        bar = (reach * long) / most,
        deep = Math.min(0.8 * size, high - 2);
      g.fillStyle = PALETTE.sign[bar < 0 ? 'below' : 'above'];
      g.fillRect(Math.min(zero, zero + bar), top + (k + 0.5) * high - deep / 2, Math.abs(bar), deep);
      g.fillStyle = paint.text;
      g.fillText(name, x, y, (pair.length ? 0.17 : 0.45) * wide);
      g.textAlign = 'right';
      pair.forEach((v, n) => g.fillText(short(v), ends[n], y));
      g.textAlign = 'left';
    });
    g.fillRect(zero, top, 1, high * lines.length);
  };
  // A line for each product; where the lines would touch, for the first ones and for the rest. long:
  // of its bar.
  const linesOf = (all, along, [first, end], touch) => {
    const one = ONE[along];
    const line = ([p, q], k) => ({ name: `${one} ${first + k}`, pair: [p, q], long: p * q });
    if (!touch) return all.map(line);
    const long = all.slice(FEW).reduce((sum, [p, q]) => sum + p * q, 0);
    return [...all.slice(0, FEW).map(line), { name: `${along} ${first + FEW} to ${end - 1}, added`, pair: [], long }];
  };
  const short = v =>
    (Number.isFinite(v)
      ? (Math.abs(v) >= 1e-3 && Math.abs(v) < 1e7) || v === 0
        ? v.toFixed(4)
        : v.toExponential(1)
      : String(v)
    ).replace('-', '\u2212');

  const areas = ({ step }) =>
    (frames.length ? ['A', 'B', 'C'] : []).map(part => {
      const { w, h, rows, cols } = cell(frameAt(step), part),
        thing = number => ({ part, i: Math.floor(number / cols), j: number % cols });
      return {
        rect: [box[part].x, box[part].y, cols * w, rows * h],
        datum: { part },
        grid: { columns: cols, count: rows * cols, thing },
      };
    });
  const click = thing => {
    chosen = thing;
    if (thing.part !== 'B') of = { ...of, i: thing.i };
    if (thing.part !== 'A') of = { ...of, j: thing.j };
  };
  const inside = (step, thing) => {
    const [rows, cols] = shape(frameAt(step), thing.part);
    return { ...thing, i: Math.min(thing.i, rows - 1), j: Math.min(thing.j, cols - 1) };
  };
  const covered = thing => clock.covers.some(one => matches(thing, one));
  const said = step => {
    if (!frames.length) return '';
    const thing = inside(step, chosen);
    return covered(thing) ? '' : shortly(step, thing);
  };
  const label = step =>
    frames.length
      ? `${context.stage.frames[step].title}. ${context.stage.frames[step].sentence} ${said(step)}`
      : 'No product.';
  const legend = [
    ['', `number and colour: the lane${group ? '' : '. A cell is two neighbouring numbers'}`],
    ['border:1px solid currentColor', 'all numbers of this lane'],
    ['border:2px solid currentColor', 'chosen, its row of A, its column of B'],
  ];
  return canvasView(host, context, {
    title: 'One product',
    layout,
    draw,
    areas,
    describe: (thing, step) => told(step, inside(step, thing)),
    label,
    click,
    said,
    legend,
  });
}
