// A check of the gradients by hand: the reader changes one number of an input, and the page compares
// the change that the gradient predicts with the change that two forward runs in float64 measure.
import { COLOURS, PALETTE, element, exact, short } from '../core/paint.js';
import { changeOf } from './nudge_loss.js';

const NAMES = ['q', 'k', 'v'],
  LARGEST = 1;

// meta: the Heads of nudge_loss.js, gradients: {q, k, v} as the kernel made them, and at: the first
// {name, row, dim}.
export default function (host, { meta }, { clock }) {
  const { at, d, group, n, keys } = meta,
    rowsOf = name => (name === 'q' ? group * n : keys);
  const field = (type, value, more = {}) => element('input', { type, value, ...more });
  const name = element(
      'select',
      {},
      ...NAMES.map(one => element('option', { value: one, selected: one === at.name }, one.toUpperCase())),
    ),
    row = field('number', at.row, { min: 0, step: 1 }),
    dim = field('number', at.dim, { min: 0, max: d - 1, step: 1 }),
    eps = field('text', '0.001', { inputmode: 'decimal' }),
    out = element('div', { class: 'sizes', role: 'status' });
  const labelled = (key, text, made) =>
    element('label', { class: 'control', 'data-field': key }, element('span', {}, text), made);
  const rowName = element('span', {}, 'row');
  host.replaceChildren(
    element(
      'div',
      { class: 'calculator' },
      labelled('input', 'input', name),
      element('label', { class: 'control', 'data-field': 'row' }, rowName, row),
      labelled('dim', 'dim', dim),
      labelled('eps', 'change', eps),
    ),
    out,
  );

  const draw = () => {
    const which = name.value,
      rows = rowsOf(which);
    rowName.textContent = which === 'q' ? (group > 1 ? 'query of the group' : 'query') : 'key';
    row.max = rows - 1;
    const wrong = fault(row, rows, rowName.textContent) || fault(dim, d, 'dim') || badChange(eps);
    out.replaceChildren(
      ...(wrong
        ? [element('p', { class: 'note bad', role: 'alert' }, wrong)]
        : compared(meta, which, Number(row.value) * d + Number(dim.value), Number(eps.value))),
    );
  };
  for (const made of [name, row, dim, eps]) made.oninput = draw;
  draw();
  clock.addEventListener('covers', draw);
  return {
    unmount() {
      clock.removeEventListener('covers', draw);
      host.replaceChildren();
    },
  };
}

function fault({ value }, count, what) {
  const given = Number(value),
    fits = value !== '' && Number.isInteger(given) && given >= 0 && given < count;
  return fits ? '' : `The ${what} is ${value || 'empty'}. Choose a whole number from 0 to ${count - 1}.`;
}
function badChange({ value }) {
  const given = Number(value),
    fits = value.trim() && Number.isFinite(given) && given !== 0 && Math.abs(given) <= LARGEST;
  return fits
    ? ''
    : `The change is ${value.trim() || 'empty'}. Choose a number between -${LARGEST} and ${LARGEST}, not 0.`;
}

function compared(meta, name, place, eps) {
  const gradient = meta.gradients[name][place],
    predicted = gradient * eps,
    measured = changeOf(meta, name, place, eps),
    off = Math.abs(measured - predicted),
    most = Math.max(Math.abs(predicted), Math.abs(measured)) || 1,
    share = off / most,
    tensor = name.toUpperCase(),
    at = `[${Math.floor(place / meta.d)}, ${place % meta.d}]`;
  const bar = (text, value, title, colour) =>
    element(
      'div',
      { class: 'size', title },
      element('span', {}, text),
      element('b', {}, short(value, 6)),
      element('i', {
        style: `width:${Math.max(0.5, (100 * Math.abs(value)) / most)}%;background:${colour}`,
      }),
    );
  const agree =
    share < 1e-3
      ? 'This number of the gradient is right.'
      : share < 0.05
        ? 'They nearly agree. A smaller change brings them closer, because the loss is curved.'
        : 'The loss is curved, and this change is not small. Try a smaller one.';
  return [
    bar(
      `predicted: d${tensor}${at} × change`,
      predicted,
      `gradient ${exact(gradient)}, by the kernel`,
      COLOURS[tensor],
    ),
    bar('measured: loss after − loss before', measured, 'two forward runs in float64', PALETTE.tensors.other),
    element(
      'p',
      { title: `difference ${short(off, 4)}` },
      `The kernel's d${tensor}${at} is ${short(gradient, 5)}. Both changes differ by ${short(100 * share, 2)} %. ${agree}`,
    ),
  ];
}
