// What every picture needs: theme, colours, exact numbers, elements.
import { PALETTE } from './data.js';

export { PALETTE };
export const COLOURS = {
  ...PALETTE.tensors,
  read: PALETTE.marks.load,
  written: PALETTE.marks.store,
};

/**
 * The page's colours and fonts, as Streamlit's theme has them now.
 * @param {Element} node
 */
export function theme(node) {
  const style = getComputedStyle(node),
    get = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  return {
    text: get('--st-text-color') || '#222',
    background: get('--st-background-color') || '#fff',
    panel: get('--st-secondary-background-color') || '#eee',
    border: plain(get('--wg-line') || '#999'),
    primary: get('--st-primary-color') || '#06c',
    mono: `${get('--st-code-font') || 'monospace'}, ${get('--st-font') || 'sans-serif'}`,
    font: get('--st-font') || 'sans-serif',
  };
}

/** The colour of a tensor. A gradient has its tensor's. @param {string} name @returns {string} */
export const colourOf = name =>
  /** @type {Record<string, string>} */ (COLOURS)[name.replace(/^d(?=[A-Z])/, '')] ?? COLOURS.other;

/** A number with a true minus sign. @param {number} value */
export const minus = (value, digits = 2) => value.toFixed(digits).replace('-', '−');

// How much larger than usual all text is, and how much larger the labels of pictures are for a
// reader who is guided. Whoever changes one tells 'type' on the clock.
export const type = { scale: 1, labels: 1 };
const ROOM = { width: 1000, height: 620 }; // pixels of a window with room for larger labels

// The size of text on a canvas: at least 13 pixels in a window 1500 wide, and growing with it.
export const textSize = () => type.scale * labels() * Math.max(12, Math.min(28, innerWidth / 112));
const labels = () => (type.scale < 1.5 && innerWidth >= ROOM.width && innerHeight >= ROOM.height ? type.labels : 1);

// Whether the reader is guided: a picture may leave out what only Everything shows.
export const guided = () => type.labels > 1;

// A label that is smaller where there is room for large text, and never below 13 pixels in a window
// 1500 wide.
/** @param {number} em */
export const smallText = em => Math.max(0.85 * em, Math.min(em, 13 * type.scale));

const plains = new Map();
// Any CSS colour as rgb(...), which a motion can mix (tween.js): a line's colour is itself a mixture.
/** @param {string} colour @returns {string} */
function plain(colour) {
  if (!plains.has(colour)) plains.set(colour, `rgb(${rgb(colour).join(',')})`);
  return plains.get(colour);
}

let pixel = null; // a canvas of one pixel, and one that measures text
/** @type {any} */
let measured = null;

// Any CSS colour -> [r, g, b].
/** @param {string} colour @returns {number[]} */
export function rgb(colour) {
  pixel ??= document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  pixel.fillStyle = colour;
  pixel.fillRect(0, 0, 1, 1);
  return [...pixel.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}

// A colour between two, [r, g, b] each; share 1 is all of the first.
/** @type {(a: number[], b: number[], share: number) => string} */
export const blend = (a, b, share) => `rgb(${a.map((v, i) => Math.round(v * share + b[i] * (1 - share))).join(',')})`;

// value -> [r, g, b]: the background at zero, the palette's colours of sign at -span and +span.
/** @type {(background: number[]) => (value: number, span: number) => number[]} */
export function signed(background) {
  const low = rgb(PALETTE.sign.below),
    high = rgb(PALETTE.sign.above);
  return (value, span) => {
    const t = Math.min(1, Math.abs(value) / span) ** 0.7,
      end = value < 0 ? low : high;
    return background.map((v, i) => v + (end[i] - v) * t);
  };
}

// A matrix as a small canvas, a pixel per element, by sign. NaN and infinity are chequered, so that
// they are told from what is far above zero; what is absent (undefined) stays transparent. ink: [r, g, b].
/**
 * @type {(width: number, height: number, valueAt: (y: number, x: number) => number | undefined,
 *   span: number, colour: (value: number, span: number) => number[], ink?: number[]) => any}
 */
export function matrixImage(width, height, valueAt, span, colour, ink = []) {
  const small = element('canvas', { width, height }),
    g = small.getContext('2d'),
    pixels = g.createImageData(width, height);
  const wrong = rgb(PALETTE.wrong);
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      const value = valueAt(y, x);
      if (value === undefined) continue;
      pixels.data.set(
        [...(Number.isFinite(value) ? colour(value, span) : (x + y) % 2 ? ink : wrong), 255],
        4 * (y * width + x),
      );
    }
  g.putImageData(pixels, 0, 0);
  return small;
}

// The legend's entry of what is chequered.
export const NOT_FINITE = [
  `background:repeating-conic-gradient(${PALETTE.wrong} 0 25%,currentColor 0 50%) 0 0/8px 8px`,
  'NaN or infinite',
];

// How many of the numbers are NaN and infinite, in words; nothing if all are finite.
/** @param {Iterable<number | undefined>} numbers */
export function odd(numbers) {
  let nan = 0,
    inf = 0;
  for (const value of numbers) if (value !== undefined && !Number.isFinite(value)) Number.isNaN(value) ? nan++ : inf++;
  return [nan && `${number(nan)} NaN`, inf && `${number(inf)} infinite`].filter(Boolean).join(' and ');
}

