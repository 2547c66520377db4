// The picture of shared KV heads, as marks. A column of memory is one KV head. It is under its query heads, and the
// columns that it leaves free hold the KV heads of other requests. Two steps look at one group alone: its blocks without
// sharing, with sharing, and one block for all, each with the bytes that it asks for. Below: what sharing saves, and what
// it does not.
import { filled } from '../core/follow.js';
import { Marks } from '../core/kinds.js';
import { amount, blend, COLOURS, number, PALETTE, rgb, short } from '../core/paint.js';
import { bytesOf } from './sharing_rule.js';

/** @type {[number, string][]} */
const UNITS = [
  [2 ** 40, 'TiB'],
  [2 ** 30, 'GiB'],
  [2 ** 20, 'MiB'],
  [1, 'bytes'],
];
// what is saved, at each step
const LINES = [
  ['held', 'products'],
  ['held', 'products'],
  [],
  ['full', 'time'],
  ['held', 'products', 'asked', 'once', 'time'],
];
const RECORDED = ['full', 'time']; // of another problem, so they have a heading
const [ASKS, ONCE] = [2, 3]; // the steps with one group alone
const LATER = [0.3, 0.8], // what changes its size
  LAST = [0.8, 1]; // and what is new
const GOES = [0, 0.1]; // what leaves is gone before anything else moves

/** @param {{width: number, height: number, em: number}} size of the pane @param {number} heads
 *  @param {boolean} low whether it has two lines at most, and room for a question under it */
export function sharingLayout({ width: pane, height, em }, heads, low) {
  const narrow = pane < 46 * em,
    width = pane - (narrow ? 0 : 0.8 * em), // a gap before the Guide's card
    query = { y: 1.6 * em, h: 1.9 * em },
    links = Math.max(2.4 * em, Math.min(4 * em, 0.09 * height)),
    line = (narrow ? 2.2 : 2) * em, // of what is saved, or not
    top = query.y + query.h + links,
    least = (narrow ? 3.5 : 5) * em,
    // lines: with the heading of the recorded ones
    memoryOf = (/** @type {number} */ lines) => Math.max(least, height - top - 2.6 * em - lines * line);
  return {
    width,
    em,
    narrow,
    query,
    line,
    top,
    memoryOf,
    pitch: width / heads,
    bottom: top + 2.6 * em + least + (low ? 2 : 6) * line,
  };
}

/**
 * @param {ReturnType<typeof sharingLayout>} at
 * @param {object} now
 * @param {block_table.SharingMeta} now.meta
 * @param {number} now.step
 * @param {number} now.kv
 * @param {number | null} now.head the query head under the pointer
 * @param {Paint} paint
 */
