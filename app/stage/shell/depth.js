// The two depths of a page. Guided shows the picture, the sentence and few controls; Everything
// shows all of them. The browser remembers the choice, and a link carries it.
import { button } from '../core/paint.js';
import { DEEP_TABS } from '../core/tabs.js';
import { browser } from './storage.js';

const KEPT = 'warpglass-depth'; // in localStorage
const DEEP = 'everything',
  NAME = 'depth'; // of the parameter of a link

// What an address says of the depth, and its choices without it.
const said = () => new URLSearchParams(location.search).get(NAME);
/** @type {(params: Texts) => Texts} */
export const withoutDepth = ({ [NAME]: _, ...params }) => params;

// root: has data-depth, which the styles read; changed: is called after each change.
/** @param {HTMLElement} root @param {() => void} changed */
export function makeDepth(root, changed) {
  let depth = '';
  const toggle = () => {
    set(depth === DEEP ? 'guided' : DEEP);
    browser.write(KEPT, depth);
  };
  const opener = button('', toggle, {
    class: 'depth-button quiet',
    title: 'Code, numbers of the step, settings and details, or the picture only (d)',
  });
  let offers = 'code';
  const name = () => {
    opener.textContent = `${depth === DEEP ? 'Hide' : 'Show'} ${offers}`;
  };
  const set = (/** @type {string} */ wanted) => {
    if (wanted === depth) return;
    root.dataset.depth = depth = wanted;
    name();
    changed();
  };
  const kept = () => (browser.read(KEPT) === DEEP ? DEEP : 'guided');
  return {
    get deep() {
      return depth === DEEP;
    },
    // The parameter that a link needs, or nothing.
    get asked() {
      return depth === DEEP ? `${NAME}=${DEEP}` : '';
    },
    // At the address of a story: its own depth, or the depth that shows its tab.
    arrive(/** @type {Texts} */ { tab, depth: named = said() ?? '' }) {
      const needed = DEEP_TABS.has(tab) ? DEEP : named;
      set(needed === DEEP || needed === 'guided' ? needed : depth || kept());
    },
    // What the button shows first: code, or details on a page without code.
    offer(/** @type {boolean} */ code) {
      offers = code ? 'code' : 'details';
      name();
    },
    toggle,
    opener,
  };
}
