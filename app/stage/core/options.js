// The options of a question, as buttons. A wrong one gets a cross, and under it the reason against it. The right one
// gets a tick. Up and Down lead from one to the next.
import { button, element } from './paint.js';

const SHORT = 18; // characters: shorter options stand in two columns

/**
 * @param {string[]} texts
 * @param {(n: number) => void} onChoose of an option's place
 */
export function makeOptions(texts, onChoose) {
  const buttons = texts.map((text, n) =>
    button(
      text,
      () => {
        if (buttons[n].ariaDisabled) return;
        press(n);
        onChoose(n);
      },
      { class: 'option', 'data-option': n, 'aria-pressed': 'false' },
    ),
  );
  const reasons = texts.map(() => element('p', { class: 'reason', role: 'status' })),
    layout = texts.every(text => text.length <= SHORT) ? 'options short' : 'options';
  const node = element(
    'div',
    { class: layout, role: 'group', 'aria-label': 'Answers' },
    ...buttons.flatMap((one, n) => [one, reasons[n]]),
  );
  const press = (/** @type {number} */ n) =>
    buttons.forEach((one, at) => one.setAttribute('aria-pressed', String(at === n)));
  node.onkeydown = (/** @type {KeyboardEvent} */ event) => {
    const way = Number(event.key === 'ArrowDown') - Number(event.key === 'ArrowUp'),
      at = buttons.indexOf(event.target);
    if (!way || at < 0) return;
    event.preventDefault();
    buttons.at((at + way) % buttons.length)?.focus();
  };
  return {
    node,
    // A wrong option. It stays in sight, and is not chosen again.
    cross(/** @type {number} */ n, /** @type {string} */ reason) {
      buttons[n].classList.add('off');
      buttons[n].ariaDisabled = 'true';
      reasons[n].textContent = reason;
    },
    tick(/** @type {number} */ n) {
      buttons[n].classList.add('true');
    },
    lock(/** @type {boolean} */ yes) {
      for (const one of buttons) one.ariaDisabled = yes || one.matches('.off') ? 'true' : null;
    },
  };
}