export function sharingMarks(at, { meta, step, kv, head }, paint) {
  const made = new Marks(at.em),
    { em, pitch, query, narrow, top } = at,
    { heads, tokens } = meta,
    sizes = bytesOf(meta, kv),
    { group } = sizes,
    most = bytesOf(meta, heads).held,
    size = Math.min(em, Math.max(12, 0.55 * pitch)),
    labelled = pitch > 1.5 * em,
    lines = ledger(meta, sizes, kv, paint).filter(({ id }) => LINES[step].includes(id)),
    first = lines.findIndex(({ id }) => RECORDED.includes(id)), // the first recorded line
    high = at.memoryOf(lines.length + (first < 0 ? 0 : 1)),
    under = top + high + 2.4 * em,
    alone = step === ASKS || step === ONCE,
    before = LINES[step - 1] ?? [],
    list = () => {
      lines.forEach((line, n) =>
        saved(
          made,
          at,
          line,
          under + (n + (first < 0 || n < first ? 0 : 1)) * at.line,
          { shares: step > 0 && line.id !== 'full', fresh: !before.includes(line.id) },
          paint,
        ),
      );
      if (first < 0) return;
      const y = under + first * at.line,
        fresh = !before.some(id => RECORDED.includes(id)),
        comes = { out: GOES, span: fresh ? LAST : LATER, ease: 'both' };
      made.rect('recorded line', [0, y + 0.1 * em, at.width, 1], { fill: paint.border, ...comes });
      made.text('recorded is', [0, y + 1.3 * em], meta.problem, { ...comes, datum: { part: 'recorded' } });
    },
    middle = Math.floor((group - 1) / 2), // the column of a group that its own KV head has
    columnOf = (/** @type {number} */ request, /** @type {number} */ store) =>
      store * group + (request === 0 ? middle : request <= middle ? request - 1 : request);
  if (alone) {
    const bottom = top + high + (lines.length ? 1.4 : 2.2) * em;
    blocks(made, at, { step, kv, heads, high: bottom, column: columnOf(0, 0), sizes }, paint);
    list();
    return made.list;
  }
  made.text(
    'query is',
    [0, 0.95 * em],
    narrow
      ? `${heads} query heads, each reads K and V`
      : `${heads} query heads of a request. Each reads keys K and values V of its KV head`,
    { bold: true },
  );
  for (let n = 0; n < heads; n++) {
    const mine = Math.floor(n / group),
      lit = head === null || Math.floor(head / group) === mine,
      slice = (pitch - 2) / group, // of the KV head's width
      left = columnOf(0, mine) * pitch + (n % group) * slice;
    made.add(`link ${n}`, 'funnel', null, {
      points: [
        [n * pitch, query.y + query.h],
        [(n + 1) * pitch - 2, query.y + query.h],
        [left + slice, top],
        [left, top],
      ],
      ...{ fill: COLOURS.Q, alpha: lit ? (head === null ? 0.35 : 0.7) : 0.1, ease: 'both' },
    });
    made.rect(`query ${n}`, [n * pitch, query.y, pitch - 2, query.h], {
      ...{ fill: COLOURS.Q, datum: { head: n }, tip: `query head ${n} reads KV head ${mine}` },
    });
    if (labelled)
      made.text(`query ${n} is`, [(n + 0.5) * pitch - 1, query.y + query.h / 2 + 0.35 * size], `${n}`, {
        ...{ align: 'center', fill: '#fff', bold: true, size },
      });
  }
  for (let request = 0; request < group; request++)
    for (let n = 0; n < kv; n++) {
      const x = columnOf(request, n) * pitch,
        id = `column ${columnOf(request, n)}`, // it stays, whose ever its KV head is
        readers = group === 1 ? `query head ${n}` : `query heads ${n * group} to ${(n + 1) * group - 1}`,
        tip = request ? `KV head ${n} of request ${request + 1}` : `KV head ${n}: K and V, read by ${readers}`,
        halves = request ? ['other'] : ['K', 'V'];
      halves.forEach((cache, half) => {
        const rect = [x, top + (half * high) / halves.length, pitch - 2, high / halves.length - 1],
          others = PALETTE.sequences[request % PALETTE.sequences.length];
        made.rect(`${id} ${cache}`, rect, {
          fill: request ? blend(rgb(others), rgb(paint.background), 0.3) : COLOURS[cache],
          alpha: !request && head !== null && Math.floor(head / group) !== n ? 0.35 : 1,
          ...{ datum: { request, store: n, cache }, tip, ease: 'both', out: [0, 0.4] },
          enter: { rect: [rect[0], rect[1] + (request ? high : 0), rect[2], 0], alpha: 0 },
          span: LATER,
        });
        if (request ? n === 0 && pitch > 0.7 * em : labelled)
          made.text(
            `${id} ${cache} of ${request} is`,
            [x + pitch / 2 - 1, rect[1] + rect[3] / 2 + 0.35 * size],
            request ? `${request + 1}` : cache,
            {
              ...{ align: 'center', fill: request ? paint.text : '#fff', bold: true },
              ...{
                size: request ? Math.min(1.4 * em, Math.max(size, 0.6 * pitch)) : size,
                out: GOES,
                span: [0.6, 0.9],
              },
            },
          );
      });
    }
  const room = amount(most, UNITS, 3),
    others = group === 1 ? '' : group === 2 ? '. 2: another request' : `. 2 to ${group}: other requests`,
    fits = group === 1 ? 'one request fits' : `${group} requests fit`,
    comes = { out: GOES, span: LATER, ease: 'both' };
  made.text(`memory ${group}`, [0, top + high + 1.35 * em], `${narrow ? 'Memory' : 'In memory'}, ${room}: ${fits}`, {
    ...{ bold: true, size: (narrow ? 1 : 1.3) * em, ...comes },
  });
  if (!narrow)
    made.text(`requests ${group}`, [at.width - 1, top + high + 1.35 * em], `${number(tokens)} tokens each${others}`, {
      ...{ align: 'right', ...comes },
    });
  list();
  return made.list;
}

