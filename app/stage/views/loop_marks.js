// The picture of one loop in three schedules, as marks. A large strip says when the tensor cores work. Their rest is hatched,
// with what it waits for. Below, each group of warps has a row with its pieces, and the copies have one. Schedules of other
// steps are strips of the same form, on the same time axis. A bar of one piece keeps its name, so it moves along its row
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
const LATE = { span: [0.5, 1] }; // no bar crosses a name on its way
const percent = (/** @type {number} */ share) => `${Math.round(100 * share)}%`;
const nsOf = (/** @type {number} */ ns) => `${Math.round(ns).toLocaleString('en')} ns`;

/** @typedef {import('./loop_rule.js').Bar & {spent?: number}} Piece */
/**
 * @typedef {object} Panel a schedule, or the run. The first one is large, and the others are strips below it.
 * @property {string} id
 * @property {string} title
 * @property {string} note dim, after the title
 * @property {Piece[]} bars
 * @property {number} share of the time in which the tensor cores work
 * @property {boolean} recorded
 * @property {number} first key tile of the bars
 * @property {boolean} numbered whether a bar says its key tile
 */

const groupsOf = (/** @type {Panel} */ { bars }) => 1 + Math.max(0, ...bars.map(({ group }) => group));

/**
 * @param {{width: number, height: number, em: number}} size
 * @param {{units: boolean, metered: boolean, panels: Panel[]}} now units: whether the pieces are on their rows. metered:
 *   whether the shares are there
 */
export function loopLayout({ width, height, em }, { units, metered, panels }) {
  const narrow = width < 620,
    groups = groupsOf(panels[0]),
    left = (narrow ? 5 : 8.6) * em,
    right = (narrow ? 3.6 : metered ? 9.4 : 2) * em,
    title = (narrow ? 2.6 : 2.2) * em,
    axis = 2.6 * em,
    strip = (narrow ? 2.2 : 3) * em,
    row = Math.max(5 * em, 0.24 * height), // of the pieces, before the units are known
    spare = height - row - (title + 2.6 * em),
    head = units || spare < 9 * em ? 0 : spare, // a low window has only the pieces
    top = head + title,
    room = Math.max((narrow ? 16 : 20) * em, height - top - axis - (panels.length - 1) * strip - 0.4 * em),
    notes = 2 * em, // between the strip and the groups
    gap = 0.35 * em,
    part = room - notes - 2 * gap,
    tensor = { y: top, h: 0.28 * part },
    below = top + tensor.h + notes,
    high = (0.56 * part) / groups,
    rows = Array.from({ length: groups }, (_, n) => ({ y: below + n * (high + gap), h: high })),
    copy = { y: top + room - 0.16 * part, h: 0.16 * part },
    bottom = top + room,
    one = { y: top, h: row },
    others = panels.slice(1).map((_, n) => ({ y: bottom + axis + n * strip + 0.4 * em, h: strip - 0.9 * em }));
  return {
    ...{ width, height: Math.max(height, units ? bottom + axis + others.length * strip : top + row + 2.6 * em) },
    ...{ em, narrow, left: units ? left : 0, right: units ? right : 0, head, title: head + 0.66 * title },
    ...{ notes: below - 0.62 * em, bottom, units, metered, others },
    // before the units are known, all pieces are in one row
    lanes: units ? { tensor, rows, copy } : { tensor: one, rows: [one], copy: one },
  };
}

/** @typedef {ReturnType<typeof loopLayout>} Layout */
/**
 * @typedef {object} Now
 * @property {Panel[]} panels
 * @property {number} length ns of the axis
 * @property {number[]} cycle multiply-adds and exponentials of an SM in a cycle
 * @property {ReturnType<typeof import('./loop_rule.js').cycles>} needs of the key tile
 * @property {{unit: string, tile: number, panel: string} | null} tile under the pointer
 * @property {{x: string, at: number, ns: number}[]} handles moments that the reader can drag, and the length of their piece
 * @property {number} softmax ns of the model
 * @property {string} least what counts as work in the run
 */
