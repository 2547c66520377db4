// The picture of shared KV heads, as marks. A column of memory is one KV head, K over V. The columns of a request are
// together, so that the room of other requests is seen. The steps after look at one group alone: its blocks without
// sharing, with sharing, and one block for all. An arrow is a KV head that a block asks for. The last of them has
// recorded times. Between these three pictures, shapes fade in their places, and words come first.
import { Marks } from '../core/kinds.js';
import { amount, blend, COLOURS, figure, number, PALETTE, rgb, short } from '../core/paint.js';
import { bytesOf } from './sharing_rule.js';

/** @type {[number, string][]} */
const UNITS = [
  [2 ** 40, 'TiB'],
  [2 ** 30, 'GiB'],
  [2 ** 20, 'MiB'],
  [1, 'bytes'],
];
const GOES = [0, 0.1], // what leaves is gone before anything else moves
  WORDS = [0.06, 0.28], // and what is new has its names first
  MOVES = [0.08, 0.5],
  COMES = [0.5, 0.95]; // what takes the free room
const TINT = 0.42; // of another request

/** @param {{width: number, height: number, em: number}} size of the pane @param {number} heads
 *  @param {boolean} low whether it leaves room for a question under it */
export function sharingLayout({ width: pane, height, em }, heads, low) {
  const narrow = pane < 46 * em,
    width = pane - (narrow ? 5 : 0.8 * em), // a gap before the Guide's card
    left = (narrow ? 1.4 : 7.9) * em, // of the columns: the rows' names are before them
    query = { y: (narrow ? 1.6 : 0.4) * em, h: 2 * em },
    links = Math.max(2.6 * em, Math.min(9 * em, 0.18 * height)),
    top = query.y + query.h + links,
    foot = (narrow ? 4.4 : 5.3) * em, // under the memory: whose its columns are, and how many requests fit
    line = (narrow ? 2.7 : 3.6) * em, // of what is saved, or not
    least = (narrow ? 5.5 : 6) * em,
    bottom = Math.max(top + foot + least + (low ? 0 : (narrow ? 4 : 2) * line), low ? 0 : 30 * em),
    memoryOf = (/** @type {boolean} */ hand) =>
      Math.max(height, bottom) - top - foot - (hand ? (narrow ? 4 : 2) * line : 0);
  return { width, height: Math.max(height, bottom), em, narrow, left, query, line, top, foot, memoryOf, heads, bottom };
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
    phase = meta.phases[step],
    sizes = bytesOf(meta, kv);
  if (phase === 'times') times(made, at, { meta, group: sizes.group }, paint);
  else if (['guess', 'asks', 'once'].includes(phase)) panels(made, at, { phase, meta, kv, sizes }, paint);
  else memory(made, at, { phase, meta, kv, head, sizes }, paint);
  return made.list;
}

/** The query heads of one request, and a memory with the KV heads of all requests that fit. */
/** @type {(made: Marks, at: ReturnType<typeof sharingLayout>, now: {phase: string, meta: block_table.SharingMeta,
 *   kv: number, head: number | null, sizes: ReturnType<typeof bytesOf>}, paint: Paint) => void} */
