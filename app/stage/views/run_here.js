// A kernel that the reader's browser executes on inputs of its own, beside the same attention in float64.
import { button, element, matrixImage, number, odd, rgb, short, signed, spanOf, theme } from '../core/paint.js';
import { load, run, tensorsOf, truth } from './run_here_rule.js';

const LEAST = -2, // powers of ten of the scores' standard deviation
  MOST = 3,
  SCREEN = 240; // pixels that a matrix is high at least

/** @type {Picture<any>} */
export default function (host, { meta: given }, context) {
  const meta = /** @type {import('./run_here_rule.js').Meta} */ (given),
    { background, text } = theme(host),
    colour = signed(rgb(background));
  /** @type {any} */ let wasm = null;
  let ended = false,
    seed = 0,
    waiting = 0;

  const tokens = element('input', {
      type: 'range',
      min: 1,
      max: meta.launches[0].grids.length,
      'aria-label': 'tokens',
    }),
    tokensAre = element('output'),
    spread = element('input', { type: 'range', min: LEAST, max: MOST, step: 0.25, 'aria-label': 'size of the scores' }),
    spreadIs = element('output'),
    causal = element('input', { type: 'checkbox', checked: meta.causal }),
    said = element('span'),
    pictures = element('div', { class: 'columns' });
  [tokens.value, spread.value] = [tokens.max, 0];

  const soon = () => {
    tokensAre.textContent = tokens.value;
    spreadIs.textContent = short(10 ** spread.value, 2);
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => execute().catch(refuse));
  };
  const fresh = button('New inputs', () => {
    seed++;
    soon();
  });
  for (const input of [tokens, spread, causal]) input.oninput = soon;

  async function execute() {
    wasm ??= await load(await context.bundle(meta.module));
    if (ended) return;
    const sizes = { tokens: Number(tokens.value), causal: causal.checked },
      inputs = tensorsOf(meta, sizes.tokens, { seed, spread: 10 ** spread.value });
    const { o } = run(wasm, meta, sizes, inputs),
      right = truth(inputs, meta, sizes);
    show(o, right, sizes.tokens);
    Object.assign(host, { ran: { inputs, sizes, o } }); // tests compare it with the kernel on their CPU
  }
  /** @param {Error} error */
  function refuse(error) {
    wasm = null; // after a trap its state is lost
    pictures.replaceChildren();
    said.replaceChildren(element('span', { class: 'bad', role: 'alert' }, error.message));
  }
  /** @param {Float32Array} o @param {Float64Array} right @param {number} rows */
  function show(o, right, rows) {
    const off = right.map((value, n) => Math.abs(o[n] - value)),
      at = off.reduce((worst, value, n) => (value > off[worst] || Number.isNaN(off[worst]) ? n : worst), 0),
      none = odd(o);
    said.textContent =
      `${meta.kernel}: ${number(rows)} tokens, one head of ${meta.dim} numbers. ` +
      (none ? `O has ${none}. ` : '') +
      (Number.isFinite(off[at])
        ? `Largest difference from float64: ${short(off[at], 2)}, in row ${Math.floor(at / meta.dim)}.`
        : 'No number of O can be compared with float64.');
    pictures.replaceChildren(
      matrix('O of the kernel', o, spanOf(right)),
      matrix('O in float64', right, spanOf(right)),
      matrix('Difference', off, spanOf(off)),
    );
  }
  /** @param {string} title @param {ArrayLike<number> & Iterable<number>} values @param {number} span */
  function matrix(title, values, span) {
    const rows = values.length / meta.dim,
      image = matrixImage(meta.dim, rows, (y, x) => values[y * meta.dim + x], span, colour, rgb(text));
    image.style.height = `${Math.max(rows, SCREEN)}px`;
    const caption = `${title}, ${number(rows)} \u00d7 ${meta.dim}. Full colour: ${short(span, 2)}.`;
    image.setAttribute('role', 'img');
    image.setAttribute('aria-label', caption);
    return element('div', {}, element('figure', {}, image, element('figcaption', {}, caption)));
  }

  const label = (/** @type {string} */ name, /** @type {Element[]} */ ...parts) => element('label', {}, name, ...parts);
  host.replaceChildren(
    element(
      'div',
      { class: 'hands' },
      label('tokens ', tokens, tokensAre),
      label('size of the scores ', spread, spreadIs),
      label('causal ', causal),
      fresh,
    ),
    element(
      'p',
      { role: 'status' },
      element('b', { class: 'label executed' }, 'executed: in this browser'),
      ' ',
      said,
      ' The browser makes Q, K and V: other numbers than those of the page.',
    ),
    pictures,
  );
  soon();
  return {
    unmount() {
      ended = true;
      cancelAnimationFrame(waiting);
    },
  };
}