/**
 * @param {Layout} at
 * @param {Now} now
 * @param {Paint} paint
 */
export function loopMarks(at, now, paint) {
  const made = new Marks(at.em),
    { em, narrow, left, lanes } = at,
    wide = at.width - left - at.right,
    x = (/** @type {number} */ ns) => left + (wide * Math.max(0, Math.min(now.length, ns))) / now.length,
    [panel] = now.panels,
    measured = (/** @type {string} */ text, size = em) => widest([text], `600 ${size}px ${paint.font}`);
  if (at.units) {
    made.text(`${panel.id} title`, [0, at.title], panel.title, { ...LATE, bold: true, size: 1.25 * em });
    if (!narrow)
      made.text(`${panel.id} note`, [measured(panel.title, 1.25 * em) + em, at.title], panel.note, {
        ...{ ...LATE, fill: blend(rgb(paint.text), rgb(paint.background), 0.7) },
      });
    addLanes(made, at, panel, paint);
    addStrip(made, panel, lanes.tensor, x, now.length, em, paint);
  } else {
    if (at.head) addCycle(made, at, now, measured, paint);
    made.text('tile', [0, at.title], 'One key tile', { bold: true, size: 1.15 * em });
    made.text('next', [at.width - 4, lanes.copy.y + lanes.copy.h + 1.8 * em], 'then the next key tile ↻', {
      align: 'right',
    });
  }
  const texts = new Marks(em);
  for (const bar of panel.bars)
    if (bar.start < now.length && bar.end > 0 && (at.units || bar.group < 1))
      addBar(made, texts, at, now, panel, bar, x, measured, paint);
  if (panel.recorded) {
    addLonger(made, at, panel, now, x, paint);
    addOwn(made, at, panel, now.length, x, measured, paint);
  }
  made.list.push(...texts.list);
  if (at.units && panel.id === 'A') addBarrier(made, at, panel, now.length, x, measured, paint);
  if (at.metered) addShare(made, at, panel, panel.recorded ? now.least : '', paint);
  now.panels.slice(1).forEach((one, n) => addRow(made, at, one, n, x, now.length, paint));
  if (at.units) addAxis(made, at, x, now.length, paint);
  for (const { x: name, at: moment, ns } of now.handles) {
    const lane = name === 'copy' ? lanes.copy : lanes.rows[0];
    const up = name === 'copy' ? 4 : lane.y - at.notes - 0.5 * em,
      said = name === 'copy' ? '' : nsOf(ns),
      [y, half] = said ? [at.notes - 0.4 * em, measured(said, 1.15 * em) / 2 + 0.4 * em] : [lane.y + lane.h / 2, 5];
    made.rect(`handle ${name}`, [x(moment) - 3, lane.y - up, 6, lane.h + up + 4], { fill: paint.primary });
    for (const way of [-1, 1])
      made.add(`handle ${name} ${way}`, 'way', null, {
        points: [
          [x(moment) + half * way, y],
          [x(moment) + (half + 0.9 * em) * way, y],
        ],
        ...{ stroke: paint.primary, width: 3, head: 5 },
      });
    if (said)
      made.text(`handle ${name} is`, [x(moment), at.notes], said, {
        ...{ align: 'center', bold: true, size: 1.15 * em, fill: paint.primary },
      });
  }
  return made.list;
}

/** A piece on its row. Its texts come later, above all bars. @type {(made: Marks, texts: Marks, at: Layout, now: Now,
 *  panel: Panel, bar: Piece, x: (ns: number) => number, measured: (text: string, size?: number) => number, paint: Paint) =>
 *  void} */
