// A thread and its memories, as marks. It gets all values and computes places only. The x axis is time: a memory is as
// far from the thread as its wait. Its square has the area of its bytes. Below, a bar for each amount of data is as long
// as its wait, on the same axis.
import { Marks } from '../core/kinds.js';
import { COLOURS, widest } from '../core/paint.js';

const RING = 5; // pixels around a memory that is smaller than a pixel
const TICK = 100; // cycles

/**
 * @param {{width: number, height: number, em: number}} size
 * @param {memory_hierarchy.Level[]} levels
 */
export function placesLayout({ width, height, em }, levels) {
  const narrow = width < 600,
    big = narrow ? em : 1.5 * em, // the size of names
    row = (narrow ? 3 : 4.1) * em, // of a memory without a large square
    axis = 2.1 * em,
    far = levels[levels.length - 1],
    top = (levels.length - 1) * row,
    side = Math.max((narrow ? 10 : 9) * em, Math.min(height - top - axis - 0.6 * em, 0.36 * width)),
    tall = Math.max(height, top + side + axis + 0.6 * em),
    from = (narrow ? 1.6 : 4.6) * em, // the edge of the thread
    floor = tall - axis,
    scale = (width - side - 2 - from) / far.cycles;
  return {
    ...{
      levels: levels.length,
      width,
      height: tall,
      em,
      big,
      narrow,
      row,
      from,
      floor,
      side,
      scale,
      area: side / Math.sqrt(far.bytes),
    },
    below: { y: floor - side, h: side }, // left of the square of device memory
    x: (/** @type {number} */ cycles) => from + cycles * scale,
    rowY: (/** @type {number} */ n) => (n < levels.length - 1 ? (n + 0.5) * row : floor - side / 2),
  };
}

/** @typedef {ReturnType<typeof placesLayout>} Layout */
/**
 * @typedef {object} Now
 * @property {memory_hierarchy.Level[]} levels
 * @property {memory_hierarchy.Size[]} sizes
 * @property {number[]} away share of its distance that each level has
 * @property {boolean[]} known whether its wait is in sight
 * @property {(number | null)[]} on the way that a number of each level has before it, in cycles, or null
 * @property {number} home the level with the reader's data, or -1
 * @property {number} size its amount (a place in sizes), or -1
 * @property {number} seen the largest amount so far
 * @property {memory_hierarchy.Ended} l2
 * @property {memory_hierarchy.Tensors} tensors
 * @property {memory_hierarchy.Processors | null} chip null once device memory is at its distance
 * @property {number | null} sent the way before the number of this data, in cycles
 * @property {boolean} ruled whether the axis is there
 */
/**
 * @param {Layout} at
 * @param {Now} now
 * @param {Paint} paint
 */
export function placesMarks(at, now, paint) {
  const made = new Marks(at.em),
    { em, from, floor, narrow } = at,
    last = now.levels.length - 1;
  if (now.ruled)
    for (let cycles = TICK; cycles < now.levels[last].cycles; cycles += TICK) {
      made.add(`tick ${cycles}`, 'line', [at.x(cycles), floor, 0, 5], { stroke: paint.text });
      if (!narrow || cycles % 300 === 0)
        made.text(`tick is ${cycles}`, [at.x(cycles), floor + 1.5 * em], String(cycles), {
          align: 'center',
          size: narrow ? em : 1.2 * em,
        });
    }
  if (now.ruled) {
    made.text('axis is', [at.x(now.levels[last].cycles), floor + 1.5 * em], 'cycles of wait', {
      ...{ bold: true, size: narrow ? em : 1.2 * em },
    });
    made.add('axis', 'line', [from, floor, at.x(now.levels[last].cycles) - from, 0], { stroke: paint.text });
  }
  made.rect('thread', [0, 0, from, floor], { fill: paint.panel, stroke: paint.border });
  if (now.size >= 0) addSizes(made, at, now, paint);
  now.levels.forEach((level, n) => addLevel(made, at, now, level, n, paint));
  if (now.chip) addChip(made, at, now.chip, paint);
  if (narrow) made.add('thread is', 'upright', [from / 2, floor / 2, 0, 0], { text: 'thread', size: em, bold: true });
  else made.text('thread is', [from / 2, 1.4 * em], 'thread', { bold: true, align: 'center' });
  return made.list;
}