function memory(made, at, { phase, meta, kv, head, sizes }, paint) {
  const { em, query, narrow, top, left, foot, heads } = at,
    { group, held } = sizes,
    rows = phase === 'hand' ? savings(meta, sizes) : [],
    note = meta.notes[phase],
    high = at.memoryOf(rows.length > 0) - (note ? 1.9 * em : 0),
    room = at.width - left,
    apart = group > 1 ? (narrow ? 3 : 0.6 * em) : 0, // between requests, and between groups of query heads
    block = (room + apart) / group - apart, // a request's share of the memory
    pitch = block / kv,
    thin = Math.min(narrow ? 1 : 2, pitch / 5),
    blockOf = (/** @type {number} */ request) => left + request * (block + apart),
    gap = kv > 1 ? 0.7 * apart : 0,
    step = (room - gap * (kv - 1)) / heads, // from a query head to the next
    queryOf = (/** @type {number} */ n) => left + n * step + gap * Math.floor(n / group),
    size = Math.min(em, Math.max(12, 0.6 * step)),
    under = top + high,
    comes = { out: GOES, span: WORDS, ease: 'both' },
    all = amount(bytesOf(meta, heads).held, UNITS, 3),
    name = (/** @type {string} */ id, /** @type {number} */ y, /** @type {string[]} */ [short, ...long]) =>
      made.text(`${id} row`, [narrow ? 0 : left - 0.8 * em, y + 0.35 * em], narrow ? short : long[0], {
        ...{ bold: true, align: narrow ? 'left' : 'right', ...comes },
      });
  if (narrow) made.text('query is', [0, 0.95 * em], `${heads} query heads Q read keys K and values V`, comes);
  name('query', query.y + query.h / 2, ['Q', 'Query heads Q']);
  name('K', top + high / 4, ['K', 'Keys K']);
  name('V', top + (3 * high) / 4, ['V', 'Values V']);
  made.rect('memory', [left - 4, top - 4, room + 8, high + 8], {
    ...{ fill: paint.panel, stroke: paint.border, width: 1.5, out: GOES, span: [0, 0.3] },
  });
  for (let n = 0; n < kv; n++) {
    const low = left + n * pitch,
      lit = head === null ? 0.34 : Math.floor(head / group) === n ? 0.7 : 0.12;
    made.add(`link ${n * group}`, 'funnel', null, {
      points: [
        [queryOf(n * group), query.y + query.h - 2],
        [queryOf((n + 1) * group - 1) + step - (narrow ? 1 : 2), query.y + query.h - 2],
        [low + pitch - thin, top],
        [low, top],
      ],
      ...{ fill: blend(rgb(COLOURS.Q), rgb(paint.background), lit), ease: 'both', span: MOVES, out: GOES },
    });
  }
  for (let n = 0; n < heads; n++) {
    const x = queryOf(n);
    made.rect(`query ${n}`, [x, query.y, step - (narrow ? 1 : 2), query.h], {
      ...{ fill: COLOURS.Q, datum: { head: n }, tip: `query head ${n} reads KV head ${Math.floor(n / group)}` },
      ...{ ease: 'both', span: MOVES, out: GOES },
    });
    if (step > 1.4 * em)
      made.text(`query ${n} is`, [x + step / 2 - 1, query.y + query.h / 2 + 0.35 * size], `${n}`, {
        ...{ align: 'center', fill: '#fff', bold: true, size, ease: 'both', span: MOVES, out: GOES },
      });
  }
  for (let request = 0; request < group; request++) {
    const x = blockOf(request),
      after = COMES[0] + ((COMES[1] - COMES[0]) * (request - 1)) / Math.max(2, group), // one by one
      span = request ? [after, Math.min(0.95, after + 0.2)] : MOVES;
    for (let n = 0; n < kv; n++)
      ['K', 'V'].forEach((cache, half) => {
        const rect = [x + n * pitch, top + (half * high) / 2, pitch - thin, high / 2 - (half ? 0 : 2)],
          pale = request || (head !== null && Math.floor(head / group) !== n),
          readers = group === 1 ? `query head ${n}` : `query heads ${n * group} to ${(n + 1) * group - 1}`,
          of = request ? `of request ${request + 1}` : `read by ${readers}`;
        made.rect(`column ${request} ${n * group} ${cache}`, rect, {
          fill: pale ? blend(rgb(COLOURS[cache]), rgb(paint.background), TINT) : COLOURS[cache],
          ...{ datum: { request, store: n, cache }, tip: `${cache} of KV head ${n}, ${of}` },
          ...{ ease: 'both', out: GOES, span },
        });
      });
    const mark = [x, under + 0.75 * em, block, 0.25 * em],
      label = block > 5.5 * em ? `request ${request + 1}` : block > 1.5 * em ? `${request + 1}` : '';
    made.rect(`request ${request} room`, mark, { fill: request ? paint.border : paint.text, ...comes, span });
    if (label)
      made.text(`request ${request} of ${group}`, [x + block / 2, under + 2.2 * em], label, {
        ...{ align: 'center', bold: !request, ...comes },
      });
  }
  const fits = group === 1 ? '1 request fits' : `${group} requests fit`,
    big = (narrow ? 1.25 : 1.6) * em,
    y = under + (narrow ? 3.9 : 4.5) * em;
  made.text(`memory ${group}`, [narrow ? 0 : left, y], `${all} of memory: ${fits}`, {
    bold: true,
    size: big,
    ...comes,
  });
  const each = `${group > 1 ? 'each ' : ''}${number(meta.tokens)} tokens, ${amount(held, UNITS, 3)}`;
  if (!narrow) made.text(`held ${group}`, [at.width, y], each, { align: 'right', ...comes });
  if (note) made.text(`note ${phase}`, [narrow ? 0 : left, y + 2 * em], note, comes);
  const across = narrow ? 1 : 2, // columns of what is saved, and of what is not
    aside = 2 * em,
    cell = (room + aside) / across - aside;
  rows.forEach((row, n) => {
    const x = (narrow ? 0 : left) + Math.floor((n * across) / rows.length) * (cell + aside),
      y = under + foot + (n % (rows.length / across)) * at.line;
    saved(made, at, row, [x, y, narrow ? at.width - 1 : cell], paint);
  });
}