function addBar(made, texts, at, now, panel, bar, x, measured, paint) {
  const { em, lanes } = at,
    lane = bar.unit === 'copy' ? lanes.copy : lanes.rows[bar.group],
    name = `${panel.recorded ? 'run' : 'main'} ${bar.part} ${bar.tile - panel.first} ${bar.group}`, // as in the last step
    shared = bar.part === 'O' && during(panel, bar), // its row, with the softmax of the next tile
    high = shared ? lane.h / 2 : lane.h,
    from = x(bar.start),
    w = Math.max(1, x(bar.end) - from - 1),
    paper = rgb(paint.background),
    fill = at.units ? colourOf(bar, paper, panel.numbered) : blend(rgb(COLOURS[bar.part]), paper, 0.88),
    other = now.tile && (now.tile.tile !== bar.tile || now.tile.panel !== panel.id),
    way = { alpha: other ? 0.35 : 1, ease: 'both', enter: { alpha: 0 }, span: now.panels[1] ? [0.4, 1] : [0, 1] },
    [piece, means] = PIECES[/** @type {keyof typeof PIECES} */ (bar.part)],
    datum = { panel: panel.id, unit: bar.unit, part: bar.part, tile: bar.tile, group: bar.group };
  made.rect(name, [from, lane.y, w, high], {
    ...{ fill, ...way, datum, tip: tipOf(panel, bar) },
    ...(shared ? { stroke: paint.background, width: 1.5 } : {}),
  });
  /** @type {(what: string, tx: number, ty: number, text: string, more?: Record<string, any>) => void} */
  const say = (what, tx, ty, text, more = {}) =>
    texts.text(`${name} ${what}`, [tx, ty], text, { ...way, fill: inkOn(rgb(fill)), ...more });
  if (!at.units) {
    say('says', from + 0.6 * em, lane.y + high / 2 - 0.2 * em, piece, { bold: true, size: 1.25 * em });
    say('means', from + 0.6 * em, lane.y + high / 2 + 1.3 * em, means);
    return;
  }
  /** @type {(end: number) => number} the room of a handle at an end */
  const grip = end =>
      bar.unit === 'copy' && now.handles.some(({ x: of, at: ns }) => of === 'copy' && Math.abs(ns - end) < 1)
        ? 1.5 * em
        : 0,
    own = panel.recorded && bar.part === 'P' ? Math.min(w, x(bar.start + now.softmax) - from) : w,
    [before, after] = [grip(bar.start), grip(bar.end)],
    whole = bar.start >= 0 && bar.end <= now.length,
    word = bar.part === 'P' ? 'softmax' : bar.part,
    names = [...(panel.numbered ? [`${word} ${bar.tile}`] : []), word, ...(whole ? [bar.part] : [])],
    sizes = bar.unit === 'softmax' ? [1.15, 1] : bar.unit === 'copy' ? [1.3, 1] : [1.7, 1.3, 1],
    found = names.flatMap(text => sizes.map(part => ({ text, size: part * em }))),
    said = found.find(({ text, size }) => measured(text, size) < own - before - after - 0.15 * em);
  if (!said || high < 1.1 * said.size) return;
  const low = panel.recorded && bar.part === 'P' ? 0.75 : 0.5; // an output may be above
  say('says', from + (own + before - after) / 2, lane.y + low * high + 0.36 * said.size, said.text, {
    ...{ align: 'center', bold: true, size: said.size },
  });
}

/** Whether the softmax of its group runs during a product. @param {Panel} panel @param {Piece} product */
const during = ({ bars }, { group, start, end }) =>
  bars.some(one => one.part === 'P' && one.group === group && one.start < end - 1 && one.end > start + 1);

/** By how much a softmax of the run is longer than that of the model, and one of them in words. @type {(made: Marks, at:
 *  Layout, panel: Panel, now: Now, x: (ns: number) => number, paint: Paint) => void} */