/** The blocks of one group: V1's without sharing, V1's with it, and one for all. A way from memory is as wide as all that
 *  it brings. Below each: what the blocks of all groups ask for. */
/** @type {(made: Marks, at: ReturnType<typeof sharingLayout>, now: {step: number, kv: number, heads: number, high: number,
 *   column: number, sizes: ReturnType<typeof bytesOf>}, paint: Paint) => void} */
function blocks(made, at, { step, kv, heads, high, column, sizes: { held, asked, group } }, paint) {
  const { em, width, narrow } = at,
    gap = (narrow ? 1 : 1.6) * em,
    heading = (/** @type {string} */ kernel, /** @type {number} */ of) =>
      narrow ? `${kernel}: ${of} KV` : `${kernel}: ${of} KV heads`,
    none = { id: 'own', blocks: group, own: true, title: heading('V1', heads), span: [0.3, 0.6], late: [0.5, 0.8] },
    some = { id: 'V1', blocks: group, own: false, title: heading('V1', kv), span: [0, 0.5], late: [0.5, 0.8] },
    all = {
      id: 'group',
      blocks: 1,
      own: false,
      title: narrow ? 'a block a group' : 'One block a group',
      span: [0.3, 0.6],
      late: [0.6, 0.9],
    },
    less = `${amount(held, UNITS, 3)}, ÷ ${group}`,
    shown = [
      { ...none, says: `${group} KV heads, each asked for once`, has: amount(asked, UNITS, 3), fill: paint.text },
      {
        ...{ ...some, says: `1 KV head, asked for ${group} times`, has: `${amount(asked, UNITS, 3)}, the same` },
        fill: PALETTE.wrong,
      },
      { ...all, says: '1 KV head, asked for once', has: less, fill: paint.primary },
    ].slice(narrow && step === ONCE ? 1 : 0, step === ONCE ? 3 : 2),
    wide = (width - 2 - gap * (shown.length - 1)) / shown.length;
  shown.forEach((one, n) =>
    readers(made, at, { ...one, group, column, rect: [n * (wide + gap), 0, wide, high - 1.6 * em], paint }),
  );
  const asks = narrow
    ? `all ${heads} heads, a new token`
    : `What the blocks of all ${heads} query heads ask for, for one new token`;
  made.text('asks are', [0, high - 0.2 * em], asks, { out: GOES, span: [0.7, 0.9] });
}

/** @type {(made: Marks, at: ReturnType<typeof sharingLayout>, now: {id: string, blocks: number, own: boolean, group: number,
 *   column: number, rect: number[], title: string, says: string, has: string, fill: string, span: number[],
 *   late: number[], paint: Paint}) => void} */
