// The keys of the app next to those of the stage, and the dialog that lists all of them. The words
// of the list are on the start page and in the README too (tests/browser/test_present.py compares
// them).
import { STEP_KEYS } from '../core/keys.js';
import { button, element } from '../core/paint.js';

// Streamlit owns r, c and Esc: Esc is listed for what the guide and "More" do themselves.
/** @type {import('../core/host.js').KeyRow[]} */
export const APP_KEYS = [
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
  { keys: 'd', does: 'shows everything, or less', press: { d: 'depth' } },
  { keys: 't', does: 'theme: as the system, light, dark', press: { t: 'theme' } },
  {
    keys: '+, -, 0',
    does: 'larger, smaller, usual type',
    press: { '+': 'larger', '=': 'larger', '-': 'smaller', 0: 'usual' },
  },
  { keys: '/', does: 'searches pages, terms, kernels and settings', press: { '/': 'search' } },
  { keys: '?', does: 'lists the keys', press: { '?': 'keys' } },
  { keys: 'Esc', does: 'closes the guide, "More" or this list', press: {} },
];

// All keys as a list of terms.
export const keyList = () =>
  element(
    'dl',
    { class: 'keys' },
    ...[...STEP_KEYS, ...APP_KEYS].flatMap(({ keys, does }) => [element('dt', {}, keys), element('dd', {}, does)]),
  );

// The dialog with the list, in `root`. toggle: opens or closes it.
/** @param {HTMLElement} root */
export function makeKeyDialog(root) {
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
  return {
    get open() {
      return list.open;
    },
    toggle() {
      if (list.open) return list.close();
      list.showModal(); // which keeps the focus within, and gives it back
      list.querySelector('button').focus();
    },
    unmount: () => list.remove(),
  };
}
