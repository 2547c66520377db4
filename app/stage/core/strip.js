// The strip of state: what the story keeps an eye on, as numbers with their course over the steps,
// or as words.
import { PALETTE, element, figure, number, theme } from './paint.js';

const NAMED = { ...PALETTE.tensors, ...PALETTE.marks };
const W = 120,
  H = 26;

// entries: explainers/story/stage.py State.
export function stripView(host, clock, entries) {
  const paint = theme(host),
    parts = entries.map(entry => part(entry, paint));
  host.replaceChildren(...parts.map(p => p.node));
  const draw = step => parts.forEach(p => p.draw(step));
  const unfollow = clock.follow(draw);
  draw(clock.step);
  return {
    unmount() {
      unfollow();
      host.replaceChildren();
    },
  };
}

function part(entry, paint) {
  const value = element('span', { class: 'value' }),
    node = element(
      'div',
      { class: entry.deep ? 'state deep' : 'state', 'data-side': entry.side },
      element('span', { class: 'name' }, entry.name),
      value,
    );
  const numeric = entry.values.map(v => (typeof v === 'string' ? Number(v) : v));
  const drawn = entry.values.some(v => typeof v === 'number') && entry.values.length > 1;
  let mark = null,
    future = null;
  /** @type {(n: number) => number} */
  let x = () => 0,
    y = x;
  if (drawn) {
    const finite = numeric.filter(v => v !== null && Number.isFinite(v)),
      low = Math.min(0, ...finite),
      high = Math.max(entry.of ?? 0, ...finite, low + 1e-30);
    x = n => 2 + (n * (W - 4)) / Math.max(1, entry.values.length - 1);
    y = v => H - 3 - ((v - low) / (high - low)) * (H - 6);
    let path = '',
      pen = false;
    numeric.forEach((v, n) => {
      if (v === null || !Number.isFinite(v)) {
        pen = false;
        return;
      }
      path += pen
        ? `H${x(n).toFixed(1)}V${y(v).toFixed(1)}`
        : `M${x(n).toFixed(1)} ${y(v).toFixed(1)}`;
      pen = true;
    });
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg'),
      make = (tag, attributes) => {
        const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
        for (const [name, text] of Object.entries(attributes)) made.setAttribute(name, text);
        svg.append(made);
        return made;
      };
    svg.setAttribute('viewBox', `0 0 ${W} ${H}`);
    svg.setAttribute('preserveAspectRatio', 'none');
    svg.setAttribute('aria-hidden', 'true');
    make('path', {
      d: path,
      fill: 'none',
      stroke: NAMED[entry.colour] ?? (entry.colour || paint.text),
      'stroke-width': 2,
      'vector-effect': 'non-scaling-stroke',
    });
    // an open question hides what the next steps show (stage.css)
    future = make('rect', { class: 'future', y: 0, width: W, height: H, fill: paint.background });
    mark = make('line', {
      y1: 0,
      y2: H,
      stroke: paint.text,
      'stroke-width': 1.5,
      'vector-effect': 'non-scaling-stroke',
    });
    node.append(svg);
  }
  let shown;
  return {
    node,
    draw(step) {
      const now = entry.values[Math.min(step, entry.values.length - 1)];
      const text =
        typeof now === 'number'
          ? `${figure(now)}${entry.unit ? ` ${entry.unit}` : ''}${entry.of ? ` of ${number(entry.of)}` : ''}`
          : (now ?? '\u2013');
      if (text !== shown) value.textContent = shown = text;
      if (mark) {
        mark.setAttribute('x1', x(step));
        mark.setAttribute('x2', x(step));
        future.setAttribute('x', x(step));
      }
    },
  };
}
