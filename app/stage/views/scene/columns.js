// Numbers as upright bars from zero: explainers/story/scene.py Columns.
const HEAD = 1.4, // em: the title
  LINE = 1.3, // em: a line under the bars
  LEAST = 6, // em: the least and the most height of the bars
  MOST = 17,
  ROOM = 0.08; // of the scale, above and below the numbers

/** @param {story.Columns} panel */
const under = ({ notes }) => LINE * (1 + Math.max(0, ...notes.map(lines => lines.length)));
/** Of all steps, or of each.
 * @template T @param {T[]} list @param {number} step */
const ofStep = (list, step) => list[Math.min(step, list.length - 1)];

/** @param {story.Columns} panel @param {PanelBox} box */
export function heights(panel, { em }) {
  const words = HEAD + under(panel) + 0.4;
  return [(words + LEAST) * em, (words + MOST) * em];
}

/** @param {story.Columns} panel @param {PanelBox} box */
export function draw(panel, box) {
  const { exact, short } = box,
    { em, small, made, step, paint, wide, fit, colour, x, y, width, height, id } = box,
    { part, title, notes, column, ranges, scale, name, bare, levels, pale, blanks, each, framed, since, tips } = panel,
    values = box.columns[column],
    made_yet = (/** @type {number} */ number) => !since || box.columns[since][number] <= step,
    [low, high] = scale,
    [first, end] = ofStep(ranges, step),
    left = x + Math.max(...scale.map(value => wide(short(value, 3)))) + 0.5 * em,
    [top, w] = [y + HEAD * em, x + width - left - 1],
    h = Math.min(height - (HEAD + under(panel) + 0.4) * em, MOST * em),
    unit = w / (end - first),
    up = (/** @type {number} */ value) =>
      top + h * (1 - (value - low) / (high - low) / (1 + 2 * ROOM) - ROOM / (1 + 2 * ROOM)),
    at = (/** @type {number} */ number) => left + (number - first) * unit;
  made.text(`${id} title`, [x, y + 0.9 * em, width], fit(ofStep(title, step), width, true), { bold: true });
  pale.forEach(([from, to], n) => {
    const [start, stop] = [Math.max(from, first), Math.min(to, end)];
    if (start < stop)
      made.rect(`${id} pale ${n}`, [at(start), top, (stop - start) * unit, h], {
        fill: colour(panel.pale_colour),
      });
  });
  for (let number = first; number < end && !bare.includes(step); number++) {
    const value = values[number];
    if (!Number.isFinite(value) || !made_yet(number)) continue;
    const upper = Math.min(up(value), up(0));
    made.rect(
      `${id} bar ${number}`,
      [at(number), upper, Math.max(unit - (unit > 4 ? 1 : 0), 0.6), Math.max(1, Math.abs(up(value) - up(0)))],
      { fill: colour(panel.colour) },
    );
  }
  made.rect(`${id} edge`, [left, top, w, h], { stroke: paint.border });
  for (const tick of new Set([low, 0, high]))
    if (tick === 0 || Math.abs(tick) > 0.12 * (high - low))
      made.text(`${id} tick ${tick}`, [left - 0.4 * em, up(tick) + 0.35 * small], short(tick, 3), {
        align: 'right',
      });
  made.rect(`${id} zero`, [left, up(0), w, 0.5], { fill: paint.border });
  (levels[step] ?? []).forEach(([value, dashed], n) => {
    if (up(value) >= top && up(value) <= top + h)
      made.add(`${id} level ${n}`, 'line', [left, up(value), w, 0], {
        ...{ stroke: paint.text, width: 1.5, dash: dashed ? [3, 4] : [] },
      });
  });
  if (framed[step]?.length)
    made.rect(`${id} framed`, [at(framed[step][0]), top, (framed[step][1] - framed[step][0]) * unit, h], {
      ...{ stroke: paint.text, width: 2, ease: 'both' },
    });
  const line = (/** @type {number} */ n) => top + h + (n + 0.95) * LINE * em;
  made.text(`${id} first`, [left, line(0)], `${name} ${first}`);
  made.text(`${id} last`, [left + w, line(0)], `${end - 1}`, { align: 'right' });
  (ofStep(notes, step) ?? []).forEach((text, n) =>
    made.text(`${id} note ${n}`, [left, line(n + 1), w], text, { bold: true }),
  );
  made.add(`${id} area`, 'area', [left, top, w, h], {
    datum: { part },
    grid: {
      ...{ columns: end - first, count: end - first },
      thing: (/** @type {number} */ number) => ({ part, [name]: first + number }),
      tip(/** @type {number} */ number) {
        const value = values[first + number],
          said =
            Number.isNaN(value) || !made_yet(first + number)
              ? blanks[Math.floor((first + number) / each)]
              : `${panel.noun} ${exact(value)}`;
        return `${tips[first + number] ?? `${name} ${first + number}`}${said}`;
      },
    },
  });
}
