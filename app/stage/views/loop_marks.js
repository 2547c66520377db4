// The picture of one loop in three schedules, as marks. Each schedule has a lane for each unit of the SM, on one time
// axis. Bars of one piece keep their name, so they move from lane to lane and from schedule to schedule.
import { Marks } from '../core/kinds.js';
import { COLOURS, PALETTE, blend, rgb, widest } from '../core/paint.js';

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
const LANES_OF_A_WARP = 32;

/** @typedef {import('./loop_rule.js').Bar & {flying?: boolean}} Piece */
/**
 * @typedef {object} Panel a schedule, or the run
 * @property {string} id
 * @property {string} title
 * @property {string} note dim, after the title
 * @property {Piece[]} bars
 * @property {number} share of the time in which the tensor cores work
 * @property {boolean} roles whether the bars name their warpgroup
 * @property {boolean} full whether a product has all tensor cores
 * @property {boolean} recorded
 * @property {number} fell the number of the panel from which its bars come, -1 for none
 */

const groupsOf = (/** @type {Panel} */ { bars }) => 1 + Math.max(0, ...bars.map(({ group }) => group));

/**
 * @param {{width: number, height: number, em: number}} size
 * @param {{units: boolean, top: boolean, panels: Panel[]}} now
 */
export function loopLayout({ width, height, em }, { units, top, panels }) {
  const narrow = width < 620,
    left = (narrow ? 4.9 : 9.2) * em,
    right = narrow ? 4 : 9 * em,
    title = (narrow ? 1.7 : 1.8) * em,
    axis = 1.7 * em,
    lanes = panels.map(({ recorded }) => UNITS.filter(unit => !recorded || unit !== 'copy')),
    sum = lanes.flat().reduce((all, unit) => all + LANES[unit], 0),
    gap = (narrow ? 0.4 : 0.6) * em,
    fixed = axis + panels.length * (title + gap),
    row = 7 * em, // of the pieces, before the units are known
    spare = height - row - 6 * em,
    head = !units
      ? spare < 9 * em
        ? 0
        : spare // a low window has only the pieces
      : top
        ? Math.max(9 * em, Math.min(0.62 * height, height - fixed - 3.6 * em * sum))
        : 0,
    one = Math.max(1.15 * em, Math.min(4.6 * em, (height - head - fixed) / sum)),
    /** @type {Record<string, {y: number, h: number}>[]} */ places = [];
  let y = head;
  const titles = panels.map((_, n) => {
    const at = y + 0.72 * title;
    y += title;
    places.push({});
    for (const unit of lanes[n]) {
      places[n][unit] = { y, h: LANES[unit] * one - 3 };
      y += LANES[unit] * one;
    }
    y += gap;
    return at;
  });
  // before the units are known, all pieces are in one row
  if (!units) for (const unit of UNITS) places[0][unit] = { y: head + title, h: row };
  return {
    ...{
      width,
      height: Math.max(height, y + axis, units ? 0 : head + title + row + 2.4 * em),
      em,
      narrow,
      left: units ? left : 0,
      right: units ? right : 0,
    },
    ...{ head, titles, places, bottom: y - gap, units },
  };
}

