// The values of a Vega chart by keyboard: while the chart has the focus, Alt with an arrow goes to
// the next point that way, and what the tooltip says of it is shown and announced; Enter is a click
// on it.
import { element } from './paint.js';

/** @type {Record<string, [number, number]>} */
export const MOVES = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

export const LINES = ['line', 'area', 'trail']; // the marks of which an item is a point

/** @typedef {{x: number, y: number, text: string, colour: string, datum: any}} ChartPoint */

// host: holds the chart; view: Vega's; press: a point was chosen, x from the plot's left edge.
// Returns what ends it.
/**
 * @param {HTMLElement} host
 * @param {any} view
 * @param {((x: number, datum: any) => void) | null} press
 */
export function walkPoints(host, view, press) {
  const tip = element('div', { class: 'tip', hidden: true }),
    ring = element('i', { class: 'ring', hidden: true }),
    heard = element('div', { class: 'unseen', 'aria-live': 'polite' });
  host.append(ring, tip);
  host.after(heard);
  host.tabIndex = 0;
  /** @type {ChartPoint | null} */ let at = null;
  const show = (/** @type {ChartPoint | null} */ point) => {
    at = point;
    tip.hidden = ring.hidden = !point;
    heard.textContent = point ? point.text.replaceAll('\n', '; ') : '';
    if (!point) return;
    const [left, top] = view.origin(),
      x = point.x + left,
      y = point.y + top;
    tip.textContent = point.text;
    ring.style.translate = `${x}px ${y}px`;
    tip.style.left = `${Math.max(0, Math.min(x + 14, host.clientWidth - tip.offsetWidth - 4))}px`;
    const below = y + 16,
      above = Math.max(0, y - tip.offsetHeight - 10);
    tip.style.top = `${below + tip.offsetHeight > host.clientHeight ? above : below}px`;
  };
  host.onkeydown = event => {
    if (event.key === 'Enter' && at) press?.(at.x, at.datum);
    else if (event.altKey && MOVES[event.key]) show(next(pointsOf(view), at, MOVES[event.key]));
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  host.onpointermove = host.onblur = () => {
    if (at) show(null);
  };
  return () => {
    host.onkeydown = host.onpointermove = host.onblur = null;
    for (const node of [ring, tip, heard]) node.remove();
  };
}

// The items of a chart that are no groups, each with its mark, its place among the mark's items, and
// the corner of its group in pixels from the plot's corner.
/** @param {any} view @returns {{mark: any, item: any, n: number, dx: number, dy: number}[]} */
export function itemsOf(view) {
  /** @type {(mark: any, dx: number, dy: number) => any[]} */
  const visit = (mark, dx, dy) =>
    mark.items.flatMap((/** @type {any} */ item, /** @type {number} */ n) =>
      mark.marktype === 'group'
        ? (item.items ?? []).flatMap((/** @type {any} */ inner) => visit(inner, dx + (item.x ?? 0), dy + (item.y ?? 0)))
        : [{ mark, item, n, dx, dy }],
    );
  return visit(view.scenegraph().root, 0, 0);
}

// What of the chart has a tooltip, in pixels from the plot's corner, from left to right.
/** @param {any} view @returns {ChartPoint[]} */
function pointsOf(view) {
  const found = new Map();
  for (const { mark, item, dx, dy } of itemsOf(view)) {
    if (!item.tooltip || LINES.includes(mark.marktype)) continue;
    const { tooltip, bounds, datum, stroke, fill } = item,
      parts = Object.entries(tooltip).map(([name, value]) => `${name}: ${value}`),
      text = typeof tooltip === 'object' ? parts.join('\n') : String(tooltip),
      x = dx + (bounds.x1 + bounds.x2) / 2,
      y = dy + (bounds.y1 + bounds.y2) / 2;
    const point = { x, y, text, colour: stroke ?? fill, datum };
    found.set(`${Math.round(x)} ${Math.round(y)} ${text}`, point);
  }
  return [...found.values()].sort((a, b) => a.x - b.x || b.y - a.y);
}

// The next point that way: to a side first one of the same colour, up and down the nearest column.
// From nowhere, the first.
/** @type {(points: ChartPoint[], from: ChartPoint | null, way: [number, number]) => ChartPoint | null} */
function next(points, from, [dx, dy]) {
  if (!from) return points[0] ?? null;
  const there = points.filter(p => (p.x - from.x) * dx + (p.y - from.y) * dy > 0.5),
    same = dx ? there.filter(p => p.colour === from.colour) : [];
  const far = (/** @type {ChartPoint} */ p) => Math.abs(p.x - from.x) * (dx ? 1 : 4) + Math.abs(p.y - from.y);
  return (same.length ? same : there).toSorted((a, b) => far(a) - far(b))[0] ?? from;
}
