// The widgets of the toolbar, one for each kind of choice (app/choices/described.py).
import { button, element } from '../core/paint.js';
import { opens } from './menu.js';
import { opener } from './opening.js';

const MANY = 4,
  // options up to here, with labels shorter than this, are a row of chips; others a chip that opens
  // their list
  LONG = 28;

/** @typedef {(name: string, value: string) => void} Change asks for another value of a choice */

// choice: with its `label` as it is read; why: the reason against its new value; narrow: a list, also if
// a row of chips would fit. base: the app's path below the host.
/** @param {any} choice @param {string | undefined} why @param {Change} change */
export function control(choice, why, change, narrow = false, base = '') {
  const { name, label, kind, value, options, help, disabled } = choice,
    refused = element('em', { class: 'refused', role: 'alert', hidden: !why }, why ?? '');
  const send = (/** @type {string} */ text) => {
    if (text !== value) change(name, text);
  };
  /** @type {(tag: 'div' | 'label', kind: string, more: object, ...parts: Node[]) => Element} */
  const around = (tag, kind, more, ...parts) =>
    element(
      tag,
      { class: `control ${kind}`, title: disabled || help || null, ...more },
      element('span', {}, label),
      ...parts,
      refused,
    );
  const group = { role: 'group', 'aria-label': label };
  if (kind === 'many') return around('div', 'chips many', group, ...several(choice, change));
  if (kind === 'file') return around('div', 'chips of-file', group, ...opener(choice, send, refused, base));
  if (kind === 'select') {
    const row =
      !narrow &&
      choice.group !== 'kernel' &&
      options.length <= MANY &&
      options.every((/** @type {any} */ o) => o.label.length < LONG);
    if (row) return around('div', 'chips', group, ...chips(choice, send, refused));
    return around('div', '', {}, ...list(choice, send));
  }
  /** @type {any} */ let input;
  if (kind === 'toggle') {
    input = element('input', { type: 'checkbox', checked: value === 'true' });
    input.onchange = () => send(String(input.checked));
  } else {
    const { low: min, high: max, whole } = choice,
      numeric = { type: 'number', min, max, step: whole ? 1 : 'any' },
      form = kind === 'number' ? numeric : { type: 'text', spellcheck: 'false' };
    input = element('input', { ...form, value });
    input.onchange = () => send(input.validity.badInput ? 'NaN' : input.value.trim());
  }
  input.dataset.name = name;
  input.disabled = !!disabled;
  return around('label', kind, {}, input);
}

// A chip that shows the present value and opens the list of all, each with what it means, or why it
// does not go with the others.
/** @param {any} choice @param {(text: string) => void} send @returns {Node[]} */
function list({ name, label, value, options, disabled }, send) {
  const chosen = options.find((/** @type {any} */ o) => o.value === value),
    now = chosen?.label ?? value;
  // where the focus goes as the list opens: at once, so that no key is lost
  const begin = chosen ?? options[0];
  const all = options.map((/** @type {any} */ o) =>
    element(
      'div',
      {
        role: 'option',
        tabindex: '-1',
        autofocus: o === begin ? '' : null,
        'aria-selected': String(o.value === value),
        'aria-disabled': o.why ? 'true' : null,
        'data-choice': `${name}=${o.value}`,
      },
      o.label,
      ...(o.why || o.help ? [element('small', {}, o.why || o.help)] : []),
    ),
  );
  const box = element('div', { class: 'list', role: 'listbox', 'aria-label': label, popover: 'auto' }, ...all);
  const chip = button('', null, {
    class: 'chip opens',
    'aria-haspopup': 'listbox',
    'aria-label': `${label}: ${now}`,
    disabled: !!disabled,
    'data-name': name,
  });
  chip.append(element('span', {}, now));

  chip.onkeydown = (/** @type {KeyboardEvent} */ event) => {
    if (MOVES[event.key]) {
      event.preventDefault();
      box.showPopover();
    }
  };
  const close = () => {
    box.hidePopover();
    chip.focus();
  };
  const take = (/** @type {number} */ at) => {
    if (at < 0 || options[at].why) return;
    close();
    send(options[at].value);
  };
  opens(chip, box);
  box.onclick = (/** @type {any} */ event) => take(all.indexOf(event.target.closest('[role=option]')));
  box.onkeydown = (/** @type {KeyboardEvent} */ event) => {
    const at = all.indexOf(event.target),
      last = all.length - 1,
      { key } = event;
    if (key === 'Tab') return box.hidePopover();
    if (key === 'Escape') close();
    else if (key === 'Enter' || key === ' ') take(at);
    else if (key === 'Home' || key === 'End') all[key === 'Home' ? 0 : last].focus();
    else if (MOVES[key]) all[Math.max(0, Math.min(last, at + MOVES[key]))].focus();
    else if (key.length === 1)
      [...all.slice(at + 1), ...all]
        .find((/** @type {HTMLElement} */ o) => o.textContent.toLowerCase().startsWith(key.toLowerCase()))
        ?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return [chip, box];
}
/** @type {Record<string, number>} */
const MOVES = { ArrowDown: 1, ArrowUp: -1 };

// An option that does not go with the other choices says why: by hover, and in `refused` when it is
// pressed.
/** @type {(choice: any, send: (text: string) => void, refused: any) => Node[]} */
const chips = ({ name, value, options, disabled }, send, refused) =>
  options.map((/** @type {any} */ o) => {
    const press = () => {
      if (!o.why) return send(o.value);
      refused.textContent = o.why;
      refused.hidden = false;
    };
    return button(o.label, press, {
      class: 'chip',
      'aria-pressed': String(o.value === value),
      disabled: !!disabled,
      'aria-disabled': o.why ? 'true' : null,
      title: o.why || o.help || null,
      'data-name': o.value === value ? name : null,
      'data-choice': `${name}=${o.value}`,
    });
  });

// A choice of several: each option says whether it is on, and what the choice is once it is pressed.
/** @type {(choice: any, change: Change) => Node[]} */
const several = ({ name, options, disabled }, change) =>
  options.map((/** @type {any} */ o) =>
    button(o.label, () => change(name, o.to), {
      class: 'chip',
      'aria-pressed': String(o.on),
      disabled: !!(o.why || disabled),
      title: o.why || (o.on ? 'Press to leave it out' : 'Press to take it in'),
      'data-choice': `${name}=${o.value}`,
    }),
  );