/** @typedef {ReturnType<typeof loopLayout>} Layout */
/**
 * @param {Layout} at
 * @param {object} now
 * @param {Panel[]} now.panels
 * @param {number} now.length ns of the axis
 * @param {boolean} now.top whether the instruction is there
 * @param {number[]} now.instruction rows, depth and columns
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
    paper = rgb(paint.background);
  if (now.top && at.head) addInstruction(made, at, now.instruction, paint);
  const rectOf = (/** @type {Piece} */ bar, /** @type {number} */ n, /** @type {Panel} */ panel) => {
    const lane = at.places[n][bar.unit],
      groups = groupsOf(panel),
      whole = bar.group < 0 || !panel.roles || (panel.full && bar.unit === 'tensor'),
      h = whole ? lane.h : lane.h / groups - 1,
      top = lane.y + (whole ? 0 : (bar.group * lane.h) / groups);
    return [x(bar.start), top, Math.max(1, x(bar.end) - x(bar.start) - 1), h];
  };
  now.panels.forEach((panel, n) => {
    const lanes = at.places[n],
      base = at.titles[n],
      id = panel.id,
      groups = groupsOf(panel);
    if (at.units) {
      made.text(`${id} title`, [0, base], panel.title, { bold: true, size: 1.15 * em });
      const after = widest([panel.title], `600 ${1.15 * em}px ${paint.font}`) + em;
      if (!narrow) made.text(`${id} note`, [after, base], panel.note, { fill: blend(rgb(paint.text), paper, 0.7) });
    }
    for (const unit of UNITS) {
      const lane = lanes[unit];
      if (!lane || !at.units) continue;
      const name = panel.recorded && unit === 'tensor' ? ['products', 'products'] : NAMES[unit],
        says = unit === 'copy' && panel.roles ? ['producer copies', 'copy'] : name;
      made.text(`${id} ${unit} is`, [0, lane.y + lane.h / 2 + em / 3, left - 6], says[narrow ? 1 : 0]);
      if (panel.roles && unit !== 'copy' && !(panel.full && unit === 'tensor'))
        for (let group = 0; group < groups; group++)
          made.text(
            `${id} ${unit} of ${group}`,
            [left - 5, lane.y + ((group + 0.5) * lane.h) / groups + em / 3],
            `${group + 1}`,
            {
              ...{ align: 'right', bold: true },
            },
          );
      made.rect(`${id} ${unit} lane`, [left, lane.y, wide, lane.h], { fill: paint.panel });
      if (unit === 'tensor' && !panel.recorded) addRests(made, panel, lane, x, now.length, em, paint);
    }
    const texts = new Marks(em),
      before = panel.fell >= 0 ? now.panels[panel.fell] : null;
    for (const bar of [...panel.bars].sort((one, other) => Number(!!other.flying) - Number(!!one.flying))) {
      const hidden = !panel.roles && bar.group > 0; // one bar of all warpgroups
      if (hidden || bar.start >= now.length || bar.end < 0) continue;
      const name = `${id} ${bar.part} ${bar.tile} ${bar.group}${bar.flying ? ' flying' : ''}`,
        [bx, by, bw, bh] = rectOf(bar, n, panel),
        from = Math.max(bx, left),
        rect = [from, by, Math.min(bx + bw, left + wide) - from, bh],
        depth = (panel.roles && bar.group > 0 ? 0.55 : 0.85) * (bar.flying ? 0.5 : 1),
        fill = blend(rgb(COLOURS[bar.part]), paper, depth),
        other = now.tile && (now.tile.tile !== bar.tile || now.tile.panel !== id),
        way = { alpha: other ? 0.35 : 1, span: [Math.min(0.3, 0.08 * bar.tile), 1], ease: 'both' },
        [piece, means] = PIECES[/** @type {keyof typeof PIECES} */ (bar.part)],
        who = panel.roles && bar.group >= 0 ? `warpgroup ${bar.group + 1}: ` : '',
        long = `${bar.part === 'P' ? 'softmax' : bar.part} ${bar.tile}`,
        together = !panel.roles && bar.unit === 'tensor', // one bar of the products of all warpgroups
        ns = Math.round(bar.end - bar.start).toLocaleString('en');
      // it comes from its place in the schedule before
      const source = before?.bars.find(
          one => one.part === bar.part && one.tile === bar.tile && one.group === bar.group && one.start < now.length,
        ),
        first = source && rectOf(source, panel.fell, /** @type {Panel} */ (before));
      made.rect(name, rect, {
        ...{ fill, ...way, enter: first ? { rect: first } : { alpha: 0 } },
        ...{ datum: { panel: id, unit: bar.unit, part: bar.part, tile: bar.tile, group: bar.group } },
        tip: `${together ? 'of all warpgroups at once: ' : who}${piece}, key tile ${bar.tile}${bar.flying ? ', in flight until the wait for it' : ''}\n${ns} ns (${panel.recorded ? 'recorded' : 'modelled'})`,
      });
      if (bh < 0.95 * em) continue;
      const say = (
        /** @type {string} */ what,
        /** @type {number} */ tx,
        /** @type {number} */ down,
        /** @type {Record<string, any>} */ more,
      ) => {
        const { text, size = em } = more,
          style = { ...way, fill: inkOn(rgb(fill)), ...more };
        const enter = first ? { rect: [first[0] + tx - from, first[1] + first[3] / 2 + down, 0, size] } : { alpha: 0 };
        texts.text(`${name} ${what}`, [tx, by + bh / 2 + down], text, { ...style, enter });
      };
      if (!at.units) {
        say('says', from + 0.6 * em, -0.2 * em, { text: piece, bold: true, size: 1.25 * em });
        say('means', from + 0.6 * em, 1.3 * em, { text: means });
        continue;
      }
      const words = bar.flying
          ? [`${long}, in flight`, long]
          : [
              ...(panel.full && bar.unit === 'tensor' ? [`${bar.group + 1}: ${long}`] : []),
              ...(together ? [`${groups} × ${long}`, `${groups} × ${bar.part}`] : []),
              long,
              long.split(' ')[0],
            ],
        text = words.find(one => one.length * 0.56 * em + 6 < (bar.flying ? 0.5 : 1) * rect[2]);
      if (!text) continue;
      if (bar.flying) say('says', from + rect[2] - 4, 0.36 * em, { text, align: 'right' });
      else say('says', from + 4, 0.36 * em, { text, bold: true });
    }
    made.list.push(...texts.list);
    if (now.metered || panel.recorded) addMeter(made, at, panel, n, paint);
  });
  if (!at.units) {
    made.text('tile', [0, at.titles[0]], 'One key tile', { bold: true, size: 1.15 * em });
    made.text(
      'next',
      [at.width - 4, at.places[0].copy.y + at.places[0].copy.h + 1.8 * em],
      'then the next key tile ↻',
      { align: 'right' },
    );
  }
  if (at.units) addAxis(made, at, x, now.length, paint);
  for (const { x: name, at: ns } of now.handles) {
    const lane = at.places[0][name === 'copy' ? 'copy' : 'softmax'];
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

/** The time in which no product runs. @type {(made: Marks, panel: Panel, lane: {y: number, h: number}, x: (ns: number) => number, length: number, em: number, paint: Paint) => void} */
function addRests(made, panel, { y, h }, x, length, em, paint) {
  const busy = panel.bars.filter(({ unit }) => unit === 'tensor').sort((a, b) => a.start - b.start);
  let until = 0;
  for (const [n, { start, end }] of [...busy, { start: Infinity, end: 0 }].entries()) {
    const stop = Math.min(start, length);
    if (stop - until > 1) {
      const rect = [x(until), y, x(stop) - x(until) - 1, h];
      made.add(`${panel.id} rest ${n}`, 'hatch', rect, {
        ...{
          stroke: PALETTE.wrong,
          gap: 9,
          width: 1.2,
          datum: { panel: panel.id, rest: n },
          tip: 'the tensor cores rest',
        },
      });
      if (rect[2] > 3.4 * em) {
        const middle = rect[0] + rect[2] / 2;
        made.rect(`${panel.id} rest ${n} plate`, [middle - 1.3 * em, y + h / 2 - 0.75 * em, 2.6 * em, 1.5 * em], {
          fill: paint.panel,
        });
        made.text(`${panel.id} rest ${n} says`, [middle, y + h / 2 + em / 3], 'rest', {
          ...{ align: 'center', bold: true, fill: PALETTE.wrong },
        });
      }
    }
    until = Math.max(until, end);
    if (start >= length) break;
  }
}

/** The share of the time in which the tensor cores work. @type {(made: Marks, at: Layout, panel: Panel, n: number, paint: Paint) => void} */
function addMeter(made, at, panel, n, paint) {
  const { em, narrow } = at,
    { y } = at.places[n].copy ?? at.places[n].tensor,
    { softmax } = at.places[n],
    says = `${Math.round(100 * panel.share)}%`,
    thing = { datum: { kind: 'share', panel: panel.id } };
  if (narrow) {
    made.text(
      `${panel.id} share`,
      [at.width - 4, at.titles[n]],
      `${panel.recorded ? 'at least ' : ''}${says} at work`,
      {
        ...thing,
        bold: true,
        align: 'right',
      },
    );
    return;
  }
  const high = softmax.y + softmax.h - y,
    left = at.width - at.right + 0.9 * em,
    wide = at.right - em,
    middle = y + high / 2;
  made.text(`${panel.id} share`, [left, middle + 0.2 * em], says, { ...thing, bold: true, size: 2.3 * em });
  made.rect(`${panel.id} all`, [left, middle + 0.8 * em, wide, 0.5 * em], { fill: paint.border });
  made.rect(`${panel.id} part`, [left, middle + 0.8 * em, wide * Math.min(1, panel.share), 0.5 * em], {
    fill: COLOURS.S,
  });
  const what = panel.recorded ? 'work at least' : 'tensor cores work';
  if (panel.recorded || high > 4.4 * em) made.text(`${panel.id} share of`, [left, middle - 1.9 * em], what, {});
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

/** One instruction of the tensor cores, and one of the other units, to one scale. @type {(made: Marks, at: Layout, sizes: number[], paint: Paint) => void} */
function addInstruction(made, at, [rows, depth, columns], paint) {
  const { em, narrow, units } = at,
    half = narrow ? at.width : 0.62 * at.width,
    top = 3.6 * em,
    gap = 0.4 * em,
    scale = Math.min((at.head - top - 2.4 * em) / (rows + depth), (half - 6 * em) / (depth + columns)),
    inner = top + depth * scale + gap,
    right = depth * scale + gap,
    end = right + columns * scale,
    ink = rgb(paint.text),
    paper = rgb(paint.background),
    pale = blend(ink, paper, 0.2),
    dark = blend(ink, paper, 0.55);
  const matrix = (
    /** @type {string} */ id,
    /** @type {number[]} */ [x, y, w, h],
    /** @type {string} */ fill,
    /** @type {number[]} */ [across, down],
  ) => {
    made.rect(`unit ${id}`, [x, y, w * scale, h * scale], { fill });
    made.add(`unit ${id} grid`, 'grid', [x, y, w * scale, h * scale], {
      ...{ columns: across, rows: down, stroke: paint.background, width: 1 },
    });
  };
  const name = (
    /** @type {string} */ id,
    /** @type {number} */ x,
    /** @type {string} */ says,
    /** @type {string} */ does,
  ) => {
    made.text(`${id} name`, [x, 1.2 * em], says, { bold: true, size: 1.15 * em });
    made.text(`${id} does`, [x, 2.6 * em], does);
  };
  name('unit', 0, 'Tensor cores', `one instruction: ${(rows * depth * columns).toLocaleString('en')} multiply-adds`);
  matrix('a', [0, inner, depth, rows], pale, [depth / 4, rows / 4]);
  matrix('b', [right, top, columns, depth], pale, [columns / 4, depth / 4]);
  matrix('c', [right, inner, columns, rows], units ? COLOURS.S : dark, [columns / 4, rows / 4]);
  made.text('unit b is', [end + 0.5 * em, top + 0.5 * depth * scale + em / 3], `${depth} × ${columns}`);
  made.text('unit a is', [0, inner + rows * scale + 1.2 * em], `${rows} × ${depth}`);
  if (narrow) return;
  const far = Math.max(half, end + 6 * em);
  name('other', far, 'Other units', 'one instruction: 32 exponentials, one a lane');
  matrix('other', [far, inner, LANES_OF_A_WARP, 4], units ? COLOURS.P : dark, [LANES_OF_A_WARP, 1]);
}
