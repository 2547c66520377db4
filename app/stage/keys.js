// Every key of the page in one table, the one place that hears them, and the dialog that lists
// them. The table's words stand on the start page and in the README too
// (tests/browser/test_present.py compares them).
import { button, element } from './paint.js';

const digits = Object.fromEntries([1, 2, 3, 4, 5, 6, 7, 8, 9].map(n => [n, 'picture']));

// press: what the browser calls a key, with Shift+ where it counts -> the action. Streamlit owns r,
// c and Esc: Esc stands here for what the guide and "More" do themselves.
export const KEYS = [
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
  {
    keys: 'p',
    does: 'presents: picture, sentence and code alone, in large type; p again leaves',
    press: { p: 'present' },
  },
  {
    keys: 'b or .',
    does: 'while presenting: a black screen; any key ends it',
    press: { b: 'blank', '.': 'blank' },
  },
  { keys: 'g', does: 'opens and closes the guide', press: { g: 'guide' } },
  { keys: 't', does: 'theme: as the system, light, dark', press: { t: 'theme' } },
  {
    keys: '+, -, 0',
    does: 'larger, smaller, usual type',
    press: { '+': 'larger', '=': 'larger', '-': 'smaller', 0: 'usual' },
  },
  { keys: '?', does: 'lists the keys', press: { '?': 'keys' } },
  { keys: 'Esc', does: 'closes the guide, "More" or this list', press: {} },
];
const PRESS = Object.assign({}, ...KEYS.map(row => row.press));

const TYPING =
  'input,textarea,select,[contenteditable=true],[role=combobox],[role=slider],[role=listbox],[role=option],[role=radio],[role=separator]';
// Page Up and Page Down are theirs
const SCROLLS = '.code, .drawer, .more, .start, .scroll, .guide';

// The table as a list of terms.
export const keyList = () =>
  element(
    'dl',
    { class: 'keys' },
    ...KEYS.flatMap(({ keys, does }) => [element('dt', {}, keys), element('dd', {}, does)]),
  );

// root: holds the dialog; actions: name -> what a press does: (event) => false where it is not for
// us just now, and is left to the browser. clicking(): a clicker's keys are never a pane's. Returns
// {dialog(), unmount}: dialog opens the list, or closes it.
export function makeKeys({ root, actions, clicking }) {
  const list = element(
    'dialog',
    { class: 'all-keys', 'aria-label': 'Keys' },
    element(
      'div',
      { class: 'row' },
      element('h2', {}, 'Keys'),
      button('Close', () => list.close(), { class: 'close-keys' }),
    ),
    keyList(),
  );
  root.append(list);
  const dialog = () => {
    if (list.open) return list.close();
    list.showModal(); // which keeps the focus within, and gives it back
    list.querySelector('button').focus();
  };
  const every = { ...actions, keys: dialog };
  const nameOf = event =>
    PRESS[`${event.shiftKey ? 'Shift+' : ''}${event.key}`] ??
    PRESS[event.key.length === 1 ? event.key.toLowerCase() : event.key];

  const onKey = event => {
    if (
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      event.defaultPrevented ||
      !root.isConnected
    )
      return;
    const target = event.composedPath()[0],
      name = nameOf(event),
      range = target.id === 'warpglass-clock';
    if (!name || (list.open && name !== 'keys') || (!range && target.matches?.(TYPING))) return;
    // a focused button is pressed
    if (event.key === ' ' && target.closest?.('button,a,summary')) return;
    // a picture that zooms has these
    if (/^[-+=0]$/.test(event.key) && target.closest?.('[data-zooms]')) return;
    if (/^Page/.test(event.key) && !clicking() && target.closest?.(SCROLLS)) return;
    if (every[name]?.(event) === false) return;
    event.preventDefault();
    event.stopPropagation();
  };
  document.addEventListener('keydown', onKey, true);
  return {
    dialog,
    unmount() {
      document.removeEventListener('keydown', onKey, true);
      list.remove();
    },
  };
}
