// The ways of a pattern side by side. Each has its threads, a row for each warp, and its places, a
// row for all banks. Below are the working threads, the counts and the cycles, with a bar on one scale.
import { canvasView } from '../core/canvas.js';
import { blend, COLOURS, PALETTE, rgb, smallText } from '../core/paint.js';

const LANES = 32;
const GAP = 1.6; // em between two ways
const NARROW = 34; // em: below this width a way has no line for its step
const REGISTER = '#7b52c7'; // as no other colour of the picture

// meta: explainers/stories/patterns/frames.py PatternsMeta
export default function (host, { meta }, context) {
  const { ways, note, words } = meta;
  const { clock } = context,
    most = Math.max(...ways.map(way => way.time));
  let em,
    width,
    lines = 3,
    boxes = [];
  const rows = text => Math.ceil(text.length / LANES),
    threadRows = rows(ways[0].moves[0].threads),
    placeRows = Math.max(...ways.map(way => rows(way.moves[0].places)));
  const at = (way, step) => way.moves[Math.min(step, way.moves.length - 1)];
  const done = (way, step) => step >= way.moves.length;

  // As many columns as give the largest cells, and no hole in the last row if possible.
  const layout = size => {
    ({ em, width } = size);
    const small = smallText(em),
      all = threadRows + placeRows;
    lines = width < NARROW * em ? 2 : 3;
    const below = (lines === 2 ? 0.6 : 0.8) * em;
    const text = 2.1 * em + (lines + 0.1) * 1.35 * small;
    const fit = columns => {
      const w = (width - 2 - (columns - 1) * GAP * em) / columns,
        down = Math.ceil(ways.length / columns),
        cw = Math.min(w / LANES, 1.2 * em),
        h = size.height / down - text - below;
      return { columns, w, cw, ch: Math.max(Math.min(h / all, 3 * cw), Math.min(cw, 0.24 * em)) };
    };
    const roomy = ways.map((_, n) => fit(n + 1)).filter(({ w }, n) => !n || w >= 9.5 * em),
      whole = roomy.filter(({ columns }) => columns > 1 && ways.length % columns === 0),
      area = ({ cw, ch }) => Math.min(cw, ch);
    const { columns, w, cw, ch } = (whole.length ? whole : roomy).reduce((a, b) =>
        area(b) > area(a) ? b : a,
      ),
      high = text + ch * all + below;
    boxes = ways.map((_, n) => {
      const x = 1 + (n % columns) * (w + GAP * em),
        threads = Math.floor(n / columns) * high + 1.7 * em,
        places = threads + ch * threadRows + 0.4 * em;
      return {
        x,
        y: threads - 1.7 * em,
        w,
        cw,
        ch,
        threads,
        places,
        foot: places + ch * placeRows,
      };
    });
    return Math.ceil(boxes.at(-1).y + high);
  };

  // ---- drawing ----
  const colours = paint => {
    const back = rgb(paint.background);
    return [
      paint.panel,
      blend(rgb(paint.text), back, 0.42),
      COLOURS.read,
      COLOURS.written,
      blend(rgb(COLOURS.written), back, 0.45),
      REGISTER,
    ];
  };
  const draw = (g, { step, at: thing, paint }) => {
    ways.forEach((way, n) => drawWay(g, paint, way, boxes[n], step));
    if (!thing || thing.part === 'way') return;
    const { x, cw, ch, threads, places } = boxes[thing.way],
      top = thing.part === 'threads' ? threads : places;
    g.strokeStyle = paint.primary;
    g.lineWidth = 2;
    g.strokeRect(
      x + (thing.number % LANES) * cw,
      top + Math.floor(thing.number / LANES) * ch,
      cw,
      ch,
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
      shown = over ? move.places.replaceAll(/[35]/g, '1').replaceAll('2', '0') : move.places;
    cells(g, box, places, shown, state => tints[Number(state)]);
    g.fillStyle = paint.text;
    g.font = `${small}px ${paint.font}`;
    const line = n => foot + (n + 1) * 1.35 * small;
    if (lines === 3) g.fillText(over ? way.done : move.title, x, line(0), w);
    g.fillText(way.counts.join(', '), x, line(lines - 2), w);
    g.font = `600 ${small}px ${paint.font}`;
    g.fillText(way.cycles, x, line(lines - 1), w);
    if (!way.time || clock.hide(way.cycles) !== way.cycles) return; // a question asks for it
    const from = 6.6 * small;
    g.fillStyle = blend(rgb(paint.text), rgb(paint.background), 0.6);
    g.fillRect(
      x + from,
      line(lines - 1) - 0.68 * small,
      ((w - from) * way.time) / most,
      0.7 * small,
    );
  };
  const cells = (g, { x, cw, ch }, top, states, colour) => {
    const gap = Math.min(cw, ch) > 5 ? 1 : 0.4;
    [...states].forEach((state, n) => {
      g.fillStyle = colour(state);
      g.fillRect(x + (n % LANES) * cw, top + Math.floor(n / LANES) * ch, cw - gap, ch - gap);
    });
  };

  // ---- the cursor ----
  const locate = (px, py) => {
    for (const [way, { x, y, w, cw, ch, threads, places, foot }] of boxes.entries()) {
      if (px < x || px >= x + w || py < y || py > foot + 4 * em) continue;
      const column = Math.floor((px - x) / cw);
      for (const [part, top] of [
        ['threads', threads],
        ['places', places],
      ]) {
        const number = Math.floor((py - top) / ch) * LANES + column;
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
    if (part === 'places')
      return `${way.name}\nrow and ${state === '5' ? 'lane' : 'bank'} ${where}: ${words[state] ?? 'free'}`;
    const works = state === '1' && !done(way, step);
    return `${way.name}\nwarp and lane ${where}: ${works ? 'works' : 'rests'}`;
  };
  const label = step =>
    ways
      .map(way => {
        const said = done(way, step) ? way.done : at(way, step).title;
        return `${way.name}: ${said}. ${way.counts.join(', ')}, ${way.cycles}`;
      })
      .join('. ');
  const swatches = {
    0: 'background:color-mix(in srgb, currentColor 8%, transparent)',
    1: 'background:color-mix(in srgb, currentColor 42%, transparent)',
    2: `background:${COLOURS.read}`,
    3: `background:${COLOURS.written}`,
    5: `background:${REGISTER}`,
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
