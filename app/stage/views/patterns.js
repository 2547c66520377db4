// The ways of a pattern side by side. Each has its threads, a row for each warp, and its places, a
// row for all banks. Next to them are the cycles, with a bar on one scale, the counts and the reason.
import { canvasView } from '../core/canvas.js';
import { blend, COLOURS, PALETTE, rgb, smallText } from '../core/paint.js';
import { LANES, layout as laid, LINE, wrapped } from './layouts/patterns.js';

const REGISTER = '#7b52c7'; // as no other colour of the picture
const MOVED = 'rgb(240, 228, 66)'; // a number on its way from place to place

// meta: explainers/stories/patterns/frames.py PatternsMeta
export default function (host, { meta }, context) {
  const { ways, note, words } = meta;
  const { clock } = context,
    slowest = Math.max(...ways.map(way => way.time));
  let em,
    boxes = [];
  const rows = text => Math.ceil(text.length / LANES),
    threadRows = rows(ways[0].moves[0].threads),
    placeRows = Math.max(...ways.map(way => rows(way.moves[0].places)));
  const at = (way, step) => way.moves[Math.min(step, way.moves.length - 1)];
  const done = (way, step) => step >= way.moves.length;

  const layout = ({ width, height, em: size }) => {
    em = size;
    const small = smallText(em);
    const found = laid({ width, height, em, small }, { ways: ways.length, threadRows, placeRows });
    boxes = found.boxes;
    return found.height;
  };
  const spot = ({ cw, ch }, [x, y], number) => [
    x + (number % LANES) * cw,
    y + Math.floor(number / LANES) * ch,
  ];

  // ---- what moves: the colours of the cells, and numbers from place to place ----
  const colours = paint => {
    const back = rgb(paint.background);
    const places = [
      paint.panel,
      blend(rgb(paint.text), back, 0.42),
      COLOURS.read,
      COLOURS.written,
      blend(rgb(COLOURS.written), back, 0.45),
      REGISTER,
    ];
    return { busy: rgb(PALETTE.wavefronts.now), rests: rgb(paint.panel), places: places.map(rgb) };
  };
  const marks = ({ step, paint }) => {
    const { busy, rests, places } = colours(paint);
    return ways.flatMap((way, n) => {
      const box = boxes[n],
        move = at(way, step),
        over = done(way, step);
      const shown = over
          ? move.places.replaceAll(/[^35]/g, '0').replaceAll(/[35]/g, '1')
          : move.places,
        threads = [...move.threads].map(state => (state === '1' && !over ? busy : rests)),
        cells = { kind: 'cells', cw: box.cw, ch: box.ch };
      const found = [
        { ...cells, id: `threads ${n}`, rect: [...box.threads, 0, 0], fills: threads },
        {
          ...cells,
          id: `places ${n}`,
          rect: [...box.places, 0, 0],
          fills: [...shown].map(state => places[Number(state)]),
        },
      ];
      if (over) return found;
      const [from, to] = flights(box, move);
      return [
        ...found,
        {
          ...cells,
          id: `moved ${n} ${step}`,
          kind: 'flights',
          rect: [0, 0, 0, 0],
          points: to,
          enter: { points: from },
          ease: 'both',
          passing: true,
        },
      ];
    });
  };
  // The starts and ends of what a step moves: numbers between places, or between threads and places.
  const flights = (box, move) => {
    const from = [],
      to = [];
    for (let n = 0; n < move.pairs.length; n += 2) {
      from.push(spot(box, box.places, move.pairs[n]));
      to.push(spot(box, box.places, move.pairs[n + 1]));
    }
    if (move.pairs.length || move.tile < 0) return [from, to];
    [...move.places].forEach((state, n) => {
      if (!'23'.includes(state) && !(state === '4' && move.coming)) return;
      const thread = move.threads.length > 1 ? n % move.threads.length : 0,
        ends = [spot(box, box.threads, thread), spot(box, box.places, n)];
      const [start, end] = state === '2' ? ends.reverse() : ends;
      from.push(start);
      to.push(end);
    });
    return [from, to];
  };
  const kinds = {
    cells(g, { rect: [x, y], cw, ch, fills }) {
      const gap = Math.min(cw, ch) > 5 ? 1 : 0.4;
      fills.forEach((fill, n) => {
        g.fillStyle = `rgb(${fill.map(Math.round).join(',')})`;
        const [left, top] = spot({ cw, ch }, [x, y], n);
        g.fillRect(left, top, cw - gap, ch - gap);
      });
    },
    flights(g, { cw, ch, points }) {
      g.fillStyle = MOVED;
      g.strokeStyle = '#000';
      g.lineWidth = 0.6;
      for (const [x, y] of points) {
        g.fillRect(x, y, cw - 0.4, ch - 0.4);
        g.strokeRect(x, y, cw - 0.4, ch - 0.4);
      }
    },
  };

  // ---- words ----
  const over = (g, { step, at: thing, paint, width }) => {
    const small = smallText(em);
    g.textAlign = 'left';
    if (boxes[0].y > 0) {
      g.fillStyle = blend(rgb(paint.text), rgb(paint.background), 0.75);
      g.font = `${small}px ${paint.font}`;
      const heads = [
        ['way, cycles and counts', boxes[0].words[0]],
        ['threads by warp', boxes[0].threads[0]],
        ['numbers by bank', boxes[0].places[0]],
        ['why', boxes[0].reason[0]],
      ];
      for (const [text, x] of heads) g.fillText(text, x, small);
    }
    ways.forEach((way, n) => {
      if (boxes[0].y > 0) {
        g.fillStyle = paint.panel;
        g.fillRect(0, boxes[n].y - 0.5, width, 1);
      }
      drawWords(g, paint, way, boxes[n], step, small);
    });
    if (!thing || thing.part === 'way') return;
    const box = boxes[thing.way];
    g.strokeStyle = paint.primary;
    g.lineWidth = 2;
    g.strokeRect(...spot(box, box[thing.part], thing.number), box.cw, box.ch);
  };
  const drawWords = (g, paint, way, { words: [x, y, w], reason, lines }, step, small) => {
    const line = n => y + (n + 0.95) * LINE * small,
      cycles = clock.hide(way.cycles),
      bold = `600 ${small}px ${paint.font}`;
    g.fillStyle = paint.text;
    g.font = bold;
    const wide = g.measureText(cycles).width;
    g.fillText(cycles, x + w - wide, line(0));
    g.font = `${way.chosen ? 700 : 500} ${small}px ${paint.font}`;
    g.fillText(`${way.chosen ? '\u25b8 ' : ''}${way.name}`, x, line(0), w - wide - 0.5 * small);
    if (way.time && cycles === way.cycles) {
      g.fillStyle = PALETTE.wavefronts.now;
      g.fillRect(x, line(0) + 0.3 * small, (w * way.time) / slowest, 0.3 * small);
    }
    g.fillStyle = paint.text;
    g.font = `${small}px ${paint.font}`;
    const measure = text => g.measureText(text).width,
      counts = wrapped(clock.hide(way.counts.join(', ')), w, Math.min(2, lines - 1), measure);
    const said = lines > counts.length + 1 ? [...counts, clock.hide(now(way, step))] : counts;
    said.forEach((text, n) => g.fillText(text, x, line(n + 1) + 0.35 * small, w));
    const shared = ways.length > 1 && boxes[0].reason === boxes[1].reason,
      why = clock.hide(way.why);
    if (shared && !way.chosen) return;
    const [left, top, room, most] = reason;
    wrapped(shared ? `${way.name}: ${why}` : why, room, most, measure).forEach((text, n) =>
      g.fillText(text, left, top + (n + 0.95) * LINE * small, room),
    );
  };
  const now = (way, step) => (done(way, step) ? way.done : at(way, step).title);

  // ---- the cursor ----
  const locate = (px, py) => {
    for (const [way, box] of boxes.entries()) {
      const { x, y, w, h, cw, ch } = box;
      if (px < x || px >= x + w || py < y || py > y + h) continue;
      for (const part of ['threads', 'places']) {
        const [left, top] = box[part],
          column = Math.floor((px - left) / cw),
          number = Math.floor((py - top) / ch) * LANES + column;
        const inside = px >= left && py >= top && column < LANES;
        if (inside && number < ways[way].moves[0][part].length) return { way, part, number };
      }
      return { way, part: 'way', number: -1 };
    }
    return null;
  };
  const describe = ({ way: n, part, number }, step) => {
    const way = ways[n],
      move = at(way, step),
      state = move[part]?.[number];
    if (part === 'way')
      return `${way.name}\n${way.counts.join(', ')}, ${way.cycles}\n${now(way, step)}\n${way.why}`;
    const where = `${Math.floor(number / LANES)}, ${number % LANES}`;
    if (part === 'places')
      return `${way.name}\nrow and ${state === '5' ? 'lane' : 'bank'} ${where}: ${words[state] ?? 'free'}`;
    const works = state === '1' && !done(way, step);
    return `${way.name}\nwarp and lane ${where}: ${works ? 'works' : 'rests'}`;
  };
  const label = step =>
    ways
      .map(
        way =>
          `${way.name}: ${now(way, step)}. ${way.counts.join(', ')}, ${way.cycles}. ${way.why}`,
      )
      .join(' ');
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
    marks,
    kinds,
    over,
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