/** @type {(made: Marks, at: Layout, now: Now, level: memory_hierarchy.Level, n: number, paint: Paint) => void} */
function addLevel(made, at, now, level, n, paint) {
  const { em, big, from, narrow } = at,
    y = at.rowY(n),
    large = n === now.levels.length - 1,
    side = at.area * Math.sqrt(level.bytes),
    drawn = Math.max(1, side),
    alike = at.x(now.levels[now.levels.length - 1].cycles), // until its wait is known
    due = n ? at.x(level.cycles) : from + 0.9 * em,
    left = alike + (due - alike) * now.away[n],
    way = now.on[n],
    pale = now.home > 0 && now.home !== n ? 0.5 : 1,
    thing = { datum: { kind: 'level', level: n }, tip: `${level.name}\n${level.size}\n${level.holds}` },
    tip = { ...thing, tip: now.known[n] ? `${thing.tip}\n${level.wait}` : thing.tip };
  // its way, and the number on it
  if (n && now.size >= 0)
    made.add(`guide ${n}`, 'line', [left, y, 0, at.floor - y], { stroke: level.colour, dash: [2, 4] });
  else if (way === null && (n || now.away[n] < 1)) {
    const known = { stroke: level.colour, width: 3, alpha: 0.5 };
    made.add(
      `way ${n}`,
      'line',
      [from, y, left - from, 0],
      now.known[n] ? known : { stroke: paint.border, dash: [3, 6] },
    );
    if (!now.known[n] && !now.away[n]) {
      made.text(`code ${n}`, [from + 0.9 * em, y - 0.35 * em], level.code, { mono: true });
      made.text(`asks ${n}`, [from + (alike - from) / 2, y + 0.5 * big], '?', {
        ...{ bold: true, align: 'center', size: 1.5 * big, fill: paint.primary },
      });
    }
  }
  if (large) {
    made.rect(`square ${n}`, [left, y - side / 2, side, side], { fill: level.colour, alpha: 0.28 * pale, ...tip });
    made.rect(`edge ${n}`, [left, y - side / 2, side, side], { stroke: level.colour, width: 1.5 });
  } else {
    made.rect(`square ${n}`, [left, y - drawn / 2, drawn, drawn], { fill: level.colour, ...tip });
    if (side < 2) made.add(`ring ${n}`, 'ring', [left + drawn / 2, y, RING, 0], { stroke: level.colour, alpha: pale });
  }
  if (way !== null) {
    const there = at.x(way);
    made.add(`trail ${n}`, 'line', [there, y, left - there, 0], { stroke: level.colour, width: 4 });
    made.rect(`number ${n}`, [there - em / 2, y - em / 2, em, em], { fill: paint.text, stroke: paint.background });
  }
  // its name, wait, size and contents
  const x = left + (large ? RING + 2 : Math.max(drawn, RING + 2)) + 0.6 * em,
    top = large ? y - side / 2 + 1.3 * big : y - 0.1 * em,
    room = large ? side - 1.6 * em : at.width - x - 2,
    wait = now.known[n] ? level.wait : '',
    font = `600 ${big}px ${paint.font}`,
    text = { bold: true, size: big };
  made.text(`name ${n}`, [x, top, room], level.name, { ...text, ...tip });
  if (large) made.text(`wait ${n}`, [x, top + 1.3 * big, room], wait, text);
  else {
    const right = x + widest([level.name], font) + big;
    made.text(`wait ${n}`, [right, top, at.width - right - 2], wait, { ...text, size: n ? big : em, bold: !!n });
  }
  const shares = now.known[n] ? level.shares : '',
    inline = narrow ? shares : '',
    about = `${level.size}${narrow ? '' : `: ${level.holds}`}${inline && `. ${inline}`}`,
    lines = large ? [level.size] : [about],
    below = top + (large && wait ? 1.25 * big : 0) + (large ? 1.5 : 1.45) * em;
  lines.forEach((line, row) => made.text(`about ${n} ${row}`, [x, below + 1.35 * row * em, room], line));
  if (large) addTensors(made, at, now, [x, below + 0.8 * em, left + side - 0.7 * em, y + side / 2], pale);
  if (!shares || narrow) return;
  // a bracket around this memory and the one before
  const two = now.levels.slice(n - 1, n + 1).map(({ name, wait }) => `${name} ${wait}`),
    named = widest(two, font) + big,
    right = x + Math.max(named, widest([about], `${em}px ${paint.font}`)) + 1.2 * em,
    [high, low] = [at.rowY(n - 1) - 1.1 * em, below + 0.3 * em];
  made.add('shares up', 'line', [right, high, 0, low - high], { stroke: paint.text, width: 1.5 });
  for (const y of [high, low])
    made.add(`shares ${y}`, 'line', [right - 0.5 * em, y, 0.5 * em, 0], { stroke: paint.text, width: 1.5 });
  made.text('shares', [right + 0.6 * em, (high + low) / 2 + 0.35 * em, at.width - right - em], shares, { bold: true });
}

