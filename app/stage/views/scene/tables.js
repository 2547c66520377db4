// Block tables, entry above and page below: explainers/story/scene.py Tables.
import { placeTable } from '../layouts/pages.js';

const HEAD = 1.5, // em: the title
  GAP = 0.5; // em: under a row

/** @param {PanelBox} box */
const leftOf = ({ em, width }) => Math.round(Math.min(7 * em, width * 0.22));
/** @param {story.Tables} panel @param {PanelBox} box */
const rowOf = (panel, box) => {
  const most = Math.max(1, ...panel.steps.flat().map(({ pages }) => pages.length)),
    left = leftOf(box);
  return placeTable(most, { left, top: 0, width: box.width - left, em: box.em }).bottom;
};

/**
 * All steps have one height: nothing moves from one to the next.
 * @param {story.Tables} panel
 * @param {PanelBox} box
 */
export function heights(panel, box) {
  const rows = Math.max(1, ...panel.steps.map(({ length }) => length)),
    high = HEAD * box.em + rows * (rowOf(panel, box) + GAP * box.em);
  return [high, high];
}

/** @param {story.Tables} panel @param {PanelBox} box */
export function draw(panel, box) {
  const { em, small, made, step, paint, x, y, width, fit, pale, id } = box,
    left = leftOf(box),
    high = rowOf(panel, box) + GAP * em,
    rows = panel.steps[step];
  made.text(`${id} title`, [x, y + em, width], fit(panel.title, width, true), { bold: true });
  if (!rows.length) made.text(`${id} empty`, [x + 0.9 * em, y + (HEAD + 1.2) * em], panel.empty);
  rows.forEach(({ name, colour, pages, texts, tips, now }, n) => {
    const top = y + HEAD * em + n * high,
      row = `${id} row ${n}`,
      cells = placeTable(pages.length, { left: x + left, top, width: width - left, em });
    made.rect(`${row} mark`, [x, top, 0.45 * em, 2.5 * em], { fill: colour });
    made.text(`${row} name`, [x + 0.9 * em, top + 1.05 * em, left - 1.2 * em], name, {
      bold: true,
    });
    made.text(`${row} text`, [x + 0.9 * em, top + 2.3 * em], fit(texts, left - 1.2 * em));
    pages.forEach((page, entry) => {
      const [cx, cy] = cells.at(entry),
        cell = [cx, cy, cells.w - 3, cells.h],
        middle = cx + cells.w / 2 - 1.5;
      made.rect(`${row} ${entry}`, cell, { fill: pale(colour, 0.28), stroke: colour, width: 1.5 });
      if (now.includes(entry)) made.rect(`${row} now`, cell, { stroke: paint.text, width: 3 });
      made.text(`${row} entry ${entry}`, [middle, cy + small], String(entry), { align: 'center' });
      made.text(`${row} page ${entry}`, [middle, cy + 2.2 * em], String(page), {
        ...{ align: 'center', bold: true, mono: true, fill: paint.text },
      });
      made.add(`${row} area ${entry}`, 'area', cell, {
        ...{ datum: { sequence: n, entry, page }, tip: tips[entry] ?? '' },
      });
    });
  });
}
