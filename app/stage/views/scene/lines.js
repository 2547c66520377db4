// Lines of text, one under the other: explainers/story/scene.py Lines.
const LINE = 1.3; // of small text

/** @param {string[]} texts @param {number} step */
const textOf = (texts, step) => texts[step] ?? texts[0] ?? '';
/**
 * The most lines that any step needs, of each entry.
 * @param {story.Lines} panel
 * @param {PanelBox} box
 */
const needs = ({ lines }, { width, lines: wrap }) =>
  lines.map(({ texts }) => Math.max(...[...new Set(texts)].map(text => wrap(text, width, 9).length)));

/** @param {story.Lines} panel @param {PanelBox} box */
export function heights(panel, box) {
  const high = needs(panel, box).reduce((sum, one) => sum + one, 0) * LINE * box.small;
  return [high, high];
}

/** @param {story.Lines} panel @param {PanelBox} box */
export function draw(panel, box) {
  const { small, made, step, wide, lines: wrap, x, width, id } = box,
    line = LINE * small,
    high = needs(panel, box);
  let top = box.y;
  panel.lines.forEach(({ texts, end, bold, datum, end_datum }, n) => {
    const last = textOf(end, step),
      room = width - (last ? wide(last, true) + small : 0),
      size = bold ? 1.15 * small : small;
    wrap(textOf(texts, step), room, high[n]).forEach((text, k) =>
      made.text(`${id} ${n} ${k}`, [x, top + (k + 0.85) * line, room], text, { bold, size }),
    );
    if (last)
      made.text(`${id} ${n} end`, [x + width, top + 0.85 * line], last, {
        bold,
        size,
        align: 'right',
      });
    for (const [key, one, rect] of /** @type {[string, Thing, number[]][]} */ ([
      ['area', datum, [x, top, room, high[n] * line]],
      ['end area', end_datum, [x + room, top, width - room, line]],
    ]))
      if (Object.keys(one).length) made.add(`${id} ${n} ${key}`, 'area', rect, { datum: one, tip: '' });
    top += high[n] * line;
  });
}