/** The blocks of one group: V1's without sharing, V1's with it, and one for all. Below each: the bytes that the blocks
 *  of all groups ask for. */
/** @type {(made: Marks, at: ReturnType<typeof sharingLayout>, now: {phase: string, meta: block_table.SharingMeta,
 *   kv: number, sizes: ReturnType<typeof bytesOf>}, paint: Paint) => void} */
function panels(made, at, { phase, meta: { heads }, kv, sizes: { held, asked, group } }, paint) {
  const { em, width, narrow, height } = at,
    last = phase === 'once',
    apart = (narrow ? 1 : 2) * em,
    of = (/** @type {number} */ kv) => (narrow ? `${kv} KV` : `${kv} KV heads`),
    same = narrow ? 'the same' : `${amount(asked, UNITS, 3)}, the same`,
    shown = [
      {
        ...{ ...PANELS.own, title: `V1: ${of(heads)}`, says: `${group} KV heads, each asked for once` },
        has: amount(asked, UNITS, 3),
      },
      { ...PANELS.V1, title: `V1: ${of(kv)}`, says: `1 KV head, asked for ${group} times`, has: same },
      {
        ...{
          ...PANELS.group,
          title: narrow ? 'A block a group' : 'One block a group',
          says: '1 KV head, asked for once',
        },
        has: `${amount(held, UNITS, 3)}, ÷ ${group}`,
      },
    ].slice(narrow && last ? 1 : 0, last ? 3 : 2),
    wide = (width - 2 - apart * (shown.length - 1)) / shown.length,
    big = (narrow ? 1.3 : 1.8) * em,
    end = height - (narrow ? 1.6 : 2) * em,
    fresh = { guess: 'own', asks: 'V1', once: 'group' }[phase], // its arrows grow
    comes = { out: GOES, span: WORDS, ease: 'both' };
  shown.forEach(({ id, title, says, has }, n) => {
    const x = 1 + n * (wide + apart),
      asked = id !== 'V1' || phase !== 'guess',
      fill = asked ? colourOf(id, paint) : paint.text,
      rect = [x, 1.8 * em, wide, end - big - 4.2 * em];
    made.text(`${id} title`, [x + 2, 1.1 * em], title, { bold: true, size: 1.15 * em, ...comes });
    readers(made, at, { id, group, rect, named: true, asked, fresh: id === fresh }, paint);
    if (asked) made.text(`${id} says`, [x + wide / 2, end - big - 0.3 * em], says, { align: 'center', ...comes });
    made.text(`${id} has ${asked}`, [x + wide / 2, end], asked ? has : '?', {
      ...{ align: 'center', bold: true, size: big, fill, ...comes, datum: { part: 'reads', of: id } },
      tip: asked ? `${title}: ${has}` : title,
    });
  });
  const asks = narrow
    ? `By all ${heads} heads, for a new token`
    : `Asked for by the blocks of all ${heads} query heads, for one new token`;
  made.text('asks', [width / 2, height - 0.3 * em], asks, { align: 'center', ...comes });
}

