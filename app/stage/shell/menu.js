// A button that opens a list of things to do.
import { button, element } from '../core/paint.js';

/**
 * label: a function is asked anew when the list opens and after a press.
 * stays: the list stays open.
 * onClick: if it returns a text, this text stands in the label's place until the list opens again.
 * row: entries side by side, after the label.
 * front: also a button of the header (header.js).
 * @typedef {{label: string | (() => string), title?: string, onClick?: () => any, stays?: boolean,
 *   front?: boolean, row?: Entry[]}} Entry
 */

/** @param {string} name @param {string} title @param {Entry[]} entries */
export function makeMenu(name, title, entries) {
  const list = element('div', {
    class: 'menu',
    popover: 'auto',
    role: 'group',
    'aria-label': title,
  });
  /** @type {[Element, Entry['label']][]} */ const made = []; // each button or text, and its label
  const one = (/** @type {Entry} */ { label, title, onClick, stays }) => {
    const press = button(
      '',
      async () => {
        if (!stays) list.hidePopover();
        const outcome = await onClick?.();
        relabel();
        if (typeof outcome === 'string') press.textContent = outcome;
      },
      { title },
    );
    made.push([press, label]);
    return press;
  };
  const relabel = () =>
    made.forEach(([node, label]) => {
      node.textContent = typeof label === 'function' ? label() : label;
    });
  for (const entry of entries) {
    if (entry.row) {
      const text = element('span');
      made.push([text, entry.label]);
      list.append(element('div', { class: 'several', role: 'group' }, text, ...entry.row.map(one)));
    } else list.append(one(entry));
  }
  const opener = button(name, null, { class: 'opens-menu', 'aria-haspopup': 'true', title });
  const onOpen = () => {
    relabel();
    list.querySelector('button').focus();
  };
  opens(opener, list, { onOpen, end: 'right' });
  relabel();
  return element('div', { class: 'with-menu' }, opener, list);
}

// A press of the opener opens the popover `list` under it, within the window, with both at their left or
// right end.
/** @param {any} opener @param {any} list @param {{onOpen?: () => void, end?: 'left' | 'right'}} [more] */
export function opens(opener, list, { onOpen = () => {}, end = 'left' } = {}) {
  opener.popoverTargetElement = list;
  opener.setAttribute('aria-expanded', 'false');
  list.ontoggle = (/** @type {ToggleEvent} */ { newState }) => {
    opener.setAttribute('aria-expanded', String(newState === 'open'));
    if (newState !== 'open') return;
    onOpen();
    const { left, right, bottom } = opener.getBoundingClientRect(),
      start = end === 'left' ? left : right - list.offsetWidth;
    list.style.left = `${Math.max(4, Math.min(start, innerWidth - list.offsetWidth - 4))}px`;
    list.style.top = `${Math.max(4, Math.min(bottom + 4, innerHeight - list.offsetHeight - 4))}px`;
  };
}
