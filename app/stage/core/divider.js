// The divider between picture and code: dragged, or moved by the arrow keys; kept in the browser.
// It stands upright where code is beside the picture, and lies where it is under it (two sides, or
// a narrow window).
import { element, listen } from './paint.js';

const LEAST = 20,
  MOST = 80; // per cent
const ACROSS = { ArrowLeft: -2, ArrowRight: 2 },
  DOWN = { ArrowUp: -2, ArrowDown: 2 };
/**
 * begin: the picture's share, until it is moved. style: sets the property of stage.css.
 * @type {Record<string, {orientation: string, keys: Record<string, number>, name: string, begin: number,
 *   property: string, style: (share: number) => string}>}
 */
const KINDS = {
  beside: {
    orientation: 'vertical',
    keys: ACROSS,
    name: 'warpglass-share',
    begin: 58,
    property: '--share',
    style: share => `${share}%`,
  },
  two: {
    orientation: 'horizontal',
    keys: DOWN,
    name: 'warpglass-share-two',
    begin: 60,
    property: '--rows',
    style: share => `minmax(0, ${share}fr) auto .5rem minmax(0, ${100 - share}fr)`,
  },
  narrow: {
    orientation: 'horizontal',
    keys: DOWN,
    name: 'warpglass-share-narrow',
    begin: 62.5,
    property: '--narrow-rows',
    // One under the other: picture, strip, guide, divider and code, each at least so high.
    style: share =>
      `minmax(${0.24 * share}rem, ${share}fr) auto auto .5rem ` +
      `minmax(${0.24 * (100 - share)}rem, ${100 - share}fr)`,
  },
};

/** @param {HTMLElement} main @param {HTMLElement} picture @param {HTMLElement} code @param {Host} host */
export function makeDivider(main, picture, code, { kept, keep }) {
  const node = element('div', {
    class: 'divider',
    role: 'separator',
    tabindex: '0',
    'aria-label': 'Divide picture and code',
    'aria-valuemin': LEAST,
    'aria-valuemax': MOST,
  });
  const narrow = matchMedia('(max-width: 760px)');
  /** @type {Record<string, number>} */ const shares = {};
  const kind = () => (narrow.matches ? 'narrow' : main.classList.contains('two') ? 'two' : 'beside');
  const turn = () => {
    node.setAttribute('aria-orientation', KINDS[kind()].orientation);
    node.setAttribute('aria-valuenow', String(Math.round(shares[kind()])));
  };
  /** @type {(which: string, share: number) => void} */
  const set = (which, share) => {
    shares[which] = Math.max(LEAST, Math.min(MOST, share));
    main.style.setProperty(KINDS[which].property, KINDS[which].style(shares[which]));
  };
  const move = (/** @type {number} */ share) => {
    set(kind(), share);
    turn();
    keep(KINDS[kind()].name, String(shares[kind()]));
  };
  for (const [which, { name, begin }] of Object.entries(KINDS)) set(which, Number(kept(name)) || begin);
  turn();
  // Where the pointer is, as a share of what the two divide; beside each other the strip of state
  // counts with the picture.
  const share = (/** @type {PointerEvent} */ event) => {
    const box = main.getBoundingClientRect(),
      over = picture.getBoundingClientRect(),
      under = code.getBoundingClientRect();
    if (kind() === 'beside') return (event.clientX - box.left) / box.width;
    const between = node.getBoundingClientRect().top - over.bottom;
    return (event.clientY - over.top - between) / (over.height + under.height);
  };
  node.onpointerdown = (/** @type {PointerEvent} */ event) => {
    node.setPointerCapture(event.pointerId);
    node.onpointermove = (/** @type {PointerEvent} */ moved) => move(100 * share(moved));
  };
  node.onpointerup = node.onpointercancel = () => {
    node.onpointermove = null;
  };
  node.onkeydown = (/** @type {KeyboardEvent} */ event) => {
    const by = KINDS[kind()].keys[event.key];
    if (!by) return;
    move(shares[kind()] + by);
    event.preventDefault();
    event.stopPropagation();
  };
  // turn: the stage has one side, or two.
  return { node, turn, unmount: listen(narrow, 'change', turn) };
}