function addLonger(made, at, { bars }, { softmax, length }, x, paint) {
  const { em, narrow } = at,
    late = { ...LATE, enter: { alpha: 0 } },
    longer = bars
      .filter(({ part, start, end }) => part === 'P' && end - start > 1.1 * softmax && start >= 0 && start < length)
      .sort((a, b) => a.group - b.group || a.start - b.start);
  for (const { tile, group, start, end } of longer) {
    const [from, to] = [x(start + softmax), x(end) - 1],
      lane = at.lanes.rows[group];
    if (to <= from) continue;
    made.rect(`longer ${tile} ${group}`, [from, lane.y, to - from, lane.h], {
      ...{ ...late, fill: blend(rgb(PALETTE.wrong), rgb(paint.background), 0.75) },
      tip: `${nsOf(end - start - softmax)} longer than the modelled softmax`,
    });
  }
  const first = longer.find(({ end }) => end < length);
  if (!first) return;
  const middle = (x(first.start + softmax) + x(first.end)) / 2,
    said = `softmax ${nsOf(first.end - first.start)}, modelled ${nsOf(softmax)}`;
  made.add(
    'longer to',
    'line',
    [middle, at.notes + 0.35 * em, 0, at.lanes.rows[first.group].y - at.notes - 0.35 * em],
    {
      ...{ ...late, stroke: PALETTE.wrong, width: 2 },
    },
  );
  made.text('longer is', [narrow ? at.left : middle - 0.4 * em, at.notes], said, {
    ...{ ...late, bold: true, fill: PALETTE.wrong, size: narrow ? em : 1.1 * em },
  });
}

/** An output that runs during the next softmax of its own group, named below the last group: the next trick. @type {(made:
 *  Marks, at: Layout, panel: Panel, length: number, x: (ns: number) => number, measured: (text: string, size?: number) =>
 *  number, paint: Paint) => void} */
function addOwn(made, { em, narrow, lanes, width, right }, panel, length, x, measured, paint) {
  const group = lanes.rows.length - 1,
    own = panel.bars.find(
      bar => bar.part === 'O' && bar.group === group && bar.start > 0 && bar.end < length && during(panel, bar),
    );
  if (!own || narrow) return;
  const middle = x(own.start) + 2, // before the name of the softmax
    row = lanes.rows[group],
    y = lanes.copy.y + lanes.copy.h / 2,
    ways = [
      'next trick: O of the tile before, during the softmax',
      'next trick: O during the softmax',
      'O during the softmax',
    ],
    text = ways.find(one => measured(one) < width - right - middle - em) ?? '';
  if (!text) return;
  made.add('own to', 'line', [middle, row.y + row.h / 2, 0, y - row.y - row.h / 2], {
    ...{ ...LATE, enter: { alpha: 0 }, stroke: paint.text, width: 2 },
  });
  made.text('own is', [middle + 0.5 * em, y + 0.36 * em], text, { ...LATE, enter: { alpha: 0 }, bold: true });
}

/** Where the threads of the first schedule wait for both copies. @type {(made: Marks, at: Layout, panel: Panel, length:
 *  number, x: (ns: number) => number, measured: (text: string, size?: number) => number, paint: Paint) => void} */
function addBarrier(made, { em, lanes }, { bars }, length, x, measured, paint) {
  const [row] = lanes.rows,
    late = { ...LATE, enter: { alpha: 0 } },
    end = lanes.copy.y + lanes.copy.h;
  for (const { part, group, tile, start } of bars) {
    if (part !== 'S' || group || start > length) continue;
    const begun = x(bars.find(bar => bar.part === 'K' && bar.tile === tile)?.start ?? 0),
      /** @type {string[][]} */ ways = [
        ['one barrier:', 'waits for K and V'],
        ['one barrier:', 'waits for', 'K and V'],
      ],
      lines = ways.find(way => way.every(line => measured(line) < x(start) - begun - em)) ?? [];
    made.add(`barrier ${tile}`, 'line', [x(start) - 1, row.y - 0.4 * em, 0, end - row.y + 0.8 * em], {
      ...{ ...late, stroke: paint.text, width: 2.5 },
    });
    lines.forEach((line, n) =>
      made.text(
        `barrier ${tile} is ${n}`,
        [x(start) - 0.6 * em, row.y + row.h / 2 + (1.35 * (n + 0.5 - lines.length / 2) + 0.36) * em],
        line,
        { ...late, align: 'right', bold: true },
      ),
    );
  }
}

