// What every picture needs: theme, colours, exact numbers, elements.
import { PALETTE } from './data.js';

export { PALETTE };
export const COLOURS = { ...PALETTE.tensors, read: PALETTE.marks.load, written: PALETTE.marks.store };

// The page's colours and fonts, as Streamlit's theme has them now.
export function theme(node) {
  const style = getComputedStyle(node), get = name => style.getPropertyValue(name).trim();
  return { text: get('--st-text-color') || '#222', background: get('--st-background-color') || '#fff', panel: get('--st-secondary-background-color') || '#eee',
    border: get('--wg-line') || '#999', primary: get('--st-primary-color') || '#06c',
    mono: `${get('--st-code-font') || 'monospace'}, ${get('--st-font') || 'sans-serif'}`, font: get('--st-font') || 'sans-serif' };
}

// How much larger than usual all text is; who changes it says 'type' on the hub (look.js).
export const type = { scale: 1 };

// The size of text on a canvas: at least 13 pixels in a window 1500 wide, and growing with it.
export const textSize = () => type.scale * Math.max(12, Math.min(28, innerWidth / 112));

// A label that is smaller where there is room for large text, and never below 13 pixels in a window 1500 wide.
export const smallText = em => Math.max(0.85 * em, Math.min(em, 13 * type.scale));

export function rgb(colour) {  // any CSS colour -> [r, g, b]
  const context = (rgb.context ??= document.createElement('canvas').getContext('2d', { willReadFrequently: true }));
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}

// A colour between two, [r, g, b] each; share 1 is all of the first.
export function blend(a, b, share) {
  return `rgb(${a.map((v, i) => Math.round(v * share + b[i] * (1 - share))).join(',')})`;
}

// value -> [r, g, b]: the background at zero, the palette's colours of sign at -span and +span.
export function signed(background) {
  const low = rgb(PALETTE.sign.below), high = rgb(PALETTE.sign.above);
  return (value, span) => {
    const t = Math.min(1, Math.abs(value) / span) ** 0.7, end = value < 0 ? low : high;
    return background.map((v, i) => v + (end[i] - v) * t);
  };
}

// A matrix as a small canvas, a pixel per element, by sign. NaN and infinity are chequered, so that they are told from what is
// far above zero; what is absent (undefined) stays transparent. colour(value, span), ink: [r, g, b].
export function matrixImage(width, height, valueAt, span, colour, ink) {
  const small = element('canvas', { width, height }), g = small.getContext('2d'), pixels = g.createImageData(width, height);
  const wrong = rgb(PALETTE.wrong);
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
    const value = valueAt(y, x);
    if (value === undefined) continue;
    pixels.data.set([...(Number.isFinite(value) ? colour(value, span) : (x + y) % 2 ? ink : wrong), 255], 4 * (y * width + x));
  }
  g.putImageData(pixels, 0, 0);
  return small;
}

// The legend's entry of what is chequered.
export const NOT_FINITE = [`background:repeating-conic-gradient(${PALETTE.wrong} 0 25%,currentColor 0 50%) 0 0/8px 8px`, 'NaN or infinite'];

// How many of the numbers are NaN and infinite, in words; nothing if all are finite.
export function odd(numbers) {
  let nan = 0, inf = 0;
  for (const value of numbers) if (value !== undefined && !Number.isFinite(value)) Number.isNaN(value) ? nan++ : inf++;
  return [nan && `${number(nan)} NaN`, inf && `${number(inf)} infinite`].filter(Boolean).join(' and ');
}

// The largest finite |value|, never 0.
export function spanOf(values) {
  let most = 1e-30;
  for (const value of values) if (Number.isFinite(value)) most = Math.max(most, Math.abs(value));
  return most;
}

// The shortest decimal that is this float32 and no other.
export function exact(value) {
  if (value === null || value === undefined) return 'none';
  if (typeof value === 'string') return value;
  if (!Number.isFinite(value)) return String(value).replace('Infinity', 'inf');
  for (let digits = 6; digits <= 9; digits++) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === Math.fround(value)) return String(Number(text));
  }
  return String(value);
}

export function short(value, digits = 5) {
  if (value === null || value === undefined) return '\u2013';
  if (typeof value === 'string') return value;
  if (!Number.isFinite(value)) return String(value).replace('Infinity', 'inf');
  const size = Math.abs(value);
  return size >= 1e7 || (size && size < 1e-4) ? value.toExponential(Math.min(digits, 4) - 1) : String(Number(value.toPrecision(digits)));
}

export const number = value => value.toLocaleString('en');

export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value === true ? '' : value);
  node.append(...children);  // strings become text, never HTML
  return node;
}

// A link to a page of ours: a press goes there by go(); with a key held the browser opens it, as any link.
export function way(href, go, attributes, ...children) {
  const node = element('a', { href, ...attributes }, ...children);
  node.onclick = event => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    go();
  };
  return node;
}

export function button(label, onClick, attributes = {}) {
  const node = element('button', { type: 'button', ...attributes }, label);
  node.onclick = onClick;
  return node;
}
