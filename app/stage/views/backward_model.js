// The backward as pictures: the tile in work, and the gradients that grow from tile to tile.
import { matrixImage, rgb, signed, spanOf, theme } from '../core/paint.js';

/**
 * The five products of a tile: what each makes and reads, and the axis that its sum runs over.
 * @type {{made: string, reads: [string, string], text: string, over: 'dim' | 'query' | 'key'}[]}
 */
export const PRODUCTS = [
  { made: 'S', reads: ['Q', 'K'], text: 'S = scale \u00b7 Q K\u1d40', over: 'dim' },
  { made: 'dP', reads: ['dO', 'V'], text: 'dP = dO V\u1d40', over: 'dim' },
  { made: 'dV', reads: ['P', 'dO'], text: 'dV += P\u1d40 dO', over: 'query' },
  { made: 'dK', reads: ['dS', 'Q'], text: 'dK += dS\u1d40 Q', over: 'query' },
  { made: 'dQ', reads: ['dS', 'K'], text: 'dQ += dS K', over: 'key' },
];
/** @type {typeof PRODUCTS[0]} a sum of products of numbers in the same place */
export const DELTA = { made: 'delta', reads: ['dO', 'O'], text: '', over: 'dim' };
// The tensor without a box: O has V's place while delta is made.
export const absentOf = frame => (frame.made.includes('delta') ? 'V' : 'O');
export const SQUARES = ['S', 'P', 'dP', 'dS'];
export const GROWING = ['dV', 'dK', 'dQ'];
const FORMULAS = {
  delta: 'delta = rowsum(dO * O)',
  P: 'P = exp(S - LSE)',
  dS: 'dS = P * (dP - delta)',
};
PRODUCTS.forEach(({ made, text }, i) => (FORMULAS[made] = `${i + 1}.  ${text}`));
/** @type {(part: string) => string} how a part is made, with the number of its product; or its name */
export const formulaOf = part => FORMULAS[part] ?? part;
/** @type {(formula: string) => string} the same where there is little room */
export const shortFormula = formula => formula.replace(/(\d\.) +/, '$1').replace(/ ?[*\u00b7] ?/g, '\u00b7');
/** @type {(part: string) => string} the colour's name of a part: a gradient has its tensor's */
export const tensorOf = part => part.replace(/^d(?=[A-Z])/, '');
/** @type {(part: string) => boolean} whether its rows are keys */
export const alongKeys = part => ['K', 'V', 'dK', 'dV'].includes(part);

/**
 * @param {Element} host
 * @param {any} meta explainers/stories/backward/frames.py BackwardMeta
 * @param {any} columns
 */
export function backwardModel(host, meta, columns) {
  const { n, keys, d, frames, states } = meta,
    last = frames.length - 1,
    frameAt = step => frames[Math.min(step, last)];
  // A state's first and last row, first and last column.
  const rectOf = (part, state) => states[part][state].slice(0, 4);
  const valueAt = (part, state, row, col) => {
    const [r0, r1, c0, c1, start] = states[part][state];
    return row < r0 || row > r1 || col < c0 || col > c1
      ? undefined
      : columns[part][start + (row - r0) * (c1 - c0 + 1) + col - c0];
  };
  const most = name => Math.max(1, ...frames.map(frame => (frame[name] ? frame[name][1] - frame[name][0] + 1 : 0)));
  // The frame whose tile a part shows pale: the next one with it in the launch, else in any launch.
  const nearest = (step, has) => {
    const ahead = frames.slice(step),
      own = ahead.find(f => f.launch === frameAt(step).launch && has(f));
    return own ?? ahead.find(has) ?? frames.find(has);
  };
  // Whether a launch reads or makes a part.
  const used = frames.reduce((found, { launch, whole, made, holds }) => {
    if (!whole) [...made, ...holds].forEach(part => found.add(`${launch} ${part}`));
    return found;
  }, new Set());
  return {
    ...meta,
    nearest,
    uses: ({ launch, whole }, part) => whole || used.has(`${launch} ${part}`),
    columns,
    frameAt,
    rectOf,
    valueAt,
    logs: part => !states[part] || states[part].length > 0, // an operand is in the problem's arrays
    pictures: picturesOf(host, { n: meta.group * n, keys, d, columns, states }),
    rows: most('queries'),
    cols: most('keys'),
  };
}

function picturesOf(host, { n, keys, d, columns, states }) {
  const { text, background } = theme(host),
    colour = signed(rgb(background)),
    ink = rgb(text);
  const matrix = (width, height, at, of) => matrixImage(width, height, at, spanOf(of), colour, ink);
  const made = {};
  for (const part of ['Q', 'dO', 'K', 'V', 'O'])
    made[part] = matrix(d, alongKeys(part) ? keys : n, (y, x) => columns[part][y * d + x], columns[part]);
  for (const part of ['LSE', 'delta']) made[part] = matrix(1, n, y => columns[part][y], columns[part]);
  for (const part of [...SQUARES, ...GROWING])
    made[part] = states[part].map(([r0, r1, c0, c1, start]) => {
      const cols = c1 - c0 + 1,
        at = (y, x) => {
          const value = columns[part][start + y * cols + x];
          return Number.isNaN(value) ? undefined : value;
        };
      return matrix(cols, r1 - r0 + 1, at, columns[part]);
    });
  return made;
}
