// The ways of a pattern, one after another. The way of the step is large: its threads, a row for each
// warp, and its places, a row for all banks. Below them is why it costs what it costs. A bar for each
// way compares the cycles. A click on a bar goes to the first step of its way.
import { canvasView } from '../core/canvas.js';
import { blend, COLOURS, PALETTE, rgb, smallText } from '../core/paint.js';
import { wrapped } from '../core/wrapped.js';
import { LANES, layout as laid, LINE } from './layouts/patterns.js';

const REGISTER = '#7b52c7'; // as no other colour of the picture
// The counts of a way that explain it: neither 0 nor 1.
const told = way => way.counts.filter(([figure]) => figure !== '0' && figure !== '1');
const MOVED = 'rgb(240, 228, 66)'; // a number on its way from place to place

// meta: explainers/stories/patterns/frames.py PatternsMeta
/** @type {Picture<patterns.PatternsMeta>} */
export default function (host, { meta }, context) {
  const { ways, frames, note, words } = meta;
  const { clock } = context,
    slowest = Math.max(...ways.map(way => way.time));
  let em,
    box = null;
  const rows = text => Math.ceil(text.length / LANES),
    threadRows = rows(ways[0].moves[0].threads),
    placeRows = Math.max(...ways.map(way => rows(way.moves[0].places))),
    counts = Math.max(...ways.map(way => told(way).length)),
    rated = ways.some(way => way.rate);
  // The way of a step, and its move.
  const shown = step => {
    const { way: number, move: n } = frames[Math.min(step, frames.length - 1)];
    return { number, way: ways[number], move: ways[number].moves[n], n };
  };

  const layout = ({ width, height, em: size }) => {
    em = size;
    const small = smallText(em);
    box = laid({ width, height, em, small }, { ways: ways.length, threadRows, placeRows, counts });
    return box.height;
  };
  const spot = ([x, y], number) => [
    x + (number % LANES) * box.cw,
    y + Math.floor(number / LANES) * box.ch,
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
    return { busy: rgb(PALETTE.wavefronts.now), rests: back, places: places.map(rgb) };
  };
  const marks = ({ step, paint }) => {
    const { busy, rests, places } = colours(paint),
      { number, move } = shown(step),
      [from, to] = flights(move);
    return [
      {
        id: `threads ${number}`,
        kind: 'cells',
        rect: [...box.threads, 0, 0],
        fills: [...move.threads].map(state => (state === '1' ? busy : rests)),
      },
      {
        id: `places ${number}`,
        kind: 'cells',
        rect: [...box.places, 0, 0],
        fills: [...move.places].map(state => places[Number(state)]),
      },
      {
        id: `moved ${step}`,
        kind: 'flights',
        rect: [0, 0, 0, 0],
        points: to,
        enter: { points: from },
        ease: 'both',
        passing: true,
      },
    ];
  };
  // The starts and ends of what a step moves: numbers between places, or between threads and places.
  const flights = move => {
    const from = [],
      to = [];
    for (let n = 0; n < move.pairs.length; n += 2) {
      from.push(spot(box.places, move.pairs[n]));
      to.push(spot(box.places, move.pairs[n + 1]));
    }
    if (move.pairs.length || move.tile < 0) return [from, to];
    [...move.places].forEach((state, n) => {
      if (!'23'.includes(state) && !(state === '4' && move.coming)) return;
      const thread = move.threads.length > 1 ? n % move.threads.length : 0,
        ends = [spot(box.threads, thread), spot(box.places, n)];
      const [start, end] = state === '2' ? ends.reverse() : ends;
      from.push(start);
      to.push(end);
    });
    return [from, to];
  };
  const kinds = {
    cells(g, { rect: [x, y], fills }, paint) {
      const { cw, ch } = box,
        empty = [paint.panel, paint.background].map(one => `${rgb(one)}`),
        gap = Math.min(cw, ch) > 5 ? 1 : 0.4;
      g.strokeStyle = paint.border ?? '#8884';
      g.lineWidth = 1;
      fills.forEach((fill, n) => {
        g.fillStyle = `rgb(${fill.map(Math.round).join(',')})`;
        const [left, top] = spot([x, y], n);
        g.fillRect(left, top, cw - gap, ch - gap);
        if (gap < 1 || !empty.includes(`${fill}`)) return;
        g.strokeRect(left + 0.5, top + 0.5, cw - gap - 1, ch - gap - 1);
      });
    },
    flights(g, { points }) {
      g.fillStyle = MOVED;
      g.strokeStyle = '#000';
      g.lineWidth = 0.6;
      for (const [x, y] of points) {
        g.fillRect(x, y, box.cw - 0.4, box.ch - 0.4);
        g.strokeRect(x, y, box.cw - 0.4, box.ch - 0.4);
      }
    },
  };

  // ---- words ----
  const figures = way => way.counts.map(([figure, noun]) => `${figure} ${noun}`).join(', '),
    brief = way =>
      told(way)
        .map(([figure, noun]) => `${figure} ${noun}`)
        .join(', ');
  const over = (g, { step, at: thing, paint, width }) => {
    const small = smallText(em),
      { number, way, move, n } = shown(step);
    g.textAlign = 'left';
    drawWords(g, paint, way, move, width, small);
    drawArrow(g, paint, move);
    drawColumns(g, paint, width, small);
    ways.forEach((one, w) => drawBar(g, paint, one, w, w === number, width, small));
    g.strokeStyle = paint.primary;
    g.lineWidth = 2;
    if (way.sum >= 0 && n === way.moves.length - 1)
      g.strokeRect(...spot(box.places, way.sum), box.cw - 1, box.ch - 1);
    if (thing?.part === 'threads' || thing?.part === 'places')
      if (thing.number < move[thing.part].length)
        g.strokeRect(...spot(box[thing.part], thing.number), box.cw, box.ch);
  };
  const drawWords = (g, paint, way, move, width, small) => {
    const line = LINE * small,
      base = (top, n = 0) => top + (n + 0.85) * line,
      measure = text => g.measureText(text).width;
    g.fillStyle = paint.text;
    g.font = `700 ${1.15 * small}px ${paint.font}`;
    const named = way.build ? `${way.name}: ${way.build}` : way.name;
    g.fillText(named, 1, base(box.name), (box.apart ? 0.5 : 0.7) * width);
    const cycles = clock.hide(way.cycles);
    g.fillText(cycles, width - 2 - measure(cycles), base(box.name));
    g.font = `${small}px ${paint.font}`;
    g.fillText(way.heads[0], box.threads[0], base(box.heads), LANES * box.cw);
    const head = box.apart ? way.heads[1] : way.heads[1].split('. ')[0];
    g.fillText(head, box.places[0], base(box.heads), LANES * box.cw);
    if (box.apart) g.fillText(move.said, box.places[0], base(box.name));
    const why =
        clock.hide(way.why) === way.why ? way.why : 'The reason is hidden until you answer.',
      reason = wrapped(why, width - 4, box.reasons, measure),
      counts = box.counts - (box.reasons - reason.length) * line;
    reason.forEach((text, n) => g.fillText(text, 1, base(box.reason, n), width - 4));
    g.fillText(
      box.apart ? 'All ways (click one)' : 'All ways (click one), waits and cycles',
      1,
      base(box.list, box.apart ? 1 : 0),
    );
    if (!box.apart) {
      g.fillText(clock.hide(brief(way)), 1, base(counts), width - 4);
      if (reason.length < box.reasons) g.fillText(move.said, 1, base(counts, 1), width - 4);
      return;
    }
    if (box.tight) return;
    told(way).forEach(([, noun, meaning], n) => {
      g.font = `600 ${small}px ${paint.font}`;
      g.fillText(noun, 1, base(counts, n));
      const x = 1 + measure(noun);
      g.font = `${small}px ${paint.font}`;
      g.fillText(`: ${meaning}.`, x, base(counts, n), width - x - 2);
    });
  };
  // One of the additions: from the other number to its place.
  const drawArrow = (g, paint, move) => {
    const [from, to] = move.pairs.length ? [move.pairs[0], move.pairs[1]] : [0, 0];
    if (from === to || box.ch < 6) return;
    const middle = number => {
      const [x, y] = spot(box.places, number);
      return [x + box.cw / 2, y + box.ch / 2];
    };
    const [x, y] = middle(from),
      [toX, toY] = middle(to),
      angle = Math.atan2(toY - y, toX - x);
    g.beginPath();
    g.moveTo(x, y);
    g.lineTo(toX, toY);
    for (const turn of [2.6, -2.6]) {
      g.moveTo(toX, toY);
      g.lineTo(toX + 6 * Math.cos(angle + turn), toY + 6 * Math.sin(angle + turn));
    }
    for (const [colour, wide] of [
      [paint.background, 4],
      [paint.text, 1.5],
    ]) {
      g.strokeStyle = colour;
      g.lineWidth = wide;
      g.stroke();
    }
  };
  // The columns of the table: the left edge of the waits, the right edges of the counts, the bars.
  const columns = (width, small) => {
    if (!box.apart) return { waits: 0.36 * width, counts: [], bar: 0.62 * width, end: width - 2 };
    const waits = 0.2 * width,
      first = waits + 8 * small,
      each = Math.min(5.6 * small, (0.4 * width) / ways[0].counts.length),
      counts = ways[0].counts.map((_, n) => first + (n + 0.75) * each);
    return {
      waits,
      counts,
      bar: first + ways[0].counts.length * each,
      end: width - (rated ? 6 * small : 2),
    };
  };
  const drawColumns = (g, paint, width, small) => {
    if (!box.apart) return;
    const line = LINE * small,
      { waits, counts, bar } = columns(width, small);
    g.fillStyle = paint.text;
    g.font = `${small}px ${paint.font}`;
    const head = (text, x) => {
      const [last, before] = text.split('\n').reverse();
      g.fillText(last, x, box.list + 1.85 * line);
      if (before) g.fillText(before, x, box.list + 0.85 * line);
    };
    if (ways.some(way => way.waits)) head('waits\nmainly for', waits);
    head('one block: cycles\n(fewer is better)', bar);
    g.textAlign = 'right';
    if (rated) head('full GPU: sums a \u00b5s\n(more is better)', width - 2);
    counts.forEach((x, n) => {
      head(longest(n).replace(' in ', '\nin '), x);
      ways.forEach((way, w) => {
        const [figure, noun] = way.counts[n],
          said = clock.hide(`${figure} ${noun}`).split(' ')[0];
        g.fillText(
          said === '0' ? '\u2013' : said,
          x,
          box.bars + (w + 0.5) * box.bar + 0.33 * small,
        );
      });
    });
    g.textAlign = 'left';
  };
  const longest = n =>
    ways.map(way => way.counts[n][1]).reduce((a, b) => (b.length > a.length ? b : a));
  const drawBar = (g, paint, way, n, now, width, small) => {
    const top = box.bars + n * box.bar,
      base = top + 0.5 * box.bar + 0.33 * small,
      { waits, bar, end } = columns(width, small),
      room = end - bar - 3.2 * small,
      cycles = clock.hide(way.cycles),
      known = way.time && cycles === way.cycles,
      long = known ? (room * way.time) / slowest : 0;
    g.font = `${now ? 700 : 400} ${small}px ${paint.font}`;
    g.fillStyle = paint.text;
    g.fillText(`${now ? '\u25b8 ' : '\u2003'}${way.name}`, 1, base, waits - 6);
    g.fillText(clock.hide(way.waits), waits, base, (box.apart ? 7.6 * small : bar - waits) - 4);
    if (known) {
      const orange = rgb(PALETTE.wavefronts.now);
      g.fillStyle = now ? PALETTE.wavefronts.now : blend(orange, rgb(paint.background), 0.45);
      g.fillRect(bar, top + 0.18 * box.bar, long, 0.64 * box.bar);
    }
    g.fillStyle = paint.text;
    g.fillText(known ? cycles.split(' ')[0] : cycles, bar + long + 5, base, end - bar - long);
    if (!rated || !box.apart) return;
    g.textAlign = 'right';
    g.fillText(known ? way.rate : '?', width - 2, base);
    g.textAlign = 'left';
  };

  // ---- the cursor ----
  const locate = (px, py) => {
    if (!box) return null;
    const way = Math.floor((py - box.bars) / box.bar);
    if (way >= 0 && way < ways.length) return { way, part: 'way', number: -1 };
    const { number: now, move } = shown(clock.step);
    for (const part of ['threads', 'places']) {
      const [left, top] = box[part],
        column = Math.floor((px - left) / box.cw),
        number = Math.floor((py - top) / box.ch) * LANES + column;
      const inside = px >= left && py >= top && column < LANES;
      if (inside && number < move[part].length) return { way: now, part, number };
    }
    return null;
  };
  const click = ({ way, part }) => {
    if (part === 'way')
      clock.set(
        frames.findIndex(frame => frame.way === way),
        'user',
      );
  };
  const describe = ({ way: n, part, number }, step) => {
    const way = ways[n];
    if (part === 'way') return `${way.name}\n${figures(way)}, ${way.cycles}\nClick: its first step`;
    const state = shown(step).move[part][number],
      where = `${Math.floor(number / LANES)}, ${number % LANES}`;
    if (part === 'places') return `row and column ${where}: ${words[state] ?? 'free'}`;
    return `warp and lane ${where}: ${state === '1' ? 'works' : 'rests'}`;
  };
  const label = step => {
    const { way, move } = shown(step),
      all = ways.map(one => `${one.name}: ${figures(one)}, ${one.cycles}.`);
    return `${way.name}: ${move.title}. ${way.why} ${all.join(' ')}`;
  };
  const swatches = {
    0: 'background:color-mix(in srgb, currentColor 8%, transparent)',
    1: 'background:color-mix(in srgb, currentColor 42%, transparent)',
    2: `background:${COLOURS.read}`,
    3: `background:${COLOURS.written}`,
    5: `background:${REGISTER}`,
    4: `background:color-mix(in srgb, ${COLOURS.written} 45%, transparent)`,
  };
  return canvasView(host, context, {
    title: 'Ways of a pattern',
    layout,
    marks,
    kinds,
    over,
    locate,
    click,
    describe,
    label,
    said: () => note,
    legend: [
      [`background:${PALETTE.wavefronts.now}`, 'thread at work'],
      ['border:1px solid', 'idle thread'],
      ...Object.entries(words).map(([state, said]) => [swatches[state], said]),
      ...(ways.some(way => way.sum >= 0)
        ? [['border:2px solid var(--st-primary-color)', 'the sum']]
        : []),
    ],
  });
}
