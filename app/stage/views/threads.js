// Which thread touches what: the grid's blocks, the block's warps and lanes, and the matrices
// coloured by lane or warp. A click chooses a lane, a warp, a block or a row of a matrix; what it
// touches is lit everywhere and said in words.
import { canvasView } from '../core/canvas.js';
import { PALETTE, rgb, smallText } from '../core/paint.js';
import { threadsLayout } from './layouts/threads.js';

const VERBS = {
  loads: ['loads', 'from global memory'],
  reads: ['reads', 'from shared memory'],
  computes: ['computes', 'in registers'],
  stores: ['stores', 'to global memory'],
};
const DONE = {
  loads: 'loaded',
  reads: 'read from shared memory',
  computes: 'computed',
  stores: 'stored',
};
const ORDER = ['reads', 'loads', 'stores', 'computes']; // the later covers the earlier
const MADE_OF = {
  S: [
    ['Q', 'row'],
    ['K', 'key'],
  ],
  O: [
    ['P', 'row'],
    ['V', 'dim'],
  ],
}; // S = Q K^T, O = P V: the axis that they share
const LANES = 32,
  SPAN = 2 ** 24;
const LEGEND = [
  ['', 'colour: warp or lane, as in the strip (the first one, if several touch an element)'],
  ['border:2px dashed currentColor', 'the sources of the lit elements (derived)'],
];

