// The keys of a stage in one table, and the one place that hears them and those of the host.

const digits = Object.fromEntries([1, 2, 3, 4, 5, 6, 7, 8, 9].map(n => [n, 'picture']));

// press: what the browser calls a key, with Shift+ where it counts -> the action.
/** @type {import('./host.js').KeyRow[]} */
export const STEP_KEYS = [
  { keys: 'Left, Right', does: 'a step', press: { ArrowLeft: 'previous', ArrowRight: 'next' } },
  {
    keys: 'Shift+Left, Shift+Right',
    does: 'a tile (an access, an event)',
    press: { 'Shift+ArrowLeft': 'previousTile', 'Shift+ArrowRight': 'nextTile' },
  },
  { keys: 'Home, End', does: 'the first, the last step', press: { Home: 'first', End: 'last' } },
  {
    keys: 'Page Up, Page Down',
    does: 'a step, as clickers send it; in a sequence on to the next moment',
    press: { PageUp: 'back', PageDown: 'onward' },
  },
  { keys: 'Space', does: 'plays and pauses', press: { ' ': 'play' } },
  { keys: 's, f', does: 'plays slower, faster', press: { s: 'slower', f: 'faster' } },
  { keys: 'l', does: 'plays the present tile again and again', press: { l: 'loop' } },
  {
    keys: 'n',
    does: 'play pauses at the next mark: a rise of m, a conflict, a wrong step',
    press: { n: 'pauseAt' },
  },
  { keys: '1 to 9', does: 'another picture', press: digits },
  { keys: 'Alt+arrows, Enter', does: 'in a picture: to the next thing, pin its value', press: {} },
];

const TYPING = [
  'textarea,select,[contenteditable=true],input:not([type=checkbox],[type=range])',
  '[role=combobox],[role=listbox],[role=option],[role=radio],[role=separator]',
].join(',');
const SLIDES = '[type=range]:not(#warpglass-clock),[role=slider]';
const SCROLLS = '.code, .drawer, .more, .start, .scroll, .guide'; // Page Up and Page Down are theirs

/**
 * Whether a key is the focused element's own. What a hand has dragged (data-held) moves up and down only: the others
 * step, also a clicker's.
 */
function keeps(/** @type {any} */ target, /** @type {string} */ key) {
  if (target.id === 'warpglass-clock' || !target.matches) return false;
  if (target.matches(TYPING)) return true;
  if (!target.matches(SLIDES)) return false;
  return 'held' in target.dataset ? /^Arrow(Up|Down)/.test(key) : /^(Arrow|Page|Home|End)/.test(key);
}

/**
 * @param {object} given
 * @param {HTMLElement} given.root the stage's element
 * @param {import('./host.js').KeyRow[]} given.rows of all keys
 * @param {Record<string, (event: any) => any>} given.actions by name; false: left to the browser
 * @param {() => boolean} [given.clicking] as HostKeys
 * @param {(name: string) => boolean} [given.blocked]
 * @returns {() => void} what ends it
 */
export function hearKeys({ root, rows, actions, clicking = () => false, blocked = () => false }) {
  const presses = Object.assign({}, ...rows.map(row => row.press));
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    const { ctrlKey, metaKey, altKey, shiftKey, key } = event;
    if (ctrlKey || metaKey || altKey || event.defaultPrevented || !root.isConnected) return;
    const target = /** @type {any} */ (event.composedPath()[0]);
    const name = presses[`${shiftKey ? 'Shift+' : ''}${key}`] ?? presses[key.length === 1 ? key.toLowerCase() : key];
    if (!name || blocked(name) || keeps(target, key)) return;
    if (key === ' ' && target.closest?.('button:not([data-plays]),a,summary,[type=checkbox]')) return; // a button is pressed
    if (/^[-+=0]$/.test(key) && target.closest?.('[data-zooms]')) return; // a picture zooms
    if (/^Page/.test(key) && !clicking() && target.closest?.(SCROLLS)) return;
    if (actions[name]?.(event) === false) return;
    event.preventDefault();
    event.stopPropagation();
  };
  const onPointer = (/** @type {PointerEvent} */ event) => {
    const slider = /** @type {any} */ (event.composedPath()[0]);
    if (!slider.matches?.(SLIDES)) return;
    slider.dataset.held = '';
    slider.addEventListener('blur', () => delete slider.dataset.held, { once: true });
  };
  document.addEventListener('keydown', onKey, true);
  document.addEventListener('pointerdown', onPointer, true);
  return () => {
    document.removeEventListener('keydown', onKey, true);
    document.removeEventListener('pointerdown', onPointer, true);
  };
}
