// The picture of a token's place, as marks. A row is a page, a column a slot: the block table changes the row of a
// token, and never its column.
import { Marks } from '../core/kinds.js';
import { blend, PALETTE, rgb } from '../core/paint.js';

const GAP = 4; // pixels between two pages
const NOW = PALETTE.wavefronts.now;
const LATE = { span: [0.8, 1] }; // what tokens would fly over

/** @typedef {{name: string, colour: string, tokens: number, first: number, table: number[]}} Held */
/** @typedef {ReturnType<typeof slotsLayout>} Layout */
/** @typedef {ReturnType<typeof import('./slots_rule.js').placeOf> & {token: number}} Spot */

/**
 * @param {{width: number, height: number, em: number}} size of the pane
 * @param {{pages: number, size: number, rows: number}} of memory, and the most rows of a sequence
 */
export function slotsLayout({ width, height, em }, { pages, size, rows }) {
  const narrow = width < 40 * em,
    head = 3 * em, // of memory and of the sequence: a title, and the numbers of the slots
    label = 4.6 * em, // of a page
    foot = 0.6 * em,
    line = narrow ? 1.5 * em : 2.3 * em, // of the sequence
    channel = (narrow ? 2.2 : 5) * em, // of the arrows from the table to the pages
    left = { x: 0, y: head, w: narrow ? width : 0.45 * width },
    box = narrow ? 5.4 * em : 7.4 * em, // of an entry
    above = narrow ? head + rows * line + 4.6 * em : 0, // what is over memory
    cell = Math.min((width - label - channel - (narrow ? 0 : left.w)) / size, 2.6 * em),
    pitch = narrow ? 1.4 * em : Math.max(1.5 * em, Math.min(3.2 * em, (height - head - foot) / pages)),
    memory = { x: width - cell * size - 1 - (narrow ? channel : 0), y: above + head },
    token = Math.min((left.w - box - 1.2 * em - (narrow ? channel : 0)) / size, cell);
  return {
    ...{ width, em, narrow, left, label, channel, line, box, cell, pitch, memory, token, head, foot },
    bottom: memory.y + pitch * pages,
    /** Where a slot is: in pages, or in memory as a whole. */
    slot: (/** @type {number} */ page, /** @type {number} */ slot, /** @type {boolean} */ paged) => [
      memory.x + slot * cell,
      memory.y + page * pitch,
      cell - 1,
      pitch - (paged ? GAP : 1),
    ],
    /** Where a token is in its sequence. */
    of: (/** @type {number} */ n) => [
      left.x + (n % size) * token,
      left.y + Math.floor(n / size) * line,
      token - 1,
      line - GAP,
    ],
    entry: (/** @type {number} */ n) => [left.x + size * token + 1.2 * em, left.y + n * line, box, line - GAP],
  };
}

/**
 * @param {Layout} at
 * @param {object} now
 * @param {Held[]} now.held
 * @param {number} now.pages
 * @param {number} now.size
 * @param {number} now.max reserved slots of a sequence
 * @param {string} now.name of the followed sequence
 * @param {string} now.phase reserved, pages, free, later, table, path or hand
 * @param {Spot | null} now.spot
 * @param {Paint} paint
 */
export function slotsMarks(at, now, paint) {
  const made = new Marks(at.em),
    follows = ['table', 'path', 'hand'].includes(now.phase);
  memory(made, at, now, paint, follows);
  for (const one of now.held) tokens(made, at, now, one, paint, follows);
  if (follows) sequence(made, at, now, paint);
  else {
    requests(made, at, now, paint);
    waste(made, at, now, paint);
  }
  if (now.spot) path(made, at, now, now.spot, paint);
  return made.list;
}

/** @typedef {Parameters<typeof slotsMarks>[1]} Now */