/** The SMs of the chip, one of them lit. @type {(made: Marks, at: Layout, chip: memory_hierarchy.Processors, paint: Paint)
 *  => void} */
function addChip(made, at, { sms, said }, paint) {
  const { em, from, narrow, row, side, width } = at,
    rows = narrow ? 11 : 6,
    columns = Math.ceil(sms / rows),
    x = from + 0.9 * em,
    top = (at.levels - 1) * row,
    room = at.rowY(at.levels - 1) - 1.4 * em - top, // above the way to device memory
    pitch = Math.min(narrow ? 0.5 * em : 0.75 * em, (room - 0.5 * em) / rows),
    tall = sms ? rows * pitch : 0,
    y = top + Math.max(0.5 * em, (room - tall) / 2),
    beside = x + (sms ? columns * pitch + 1.2 * em : 0);
  for (let n = 0; n < sms; n++)
    made.rect(`sm ${n}`, [x + Math.floor(n / rows) * pitch, y + (n % rows) * pitch, 0.8 * pitch, 0.8 * pitch], {
      fill: n ? paint.border : paint.primary,
    });
  const lines = narrow ? said.slice(0, room < 6.4 * em ? 1 : 2).flatMap(text => wrapped(text, 4)) : said;
  lines.forEach((text, n) =>
    made.text(`chip is ${n}`, [beside, y + 1.1 * em + n * 1.6 * em, width - side - beside], text, {
      bold: text === lines[0],
    }),
  );
}

/** Q, K, V and O in device memory: at its scale, and magnified below. @type {(made: Marks, at: Layout, now: Now, room:
 *  number[], alpha: number) => void} */
function addTensors(made, { em, area, narrow }, { tensors }, [x, y, right, bottom], alpha) {
  const dot = Math.max(2, area * Math.sqrt(tensors.bytes)),
    gap = 0.4 * em,
    said = narrow ? tensors.said.replace(/.*: /, '') : tensors.said, // a narrow square has room for the bytes
    under = 2.4 * em,
    tile = Math.min((right - x - 3 * gap) / 4, bottom - y - dot - under - 1.8 * em),
    top = bottom - tile - under,
    seen = tile > 1.2 * em, // in a low window, only at its scale
    end = x + 4 * (dot + 2) - 2;
  if (seen)
    for (const [n, [from, to]] of [
      [x, x],
      [end, x + 4 * (tile + gap) - gap],
    ].entries())
      made.add(`magnified ${n}`, 'line', [from, y + dot + 2, to - from, top - y - dot - 5], {
        ...{ stroke: '#888', dash: [2, 3], alpha },
      });
  ['Q', 'K', 'V', 'O'].forEach((name, n) => {
    const fill = COLOURS[/** @type {'Q' | 'K' | 'V' | 'O'} */ (name)];
    made.rect(`dot ${name}`, [x + n * (dot + 2), y, dot, dot], { fill, alpha });
    if (!seen) return;
    made.rect(`tensor ${name}`, [x + n * (tile + gap), top, tile, tile], { fill, alpha });
    made.text(`tensor ${name} is`, [x + n * (tile + gap) + tile / 2, top + tile / 2 + 0.5 * em], name, {
      ...{ bold: true, align: 'center', size: 1.4 * em, fill: '#fff' },
    });
  });
  if (seen) made.text('tensors are', [x, bottom - 0.8 * em, right - x], said);
}

/** Words in lines of so many words. @type {(text: string, most: number) => string[]} */
function wrapped(text, most) {
  const words = text.split(' ');
  return Array.from({ length: Math.ceil(words.length / most) }, (_, n) =>
    words.slice(n * most, (n + 1) * most).join(' '),
  );
}

