// What the two pictures of banks share: the colours of a cell by when it is served, and the sides
// of a pane.
import { PALETTE, blend, rgb } from '../core/paint.js';

const WAVES = PALETTE.wavefronts;
export const BANKS = 32;
export const LEGEND = [
  [`background:${WAVES.now}`, 'served in this wavefront'],
  [`background:color-mix(in srgb, ${WAVES.before} 60%, transparent)`, 'served before'],
  ['background:color-mix(in srgb, currentColor 22%, transparent)', 'still waits'],
];

// wavefront of a cell, and the wavefront of the step -> its colour.
const made = new WeakMap(); // by theme: asking for a colour's numbers is slow
export function colours(paint) {
  if (!made.has(paint)) made.set(paint, mixed(paint));
  return made.get(paint);
}
function mixed(paint) {
  const back = rgb(paint.background),
    before = blend(rgb(WAVES.before), back, 0.6),
    later = blend(rgb(paint.text), back, 0.22);
  return (wavefront, now) => (wavefront === now ? WAVES.now : wavefront < now ? before : later);
}

// A pane cut in equal parts: [{x, width}] of each side.
export function parts(count, width, gap) {
  const each = (width - gap * (count - 1)) / count;
  return Array.from({ length: count }, (_, n) => ({ x: n * (each + gap), width: each }));
}

// Numbers of a few banks over their columns.
export function bankNumbers(g, x, y, cell, em) {
  g.textAlign = 'center';
  const every = [1, 2, 4, 8, 16].find(n => n * cell > 2 * em) ?? 16;
  for (let bank = 0; bank < BANKS; bank += every) g.fillText(bank, x + (bank + 0.5) * cell, y);
}

// What a side takes, over its picture: its name, and where it is.
export function heading(g, side, access, frame, x, y, width, em, paint) {
  const { wavefronts } = access,
    at = frame.wavefront + 1,
    name = side.name ? `${side.name[0].toUpperCase()}${side.name.slice(1)}: ` : '';
  const texts =
    wavefronts === 0
      ? ['no wavefront']
      : at <= wavefronts
        ? [`wavefront ${at} of ${wavefronts}`, `${at} of ${wavefronts}`]
        : [`done after ${wavefronts}`, `done: ${wavefronts}`];
  g.textAlign = 'left';
  g.fillStyle = paint.text;
  g.font = `600 ${em}px ${paint.font}`;
  const text = texts.map(t => name + t).find(t => g.measureText(t).width <= width) ?? texts.at(-1);
  g.fillText(text, x, y);
  g.font = `${em}px ${paint.font}`;
}

// Lanes as text: lane 3; lanes 0 to 7; lanes 0, 8. brief: 3; 0\u20137; 0, 8; 4 lanes.
export function lanesSaid(lanes, brief = false) {
  const sorted = [...new Set(lanes)].sort((a, b) => a - b),
    run = sorted.at(-1) - sorted[0] === sorted.length - 1;
  if (sorted.length === 1) return brief ? String(sorted[0]) : `lane ${sorted[0]}`;
  if (brief)
    return run
      ? `${sorted[0]}\u2013${sorted.at(-1)}`
      : sorted.length === 2
        ? sorted.join(', ')
        : `${sorted.length} lanes`;
  return run ? `lanes ${sorted[0]} to ${sorted.at(-1)}` : `lanes ${sorted.join(', ')}`;
}