/** @param {Marks} made @param {Layout} at @param {Now} now @param {Paint} paint @param {boolean} follows */
function memory(made, at, { pages, size, phase, held, max, spot }, paint, follows) {
  const { em } = at,
    paged = phase !== 'reserved',
    x = at.memory.x;
  made.text(
    'memory is',
    [x, at.memory.y - 1.75 * em],
    paged
      ? `Memory: ${pages} pages of ${size} slots`
      : `Memory: ${pages * size} slots${at.narrow ? '' : '. One slot: the K and V of one token'}`,
    { bold: true },
  );
  if (!paged)
    made.text('kept for', [x, at.memory.y - 0.45 * em, at.cell * size], 'Each new token reads all K and V before it.');
  for (let slot = 0; slot < size && follows; slot++)
    made.text(`slot ${slot} is`, [x + (slot + 0.5) * at.cell, at.memory.y - 0.45 * em], `${slot}`, {
      align: 'center',
      bold: spot?.slot === slot,
      size: Math.min(em, 0.8 * at.cell),
    });
  for (let page = 0; page < pages; page++) {
    const [left, top, , h] = at.slot(page, 0, paged);
    made.rect(`page ${page}`, [left, top, at.cell * size - 1, h], {
      fill: paint.panel,
      stroke: paint.border,
      datum: { page },
      tip: paged ? `page ${page}` : '',
    });
    made.add(`slots ${page}`, 'grid', [left, top, at.cell * size - 1, h], {
      ...{ columns: size, rows: 1, stroke: paint.border },
    });
    if (paged)
      made.text(`page ${page} is`, [left - 0.5 * em, top + h / 2 + 0.35 * em], `page ${page}`, {
        align: 'right',
        bold: spot?.page === page,
        ...LATE,
      });
  }
  for (const { name, colour, tokens, first } of held) {
    if (first < 0) continue;
    for (let page = Math.floor(first / size); page * size < first + max; page++) {
      const begin = Math.max(first, page * size) % size,
        end = Math.min(first + max, (page + 1) * size) - page * size,
        [left, top, , h] = at.slot(page, begin, paged);
      made.add(`reserved ${name} ${page}`, 'hatch', [left, top, (end - begin) * at.cell - 1, h], {
        ...{ stroke: colour, gap: 8, width: 1.2 },
      });
    }
    const middle = Math.floor((first + (tokens + max) / 2) / size),
      [left, top, , h] = at.slot(middle, 0, paged),
      text = `reserved for ${name}, empty`,
      wide = 0.56 * em * text.length + em;
    made.rect(`plate ${name}`, [left + (at.cell * size - wide) / 2, top, wide, h], { fill: paint.background });
    made.text(`empty ${name}`, [left + (at.cell * size) / 2, top + h / 2 + 0.35 * em], text, {
      align: 'center',
      bold: true,
    });
  }
}

/** @param {Marks} made @param {Layout} at @param {Now} now @param {Held} one @param {Paint} paint @param {boolean} follows */
function tokens(made, at, { size, name, phase, spot, held }, one, paint, follows) {
  const waits = one.first < 0 && !one.table.length,
    mine = one.name === name,
    pale = follows && !mine ? blend(rgb(one.colour), rgb(paint.background), 0.3) : one.colour,
    row = held.length; // below the list of requests
  for (let n = 0; n < one.tokens; n++) {
    const slot = one.first + n,
      page = one.first < 0 ? one.table[Math.floor(n / size)] : Math.floor(slot / size),
      column = one.first < 0 ? n % size : slot % size;
    const [x, y, w, h] = waits ? at.of(n) : at.slot(page, column, phase !== 'reserved');
    made.rect(`${one.name} ${n}`, waits ? [x, y + listed(at, row), w, h] : [x, y, w, h], {
      fill: mine && spot?.token === n ? NOW : pale,
      ease: 'both',
      lift: 6,
      // a request moves in from the list of requests
      ...(phase === 'free'
        ? { enter: { rect: [at.left.x + column * at.token, y, w, h], alpha: 0 }, span: [0.3, 1] }
        : {}),
      datum: waits ? { waits: one.name } : { page, slot: column, token: n, of: one.name },
      tip:
        `token ${n} of ${one.name}` + (waits ? ' waits' : phase === 'reserved' ? '' : `: page ${page}, slot ${column}`),
    });
  }
}

/** The height of the list of so many requests. */
const listed = (/** @type {Layout} */ { em, narrow, head }, /** @type {number} */ rows) =>
  rows * (narrow ? 1.5 : 2.4) * em + (narrow ? 2 * em : 0.6 * head);

