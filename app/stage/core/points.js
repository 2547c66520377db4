// The values of a Vega chart by keyboard: while the chart has the focus, Alt with an arrow goes to
// the next point that way, and what the tooltip says of it is shown and announced; Enter is a click
// on it.
import { element } from './paint.js';

export const MOVES = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

// host: holds the chart; view: Vega's; press(x, datum): a point was chosen, x from the plot's left
// edge. Returns what ends it.
export function walkPoints(host, view, press) {
  const tip = element('div', { class: 'tip', hidden: true }),
    ring = element('i', { class: 'ring', hidden: true }),
    heard = element('div', { class: 'unseen', 'aria-live': 'polite' });
  host.append(ring, tip);
  host.after(heard);
  host.tabIndex = 0;
  let at = null;
  const show = point => {
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

// What of the chart has a tooltip: [{x, y, text, colour, datum}], in pixels from the plot's corner,
// from left to right.
function pointsOf(view) {
  const found = new Map();
  const visit = (mark, dx, dy) => {
    for (const item of mark.items) {
      if (mark.marktype === 'group')
        (item.items ?? []).forEach(inner => visit(inner, dx + (item.x ?? 0), dy + (item.y ?? 0)));
      else if (item.tooltip && !['line', 'area', 'trail'].includes(mark.marktype)) {
        const { x1, x2, y1, y2 } = item.bounds,
          text = worded(item.tooltip),
          x = dx + (x1 + x2) / 2,
          y = dy + (y1 + y2) / 2;
        found.set(`${Math.round(x)} ${Math.round(y)} ${text}`, {
          x,
          y,
          text,
          colour: item.stroke ?? item.fill,
          datum: item.datum,
        });
      }
    }
  };
  visit(view.scenegraph().root, 0, 0);
  return [...found.values()].sort((a, b) => a.x - b.x || b.y - a.y);
}
const worded = tooltip =>
  typeof tooltip === 'object'
    ? Object.entries(tooltip)
        .map(([name, value]) => `${name}: ${value}`)
        .join('\n')
    : String(tooltip);

// The next point that way: to a side first one of the same colour, up and down the nearest column.
// From nowhere, the first.
function next(points, from, [dx, dy]) {
  if (!from) return points[0] ?? null;
  const there = points.filter(p => (p.x - from.x) * dx + (p.y - from.y) * dy > 0.5),
    same = dx ? there.filter(p => p.colour === from.colour) : [];
  const far = p => Math.abs(p.x - from.x) * (dx ? 1 : 4) + Math.abs(p.y - from.y);
  return (
    (same.length ? same : there).reduce(
      (best, p) => (!best || far(p) < far(best) ? p : best),
      null,
    ) ?? from
  );
}