/** @type {Record<string, {id: string, blocks: number, own: boolean}>} */
const PANELS = {
  own: { id: 'own', blocks: 0, own: true }, // 0: a block for each query head
  V1: { id: 'V1', blocks: 0, own: false },
  each: { id: 'each', blocks: 0, own: true }, // one block a group, and a group is one query head
  group: { id: 'group', blocks: 1, own: false },
};
/** The colour of a panel's arrows and bytes: what asks again is bad. @param {string} id @param {Paint} paint */
const colourOf = (id, paint) => ({ V1: PALETTE.wrong, group: paint.primary })[id] ?? paint.text;

/** The blocks of one group over its KV heads in memory. An arrow is a KV head that a block asks for. asked: whether the
 *  arrows are known. A small picture has no names, but the L2 cache that all loads go through. */
/** @type {(made: Marks, at: ReturnType<typeof sharingLayout>, now: {id: string, group: number, rect: number[],
 *   named: boolean, asked: boolean, fresh: boolean}, paint: Paint) => void} */
function readers(made, { em, narrow }, { id, group, rect, named, asked, fresh }, paint) {
  const [left, top, wide, high] = rect,
    { own } = PANELS[id],
    key = named ? id : `small ${id}`,
    blocks = PANELS[id].blocks || group,
    small = Math.max(12, 0.95 * em),
    pitch = wide / group,
    pad = named ? Math.min(0.6 * em, 0.1 * pitch) : 2,
    box = { y: top, h: 0.44 * high },
    chip = { y: top + (named ? 1.7 * em : pad), w: pitch - 2 * pad - 4, h: named ? 1.9 * em : 0.3 * box.h },
    tile = Math.min(chip.w, (named ? 4 : 2) * em), // width of a KV head
    copy = chip.y + chip.h + (named ? 0.09 : 0.1) * high,
    copyHigh = box.y + box.h - pad - copy,
    store = { y: top + (named ? 0.74 : 0.83) * high, h: (named ? 0.26 : 0.17) * high - 4 },
    cache = { y: top + 0.56 * high, h: 0.13 * high },
    centre = left + wide / 2,
    middleOf = (/** @type {number} */ n) => left + ((n + 0.5) * wide) / blocks,
    stores = own ? blocks : 1,
    storeOf = (/** @type {number} */ n) => (own ? middleOf(n) : centre),
    fill = colourOf(id, paint),
    here = { ease: 'both', out: GOES, span: WORDS },
    label = { ...here, align: 'center', size: small },
    column = (/** @type {string} */ name, /** @type {number[]} */ [x, y, w, h], /** @type {any} */ more) =>
      ['K', 'V'].forEach((cache, half) => {
        const rect = [x, y + (half * h) / 2, w, h / 2 - (half ? 0 : 1)];
        made.rect(`${key} ${name} ${cache}`, rect, { fill: COLOURS[cache], ...here, ...more });
        if (named && h > 3 * small)
          made.text(`${key} ${name} ${cache} is`, [x + w / 2, rect[1] + rect[3] / 2 + 0.35 * small], cache, {
            ...{ ...label, bold: true, fill: '#fff', ...more },
          });
      }),
    way = (/** @type {string} */ name, /** @type {number[][]} */ points, /** @type {any} */ more = {}) =>
      made.add(`${key} ${name}`, 'way', null, {
        ...{ points, stroke: fill, width: named ? 4 : 2, head: named ? 8 : 4, grown: 1, ...here, ...more },
      }),
    plain = { fill: paint.panel, stroke: paint.border, width: 1.5, ...here };
  made.rect(`${key} memory`, [left, store.y - (named ? 5 : 3), wide, store.h + (named ? 10 : 6)], plain);
  if (named && !own)
    made.text(`${key} memory is`, [left + 0.7 * em, store.y + store.h / 2 + 0.35 * em], 'memory', {
      ...{ ...here, size: small },
    });
  if (!named) {
    made.rect(`${key} cache`, [left, cache.y, wide, cache.h], { ...plain, tip: 'the L2 cache' });
    if (cache.h > 9)
      made.text(`${key} cache is`, [left + 0.3 * em, cache.y + cache.h / 2 + 0.36 * small], 'L2', {
        ...{ ...here, size: small, bold: true },
      });
  }
  for (let n = 0; n < blocks; n++) {
    const x = left + (n * wide) / blocks,
      w = wide / blocks;
    made.rect(`${key} block ${n}`, [x + (n ? 2 : 0), box.y, w - (n ? 2 : 0) - (n < blocks - 1 ? 2 : 0), box.h], {
      ...{ ...plain, datum: { part: `${id} block`, block: n } },
      tip: `block ${n} of ${id === 'group' ? 'the group' : 'V1'}`,
    });
    const name = w > 4.2 * em ? `block ${n}` : `${n}`;
    if (named) made.text(`${key} block ${n} is`, [x + w / 2, box.y + 1.2 * em], name, label);
  }
  for (let n = 0; n < group; n++) {
    const x = left + (n + 0.5) * pitch,
      used = blocks === 1 ? centre : x;
    if (asked)
      made.add(`${key} use ${n}`, 'line', [used, copy, x - used, chip.y + chip.h - copy], {
        ...{ stroke: paint.text, width: 1.5, ...here },
      });
    made.rect(`${key} query ${n}`, [x - chip.w / 2, chip.y, chip.w, chip.h], {
      ...{ fill: COLOURS.Q, ...here, tip: `query head ${n}` },
    });
    if (named)
      made.text(`${key} query ${n} is`, [x, chip.y + chip.h / 2 + 0.35 * small], narrow ? `${n}` : `Q ${n}`, {
        ...{ ...label, bold: true, fill: '#fff' },
      });
  }
  for (let n = 0; n < stores; n++) {
    column(`store ${n}`, [storeOf(n) - tile / 2, store.y, tile, store.h], { tip: `KV head ${n}, in memory` });
    if (!named)
      way(`fill ${n}`, [
        [storeOf(n), store.y - 3],
        [storeOf(n), cache.y + cache.h + 1],
      ]);
  }
  if (!asked) return;
  for (let n = 0; n < blocks; n++) {
    const aside = own || blocks === 1 ? 0 : ((n - (blocks - 1) / 2) * (named ? tile : 2.5 * tile)) / blocks,
      from = [storeOf(n) + aside, named ? store.y - 1 : cache.y],
      to = [middleOf(n), copy + copyHigh + 2],
      begins = 0.3 + (0.5 * n) / blocks, // one after the other
      grows = fresh ? { enter: { grown: 0 }, span: [begins, begins + 0.15] } : {},
      then = fresh ? { span: [begins + 0.12, begins + 0.2] } : {};
    way(`way ${n}`, [from, to], grows);
    column(`copy ${n}`, [middleOf(n) - tile / 2, copy, tile, copyHigh], {
      tip: `block ${n} asks for all of this KV head`,
    });
    if (!named) continue;
    const [x, y] = [(from[0] + to[0]) / 2, (from[1] + to[1]) / 2],
      r = 0.8 * em;
    made.add(`${key} count ${n}`, 'dot', [x - r, y - r, 2 * r, 2 * r], { fill, ...here, ...then });
    made.text(`${key} count ${n} is`, [x, y + 0.35 * em], `${n + 1}`, {
      ...{ ...here, ...then, align: 'center', bold: true, fill: paint.background },
    });
  }
}

