// The picture of a tile's trips, as marks: global memory on the left, a block with its shared memory and registers on
// the right. The arrow between them is as thick as its trips are many. Two bars of trips, on one scale, are under the
// arrow, or below all in a narrow pane.
import { Marks } from '../core/kinds.js';
import { filled } from '../core/follow.js';
import { amount, blend, COLOURS, number, PALETTE, rgb } from '../core/paint.js';
import { trips } from './trips_rule.js';

const ONE = [5, 9]; // the query and the key of the first score
const CELL = 1; // pixels between two strips

/** @param {{width: number, height: number, em: number}} size of the pane @param {number} tokens */
export function tripsLayout({ width, height, em }, tokens) {
  const narrow = width < 40 * em,
    band = (narrow ? 2.4 : 4.6) * em, // a query's width
    gap = 0.5 * em,
    pad = (narrow ? 0.4 : 0.8) * em,
    least = (narrow ? 0.8 : 9.4) * em, // between both memories
    bar = (narrow ? 0.9 : 1.5) * em,
    pitch = bar + 2 * em,
    top = 3.2 * em, // the titles, and the name of K
    own = 1.7 * em, // the name of the registers
    words = (narrow ? 3.6 : 5.6) * em + own, // the names below, and the reuse
    room = Math.max((narrow ? 14.5 : 8) * em, height - (narrow ? 2 * pitch : 0) - top - words),
    side = Math.min(room - band - gap, (width - least - 2 * (band + gap) - 2 * pad - 2) / 2),
    unit = Math.max(2, Math.floor((2 * side) / tokens) / 2),
    grid = unit * tokens,
    size = band + gap + grid,
    // what is left below: keys are higher than queries are wide
    rest = narrow ? 0 : Math.max(0, height - top - band - gap - grid - words - 0.8 * em),
    high = band + Math.min(rest, 4.5 * em),
    far = { x: band + gap, y: top + high + gap },
    near = { x: width - 1 - pad - grid, y: far.y },
    left = near.x - band - gap - pad,
    end = far.y + grid;
  return {
    ...{ width, em, narrow, band, high, gap, grid, unit, far, near, bar, pitch, size, end },
    chip: [left, top - 1.4 * em, size + 2 * pad, end - top + 1.4 * em + pad + own],
    own,
    between: [far.x + grid + 0.9 * em, left - 0.6 * em],
    said: end + pad + own + (narrow ? 2.5 : 2.2) * em,
    meter: end + words,
    bottom: end + words + (narrow ? 2 * pitch : 0),
  };
}

/**
 * @param {ReturnType<typeof tripsLayout>} at
 * @param {object} now
 * @param {tiling.TripsMeta} now.meta
 * @param {string} now.phase
 * @param {number} now.side of a tile
 * @param {Paint} paint
 */
