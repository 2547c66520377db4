// The things of a picture by their areas, for the hit test, tips and covers. No pixel is scanned.
import { matches } from './covers.js';

/**
 * A rectangle with the thing in it. With `grid`, it has many things: a cell for each number, row by row. All of
 * them have its datum.
 * @typedef {object} Area
 * @property {number[]} rect [x, y, width, height]
 * @property {Record<string, any>} datum
 * @property {string} [tip]
 * @property {{columns: number, count: number, thing?: (number: number) => Record<string, any> | null,
 *   tip?: (number: number) => string}} [grid] thing: {...datum, number} without it; null: no thing
 */

/** @typedef {{x: number, y: number, w: number, h: number}} Rect */

/** @param {Area} area @param {number} number */
const thingOf = ({ datum, grid }, number) => (grid?.thing ? grid.thing(number) : { ...datum, number });

/**
 * The rectangles of the cells of a grid for which `hit` is true. Neighbours are one rectangle.
 * @param {Area} area
 * @param {(datum: Record<string, any>) => boolean} hit
 * @returns {Rect[]}
 */
function cells(area, hit) {
  const [left, top, width, height] = area.rect,
    { columns, count } = /** @type {any} */ (area.grid),
    rows = Math.ceil(count / columns),
    [cw, ch] = [width / columns, height / rows],
    found = [];
  let above = new Map(); // 'column count' -> the rectangle that ends in the row above
  for (let row = 0; row < rows; row++) {
    const here = new Map();
    let from = -1;
    for (let column = 0; column <= columns; column++) {
      const number = row * columns + column,
        thing = column < columns && number < count ? thingOf(area, number) : null;
      if (thing && hit(thing)) {
        if (from < 0) from = column;
        continue;
      }
      if (from < 0) continue;
      const key = `${from} ${column - from}`,
        rect = above.get(key) ?? {
          ...{ x: left + from * cw, y: top + row * ch, w: (column - from) * cw, h: 0 },
        };
      if (!rect.h) found.push(rect);
      rect.h = top + (row + 1) * ch - rect.y;
      here.set(key, rect);
      from = -1;
    }
    above = here;
  }
  return found;
}

/**
 * The thing at a point, of the topmost area: the last one.
 * @param {Area[]} areas
 * @param {number} x
 * @param {number} y
 */
export function thingAt(areas, x, y) {
  const area = areas.findLast(({ rect: [left, top, w, h] }) => x >= left && x < left + w && y >= top && y < top + h);
  if (!area?.grid) return area?.datum ?? null;
  const [left, top, w, h] = area.rect,
    { columns, count } = area.grid,
    row = Math.floor(((y - top) / h) * Math.ceil(count / columns)),
    number = row * columns + Math.floor(((x - left) / w) * columns);
  return number < count ? thingOf(area, number) : null;
}

/**
 * The tip of a thing, or "".
 * @param {Area[]} areas
 * @param {Record<string, any>} thing
 */
export function tipOf(areas, thing) {
  for (const area of areas.toReversed()) {
    if (!area.grid) {
      if (matches(area.datum, thing)) return area.tip ?? '';
      continue;
    }
    for (let number = 0; number < area.grid.count; number++) {
      const one = thingOf(area, number);
      if (one && matches(one, thing)) return area.grid.tip?.(number) ?? '';
    }
  }
  return '';
}

/**
 * The rectangles of the things that match any of some.
 * @param {Area[]} areas
 * @param {Record<string, any>[]} wanted
 * @returns {Rect[]}
 */
export function rectsOf(areas, wanted) {
  const hit = (/** @type {Thing} */ datum) => wanted.some(one => matches(datum, one));
  // The datum of a grid is part of each of its things.
  const may = (/** @type {Thing} */ datum) =>
    wanted.some(one => matches(datum, Object.fromEntries(Object.entries(one).filter(([key]) => key in datum))));
  return areas.flatMap(area => {
    if (area.grid) return may(area.datum) ? cells(area, hit) : [];
    const [x, y, w, h] = area.rect;
    return hit(area.datum) ? [{ x, y, w, h }] : [];
  });
}
