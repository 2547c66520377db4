// The ways of a pattern side by side. Each has its threads, a row for each warp, and its places, a
// row for all banks. Below are the working threads, the counts and the cycles.
import { canvasView } from '../core/canvas.js';
import { blend, COLOURS, PALETTE, rgb, smallText } from '../core/paint.js';

const LANES = 32;
const GAP = 1.6; // em between two ways

// meta: explainers/stories/patterns/frames.py PatternsMeta
export default function (host, { meta }, context) {
  const { ways, note, words } = meta;
  let em,
    boxes = [];
  const rows = text => Math.ceil(text.length / LANES),
    threadRows = rows(ways[0].moves[0].threads),
    placeRows = Math.max(...ways.map(way => rows(way.moves[0].places)));
  const at = (way, step) => way.moves[Math.min(step, way.moves.length - 1)];
  const done = (way, step) => step >= way.moves.length;

  // As many columns as give the largest cells.
  const layout = size => {
    ({ em } = size);
    const small = smallText(em),
      text = 2.1 * em + 3.1 * 1.35 * small;
    const fit = columns => {
      const w = (size.width - 2 - (columns - 1) * GAP * em) / columns,
        lines = Math.ceil(ways.length / columns),
        h = (size.height - lines * (text + 0.8 * em)) / lines / (threadRows + placeRows);
      return { columns, w, cell: Math.min(w / LANES, 1.2 * em, h) };
    };
    const tried = ways.map((_, n) => fit(n + 1)).filter(({ w }, n) => !n || w >= 9.5 * em);
    const best = tried.reduce((a, b) => (b.cell > a.cell ? b : a)),
      cell = Math.max(best.cell, Math.min(best.w / LANES, 0.3 * em)),
      high = text + cell * (threadRows + placeRows) + 0.8 * em;
    boxes = ways.map((_, n) => {
      const x = 1 + (n % best.columns) * (best.w + GAP * em),
        y = Math.floor(n / best.columns) * high,
        threads = y + 1.7 * em,
        places = threads + cell * threadRows + 0.4 * em;
      return { x, y, w: best.w, cell, threads, places, foot: places + cell * placeRows };
    });
    return Math.ceil(boxes.at(-1).y + high);
  };

  // ---- drawing ----
  const colours = paint => {
    const back = rgb(paint.background);
    return [
      paint.panel,
      blend(rgb(paint.text), back, 0.22),
      COLOURS.read,
      COLOURS.written,
      blend(rgb(COLOURS.written), back, 0.45),
    ];
  };
  const draw = (g, { step, at: thing, paint }) => {
    ways.forEach((way, n) => drawWay(g, paint, way, boxes[n], step));
    if (!thing || thing.part === 'way') return;
    const { x, cell, threads, places } = boxes[thing.way],
      top = thing.part === 'threads' ? threads : places;
    g.strokeStyle = paint.primary;
    g.lineWidth = 2;
    g.strokeRect(
      x + (thing.number % LANES) * cell,
      top + Math.floor(thing.number / LANES) * cell,
      cell,
      cell,
    );
  };
  const drawWay = (g, paint, way, box, step) => {
    const { x, y, w, threads, places, foot } = box,
      small = smallText(em),
      move = at(way, step),
      over = done(way, step);
    g.fillStyle = paint.text;
    g.font = `${way.chosen ? 700 : 500} ${em}px ${paint.font}`;
    g.fillText(`${way.chosen ? '\u25b8 ' : ''}${way.name}`, x, y + 1.2 * em, w);
    const busy = PALETTE.wavefronts.now;
    cells(g, box, threads, move.threads, state => (state === '1' && !over ? busy : paint.panel));
    const tints = colours(paint),
      shown = over ? move.places.replaceAll('3', '1').replaceAll('2', '0') : move.places;
    cells(g, box, places, shown, state => tints[Number(state)]);
    g.fillStyle = paint.text;
    g.font = `${small}px ${paint.font}`;
    const line = n => foot + (n + 1) * 1.35 * small;
    g.fillText(
      over ? `done after ${way.moves.length} step${way.moves.length > 1 ? 's' : ''}` : move.title,
      x,
      line(0),
      w,
    );
    g.fillText(way.counts.join(', '), x, line(1), w);
    g.font = `600 ${small}px ${paint.font}`;
    g.fillText(way.cycles, x, line(2), w);
  };
  const cells = (g, { x, cell }, top, states, colour) => {
    const gap = cell > 5 ? 1 : 0.4;
    [...states].forEach((state, n) => {
      g.fillStyle = colour(state);
      g.fillRect(
        x + (n % LANES) * cell,
        top + Math.floor(n / LANES) * cell,
        cell - gap,
        cell - gap,
      );
    });
  };

  // ---- the cursor ----
  const locate = (px, py) => {
    for (const [way, { x, y, w, cell, threads, places, foot }] of boxes.entries()) {
      if (px < x || px >= x + w || py < y || py > foot + 4 * em) continue;
      const column = Math.floor((px - x) / cell);
      for (const [part, top] of [
        ['threads', threads],
        ['places', places],
      ]) {
        const number = Math.floor((py - top) / cell) * LANES + column;
        if (py >= top && column < LANES && number < ways[way].moves[0][part].length)
          return { way, part, number };
      }
      return { way, part: 'way', number: -1 };
    }
    return null;
  };
  const describe = ({ way: n, part, number }, step) => {
    const way = ways[n],
      move = at(way, step),
      state = move[part]?.[number];
    if (part === 'way') return `${way.name}\n${way.counts.join(', ')}, ${way.cycles}`;
    const where = `${Math.floor(number / LANES)}, ${number % LANES}`;
    if (part === 'places') return `${way.name}\nrow and bank ${where}: ${words[state] ?? 'free'}`;
    const works = state === '1' && !done(way, step);
    return `${way.name}\nwarp and lane ${where}: ${works ? 'works' : 'rests'}`;
  };
  const label = step =>
    ways
      .map(way => {
        const said = done(way, step) ? 'done' : at(way, step).title;
        return `${way.name}: ${said}. ${way.counts.join(', ')}, ${way.cycles}`;
      })
      .join('. ');
  const swatches = {
    0: 'background:color-mix(in srgb, currentColor 8%, transparent)',
    1: 'background:color-mix(in srgb, currentColor 22%, transparent)',
    2: `background:${COLOURS.read}`,
    3: `background:${COLOURS.written}`,
    4: `background:color-mix(in srgb, ${COLOURS.written} 45%, transparent)`,
  };
  return canvasView(host, context, {
    title: 'Ways side by side',
    layout,
    draw,
    locate,
    describe,
    label,
    said: () => note,
    legend: [
      [`background:${PALETTE.wavefronts.now}`, 'a thread at work'],
      ...Object.entries(words).map(([state, said]) => [swatches[state], said]),
    ],
  });
}
