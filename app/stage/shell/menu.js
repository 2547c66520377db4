// A button that opens a list of things to do. entries: [{label, title, onClick, stays}] or [{row:
// [entries], label}]. label: a text, or () => text, asked anew when the list opens and after a
// press; stays: the list stays open. What onClick returns, if it is a text, is said in the label's
// place until the list opens again.
import { button, element } from '../core/paint.js';

export function makeMenu(name, title, entries) {
  const list = element('div', {
    class: 'menu',
    popover: 'auto',
    role: 'group',
    'aria-label': title,
  });
  const made = []; // [button or text, its label as a function]
  const one = ({ label, title: said, onClick, stays }) => {
    const press = button(
      '',
      async () => {
        if (!stays) list.hidePopover();
        const outcome = await onClick();
        relabel();
        if (typeof outcome === 'string') press.textContent = outcome;
      },
      { title: said },
    );
    made.push([press, label]);
    return press;
  };
  const several = ({ row, label }) => {
    const text = element('span');
    made.push([text, label]);
    return element('div', { class: 'several', role: 'group' }, text, ...row.map(one));
  };
  const relabel = () =>
    made.forEach(([node, label]) => {
      node.textContent = typeof label === 'function' ? label() : label;
    });
  list.append(...entries.map(entry => (entry.row ? several(entry) : one(entry))));
  const opens = element(
    'button',
    {
      type: 'button',
      class: 'opens-menu',
      'aria-haspopup': 'true',
      'aria-expanded': 'false',
      title,
    },
    name,
  );
  opens.popoverTargetElement = list;
  list.ontoggle = ({ newState }) => {
    opens.setAttribute('aria-expanded', String(newState === 'open'));
    if (newState !== 'open') return;
    relabel();
    const { right, bottom } = opens.getBoundingClientRect();
    list.style.left = `${Math.max(4, Math.min(right - list.offsetWidth, innerWidth - list.offsetWidth - 4))}px`;
    list.style.top = `${Math.max(4, Math.min(bottom + 4, innerHeight - list.offsetHeight - 4))}px`;
    list.querySelector('button').focus();
  };
  relabel();
  return element('div', { class: 'with-menu' }, opens, list);
}
