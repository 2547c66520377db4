// The picture of one loop in three schedules, as marks. The lane of the tensor cores is large: their work has colours, and
// their rest is hatched, with what it waits for. Two thin lanes below have the copies and the softmax. Schedules of other
// steps are rows of the same form, on the same time axis. A bar of one piece keeps its name, so it moves along its lane
// from schedule to schedule.
import { Marks } from '../core/kinds.js';
import { COLOURS, PALETTE, blend, rgb, widest } from '../core/paint.js';

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
const GRID = 64; // operations in a row of the picture of a cycle
const percent = (/** @type {number} */ share) => `${Math.round(100 * share)}%`;

/** @typedef {import('./loop_rule.js').Bar & {spent?: number}} Piece */
/**
 * @typedef {object} Panel a schedule, or the run. The first one is large, and the others are rows below it.
 * @property {string} id
 * @property {string} title
 * @property {string} note dim, after the title
 * @property {Piece[]} bars
 * @property {number} share of the time in which the tensor cores work
 * @property {boolean} full whether a product has all tensor cores
 * @property {boolean} recorded
 * @property {number} first key tile of the bars
 */

/** The model of the run. softmax: its ns. slow: median ns of a softmax of the run's slower warpgroup.
 *  @typedef {{share: number, softmax: number, slow: number}} Model */

const groupsOf = (/** @type {Panel} */ { bars }) => 1 + Math.max(0, ...bars.map(({ group }) => group));

/**
 * @param {{width: number, height: number, em: number}} size
 * @param {{units: boolean, metered: boolean, panels: Panel[]}} now units: whether the pieces are on their units. metered:
 *   whether the shares are there
 */
