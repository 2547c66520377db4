// The closing picture of the course: a dot for the time of each kernel, on a scale of powers of ten.
// The pale line leads from the time of the kernel before.
import { element } from '../core/paint.js';

const LEAST = Math.log10(500); // microseconds: the left end of the scale
const WIDE = 98; // per cent of a row: the last dot is whole
/** @type {[number, string][]} */
const POWERS = [
  [3, '1 ms'],
  [4, '10 ms'],
  [5, '100 ms'],
];

/**
 * @param {{stop: string, label: string, kernel: string, us: number, said: string, times: string,
 *   bits: number, estimated: boolean}[]} steps
 * @param {string} said of all of them, in a sentence
 * @param {string} source
 * @param {(stop: string, label: string) => Node} leadTo
 */
export function journey(steps, said, source, leadTo) {
  if (!steps.length) return '';
  const most = Math.log10(steps[0].us) - LEAST,
    share = us => `${(WIDE * (Math.log10(us) - LEAST)) / most}%`;
  const row = ({ stop, label, kernel, us, said, times, bits, estimated }, n) => {
    const before = steps[n - 1],
      turned = before && before.bits !== bits;
    return element(
      'tr',
      { title: `${kernel}: ${said}`, 'data-kernel': kernel },
      element('th', { scope: 'row' }, leadTo(stop, label)),
      element(
        'td',
        { class: 'bar' },
        element('i', {
          class: 'was',
          style: `left:${share(us)};width:calc(${share(before?.us ?? us)} - ${share(us)})`,
        }),
        element('i', {
          class: `now${bits === 16 ? ' short' : ''}${estimated ? ' estimated' : ''}`,
          style: `left:${share(us)}`,
        }),
      ),
      element('td', {}, said),
      element('td', {}, times ? `${times} times faster` : '', turned ? `, with ${bits} bits` : ''),
    );
  };
  const scale = POWERS.map(([power, text]) =>
    element('span', { style: `left:${(WIDE * (power - LEAST)) / most}%` }, text),
  );
  return element(
    'section',
    { class: 'journey' },
    element('h3', {}, 'The whole way'),
    element('p', {}, said),
    element(
      'table',
      {},
      element('tbody', {}, ...steps.map(row)),
      element(
        'tfoot',
        {},
        element(
          'tr',
          {},
          element('td', {}),
          element('td', { class: 'scale' }, ...scale),
          element('td', { colspan: '2' }, 'each mark is ten times as long'),
        ),
      ),
    ),
    element(
      'p',
      { class: 'back' },
      `Dot: the time, on a log scale. Line: from the kernel before. Blue: inputs of 32 bits. ` +
        `Green: 16 bits. ${source}.`,
    ),
  );
}