export function tripsMarks(at, { meta, phase, side }, paint) {
  const made = new Marks(at.em),
    { em, band, high: tall, gap, grid, unit, far, near, narrow, end } = at,
    { tokens, words } = meta,
    alone = phase === 'alone' || (phase === 'hand' && side === 1),
    single = phase === 'score',
    along = Math.ceil(tokens / side),
    [row, column] = { next: [0, 1], all: [along - 1, along - 1] }[phase] ?? [0, 0],
    block = row * along + column,
    [q0, k0] = [row * side, column * side],
    cell = phase === 'hand' ? unit : grid / side, // in the hand, tiles of all sides have one scale
    tileSide = cell * side,
    key = phase === 'hand' ? 0 : single || !column ? ONE[1] : k0 + ONE[1], // the key that is followed
    scores = phase === 'next' || phase === 'all' || phase === 'hand',
    soft = blend(rgb(COLOURS.S), rgb(paint.background), 0.35);

  // ---- the block: its shared memory around its registers ----
  made.rect('chip', at.chip, { fill: paint.panel, stroke: paint.text, width: 1.5 });
  const own = [near.x - 0.3 * em, near.y - 0.3 * em, grid + 0.6 * em, grid + 0.3 * em + at.own];
  made.rect('registers', own, { fill: paint.background, stroke: paint.text, width: 1.5 });
  made.text('registers are', [near.x + grid / 2, end + 1.2 * em, grid], narrow ? 'registers' : 'registers: S scores', {
    ...{ bold: true, align: 'center' },
  });

  // ---- strips: a query is a row, a key a column ----
  /** @type {{id: string, fill: string, start: number, ms: number}[]} */
  const flights = []; // of vectors, in the lane of the arrow
  /** @param {{x: number, y: number}} place @param {string} tensor @param {number} n @param {number} size */
  const strip = (place, tensor, n, size) =>
    tensor === 'Q'
      ? [place.x - gap - band, place.y + n * size, band, Math.max(1, size - CELL)]
      : [place.x + n * size, place.y - gap - tall, Math.max(1, size - CELL), tall];
  const inTile = (/** @type {number} */ n, /** @type {number} */ first) =>
    single ? n === first : n >= first && n < first + side;
  for (const [tensor, first, one] of /** @type {[string, number, number][]} */ ([
    ['Q', q0, ONE[0]],
    ['K', k0, ONE[1]],
  ]))
    for (let n = 0; n < tokens; n++) {
      const lit = inTile(n, single ? one : first),
        name = tensor === 'Q' ? 'query' : 'key';
      made.rect(`far ${tensor} ${n}`, strip(far, tensor, n, unit), {
        ...{
          fill: COLOURS[tensor],
          alpha: lit ? 1 : 0.28,
          datum: { tensor, n },
          tip: `${name} ${n}, in global memory`,
        },
      });
      if (!lit || alone) continue;
      const place = single ? n : n - first,
        start = single ? 0 : (0.5 * (place + (tensor === 'Q' ? 0.5 : 0))) / side;
      made.rect(`near ${tensor} ${phase === 'hand' ? side : block} ${n}`, strip(near, tensor, place, cell), {
        ...{ fill: COLOURS[tensor], datum: { tensor, n, near: true }, tip: `${name} ${n}, a copy in shared memory` },
        ...(narrow
          ? { enter: { rect: strip(far, tensor, n, unit) }, ease: 'line', span: [start, start + 0.1], out: [0, 0.05] }
          : { enter: { alpha: 0 }, span: [start + 0.18, start + 0.22], out: [0, 0.05] }),
      });
      flights.push({ id: `${tensor} ${phase === 'hand' ? side : block} ${n}`, fill: COLOURS[tensor], start, ms: 0.2 });
    }
  // without a tile, each score of a key sends for it anew
  if (alone && phase !== 'hand')
    for (let n = 0; n < side; n++) {
      const to = [near.x + key * cell, near.y + n * cell, cell - CELL, cell - CELL],
        start = (0.6 * n) / side;
      flights.push({ id: `trip ${n}`, fill: COLOURS.K, start, ms: 0.35 });
      if (narrow)
        made.rect(`trip ${n}`, to, {
          ...{ fill: COLOURS.K, ease: 'both', passing: true, span: [start, start + 0.35] },
          enter: { rect: strip(far, 'K', key, unit) },
        });
    }

  // ---- scores ----
  const tileAt = (/** @type {number} */ r, /** @type {number} */ c) => [
    far.x + c * side * unit,
    far.y + r * side * unit,
    side * unit,
    side * unit,
  ];
  made.rect('all scores', [far.x, far.y, grid, grid], { fill: paint.panel, stroke: paint.border });
  for (let n = 0; scores && n <= (phase === 'hand' ? along * along - 1 : block) && along * along <= 256; n++) {
    const rect = tileAt(Math.floor(n / along), n % along);
    made.rect(`written ${side} ${n}`, rect, { fill: soft, stroke: paint.background, span: [0.7, 1] });
  }
  if (single) {
    const [x, y] = [far.x + key * unit, far.y + ONE[0] * unit];
    made.rect('one', [x - 1, y - 1, unit + 2, unit + 2], { fill: COLOURS.S, stroke: paint.text, width: 1.5 });
  }
  const rect = tileAt(row, column);
  made.rect('where', rect, { stroke: paint.text, width: 2.5, span: [0, 0.3], ...(single && { dash: [5, 4] }) });
  if (rect[2] > 5 * em && phase !== 'hand')
    made.text('where is', [rect[0] + rect[2] / 2, rect[1] + 0.7 * rect[3]], single ? 'a tile' : 'this tile', {
      ...{ align: 'center', bold: true, span: [0, 0.3] },
    });
  const whole = phase === 'hand' ? tileSide : grid,
    slot = [near.x, near.y, whole, whole];
  made.rect('tile', slot, { fill: paint.panel, stroke: paint.border });
  if (single) {
    const cellOf = [near.x + key * cell, near.y + ONE[0] * cell, cell - CELL, cell - CELL];
    made.rect('score', cellOf, { fill: COLOURS.S, span: [0.6, 1] });
    made.text('tile is', [near.x + grid / 2, end - 0.8 * em, grid - 4], `a tile: ${side} × ${side} scores`, {
      align: 'center',
    });
  } else {
    made.add(`scores ${side} ${block} ${alone}`, 'cells', [near.x, near.y, tileSide, tileSide], {
      ...{
        columns: side,
        fills: Array(side * side).fill(rgb(COLOURS.S)),
        bordered: [],
        span: alone ? [0.3, 1] : [0.65, 1],
      },
      ...{ out: [0, 0.1] },
    });
    const x = near.x + (key - k0) * cell,
      y = alone ? near.y : near.y - gap - tall;
    made.rect('reuse', [x - 1.5, y - 1.5, cell + 2, near.y + tileSide - y + 3], {
      ...{ stroke: paint.text, width: 2.5, span: [0.8, 1], out: [0, 0.1], enter: { alpha: 0 } },
    });
  }

  // ---- names: what flies passes behind them ----
  const bold = { bold: true };
  const plate = (/** @type {string} */ id, /** @type {number[]} */ rect) =>
    made.rect(`${id} plate`, rect, { fill: paint.background });
  made.text('far is', [0, 0.95 * em], 'Global memory: far', bold);
  made.text(
    'near is',
    [at.chip[0], 0.95 * em, at.chip[2]],
    narrow ? `Block ${block}: near` : `Block ${block}${phase === 'hand' ? '' : ` (${side * side} threads)`}: near`,
    bold,
  );
  for (const [id, place] of Object.entries({ far, near })) {
    const q = narrow ? end + 1.2 * em : place.y - 0.4 * em;
    if (id === 'near' && alone) {
      const wide = Math.min(grid, 0.56 * em * words.kept.length + em);
      plate('kept', [near.x + (grid - wide) / 2, near.y - gap - tall / 2 - 0.8 * em, wide, 1.5 * em]);
      made.text('kept is', [near.x + grid / 2, near.y - gap - tall / 2 + 0.35 * em, grid], words.kept, {
        align: 'center',
      });
      continue;
    }
    made.text(`${id} K`, [place.x, place.y - gap - tall - 0.4 * em], 'K keys', bold);
    if (!narrow || id === 'far') made.text(`${id} Q`, [place.x - gap - band, q], 'Q queries', bold);
  }
  if (!narrow && !alone && !single)
    ['shared', 'memory'].forEach((text, n) =>
      made.text(`shared ${n}`, [near.x - gap - band, near.y - gap - 0.62 * tall + 1.3 * n * em], text, { bold: true }),
    );
  const inside = scores && !narrow ? 'S scores, written out' : 'S scores';
  made.text('S is', [far.x + (narrow ? grid : 0), end + 1.2 * em], inside, {
    ...{ bold: true, align: narrow ? 'right' : 'left' },
  });
  const count = trips(tokens, side),
    ofKey = phase === 'all' || phase === 'hand' ? [count.each, tokens] : [alone ? side : 1, side],
    many = (/** @type {number} */ n, /** @type {string} */ one) => `${number(n)} ${one}${n === 1 ? '' : 's'}`,
    isTimed = phase === 'all' && !narrow && meta.timed,
    rows = ofKey[0] > 1 && side > 1 && !alone && !isTimed ? ` (${ofKey[0]} rows of tiles)` : '', // each of them fetches it
    reuse = single ? '2 trips, 1 score' : `Each key: ${many(ofKey[0], 'trip')}${rows}, ${number(ofKey[1])} scores`,
    large = (narrow ? 1.2 : 1.7) * em * (narrow && rows ? 0.85 : 1);
  made.text('reuse is', [at.chip[0] + at.chip[2], at.said + 0.2 * em], reuse, {
    ...{ bold: true, size: large, align: 'right', span: [0.8, 1], out: [0, 0.1] },
  });

  // ---- trips, on the way and on one scale ----
  const most = trips(tokens, 1).all,
    tiles = { score: 0, alone: 1, tile: 1, next: 2 }[phase] ?? along * along,
    without = single ? 2 : Math.min(most, 2 * meta.side * meta.side * tiles * (side === meta.side ? 1 : most)),
    withTile = single || phase === 'alone' ? 0 : Math.min(count.all, count.tile * tiles),
    of = single || phase === 'alone' ? without : count.tile,
    done = phase === 'all' || phase === 'hand',
    first = single ? 2 : ({ 1: 2 * meta.side, 2: 3 * meta.side }[done ? 0 : tiles] ?? 2 * tokens), // different vectors
    times = withTile && withTile < without ? number(without / withTile) : '';
  const bars = [
    { id: 'without', said: 'Without a tile', n: without, fill: PALETTE.wrong },
    { id: 'with', said: phase === 'hand' ? 'With this tile' : 'With tiles', n: withTile, fill: paint.primary },
  ].filter(({ n }) => !single && n);
  /** A bar: the trips that memory serves, then those that a cache may serve. Both grow away from [x, y]. */
  const bar = (
    /** @type {{id: string, n: number, fill: string}} */ { id, n, fill },
    /** @type {(from: number, to: number) => number[]} */ place,
  ) => {
    made.rect(`${id} of`, place(0, most), { fill: paint.panel });
    if (id === 'with')
      made.rect('saved', place(0, without), { stroke: paint.text, dash: [4, 3], ease: 'both', alpha: 0.7 });
    made.rect(`${id} bar`, place(0, n), {
      ...{ fill: blend(rgb(fill), rgb(paint.background), 0.5), ease: 'both' },
      tip: `${many(n, 'trip')}: ${number(n * meta.bytes)} bytes`,
    });
    made.rect(`${id} first`, place(0, Math.min(first, n)), { fill, ease: 'both' });
  };
  if (narrow) {
    const room = at.width - 2;
    bars.forEach((one, n) => {
      const top = at.meter + n * at.pitch,
        said = `${one.said}: ${many(one.n, 'trip')}${one.id === 'with' && times ? `, ${times} times fewer` : ''}`;
      made.text(`${one.id} is`, [0, top + em, room], said, { bold: true });
      bar(one, (from, to) => [(room * from) / most, top + 1.4 * em, (room * (to - from)) / most, at.bar]);
    });
    if (!withTile)
      made.text('trip is', [0, at.meter + (single ? 1 : at.pitch / em + 1) * em, room], words.trip, { size: em });
    return made.list;
  }
  const [from, to] = at.between,
    middle = (from + to) / 2,
    high = near.y - gap - tall, // of the strips of K
    thick = Math.max(3, Math.min(1, of / (2 * meta.side * meta.side)) * 2 * em),
    head = Math.max(8, 0.85 * thick),
    colour = alone || single ? PALETTE.wrong : paint.primary;
  const y = high + 2.1 * em + thick / 2;
  made.text('way of', [middle, high + 1.2 * em, to - from + em], many(of, 'trip'), {
    ...{ bold: true, align: 'center', size: 1.9 * em, fill: colour },
  });
  made.rect('way', [from, y - thick / 2, to - from - 1.2 * head, thick], { fill: colour });
  made.add('way head', 'way', null, {
    points: [
      [to - 1.3 * head, y],
      [to, y],
    ],
    ...{ stroke: colour, width: 1, head },
  });
  const load = 0.6 * em;
  for (const { id, fill, start, ms } of flights)
    made.rect(`flight ${id}`, [to - load, y - load / 2, load, load], {
      ...{ fill, stroke: paint.background, alpha: 0, ease: 'line', span: [start, start + ms] },
      enter: { rect: [from, y - load / 2, load, load], alpha: 1 },
    });
  const each = { next: 'again, for this tile', all: 'for each tile', hand: side > 1 ? 'for each tile' : 'a score' }[
    phase
  ];
  if (each) made.text('way each', [middle, y + thick / 2 + 1.3 * em, to - from], each, { align: 'center' });
  const wide = 0.4 * (to - from),
    top = near.y + 2.6 * em,
    room = end - top;
  if (bars.length)
    made.text('bars are', [middle, near.y + 0.7 * em, to - from], done ? 'trips in all' : 'trips so far', {
      ...{ bold: true, align: 'center' },
    });
  bars.forEach((one, n) => {
    const x = n ? to - wide : from,
      center = x + wide / 2,
      up = end - Math.max(2, (room * one.n) / most);
    bar(one, (low, up) => [x, end - (room * up) / most, wide, Math.max(2, (room * (up - low)) / most)]);
    made.text(`${one.id} n ${one.n}`, [center, up - 0.35 * em], number(one.n), {
      ...{ bold: true, align: 'center', size: 1.25 * em, fill: one.fill },
    });
    const name = one.id === 'without' ? 'no tile' : phase === 'hand' ? 'this tile' : 'tiles';
    made.text(`${one.id} is`, [center, end + 1.2 * em], name, { bold: true, align: 'center' });
    if (one.id === 'without' || !times) return;
    const ghost = up - (end - (room * without) / most) - 1.6 * em;
    (ghost > 4.6 * em ? [times, 'times', 'fewer'] : ghost > 1.9 * em ? [`${times} ×`] : []).forEach((text, line) =>
      made.text(
        `times ${text}`,
        [center, up - ghost / 2 - 1.6 * em + (line ? 1.3 * line - 0.1 : 0) * em, wide - 4],
        text,
        {
          ...{ bold: true, align: 'center', size: (line ? 1.05 : 1.7) * em, fill: paint.primary },
          ...{ enter: { alpha: 0 }, span: [0.85, 1], out: [0, 0.1] },
        },
      ),
    );
  });
  if (isTimed) return addTimed(made, at, isTimed, words, paint);
  if (!withTile) made.text('trip is', [0, at.said + 0.2 * em, at.chip[0] - em], words.trip, { size: 1.1 * em });
  else
    [
      [1, words.first],
      [0.5, words.again],
    ].forEach(([share, text], n) => {
      const y = at.said + (1.5 * n - 0.9) * em;
      made.rect(`key ${n}`, [0, y - 0.15 * em, 0.9 * em, 0.9 * em], {
        fill: blend(rgb(PALETTE.wrong), rgb(paint.background), Number(share)),
      });
      made.rect(`key of tiles ${n}`, [1.1 * em, y - 0.15 * em, 0.9 * em, 0.9 * em], {
        fill: blend(rgb(paint.primary), rgb(paint.background), Number(share)),
      });
      made.text(`key ${n} is`, [2.5 * em, y + 0.65 * em], `${text}`, {});
    });
  return made.list;
}