export function loopLayout({ width, height, em }, { units, metered, panels }) {
  const narrow = width < 620,
    left = (narrow ? 5 : 9) * em,
    right = (narrow ? 3.6 : metered ? 9.4 : 2) * em,
    title = (narrow ? 2.6 : 2) * em,
    axis = 2.6 * em,
    strip = (narrow ? 1.8 : 3) * em,
    strips = (panels.length - 1) * strip,
    row = Math.max(5 * em, 0.24 * height), // of the pieces, before the units are known
    spare = height - row - (title + 2.6 * em),
    head = units || spare < 9 * em ? 0 : spare, // a low window has only the pieces
    top = head + title,
    room = Math.max((narrow ? 10.5 : 16) * em, height - top - axis - strips),
    tensor = { y: top, h: 0.6 * room },
    softmax = { y: top + 0.62 * room, h: 0.22 * room },
    copy = { y: top + 0.86 * room, h: 0.14 * room },
    bottom = top + room,
    /** @type {Record<string, {y: number, h: number}>[]} */ places = [{ tensor, softmax, copy }];
  for (let n = 1; n < panels.length; n++)
    places.push({ tensor: { y: bottom + axis + (n - 1) * strip, h: strip - (narrow ? 0.4 : 0.8) * em } });
  // before the units are known, all pieces are in one row
  if (!units) places[0] = { tensor: { y: top, h: row }, copy: { y: top, h: row }, softmax: { y: top, h: row } };
  return {
    ...{ width, height: Math.max(height, units ? bottom + axis + strips : top + row + 2.6 * em), em, narrow },
    ...{
      left: units ? left : 0,
      right: units ? right : 0,
      head,
      title: head + 0.7 * title,
      places,
      bottom,
      units,
      metered,
    },
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
 * @param {Model} now.model
 * @param {Paint} paint
 */
export function loopMarks(at, now, paint) {
  const made = new Marks(at.em),
    { em, narrow, left } = at,
    wide = at.width - left - at.right,
    x = (/** @type {number} */ ns) => left + (wide * Math.max(0, Math.min(now.length, ns))) / now.length,
    paper = rgb(paint.background),
    lanes = at.places[0],
    [panel] = now.panels,
    groups = groupsOf(panel),
    key = panel.recorded ? 'run' : 'main', // the bars of a schedule become those of the next one
    late = { span: [0.5, 1] }, // no bar crosses a name on its way
    measured = (/** @type {string} */ text, size = em) => widest([text], `600 ${size}px ${paint.font}`);
  if (at.units) {
    made.text(`${panel.id} title`, [0, at.title], panel.title, { ...late, bold: true, size: 1.25 * em });
    if (!narrow)
      made.text(`${panel.id} note`, [measured(panel.title, 1.25 * em) + em, at.title], panel.note, {
        ...{ ...late, fill: blend(rgb(paint.text), paper, 0.7) },
      });
    addLanes(made, at, panel, groups, paint);
    addRests(made, panel, lanes, x, now.length, em, paint);
  } else {
    if (at.head) addCycle(made, at, now.cycle, paint);
    made.text('tile', [0, at.title], 'One key tile', { bold: true, size: 1.15 * em });
    made.text('next', [at.width - 4, lanes.copy.y + lanes.copy.h + 1.8 * em], 'then the next key tile ↻', {
      align: 'right',
    });
  }
  const texts = new Marks(em);
  for (const bar of panel.bars) {
    if ((!at.units && bar.group > 0) || bar.start >= now.length || bar.end <= 0) continue;
    const lane = lanes[bar.unit],
      whole = bar.group < 0 || !at.units || (panel.full && bar.unit === 'tensor'),
      high = whole ? lane.h : lane.h / groups - 1,
      y = lane.y + (whole ? 0 : (bar.group * lane.h) / groups),
      name = `${key} ${bar.part} ${bar.tile - panel.first} ${bar.group}`,
      from = x(bar.start),
      w = Math.max(1, x(bar.end) - from - 1),
      fill = colourOf(bar, paper),
      other = now.tile && (now.tile.tile !== bar.tile || now.tile.panel !== panel.id),
      way = { alpha: other ? 0.35 : 1, ease: 'both', enter: { alpha: 0 }, span: now.panels[1] ? [0.4, 1] : [0, 1] },
      [piece, means] = PIECES[/** @type {keyof typeof PIECES} */ (bar.part)],
      datum = { panel: panel.id, unit: bar.unit, part: bar.part, tile: bar.tile, group: bar.group };
    made.rect(name, [from, y, w, high], { fill, ...way, datum, tip: tipOf(panel, bar) });
    const say = (
      /** @type {string} */ what,
      /** @type {number} */ tx,
      /** @type {number} */ ty,
      /** @type {string} */ text,
      /** @type {Record<string, any>} */ more = {},
    ) => texts.text(`${name} ${what}`, [tx, ty], text, { ...way, fill: inkOn(rgb(fill)), ...more });
    if (!at.units) {
      say('says 0', from + 0.6 * em, y + high / 2 - 0.2 * em, piece, { bold: true, size: 1.25 * em });
      say('means', from + 0.6 * em, y + high / 2 + 1.3 * em, means);
      continue;
    }
    const tensor = bar.unit === 'tensor',
      own = panel.recorded && bar.part === 'P' ? Math.min(w, x(bar.start + now.model.softmax) - from) : w,
      /** @type {(end: number) => number} the room of a handle at an end */
      grip = end =>
        now.handles.some(({ x: of, at: ns }) => of === bar.unit && bar.group < 1 && Math.abs(ns - end) < 1)
          ? 1.5 * em
          : 0,
      numbers = !tensor || !panel.full || measured(`O ${panel.first}`) < w - 0.15 * em, // of all products, or of none
      [before, after] = [grip(bar.start), grip(bar.end)],
      names =
        bar.part === 'P'
          ? [`softmax ${bar.tile}`, 'softmax', `P ${bar.tile}`, 'P']
          : [...(numbers ? [`${bar.part} ${bar.tile}`] : []), bar.part],
      sizes = tensor && !panel.full ? [1.7, 1.3, 1] : [1],
      found = names.flatMap(text => sizes.map(part => ({ text, size: part * em })));
    const text = found.find(({ text, size }) => measured(text, size) < own - before - after - 0.15 * em),
      many = tensor && panel.full && measured('1', 1.7 * em) < w, // with its group
      lines = [...(many ? [{ text: `${bar.group + 1}`, size: 1.7 * em }] : []), ...(text ? [text] : [])];
    if (high > em * lines.length)
      lines.forEach(({ text, size }, n) =>
        say(
          `says ${n}`,
          from + (own + before - after) / 2,
          y + high / 2 + 0.36 * size + (n - (lines.length - 1) / 2) * 1.8 * em,
          text,
          {
            ...{ align: 'center', bold: true, size },
          },
        ),
      );
  }
  if (panel.recorded) addLonger(made, panel, lanes, groups, x, now.model.softmax, em, paint, measured);
  made.list.push(...texts.list);
  if (at.metered) addShare(made, at, panel, now.model);
  now.panels.slice(1).forEach((one, n) => addRow(made, at, one, n + 1, x, now.length, paint));
  if (at.units) addAxis(made, at, x, now.length, paint);
  for (const { x: name, at: ns } of now.handles) {
    const { softmax } = lanes,
      lane = name === 'copy' ? lanes.copy : { y: softmax.y, h: softmax.h / groups - 1 };
    made.rect(`handle ${name}`, [x(ns) - 3, lane.y - 4, 6, lane.h + 8], { fill: paint.primary });
    for (const way of [-1, 1])
      made.add(`handle ${name} ${way}`, 'way', null, {
        points: [
          [x(ns) + 5 * way, lane.y + lane.h / 2],
          [x(ns) + 1.3 * em * way, lane.y + lane.h / 2],
        ],
        ...{ stroke: paint.primary, width: 3, head: 5 },
      });
  }
  return made.list;
}

/** By how much a softmax of the run is longer than that of the model. @type {(made: Marks, panel: Panel, lanes:
 *  Record<string, {y: number, h: number}>, groups: number, x: (ns: number) => number, softmax: number, em: number,
 *  paint: Paint, measured: (text: string) => number) => void} */
function addLonger(made, { bars }, { softmax: lane }, groups, x, softmax, em, paint, measured) {
  const high = lane.h / groups - 1;
  for (const { part, tile, group, start, end } of bars) {
    const more = end - start - softmax;
    if (part !== 'P' || more < 0.1 * softmax || start < 0) continue;
    const [from, to] = [x(start + softmax), x(end) - 1],
      y = lane.y + (group * lane.h) / groups,
      text = `+${Math.round(more)}`,
      late = { span: [0.5, 1], enter: { alpha: 0 } };
    if (to <= from) continue;
    made.rect(`longer ${tile} ${group}`, [from, y, to - from, high], {
      ...{ ...late, fill: blend(rgb(PALETTE.wrong), rgb(paint.background), 0.4) },
      tip: `${Math.round(more)} ns longer than the softmax of model C`,
    });
    if (measured(text) > to - from - 2 || high < 1.2 * em) continue;
    made.text(`longer ${tile} ${group} is`, [(from + to) / 2, y + high / 2 + 0.36 * em], text, {
      ...{ ...late, align: 'center', bold: true, fill: paint.text },
    });
  }
}

/** The colour of a piece. A later group is paler. @type {(bar: Piece, paper: number[], strong?: number) => string} */
const colourOf = ({ part, group }, paper, strong = 1) =>
  blend(rgb(COLOURS[part]), paper, strong * (group > 0 ? 0.6 : 0.88));

/** @type {(panel: Panel, bar: Piece) => string} */
function tipOf({ recorded }, { unit, part, tile, group, start, end, spent = 0 }) {
  const [piece] = PIECES[/** @type {keyof typeof PIECES} */ (part)],
    ns = (/** @type {number} */ of) => `${Math.round(of).toLocaleString('en')} ns`,
    what = `${group >= 0 ? `group ${group + 1}: ` : ''}${piece}, key tile ${tile}`;
  if (recorded && unit === 'tensor')
    return `${what}\n${ns(end - start)} at full speed (modelled)\n${ns(spent)} from its start to the wait for it (recorded)`;
  return `${what}\n${ns(end - start)} (${recorded ? 'recorded' : 'modelled'})`;
}

/** The names of the lanes. @type {(made: Marks, at: Layout, panel: Panel, groups: number, paint: Paint) => void} */
function addLanes(made, at, panel, groups, paint) {
  const { em, narrow, left } = at,
    { tensor, copy, softmax } = at.places[0],
    wide = at.width - left - at.right,
    key = panel.recorded ? 'run' : 'main',
    late = { span: [0.5, 1] };
  for (const [unit, { y, h }] of Object.entries(at.places[0]))
    made.rect(`${key} ${unit} lane`, [left, y, wide, h], { ...late, fill: paint.panel });
  const name = (/** @type {string} */ id, /** @type {number} */ y, /** @type {string} */ text, more = {}) =>
    made.text(`${key} ${id}`, [0, y, left - 4], text, { ...late, ...more });
  (narrow ? ['Tensor', 'cores'] : ['Tensor cores']).forEach((text, n) =>
    name(`tensor ${n}`, tensor.y + (1.1 + 1.3 * n) * em, text, { bold: true, size: (narrow ? 1 : 1.2) * em }),
  );
  const inexact = ['each product at', 'full speed, exact', 'place unknown'];
  if (panel.recorded && !narrow)
    inexact.forEach((text, n) => name(`inexact ${n}`, tensor.y + tensor.h - (3 - 1.3 * n) * em, text));
  const right = { ...late, align: 'right' };
  if (panel.full) {
    if (!narrow) made.text(`${key} tensor of`, [left - 6, tensor.y + tensor.h / 2 - 0.4 * em], 'of group', right);
  } else
    for (let group = 0; group < groups; group++)
      made.text(
        `${key} tensor of ${group}`,
        [left - 6, tensor.y + ((group + 0.5) * tensor.h) / groups + 0.36 * em],
        narrow ? `${group + 1}` : `group ${group + 1}`,
        right,
      );
  name('copy', copy.y + copy.h / 2 + 0.36 * em, 'copies', { bold: true });
  if (panel.recorded) made.text('no copies', [left + 0.6 * em, copy.y + copy.h / 2 + 0.36 * em], 'not recorded', late);
  for (let group = 0; group < groups; group++) {
    const base = softmax.y + ((group + 0.5) * softmax.h) / groups + 0.36 * em;
    if (!group) name('softmax', base, 'softmax', { bold: true });
    made.text(`${key} softmax of ${group}`, [left - 6, base], narrow ? `${group + 1}` : `group ${group + 1}`, right);
  }
}

/** The time in which no product runs, and what the tensor cores wait for: the piece that ends with it. @type {(made:
 *  Marks, panel: Panel, lanes: Record<string, {y: number, h: number}>, x: (ns: number) => number, length: number, em:
 *  number, paint: Paint) => void} */
function addRests(made, panel, lanes, x, length, em, paint) {
  const { tensor, copy, softmax } = lanes;
  for (const [n, { from, to, cause }] of restsOf(panel, length).entries()) {
    const rect = [x(from), tensor.y, x(to) - x(from) - 1, tensor.h],
      counted = from > 0 || panel.id === 'A' || panel.recorded,
      colour = counted ? PALETTE.wrong : paint.border, // the start of a schedule is no part of its share
      waits = cause === 'P' ? 'softmax' : 'a copy',
      halfOf = (/** @type {string[]} */ lines) => widest(lines, `600 ${em}px ${paint.font}`) / 2 + 0.2 * em,
      said = !counted ? [['start']] : cause ? [['waits for', waits], ['waits:', waits], ['rest']] : [['rest']],
      says = said.find(lines => 2 * halfOf(lines) < rect[2]);
    made.add(`rest ${n}`, 'hatch', rect, {
      ...{ stroke: colour, gap: 14, width: 1.6, span: [0.4, 1], datum: { panel: panel.id, rest: n } },
      tip: counted
        ? `the tensor cores rest${cause ? ` and wait for ${waits}` : ''}`
        : 'the start, before the first copy: not counted',
    });
    const under = tensor.y + tensor.h,
      middle = rect[0] + rect[2] / 2;
    if (cause === 'P' && counted)
      made.rect(`cause ${n}`, [rect[0], under, rect[2], softmax.y - under], { fill: PALETTE.wrong, alpha: 0.4 });
    else if (cause && counted && to < length)
      made.add(`cause ${n} copy`, 'way', null, {
        points: [
          [middle, copy.y],
          [middle, under + 2],
        ],
        ...{ stroke: PALETTE.wrong, width: 3, head: 6, enter: { grown: 0 } },
      });
    if (!says) continue;
    const half = halfOf(says);
    const y = tensor.y + tensor.h / 2;
    made.rect(`rest ${n} plate`, [middle - half, y - 0.8 * says.length * em, 2 * half, 1.6 * says.length * em], {
      fill: paint.panel,
    });
    says.forEach((text, line) =>
      made.text(`rest ${n} says ${line}`, [middle, y + (1.35 * (line + 0.5 - says.length / 2) + 0.36) * em], text, {
        ...{ align: 'center', bold: true, fill: counted ? PALETTE.wrong : paint.text },
      }),
    );
  }
}

/** The rests of a schedule up to a moment. cause: the part of the piece that ends with it, of a model.
 * @type {(panel: Panel, length: number) => {from: number, to: number, cause: string}[]} */
function restsOf({ bars, recorded }, length) {
  const found = [];
  let until = 0;
  for (const { start, end } of [
    ...bars.filter(({ unit }) => unit === 'tensor').sort((a, b) => a.start - b.start),
    { start: Infinity, end: 0 },
  ]) {
    const ends = bars.filter(({ unit, end }) => unit !== 'tensor' && Math.abs(end - start) < 1e-6),
      cause = recorded ? '' : ((ends.find(({ part }) => part === 'P') ?? ends[0])?.part ?? '');
    if (Math.min(start, length) - until > 1) found.push({ from: until, to: Math.min(start, length), cause });
    until = Math.max(until, end);
    if (start >= length) break;
  }
  return found;
}

/** The share of the time in which the tensor cores work, at the end of their lane. @type {(made: Marks, at: Layout,
 *  panel: Panel, model: Model) => void} */
function addShare(made, at, panel, model) {
  const { em, narrow } = at,
    { y, h } = at.places[0].tensor,
    thing = { datum: { kind: 'share', panel: panel.id } },
    left = at.width - at.right + 0.9 * em,
    middle = y + h / 2,
    digits = { value: 100 * panel.share, format: (/** @type {number} */ of) => `${Math.round(of)}%`, bold: true };
  const says = panel.recorded ? 'at least' : '';
  if (narrow) {
    made.text('share of', [at.width - 4 - 5.6 * em, at.title], says || 'at work', { align: 'right' });
    made.text('share', [at.width - 4, at.title], percent(panel.share), {
      ...thing,
      ...digits,
      size: 2.3 * em,
      align: 'right',
    });
    return;
  }
  made.text('share of', [left, middle - 2.6 * em], says, {});
  made.text('share', [left, middle + 0.6 * em], percent(panel.share), { ...thing, ...digits, size: 3.2 * em });
  made.text('share work', [left, middle + 2.3 * em], 'at work', { bold: true, size: 1.2 * em });
  const under = panel.recorded
    ? [
        `model C: ${percent(model.share)}`,
        'The run differs:',
        `softmax ${model.slow} ns`,
        `(model ${model.softmax})`,
        'S 4 before O 3',
        'waits for signals',
      ]
    : panel.share > 0.999
      ? ['never rest']
      : [`${100 - Math.round(100 * panel.share)}% rest`];
  under.forEach((text, n) =>
    made.text(
      `share rest ${n}`,
      [left, middle + (4.1 + 1.4 * n) * em],
      text,
      panel.recorded && n > 1 && n < 4
        ? { fill: PALETTE.wrong, bold: true } // as the longer part of a softmax
        : panel.recorded || panel.share > 0.999
          ? {}
          : { fill: PALETTE.wrong, size: 1.2 * em, bold: true },
    ),
  );
}

/** A schedule of another step, in the same form. It comes from the large lane. @type {(made: Marks, at: Layout, panel:
 *  Panel, n: number, x: (ns: number) => number, length: number, paint: Paint) => void} */
function addRow(made, at, panel, n, x, length, paint) {
  const { y, h } = at.places[n].tensor,
    { em, narrow, left } = at,
    large = at.places[0].tensor,
    name = `row ${panel.id}`,
    groups = groupsOf(panel),
    late = { span: [0.4, 1] },
    falls = (/** @type {number[]} */ [rx, , w, rh]) => ({
      ...{ span: [0, 0.5], ease: 'both', enter: { rect: [rx, large.y, w, (rh / h) * large.h] } },
    }),
    says = `${panel.recorded ? '≥ ' : ''}${percent(panel.share)}`,
    whole = [left, y, at.width - left - at.right, h];
  made.text(`${name} title`, [0, y + h / 2 + 0.36 * em, left - 6], narrow ? panel.id : panel.title, late);
  made.rect(`${name} lane`, whole, { ...falls(whole), fill: paint.panel });
  made.add(`${name} rest`, 'hatch', whole, { ...falls(whole), stroke: PALETTE.wrong, gap: 9, width: 1.3 });
  for (const bar of panel.bars) {
    const { unit, part, tile, group, start, end } = bar;
    if (unit !== 'tensor' || start >= length || end <= 0) continue;
    const high = panel.full ? h : h / groups,
      rect = [x(start), y + (panel.full ? 0 : group * high), Math.max(1, x(end) - x(start) - 1), high];
    made.rect(`${name} ${part} ${tile} ${group} plate`, rect, { ...falls(rect), fill: paint.panel });
    made.rect(`${name} ${part} ${tile} ${group}`, rect, {
      ...{ ...falls(rect), fill: colourOf(bar, rgb(paint.background), 0.8) },
      ...{ datum: { panel: panel.id, unit, part, tile, group }, tip: `${panel.title}\n${tipOf(panel, bar)}` },
    });
  }
  made.text(`${name} share`, [at.width - at.right + (narrow ? 0.3 : 0.9) * em, y + h / 2 + 0.55 * em], says, {
    ...{ ...late, bold: true, size: (narrow ? 1.2 : 1.6) * em, datum: { kind: 'share', panel: panel.id } },
  });
}

/** @type {(made: Marks, at: Layout, x: (ns: number) => number, length: number, paint: Paint) => void} */
function addAxis(made, at, x, length, paint) {
  const step = at.narrow ? 2000 : 1000;
  for (let ns = 0; ns <= length; ns += step) {
    made.add(`tick ${ns}`, 'line', [x(ns), at.bottom, 0, 0.4 * at.em], { stroke: paint.border });
    const align = ns ? 'center' : 'left';
    made.text(`tick ${ns} is`, [x(ns), at.bottom + 1.5 * at.em], `${ns.toLocaleString('en')} ns`, { align });
  }
}

/** What an SM can do in one cycle: multiply-adds of its tensor cores, and exponentials. A square is one operation. */
/** @type {(made: Marks, at: Layout, cycle: number[], paint: Paint) => void} */
function addCycle(made, at, [products, exponentials], paint) {
  const { em, narrow } = at,
    top = (narrow ? 5.6 : 6) * em,
    rows = products / GRID,
    cell = Math.min((0.66 * at.width) / GRID, (at.head - top - 0.6 * em) / rows),
    far = Math.max(GRID * cell + 2.4 * em, narrow ? 0.72 * at.width : 0), // of the other units
    number = (/** @type {number} */ one) => one.toLocaleString('en');
  /** @type {(id: string, x: number, title: string, does: string, count: number, columns: number, fill: string) => void} */
  const unit = (id, x, title, does, count, columns, fill) => {
    const size = [columns * cell, (count / columns) * cell],
      part = cell > 4 ? 1 : 4; // of a small window: 16 operations in a square
    made.text(`${id} name`, [x, 1.1 * em], title, { bold: true, size: 1.15 * em });
    made.text(`${id} count`, [x, 3.9 * em], number(count), { bold: true, size: (narrow ? 2 : 2.8) * em });
    made.text(`${id} does`, [x, 5.3 * em], does);
    made.rect(`${id} cycle`, [x, top, ...size], {
      ...{ fill, datum: { part: 'cycle', unit: id }, tip: `${number(count)} in one cycle of an SM` },
    });
    made.add(`${id} cells`, 'grid', [x, top, ...size], {
      ...{ columns: columns / part, rows: count / columns / part, stroke: paint.background, width: 1 },
    });
  };
  unit(
    'tensor',
    0,
    narrow ? 'Tensor cores' : 'Tensor cores of an SM',
    'multiply-adds a cycle',
    products,
    GRID,
    COLOURS.S,
  );
  unit('other', far, 'Other units', narrow ? 'e^x a cycle' : 'exponentials a cycle', exponentials, 4, COLOURS.P);
  if (narrow) return;
  const under = top + (exponentials / 4) * cell;
  made.text('other times', [far, under + 4.4 * em], `${number(products / exponentials)} times`, {
    bold: true,
    size: 2 * em,
  });
  made.text('other less', [far, under + 6 * em], 'fewer', { size: 1.2 * em });
}