/** The colour of a piece. A softmax is paler than a product, and each other key tile if the bars have numbers. @type {(bar:
 *  Piece, paper: number[], numbered: boolean) => string} */
const colourOf = ({ part, tile }, paper, numbered) =>
  blend(rgb(COLOURS[part]), paper, (part === 'P' ? 0.5 : 0.88) * (numbered && tile % 2 ? 0.65 : 1));

/** @type {(panel: Panel, bar: Piece) => string} */
function tipOf({ recorded }, { unit, part, tile, group, start, end, spent = 0 }) {
  const [piece] = PIECES[/** @type {keyof typeof PIECES} */ (part)],
    what = `${group >= 0 ? `group ${group + 1}: ` : ''}${piece}, key tile ${tile}`;
  if (recorded && unit === 'tensor')
    return `${what}\n${nsOf(end - start)} at full speed (modelled)\n${nsOf(spent)} from its start to the wait for it (recorded)`;
  return `${what}\n${nsOf(end - start)} (${recorded ? 'recorded' : 'modelled'})`;
}

/** The rows and their names. @type {(made: Marks, at: Layout, panel: Panel, paint: Paint) => void} */
function addLanes(made, at, panel, paint) {
  const { em, narrow, left, lanes } = at,
    wide = at.width - left - at.right,
    dim = { ...LATE, fill: blend(rgb(paint.text), rgb(paint.background), 0.7) };
  /** @type {(id: string, lane: {y: number, h: number}, texts: string[], size?: number) => void} */
  const lane = (id, { y, h }, texts, size = em) => {
    made.rect(`lane ${id}`, [left, y, wide, h], { fill: paint.panel, enter: { alpha: 0 } });
    texts.forEach((text, n) =>
      made.text(
        `lane ${id} ${n}`,
        [0, y + h / 2 + (1.3 * (n + 0.5 - texts.length / 2) + 0.36) * size, left - 4],
        text,
        {
          ...(n && id !== 'tensor' ? dim : { ...LATE, bold: true }),
          size: n && id !== 'tensor' ? em : size,
        },
      ),
    );
  };
  lane('tensor', lanes.tensor, ['Tensor', 'cores'], (narrow ? 1 : 1.5) * em);
  lanes.rows.forEach((row, n) => lane(`group ${n}`, row, [`group ${n + 1}`, '4 warps'], (narrow ? 1 : 1.15) * em));
  lane('copy', lanes.copy, ['copies'], (narrow ? 1 : 1.15) * em);
  if (panel.recorded)
    made.text('no copies', [left + 0.6 * em, lanes.copy.y + lanes.copy.h / 2 + 0.36 * em], 'not recorded', dim);
}

/** When the tensor cores work: spans without a rest. @type {(panel: Panel, length: number) => {from: number, to: number}[]} */
function worksOf(panel, length) {
  const rests = restsOf(panel, length),
    edges = [0, ...rests.flatMap(({ from, to }) => [from, to]), length];
  return Array.from({ length: edges.length / 2 }, (_, n) => ({ from: edges[2 * n], to: edges[2 * n + 1] })).filter(
    ({ from, to }) => to - from > 1e-6,
  );
}

/** When the tensor cores work, and when they rest, with the piece that ends a rest. @type {(made: Marks, panel: Panel,
 *  lane: {y: number, h: number}, x: (ns: number) => number, length: number, em: number, paint: Paint) => void} */
