// A question in the card: its text, the ways to answer, and what the card says to an answer.
import { button, element } from '../core/paint.js';
import { told } from './answers.js';

const SHORT = 18; // characters: shorter options stand in two columns
const CLICK = 'Click it in the picture, or reach it with Alt and the arrow keys and press Enter.';

// onAnswer: of an option's place or a number. A click in the picture comes from the picture.
/** @param {(guess: number) => void} onAnswer */
export function makeAsk(onAnswer) {
  const node = element('div', { class: 'ask' }),
    said = element('div', { class: 'answer', role: 'status', 'aria-live': 'polite' });

  const choices = (/** @type {string[]} */ texts) => {
    const made = texts.map((text, n) =>
      button(
        text,
        () => {
          made.forEach((one, at) => one.setAttribute('aria-pressed', String(at === n)));
          onAnswer(n);
        },
        { class: 'option', 'data-option': n, 'aria-pressed': 'false' },
      ),
    );
    const layout = texts.every(text => text.length <= SHORT) ? 'options short' : 'options';
    return element('div', { class: layout, role: 'group', 'aria-label': 'Answers' }, ...made);
  };
  const field = (/** @type {story.Question} */ { unit, tolerance }) => {
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
    form.onsubmit = (/** @type {Event} */ event) => {
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
    /** @param {story.Question | null} question */
    draw(question, place = '') {
      said.replaceChildren();
      said.className = 'answer';
      node.replaceChildren();
      if (!question) return;
      const { kind, text, options } = question;
      node.append(
        element('p', { class: 'of' }, place),
        element('p', { class: 'question' }, text),
        kind === 'options'
          ? choices(options)
          : kind === 'number'
            ? field(question)
            : element('p', { class: 'hint' }, CLICK),
      );
    },
    // What the run says to a guess, or to Show me (null). right: of the guess, or null.
    /** @param {story.Question} question @param {any} guess @param {boolean | null} right */
    tell(question, guess, right) {
      said.className = `answer ${right === null ? '' : right ? 'right' : 'off'}`;
      said.replaceChildren(
        ...told(question, guess).map(([bold, text]) =>
          element('p', {}, ...(bold ? [element('b', {}, bold), ' '] : []), text),
        ),
      );
      for (const one of node.querySelectorAll('.option'))
        one.classList.toggle('true', Number(one.dataset.option) === question.answer);
    },
    note(/** @type {string} */ text) {
      said.className = 'answer';
      said.replaceChildren(element('p', {}, text));
    },
    // No more answers, or answers again.
    lock(/** @type {boolean} */ yes) {
      for (const one of node.querySelectorAll('.option, input, [type=submit]')) one.disabled = yes;
    },
  };
}