/** The recorded times: a bar each, with its blocks before it. */
/** @type {(made: Marks, at: ReturnType<typeof sharingLayout>, now: {meta: block_table.SharingMeta, group: number},
 *   paint: Paint) => void} */
function times(made, at, { meta: { bars, heads, problem, words }, group }, paint) {
  const { em, width, narrow, height } = at,
    v1 = bars.some(({ grouped }) => !grouped),
    below = [...(v1 ? [words.repeats, words.itself] : []), problem],
    end = height - 0.4 * em - 1.5 * em * (below.length - 1), // of the first line below
    room = (end - 1.8 * em) / bars.length,
    apart = Math.min(1.6 * em, 0.16 * room),
    high = Math.min(room - apart, 9 * em),
    sketch = narrow ? 7 * em : Math.min(16 * em, 1.7 * high), // width of a group's blocks
    left = sketch + (narrow ? 0.8 : 1.6) * em,
    big = (narrow ? 1.15 : 1.7) * em,
    wide = width - left - (narrow ? 0 : 7 * em),
    most = Math.max(...bars.map(({ us }) => us)),
    comes = { out: GOES, span: WORDS, ease: 'both' };
  bars.forEach(({ grouped, kv, us }, n) => {
    const id = kv === heads ? (grouped ? 'each' : 'own') : grouped ? 'group' : 'V1',
      y = n * (high + apart) + 2,
      label = `${grouped ? 'One block a group' : 'V1'}, ${kv} KV heads`,
      time = `${figure(us, 3)} µs`,
      full = bars.find(of => of.grouped === grouped && of.kv === heads)?.us ?? us, // without sharing
      bar = [left, y + 1.8 * em, (wide * us) / most, high - 1.8 * em],
      line = bar[1] + bar[3] / 2 + 0.35 * big,
      less = `÷ ${short(full / us, 2)}`,
      inside = narrow && us > 0.5 * most,
      fill = kv === heads ? COLOURS.other : colourOf(id, paint);
    readers(made, at, { id, group, rect: [1, y, sketch, high], named: false, asked: true, fresh: false }, paint);
    made.text(`time ${id} is`, [left, y + 1.1 * em], label, { bold: true, size: (narrow ? 1 : 1.2) * em, ...comes });
    if (full > us)
      made.rect(`time ${id} of`, [left, bar[1], (wide * full) / most, bar[3]], {
        ...{ fill: paint.panel, stroke: paint.border, dash: [4, 4], ...comes },
      });
    made.rect(`time ${id}`, bar, {
      ...{ fill, enter: { rect: [left, bar[1], 0, bar[3]] }, ease: 'both', span: [0.28, 0.8], out: GOES },
      ...{ datum: { part: 'time', of: id }, tip: `${label}: ${time}` },
    });
    made.text(`time ${id} has`, [left + bar[2] + (inside ? -0.6 : 0.6) * em, line], time, {
      ...{ bold: true, size: big, align: inside ? 'right' : 'left', fill: inside ? '#fff' : paint.text, ...comes },
    });
    if (full > us)
      made.text(
        `time ${id} less`,
        narrow ? [width - 1, y + 1.1 * em] : [left + (wide * full) / most + 0.6 * em, line],
        less,
        {
          ...{ bold: true, size: narrow ? em : big, align: narrow ? 'right' : 'left', fill, ...comes },
        },
      );
  });
  below.forEach((text, n) => made.text(`times of ${n}`, [narrow ? 0 : left, end + 1.5 * n * em], text, comes));
}