/** The requests, what they hold, and the share of empty slots. */
/** @param {Marks} made @param {Layout} at @param {Now} now @param {Paint} paint */
function requests(made, at, { held, size, phase, pages, max }, paint) {
  const { em } = at,
    line = (at.narrow ? 1.5 : 2.4) * em,
    big = at.narrow ? em : 1.2 * em,
    free = pages * size - held.reduce((sum, { first }) => sum + (first < 0 ? 0 : max), 0);
  made.text(
    'requests are',
    [at.left.x, at.left.y - 1.75 * em],
    at.narrow ? 'Requests' : 'Requests: chats that grow token by token',
    { bold: true },
  );
  held.forEach((one, n) => {
    const y = at.left.y - 0.4 * em + n * line,
      waits = phase === 'reserved' && one.first < 0;
    const says = waits
      ? `waits: needs ${max} slots, ${free} left`
      : phase === 'reserved'
        ? `${max} slots reserved`
        : `${one.table.length} pages`;
    made.rect(`request ${one.name}`, [at.left.x, y, big, big], { fill: one.colour });
    made.text(`request ${one.name} is`, [at.left.x + 1.5 * big, y + 0.85 * big], `${one.name}: ${one.tokens} tokens`, {
      ...{ bold: true, size: big },
    });
    made.text(`request ${one.name} has`, [at.left.x + 10 * big, y + 0.85 * big], says, {
      size: big,
      fill: waits ? PALETTE.wrong : paint.text,
      bold: waits,
    });
  });
}

/** The share of slots without a token, of those that requests hold. */
/** @param {Marks} made @param {Layout} at @param {Now} now @param {Paint} paint */
function waste(made, at, { held, size, phase, max }, paint) {
  const { em } = at,
    /** @type {Map<number, number>} */ fills = new Map(); // page -> slots with a token
  let [kept, used] = [0, 0];
  for (const { first, tokens, table } of held) {
    if (first >= 0) [kept, used] = [kept + max, used + tokens];
    table.forEach((page, n) => fills.set(page, Math.max(fills.get(page) ?? 0, Math.min(size, tokens - n * size))));
  }
  for (const fill of fills.values()) [kept, used] = [kept + size, used + fill];
  const y = at.narrow ? at.left.y + held.length * 1.5 * em + 1.2 * em : at.bottom - 1.8 * em,
    reserved = phase === 'reserved',
    of = reserved ? 'reserved slots' : 'slots in these pages';
  made.text('share', [at.left.x, y], `${Math.round((100 * (kept - used)) / kept)}% empty`, {
    ...{ size: (at.narrow ? 1.5 : 2.6) * em, bold: true, fill: reserved ? PALETTE.wrong : paint.text },
  });
  made.text(
    'share of',
    [at.left.x + (at.narrow ? 9 : 0) * em, y + (at.narrow ? 0 : 1.4) * em],
    `${kept - used} of ${kept} ${of}`,
  );
}

/** The followed sequence in its own order, and its block table. */
/** @param {Marks} made @param {Layout} at @param {Now} now @param {Paint} paint */
function sequence(made, at, { held, name, size, spot }, paint) {
  const one = /** @type {Held} */ (held.find(other => other.name === name)),
    { em, token } = at,
    [boxX] = at.entry(0);
  made.text('sequence is', [at.left.x, at.left.y - 1.75 * em], `${name}: ${one.tokens} tokens in order`, {
    bold: true,
  });
  if (!at.narrow) made.text('faint', [at.left.x, at.bottom - 0.4 * em], 'Faint: other requests');
  made.text('table is', [boxX, at.left.y - 1.75 * em], at.narrow ? 'Table' : 'Block table', { ...LATE, bold: true });
  made.text('table has', [boxX, at.left.y - 0.45 * em], at.narrow ? 'entry: page' : 'entry names page', LATE);
  for (let slot = 0; slot < size; slot++)
    if (token > 1.3 * em || (spot ? spot.slot === slot : !(slot % 4)))
      made.text(`rest ${slot} is`, [at.left.x + (slot + 0.5) * token, at.left.y - 0.45 * em], `${slot}`, {
        align: 'center',
        bold: spot?.slot === slot,
        size: Math.min(em, Math.max(12, 0.8 * token)),
      });
  for (let n = 0; n < one.tokens; n++) {
    const page = one.table[Math.floor(n / size)];
    made.rect(`own ${n}`, at.of(n), {
      fill: spot?.token === n ? NOW : one.colour,
      enter: { rect: at.slot(page, n % size, true) },
      ease: 'both',
      datum: { own: n },
      tip: `token ${n} of ${name}`,
    });
  }
  one.table.forEach((page, n) => {
    const rect = at.entry(n),
      mine = spot?.entry === n;
    made.rect(`entry ${n}`, rect, {
      ...{ fill: paint.panel, stroke: mine ? paint.text : paint.border, width: mine ? 2.5 : 1 },
      ...{ ...LATE, datum: { entry: n, page }, tip: `entry ${n} of ${name}: page ${page}` },
    });
    made.text(`entry ${n} is`, [rect[0] + 0.5 * em, rect[1] + rect[3] / 2 + 0.35 * em], `${n}`, {
      ...LATE,
      bold: mine,
    });
    made.text(
      `entry ${n} names`,
      [rect[0] + rect[2] - 0.5 * em, rect[1] + rect[3] / 2 + 0.35 * em],
      at.narrow ? `${page}` : `page ${page}`,
      { ...LATE, align: 'right', bold: true },
    );
    if (spot) return;
    const hue = PALETTE.kernels[n % PALETTE.kernels.length],
      [left, top, , high] = at.slot(page, 0, true);
    made.add(`way ${n}`, 'way', null, { points: way(at, n, page, one.table), stroke: hue, width: 2.5, ...LATE });
    made.rect(`names ${n}`, [left - 1, top - 1, at.cell * size + 1, high + 2], { stroke: hue, width: 2.5, ...LATE });
  });
}

