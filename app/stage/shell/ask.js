// A question in the card: its text, the ways to answer, and what the card says to an answer.
import { makeOptions } from '../core/options.js';
import { element } from '../core/paint.js';
import { missed, told } from './answers.js';

const CLICK = 'Click it in the picture, or reach it with Alt and the arrow keys and press Enter.';

// onAnswer: of an option's place or a number. A click in the picture comes from the picture.
/** @param {(guess: number) => void} onAnswer */
export function makeAsk(onAnswer) {
  const node = element('div', { class: 'ask' }),
    said = element('div', { class: 'answer', role: 'status', 'aria-live': 'polite' });
  /** @type {ReturnType<typeof makeOptions> | null} */ let options = null;
  const more = (/** @type {boolean} */ seen) => (seen ? 'Try once more.' : 'Try once more, or press Show me.');

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

  const say = (/** @type {string} */ tone, /** @type {[string, string][]} */ parts) => {
    said.className = `answer ${tone}`;
    said.replaceChildren(
      ...parts.map(([bold, text]) => element('p', {}, ...(bold ? [element('b', {}, bold), ' '] : []), text)),
    );
  };

  return {
    node,
    said,
    // The nth of `all` questions. A null question clears the card.
    /** @param {story.Question | null} question */
    draw(question, nth = 1, all = 1) {
      said.replaceChildren();
      said.className = 'answer';
      node.replaceChildren();
      options = null;
      if (!question) return;
      const { kind, text } = question;
      if (kind === 'options') options = makeOptions(question.options, onAnswer);
      node.append(
        element(
          'p',
          { class: 'of', role: 'img', 'aria-label': `Question ${nth} of ${all}`, title: `Question ${nth} of ${all}` },
          '\u25cf'.repeat(nth) + '\u25cb'.repeat(all - nth),
        ),
        element('p', { class: 'question' }, text),
        options?.node ?? (kind === 'number' ? field(question) : element('p', { class: 'hint' }, CLICK)),
      );
    },
    // A first wrong guess: why it is wrong, and not what is right. seen: the picture has shown the answer.
    /** @param {story.Question} question @param {any} guess @param {boolean} seen */
    retry(question, guess, seen) {
      options?.cross(guess, question.reasons?.[guess] ?? '');
      say('off', [...(options ? [] : [missed(question, guess)]), ['', more(seen)]]);
    },
    // The reader has stepped since a first wrong guess.
    /** @param {boolean} seen */
    step(seen) {
      if (said.lastChild) said.lastChild.textContent = more(seen);
    },
    // What the run says to a guess, or to Show me (null). right: of the guess, or null.
    /** @param {story.Question} question @param {any} guess @param {boolean | null} right */
    tell(question, guess, right) {
      if (right === false) options?.cross(guess, question.reasons?.[guess] ?? '');
      options?.tick(question.answer);
      say(right === null ? '' : right ? 'right' : 'off', told(question, guess));
    },
    note(/** @type {string} */ text) {
      say('', [['', text]]);
    },
    // No more answers, or answers again.
    lock(/** @type {boolean} */ yes) {
      options?.lock(yes);
      for (const one of node.querySelectorAll('input, [type=submit]')) one.disabled = yes;
    },
  };
}