/** What a request costs: each row has its value, and the value without sharing. */
/** @type {(meta: block_table.SharingMeta, sizes: ReturnType<typeof bytesOf>) =>
 *   {id: string, said: string, value: number, of: number}[]} */
function savings({ heads, words, ...model }, { held, asked, products }) {
  const full = bytesOf({ heads, ...model }, heads);
  return [
    { id: 'held', said: words.held, value: held, of: full.held },
    { id: 'once', said: words.once, value: held, of: full.held },
    { id: 'asked', said: words.asked, value: asked, of: full.asked },
    { id: 'products', said: words.products, value: products, of: full.products },
  ];
}

/** A row of what a request costs: a bar in the outline of the one without sharing, and how many times less it is. */
/** @type {(made: Marks, at: ReturnType<typeof sharingLayout>, row: ReturnType<typeof savings>[number],
 *   place: [number, number, number], paint: Paint) => void} */
function saved(made, { em, narrow, line }, { id, said, value, of }, [left, top, wide], paint) {
  const bar = { y: top + 1.5 * em, h: line - (narrow ? 1.9 : 2.2) * em },
    less = of / value,
    comes = { out: GOES, span: WORDS, ease: 'both' };
  made.text(`${id} is`, [left, top + 1.1 * em], said, { bold: true, ...comes });
  made.rect(`${id} of`, [left, bar.y, wide, bar.h], { fill: paint.panel, stroke: paint.border, ...comes });
  made.rect(`${id} bar`, [left, bar.y, Math.max(2, (wide * value) / of), bar.h], {
    ...{ fill: COLOURS.other, ease: 'both', datum: { part: 'size', size: id }, out: GOES, span: MOVES },
    ...{ enter: { rect: [left, bar.y, 0, bar.h] }, tip: `${said}: ${number(value)}` },
  });
  made.text(`${id} less ${less}`, [left + wide, top + 1.1 * em], less > 1.01 ? `÷ ${short(less, 2)}` : 'the same', {
    ...{ bold: true, size: (narrow ? 1 : 1.2) * em, align: 'right', ...comes },
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