/** From an entry to its page, down or up in a column of its own: an arrow further down in the table turns first, so
 * that few of them cross.
 * @param {Layout} at @param {number} entry @param {number} page @param {number[]} table */
function way(at, entry, page, table) {
  const [x, y, w, h] = at.entry(entry),
    [left, top, wide, high] = at.slot(page, 0, true),
    end = at.narrow ? left + (wide + 1) * 16 + 1 : left - at.label,
    first = at.narrow ? end + 0.5 * at.em : x + w + 0.4 * at.em,
    last = at.narrow ? at.width - 3 : end - 0.9 * at.em,
    order = at.narrow ? entry : table.length - 1 - entry,
    side = first + ((order + 0.5) / table.length) * (last - first),
    to = top + high / 2;
  return [
    [x + w, y + h / 2],
    [side, y + h / 2],
    [side, to],
    [end, to],
  ];
}

/** From the token to its entry, its page and its slot. */
/** @param {Marks} made @param {Layout} at @param {Now} now @param {Spot} spot @param {Paint} paint */
function path(made, at, { size, held, name }, spot, paint) {
  const { em } = at,
    { tokens: length, table } = /** @type {Held} */ (held.find(one => one.name === name)),
    rows = Math.ceil(length / size),
    frame = { stroke: paint.text, width: 3 },
    [x, y, w, h] = at.of(spot.token),
    [boxX, boxY, , boxH] = at.entry(spot.entry),
    cell = at.slot(spot.page, spot.slot, true),
    row = at.slot(spot.page, 0, true);
  made.rect('chosen', [x - 1, y - 1, w + 2, h + 2], frame);
  if (boxX - x - w > 0.8 * em)
    made.add('to entry', 'way', null, {
      ...{
        points: [
          [x + w + 2, y + h / 2],
          [boxX, boxY + boxH / 2],
        ],
        stroke: paint.text,
        width: 2.5,
      },
    });
  made.add('to page', 'way', null, { points: way(at, spot.entry, spot.page, table), stroke: paint.text, width: 2.5 });
  made.rect('its page', [row[0] - 2, row[1] - 2, at.cell * size + 3, row[3] + 4], { stroke: paint.text, width: 1.5 });
  made.rect('its slot', [cell[0] - 1, cell[1] - 1, cell[2] + 2, cell[3] + 2], frame);
  // the sum in large type, each number over its meaning
  const end = at.left.y + rows * at.line,
    big = at.narrow ? 2 * em : Math.min(4 * em, at.left.w / 6.6),
    top = at.narrow ? end + 1.1 * big : end + Math.max(1.2 * big, 0.4 * (at.bottom - end));
  /** @type {[string, number, string][]} text, its middle, its meaning */
  const sum = [
    [`${spot.token}`, 0.6, 'token'],
    ['=', 1.55, ''],
    [`${spot.entry}`, 2.3, 'entry'],
    ['×', 3.05, ''],
    [`${size}`, 4, 'slots'],
    ['+', 4.95, ''],
    [`${spot.slot}`, 5.8, 'slot'],
  ];
  sum.forEach(([text, middle, meaning], n) => {
    const place = { align: 'center', bold: true };
    made.text(`sum ${n}`, [at.left.x + 0.3 * em + middle * big, top], text, { ...place, size: big });
    made.text(`sum ${n} is`, [at.left.x + 0.3 * em + middle * big, top + 1.4 * em], meaning, { ...place });
  });
  if (!at.narrow)
    made.text(
      'says',
      [at.left.x, top + 4.2 * em],
      `Entry ${spot.entry} names page ${spot.page}. Slot ${spot.slot} is the remainder.`,
      {
        size: 1.4 * em,
      },
    );
}
