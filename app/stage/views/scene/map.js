// A matrix of signed numbers as colours: explainers/story/scene.py Map.
const HEAD = 1.4, // em: the title
  ROWS = 2, // em at the left: the numbers of the first and the last row
  LEAST = 3.2, // em: the least and the most height of the matrix
  MOST = 18;

/** @param {story.Map} _ @param {PanelBox} box */
export function heights(_, { em }) {
  return [(HEAD + LEAST) * em, (HEAD + MOST) * em];
}

/** @param {story.Map} panel @param {PanelBox} box */
export function draw(panel, box) {
  const { em, small, made, step, paint, fit, exact, x, y, width, height, id } = box,
    { part, title, columns, at, axes, first, lines, unit, blank } = panel,
    all = box.columns[panel.column],
    rows = all.length / ((Math.max(...at) + 1) * columns),
    size = rows * columns,
    matrix = (/** @type {number} */ n) => all.subarray(at[n] * size, (at[n] + 1) * size),
    [there, now, before] = [matrix(0), matrix(step), matrix(Math.max(0, step - 1))],
    left = x + ROWS * em,
    area = [left, y + HEAD * em, x + width - left - 1, height - HEAD * em - 1],
    [, top, w, h] = area;
  made.text(`${id} title`, [left, y + 0.9 * em, width - ROWS * em], fit(title[step], w));
  for (const [row, line] of /** @type {[number, number][]} */ ([
    [0, top + 0.85 * small],
    [rows - 1, top + h - 0.1 * small],
  ]))
    if (!row || h > 2.2 * small)
      made.text(`${id} row ${row}`, [left - 0.3 * em, line], `${first + row}`, { align: 'right' });
  made.add(`${id} image`, 'image', area, {
    image: box.image(panel, at[step], columns, rows, number => (Number.isNaN(there[number]) ? undefined : now[number])),
  });
  made.rect(`${id} edge`, area, { stroke: paint.border });
  if (lines * (w / columns) > 6)
    for (let column = lines; column < columns; column += lines)
      made.rect(`${id} line ${column}`, [left + (column * w) / columns, top, 0.5, h], {
        fill: paint.border,
      });
  const told = (/** @type {number} */ value) =>
    value === 0
      ? 'no error'
      : Number.isFinite(value)
        ? `${exact(Math.abs(value))} ${value < 0 ? 'below' : 'above'} float64${unit}`
        : String(value);
  made.add(`${id} area`, 'area', area, {
    datum: { part },
    grid: {
      ...{ columns, count: size },
      thing: (/** @type {number} */ number) => ({
        ...{ part, [axes[0]]: first + Math.floor(number / columns), [axes[1]]: number % columns },
      }),
      tip(/** @type {number} */ number) {
        const head = `${part} of ${axes[0]} ${first + Math.floor(number / columns)}, ${axes[1]} ${number % columns}`;
        return Number.isNaN(there[number])
          ? `${head}: ${blank}`
          : `${head}\nso far ${told(now[number])}\nbefore this step ${told(before[number])}`;
      },
    },
  });
}
