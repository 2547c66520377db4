// A grid of small cells with a title: explainers/story/scene.py Cells.
const HEAD = 1.25, // of small text: the title
  LEAST = 0.32, // em: the least height of a cell
  FEW = 4, // rows with higher cells
  HIGH = 0.7, // em: their least height
  HEADED = 8, // em: the least height of all cells next to heads
  TEXTS = 2.2, // em: the height of a cell with a text
  ROW = 1.7, // em: the most height of a row with a name
  MOST = 1.6; // of its width: the most

const leastOf = (/** @type {number} */ rows) => (rows > FEW ? LEAST : HIGH);
/** @param {story.Cells} panel */
const rowsOf = ({ states, columns }) => Math.ceil(Math.max(...states.map(one => one.length)) / columns);

/**
 * The room of the heads next to the rows and over the columns.
 * @param {story.Cells} panel
 * @param {PanelBox} box
 */
const headRoom = ({ names, tops }, { small, wide }) => [
  names.length ? Math.max(...names.map(text => wide(text))) + 0.5 * small : 0,
  tops.length ? 1.2 * small : 0,
];

/** @param {story.Cells} panel @param {PanelBox} box */
export function heights(panel, box) {
  const rows = rowsOf(panel),
    [left, top] = headRoom(panel, box),
    head = HEAD * box.small + top,
    room = box.width - left;
  const least = Math.max(rows * leastOf(rows), top ? HEADED : 0) * box.em;
  if (panel.texts.length) return [head + rows * 1.5 * box.em, head + rows * TEXTS * box.em];
  if (left && !top) return [head + rows * box.small, head + rows * ROW * box.em];
  return [head + least, head + Math.max(least, (rows * MOST * room) / panel.columns)];
}

/**
 * The rectangle of the cells: as wide as the panel, and as high as its rows.
 * @param {story.Cells} panel
 * @param {PanelBox} box
 */
export function area(panel, box) {
  const rows = rowsOf(panel),
    [left, above] = headRoom(panel, box),
    top = HEAD * box.small + above,
    width = box.width - left,
    most = Math.max(leastOf(rows) * box.em, (MOST * width) / panel.columns),
    high = Math.min((box.height - top) / rows, most);
  return [box.x + left, box.y + top, width, rows * high];
}

/**
 * The corner and the size of a cell, [x, y, w, h].
 * @param {story.Cells} panel
 * @param {PanelBox} box
 * @param {number} number
 */
export function spot(panel, box, number) {
  const [x, y, w, h] = area(panel, box),
    cw = w / panel.columns,
    ch = h / rowsOf(panel);
  return [x + (number % panel.columns) * cw, y + Math.floor(number / panel.columns) * ch, cw, ch];
}

/** @param {story.Cells} panel @param {PanelBox} box */
export function draw(panel, box) {
  const { small, made, step, paint, fit, wide, rgb, x, y, width, id } = box,
    { part, title, columns, states, colours, words, axes, names, tops, places, texts, tips, ringed, pairs } = panel,
    letters = states[step],
    fills = Object.fromEntries(Object.entries(colours).map(([key, one]) => [key, rgb(one)])),
    [left, top, w, h] = area(panel, box),
    high = (h / rowsOf(panel)) * Math.ceil(letters.length / columns);
  made.text(`${id} title`, [x, y + 0.85 * small, width], fit(title[step] ?? title[0], width));
  names.forEach((text, n) => {
    const [, cy, , ch] = spot(panel, box, n * columns),
      size = Math.min(small, 0.95 * ch);
    if (size > 0.6 * small) made.text(`${id} row ${n}`, [x, cy + ch / 2 + 0.36 * size, left - x], text, { size });
  });
  tops.forEach((text, n) => {
    const [cx, , cw] = spot(panel, box, n);
    if (wide(text) <= cw) made.text(`${id} head ${n}`, [cx + cw / 2, top - 0.35 * small], text, { align: 'center' });
  });
  made.add(`${id} cells`, 'cells', [left, top, w, high], {
    ...{ columns, fills: [...letters].map(letter => fills[letter]), border: paint.border },
    bordered: ['panel', 'background'].map(one => `${rgb(one)}`),
  });
  texts.forEach((text, n) => {
    const [cx, cy, cw, ch] = spot(panel, box, n);
    if (wide(text) < cw - 2 && ch > small)
      made.text(`${id} text ${n}`, [cx + cw / 2, cy + ch / 2 + 0.36 * small], text, {
        ...{ align: 'center', fill: box.ink(colours[letters[n]], 1) },
      });
  });
  made.add(`${id} area`, 'area', [left, top, w, high], {
    datum: { part },
    press: panel.gos.length ? (/** @type {Thing} */ { number }) => panel.gos[number] : undefined,
    grid: {
      ...{ columns, count: letters.length },
      tip: (/** @type {number} */ number) =>
        tips[number] ??
        `${places[number] ?? `${axes[0]} ${Math.floor(number / columns)}, ${axes[1]} ${number % columns}`}: ${words[letters[number]]}`,
    },
  });
  if (ringed[step] >= 0)
    made.rect(`${id} ring`, spot(panel, box, ringed[step]), {
      ...{ stroke: texts.length ? paint.text : paint.primary, width: texts.length ? 3 : 2 },
    });
  const moved = pairs[step] ?? [];
  if (!moved.length) return;
  const ways = moved.filter((_, n) => n % 2 === 0).map((from, n) => [from, moved[2 * n + 1]]),
    corner = (/** @type {number} */ number) => spot(panel, box, number).slice(0, 2),
    [[from, to]] = ways;
  made.add(`${id} moved ${step}`, 'flights', null, {
    ...{ points: ways.map(way => corner(way[1])), size: spot(panel, box, 0).slice(2) },
    ...{ enter: { points: ways.map(way => corner(way[0])) }, ease: 'both', passing: true },
  });
  if (from === to || spot(panel, box, 0)[3] < 6) return;
  const points = [from, to].map(number => {
    const [cx, cy, cw, ch] = spot(panel, box, number);
    return [cx + cw / 2, cy + ch / 2];
  });
  for (const [key, stroke, thick] of [
    ['under', paint.background, 4],
    ['way', paint.text, 1.5],
  ])
    made.add(`${id} ${key}`, 'way', null, { points, stroke, width: thick, head: 4 });
}
