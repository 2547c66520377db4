// Matrices in columns, with arrows from one to the next: explainers/story/scene.py Chain.
const TITLE = 1.6, // em: the title
  HEAD = 1.3, // of small text: the heads of the columns
  NAME = 1.45, // em: the name over a matrix
  GAP = 2.6, // em: the least between two columns
  NARROW = 1.5, // on a phone
  THIN = 0.6, // em: the least width and height of a matrix
  LEAST = 0.55, // pixels of a number
  MOST = 7,
  PALE = 0.25;

/** @type {(panel: story.Chain, key: 0 | 1) => number[]} the columns or the lines */
const places = ({ matrices }, key) => [...new Set(matrices.map(({ place }) => place[key]))].sort((a, b) => a - b);

/** @param {story.Chain} panel @param {number} em @param {number} unit pixels of a number */
function sizes(panel, em, unit) {
  const wide = (/** @type {story.Matrix} */ { size }) => Math.max(THIN * em, size[1] * unit),
    high = (/** @type {story.Matrix} */ { size }) => Math.max(THIN * em, size[0] * unit),
    of = (/** @type {0 | 1} */ key, /** @type {number} */ n) => panel.matrices.filter(({ place }) => place[key] === n),
    widths = places(panel, 0).map(column => Math.max(...of(0, column).map(wide)));
  // The slots of a column in a line, one under the other.
  const stack = (/** @type {number} */ column, /** @type {number} */ line) => {
    /** @type {number[]} */
    const slots = [];
    for (const one of of(0, column).filter(({ place }) => place[1] === line))
      slots[one.place[2]] = Math.max(slots[one.place[2]] ?? 0, high(one) + NAME * em);
    return slots;
  };
  const sum = (/** @type {number[]} */ all) => all.reduce((one, other) => one + other, 0),
    heights = places(panel, 1).map(line => Math.max(...places(panel, 0).map(column => sum(stack(column, line)))));
  return { wide, high, widths, heights, stack, sum };
}

/** @type {(panel: story.Chain, box: PanelBox) => number} pixels over the first line, and under the last one */
const around = ({ heads, title }, { em, small }) =>
  (title.length ? TITLE : 0) * em + (heads.length ? HEAD * small : 0) + 0.4 * em;

/** @type {(panel: story.Chain, box: PanelBox) => number} between two columns */
const gapOf = (panel, { em, narrow }) => (narrow ? NARROW : GAP) * em;

/** @param {story.Chain} panel @param {PanelBox} box */
export function heights(panel, box) {
  const most = unitOf(panel, { ...box, height: Infinity }),
    high = (/** @type {number} */ unit) => {
      const { heights, sum } = sizes(panel, box.em, unit);
      return around(panel, box) + sum(heights);
    };
  return [high(Math.min(LEAST, most)), high(most)];
}

// The largest unit whose matrices fit.
/** @param {story.Chain} panel @param {PanelBox} box */
function unitOf(panel, box) {
  const gaps = gapOf(panel, box) * places(panel, 0).length;
  for (let unit = MOST; unit > LEAST; unit *= 0.97) {
    const { widths, heights, sum } = sizes(panel, box.em, unit);
    if (sum(widths) + gaps <= box.width && sum(heights) + around(panel, box) <= box.height + 0.5) return unit;
  }
  return LEAST;
}