function addStrip(made, panel, lane, x, length, em, paint) {
  const way = { span: [0.4, 1], ease: 'both', enter: { alpha: 0 } };
  for (const [n, { from, to, cause }] of restsOf(panel, length).entries()) {
    const rect = [x(from), lane.y, x(to) - x(from), lane.h],
      counted = from > 0 || panel.id === 'A' || panel.recorded,
      colour = counted ? PALETTE.wrong : paint.border, // the start of a schedule is no part of its share
      waits = cause === 'P' ? 'softmax' : 'a copy',
      halfOf = (/** @type {string[]} */ lines) => widest(lines, `600 ${1.1 * em}px ${paint.font}`) / 2 + 0.3 * em,
      said = !counted ? [['start']] : cause ? [['waits for', waits], ['rest']] : [['rest']],
      says = said.find(lines => 2 * halfOf(lines) < rect[2]);
    made.add(`rest ${n}`, 'hatch', rect, {
      ...{ ...way, stroke: colour, gap: 14, width: 1.6, datum: { panel: panel.id, rest: n } },
      tip: counted
        ? `the tensor cores rest${cause ? ` and wait for ${waits}` : ''}`
        : 'the start, before the first copy: not counted',
    });
    if (!says) continue;
    const [half, middle, y] = [halfOf(says), rect[0] + rect[2] / 2, lane.y + lane.h / 2];
    made.rect(`rest ${n} plate`, [middle - half, y - 0.85 * says.length * em, 2 * half, 1.7 * says.length * em], {
      ...{ ...LATE, fill: paint.panel },
    });
    says.forEach((text, line) =>
      made.text(`rest ${n} says ${line}`, [middle, y + (1.45 * (line + 0.5 - says.length / 2) + 0.38) * em], text, {
        ...{ ...LATE, align: 'center', bold: true, size: 1.1 * em },
      }),
    );
  }
  const groups = groupsOf(panel);
  for (const { from, to, part, tile, group } of turnsOf(panel, length)) {
    const together = panel.numbered, // all groups at once
      rect = [x(from), lane.y, x(to) - x(from), lane.h],
      fill = group ? blend(rgb(paint.primary), rgb(paint.background), 1 - 0.45 / (groups - group)) : paint.primary,
      name = `works ${part} ${tile - panel.first} ${group}`,
      texts = together ? [`multiply ${part}`, part] : [`group ${group + 1}`, `${group + 1}`],
      size = 1.5 * em,
      text = texts.find(one => widest([one], `600 ${size}px ${paint.font}`) < rect[2] - 0.5 * em);
    made.rect(name, rect, {
      ...{ ...way, fill, datum: { panel: panel.id, works: part, tile, group } },
      tip: together ? `all groups multiply: ${part}` : `group ${group + 1} multiplies`,
    });
    if (text)
      made.text(`${name} is`, [rect[0] + rect[2] / 2, lane.y + lane.h / 2 + 0.36 * size], text, {
        ...{ ...LATE, align: 'center', bold: true, size, fill: inkOn(rgb(fill)) },
      });
  }
}

/** The products on the tensor cores. Those of one group without a rest are one turn. @type {(panel: Panel, length: number)
 *  => {from: number, to: number, part: string, tile: number, group: number}[]} */
