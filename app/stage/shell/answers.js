// An answer to a question, in words: whether it is right, and what the card says to it.
import { matches } from '../core/covers.js';

const nice = value =>
  value.toLocaleString('en', Number.isInteger(value) ? {} : { maximumSignificantDigits: 4 });
const unit = ({ unit: said }, value) =>
  said ? ` ${value === 1 ? said.replace(/s$/, '') : said}` : '';

// A count must be met. A measured value has a tolerance, relative to it.
export const isClose = (guess, { answer, tolerance }) =>
  Math.abs(guess - answer) <= tolerance * Math.abs(answer);

export function isRight(guess, question) {
  const { kind, answer } = question;
  if (kind === 'click') return matches(guess, answer);
  return kind === 'number' ? isClose(guess, question) : guess === answer;
}

// An answer in words: the option, the number with its unit, or the names of the clicked thing.
export function worded(question, value) {
  if (question.kind === 'options') return inSentence(question.options[value]);
  if (question.kind === 'number') return nice(value) + unit(question, value);
  return Object.entries(value)
    .map(([name, part]) => `${name} ${typeof part === 'number' ? nice(part) : part}`)
    .join(', ');
}

// What the card says: pairs of a bold text and a plain one. guess: null for Show me.
export function told(question, guess) {
  const { kind, answer, why, reasons = [] } = question,
    right = kind === 'click' ? '' : rightly(worded(question, answer)); // a click's why names it
  if (guess === null) return [[right, why]];
  if (isRight(guess, question)) return [[right || 'Right.', why]];
  const said = worded(question, guess),
    reason = kind === 'options' ? (reasons[guess] ?? '') : howFar(question, guess);
  return [
    [`Not ${kind === 'options' ? `\u201c${said}\u201d` : said}.`, reason],
    [right, why],
  ];
}

// An answer with a colon of its own is a sentence of its own.
const rightly = said =>
  said.includes(':') ? `Right. ${said[0].toUpperCase()}${said.slice(1)}.` : `Right: ${said}.`;

// Only an amount has a size: a name or a page's number has none.
function howFar({ kind, unit: said, answer }, guess) {
  if (kind !== 'number' || !said || !(guess > 0 && answer > 0)) return '';
  const [more, times] = guess > answer ? ['much', guess / answer] : ['little', answer / guess];
  return times < 1.5
    ? ''
    : `That is ${nice(times < 10 ? +times.toPrecision(2) : Math.round(times))} times too ${more}.`;
}

// The first word of an option is lower inside a sentence, unless it is a name.
const inSentence = text => {
  const said = text.replace(/\.$/, '');
  return /^(A|[A-Z][a-z]+)(?=$|[\s,.:])/.test(said) ? said[0].toLowerCase() + said.slice(1) : said;
};