/** @type {Picture<models.ThreadsMeta>} */
export default function (host, { meta, columns }, context) {
  const { clock } = context;
  const { launches, planes, kinds, moments, of_frame, lines, threads, left_out } = meta,
    { thread, row0, row1, col0, col1, ran } = columns;
  const stops = PALETTE.magnitude.map(rgb);
  const momentAt = step => Math.max(0, of_frame[Math.min(step, of_frame.length - 1)] ?? 0);
  const at = step => moments[momentAt(step)];
  const warpsOf = launch => Math.ceil(launches[launch].threads / LANES),
    mostWarps = Math.max(...launches.map((_, n) => warpsOf(n)));
  const files = new Set(lines.flat().map(place => place.split(':')[0]));
  const most = planes.map(({ windows }) =>
    windows.map(axis =>
      Math.max(1, ...moments.map(m => (m.windows[axis] ? m.windows[axis][1] - m.windows[axis][0] + 1 : 1))),
    ),
  );
  let chosen = null,
    boxes = [],
    grid = {},
    strip = {},
    em = 13;

  // ---- who touches what ----
  // Calls seen(n, plane, kind) for each rectangle of a step.
  const each = (step, seen) =>
    at(step)?.parts.forEach(([plane, kind, first, size]) => {
      for (let n = first; n < first + size; n++) seen(n, plane, kind);
    });
  const touching = (step, plane, row, col) => {
    const found = new Map(); // kind -> threads
    each(step, (n, p, kind) => {
      if (p !== plane || row < row0[n] || row > row1[n] || (col !== undefined && (col < col0[n] || col > col1[n])))
        return;
      if (!found.has(kind)) found.set(kind, new Set());
      found.get(kind).add(thread[n]);
    });
    return found;
  };
  const planeNamed = name => planes.findIndex(p => p.name === name);
  // The threads that a choice stands for at a step; null for all of the block.
  const focusOf = (what, step) => {
    if (!what || what.block !== undefined) return null;
    if (what.lane !== undefined) return new Set([what.warp * LANES + what.lane]);
    if (what.warp !== undefined) return new Set(Array.from({ length: LANES }, (_, lane) => what.warp * LANES + lane));
    return new Set([...touching(step, planeNamed(what.tensor), what.row, undefined).values()].flatMap(s => [...s]));
  };

  // ---- words ----
  const spans = numbers => {
    const given = [...numbers].sort((a, b) => a - b),
      parts = [];
    for (const n of given)
      if (parts.length && parts.at(-1)[1] === n - 1) parts.at(-1)[1] = n;
      else parts.push([n, n]);
    const said = parts.map(([a, b]) => (a === b ? `${a}` : `${a} to ${b}`));
    return said.length > 4 ? `${said.slice(0, 3).join(', ')}, \u2026 ${said.at(-1)}` : listed(said);
  };
  const listed = parts => (parts.length < 2 ? parts.join('') : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`);
  const noun = (word, numbers) => `${word}${numbers.size > 1 ? 's' : ''} ${spans(numbers)}`;
  const lanesSaid = set => {
    const warps = new Map();
    for (const t of set) warps.set(t >> 5, (warps.get(t >> 5) ?? new Set()).add(t & 31));
    const whole = [...warps].filter(([, inside]) => inside.size === LANES).map(([warp]) => warp);
    const parts = whole.length ? [`all lanes of ${noun('warp', new Set(whole))}`] : [];
    parts.push(
      ...[...warps]
        .filter(([, inside]) => inside.size < LANES)
        .map(([warp, inside]) => `${noun('lane', inside)} of warp ${warp}`),
    );
    return parts.length > 3 ? `${set.size} lanes of ${noun('warp', new Set(warps.keys()))}` : listed(parts);
  };
  const gathered = (step, focus) => {
    // "kind plane" -> its rows and columns
    const found = new Map(),
      parts = new Map();
    each(step, (n, plane, kind) => {
      if (focus && !focus.has(thread[n])) return;
      const key = kind * planes.length + plane;
      let part = parts.get(key);
      if (!part) parts.set(key, (part = [new Set(), new Set()]));
      // many threads share rows or columns: each run of them is counted once
      part[0].add(row0[n] * SPAN + row1[n]);
      part[1].add(col0[n] * SPAN + col1[n]);
    });
    const numbers = runs =>
      new Set(
        [...runs].flatMap(run =>
          Array.from({ length: (run % SPAN) - Math.floor(run / SPAN) + 1 }, (_, n) => Math.floor(run / SPAN) + n),
        ),
      );
    for (const [key, part] of parts)
      found.set(`${kinds[Math.floor(key / planes.length)]} ${key % planes.length}`, part.map(numbers));
    return found;
  };
  const linesOf = (step, focus) => {
    const found = new Set(),
      from = momentAt(step) * threads;
    const sets = new Set([...(focus ?? Array(threads).keys())].map(t => ran[from + t]));
    for (const n of sets) for (const place of lines[n] ?? []) found.add(place);
    const main = [...found].map(place => place.split(':')),
      name = files.size > 1;
    const byFile = Map.groupBy
      ? Map.groupBy(main, ([file]) => file)
      : main.reduce((m, p) => m.set(p[0], [...(m.get(p[0]) ?? []), p]), new Map());
    return [...byFile]
      .map(
        ([file, places]) =>
          `${places.length > 1 ? 'lines' : 'line'} ${places
            .map(([, line]) => +line)
            .sort((a, b) => a - b)
            .join(', ')}${name ? ` of ${file}` : ''}`,
      )
      .join('; ');
  };
  const doing = (step, focus) => {
    const found = gathered(step, focus),
      said = [];
    for (const kind of Object.keys(VERBS)) {
      const parts = [...found]
        .filter(([key]) => key.startsWith(`${kind} `))
        .map(([key, [rows, cols]]) => {
          const plane = planes[+key.split(' ')[1]];
          return `${plane.name} ${noun(plane.row, rows)}, ${noun(plane.col, cols)}`;
        });
      if (parts.length) said.push(`${VERBS[kind][0]} ${listed(parts)} ${VERBS[kind][1]}`);
    }
    const where = linesOf(step, focus);
    if (!where) return 'idle in this step';
    return `${said.join('; ') || 'touches no element of these matrices'}; ${where}`;
  };
  const blockSaid = (launch, block) => {
    const {
        grid: [x, y],
        item,
        per_item,
        rows,
      } = launches[launch],
      number = Math.floor(block / per_item);
    const of = rows
      ? `, rows ${(number % rows[1]) * rows[0]} to ` +
        `${Math.min(rows[2], ((number % rows[1]) + 1) * rows[0]) - 1} of head ` +
        `${Math.floor(number / rows[1])}`
      : '';
    return `Block ${block} (x ${block % x}${y > 1 ? `, y ${Math.floor(block / x) % y}` : ''}): ${item} ${number}${of}`;
  };
  const traced = ({ launch, block }) =>
    block >= launches[launch].traced[0] && block < launches[launch].traced[0] + launches[launch].traced[1];
  let told = ['', '']; // what was said last: a step asks for it more than once
  const words = (what, step) => {
    const key = JSON.stringify([what, step]);
    if (told[0] !== key) told = [key, tell(what, step)];
    return told[1];
  };
  const tell = (what, step) => {
    const now = at(step);
    if (!now) return '';
    if (!what)
      return `${blockSaid(now.launch, now.block)}, all ${launches[now.launch].threads} threads: ${doing(step, null)}.`;
    if (what.block !== undefined)
      return `${blockSaid(what.launch, what.block)}. The trace leaves it out, so its threads are not known.`;
    if (what.lane !== undefined) return `Lane ${what.lane} of warp ${what.warp}: ${doing(step, focusOf(what, step))}.`;
    if (what.warp !== undefined) return `Warp ${what.warp}: ${doing(step, focusOf(what, step))}.`;
    const found = touching(step, planeNamed(what.tensor), what.row),
      plane = planes[planeNamed(what.tensor)];
    const said = [...found].map(([kind, set]) => `${DONE[kinds[kind]]} by ${lanesSaid(set)}`);
    return `${what.tensor} ${plane.row} ${what.row}: ${said.join('; ') || 'no lane touches it in this step'}.`;
  };

  // ---- layout ----
  const shape = {
    planes: planes.map(({ name }, n) => ({ name, most: most[n] })),
    gridSize: Math.max(...launches.map(l => l.grid[0])),
    gridRows: Math.max(...launches.map(l => l.grid[1] * l.grid[2])),
    warps: mostWarps,
  };
  const layout = size => {
    ({ em } = size);
    ({ boxes, grid, strip } = threadsLayout(size, shape));
  };
  const windowOf = (n, step) => planes[n].windows.map(axis => at(step)?.windows[axis] ?? [0, 0]);

  // ---- drawing ----
  const colours = new Map();
  const colourOf = (t, byLane, warps) => {
    const share = 0.14 + 0.8 * (byLane ? (t % LANES) / (LANES - 1) : warps > 1 ? (t >> 5) / (warps - 1) : 0),
      key = Math.round(share * 255);
    if (!colours.has(key)) {
      const place = share * (stops.length - 1),
        low = Math.min(stops.length - 2, Math.floor(place)),
        part = place - low;
      colours.set(key, `rgb(${stops[low].map((v, i) => Math.round(v + (stops[low + 1][i] - v) * part)).join(',')})`);
    }
    return colours.get(key);
  };
  const draw = (g, { step, at: under, paint }) => {
    const now = at(step);
    if (!now || !planes.length) {
      g.fillStyle = paint.text;
      g.font = `${em}px ${paint.font}`;
      g.fillText('No access of this run belongs to a matrix.', 4, em * 2);
      return;
    }
    const warps = warpsOf(now.launch),
      focus = focusOf(chosen, step),
      byLane = warps === 1 || chosen?.warp !== undefined;
    const hot =
      under && under.block === undefined
        ? under.tensor
          ? new Set([...touching(step, planeNamed(under.tensor), under.row, under.col).values()].flatMap(s => [...s]))
          : focusOf(under, step)
        : null;
    drawGrid(g, paint, now, under);
    drawStrip(g, paint, now, step, { warps, focus, byLane, hot });
    drawPlanes(g, paint, step, { warps, focus, byLane, hot, under });
  };
  const drawGrid = (g, paint, now, under) => {
    const {
        grid: [x, y, z],
        traced: [first, count],
        grid_of,
      } = launches[now.launch],
      { cell } = grid;
    g.fillStyle = paint.text;
    g.font = `600 ${em}px ${paint.font}`;
    g.fillText(launches.length > 1 ? `grid of ${launches[now.launch].entry}` : 'grid', grid.x, grid.y - em * 0.4);
    const wide = g.measureText(launches.length > 1 ? `grid of ${launches[now.launch].entry}` : 'grid').width;
    g.font = `${em}px ${paint.font}`;
    const size = `${x} \u00d7 ${y * z} blocks`;
    if (g.measureText(size).width < grid.room - wide) g.fillText(size, grid.x + wide + em * 0.5, grid.y - em * 0.4);
    if (grid.axes) {
      // what runs along each axis, as the launch has it
      g.font = `${smallText(em)}px ${paint.font}`;
      const from = grid.y + y * z * cell + em;
      grid_of
        .slice(0, 2)
        .forEach((said, n) =>
          g.fillText(
            `${'xy'[n]}: ${said}${n && grid_of[2] ? `; z: ${grid_of[2]}` : ''}`,
            grid.x,
            from + n * em * 1.2,
            grid.room,
          ),
        );
    }
    const line = cell > 4 ? 1 : 0;
    for (let n = 0; n < x * y * z; n++) {
      const bx = grid.x + (n % x) * cell,
        by = grid.y + Math.floor(n / x) * cell;
      g.fillStyle = n === now.block ? paint.text : n >= first && n < first + count ? paint.border : paint.panel;
      g.fillRect(bx, by, cell - line, cell - line);
      if (line) {
        g.strokeStyle = paint.border;
        g.lineWidth = 1;
        g.strokeRect(bx + 0.5, by + 0.5, cell - 2, cell - 2);
      }
      if (
        (under?.block === n && under.launch === now.launch) ||
        (chosen?.block === n && chosen.launch === now.launch)
      ) {
        g.strokeStyle = paint.primary;
        g.lineWidth = 2;
        g.strokeRect(bx, by, cell - 1, cell - 1);
      }
      if (cell > em * 1.15 && n < 100) {
        g.fillStyle = n === now.block ? paint.background : paint.text;
        g.textAlign = 'center';
        g.font = `${smallText(em)}px ${paint.font}`;
        g.fillText(String(n), bx + cell / 2, by + cell / 2 + em * 0.3);
        g.textAlign = 'left';
      }
    }
  };
  const drawStrip = (g, paint, now, step, { warps, focus, byLane, hot }) => {
    const { threads: count, block_of } = launches[now.launch],
      { x, y, w, h } = strip;
    g.fillStyle = paint.text;
    g.font = `600 ${em}px ${paint.font}`;
    const said = `block ${now.block}`,
      more =
        `${count} threads${block_of.length ? ` (${block_of.join(' \u00d7 ')})` : ''}, ` +
        `${warps} warp${warps > 1 ? 's' : ''} of 32 lanes`;
    const from = x - em * 2.2;
    g.fillText(said, from, y - em * 0.4);
    const wide = g.measureText(said).width + em * 0.5;
    g.font = `${em}px ${paint.font}`;
    g.fillText(
      g.measureText(more).width < LANES * w + em * 2.2 - wide ? more : `${warps} \u00d7 32`,
      from + wide,
      y - em * 0.4,
    );
    const labels = Math.max(1, Math.ceil((em * 0.95) / h));
    for (let warp = 0; warp < warps; warp++) {
      if (warp % labels === 0) {
        g.fillStyle = paint.text;
        g.textAlign = 'right';
        g.fillText(`w${warp}`, x - em * 0.3, y + warp * h + Math.min(h, em) * 0.5 + em * 0.35);
        g.textAlign = 'left';
      }
      for (let lane = 0; lane < LANES; lane++) {
        const t = warp * LANES + lane;
        if (t >= count) break;
        const busy = (ran[momentAt(step) * threads + t] ?? -1) >= 0,
          lit = !focus || focus.has(t);
        g.globalAlpha = lit ? 1 : 0.2;
        g.fillStyle = busy ? colourOf(t, byLane, warps) : paint.panel;
        g.fillRect(x + lane * w, y + warp * h, w - (w > 4 ? 1 : 0.4), h - (h > 4 ? 1 : 0));
        g.globalAlpha = 1;
        if ((focus && lit) || hot?.has(t)) {
          g.strokeStyle = hot?.has(t) ? paint.primary : paint.text;
          g.lineWidth = 2;
          g.strokeRect(x + lane * w, y + warp * h, w - 1, h - 1);
        }
      }
    }
    g.fillStyle = paint.text;
    g.font = `${smallText(em)}px ${paint.font}`;
    for (const lane of [0, 8, 16, 24])
      g.fillText(lane ? String(lane) : 'lane 0', x + lane * w, y + warps * h + em * 0.9);
  };
  const drawPlanes = (g, paint, step, { warps, focus, byLane, hot, under }) => {
    const clip = new Map(
      boxes.map(box => {
        const [rows, cols] = windowOf(box.plane, step);
        return [
          box.plane,
          {
            ...box,
            rows,
            cols,
            w: (cols[1] - cols[0] + 1) * box.unit,
            h: (rows[1] - rows[0] + 1) * box.high,
          },
        ];
      }),
    );
    g.textAlign = 'left';
    for (const box of clip.values()) {
      g.fillStyle = paint.panel;
      g.fillRect(box.x, box.y, box.w, box.h);
      g.fillStyle = paint.text;
      g.font = `600 ${em}px ${paint.font}`;
      g.fillText(box.name, box.x, box.y - em * 0.3);
      const { row, col } = planes[box.plane],
        wide = g.measureText(box.name).width + em * 0.5,
        range = ([a, b]) => (a === b ? `${a}` : `${a} to ${b}`),
        named = (word, of) => `${word}${of[0] === of[1] ? '' : 's'} ${range(of)}`;
      g.font = `${smallText(em)}px ${paint.font}`;
      const texts = [
        `${named(row, box.rows)} \u00d7 ${named(col, box.cols)}`,
        `${range(box.rows)} \u00d7 ${range(box.cols)}`,
      ];
      const fits = texts.find(text => g.measureText(text).width < box.room - wide);
      if (fits) g.fillText(fits, box.x + wide, box.y - em * 0.3);
    }
    const rect = (n, box) => [
      box.x + (col0[n] - box.cols[0]) * box.unit,
      box.y + (row0[n] - box.rows[0]) * box.high,
      (col1[n] - col0[n] + 1) * box.unit,
      (row1[n] - row0[n] + 1) * box.high,
    ];
    const parts = [...at(step).parts].sort((a, b) => ORDER.indexOf(kinds[a[1]]) - ORDER.indexOf(kinds[b[1]]));
    const lit = [];
    for (const [plane, , first, size] of parts) {
      const box = clip.get(plane);
      for (let n = first + size - 1; n >= first; n--) {
        // the first thread's on top
        if (focus?.has(thread[n])) {
          lit.push([n, box]);
          continue;
        }
        g.fillStyle = colourOf(thread[n], byLane, warps);
        g.fillRect(...rect(n, box));
      }
    }
    if (focus) {
      // a veil over all the others: each made pale for itself would add up where many touch an
      // element
      g.globalAlpha = 0.84;
      g.fillStyle = paint.panel;
      for (const box of clip.values()) g.fillRect(box.x, box.y, box.w, box.h);
      g.globalAlpha = 1;
    }
    const outlined = lit.length < 600;
    for (const [n, box] of lit) {
      const [x, y, w, h] = rect(n, box);
      g.fillStyle = colourOf(thread[n], byLane, warps);
      g.fillRect(x, y, w, h);
      if (!outlined || Math.min(w, h) < 3) continue;
      g.strokeStyle = paint.text;
      g.lineWidth = 1;
      g.strokeRect(x + 0.5, y + 0.5, Math.max(1, w - 1), Math.max(1, h - 1));
    }
    if (hot && hot.size <= LANES)
      each(step, (n, plane) => {
        if (!hot.has(thread[n])) return;
        g.strokeStyle = paint.primary;
        g.lineWidth = 1.5;
        g.strokeRect(...rect(n, clip.get(plane)));
      });
    if (focus) drawMadeOf(g, paint, step, focus, clip);
    g.strokeStyle = paint.border;
    g.lineWidth = 1;
    for (const box of clip.values()) g.strokeRect(box.x - 0.5, box.y - 0.5, box.w + 1, box.h + 1);
    if (under?.tensor) {
      const box = clip.get(planeNamed(under.tensor));
      g.strokeStyle = paint.primary;
      g.strokeRect(box.x, box.y + (under.row - box.rows[0]) * box.high, box.w, Math.max(2, box.high));
    }
  };
  // Of what is computed, the rows and columns that it is made of, where the lane itself loads or
  // reads none of them.
  const drawMadeOf = (g, paint, step, focus, clip) => {
    const found = gathered(step, focus);
    g.strokeStyle = paint.text;
    g.lineWidth = 1.5;
    g.setLineDash([4, 3]);
    for (const [made, of] of Object.entries(MADE_OF)) {
      const plane = planeNamed(made),
        cells = found.get(`computes ${plane}`);
      if (!cells) continue;
      for (const [name, axis] of of) {
        const source = planeNamed(name),
          box = clip.get(source);
        if (!box || found.has(`reads ${source}`) || found.has(`loads ${source}`)) continue;
        const numbers = cells[planes[plane].row === axis ? 0 : 1],
          across = planes[source].col === axis;
        for (const n of numbers) {
          const [low, high] = across ? box.cols : box.rows;
          if (n < low || n > high) continue;
          if (across) g.strokeRect(box.x + (n - low) * box.unit, box.y, Math.max(1, box.unit), box.h);
          else g.strokeRect(box.x, box.y + (n - low) * box.high, box.w, Math.max(1, box.high));
        }
      }
    }
    g.setLineDash([]);
  };

  // ---- what lies where ----
  const areas = ({ step }) => {
    const now = at(step);
    if (!now) return [];
    const gridOf = (rect, columns, count, datum, thing) => ({
      rect,
      datum,
      grid: { columns, count, thing },
    });
    const { x, y, w, h } = strip,
      warps = warpsOf(now.launch),
      [gx, gy, gz] = launches[now.launch].grid,
      blocks = gx * gy * gz;
    return [
      ...boxes.map(box => {
        const [rows, cols] = windowOf(box.plane, step),
          [high, wide] = [rows, cols].map(([first, last]) => last - first + 1);
        const rect = [box.x, box.y, wide * box.unit, high * box.high];
        return gridOf(rect, wide, high * wide, { tensor: box.name }, number => ({
          tensor: box.name,
          row: rows[0] + Math.floor(number / wide),
          col: cols[0] + (number % wide),
        }));
      }),
      gridOf([grid.x, grid.y, gx * grid.cell, gy * gz * grid.cell], gx, blocks, { launch: now.launch }, block => ({
        launch: now.launch,
        block,
      })),
      gridOf([x - em * 2.2, y, em * 2.2, warps * h], 1, warps, {}, warp => ({ warp })),
      gridOf([x, y, LANES * w, warps * h], LANES, launches[now.launch].threads, {}, number => ({
        warp: Math.floor(number / LANES),
        lane: number % LANES,
      })),
    ];
  };
  const describe = (what, step) => {
    if (what.block !== undefined) return `${blockSaid(what.launch, what.block)}${traced(what) ? '' : ', not traced'}`;
    if (!what.tensor) return words(what, step).replaceAll('; ', '\n');
    const found = [...touching(step, planeNamed(what.tensor), what.row, what.col)].map(
      ([kind, set]) => `${DONE[kinds[kind]]} by ${lanesSaid(set)}`,
    );
    return [
      `${what.tensor}[${what.row}, ${what.col}]: ${found.join('; ') || 'no lane touches it in this step'}`,
      words({ tensor: what.tensor, row: what.row }, step),
    ].join('\n');
  };
  const click = what => {
    const same = a => JSON.stringify(a) === JSON.stringify(chosen);
    if (what.block !== undefined && traced(what)) {
      const frame = of_frame.findIndex(n => moments[n].launch === what.launch && moments[n].block === what.block),
        now = at(clock.step);
      chosen = null;
      if (frame >= 0 && (now.block !== what.block || now.launch !== what.launch)) clock.set(frame, 'user');
      return;
    }
    const wanted = what.tensor ? { tensor: what.tensor, row: what.row } : what;
    chosen = same(wanted) ? null : wanted;
  };
  const said = step => words(chosen, step);
  const label = step => `Threads. ${said(step)}`;
  return canvasView(host, context, {
    title: 'Threads',
    layout,
    draw,
    areas,
    describe,
    label,
    click,
    said,
    legend: [...LEGEND, ...left_out.map(text => ['', text])],
  });
}
