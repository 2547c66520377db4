// The whole grid: the output as cells that fill as blocks begin and end, and a lane for each
// multiprocessor over time. The wheel, the buttons and the keys + - 0 zoom the time, with Shift the
// lanes; a drag moves what is shown.
import { canvasView } from '../core/canvas.js';
import { PALETTE, blend, button, element, number, rgb, short, way, widest } from '../core/paint.js';
import { drawMap, mapLayout } from './grid_map.js';
import { cellOf as blockCell, cellSize, gridLayout } from './layouts/grid.js';

const RUNNING = PALETTE.wavefronts.now,
  DONE = PALETTE.wavefronts.before;

/** @type {Picture<models.GridMeta, models.GridFrame>} */
export default function (host, { meta, columns }, context) {
  const { clock } = context;
  const { launches, multiprocessors, all, unit, end, said, frames, traced, recorded } = meta,
    timed = unit !== 'turn',
    mapped = !timed && end <= 1; // all blocks at once: a map of the SMs, and no lanes
  const { launch: launchOf, block: blockOf, sm, start, end: endOf, low, high, first, last } = columns,
    count = blockOf.length;
  const byLane = Array.from({ length: multiprocessors }, () => []),
    placeOf = launches.map(launch => new Int32Array(launch.blocks).fill(-1));
  const ended = frames.map(() => []),
    live = frames.map(() => []); // for each step the blocks that end in it, and those that run
  for (let n = 0; n < count; n++) {
    byLane[sm[n]].push(n);
    placeOf[launchOf[n]][blockOf[n]] = n;
    ended[last[n]].push(n);
    for (let step = first[n]; step < last[n]; step++) live[step].push(n);
  }
  const frameAt = step => frames[Math.min(step, frames.length - 1)];
  const whole = { t0: 0, t1: Math.max(end, 1e-9), l0: 0, l1: multiprocessors };
  let seen = { ...whole },
    size,
    cells,
    lanes,
    map,
    before = -1;

  const layout = given => {
    size = given;
    ({ cells, lanes } = gridLayout(size));
    map = mapLayout({ ...lanes, x: lanes.x - 1.5 * size.em }, all);
  };
  const grid = launch => cellSize(cells, launch, size.em),
    cellOf = (launch, block) => blockCell(cells, launch, block, size.em);
  const x = time => lanes.x + ((time - seen.t0) / (seen.t1 - seen.t0)) * lanes.w,
    lane = () => lanes.h / (seen.l1 - seen.l0);
  const y = at => lanes.y + (at - seen.l0) * lane();
  const barOf = n => [
    x(start[n]),
    y(sm[n] + 0.06 + 0.88 * low[n]),
    x(endOf[n]) - x(start[n]),
    Math.max(0.5, 0.88 * (high[n] - low[n]) * lane()),
  ];

  const draw = (g, { step, at, paint }) => {
    const frame = frameAt(step),
      launch = launches[frame.launch];
    if (step !== before && (frame.at < seen.t0 || frame.at > seen.t1)) move(frame.at - (seen.t0 + seen.t1) / 2, 0); // the moment stays in sight
    before = step;
    drawCells(g, paint, frame, launch, step);
    drawLanes(g, paint, frame, step);
    if (!at) return;
    g.strokeStyle = paint.primary;
    g.lineWidth = 2.5;
    if (at.launch === frame.launch) g.strokeRect(...cellOf(launches[at.launch], at.block));
    const n = placeOf[at.launch][at.block];
    if (n < 0) return;
    if (mapped) return g.strokeRect(...map.at(sm[n]));
    const [bx, by, bw, bh] = barOf(n);
    if (bx + bw > lanes.x && bx < lanes.x + lanes.w)
      g.strokeRect(Math.max(bx, lanes.x), by, Math.min(bx + bw, lanes.x + lanes.w) - Math.max(bx, lanes.x), bh);
  };
  const drawCells = (g, paint, frame, launch, step) => {
    const { em } = size,
      many = launches.length > 1,
      { w, h } = grid(launch);
    g.fillStyle = paint.text;
    g.font = `600 ${em}px ${paint.font}`;
    g.fillText(
      many
        ? `${launch.entry} (launch ${frame.launch + 1} of ${launches.length})`
        : launch.item
          ? `Output, by block${launch.rows > 1 ? ` and ${launch.row_name}` : ''}`
          : 'Blocks',
      0,
      em,
      cells.w,
    );
    g.font = `${em}px ${paint.font}`;
    if (launch.rows > 1) {
      const names = launch.row_names.map(named => `${launch.row_name} ${named}`),
        whole = widest(names, g.font) + 0.7 * em < w; // with a space to the next one
      for (const [row, named] of launch.row_names.entries()) {
        const label = whole ? names[row] : named;
        if (w > 1.3 * em * String(row).length || row % Math.ceil((2 * em) / w) === 0)
          g.fillText(label, row * w + 1, cells.y + em * 0.85, Math.max(w, 2 * em));
      }
    }
    const { under, done } = cellLayers(paint, frame.launch, step),
      high = size.height - cells.y;
    for (const layer of [under, done]) g.drawImage(layer.canvas, 0, cells.y, cells.w + 1, high);
    for (const n of live[step] ?? []) if (launchOf[n] === frame.launch) cell(g, launch, blockOf[n], RUNNING, '#000');
    if (traced < 0 || !launch.item || launch.item !== launches[0].item) return;
    g.strokeStyle = paint.text; // the item that the other pictures show
    g.lineWidth = 2;
    g.setLineDash([3, 3]);
    const [cx, cy] = cellOf(launch, traced * launch.per_item);
    g.strokeRect(cx, cy, w - 1, Math.max(h - 1, 2));
    g.setLineDash([]);
  };
  const cell = (g, launch, block, colour, ink, border = '') => {
    const { em } = size,
      [cx, cy, cw, ch] = cellOf(launch, block);
    g.fillStyle = colour;
    g.fillRect(cx, cy, cw, ch);
    if (border && cw > 4 && ch > 4) {
      g.strokeStyle = border;
      g.strokeRect(cx + 0.5, cy + 0.5, cw - 1, ch - 1);
    }
    if (ch < 1.2 * em || cw < 1.6 * em) return;
    g.fillStyle = ink;
    g.textAlign = 'center';
    g.fillText(cw > 5 * em ? `block ${block}` : String(block), cx + cw / 2, cy + ch / 2 + em * 0.35, cw - 2);
    g.textAlign = 'left';
  };
  // What need not be drawn anew at each step: `under`, and over it what has ended. key: all that it
  // depends on.
  const layered = (kept, key, box, paint, step, drawUnder, drawEnded) => {
    const fresh = () => {
      const ratio = devicePixelRatio || 1,
        g = element('canvas', {
          width: Math.max(1, Math.round(box.w * ratio)),
          height: Math.max(1, Math.round(box.h * ratio)),
        }).getContext('2d');
      g.setTransform(ratio, 0, 0, ratio, -box.x * ratio, -box.y * ratio);
      g.font = `${size.em}px ${paint.font}`;
      return g;
    };
    if (kept?.key !== key) {
      kept = { key, under: fresh(), done: fresh(), at: -1 };
      drawUnder(kept.under);
    }
    if (step < kept.at) {
      kept.done = fresh();
      kept.at = -1;
    }
    while (kept.at < Math.min(step, frames.length - 1)) for (const n of ended[++kept.at]) drawEnded(kept.done, n);
    return kept;
  };
  let keptCells = null,
    keptLanes = null;
  const cellLayers = (paint, which, step) => {
    const launch = launches[which],
      key = JSON.stringify([which, size, paint.panel, paint.text, devicePixelRatio]);
    const all = g => {
      for (let block = 0; block < launch.blocks; block++) cell(g, launch, block, paint.panel, paint.text, paint.border);
    };
    return (keptCells = layered(
      keptCells,
      key,
      { x: 0, y: cells.y, w: cells.w + 1, h: size.height - cells.y },
      paint,
      step,
      all,
      (g, n) => {
        if (launchOf[n] === which) cell(g, launch, blockOf[n], DONE, '#fff');
      },
    ));
  };
  const laneLayers = (paint, later, step) => {
    const key = JSON.stringify([seen, lanes, later, size.em, devicePixelRatio]);
    const all = g => {
      for (let n = 0; n < count; n++) bar(g, n, later, paint.text);
    };
    return (keptLanes = layered(keptLanes, key, lanes, paint, step, all, (g, n) => bar(g, n, DONE, '#fff')));
  };
  const drawLanes = (g, paint, frame, step) => {
    const { em } = size,
      later = blend(rgb(paint.border), rgb(paint.background), 0.4);
    g.fillStyle = paint.text;
    g.font = `600 ${em}px ${paint.font}`;
    const head = lanes.x - (mapped ? 1.5 * em : 0);
    g.fillText('SMs', head, lanes.y - 0.7 * em);
    const used = g.measureText('SMs ').width;
    g.font = `${em}px ${paint.font}`;
    if (all > multiprocessors)
      g.fillText(
        `${number(mapped ? heldAt(paint, step).size : multiprocessors)} of ${number(all)} with a block`,
        head + used,
        lanes.y - 0.7 * em,
        lanes.w - used,
      );
    if (mapped) return drawMap(g, map, all, heldAt(paint, step), { paint, em });
    g.save();
    g.beginPath();
    g.rect(lanes.x, lanes.y, lanes.w, lanes.h);
    g.clip();
    const now = x(frame.at),
      { under, done } = laneLayers(paint, later, step);
    for (const layer of [under, done]) g.drawImage(layer.canvas, lanes.x, lanes.y, lanes.w, lanes.h);
    for (const n of live[step] ?? []) bar(g, n, RUNNING, '#000', timed ? now : Infinity);
    g.strokeStyle = paint.text;
    g.lineWidth = 2;
    g.beginPath();
    if (timed) {
      g.moveTo(now, lanes.y);
      g.lineTo(now, lanes.y + lanes.h);
    }
    g.stroke();
    g.restore();
    axes(g, paint);
  };
  // The SMs with a block so far, and how it is drawn.
  const heldAt = (paint, step) => {
    const held = new Map();
    for (let n = 0; n < count; n++)
      if (first[n] <= step)
        held.set(sm[n], {
          text: String(blockOf[n]),
          ...(last[n] > step ? { colour: RUNNING, ink: '#000' } : { colour: DONE, ink: '#fff' }),
        });
    return held;
  };
  // A block's bar up to `until`, with its number where there is room.
  const bar = (g, n, colour, ink, until = Infinity) => {
    if (endOf[n] < seen.t0 || start[n] > seen.t1 || sm[n] + 1 < seen.l0 || sm[n] > seen.l1) return;
    const { em } = size,
      [bx, by, bw, bh] = barOf(n),
      gap = bw > 4 && lane() > 4 ? 1 : 0,
      shown = Math.min(bw, until - bx);
    g.fillStyle = colour;
    g.fillRect(bx, by, Math.max(shown - gap, 0.5), bh);
    if (bh < 1.1 * em || shown < 2.2 * em) return;
    g.fillStyle = ink;
    g.fillText(String(blockOf[n]), Math.max(bx, lanes.x) + 0.3 * em, by + bh / 2 + 0.35 * em, bw - 4);
  };
  const axes = (g, paint) => {
    const { em } = size,
      bottom = lanes.y + lanes.h;
    g.strokeStyle = paint.border;
    g.lineWidth = 1;
    g.strokeRect(lanes.x - 0.5, lanes.y - 0.5, lanes.w + 1, lanes.h + 1);
    g.fillStyle = paint.text;
    g.textAlign = 'right';
    const every = Math.max(1, Math.ceil((1.3 * em) / lane())),
      nice = [1, 2, 4, 8, 16, 32, 64].find(n => n >= every) ?? every;
    for (let l = Math.ceil(seen.l0 / nice) * nice; l < Math.min(seen.l1, multiprocessors); l += nice)
      g.fillText(String(l), lanes.x - 0.4 * em, Math.min(y(l + 0.5) + 0.35 * em, bottom));
    g.textAlign = 'center';
    const span = seen.t1 - seen.t0,
      step = timed
        ? niceStep(span / Math.max(2, lanes.w / (6 * em)))
        : Math.max(1, niceStep(span / Math.max(2, lanes.w / (4 * em))));
    for (let t = Math.ceil(seen.t0 / step - 1e-9) * step; t <= seen.t1 * (1 + 1e-9); t += step) {
      if (!timed && t >= end) break;
      const tx = timed ? x(t) : x(t + 0.5);
      if (tx > lanes.x + lanes.w) break;
      g.fillText(
        timed ? short(t, 6) : String(Math.round(t) + 1),
        Math.min(tx, lanes.x + lanes.w - em),
        bottom + 1.1 * em,
      );
    }
    g.fillText(
      timed ? 'µs from the first block\u2019s begin' : 'turn (an order, no time)',
      lanes.x + lanes.w / 2,
      bottom + 2.2 * em,
      lanes.w,
    );
    g.textAlign = 'left';
  };

  // ---- zoom ----
  const clamp = () => {
    const keep = (low, high, most) => {
      const wide = Math.min(high - low, most),
        from = Math.max(0, Math.min(low, most - wide));
      return [from, from + wide];
    };
    [seen.t0, seen.t1] = keep(seen.t0, seen.t1, whole.t1);
    [seen.l0, seen.l1] = keep(seen.l0, seen.l1, whole.l1);
  };
  const move = (time, lane) => {
    seen = { t0: seen.t0 + time, t1: seen.t1 + time, l0: seen.l0 + lane, l1: seen.l1 + lane };
    clamp();
  };
  const zoom = (factor, around, what = 't') => {
    const [a, b, least] = what === 't' ? ['t0', 't1', whole.t1 / 4096] : ['l0', 'l1', Math.min(4, multiprocessors)];
    const middle =
      around ?? (what === 't' ? Math.min(seen.t1, Math.max(seen.t0, frameAt(clock.step).at)) : (seen.l0 + seen.l1) / 2);
    const wide = Math.max(least, (seen[b] - seen[a]) * factor),
      share = (middle - seen[a]) / (seen[b] - seen[a]);
    seen[a] = middle - share * wide;
    seen[b] = seen[a] + wide;
    clamp();
    view.draw();
  };
  const reset = () => {
    seen = { ...whole };
    view.draw();
  };

  const laneThing = n => ({ part: 'lane', launch: launchOf[n], block: blockOf[n] });
  // What a pane's lanes show is made once for each zoom: a pointer moves often.
  let bars = { key: '', areas: [] };
  const barAreas = () => {
    const key = JSON.stringify([seen, lanes]);
    if (bars.key === key) return bars.areas;
    const areas = [];
    for (let n = 0; n < count; n++) {
      const [bx, by, bw, bh] = barOf(n),
        [left, top] = [Math.max(bx, lanes.x), Math.max(by, lanes.y)],
        w = Math.min(bx + bw, lanes.x + lanes.w) - left,
        h = Math.min(by + bh, lanes.y + lanes.h) - top;
      if (w > 0 && h > 0) areas.push({ rect: [left, top, w, h], datum: laneThing(n) });
    }
    bars = { key, areas };
    return areas;
  };
  const areas = ({ step }) => {
    const which = frameAt(step).launch,
      { rows, cols, per_item: parts } = launches[which],
      { w, h, y: top } = grid(launches[which]),
      columns = rows * parts;
    const cell = number => {
      const across = number % columns,
        item = Math.floor(across / parts) * cols + Math.floor(number / columns);
      return { part: 'cell', launch: which, block: item * parts + (across % parts) };
    };
    const one = {
      rect: [0, top, w * rows, h * cols],
      datum: { part: 'cell', launch: which },
      grid: { columns, count: columns * cols, thing: cell },
    };
    if (!mapped) return [...barAreas(), one];
    const thing = number => (byLane[number]?.length ? laneThing(byLane[number][0]) : null);
    return [
      {
        rect: map.rect,
        datum: { part: 'lane' },
        grid: { columns: map.columns, count: all, thing },
      },
      one,
    ];
  };
  const describe = ({ launch: which, block }, step) => {
    const launch = launches[which],
      n = placeOf[which][block],
      item = Math.floor(block / launch.per_item);
    const row = Math.floor(item / launch.cols),
      where =
        launch.rows > 1
          ? `${launch.row_name} ${launch.row_names[row]}, ${launch.item} ${item % launch.cols}`
          : `${launch.item} ${item % launch.cols}`;
    const entry = launches.length > 1 ? ` of ${launch.entry}` : '',
      items = launch.item ? `: ${where}` : ', which takes query tiles as they come',
      head = `block ${block}${entry}${items}`;
    if (n < 0) return `${head}\nit had nothing to do and left at once`;
    const state = first[n] > step ? 'not begun' : last[n] > step ? 'runs now' : 'done';
    const when = timed
      ? `from ${short(start[n], 7)} to ${short(endOf[n], 7)} µs: ${short(endOf[n] - start[n], 5)} µs`
      : `turn ${start[n] + 1}`;
    return `${head}\nSM ${sm[n]}, ${when}\n${state}`;
  };
  const label = step => `${frameAt(step).title}. ${frameAt(step).sentence}`;
  const view = canvasView(host, context, {
    title: 'Whole grid',
    layout,
    draw,
    areas,
    describe,
    label,
    legend: [
      [`background:${RUNNING}`, 'runs now'],
      [`background:${DONE}`, 'done'],
      ['border:1px solid currentColor', 'not begun'],
      ...(traced >= 0 ? [['border:2px dashed currentColor', 'what the other pictures show']] : []),
    ],
  });

  const canvas = host.querySelector('canvas'),
    foot = host.querySelector('.foot');
  const path = context.story(),
    goTo = () => context.open(path, recorded.query);
  const zooms = [
    'zoom ',
    button('\u2212', () => zoom(1.6), {
      'aria-label': 'Longer time',
      title: 'Longer time (key \u2212)',
    }),
    button('+', () => zoom(1 / 1.6), {
      'aria-label': 'Shorter time',
      title: 'Shorter time (key +)',
    }),
    ...(multiprocessors > 8
      ? [button('more SMs', () => zoom(1.6, null, 'l')), button('fewer SMs', () => zoom(1 / 1.6, null, 'l'))]
      : []),
    button('all', reset, { title: 'Everything (key 0)' }),
  ];
  const there = recorded
    ? [
        ' ',
        way(
          `?${new URLSearchParams(recorded.query)}`,
          goTo,
          { class: 'to' },
          `Times of every block are recorded of ${recorded.label}`,
        ),
      ]
    : [];
  foot.append(
    element(
      'div',
      { class: 'grid-foot' },
      element('span', { class: 'said-of' }, said, ...there),
      ...(mapped ? [] : [element('span', { class: 'zoom', role: 'group', 'aria-label': 'Zoom' }, ...zooms)]),
    ),
  );
  const point = event => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const inside = (px, py) => px >= lanes.x && px <= lanes.x + lanes.w && py >= lanes.y && py <= lanes.y + lanes.h;
  canvas.addEventListener(
    'wheel',
    event => {
      const [px, py] = point(event);
      if (!inside(px, py)) return;
      event.preventDefault();
      const factor = 1.2 ** Math.sign(event.deltaY || event.deltaX);
      if (event.shiftKey) zoom(factor, seen.l0 + (py - lanes.y) / lane(), 'l');
      else zoom(factor, seen.t0 + ((px - lanes.x) / lanes.w) * (seen.t1 - seen.t0));
    },
    { passive: false },
  );
  let drag = null;
  canvas.addEventListener('pointerdown', event => {
    const [px, py] = point(event);
    drag = inside(px, py) ? { px, py, seen: { ...seen }, moved: false } : null;
    if (drag) canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', event => {
    if (!drag) return;
    const [px, py] = point(event);
    drag.moved ||= Math.hypot(px - drag.px, py - drag.py) > 4;
    if (!drag.moved) return;
    seen = { ...drag.seen };
    move(((drag.px - px) / lanes.w) * (seen.t1 - seen.t0), (drag.py - py) / lane());
    view.draw();
  });
  canvas.addEventListener('pointerup', () => {
    if (drag && !drag.moved) drag = null;
  });
  canvas.addEventListener(
    'click',
    event => {
      if (drag?.moved) event.stopImmediatePropagation();
      drag = null;
    },
    true,
  );
  host.dataset.zooms = ''; // these keys are its own (keys.js)
  host.addEventListener('keydown', event => {
    const act = {
      '+': () => zoom(1 / 1.6),
      '=': () => zoom(1 / 1.6),
      '-': () => zoom(1.6),
      0: reset,
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    act();
  });
  return view;
}

// 1, 2 or 5 times a power of ten, at least that much.
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 5].find(n => n * power >= least) ?? 10);
}
