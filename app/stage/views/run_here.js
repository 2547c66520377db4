// A kernel that the reader's browser executes on inputs of its own: O beside float64, and what its probes log.
import { showBlocks } from '../core/blocks.js';
import { button, element, matrixImage, number, odd, rgb, short, signed, spanOf, theme } from '../core/paint.js';
import { Kernel, tensorsOf, truth } from './run_here_rule.js';

const SIZES = { least: -2, most: 3 }, // powers of ten of the scores' standard deviation
  WIDE = 192, // pixels of a matrix
  NAMES = /** @type {Record<string, string>} */ ({ score: 'S', p: 'P' });

/** @typedef {import('./run_here_rule.js').Meta} Meta */

/** @type {Picture<any>} */
export default function (host, { meta: given }, context) {
  const meta = /** @type {Meta} */ (given),
    { background, text } = theme(host),
    colour = signed(rgb(background)),
    most = meta.launches[0].grids.length;
  const range = (/** @type {string} */ name, /** @type {Record<string, number>} */ { value, ...bounds }) =>
    Object.assign(element('input', { type: 'range', 'aria-label': name, ...bounds }), { value });
  const tokens = range('tokens', { min: 1, max: most, value: most }),
    spread = range('size of the scores', { min: SIZES.least, max: SIZES.most, step: 0.25, value: 0 }),
    row = range('row', { min: 0, max: most - 1, value: Math.floor(most / 2) }),
    causal = element('input', { type: 'checkbox', checked: meta.causal }),
    outputs = [tokens, spread, row].map(() => element('output')),
    said = element('span'),
    pictures = element('div', { class: 'run-here' }),
    table = element('div');
  /** @type {Kernel | null} */ let kernel = null;
  /** @type {import('./run_here_rule.js').Values} */ let values = {};
  let ended = false,
    seed = 0,
    waiting = 0;

  const tell = () => {
    row.max = tokens.value - 1;
    for (const [n, shown] of [tokens.value, short(10 ** spread.value, 2), row.value].entries())
      outputs[n].textContent = shown;
  };
  const soon = () => {
    tell();
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => execute().catch(refuse));
  };
  const fresh = button('New inputs', () => {
    seed++;
    soon();
  });
  for (const input of [tokens, spread, causal]) input.oninput = soon;
  row.oninput = () => {
    tell();
    showRow();
  };

  async function execute() {
    kernel ??= await Kernel.load(await context.bundle(meta.module), meta);
    if (ended) return;
    const sizes = { tokens: Number(tokens.value), causal: causal.checked },
      inputs = tensorsOf(meta, sizes.tokens, { seed, spread: 10 ** spread.value }),
      ran = kernel.run(sizes, inputs);
    values = ran.values;
    showOutput(ran.tensors.o, truth(inputs, meta, sizes), sizes);
    showRow();
    Object.assign(host, { ran: { sizes, ...ran } }); // for tests
  }
  /** @param {Error} error */
  function refuse(error) {
    kernel = null; // its memory may be in disorder
    pictures.replaceChildren();
    table.replaceChildren();
    said.replaceChildren(element('span', { class: 'bad', role: 'alert' }, error.message));
  }
  /** @param {Float32Array} o @param {Float64Array} right @param {import('./run_here_rule.js').Sizes} sizes */
  function showOutput(o, right, { tokens: rows }) {
    const off = right.map((value, n) => Math.abs(o[n] - value)),
      finite = [...off.keys()].filter(n => Number.isFinite(off[n])),
      worst = finite.reduce((most, n) => (off[n] > off[most] ? n : most), finite[0]),
      none = odd(o),
      size = `${short(off[worst], 2)}, in row ${Math.floor(worst / meta.dim)}`,
      inRow = (/** @type {ArrayLike<number>} */ of) => (/** @type {number} */ y, /** @type {number} */ x) =>
        of[y * meta.dim + x];
    said.textContent =
      `${meta.kernel} on ${number(rows)} tokens, one head of ${meta.dim} numbers. ` +
      (none ? `O has ${none}. ` : '') +
      (finite.length
        ? `Largest ${none ? 'finite ' : ''}difference of O from float64: ${size}.`
        : 'No number of O is finite.');
    const squares = Object.entries(NAMES).filter(([name]) => values[name]);
    pictures.replaceChildren(
      ...squares.map(([name, title]) => matrix(title, rows, rows, (y, x) => values[name][y]?.[x], values[name].flat())),
      matrix('O', rows, meta.dim, inRow(o), o),
      matrix('O, off from float64', rows, meta.dim, inRow(off), off),
    );
  }
  /**
   * @param {string} title @param {number} rows @param {number} columns
   * @param {(y: number, x: number) => number | undefined} at @param {Iterable<number>} all
   */
  function matrix(title, rows, columns, at, all) {
    const span = spanOf(all),
      caption = `${title}, ${number(rows)} × ${number(columns)}. Largest: ${short(span, 2)}`,
      image = matrixImage(columns, rows, at, span, colour, rgb(text));
    image.style.width = `${(WIDE * columns) / most}px`;
    image.setAttribute('role', 'img');
    image.setAttribute('aria-label', caption);
    return element('figure', {}, image, element('figcaption', {}, caption));
  }
  // What the probes log of a row: once, or at each tile. A tile that raises the max is lit.
  function showRow() {
    const names = Object.keys(values).filter(name => !(name in NAMES)),
      logged = names.map(name => values[name][row.value] ?? []),
      rescale = values.rescale?.[row.value],
      rows = Array.from(logged[0] ?? [], (_, tile) => logged.map(one => one[tile] ?? 'none')),
      block = {
        kind: 'table',
        columns: rescale ? ['tile', ...names] : names,
        kinds: ['', ...names].map(() => 'number'),
        rows: rescale ? rows.map((one, tile) => [tile, ...one]) : rows,
        caption: `Row ${row.value}, as the probes of ${meta.kernel} log it.`,
        lit: rows.map((_, tile) => tile > 0 && !!rescale && rescale[tile] < 1),
      };
    showBlocks(table, [block], context);
  }

  const label = (/** @type {string} */ name, /** @type {Element[]} */ ...parts) => element('label', {}, name, ...parts);
  host.replaceChildren(
    element(
      'div',
      { class: 'hands' },
      label('tokens', tokens, outputs[0]),
      label('size of the scores', spread, outputs[1]),
      label('causal', causal),
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
    element('div', { class: 'hands' }, label('row', row, outputs[2])),
    table,
  );
  soon();
  return {
    unmount() {
      ended = true;
      cancelAnimationFrame(waiting);
    },
  };
}