function turnsOf({ bars, numbered }, length) {
  const /** @type {{from: number, to: number, part: string, tile: number, group: number}[]} */ found = [];
  for (const { unit, part, tile, group, start, end } of [...bars].sort((a, b) => a.start - b.start)) {
    if (unit !== 'tensor' || start >= length || end <= 0 || (numbered && group)) continue;
    const [from, to, last] = [Math.max(0, start), Math.min(length, end), found[found.length - 1]];
    if (!numbered && last?.group === group && from - last.to < 1) last.to = to;
    else found.push({ from, to, part, tile, group });
  }
  return found;
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

/** The share of the time in which the tensor cores work, at the end of their strip. @type {(made: Marks, at: Layout,
 *  panel: Panel, least: string, paint: Paint) => void} */
function addShare(made, at, { id, share, recorded }, least, paint) {
  const { em, narrow } = at,
    { y, h } = at.lanes.tensor,
    thing = { datum: { kind: 'share', panel: id } },
    left = at.width - at.right + 0.9 * em,
    middle = y + h / 2,
    digits = { value: 100 * share, format: (/** @type {number} */ of) => `${Math.round(of)}%`, bold: true };
  if (narrow) {
    made.text('share of', [at.width - 4 - 5.6 * em, at.title], recorded ? 'at least' : 'at work', { align: 'right' });
    made.text('share', [at.width - 4, at.title], percent(share), {
      ...{ ...thing, ...digits, size: 2.3 * em, align: 'right' },
    });
    return;
  }
  if (least) {
    made.text('share of', [left, middle - 2.5 * em], 'at least', {});
    made.add('share why', 'area', [left, y, at.right - em, h], { datum: { kind: 'least' }, tip: least });
  }
  made.text('share', [left, middle + 0.7 * em], percent(share), { ...thing, ...digits, size: 3.4 * em });
  made.text('share work', [left, middle + 2.4 * em], 'at work', { bold: true, size: 1.2 * em, fill: paint.primary });
  const rest = `${100 - Math.round(100 * share)}% rest`,
    under = recorded ? ['Its softmax', 'takes longer.'] : share > 0.999 ? ['no rest'] : [rest];
  under.forEach((text, n) =>
    made.text(`share rest ${n}`, [left, middle + (4.1 + 1.5 * n) * em], text, {
      ...{ size: 1.2 * em, bold: true, fill: share > 0.999 ? paint.primary : PALETTE.wrong },
    }),
  );
}

/** The strip of another schedule. It comes from the large one. @type {(made: Marks, at: Layout, panel: Panel, n: number,
 *  x: (ns: number) => number, length: number, paint: Paint) => void} */
function addRow(made, at, panel, n, x, length, paint) {
  const { y, h } = at.others[n],
    { em, narrow, left } = at,
    large = at.lanes.tensor,
    name = `row ${panel.id}`,
    falls = (/** @type {number[]} */ [rx, , w]) => ({
      ...{ span: [0, 0.5], ease: 'both', enter: { rect: [rx, large.y, w, large.h] } },
    }),
    whole = [left, y, at.width - left - at.right, h];
  made.text(`${name} title`, [0, y + h / 2 + 0.36 * em, left - 6], narrow ? panel.id : panel.title, {
    ...{ ...LATE, bold: narrow },
  });
  made.rect(`${name} lane`, whole, {
    ...{ ...falls(whole), fill: paint.panel, datum: { kind: 'row', panel: panel.id } },
    tip: `${panel.title}\nat work ${percent(panel.share)} of the time (modelled)`,
  });
  made.add(`${name} rest`, 'hatch', whole, { ...falls(whole), stroke: PALETTE.wrong, gap: 9, width: 1.3 });
  for (const [m, { from, to }] of worksOf(panel, length).entries()) {
    const rect = [x(from), y, x(to) - x(from), h];
    made.rect(`${name} plate ${m}`, rect, { ...falls(rect), fill: paint.background });
    made.rect(`${name} works ${m}`, rect, { ...falls(rect), fill: paint.primary, alpha: 0.6 });
  }
  made.text(
    `${name} share`,
    [at.width - at.right + (narrow ? 0.3 : 0.9) * em, y + h / 2 + 0.55 * em],
    percent(panel.share),
    {
      ...{ ...LATE, bold: true, size: (narrow ? 1.2 : 1.6) * em, datum: { kind: 'share', panel: panel.id } },
    },
  );
}

/** @type {(made: Marks, at: Layout, x: (ns: number) => number, length: number, paint: Paint) => void} */
function addAxis(made, at, x, length, paint) {
  const step = at.narrow ? 2000 : 1000;
  for (let ns = 0; ns <= length; ns += step) {
    made.add(`tick ${ns}`, 'line', [x(ns), at.bottom, 0, 0.4 * at.em], { stroke: paint.border });
    made.text(`tick ${ns} is`, [x(ns), at.bottom + 1.5 * at.em], nsOf(ns), { align: ns ? 'center' : 'left' });
  }
}

/** What an SM can do in one cycle: multiply-adds of its tensor cores, and exponentials. A square is one operation. And the
 *  cycles that a key tile needs of both. */
/** @type {(made: Marks, at: Layout, now: Now, measured: (text: string, size?: number) => number, paint: Paint) => void} */
function addCycle(made, at, { cycle: [products, exponentials], needs }, measured, paint) {
  const { em, narrow } = at,
    top = (narrow ? 5.6 : 6) * em,
    bar = 1.7 * em,
    tall = narrow ? 2 * (bar + 2.3 * em) + 2.4 * em : 0, // of the bars, below on a phone
    rows = products / GRID,
    cell = Math.max(0, Math.min((0.6 * at.width) / GRID, (at.head - top - tall - 0.6 * em) / rows)),
    far = Math.max(GRID * cell + 2.4 * em, narrow ? 0.72 * at.width : 0), // of the other units
    number = (/** @type {number} */ one) => one.toLocaleString('en');
  /** @type {(id: string, x: number, title: string, does: string, count: number, columns: number, fill: string) => void} */
  const unit = (id, x, title, does, count, columns, fill) => {
    const size = [columns * cell, (count / columns) * cell],
      part = cell > 4 ? 1 : 4; // of a small window: 16 operations in a square
    made.text(`${id} name`, [x, 1.1 * em], title, { bold: true, size: 1.15 * em });
    made.text(`${id} count`, [x, 3.9 * em], number(count), { bold: true, size: (narrow ? 2 : 2.8) * em });
    made.text(`${id} does`, [x, 5.3 * em], does);
    if (cell < 1) return; // a phone has the numbers
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
    paint.primary,
  );
  unit('other', far, 'Other units', narrow ? 'e^x a cycle' : 'exponentials a cycle', exponentials, 4, COLOURS.P);
  const left = narrow ? 0 : far,
    y = top + (narrow ? rows : exponentials / 4) * cell + (narrow ? 1.3 : 4) * em,
    wide = Math.min(at.width - left - 4, 26 * em),
    scale = wide / Math.max(needs.products, needs.exponentials);
  if (y + 2 * (bar + 2.3 * em) > at.head) return;
  /** @type {(id: string, line: number, says: string[], cycles: number, parts: number, fill: string) => void} */
  const need = (id, line, says, cycles, parts, fill) => {
    const up = y + 0.7 * em + line * (bar + 2.3 * em),
      part = (cycles * scale) / parts,
      size = 1.1 * em,
      text = says.find(one => measured(one) < wide) ?? says[says.length - 1];
    made.text(`${id} needs is`, [left, up + 1.1 * em, wide], text);
    for (let n = 0; n < parts; n++) {
      const x = left + n * part;
      made.rect(`${id} needs ${n}`, [x, up + 1.6 * em, part - 2, bar], { fill, tip: `${number(cycles)} cycles` });
      made.text(
        `${id} needs ${n} has`,
        [x + part / 2 - 1, up + 1.6 * em + bar / 2 + 0.36 * size],
        number(cycles / parts),
        {
          ...{ align: 'center', bold: true, size, fill: inkOn(rgb(fill)) },
        },
      );
    }
  };
  made.text('needs', [left, y], 'Cycles for this key tile', { bold: true, size: 1.15 * em });
  need('tensor', 0, ['multiply-adds, two products', 'two products'], needs.products, 2, paint.primary);
  need('other', 1, ['exponentials'], needs.exponentials, 1, COLOURS.P);
}
