// The picture of a wgmma descriptor, as marks: its 64 bits, the stored tile in the order of memory with an arrow for
// each offset, and the chunks that arrive. A chunk keeps its name, so it moves to its place under another swizzle.
import { Marks } from '../core/kinds.js';
import { PALETTE, blend, figure, rgb, widest } from '../core/paint.js';
import { CHUNK, leads, placeOf } from './descriptor_rule.js';

const LINE = 128; // bytes: all 32 banks
const EIGHT = 8; // chunks of a line, lines of a block, rows of a colour
const MOST = 512; // chunks in sight
const ROWS = 64; // in sight at most
const ACROSS = 64; // chunks of a line of the operand
/** @typedef {'type' | 'base' | 'stride' | 'leading' | 'start'} Field */
/** @type {{name: Field, high: number, low: number, says: string, short: string}[]} */
export const FIELDS = [
  { name: 'type', high: 63, low: 62, says: 'layout type', short: 'layout type' },
  { name: 'base', high: 51, low: 49, says: 'base offset', short: 'base' },
  { name: 'stride', high: 45, low: 32, says: 'stride offset (SBO)', short: 'stride (SBO)' },
  { name: 'leading', high: 29, low: 16, says: 'leading offset (LBO)', short: 'leading (LBO)' },
  { name: 'start', high: 13, low: 0, says: 'start address', short: 'start address' },
];
const BITS = 64;
const HUES = [0, 2, 3, 5, 6, 7, 1, 4].map(n => PALETTE.kernels[n]); // the last ones are near the colour of a fault
const LOW = 430; // pixels: below this, an operand has one line of numbers

