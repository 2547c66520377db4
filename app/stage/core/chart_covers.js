// What an open question covers in a Vega chart: its words, and the marks with a datum that matches.
import { around, matches, touching } from './covers.js';
import { element } from './paint.js';

const NEAR = 8; // pixels around the point of a line

// host: holds the chart; view: Vega's. Returns {draw, unmount}.
export function chartCovers(host, view, clock) {
  const g = host.querySelector('canvas').getContext('2d');
  g.fillText = (text, ...where) =>
    Object.getPrototypeOf(g).fillText.call(g, clock.hide(String(text)), ...where);
  let shown = [];
  const draw = () => {
    for (const patch of shown) patch.remove();
    const left = view.origin()[0] + view.padding().left;
    const boxes = clock.covers.flatMap(wanted => {
      const box = around(boxesOf(view, datum => matches(datum, wanted)));
      return box ? [rightOf(box, left)] : [];
    });
    shown = touching(boxes).map(group => patchAt(around(group)));
    host.append(...shown);
  };
  const onCovers = async () => {
    await view.resize().runAsync(); // all texts are drawn anew
    draw();
  };
  clock.addEventListener('covers', onCovers);
  const again = () => view.runAfter(draw); // the marks have their new places then
  for (const size of ['width', 'height']) view.addSignalListener(size, again);
  draw();
  return {
    draw,
    unmount() {
      clock.removeEventListener('covers', onCovers);
      for (const patch of shown) patch.remove();
    },
  };
}

// The part of a box right of the numbers of the axis.
const rightOf = ({ x, y, w, h }, left) => {
  const from = Math.max(x, left);
  return { x: from, y, w: x + w - from, h };
};
const patchAt = ({ x, y, w, h }) =>
  element('i', { class: 'patch', style: `left:${x}px;top:${y}px;width:${w}px;height:${h}px` }, '?');

// The boxes of the marks with such a datum, in pixels from the chart's corner.
function boxesOf(view, wanted) {
  const found = [],
    [left, top] = view.origin(),
    padding = view.padding();
  const visit = (mark, dx, dy) => {
    for (const [n, item] of mark.items.entries()) {
      if (mark.marktype === 'group')
        (item.items ?? []).forEach(inner => visit(inner, dx + (item.x ?? 0), dy + (item.y ?? 0)));
      else if (item.datum && wanted(item.datum)) {
        const point = ['line', 'area', 'trail'].includes(mark.marktype),
          before = mark.items[n - 1],
          known = before && !wanted(before.datum) ? before.y : item.y, // the line up to a known point
          { x1, x2, y1, y2 } = point
            ? {
                x1: item.x - NEAR,
                x2: item.x + NEAR,
                y1: Math.min(item.y - NEAR, known + NEAR),
                y2: Math.max(item.y + NEAR, known - NEAR),
              }
            : item.bounds;
        found.push({ x: dx + x1, y: dy + y1, w: x2 - x1, h: y2 - y1 });
      }
    }
  };
  visit(view.scenegraph().root, left + padding.left, top + padding.top);
  return found;
}
