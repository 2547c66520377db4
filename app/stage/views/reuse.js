// Why the query goes to shared memory: rows of Q by key tiles, each cell with how often an element
// of the row is read there, and below the bytes that come from global memory beside those that the
// lanes read. A click chooses a row and tells it.
import { canvasView } from '../core/canvas.js';
import { COLOURS, blend, number, rgb, smallText } from '../core/paint.js';

const WHERE = { shared: 'shared memory', global: 'global memory' };

export default function (host, { meta, columns }, context) {
  const { space, row0, rows, tiles, steps, tile_of, read, fetched, itemsize, said, frames } = meta,
    { least, most, so_far_least, so_far_most } = columns;
  const full = Math.max(1, ...most),
    whole = Math.max(...so_far_most, 1),
    last = read.length - 1,
    bytes = read.map(n => n * itemsize);
  /** @type {(pair: number[]) => string} */
  const times = ([low, high]) => (low === high ? number(low) : `${number(low)} to ${number(high)}`),
    often = pair => `${times(pair)} time${times(pair) === '1' ? '' : 's'}`;
  // Of a row: how often its least and most read element is read in a tile, as far as the step; null
  // where it is not yet.
  const inTile = (row, tile, step) => {
    const mine = steps.map((at, n) => [at, n]).filter(([at, n]) => tile_of[n] === tile && at <= step);
    return mine.length
      ? [least, most].map(counts => mine.reduce((sum, [, n]) => sum + counts[n * rows + row], 0))
      : null;
  };
  const soFar = (row, step) => {
    const n = steps.filter(at => at <= step).length - 1;
    return n < 0 ? [0, 0] : [so_far_least[n * rows + row], so_far_most[n * rows + row]];
  };
  let em,
    grid,
    sum,
    bars,
    chosen = null;

  const layout = size => {
    ({ em } = size);
    const left = 3.6 * em,
      right = Math.min(0.3 * size.width, 11 * em),
      top = 3 * em,
      foot = 6.2 * em,
      h = Math.max(4 * em, size.height - top - foot);
    const wide = Math.min(size.width - left - right - 1.5 * em, tiles.length * 9 * em);
    grid = { x: left, y: top, w: wide / tiles.length, h: Math.min(h / rows, 2 * em) };
    sum = { x: left + wide + 1.5 * em, w: right - 0.5 * em };
    bars = { x: 1, y: top + grid.h * rows + 1.6 * em, w: Math.min(size.width - 2, 60 * em) };
    return top + grid.h * rows + foot;
  };
  const draw = (g, { step, at, paint }) => {
    drawGrid(g, paint, step);
    drawBars(g, paint, Math.min(step, last));
    const marked = [
      [chosen, paint.text, 2],
      [at?.row === undefined ? null : at.row - row0, paint.primary, 2],
    ];
    for (const [row, colour, wide] of marked) {
      if (row === null) continue;
      g.strokeStyle = colour;
      g.lineWidth = wide;
      g.strokeRect(grid.x - 1, grid.y + row * grid.h, grid.w * tiles.length + 2, Math.max(2, grid.h));
    }
  };
  const drawGrid = (g, paint, step) => {
    const small = smallText(em),
      text = rgb(paint.background),
      q = rgb(COLOURS.Q),
      now = frames[Math.min(step, last)].tile,
      gap = Math.min(grid.w, grid.h) > 6 ? 1 : 0;
    const every = Math.max(1, Math.ceil((1.3 * em) / grid.h)),
      across = Math.max(1, Math.ceil((2.6 * em) / grid.w));
    g.fillStyle = paint.text;
    g.font = `600 ${em}px ${paint.font}`;
    g.fillText(`Reads of each element of Q from ${WHERE[space]}, by key tile`, 1, em, sum.x + sum.w);
    g.font = `${small}px ${paint.font}`;
    g.fillText('so far', sum.x, grid.y - 0.45 * em);
    tiles.forEach((tile, n) => {
      if (n % across === 0)
        g.fillText(
          tile < 0 ? 'before' : grid.w > 4 * em ? `tile ${tile}` : String(tile),
          grid.x + n * grid.w,
          grid.y - 0.45 * em,
        );
    });
    for (let row = 0; row < rows; row++) {
      const y = grid.y + row * grid.h,
        tall = grid.h > 1.15 * small;
      g.fillStyle = paint.text;
      if (row % every === 0)
        g.fillText(`row ${row0 + row}`, 1, y + Math.min(grid.h, 1.2 * em) * 0.5 + 0.35 * small, grid.x - 4);
      tiles.forEach((_, n) => {
        const found = inTile(row, n, step),
          x = grid.x + n * grid.w;
        g.fillStyle = found ? blend(q, text, 0.15 + (0.4 * found[1]) / full) : paint.panel;
        g.fillRect(x, y, grid.w - gap, grid.h - gap);
        if (!found || !tall || grid.w < 2.4 * em) return;
        g.fillStyle = paint.text;
        g.fillText(times(found), x + 0.4 * em, y + grid.h / 2 + 0.35 * small, grid.w - 0.6 * em);
      });
      const pair = soFar(row, step);
      g.fillStyle = COLOURS.Q;
      g.fillRect(sum.x, y, (sum.w - 3.4 * em) * (pair[1] / whole), grid.h - gap);
      g.fillStyle = paint.text;
      if (row % every === 0)
        g.fillText(
          times(pair),
          sum.x + (sum.w - 3.4 * em) * (pair[1] / whole) + 0.3 * em,
          y + Math.min(grid.h, 1.2 * em) * 0.5 + 0.35 * small,
          3.2 * em,
        );
    }
    const n = tiles.indexOf(now);
    if (n < 0) return;
    g.strokeStyle = paint.text;
    g.lineWidth = 2;
    g.strokeRect(grid.x + n * grid.w - 1, grid.y - 1, grid.w + 1, grid.h * rows + 1);
  };
  // Both against the same length: what came from global memory, and what the lanes have read.
  const drawBars = (g, paint, step) => {
    const top = Math.max(bytes[last], fetched[last], 1);
    const each = [
      ['from global memory', fetched[step], COLOURS.read],
      ...(space === 'shared' ? [['read by lanes (from global memory without the copy)', bytes[step], COLOURS.Q]] : []),
    ];
    each.forEach(([name, value, colour], n) => {
      const y = bars.y + n * 2.3 * em;
      g.fillStyle = paint.text;
      g.font = `${em}px ${paint.font}`;
      g.fillText(`${number(value)} B ${name}`, bars.x, y, bars.w);
      g.fillStyle = colour;
      g.fillRect(bars.x, y + 0.35 * em, Math.max(value ? 1 : 0, (bars.w * value) / top), 0.7 * em);
      g.strokeStyle = paint.border;
      g.lineWidth = 1;
      g.strokeRect(bars.x + 0.5, y + 0.35 * em + 0.5, bars.w - 1, 0.7 * em - 1);
    });
  };

  const areas = () => {
    const columns = tiles.length,
      h = rows * grid.h;
    return [
      {
        rect: [0, grid.y, sum.x + sum.w, h],
        datum: {},
        grid: { columns: 1, count: rows, thing: number => ({ row: row0 + number }) },
      },
      {
        rect: [grid.x, grid.y, columns * grid.w, h],
        datum: {},
        grid: {
          columns,
          count: rows * columns,
          thing: n => ({ row: row0 + Math.floor(n / columns), tile: tiles[n % columns] }),
        },
      },
    ];
  };
  const describe = ({ row, tile }, step) => {
    const of = `row ${row} of Q`,
      from = `from ${WHERE[space]}`;
    if (tile === undefined) return `${of}: each element read ${often(soFar(row - row0, step))} ${from} so far`;
    const found = inTile(row - row0, tiles.indexOf(tile), step),
      where = tile < 0 ? 'before the tiles' : `in tile ${tile}`;
    return found ? `${of}, ${where}: each element read ${often(found)} ${from}` : `${of}, ${where}: not read`;
  };
  const told = step => {
    if (chosen === null) return said[Math.min(step, last)];
    const parts = tiles.map((tile, n) => [tile, inTile(chosen, n, step)]).filter(([, found]) => found),
      shown = parts.length > 6 ? parts.slice(-6) : parts;
    const listed = shown.map(([tile, found]) => `${times(found)} in tile ${tile}`).join(', ');
    return (
      `Row ${row0 + chosen}: each element read ${often(soFar(chosen, step))} from ` +
      `${WHERE[space]}${listed ? `: ${parts.length > shown.length ? '\u2026, ' : ''}${listed}` : ''}.`
    );
  };
  const click = ({ row }) => {
    chosen = chosen === row - row0 ? null : row - row0;
  };
  const label = step => `${frames[Math.min(step, last)].title}. ${frames[Math.min(step, last)].sentence} ${told(step)}`;
  const legend = [
    [`background:${COLOURS.Q}`, 'reads by lanes'],
    ['border:2px solid currentColor', 'the current tile'],
  ];
  return canvasView(host, context, {
    title: 'Reuse of Q',
    layout,
    draw,
    areas,
    describe,
    label,
    click,
    said: told,
    legend,
  });
}