function readers(
  made,
  { em, narrow },
  { id, blocks, own, group, column, rect, title, says, has, fill, span, late, paint },
) {
  const [left, top, wide, high] = rect,
    first = id === 'V1', // its heads and its KV head come from the picture of the whole memory
    small = Math.max(12, 0.9 * em),
    pitch = wide / group,
    pad = (pitch < 5 * em ? 0.3 : 0.6) * em,
    tile = { w: pitch - 2 * pad - 4, h: 2.4 * em },
    chip = { y: top + 3.4 * em, h: 2 * em },
    copy = chip.y + chip.h + (blocks > 1 ? 0.5 : 1.5) * em,
    box = { y: top + 1.7 * em, h: chip.h + 7.6 * em - 1.7 * em },
    size = (narrow ? 1.15 : 1.6) * em,
    end = top + high - size, // of the texts
    store = { y: end - (narrow ? 3.9 : 4.6) * em, h: 2.4 * em },
    comes = { out: GOES, span: late, ease: 'both' },
    centre = left + wide / 2,
    middleOf = (/** @type {number} */ n) => left + ((n + 0.5) * wide) / blocks,
    half = tile.w / 2,
    stores = own ? blocks : 1,
    storeOf = (/** @type {number} */ n) => (own ? middleOf(n) : centre),
    said = (
      /** @type {string} */ mark,
      /** @type {number} */ x,
      /** @type {number} */ y,
      /** @type {string} */ text,
      /** @type {number[]} */ now,
    ) =>
      half > small &&
      made.text(mark, [x, y + tile.h / 2 + 0.35 * small], text, {
        ...{ align: 'center', bold: true, fill: '#fff', size: small, ...comes, span: now },
      });
  made.text(`${id} title`, [left, top + em], title, { bold: true, size: 1.15 * em, ...comes });
  for (let n = 0; n < blocks; n++) {
    const x = left + (n * wide) / blocks;
    made.rect(`${id} block ${n}`, [x + 2, box.y, wide / blocks - 4, box.h], {
      ...{ fill: paint.panel, stroke: paint.border, width: 1.5, ...comes, datum: { part: `${id} block`, block: n } },
      tip: `block ${n} of ${id === 'group' ? 'the group' : 'V1'}`,
    });
    const name = wide / blocks > 4.6 * em ? `block ${n}` : `${n}`;
    made.text(`${id} block ${n} is`, [x + 2 + pad, box.y + 1.25 * em], name, { bold: true, size: small, ...comes });
    ['K', 'V'].forEach((cache, part) => {
      const from = middleOf(n) - half + part * half,
        low = storeOf(n) - half + part * half;
      made.add(`${id} way ${n} ${cache}`, 'funnel', null, {
        points: [
          [from, copy + tile.h],
          [from + half, copy + tile.h],
          [low + half, store.y],
          [low, store.y],
        ],
        ...{ fill: COLOURS[cache], alpha: stores === blocks ? 0.55 : 0.4, ...comes },
      });
      made.rect(`${id} copy ${n} ${cache}`, [from, copy, half - 1, tile.h], {
        ...{ fill: COLOURS[cache], ...comes, enter: { rect: [low, store.y, half - 1, tile.h], alpha: 0 } },
        tip: `block ${n} asks for all of this ${cache}`,
      });
      said(`${id} copy ${n} ${cache} is`, from + half / 2, copy, cache, [late[1] - 0.1, late[1]]);
    });
  }
  for (let n = 0; n < group; n++) {
    const x = left + (n + 0.5) * pitch;
    if (blocks === 1)
      made.add(`${id} use ${n}`, 'line', [centre, copy, x - centre, chip.y + chip.h - copy], {
        ...{ stroke: paint.text, width: 1.5, ...comes },
      });
    made.rect(first ? `query ${n}` : `${id} query ${n}`, [x - tile.w / 2, chip.y, tile.w, chip.h], {
      ...{ fill: COLOURS.Q, ease: 'both', span, tip: `query head ${n}`, out: GOES },
    });
    made.text(`${id} query ${n} is`, [x, chip.y + chip.h / 2 + 0.35 * small], narrow ? `${n}` : `Q ${n}`, {
      ...{ align: 'center', bold: true, fill: '#fff', size: small, ...comes },
    });
  }
  for (let n = 0; n < stores; n++)
    ['K', 'V'].forEach((cache, part) => {
      const name = first ? `column ${column} ${cache}` : `${id} store ${n} ${cache}`,
        x = storeOf(n) - half + part * half;
      made.rect(name, [x, store.y, half - 1, store.h], {
        ...{ fill: COLOURS[cache], ease: 'both', span, out: GOES, tip: `${cache} of KV head ${n}, in memory` },
      });
      said(`${name} is`, x + half / 2, store.y, cache, late);
    });
  made.text(`${id} says`, [centre, end - 0.4 * em], narrow ? says.replace(/.*, /, '') : says, {
    align: 'center',
    ...comes,
  });
  made.text(`${id} has`, [centre, top + high], has, {
    ...{ align: 'center', bold: true, size, fill, ...comes, datum: { part: 'reads', of: id }, tip: `${title}: ${has}` },
  });
}

/** What a request costs: each line has its value, the value without sharing, and the value in words. */
/** @type {(meta: block_table.SharingMeta, sizes: ReturnType<typeof bytesOf>, kv: number, paint: Paint) =>
 *   {id: string, said: string, value: number | null, of: number, text: string, fill: string}[]} */