/** @param {story.Chain} panel @param {PanelBox} box */
export function draw(panel, box) {
  const { em, small, made, step, paint, wide: textWide, fit, colour, x: left, y, width, id } = box,
    { title, heads, matrices, ways } = panel,
    unit = unitOf(panel, box),
    { wide, high, widths, heights, stack, sum } = sizes(panel, em, unit),
    spare = Math.max(0, (width - sum(widths)) / widths.length),
    columnAt = widths.map((_, n) => left + 2 + sum(widths.slice(0, n)) + n * spare),
    top = y + around(panel, box) - 0.4 * em,
    shown = (/** @type {story.Matrix} */ one) => !one.shown.length || one.shown.includes(step);
  if (title.length) made.text(`${id} title`, [left, y + em, width], fit(title[step], width, true), { bold: true });
  heads.forEach((texts, n) => {
    const room = widths[n] + spare - 0.5 * em;
    made.text(`${id} head ${n}`, [columnAt[n], top - 0.35 * small, room], fit([texts[step]], room), { alpha: 0.8 });
  });
  // The rectangle of a matrix with all its rows and columns. A column's slots are in the middle of the line.
  const boxes = matrices.map(one => {
    const [column, line, slot] = one.place,
      slots = stack(column, line),
      spread = (heights[line] - sum(slots)) / (slots.length + 1),
      upper = top + sum(heights.slice(0, line)) + sum(slots.slice(0, slot)) + (slot + 1) * spread;
    return [columnAt[column], upper + NAME * em, wide(one), high(one)];
  });
  const seen = (/** @type {number} */ n) => {
    const [x, upper] = boxes[n],
      part = matrices[n].windows[matrices[n].at[step]];
    if (!part) return boxes[n];
    const [, rows, columns] = part;
    return [
      x,
      upper,
      Math.max(THIN * em, columns * unit),
      Math.max(Math.min(THIN * em, high(matrices[n])), rows * unit),
    ];
  };
  for (const [from, to] of ways) {
    if (!shown(matrices[from]) || !shown(matrices[to])) continue;
    const on = matrices[to].now.includes(step);
    made.add(`${id} way ${from} ${to}`, 'way', [], {
      points: wayOf(boxes[from], boxes[to], em),
      stroke: on ? colour('S') : paint.border,
      width: on ? 3 : 1.5,
      head: (on ? 0.42 : 0.3) * em,
    });
  }
  matrices.forEach((one, n) => {
    if (!shown(one)) return;
    const { names, notes, sums } = one,
      [x, upper, w, h] = boxes[n],
      name = `${id} ${n}`,
      isNow = one.now.includes(step),
      lit = isNow || one.inputs.includes(step),
      room = widths[one.place[0]] + spare - 0.9 * em,
      text = fit(names, room, true),
      note = notes[step] ?? '',
      used = textWide(text, true) + 0.8 * em;
    made.rect(`${name} slot`, [x, upper, w, h], { stroke: paint.border, dash: [2, 4] });
    made.text(`${name} name`, [x, upper - 0.35 * em, room], text, { bold: lit });
    if (note && used + textWide(note) <= room)
      made.text(`${name} note`, [x + used, upper - 0.35 * em], note, { alpha: 0.8 });
    addNumbers(panel, box, n, seen(n));
    const frame = (/** @type {string} */ key, /** @type {string} */ stroke, /** @type {number[]} */ dash = []) =>
      made.rect(`${name} ${key}`, seen(n), { stroke, dash, width: 3, span: [0, 0.12], out: [0, 0.3] });
    if (one.inputs.includes(step)) frame('input', paint.text);
    if (one.loads.includes(step)) frame('load', colour('read'));
    if (one.flies.includes(step)) frame('flies', colour('S'), [6, 4]);
    if (isNow) frame('now', colour('S'));
    if (!sums[step]) return;
    const [sx, sy, sw, sh] = seen(n),
      thick = Math.max(1.5, unit),
      bar = (/** @type {number} */ at) =>
        sums[step] === 'right' ? [sx + at * (sw - thick), sy, thick, sh] : [sx, sy + at * (sh - thick), sw, thick];
    made.rect(`${name} sum`, bar(1), {
      ...{ fill: paint.text, enter: { rect: bar(0) }, ease: 'line', passing: true, alpha: 0.85 },
    });
  });
}

// From the side of a matrix over a corner to that of another one; in one column, from under it.
/** @param {number[]} from @param {number[]} to @param {number} em @returns {number[][]} */
function wayOf([x, y, w, h], [tx, ty, , th], em) {
  if (tx < x + w)
    return [
      [x + w / 2, y + h + 3],
      [x + w / 2, ty - NAME * em],
    ];
  const start = [x + w + 3, y + h / 2],
    end = [tx - 3, ty + th / 2],
    corner = end[0] - 0.9 * em;
  return Math.abs(start[1] - end[1]) < 1 ? [start, end] : [start, [corner, start[1]], [corner, end[1]], end];
}

// The numbers of a matrix at the step, and the things to point at.
/** @param {story.Chain} panel @param {PanelBox} box @param {number} n @param {number[]} rect */
function addNumbers(panel, box, n, rect) {
  const { made, step, exact, tint, id } = box,
    { datum, names, axes, column, windows, at, pale, note, unit, blank } = panel.matrices[n],
    part = windows[at[step]];
  if (!part) {
    made.add(`${id} ${n} area`, 'area', rect, { datum, tip: `${names.at(-1)}: no number is logged` });
    return;
  }
  const [first, rows, columns, row0, col0] = part,
    values = box.columns[column],
    known = (/** @type {number} */ number) =>
      Number.isNaN(values[first + number]) ? undefined : values[first + number],
    away = pale.includes(step);
  made.add(`${id} ${n} numbers ${at[step]}`, 'image', rect, {
    image: box.image(panel, `${n} ${at[step]}`, columns, rows, known, tint(values)),
    ...{ ease: 'line', out: [0.2, 1], ...(away && { alpha: PALE }) },
  });
  const spot = (/** @type {number} */ number) => [row0 + Math.floor(number / columns), col0 + (number % columns)];
  made.add(`${id} ${n} area`, 'area', rect, {
    datum,
    grid: {
      ...{ columns, count: rows * columns },
      thing: (/** @type {number} */ number) => {
        const [row, col] = spot(number);
        return { ...datum, [axes[0]]: row, ...(axes[1] && { [axes[1]]: col }) };
      },
      tip(/** @type {number} */ number) {
        const value = values[first + number],
          where = `${names.at(-1)}[${spot(number)
            .slice(0, axes[1] ? 2 : 1)
            .join(', ')}]${note}`;
        return away
          ? `${where}: not on the SM now`
          : Number.isNaN(value)
            ? `${where}: ${blank}`
            : `${where} = ${exact(value)}${unit}`;
      },
    },
  });
}
