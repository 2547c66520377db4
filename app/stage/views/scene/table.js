// Rows and columns with bars and texts: explainers/story/scene.py Table.
const LEAST = 1.5, // em: the least and the most height of a row
  MOST = 3.4,
  SPLIT = 0.8, // em between two groups of columns
  LINE = 1.25, // em: a line of a group's text
  LINES = 4, // the most lines of it
  HEAD = 2.1, // em: the names of the columns
  TITLE = 1.5, // em: the title of a group
  BESIDE = 11; // em: a column with room for a text next to its bar

/** @param {story.Table} panel @param {PanelBox} box */
function placed(panel, { em, width, narrow, wide, lines }) {
  const { rows, columns, groups } = panel,
    wished = Math.max(...rows.map(({ name, note }) => wide(name, true) + (narrow ? 0 : wide(note) + 0.8 * em))),
    label = Math.min((narrow ? 0.26 : 0.24) * width, wished + 1 * em),
    split = (narrow ? 0.4 : SPLIT) * em,
    count = Math.max(1, groups.length),
    w = (width - label - count * split) / columns.length,
    x = columns.map(({ group }, n) => label + split + n * w + group * split),
    wideOf = (/** @type {number} */ group) => w * columns.filter(one => one.group === group).length,
    texts = groups.map(([, text], n) => lines(text, wideOf(n) - 0.6 * em, LINES));
  return { label, w, x, wideOf, texts, wanted: Math.max(0, ...texts.map(text => text.length)) };
}
/** @type {(panel: story.Table, lines: number) => number} */
const above = (panel, lines) => (panel.groups.length ? TITLE + LINE * lines : 0) + HEAD;

/** @param {story.Table} panel @param {PanelBox} box */
export function heights(panel, box) {
  const { wanted } = placed(panel, box),
    rows = panel.rows.length;
  return [(above(panel, 0) + LEAST * rows) * box.em, (above(panel, box.narrow ? 0 : wanted) + MOST * rows) * box.em];
}

