// A question in the card: its text, the ways to answer, and what the card says to an answer.
import { button, element } from '../core/paint.js';
import { told } from './answers.js';

const SHORT = 18; // characters: shorter options stand in two columns
const CLICK = 'Click it in the picture, or reach it with Alt and the arrow keys and press Enter.';

// onAnswer(guess): an option's place or a number. A click in the picture comes from the picture.
export function makeAsk(onAnswer) {
  const node = element('div', { class: 'ask' }),
    said = element('div', { class: 'answer', role: 'status', 'aria-live': 'polite' });
  const options = () => [...node.querySelectorAll('.option')];
  const press = pressed =>
    options().forEach(one => one.setAttribute('aria-pressed', String(one === pressed)));
  const control = question =>
    question.kind === 'options'
      ? choices(question)
      : question.kind === 'number'
        ? field(question)
        : element('p', { class: 'hint' }, CLICK);
  const choices = ({ options: texts }) =>
    element(
      'div',
      {
        class: texts.every(text => text.length <= SHORT) ? 'options short' : 'options',
        role: 'group',
        'aria-label': 'Answers',
      },
      ...texts.map((text, n) =>
        button(
          text,
          ({ currentTarget }) => {
            press(currentTarget);
            onAnswer(n);
          },
          { class: 'option', 'data-option': n, 'aria-pressed': 'false' },
        ),
      ),
    );
  const field = ({ unit, tolerance }) => {
    const input = element('input', {
        type: 'number',
        step: 'any',
        'aria-label': 'Your answer',
        inputmode: 'decimal',
      }),
      near = tolerance ? `to within ${100 * tolerance} %` : '';
    const form = element(
      'form',
      { class: 'number' },
      input,
      element('span', {}, [unit, near].filter(Boolean).join(', ')),
      element('button', { type: 'submit' }, 'Answer'),
    );
    form.onsubmit = event => {
      event.preventDefault();
      const guess = input.valueAsNumber;
      if (Number.isFinite(guess)) onAnswer(guess);
    };
    return form;
  };

  return {
    node,
    said,
    // place: 'Question 1 of 2'. A null question clears the card.
    draw(question, place = '') {
      said.replaceChildren();
      said.className = 'answer';
      node.replaceChildren();
      if (question)
        node.append(
          element('p', { class: 'of' }, place),
          element('p', { class: 'question' }, question.text),
          control(question),
        );
    },
    // What the run says to a guess, or to Show me (null). right: of the guess, or null.
    tell(question, guess, right) {
      said.className = `answer ${right === null ? '' : right ? 'right' : 'off'}`;
      said.replaceChildren(
        ...told(question, guess).map(([bold, text]) =>
          element('p', {}, ...(bold ? [element('b', {}, bold), ' '] : []), text),
        ),
      );
      if (question.kind === 'options')
        options().forEach((one, n) => one.classList.toggle('true', n === question.answer));
    },
    note(text) {
      said.className = 'answer';
      said.replaceChildren(element('p', {}, text));
    },
    // No more answers, or answers again.
    lock(yes) {
      for (const one of node.querySelectorAll('.option, input, [type=submit]')) one.disabled = yes;
    },
  };
}
