// What an open question covers in a Vega chart: its words, and the marks with a datum that matches.
import { around, matches, touching } from './covers.js';
import { element, listen } from './paint.js';
import { itemsOf, LINES } from './points.js';

const NEAR = 8; // pixels around the point of a line

// host: holds the chart; view: Vega's.
/** @param {HTMLElement} host @param {any} view @param {Clock} clock */
export function chartCovers(host, view, clock) {
  const g = /** @type {any} */ (host.querySelector('canvas')?.getContext('2d'));
  g.fillText = (/** @type {any} */ text, /** @type {number[]} */ ...where) =>
    Object.getPrototypeOf(g).fillText.call(g, clock.hide(String(text)), ...where);
  /** @type {Element[]} */ let shown = [];
  const draw = () => {
    for (const patch of shown) patch.remove();
    const left = view.origin()[0] + view.padding().left;
    const boxes = clock.covers.flatMap(wanted => {
      const box = around(boxesOf(view, datum => matches(datum, wanted)));
      if (!box) return [];
      const x = Math.max(box.x, left); // right of the numbers of the axis
      return [{ ...box, x, w: box.x + box.w - x }];
    });
    shown = /** @type {any} */ (touching(boxes)).map((/** @type {Box[]} */ group) => {
      const { x, y, w, h } = /** @type {Box} */ (around(group)),
        style = `left:${x}px;top:${y}px;width:${w}px;height:${h}px`;
      return element('i', { class: 'patch', style }, '?');
    });
    host.append(...shown);
  };
  const deafen = listen(clock, 'covers', async () => {
    await view.resize().runAsync(); // all texts are drawn anew
    draw();
  });
  const again = () => view.runAfter(draw); // the marks have their new places then
  for (const size of ['width', 'height']) view.addSignalListener(size, again);
  draw();
  return {
    draw,
    unmount() {
      deafen();
      for (const patch of shown) patch.remove();
    },
  };
}

// The boxes of the marks with a wanted datum, in pixels from the chart's corner.
/** @type {(view: any, wanted: (datum: any) => boolean) => Box[]} */
function boxesOf(view, wanted) {
  const [left, top] = view.origin(),
    { left: aside, top: above } = view.padding();
  return itemsOf(view).flatMap(({ mark, item, n, dx, dy }) => {
    if (!item.datum || !wanted(item.datum)) return [];
    let { x1, x2, y1, y2 } = item.bounds;
    if (LINES.includes(mark.marktype)) {
      const before = mark.items[n - 1],
        known = before && !wanted(before.datum) ? before.y : item.y; // the line up to a known point
      [x1, x2] = [item.x - NEAR, item.x + NEAR];
      y1 = Math.min(item.y - NEAR, known + NEAR);
      y2 = Math.max(item.y + NEAR, known - NEAR);
    }
    return [{ x: left + aside + dx + x1, y: top + above + dy + y1, w: x2 - x1, h: y2 - y1 }];
  });
}
