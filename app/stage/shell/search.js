// The search: pages and stops, terms, kernels and settings, in a dialog. The server lists them once
// (app/web/searching.py).
import { button, element } from '../core/paint.js';
import { find } from './finding.js';

/** @type {Record<string, number>} */
const MOVES = { ArrowDown: 1, ArrowUp: -1, PageDown: 5, PageUp: -5 };

/** @typedef {import('./finding.js').Entry} Entry */

/** @param {App} app */
export function makeSearch(app) {
  const field = element('input', {
    type: 'text',
    role: 'combobox',
    'aria-label': 'Search',
    'aria-controls': 'wg-found',
    'aria-expanded': 'true',
    'aria-autocomplete': 'list',
    placeholder: 'A page, a term, a kernel or a setting',
    spellcheck: 'false',
    autocomplete: 'off',
  });
  const found = element('div', { id: 'wg-found', role: 'listbox', 'aria-label': 'Results' }),
    said = element('p', { class: 'none', role: 'status' });
  const dialog = element(
    'dialog',
    { class: 'search', 'aria-label': 'Search' },
    element(
      'div',
      { class: 'row' },
      field,
      button('Close', () => dialog.close()),
    ),
    found,
    said,
  );
  app.root.append(dialog);
  /** @type {Entry[] | null} */ let all = null;
  /** @type {Entry[]} */ let shown = [];
  let at = 0;

  const mark = (/** @type {number} */ next) => {
    at = Math.max(0, Math.min(shown.length - 1, next));
    [...found.children].forEach((node, n) => node.setAttribute('aria-selected', String(n === at)));
    const node = found.children[at];
    if (node) field.setAttribute('aria-activedescendant', node.id);
    else field.removeAttribute('aria-activedescendant');
    node?.scrollIntoView({ block: 'nearest' });
  };
  const draw = () => {
    shown = find(all ?? [], field.value);
    const rows = shown.map(({ kind, title, said }, n) =>
      element(
        'div',
        { role: 'option', id: `wg-found-${n}`, 'aria-selected': 'false' },
        element('b', {}, title),
        element('i', {}, kind),
        element('small', {}, said),
      ),
    );
    found.replaceChildren(...rows);
    found.hidden = !shown.length;
    field.setAttribute('aria-expanded', String(!!shown.length));
    const empty = field.value.trim() ? 'Nothing is called so.' : 'Try tile, bank or paged_v1.';
    said.textContent = shown.length ? '' : all ? empty : 'Looking ...';
    mark(0);
  };
  const take = (/** @type {Entry | undefined} */ entry) => {
    if (!entry) return;
    dialog.close();
    app.goTo(entry);
  };
  field.oninput = draw;
  found.onclick = (/** @type {any} */ { target }) =>
    take(shown[[...found.children].indexOf(target.closest('[role=option]'))]);
  field.onkeydown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === 'Enter') take(shown[at]);
    else if (MOVES[event.key]) mark(at + MOVES[event.key]);
    else return;
    event.preventDefault();
  };
  const toggle = async () => {
    if (dialog.open) return dialog.close();
    field.value = '';
    dialog.showModal(); // which keeps the focus within, and gives it back
    field.focus();
    draw();
    try {
      all ??= await (await fetch(`${app.base}/wg/found`)).json();
      draw();
    } catch (error) {
      said.textContent = `The app does not answer: ${error.message}`;
    }
  };
  return {
    button: button('Search', toggle, {
      class: 'head-button search-button',
      title: 'Pages, terms, kernels and settings (/)',
    }),
    get open() {
      return dialog.open;
    },
    toggle,
    unmount: () => dialog.remove(),
  };
}