/** Black or white, whichever reads better. @param {string} fill */
const inkOn = fill => {
  const [r, g, b] = rgb(fill).map(part => (part / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? '#111' : '#fff';
};
const bytes = (/** @type {number} */ chunks) => figure(CHUNK * chunks);
const spread = (/** @type {number[]} */ rows) => {
  const [low, high] = [Math.min(...rows), Math.max(...rows)];
  return low === high ? `${low}` : `${low}–${high}`;
};
/** The numbers of a chunk: dims 8 to 15. @param {string} column @param {number} unit */
const part = (column, unit) => `${column}s ${EIGHT * unit} to ${EIGHT * unit + EIGHT - 1}`;
/** A chunk in words. @param {pipeline.DescriptorOperand} operand @param {{row: number, unit: number}} chunk */
export const chunkSaid = ({ row: name, column }, { row, unit }) => `${name} ${row}, ${part(column, unit)}`;

/** @param {import('./descriptor_rule.js').Tile} tile @param {number} swizzle */
export function stored(tile, swizzle) {
  const units = tile.turned ? tile.units : Math.min(tile.units, EIGHT),
    rows = Math.min(tile.rows, ROWS, MOST / units),
    chunks = Array.from({ length: rows }, (_, row) =>
      Array.from({ length: units }, (_, unit) => ({ row, unit, at: placeOf(tile, swizzle, row, unit) })),
    ).flat(),
    lines = [...new Set(chunks.map(({ at }) => Math.floor(at / LINE)))].sort((a, b) => a - b);
  return { chunks, lines };
}

/**
 * @param {{width: number, height: number, em: number}} size
 * @param {number[]} lines numbers of the lines of memory in sight
 */
export function descriptorLayout({ width, height, em }, lines) {
  const narrow = width < 620,
    bitLines = narrow ? 2 : 1,
    bitHigh = 1.5 * em,
    bitLine = bitHigh + 2.75 * em,
    bit = (width - 2) / (BITS / bitLines),
    blocks = Math.ceil(lines.length / EIGHT),
    columns = narrow ? 2 : 4,
    bands = Math.ceil(blocks / columns),
    gutter = (narrow ? 1.5 : 1.9) * em,
    low = height < LOW,
    head = (low ? 1.6 : 2) * em,
    bitsEnd = bitLines * bitLine + (low ? 0 : 0.5) * em,
    title = 1.4 * em,
    operand = { title: (low ? 1.55 : 2.1) * em, h: (low ? 1.7 : 2.8) * em, foot: (low ? 1.3 : 2.7) * em },
    below = operand.title + operand.h + operand.foot,
    free = height - bitsEnd - title - below,
    top = bitsEnd + (narrow ? below : 0), // a phone has what arrives above the tile: the tile scrolls
    line = Math.max(12, Math.min(2.3 * em, (free / bands - head) / EIGHT)),
    band = head + EIGHT * line,
    block = (width - 2) / columns,
    chunk = (block - gutter) / EIGHT,
    numbers = new Map(lines.map((number, n) => [number, n])),
    bottom = top + title + bands * band;
  return {
    ...{
      width,
      em,
      narrow,
      bit,
      bitHigh,
      bitLine,
      bitLines,
      top,
      title,
      line,
      chunk,
      gutter,
      head,
      band,
      block,
      columns,
    },
    ...{ lines, blocks, bands, low, height: bottom + (narrow ? 0 : below) },
    operand: { ...operand, y: narrow ? bitsEnd : bottom },
    /** The left upper corner of the chunk at an address, or null out of sight. */
    spot(/** @type {number} */ at) {
      const n = numbers.get(Math.floor(at / LINE));
      if (n === undefined) return null;
      const which = Math.floor(n / EIGHT);
      return {
        left: (which % columns) * block, // of its block
        x: (which % columns) * block + gutter + (Math.floor(at / CHUNK) % EIGHT) * chunk,
        y: top + title + Math.floor(which / columns) * band + head + (n % EIGHT) * line,
        which,
      };
    },
    /** The address of the chunk at a point. */
    addressAt(/** @type {number} */ x, /** @type {number} */ y) {
      const across = Math.max(0, Math.min(columns - 1, Math.floor(x / block))),
        down = Math.max(0, Math.min(bands - 1, Math.floor((y - top - title) / band))),
        within = (/** @type {number} */ value) => Math.max(0, Math.min(EIGHT - 1, Math.floor(value))),
        n = EIGHT * (down * columns + across) + within((y - top - title - down * band - head) / line);
      return LINE * lines[Math.min(n, lines.length - 1)] + CHUNK * within((x - across * block - gutter) / chunk);
    },
  };
}

/** @typedef {ReturnType<typeof descriptorLayout>} Layout */
/**
 * @typedef {object} Now
 * @property {pipeline.DescriptorOperand} operand
 * @property {import('./descriptor_rule.js').Tile} tile
 * @property {number} swizzle of the stored tile
 * @property {import('./descriptor_rule.js').Fields} fields
 * @property {string} bits
 * @property {import('./descriptor_rule.js').Read[]} reads [] while nothing is read
 * @property {{row: number, unit: number, at: number}[]} chunks in sight
 * @property {('stride' | 'leading')[]} arrows
 * @property {Record<Field, string>} means
 * @property {string} field the chosen one
 */

/** @param {Layout} at @param {Now} now @param {Paint} paint */
export function descriptorMarks(at, now, paint) {
  const made = new Marks(at.em);
  addBits(made, at, now, paint);
  addMemory(made, at, now, paint);
  now.arrows.forEach((name, n) => addArrow(made, at, now, name, n, paint));
  if (now.reads.length) addOperand(made, at, now, paint);
  else
    made.text(
      'box is',
      [0, at.operand.y + at.operand.title + 0.4 * at.em, at.width],
      `A piece: 16 bytes, eight ${now.operand.column}s of a row. A line: 128 bytes, all 32 banks. A colour: 8 rows.`,
    );
  return made.list;
}

/** @param {string} name @param {Paint} paint */
export const colourOf = (name, paint) =>
  name === 'stride' ? paint.primary : name === 'leading' ? PALETTE.wavefronts.now : paint.text;

/** @param {Marks} made @param {Layout} at @param {Now} now @param {Paint} paint */
function addBits(made, at, { bits, fields, means, field, reads, tile, swizzle }, paint) {
  const { em, narrow, bit, bitHigh, bitLine, bitLines } = at,
    paper = rgb(paint.background),
    each = BITS / bitLines,
    place = (/** @type {number} */ number) => {
      const n = BITS - 1 - number;
      return [(n % each) * bit, Math.floor(n / each) * bitLine + 1.4 * em];
    };
  const values = {
    ...{ type: `${fields.type} = ${['no swizzle', '128 bytes', '64 bytes', '32 bytes'][fields.type]}`, base: '0' },
    stride: `${fields.stride} × 16 = ${bytes(fields.stride)}`,
    leading: `${fields.leading} × 16 = ${bytes(fields.leading)}`,
    start: `${fields.start} × 16 = ${bytes(fields.start)}`,
  };
  for (const { name, high, low, says, short } of FIELDS) {
    const [x, y] = place(high),
      wide = (high - low + 1) * bit,
      colour = colourOf(name, paint),
      idle = name === 'leading' && reads.length > 0 && !leads(tile, swizzle),
      thing = { datum: { field: name }, tip: `${says}, bits ${low} to ${high}\n${means[name]}` };
    made.rect(`${name} field`, [x, y, wide, bitHigh], {
      ...{ fill: blend(rgb(colour), paper, name === 'stride' || name === 'leading' ? 0.32 : 0.14), ...thing },
      ...{ stroke: colour, width: field === name ? 3 : 1 },
    });
    made.text(`${name} is`, [x, y - 0.4 * em], narrow ? short : says, { bold: true, ...thing });
    made.text(`${name} value`, [x, y + bitHigh + 1.15 * em], values[name] + (idle ? ' (ignored)' : ''), thing);
  }
  [...bits].forEach((value, n) => {
    const number = BITS - 1 - n,
      [x, y] = place(number),
      used = FIELDS.some(({ high, low }) => number <= high && number >= low);
    made.text(`bit ${number}`, [x + bit / 2, y + 0.72 * bitHigh], value, {
      ...{ align: 'center', mono: true, alpha: used ? 1 : 0.35, bold: value === '1', size: Math.min(em, 1.5 * bit) },
    });
  });
}

/** @param {Marks} made @param {Layout} at @param {Now} now @param {Paint} paint */
function addMemory(made, at, { operand, swizzle, chunks, reads }, paint) {
  const { em, line, chunk, narrow } = at,
    paper = rgb(paint.background),
    { name, rows, columns } = operand,
    long = `Shared memory: ${name}, ${rows} × ${columns}, in rows of ${swizzle || CHUNK} bytes`,
    more = `a box: a piece of 16 bytes, with its ${operand.row}`;
  made.text('memory is', [0, at.top + 1.05 * em], long, { bold: true });
  if (!narrow)
    made.text('number is', [widest([long], `600 ${em}px ${paint.font}`) + 1.2 * em, at.top + 1.05 * em], more, {
      fill: blend(rgb(paint.text), paper, 0.75),
    });
  for (let which = 0; which < at.blocks; which++) {
    const first = LINE * at.lines[EIGHT * which],
      spot = at.spot(first),
      follows = which && at.lines[EIGHT * which] === at.lines[EIGHT * which - 1] + 1;
    if (!spot) continue;
    const says = `${which && !follows ? '… ' : ''}byte ${figure(first)}`;
    made.text(`block ${which}`, [spot.left + at.gutter, spot.y - 0.55 * em], says, {
      ...{ size: Math.min(em, Math.max(12, 0.9 * em)), fill: blend(rgb(paint.text), paper, 0.8) },
    });
  }
  for (const [n, number] of at.lines.entries()) {
    const spot = at.spot(LINE * number);
    if (!spot || n % EIGHT === 0 || at.lines[n - 1] === number - 1) continue;
    made.add(`gap ${n}`, 'line', [spot.x, spot.y - 0.5, EIGHT * chunk, 0], {
      stroke: paint.text,
      width: 2,
      dash: [3, 3],
    });
  }
  const by = new Map(); // address -> what is read there
  for (const read of reads) by.set(read.at, [...(by.get(read.at) ?? []), read]);
  const two = widest(['63·15'], `600 ${em}px ${paint.font}`) < chunk - 4;
  for (const { row, unit, at: place } of chunks) {
    const spot = at.spot(place),
      own = by.get(place) ?? [],
      wrong = own.some((/** @type {any} */ one) => !one.right),
      hue = HUES[Math.floor(row / EIGHT) % HUES.length],
      fill = blend(rgb(hue), paper, own.length ? 0.85 : reads.length ? 0.25 : 0.6);
    if (!spot) continue;
    const says = own.map((/** @type {any} */ one) =>
      one.right ? 'read, right' : `read as ${chunkSaid(operand, { row: one.outer, unit: one.unit })}: wrong`,
    );
    made.add(`chunk ${row} ${unit}`, 'chunk', [spot.x, spot.y, chunk - 1, line - 1], {
      ...{ fill, ink: inkOn(fill), text: two ? `${row}·${unit}` : `${row}`, size: Math.min(em, 0.98 * line) },
      ...{ read: own.length > 0, wrong, ease: 'both', datum: { row, unit } },
      tip: [
        `${chunkSaid(operand, { row, unit })}\nbytes ${figure(place)} to ${figure(place + CHUNK - 1)}`,
        ...(reads.length ? (says.length ? says : ['not read by this instruction']) : []),
      ].join('\n'),
    });
  }
}

/** @type {(made: Marks, at: Layout, now: Now, name: 'stride' | 'leading', n: number, paint: Paint) => void} */
function addArrow(made, at, { fields }, name, n, paint) {
  const { em, line, gutter } = at,
    start = at.spot(CHUNK * fields.start),
    end = at.spot(CHUNK * (fields.start + fields[name])),
    colour = colourOf(name, paint);
  if (!start || !end || !fields[name]) return;
  const lane = (0.3 + 0.3 * n) * gutter, // of each arrow in the gutter
    [y0, y1] = [start.y + (0.3 + 0.4 * n) * line, end.y + (0.5 + 0.2 * n) * line],
    over = start.y - (n ? 1.42 : 0.2) * em, // above or below the number of the byte
    [out, back] = [start.left + lane, end.left + lane],
    way = start.left === end.left ? [out, y1] : [out, over, back, over, back, y1],
    points = [[start.x, y0], [out, y0], ...way.flatMap((x, i) => (i % 2 ? [] : [[x, way[i + 1]]])), [end.x, y1]];
  made.add(`${name} arrow back`, 'way', null, { points, stroke: paint.background, width: 6, head: 0.5 * em });
  made.add(`${name} arrow`, 'way', null, { points, stroke: colour, width: 3, head: 0.42 * em });
  made.add(`${name} arrow start`, 'dot', [start.x - 4, y0 - 4, 8, 8], { fill: colour });
}

/** @param {Marks} made @param {Layout} at @param {Now} now @param {Paint} paint */
function addOperand(made, at, { operand, tile, reads }, paint) {
  const { em, narrow } = at,
    paper = rgb(paint.background),
    units = tile.turned ? tile.units : 2,
    wide = tile.turned ? ACROSS / operand.outer : 1, // chunks of a row side by side
    group = tile.turned ? 1 : EIGHT, // rows with one text
    down = units / wide,
    y = at.operand.y + at.operand.title,
    cell = { w: (at.width - 2) / ACROSS, h: at.operand.h / down },
    wrong = reads.filter(({ right }) => !right).length;
  made.text(
    'operand is',
    [0, at.operand.y + 1.35 * em],
    `${narrow ? 'What arrives' : 'The tensor cores get'}: ${at.low ? '' : 'place and '}${operand.row}`,
    {
      bold: true,
    },
  );
  made.text(
    'operand right',
    [at.width - 4, at.operand.y + 1.35 * em],
    wrong ? `${figure(wrong)} of ${figure(reads.length)} wrong` : `all ${figure(reads.length)} right`,
    { align: 'right', bold: true, fill: wrong ? PALETTE.wrong : paint.text },
  );
  for (const { outer, unit, holds } of reads) {
    const hue = holds ? HUES[Math.floor(holds.row / EIGHT) % HUES.length] : paint.panel,
      fill = blend(rgb(hue), paper, 0.85),
      x = (outer * wide + (unit % wide)) * cell.w,
      gets = holds ? chunkSaid(operand, holds) : 'bytes outside the tile';
    made.add(`got ${outer} ${unit}`, 'chunk', [x, y + Math.floor(unit / wide) * cell.h, cell.w - 1, cell.h - 1], {
      ...{ fill, ink: inkOn(fill), text: '', size: em, read: false, wrong: false },
      datum: { outer, unit },
      tip: `${chunkSaid(operand, { row: outer, unit })}\ngets ${gets}`,
    });
  }
  for (let first = 0; first < operand.outer; first += group) {
    const own = reads.filter(({ outer }) => outer >= first && outer < first + group),
      rows = own.flatMap(({ holds }) => (holds ? [holds.row] : [])),
      bad = own.some(({ right }) => !right),
      middle = (first + group / 2) * wide * cell.w,
      place = [middle, y + at.operand.h + 1.15 * em, group * wide * cell.w];
    if (bad)
      made.rect(`bad ${first}`, [first * wide * cell.w, y, group * wide * cell.w - 1, at.operand.h - 1], {
        ...{ stroke: PALETTE.wrong, width: 2.5 },
      });
    if (!at.low)
      made.text(`place ${first}`, /** @type {any} */ (place), spread([first, first + group - 1]), { align: 'center' });
    made.text(
      `gets ${first}`,
      [middle, place[1] + (at.low ? 0 : 1.25 * em), place[2]],
      `${bad ? '← ' : ''}${rows.length ? spread(rows) : 'none'}`,
      {
        ...{ align: 'center', bold: true, fill: bad ? PALETTE.wrong : paint.text },
      },
    );
  }
}

/** @type {import('../core/kinds.js').Kinds} */
export const DESCRIPTOR_KINDS = {
  // 16 bytes. read: an edge. wrong: an edge and, with a text, a corner.
  chunk(g, { rect: [x, y, w, h], fill, ink, text, size, read, wrong }, paint) {
    g.fillStyle = fill;
    g.fillRect(x, y, w, h);
    if (read || wrong) {
      g.strokeStyle = wrong ? PALETTE.wrong : paint.text;
      g.lineWidth = wrong ? 2.5 : 1.5;
      g.strokeRect(x + 1, y + 1, w - 2, h - 2);
    }
    if (text) {
      g.font = `${read ? '600 ' : ''}${size}px ${paint.font}`;
      g.fillStyle = ink;
      g.textAlign = 'center';
      g.fillText(text, x + w / 2, y + h / 2 + 0.35 * size, w);
    }
    if (!wrong || !text) return;
    g.fillStyle = ink;
    g.beginPath();
    g.moveTo(x + w, y);
    g.lineTo(x + w - 0.45 * h, y);
    g.lineTo(x + w, y + 0.45 * h);
    g.fill();
  },
};