// The largest finite |value|, never 0.
/** @param {Iterable<number>} values */
export function spanOf(values) {
  let most = 1e-30;
  for (const value of values) if (Number.isFinite(value)) most = Math.max(most, Math.abs(value));
  return most;
}

// From here on a number has an exponent. explainers/story/glossary.py has the same limit.
const MOST_WHOLE = 1e15;

// The shortest decimal that is this float32 and no other.
/** @param {number | string | null | undefined} value */
export function exact(value) {
  if (value === null || value === undefined) return 'none';
  if (typeof value === 'string') return value;
  if (!Number.isFinite(value)) return String(value).replace('Infinity', 'inf');
  for (let digits = 6; digits <= 9; digits++) {
    const kept = Number(value.toPrecision(digits));
    if (Math.fround(kept) !== Math.fround(value)) continue;
    return Math.abs(kept) < MOST_WHOLE ? String(kept) : kept.toExponential();
  }
  return String(value);
}

/** @param {number | string | null | undefined} value */
export function short(value, digits = 5) {
  if (value === null || value === undefined) return '\u2013';
  if (typeof value === 'string') return value;
  if (!Number.isFinite(value)) return String(value).replace('Infinity', 'inf');
  const size = Math.abs(value);
  return size >= 1e7 || (size && size < 1e-4)
    ? value.toExponential(Math.min(digits, 4) - 1)
    : String(Number(value.toPrecision(digits)));
}

/** How a running sum came about, in figures that add up: 5.934 + 1.073 = 7.007. factor: of the sum before. */
export function addsUp(/** @type {number} */ before, /** @type {number} */ factor, /** @type {number} */ sum) {
  const scale = factor < 0.9995 ? factor.toFixed(3) : '',
    digits = scale ? 2 : 3, // a factor of three digits gives no more
    [from, to] = [before.toFixed(digits), sum.toFixed(digits)],
    added = (Number(to) - Number(from) * Number(scale || 1)).toFixed(digits);
  return `${from}${scale && ` × ${scale}`} + ${added} = ${to}`;
}

// A number in a sentence, the strip or a table, with separators. A whole number has all its digits,
// others have so many.
/** @param {number | string | null | undefined} value @returns {string} */
export function figure(value, digits = 6) {
  if (typeof value !== 'number') return short(value, digits);
  if (Number.isInteger(value) && Math.abs(value) < MOST_WHOLE) return number(value);
  const kept = Number(value.toPrecision(digits)),
    size = Math.abs(kept);
  if (size >= 1e3 && size < MOST_WHOLE) return number(kept);
  return size >= MOST_WHOLE && Number.isFinite(size) ? kept.toExponential() : short(value, digits);
}

// A value in the largest unit in which it shows at least 1, in so many digits. glossary.amount is
// the same in Python. units: the largest first, [size, name].
/** @param {number} value @param {[number, string][]} units */
export function amount(value, units, digits = 3) {
  const rounded = (/** @type {number} */ size) => Number((value / size).toPrecision(digits)),
    [size, name] = units.find(([size]) => rounded(size) >= 1) ?? units[units.length - 1];
  return `${figure(rounded(size), digits)} ${name}`;
}

// The width in pixels that the widest of these labels needs in a font.
/** @param {string[]} labels @param {string} font */
export function widest(labels, font) {
  measured ??= document.createElement('canvas').getContext('2d');
  measured.font = font;
  return Math.max(0, ...labels.map(label => Math.ceil(measured.measureText(label).width)));
}

// What stands where a module could not be fetched: the server is gone, or is of another version by
// now.
/** @type {(host: Element) => (error: unknown) => never} */
export const unfetched = host => error => {
  const text = 'This could not be drawn. Load the page anew.';
  host.replaceChildren(element('p', { class: 'note bad', role: 'alert' }, text));
  throw error; // into the browser's console
};

/** @type {(value: number) => string} */
export const number = value => value.toLocaleString('en');

/**
 * @param {string} tag
 * @param {Record<string, any>} [attributes] true: an empty one; false, null, undefined: none
 * @param {...(string | Node)} children strings become text, never HTML
 * @returns {any} the node: its properties depend on the tag
 */
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value === true ? '' : value);
  node.append(...children);
  return node;
}

/** @param {string} tag @param {Record<string, any>} attributes */
export function svgElement(tag, attributes) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

// A link to a page of ours: a press goes there by go(); with a key held the browser opens it, as any
// link.
/**
 * @type {(href: string, go: () => void, attributes: Record<string, any>,
 *   ...children: (string | Node)[]) => any}
 */
export function way(href, go, attributes, ...children) {
  const node = element('a', { href, ...attributes }, ...children);
  node.onclick = (/** @type {MouseEvent} */ event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    go();
  };
  return node;
}

/**
 * @param {string} label
 * @param {((event: any) => void) | null} onClick null: a node around it hears the press
 * @param {Record<string, any>} [attributes]
 */
export function button(label, onClick, attributes = {}) {
  const node = element('button', { type: 'button', ...attributes }, label);
  node.onclick = onClick;
  return node;
}

// Returns what ends the listening.
/**
 * @type {(target: EventTarget, name: string, listener: (event: any) => any, capture?: boolean)
 *   => () => void}
 */
export function listen(target, name, listener, capture = false) {
  target.addEventListener(name, listener, capture);
  return () => target.removeEventListener(name, listener, capture);
}

// Saves a file on the reader's computer.
/** @param {Blob} blob @param {string} name */
export function save(blob, name) {
  const href = URL.createObjectURL(blob);
  element('a', { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
}