/** @param {story.Table} panel @param {PanelBox} box */
export function draw(panel, box) {
  const { em, small, made, step, paint, wide, fit, colour, pale, narrow, x: left, id } = box,
    { rows, columns, cells, groups, arrows } = panel,
    place = placed(panel, box),
    spare = box.height - (above(panel, 0) + LEAST * rows.length) * em,
    lines = narrow ? 0 : Math.max(0, Math.min(place.wanted, Math.floor(spare / (LINE * em)))),
    top = box.y + above(panel, lines) * em,
    heads = top - HEAD * em,
    row = Math.min(MOST * em, (box.y + box.height - top) / rows.length),
    most = Math.max(...cells.map(cell => cell.value ?? 0)),
    beside = place.w > BESIDE * em,
    air = row > 2.4 * em ? 0.4 * em : 1,
    at = (/** @type {number} */ n) => left + place.x[n],
    rowAt = (/** @type {number} */ n) => top + n * row,
    isNow = (/** @type {story.Cell} */ cell) => cell.now.includes(step),
    key = (/** @type {story.Cell | story.Row} */ { datum }) => Object.values(datum).join(' ');

  rows.forEach((one, n) => {
    const y = rowAt(n) + row / 2 + 0.36 * small,
      name = `${id} ${key(one)}`,
      bold = cells.some(cell => cell.row === n && isNow(cell));
    if (one.lit)
      made.rect(`lit ${name}`, [left, rowAt(n) + 1, box.width, row - 2], {
        ...{ fill: pale('primary', 0.13), hint: true },
      });
    made.text(`name ${name}`, [left + 0.2 * em, y, place.label], one.name, { bold });
    const after = 0.8 * em + wide(one.name, true);
    if (!narrow && one.note)
      made.text(`note ${name}`, [left + after, y, place.label - after], one.note, { alpha: 0.75 });
    made.add(`row ${name}`, 'area', [left, rowAt(n), place.label, row], {
      ...{ datum: one.datum, tip: one.tip },
    });
    made.rect(`line ${name}`, [left, rowAt(n) + row, box.width, 0.5], { fill: paint.border });
  });
  groups.forEach(([title], n) => {
    const x = at(columns.findIndex(({ group }) => group === n)),
      room = place.wideOf(n);
    made.text(`group ${id} ${n}`, [x, box.y + 1.1 * em, room], title, { bold: true, size: em });
    place.texts[n]
      .slice(0, lines)
      .forEach((line, k) =>
        made.text(`group ${id} ${n} ${k}`, [x, box.y + Math.floor((2.2 + k * LINE) * em), room], line),
      );
  });
  columns.forEach(({ name }, n) => {
    const now = cells.some(cell => cell.column === n && isNow(cell));
    made.rect(`head ${id} ${n}`, [at(n) + 1, heads + 0.3 * em, place.w - 3, 1.4 * em], {
      ...{ fill: now ? paint.primary : paint.panel, stroke: paint.border },
    });
    made.text(`column ${id} ${n}`, [at(n) + place.w / 2, heads + 1.3 * em, place.w - 8], name, {
      ...{ align: 'center', fill: now ? paint.background : paint.text, bold: now },
    });
  });

  // The things of one cell share its height.
  const box_of = (/** @type {story.Cell} */ cell) => {
    const together = cells.filter(one => one.row === cell.row && one.column === cell.column),
      high = (row - 4) / together.length,
      room = place.w - (beside ? 7.4 * em : 5); // for the text and an arrow
    return [
      at(cell.column) + 2,
      rowAt(cell.row) + 2 + together.indexOf(cell) * high + air,
      cell.value === null ? 0 : Math.max(2, (room * cell.value) / most),
      high - 2 * air,
    ];
  };
  const framed = (/** @type {story.Cell} */ cell) => {
    const room = place.w - 10;
    /** @type {[number, number, number]} */
    const middle = [at(cell.column) + place.w / 2, rowAt(cell.row) + row / 2 + 0.36 * small, room];
    made.rect(`frame ${id} ${key(cell)}`, [at(cell.column) + 2, rowAt(cell.row) + 2.5, place.w - 5, row - 4], {
      ...{ fill: paint.background, stroke: colour(cell.colour), width: 2 },
    });
    made.text(`text ${id} ${key(cell)}`, middle, fit(cell.texts, room, true), {
      ...{ align: 'center', bold: true },
    });
  };
  const barred = (/** @type {story.Cell} */ cell) => {
    const bar = box_of(cell),
      [x, y, w, h] = bar,
      made_yet = cell.since === null || cell.since <= step,
      noted = cell.note && beside,
      room = place.w - 8 - (beside ? w : 0),
      line = y + h / 2 + (noted ? -0.2 : 0.36) * small,
      name = `${id} ${key(cell)}`;
    made.rect(`bar ${name}`, bar, {
      fill: pale(cell.colour, (made_yet ? 0.85 : 0.4) * (beside ? 1 : 0.5)),
    });
    if (cell.since === step && cell.comes && beside) {
      const enter = cell.comes === 'row' ? [left, y, w, h] : [x, heads, w, h];
      made.rect(`comes ${name}`, bar, {
        ...{ fill: colour(cell.colour), enter: { rect: enter }, ease: 'both' },
      });
    }
    const start = beside ? x + w + 0.4 * em : x + 3;
    made.text(`text ${name}`, [start, line, room], fit(cell.texts, room), {
      ...{ alpha: made_yet ? 1 : 0.75, bold: cell.since === step },
    });
    if (noted)
      made.text(`note ${name}`, [start, line + 1.15 * small, room], cell.note, {
        ...{ bold: true, hint: true },
      });
  };
  for (const cell of cells) {
    if (cell.framed) framed(cell);
    else barred(cell);
  }
  for (const { row: n, start, end } of arrows) {
    const first = cells.find(cell => cell.row === n && cell.column === start);
    if (!first) continue;
    const [x, y, w, h] = box_of(first),
      from = x + w + 0.9 * em + wide(fit(first.texts, place.w)),
      to = at(end) - 2;
    if (to - from >= 1.2 * em)
      made.add(`arrow ${id} ${n}`, 'way', [], {
        points: [
          [from, y + h / 2],
          [to, y + h / 2],
        ],
        ...{ stroke: paint.text, width: 1.5, head: 0.35 * em },
      });
  }
  cells.forEach((cell, n) => {
    const whole = [at(cell.column) + 0.5, rowAt(cell.row) + 1, place.w - 2, row - 1],
      first = cells.findIndex(one => one.row === cell.row && one.column === cell.column);
    if (isNow(cell)) made.rect(`now ${id} ${cell.column}`, whole, { stroke: paint.text, width: 2 });
    const { datum, go } = cell,
      tips = cells.filter(one => one.row === cell.row && one.column === cell.column).map(one => one.tip);
    if (first === n)
      made.add(`area ${id} ${cell.row} ${cell.column}`, 'area', whole, {
        ...{ datum, go, tip: tips.join('\n') },
      });
  });
}