/**
 * The recorded times without tiles and with them, below memory.
 * @param {Marks} made @param {ReturnType<typeof tripsLayout>} at @param {tiling.TilesTimed} timed
 * @param {Record<string, string>} words @param {Paint} paint
 */
function addTimed(made, { em, said, chip }, { before, now, times }, words, paint) {
  const left = 4.2 * em,
    long = Math.min(chip[0] - em, 34 * em) - left,
    of = (/** @type {number} */ us) => amount(us, [[1e3, 'ms']]);
  made.text('timed is', [0, said - 0.9 * em], filled(words.timed, { times }), { bold: true, size: 1.1 * em });
  [before, now].forEach((us, n) => {
    const y = said + (1.65 * n - 0.4) * em,
      wide = (long * us) / before;
    made.text(`timed ${n} is`, [0, y + em], n ? 'tiles' : 'no tile', { bold: true });
    made.rect(`timed ${n}`, [left, y, wide, 1.35 * em], {
      ...{ fill: n ? paint.primary : PALETTE.wrong, enter: { rect: [left, y, 0, 1.35 * em] }, span: [0.6, 1] },
    });
    made.text(`timed ${n} of`, [left + 0.6 * em, y + em, wide - em], n ? `${of(us)}: ${words.queue}` : of(us), {
      ...{ bold: true, fill: paint.background },
    });
  });
  return made.list;
}
