// The widgets of the toolbar, one for each kind of choice (app/choices/described.py).
import { button, element } from '../core/paint.js';
import { opens } from './menu.js';

const MANY = 4,
  // options up to here, with labels shorter than this, are a row of chips; others a chip that opens
  // their list
  LONG = 28;

/** @typedef {(name: string, value: string) => void} Change asks for another value of a choice */

// choice: with its `label` as it is read; why: the reason against its new value; narrow: a list, also if
// a row of chips would fit.
/** @param {any} choice @param {string | undefined} why @param {Change} change */
export function control(choice, why, change, narrow = false) {
  const { name, label, kind, value, options, help } = choice,
    title = choice.disabled || help || null;
  const send = (/** @type {string} */ text) => {
    if (text !== value) change(name, text);
  };
  if (kind === 'many') return several(choice, why, change);
  if (kind === 'select') {
    const row =
      !narrow &&
      choice.group !== 'kernel' &&
      options.length <= MANY &&
      options.every((/** @type {any} */ o) => o.label.length < LONG);
    return row ? chips(choice, why, send) : list(choice, why, send);
  }
  /** @type {any} */ let made;
  if (kind === 'toggle') {
    made = element('input', { type: 'checkbox' });
    made.checked = value === 'true';
    made.onchange = () => send(String(made.checked));
  } else {
    made = element(
      'input',
      kind === 'number'
        ? {
            type: 'number',
            min: choice.low,
            max: choice.high,
            step: choice.whole ? 1 : 'any',
            value,
          }
        : { type: 'text', value, spellcheck: 'false' },
    );
    made.onchange = () => send(made.validity.badInput ? 'NaN' : made.value.trim());
  }
  made.dataset.name = name;
  made.disabled = !!choice.disabled;
  return element(
    'label',
    { class: `control ${kind}`, title },
    element('span', {}, label),
    made,
    ...refusal(why),
  );
}

// A chip that shows the present value and opens the list of all, each with what it means, or why it
// does not go with the others.
/** @param {any} choice @param {string | undefined} why @param {(text: string) => void} send */
function list({ name, label, value, options, help, disabled }, why, send) {
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
  const box = element(
    'div',
    { class: 'list', role: 'listbox', 'aria-label': label, popover: 'auto' },
    ...all,
  );
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
  box.onclick = (/** @type {any} */ event) =>
    take(all.indexOf(event.target.closest('[role=option]')));
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
        .find((/** @type {HTMLElement} */ o) =>
          o.textContent.toLowerCase().startsWith(key.toLowerCase()),
        )
        ?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return element(
    'div',
    { class: 'control', title: disabled || help || null },
    element('span', {}, label),
    chip,
    box,
    ...refusal(why),
  );
}
/** @type {Record<string, number>} */
const MOVES = { ArrowDown: 1, ArrowUp: -1 };

// An option that does not go with the other choices says why: by hover, and when it is pressed.
/** @param {any} choice @param {string | undefined} why @param {(text: string) => void} send */
function chips({ name, label, value, options, help, disabled }, why, send) {
  const said = element('em', { class: 'refused', role: 'alert', hidden: !why }, why ?? '');
  const press = (/** @type {any} */ o) => {
    if (o.why) {
      said.textContent = o.why;
      said.hidden = false;
    } else send(o.value);
  };
  const made = options.map((/** @type {any} */ o) =>
    button(o.label, () => press(o), {
      class: 'chip',
      'aria-pressed': String(o.value === value),
      disabled: !!disabled,
      'aria-disabled': o.why ? 'true' : null,
      title: o.why || o.help || null,
      'data-name': o.value === value ? name : null,
      'data-choice': `${name}=${o.value}`,
    }),
  );
  return element(
    'div',
    { class: 'control chips', role: 'group', 'aria-label': label, title: disabled || help || null },
    element('span', {}, label),
    ...made,
    said,
  );
}

// A choice of several: each option says whether it is on, and what the choice is once it is
// pressed.
/** @param {any} choice @param {string | undefined} why @param {Change} change */
function several({ name, label, options, help, disabled }, why, change) {
  const made = options.map((/** @type {any} */ o) =>
    button(o.label, () => change(name, o.to), {
      class: 'chip',
      'aria-pressed': String(o.on),
      disabled: !!(o.why || disabled),
      title: o.why || (o.on ? 'Press to leave it out' : 'Press to take it in'),
      'data-choice': `${name}=${o.value}`,
    }),
  );
  return element(
    'div',
    {
      class: 'control chips many',
      role: 'group',
      'aria-label': label,
      title: disabled || help || null,
    },
    element('span', {}, label),
    ...made,
    ...refusal(why),
  );
}

const refusal = (/** @type {string | undefined} */ why) =>
  why ? [element('em', { class: 'refused', role: 'alert' }, why)] : [];
