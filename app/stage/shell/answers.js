// An answer to a question, in words: whether it is right, and what the card says to it.
import { matches } from '../core/covers.js';

const nice = (/** @type {number} */ value) =>
  value.toLocaleString('en', Number.isInteger(value) ? {} : { maximumSignificantDigits: 4 });

// A count must be met. A measured value has a tolerance, relative to it.
/** @param {any} guess @param {story.Question} question */
export function isRight(guess, { kind, answer, tolerance }) {
  if (kind === 'click') return matches(guess, answer);
  if (kind === 'number') return Math.abs(guess - answer) <= tolerance * Math.abs(answer);
  return guess === answer;
}

// An answer in words: the option, the number with its unit, or the names of the clicked thing.
/** @param {story.Question} question @param {any} value */
export function worded({ kind, options, unit }, value) {
  if (kind === 'options') return inSentence(options[value]);
  if (kind === 'number') return `${nice(value)} ${value === 1 ? unit.replace(/s$/, '') : unit}`.trim();
  return Object.entries(value)
    .map(([name, part]) => `${name} ${typeof part === 'number' ? nice(part) : part}`)
    .join(', ');
}

// What the card says at the end: pairs of a bold text and a plain one. guess: null for Show me. The reason against an
// option is at the option.
/** @param {story.Question} question @param {any} guess @returns {[string, string][]} */
export function told(question, guess) {
  const { kind, answer, why } = question,
    right = guess !== null && isRight(guess, question),
    said = kind === 'click' ? '' : worded(question, answer); // a click's why names it
  const bold = said ? named(right ? 'Right' : 'The answer', said) : right ? 'Right.' : '',
    missing = guess === null || right || kind === 'options';
  return [...(missing ? [] : [missed(question, guess)]), [bold, why]];
}

// Why a number or a thing is wrong.
/** @param {story.Question} question @param {any} guess @returns {[string, string]} */
export const missed = (question, guess) => [
  `Not ${worded(question, guess)}.`,
  howFar(question, guess) || (question.hint ?? ''),
];

// An answer with a colon of its own is a sentence of its own.
const named = (/** @type {string} */ name, /** @type {string} */ said) =>
  said.includes(':') ? `${name}. ${said[0].toUpperCase()}${said.slice(1)}.` : `${name}: ${said}.`;

// Only an amount has a size: a name or a page's number has none.
/** @param {story.Question} question @param {number} guess */
function howFar({ kind, unit, answer }, guess) {
  if (kind !== 'number' || !unit || !(guess > 0 && answer > 0)) return '';
  const [more, times] = guess > answer ? ['much', guess / answer] : ['little', answer / guess];
  return times < 1.5
    ? ''
    : `That is ${nice(times < 10 ? +times.toPrecision(2) : Math.round(times))} times too ${more}.`;
}

// The first word of an option is lower inside a sentence, unless it is a name.
const inSentence = (/** @type {string} */ text) => {
  const said = text.replace(/\.$/, '');
  return /^(A|[A-Z][a-z]+)(?=$|[\s,.:])/.test(said) ? said[0].toLowerCase() + said.slice(1) : said;
};