/** A bar for each amount of data so far. @type {(made: Marks, at: Layout, now: Now, paint: Paint) => void} */
function addSizes(made, at, now, paint) {
  const { from, em, below } = at,
    pitch = below.h / now.sizes.length,
    y = (/** @type {number} */ n) => below.y + n * pitch;
  now.sizes.forEach((size, n) => {
    if (n > now.seen) return;
    const own = n === now.size,
      { colour } = now.levels[size.home];
    made.rect(`bar ${n}`, [from, y(n) + 0.5, at.x(size.cycles) - from, Math.max(1, pitch - 1)], {
      ...{ fill: colour, alpha: own ? 1 : 0.35 },
      ...{ datum: { kind: 'size', size: n }, tip: `${size.size} of data: ${size.wait}` },
    });
  });
  if (!at.narrow)
    for (const [n, { bytes, size }] of now.sizes.entries())
      if (Number.isInteger(Math.log2(bytes / 1024) / 5))
        made.text(`size ${n}`, [from - 0.3 * em, y(n) + 0.5 * em], size, { align: 'right' });
  const full = now.sizes.findIndex(({ bytes }) => bytes > now.l2.bytes); // the first that L2 cannot hold
  if (now.seen >= full && full > 0) {
    const end = at.x(now.l2.cycles);
    made.add('full', 'line', [from, y(full), at.width - at.side - from, 0], {
      stroke: paint.text,
      dash: [6, 4],
      width: 1.5,
    });
    made.add('full is', 'plate', [(from + end) / 2 - 4 * em, y(full) + 1.4 * em, em, 0], {
      ...{ text: now.l2.full, align: 'left', fill: paint.text, light: paint.background },
    });
    const climbs = now.sizes.findIndex(({ bytes }) => bytes > now.l2.fits);
    if (climbs < full && !at.narrow)
      wrapped(now.l2.early, 5).forEach((text, n, { length }) =>
        made.text(`early ${n}`, [end + 0.7 * em, y(climbs) - (0.6 + 1.35 * (length - 1 - n)) * em], text),
      );
  }
  const { cycles, size, wait } = now.sizes[now.size],
    middle = y(now.size) + pitch / 2,
    end = at.x(cycles),
    said = `${size}: ${wait}`,
    inside = end + 0.62 * em * (said.length + 1) > at.width - at.side,
    line = inside ? middle - pitch / 2 - 0.5 * em : Math.max(middle + 0.35 * em, below.y + em);
  made.add('said', 'plate', [inside ? end - 0.4 * em : end + 0.5 * em, line, em, 0], {
    ...{ text: said, align: inside ? 'right' : 'left', fill: paint.text, light: paint.background },
  });
  if (now.sent !== null)
    made.rect('number', [at.x(now.sent) - em / 2, middle - em / 2, em, em], {
      ...{ fill: paint.text, stroke: paint.background },
    });
}

/** @type {import('../core/kinds.js').Kinds} */
export const PLACES_KINDS = {
  // rect: [x, y of the middle, radius]
  ring(g, { rect: [x, y, radius], stroke }) {
    g.strokeStyle = stroke;
    g.lineWidth = 2;
    g.beginPath();
    g.arc(x, y, radius, 0, 2 * Math.PI);
    g.stroke();
  },
  // a text from below to above
  upright(g, { rect: [x, y], text, size }, paint) {
    g.save();
    g.translate(x, y);
    g.rotate(-Math.PI / 2);
    g.fillStyle = paint.text;
    g.textAlign = 'center';
    g.font = `600 ${size}px ${paint.font}`;
    g.fillText(text, 0, size / 3);
    g.restore();
  },
  // a text on a ground of the page's colour. rect: [x, y of the baseline, size]
  plate(g, { rect: [x, y, size], text, align, fill, light }, paint) {
    g.font = `600 ${size}px ${paint.font}`;
    const wide = g.measureText(text).width,
      left = align === 'right' ? x - wide : x;
    g.fillStyle = light;
    g.fillRect(left - 0.25 * size, y - 0.95 * size, wide + 0.5 * size, 1.3 * size);
    g.fillStyle = fill;
    g.textAlign = 'left';
    g.fillText(text, left, y);
  },
};
