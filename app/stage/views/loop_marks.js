// The picture of one loop in three schedules, as marks. The schedule of a step has a lane for each unit of the SM. The
// others are thin strips below it, on the same time axis. A bar of one piece keeps its name, so it moves along its lane
// from schedule to schedule.
import { Marks } from '../core/kinds.js';
import { COLOURS, PALETTE, blend, rgb, widest } from '../core/paint.js';
import { wrapped } from '../core/wrapped.js';

const LANES = { copy: 1, tensor: 1.4, softmax: 1.3 }; // shares of the height
const UNITS = /** @type {(keyof typeof LANES)[]} */ (Object.keys(LANES));
const NAMES = {
  copy: ['copy engine', 'copy'],
  tensor: ['tensor cores', 'tensor'],
  softmax: ['softmax units', 'softmax'],
};
const PIECES = {
  K: ['copy K', 'keys'],
  V: ['copy V', 'values'],
  S: ['S = Q Kᵀ', 'scores'],
  P: ['softmax', 'weights P'],
  O: ['O = P V', 'output'],
};
/** Black or white, whichever reads better. @param {number[]} fill */
const inkOn = fill => {
  const [r, g, b] = fill.map(part => (part / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? '#111' : '#fff';
};
const STRIPS = 3;
const GRID = 64; // operations in a row of the picture of a cycle

/** @typedef {import('./loop_rule.js').Bar & {flying?: boolean}} Piece */
/**
 * @typedef {object} Panel a schedule, or the run. The first one is large, and the others are strips below it.
 * @property {string} id
 * @property {string} title
 * @property {string} note dim, after the title
 * @property {Piece[]} bars
 * @property {number} share of the time in which the tensor cores work
 * @property {boolean} roles whether the bars name their warpgroup
 * @property {boolean} full whether a product has all tensor cores
 * @property {boolean} recorded
 * @property {string[]} says lines in place of the copies
 */

const groupsOf = (/** @type {Panel} */ { bars }) => 1 + Math.max(0, ...bars.map(({ group }) => group));

/**
 * @param {{width: number, height: number, em: number}} size
 * @param {{units: boolean, panels: Panel[]}} now units: whether the pieces are on their units
 */
export function loopLayout({ width, height, em }, { units, panels }) {
  const narrow = width < 620,
    left = (narrow ? 4.9 : 10.8) * em,
    right = narrow ? 4 : 9 * em,
    title = (narrow ? 1.7 : 2) * em,
    axis = 2.2 * em,
    strip = (narrow ? 1.6 : 2.1) * em,
    sum = UNITS.reduce((all, unit) => all + LANES[unit], 0),
    // a narrow window has the words on the run below them
    strips = narrow ? STRIPS * strip + 4.6 * em : (panels.length - 1) * strip + 0.8 * em,
    fixed = axis + title + strips,
    row = (narrow ? 5 : 7) * em, // of the pieces, before the units are known
    spare = height - row - 6 * em,
    head = units || spare < 9 * em ? 0 : spare, // a low window has only the pieces
    one = Math.max(1.3 * em, Math.min(9 * em, (height - head - fixed) / sum)),
    /** @type {Record<string, {y: number, h: number}>[]} */ places = [{}];
  let y = head + title;
  const titles = [head + 0.72 * title];
  for (const unit of UNITS) {
    places[0][unit] = { y, h: LANES[unit] * one - 3 };
    y += LANES[unit] * one;
  }
  const bottom = y;
  y += axis + 0.8 * em;
  for (let n = 1; n < panels.length; n++) {
    titles.push(y + 0.6 * strip);
    places.push({ tensor: { y, h: strip - 0.5 * em } });
    y += strip;
  }
  // before the units are known, all pieces are in one row
  if (!units) for (const unit of UNITS) places[0][unit] = { y: head + title, h: row };
  return {
    ...{
      width,
      height: Math.max(height, bottom + (units ? axis + strips : 0), units ? 0 : head + title + row + 2.4 * em),
      em,
      narrow,
      left: units ? left : 0,
      right: units ? right : 0,
    },
    ...{ head, titles, places, bottom, units },
  };
}

/** @typedef {ReturnType<typeof loopLayout>} Layout */
/**
 * @param {Layout} at
 * @param {object} now
 * @param {Panel[]} now.panels
 * @param {number} now.length ns of the axis
 * @param {number[]} now.cycle multiply-adds and exponentials of an SM in a cycle
 * @param {{unit: string, tile: number, panel: string} | null} now.tile under the pointer
 * @param {{x: string, at: number}[]} now.handles moments that the reader can drag
 * @param {boolean} now.metered whether the shares are there
 * @param {Paint} paint
 */
export function loopMarks(at, now, paint) {
  const made = new Marks(at.em),
    { em, narrow, left } = at,
    wide = at.width - left - at.right,
    x = (/** @type {number} */ ns) => left + (wide * ns) / now.length,
    paper = rgb(paint.background),
    lanes = at.places[0],
    [panel] = now.panels,
    { id } = panel,
    groups = groupsOf(panel),
    key = panel.recorded ? 'run' : 'main', // the bars of a schedule become those of the next one
    late = { span: [0.5, 1] }, // no bar crosses a name on its way
    measured = (/** @type {string} */ text, size = em) => widest([text], `600 ${size}px ${paint.font}`);
  if (at.head) addCycle(made, at, now.cycle, paint);
  const rectOf = (/** @type {Piece} */ bar) => {
    const lane = lanes[bar.unit],
      whole = bar.group < 0 || !panel.roles || (panel.full && bar.unit === 'tensor'),
      h = whole ? lane.h : lane.h / groups - 1,
      top = lane.y + (whole ? 0 : (bar.group * lane.h) / groups);
    return [x(bar.start), top, Math.max(1, x(bar.end) - x(bar.start) - 1), h];
  };
  if (at.units) {
    made.text(`${id} title`, [0, at.titles[0]], panel.title, { ...late, bold: true, size: 1.25 * em });
    if (!narrow)
      made.text(`${id} note`, [measured(panel.title, 1.25 * em) + em, at.titles[0]], panel.note, {
        ...{ ...late, fill: blend(rgb(paint.text), paper, 0.7) },
      });
  }
  for (const unit of UNITS) {
    const lane = lanes[unit];
    if (!at.units) continue;
    if (panel.recorded && unit === 'copy') {
      const most = narrow ? at.width : left + wide,
        y = narrow ? /** @type {number} */ (at.titles.at(-1)) + em : lane.y;
      wrapped(panel.says.slice(0, narrow ? 2 : 3).join(' '), most, 4, text =>
        widest([text], `${em}px ${paint.font}`),
      ).forEach((text, n) => made.text(`bridge ${n}`, [0, y + (1 + 1.35 * n) * em, most], text, late));
      continue;
    }
    const name = panel.recorded && unit === 'tensor' ? ['products', 'products'] : NAMES[unit],
      says = unit === 'copy' && panel.roles ? ['one group copies', 'copy'] : name;
    made.text(`${key} ${unit} is`, [0, lane.y + lane.h / 2 + em / 3, left - 6], says[narrow ? 1 : 0], late);
    if (panel.roles && unit !== 'copy' && !(panel.full && unit === 'tensor'))
      for (let group = 0; group < groups; group++)
        made.text(
          `${key} ${unit} of ${group}`,
          [left - 5, lane.y + ((group + 0.5) * lane.h) / groups + em / 3],
          `${group + 1}`,
          {
            ...{ ...late, align: 'right', bold: true },
          },
        );
    made.rect(`${key} ${unit} lane`, [left, lane.y, wide, lane.h], { ...late, fill: paint.panel });
    if (unit === 'tensor' && !panel.recorded) addRests(made, panel, lane, x, now.length, em, paint);
  }
  const texts = new Marks(em);
  for (const bar of [...panel.bars].sort((one, other) => Number(!!other.flying) - Number(!!one.flying))) {
    const hidden = !panel.roles && bar.group > 0; // one bar of all warpgroups
    if (hidden || bar.start >= now.length || bar.end < 0) continue;
    const name = `${key} ${bar.part} ${bar.tile} ${bar.group}${bar.flying ? ' flying' : ''}`,
      [bx, by, bw, bh] = rectOf(bar),
      from = Math.max(bx, left),
      rect = [from, by, Math.min(bx + bw, left + wide) - from, bh],
      depth = (panel.roles && bar.group > 0 ? 0.55 : 0.85) * (bar.flying ? 0.5 : 1),
      fill = blend(rgb(COLOURS[bar.part]), paper, depth),
      other = now.tile && (now.tile.tile !== bar.tile || now.tile.panel !== id),
      way = { alpha: other ? 0.35 : 1, ease: 'both', enter: { alpha: 0 } },
      [piece, means] = PIECES[/** @type {keyof typeof PIECES} */ (bar.part)],
      who = panel.roles && bar.group >= 0 ? `warpgroup ${bar.group + 1}: ` : '',
      long = `${bar.part === 'P' ? 'softmax' : bar.part} ${bar.tile}`,
      together = !panel.roles && bar.unit === 'tensor', // one bar of the products of all warpgroups
      ns = Math.round(bar.end - bar.start).toLocaleString('en');
    made.rect(name, rect, {
      ...{ fill, ...way },
      ...{ datum: { panel: id, unit: bar.unit, part: bar.part, tile: bar.tile, group: bar.group } },
      tip: `${together ? 'of all warpgroups at once: ' : who}${piece}, key tile ${bar.tile}${bar.flying ? ', in flight until the wait for it' : ''}\n${ns} ns (${panel.recorded ? 'recorded' : 'modelled'})`,
    });
    if (bh < 0.95 * em) continue;
    const say = (
      /** @type {string} */ what,
      /** @type {number} */ tx,
      /** @type {number} */ down,
      /** @type {Record<string, any>} */ more,
    ) =>
      texts.text(`${name} ${what}`, [tx, by + bh / 2 + down], more.text, { ...way, fill: inkOn(rgb(fill)), ...more });
    if (!at.units) {
      say('says', from + 0.6 * em, -0.2 * em, { text: piece, bold: true, size: 1.25 * em });
      say('means', from + 0.6 * em, 1.3 * em, { text: means });
      continue;
    }
    const words = bar.flying
        ? [`${long}, in flight`, long]
        : [...(together ? [`${groups} × ${long}`, `${groups} × ${bar.part}`] : []), long],
      held = now.handles.some(({ at: ns }) => Math.abs(x(ns) - bx) < 2 && bar.unit === 'copy'),
      pad = (held ? 1.5 : 0.3) * em, // beside the arrow of a handle
      room = (bar.flying ? 0.5 : 1) * rect[2] - pad - 0.4 * em,
      text = words.find(one => measured(one) < room),
      [short] = long.split(' ');
    if (text && bar.flying) say('says', from + rect[2] - 4, 0.36 * em, { text, align: 'right' });
    else if (text) say('says', from + pad, 0.36 * em, { text, bold: true });
    else if (!bar.flying && measured(short) < room + (bar.part === 'P' ? 0.4 : 0) * em) {
      const tall = bh > 2.6 * em; // then its tile has a line of its own
      say('says', from + pad, (tall ? -0.3 : 0.36) * em, { text: short, bold: true });
      if (tall) say('tile', from + pad, 1.05 * em, { text: `${bar.tile}`, bold: true });
    }
  }
  made.list.push(...texts.list);
  if (now.metered || panel.recorded) addMeter(made, at, panel);
  now.panels.slice(1).forEach((one, n) => addStrip(made, at, one, n + 1, x, now.length, paint));
  if (!at.units) {
    made.text('tile', [0, at.titles[0]], 'One key tile', { bold: true, size: 1.15 * em });
    made.text('next', [at.width - 4, lanes.copy.y + lanes.copy.h + 1.8 * em], 'then the next key tile ↻', {
      align: 'right',
    });
  }
  if (at.units) addAxis(made, at, x, now.length, paint);
  for (const { x: name, at: ns } of now.handles) {
    const { softmax } = lanes,
      lane = name === 'copy' ? lanes.copy : { y: softmax.y, h: softmax.h / groups - 1 };
    made.rect(`handle ${name}`, [x(ns) - 3, lane.y - 4, 6, lane.h + 8], { fill: paint.primary });
    for (const way of [-1, 1])
      made.add(`handle ${name} ${way}`, 'way', null, {
        points: [
          [x(ns) + 5 * way, lane.y + lane.h / 2],
          [x(ns) + 1.1 * em * way, lane.y + lane.h / 2],
        ],
        ...{ stroke: paint.primary, width: 3, head: 4 },
      });
  }
  return made.list;
}

/** A schedule of another step: its products only. @type {(made: Marks, at: Layout, panel: Panel, n: number,
 *  x: (ns: number) => number, length: number, paint: Paint) => void} */
function addStrip(made, at, panel, n, x, length, paint) {
  const { y, h } = at.places[n].tensor,
    { em, narrow, left } = at,
    name = `strip ${panel.id}`,
    late = { span: [0.4, 1] },
    says = `${panel.recorded ? '\u2265 ' : ''}${Math.round(100 * panel.share)}%`,
    text = narrow ? `${panel.recorded ? '' : panel.id} ${says}` : panel.title;
  made.text(`${name} title`, [0, y + h / 2 + em / 3, left - 8], text, { ...late, alpha: 0.75 });
  made.rect(`${name} lane`, [left, y, at.width - left - at.right, h], { ...late, fill: paint.panel });
  const whole = at.width - left - at.right;
  made.add(`${name} rest`, 'hatch', [left, y, whole, h], { ...late, stroke: PALETTE.wrong, gap: 9, alpha: 0.5 });
  if (panel.recorded) {
    // when a product really runs is not measured, only how long all of them need
    made.rect(`${name} work`, [left, y, whole * panel.share, h], {
      ...{ ...late, fill: blend(rgb(COLOURS.S), rgb(paint.background), 0.5), datum: { panel: panel.id, part: 'work' } },
      tip: `${panel.title}: tensor cores work at least ${Math.round(100 * panel.share)}% of the time (recorded)`,
    });
  }
  for (const { unit, part, tile, group, start, end } of panel.recorded ? [] : panel.bars) {
    if (unit !== 'tensor' || start >= length || end < 0 || (!panel.roles && group)) continue;
    const [from, to] = [Math.max(left, x(start)), x(Math.min(end, length))];
    made.rect(`${name} ${part} ${tile} ${group}`, [from, y, Math.max(1, to - from - 1), h], {
      ...{ ...late, fill: blend(rgb(COLOURS[part]), rgb(paint.background), 0.5) },
      ...{ datum: { panel: panel.id, unit, part, tile, group } },
      tip: `${panel.title}: ${part}, key tile ${tile}\n${Math.round(end - start).toLocaleString('en')} ns (modelled)`,
    });
  }
  if (!narrow)
    made.text(`${name} share`, [at.width - at.right + 0.9 * em, y + h / 2 + 0.4 * em], says, {
      ...{ ...late, bold: true, size: 1.2 * em, datum: { kind: 'share', panel: panel.id } },
    });
}

/** The time in which no product runs. @type {(made: Marks, panel: Panel, lane: {y: number, h: number}, x: (ns: number) => number, length: number, em: number, paint: Paint) => void} */
function addRests(made, panel, { y, h }, x, length, em, paint) {
  const busy = panel.bars.filter(({ unit }) => unit === 'tensor').sort((a, b) => a.start - b.start);
  let until = 0;
  for (const [n, { start, end }] of [...busy, { start: Infinity, end: 0 }].entries()) {
    const stop = Math.min(start, length);
    if (stop - until > 1) {
      const rect = [x(until), y, x(stop) - x(until) - 1, h];
      made.add(`rest ${n}`, 'hatch', rect, {
        ...{
          stroke: until ? PALETTE.wrong : paint.border, // the start is not counted
          gap: 9,
          width: 1.2,
          datum: { panel: panel.id, rest: n },
          tip: until ? 'the tensor cores rest' : 'the start, before the first copy: not counted',
        },
      });
      if (rect[2] > 3.4 * em) {
        const middle = rect[0] + rect[2] / 2;
        made.rect(`rest ${n} plate`, [middle - 1.3 * em, y + h / 2 - 0.75 * em, 2.6 * em, 1.5 * em], {
          fill: paint.panel,
        });
        made.text(`rest ${n} says`, [middle, y + h / 2 + em / 3], until ? 'rest' : 'start', {
          ...{ align: 'center', bold: true, fill: until ? PALETTE.wrong : paint.text },
        });
      }
    }
    until = Math.max(until, end);
    if (start >= length) break;
  }
}

/** The share of the time in which the tensor cores work. @type {(made: Marks, at: Layout, panel: Panel) => void} */
function addMeter(made, at, panel) {
  const { em, narrow } = at,
    [{ copy, softmax }] = at.places,
    { y } = copy,
    says = `${Math.round(100 * panel.share)}%`,
    thing = { datum: { kind: 'share', panel: panel.id } };
  if (narrow) {
    made.text('share', [at.width - 4, at.titles[0]], `${panel.recorded ? 'at least ' : ''}${says} at work`, {
      ...thing,
      bold: true,
      align: 'right',
    });
    return;
  }
  const high = softmax.y + softmax.h - y,
    left = at.width - at.right + 0.9 * em,
    wide = at.right - em,
    middle = y + high / 2;
  made.text('share', [left, middle + 0.2 * em], says, { ...thing, bold: true, size: 2.3 * em });
  const bar = [left, middle + 0.8 * em, wide, 1.1 * em];
  made.add('share all', 'hatch', bar, { stroke: PALETTE.wrong, gap: 7, width: 1.2 });
  made.rect('share part', [left, bar[1], wide * Math.min(1, panel.share), bar[3]], { fill: COLOURS.S });
  if (panel.share < 0.99) made.text('share rest', [left, bar[1] + 2.4 * em], 'hatched: rest', { fill: PALETTE.wrong });
  const what = panel.recorded ? 'work at least' : 'tensor cores work';
  made.text('share of', [left, middle - 1.9 * em], what, {});
}

/** @type {(made: Marks, at: Layout, x: (ns: number) => number, length: number, paint: Paint) => void} */
function addAxis(made, at, x, length, paint) {
  const step = at.narrow ? 2000 : 1000;
  for (let ns = 0; ns <= length; ns += step) {
    made.add(`tick ${ns}`, 'line', [x(ns), at.bottom, 0, 0.4 * at.em], { stroke: paint.border });
    const align = ns ? (x(ns) > at.width - 3 * at.em ? 'right' : 'center') : 'left';
    made.text(`tick ${ns} is`, [x(ns), at.bottom + 1.45 * at.em], `${ns.toLocaleString('en')} ns`, { align });
  }
}

/** What an SM can do in one cycle: multiply-adds of its tensor cores, and exponentials. A square is one operation. */
/** @type {(made: Marks, at: Layout, cycle: number[], paint: Paint) => void} */
function addCycle(made, at, [products, exponentials], paint) {
  const { em, narrow } = at,
    top = (narrow ? 4.4 : 3.4) * em,
    rows = products / GRID,
    gap = (narrow ? 1.5 : 3) * em,
    cell = Math.min(0.68 * (at.width / GRID), (at.head - top - 1.8 * em) / rows),
    far = Math.max(GRID * cell + gap, narrow ? 0.68 * at.width : 0), // of the other units
    number = (/** @type {number} */ one) => one.toLocaleString('en');
  /** @type {(id: string, x: number, title: string, does: string, count: number, columns: number, fill: string) => number} */
  const unit = (id, x, title, does, count, columns, fill) => {
    const size = [columns * cell, (count / columns) * cell],
      part = cell > 4 ? 1 : 4; // of a small window: 16 operations in a square
    made.text(`${id} name`, [x, 1.2 * em], title, { bold: true, size: 1.15 * em });
    made.text(`${id} does`, [x, 2.6 * em], does);
    made.rect(`${id} cycle`, [x, top, ...size], {
      ...{ fill, datum: { part: 'cycle', unit: id }, tip: `${number(count)} in one cycle of an SM` },
    });
    made.add(`${id} cells`, 'grid', [x, top, ...size], {
      ...{ columns: columns / part, rows: count / columns / part, stroke: paint.background, width: 1 },
    });
    return top + size[1];
  };
  unit(
    'tensor',
    0,
    narrow ? 'Tensor cores' : 'Tensor cores of an SM',
    `${number(products)} multiply-adds a cycle`,
    products,
    GRID,
    COLOURS.S,
  );
  const under = unit(
    'other',
    far,
    'Other units',
    `${exponentials} ${narrow ? 'e^x' : 'exponentials'} a cycle`,
    exponentials,
    4,
    COLOURS.P,
  );
  const times = narrow ? [] : [`${number(products / exponentials)} multiply-adds`, 'for one exponential.'];
  times.forEach((text, n) => {
    made.text(`other says ${n}`, [far, under + (2.2 + 1.7 * n) * em, at.width - far], text, {
      ...{ size: 1.25 * em, bold: !n },
    });
  });
}