function ledger({ heads, us, words, ...model }, { held, asked, products }, kv, paint) {
  const full = bytesOf({ heads, ...model }, heads),
    time = us[kv] ?? null,
    modelled = COLOURS.other, // neutral: no tensor
    none = filled(words.recorded, { kv: Object.keys(us).join(' and ') });
  const lines = [
    {
      ...{ id: 'held', said: 'Kept in memory: K and V', value: held, of: full.held },
      ...{ text: amount(held, UNITS, 3), fill: modelled },
    },
    {
      ...{ id: 'products', said: 'Multiplications for a new token' },
      ...{ value: products, of: full.products, text: `${short(products / 1e6, 3)} million`, fill: modelled },
    },
    {
      ...{ id: 'asked', said: 'V1 asks for' },
      ...{ value: asked, of: full.asked, text: amount(asked, UNITS, 3), fill: modelled },
    },
    {
      ...{ id: 'once', said: 'A block per group asks for' },
      ...{ value: held, of: full.held, text: amount(held, UNITS, 3), fill: modelled },
    },
    {
      ...{ id: 'full', said: `One block a group, ${heads} KV heads`, value: us[heads], of: us[heads] },
      ...{ text: `${short(us[heads], 3)} µs`, fill: paint.text },
    },
    {
      ...{
        id: 'time',
        said: `One block a group, ${kv} KV head${kv === 1 ? '' : 's'}`,
        value: time,
        of: us[heads],
      },
      ...{ text: time === null ? none : `${short(time, 3)} µs`, fill: paint.text },
    },
  ];
  return us[heads] ? lines : lines.slice(0, -2);
}

/** A line of what a request costs: a bar in the outline of the one without sharing, and how many times less it is. */
/** @type {(made: Marks, at: ReturnType<typeof sharingLayout>, line: ReturnType<typeof ledger>[number], top: number,
 *   now: {shares: boolean, fresh: boolean}, paint: Paint) => void} */
function saved(made, at, { id, said, value, of, text, fill }, top, { shares, fresh }, paint) {
  const { em, width, narrow } = at,
    left = narrow ? 1 : 19.5 * em,
    room = narrow ? width - 2 : width - left - 13 * em,
    bar = narrow ? { y: top + 1.25 * em, h: 0.55 * em } : { y: top, h: 1.15 * em }, // of a phone: under its text
    line = narrow ? top + em : bar.y + 0.95 * em,
    less = value === null ? 1 : of / value,
    comes = { out: GOES, span: fresh ? LAST : LATER, ease: 'both' };
  made.text(`${id} is`, [0, line], said, { bold: true, ...comes });
  made.rect(`${id} of`, [left, bar.y, room, bar.h], { fill: paint.panel, stroke: paint.border, ...comes });
  made.rect(`${id} bar`, [left, bar.y, value === null ? 0 : Math.max(2, (room * value) / of), bar.h], {
    ...{ fill, ease: 'both', datum: { part: 'size', size: id }, out: GOES, enter: { rect: [left, bar.y, 0, bar.h] } },
    ...{ span: fresh ? LAST : LATER, tip: `${said}: ${value === null ? text : id === 'time' ? text : number(value)}` },
  });
  const inside = value === null; // no bar: its room has the reason
  made.text(
    `${id} has ${text}`,
    [narrow ? width - (inside ? 1 : 6.2 * em) : inside ? left + 0.7 * em : left + room + 0.7 * em, line],
    text,
    { ...{ bold: !inside, align: narrow ? 'right' : 'left' }, ...comes },
  );
  if (shares && value !== null)
    made.text(`${id} less ${less}`, [width - 1, line], less > 1.01 ? `÷ ${short(less, 2)}` : 'the same', {
      ...{ bold: true, size: (narrow ? 1 : 1.15) * em, align: 'right' },
      ...{ fill: less > 1.01 ? paint.primary : PALETTE.wrong, ...comes },
    });
}

/** @type {import('../core/kinds.js').Kinds} */
export const SHARING_KINDS = {
  // A band between two edges: from the first two points down to the other two.
  funnel(g, { points: [[x0, y0], [x1], [x2, y1], [x3]], fill }) {
    const half = (y0 + y1) / 2;
    g.fillStyle = fill;
    g.beginPath();
    g.moveTo(x0, y0);
    g.lineTo(x1, y0);
    g.bezierCurveTo(x1, half, x2, half, x2, y1);
    g.lineTo(x3, y1);
    g.bezierCurveTo(x3, half, x0, half, x0, y0);
    g.fill();
  },
};
