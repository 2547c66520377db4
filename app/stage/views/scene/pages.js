// Pages of slots in a grid: explainers/story/scene.py Pages.
import { placePages, wayBetween } from '../layouts/pages.js';

const HEAD = 1.9, // em: the title, and the way of a copy above the first row
  MOST = 5; // em: the most height of a page

/** @param {story.Pages} panel @param {PanelBox} box @param {number} height */
const placed = (panel, { em, x = 0, y = 0, width }, height) =>
  placePages(panel.steps[0].length, {
    ...{ left: x + 0.4 * em, top: y + HEAD * em, width: width - 0.4 * em, em },
    ...{ height, high: MOST * em },
  });

/** @param {story.Pages} panel @param {PanelBox} box */
export function heights(panel, box) {
  const most = placed(panel, box, 1e4).bottom;
  return [Math.min(most, placed(panel, box, 7 * box.em).bottom), most];
}

/**
 * What a slot holds, in words.
 * @param {story.Page} owned
 * @param {number} page
 * @param {number} slot
 */
function told({ names, fill, first, tip }, page, slot) {
  if (!names) return tip;
  const held = slot < fill ? `token ${first + slot} of ${names}` : `empty: slack of ${names}`;
  return [`page ${page}, slot ${slot}: ${held}`, tip].filter(Boolean).join('\n');
}

/** @param {story.Pages} panel @param {PanelBox} box */
export function draw(panel, box) {
  const { em, small, made, step, paint, x, y, width, wide, fit, id } = box,
    place = placed(panel, box, box.height - HEAD * em),
    { w, h } = place,
    head = Math.min(h * 0.6, em * 1.25),
    tall = h - head,
    slot = w / panel.size;
  made.text(`${id} title`, [x, y + em, width], fit(panel.title, width, true), { bold: true });
  panel.steps[step].forEach((page, n) => {
    const [left, top] = place.at(n),
      name = `${id} page ${n}`,
      { colours, fill, fresh, freed, texts } = page;
    colours.forEach((colour, k) => {
      const high = tall / colours.length;
      made.rect(`${name} ${k}`, [left, top + head + k * high, fill * slot, high], { fill: box.colour(colour) });
    });
    if (slot >= 3.5)
      made.add(`${name} slots`, 'grid', [left, top + head, w, tall], {
        ...{ columns: panel.size, rows: 1, stroke: paint.border },
      });
    made.rect(`${name} edge`, [left + 0.5, top + 0.5, w - 1, h - 1], { stroke: paint.border });
    if (fresh.length)
      made.rect(
        `${name} fresh`,
        [left + fresh[0] * slot + 1, top + head + 1, (fresh[1] - fresh[0]) * slot - 2, tall - 2],
        { stroke: paint.text, width: 2 },
      );
    if (freed)
      made.rect(`${name} freed`, [left, top, w, h], {
        stroke: paint.text,
        width: 2.5,
        dash: [3, 3],
      });
    const used = wide(String(n), true) + 14,
      text = texts.find(one => wide(one) <= w - used);
    made.text(`${name} number`, [left + 4, top + small], String(n), { bold: true, mono: true });
    if (text) made.text(`${name} text`, [left + w - 4, top + small], text, { align: 'right' });
    made.add(`${name} area`, 'area', [left, top, w, h], {
      datum: { page: n },
      grid: {
        ...{ columns: panel.size, count: panel.size },
        thing: (/** @type {number} */ at) => ({ page: n, slot: at }),
        tip: (/** @type {number} */ at) => told(page, n, at),
      },
    });
  });
  for (const [from, to] of panel.copies[step] ?? [])
    made.add(`${id} copy ${from} ${to}`, 'way', null, {
      ...{ points: wayBetween(place, from, to), stroke: box.colour('written'), head: 0.4 * em },
    });
}
