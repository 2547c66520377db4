// The picture of a wgmma descriptor, as marks: its 64 bits, the stored tile in the order of memory with an arrow for each
// offset, and the chunks that arrive. A chunk keeps its name, so it moves to its place under another swizzle.
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
const HUES = PALETTE.kernels;
export const ARROWS = /** @type {const} */ ({ stride: 'stride', leading: 'leading' });

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

/** @param {{width: number, height: number, em: number}} size @param {number[]} lines numbers of the lines of memory in sight */
export function descriptorLayout({ width, height, em }, lines) {
  const narrow = width < 620,
    bitLines = narrow ? 2 : 1,
    bitHigh = 1.5 * em,
    bitLine = bitHigh + 2.9 * em,
    bit = (width - 2) / (BITS / bitLines),
    blocks = Math.ceil(lines.length / EIGHT),
    columns = narrow ? 2 : 4,
    bands = Math.ceil(blocks / columns),
    gutter = (narrow ? 1.5 : 1.9) * em,
    head = 1.7 * em,
    top = bitLines * bitLine + 0.3 * em,
    title = 1.6 * em,
    operand = { title: 1.9 * em, h: 2.6 * em, foot: 2.9 * em },
    below = operand.title + operand.h + operand.foot,
    free = height - top - title - below,
    line = Math.max(1.12 * em, Math.min(2.3 * em, (free / bands - head) / EIGHT)),
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
    ...{ lines, blocks, bands, bottom, operand, height: bottom + below },
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
      [0, at.bottom + at.operand.title + 0.4 * at.em, at.width],
      `A box: 16 bytes, eight ${now.operand.column}s of one row. A line: 128 bytes, all 32 banks.`,
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
    long = `Shared memory: ${operand.name} in rows of ${swizzle || CHUNK} bytes`,
    more = `a number: the ${operand.row} of 16 bytes`;
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
    made.text(`block ${which}`, [spot.left + at.gutter, spot.y - 0.35 * em], says, {
      ...{ size: Math.max(12, 0.9 * em), fill: blend(rgb(paint.text), paper, 0.8) },
    });
  }
  const by = new Map(); // address -> what is read there
  for (const read of reads) by.set(read.at, [...(by.get(read.at) ?? []), read]);
  const two = widest(['63·15'], `${0.9 * em}px ${paint.font}`) < chunk - 4;
  for (const { row, unit, at: place } of chunks) {
    const spot = at.spot(place),
      own = by.get(place) ?? [],
      wrong = own.some((/** @type {any} */ one) => !one.right),
      hue = HUES[Math.floor(row / EIGHT) % HUES.length],
      fill = blend(rgb(hue), paper, own.length ? 1 : reads.length ? 0.28 : 0.75);
    if (!spot) continue;
    const says = own.map((/** @type {any} */ one) =>
      one.right ? 'read, right' : `read as ${chunkSaid(operand, { row: one.outer, unit: one.unit })}: wrong`,
    );
    made.add(`chunk ${row} ${unit}`, 'chunk', [spot.x, spot.y, chunk - 1, line - 1], {
      ...{ fill, ink: inkOn(fill), text: two ? `${row}·${unit}` : `${row}`, size: Math.min(0.9 * em, 0.86 * line) },
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
  const lane = (0.32 + 0.3 * n) * gutter, // of each arrow in the gutter
    [y0, y1] = [start.y + (0.35 + 0.3 * n) * line, end.y + (0.4 + 0.2 * n) * line],
    [x0, x1] = [start.left + gutter, end.x],
    near = start.which === end.which,
    over = Math.min(start.y, end.y) - (n ? 1.32 : 0.18) * em, // above the lines of the upper block
    points = near
      ? [
          [x0, y0],
          [start.left + lane, y0],
          [start.left + lane, y1],
          [x1, y1],
        ]
      : [
          [x0, y0],
          [start.left + lane, y0],
          [start.left + lane, start.y - (n ? 1.32 : 0.18) * em],
          [end.left + lane, start.y - (n ? 1.32 : 0.18) * em],
          [end.left + lane, y1],
          [x1, y1],
        ];
  void over;
  made.add(`${name} arrow back`, 'way', null, { points, stroke: paint.background, width: 6, head: 0.5 * em });
  made.add(`${name} arrow`, 'way', null, {
    ...{ points, stroke: colour, width: 3, head: 0.42 * em },
  });
}

/** @param {Marks} made @param {Layout} at @param {Now} now @param {Paint} paint */
function addOperand(made, at, { operand, tile, reads }, paint) {
  const { em, narrow } = at,
    paper = rgb(paint.background),
    units = tile.turned ? tile.units : 2,
    wide = tile.turned ? ACROSS / operand.outer : 1, // chunks of a row side by side
    group = tile.turned ? 1 : EIGHT, // rows with one text
    down = units / wide,
    y = at.bottom + at.operand.title,
    cell = { w: (at.width - 2) / ACROSS, h: at.operand.h / down },
    wrong = reads.filter(({ right }) => !right).length;
  made.text('operand is', [0, at.bottom + 1.35 * em], narrow ? 'What arrives' : 'What the tensor cores get', {
    bold: true,
  });
  made.text(
    'operand right',
    [at.width - 4, at.bottom + 1.35 * em],
    wrong ? `${figure(wrong)} of ${figure(reads.length)} wrong` : `all ${figure(reads.length)} right`,
    { align: 'right', bold: true, fill: wrong ? PALETTE.wrong : paint.text },
  );
  for (const { outer, unit, holds, right } of reads) {
    const hue = holds ? HUES[Math.floor(holds.row / EIGHT) % HUES.length] : paint.panel,
      fill = blend(rgb(hue), paper, 1),
      x = (outer * wide + (unit % wide)) * cell.w;
    made.add(`got ${outer} ${unit}`, 'chunk', [x, y + Math.floor(unit / wide) * cell.h, cell.w - 1, cell.h - 1], {
      ...{ fill, ink: inkOn(fill), text: '', size: em, read: false, wrong: !right },
      datum: { outer, unit },
      tip: `${chunkSaid(operand, { row: outer, unit })}\ngets ${holds ? chunkSaid(operand, holds) : 'bytes outside the tile'}`,
    });
  }
  for (let first = 0; first < operand.outer; first += group) {
    const own = reads.filter(({ outer }) => outer >= first && outer < first + group),
      rows = own.flatMap(({ holds }) => (holds ? [holds.row] : [])),
      bad = own.some(({ right }) => !right),
      middle = (first + group / 2) * wide * cell.w,
      place = [middle, y + at.operand.h + 1.15 * em, group * wide * cell.w];
    made.text(`place ${first}`, /** @type {any} */ (place), spread([first, first + group - 1]), { align: 'center' });
    made.text(
      `gets ${first}`,
      [middle, place[1] + 1.25 * em, place[2]],
      rows.length ? `${bad ? '← ' : '← '}${spread(rows)}` : 'none',
      { align: 'center', bold: true, fill: bad ? PALETTE.wrong : paint.text },
    );
  }
}

/** @type {import('../core/kinds.js').Kinds} */
export const DESCRIPTOR_KINDS = {
  // 16 bytes. read: an edge. wrong: a cross.
  chunk(g, { rect: [x, y, w, h], fill, ink, text, size, read, wrong }, paint) {
    g.fillStyle = fill;
    g.fillRect(x, y, w, h);
    if (read || wrong) {
      g.strokeStyle = wrong ? PALETTE.wrong : paint.text;
      g.lineWidth = wrong ? 2 : 1.5;
      g.strokeRect(x + 1, y + 1, w - 2, h - 2);
    }
    if (text) {
      g.font = `${read ? '600 ' : ''}${size}px ${paint.font}`;
      g.fillStyle = ink;
      g.textAlign = 'center';
      g.fillText(text, x + w / 2, y + h / 2 + 0.35 * size, w);
    }
    if (!wrong) return;
    g.strokeStyle = ink;
    g.lineWidth = 1.4;
    g.beginPath();
    g.moveTo(x + 2, y + 2);
    g.lineTo(x + w - 2, y + h - 2);
    g.stroke();
  },
};
