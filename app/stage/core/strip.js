// The strip of state: what the story keeps an eye on, as numbers with their course over the steps,
// or as words.
import { PALETTE, element, figure, number, svgElement, theme } from './paint.js';

/** @type {Record<string, string>} */
const NAMED = { ...PALETTE.tensors, ...PALETTE.marks };
const W = 120,
  H = 26;

/** @param {HTMLElement} host @param {Clock} clock @param {story.State[]} entries */
export function stripView(host, clock, entries) {
  const paint = theme(host),
    parts = entries.map(entry => part(entry, paint));
  host.replaceChildren(...parts.map(p => p.node));
  const draw = (/** @type {number} */ step) => parts.forEach(p => p.draw(step));
  const unfollow = clock.follow(draw);
  draw(clock.step);
  return {
    unmount() {
      unfollow();
      host.replaceChildren();
    },
  };
}

/** @param {story.State} entry @param {ReturnType<typeof theme>} paint */
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
  /** @type {any} */ let mark = null;
  /** @type {any} */ let future = null;
  const x = (/** @type {number} */ n) => 2 + (n * (W - 4)) / Math.max(1, entry.values.length - 1);
  if (drawn) {
    const finite = numeric.filter(Number.isFinite),
      low = Math.min(0, ...finite),
      high = Math.max(entry.of ?? 0, ...finite, low + 1e-30);
    let path = '';
    numeric.forEach((v, n) => {
      if (!Number.isFinite(v)) return;
      const [left, top] = [x(n), H - 3 - ((v - low) / (high - low)) * (H - 6)].map(p => p.toFixed(1));
      path += Number.isFinite(numeric[n - 1]) ? `H${left}V${top}` : `M${left} ${top}`;
    });
    const svg = svgElement('svg', {
      viewBox: `0 0 ${W} ${H}`,
      preserveAspectRatio: 'none',
      'aria-hidden': 'true',
    });
    /** @type {(tag: string, attributes: Record<string, any>) => Element} */
    const make = (tag, attributes) => svg.appendChild(svgElement(tag, attributes));
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
  let shown = '';
  return {
    node,
    draw(/** @type {number} */ step) {
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
