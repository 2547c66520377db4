// How large a KV cache is, by the formula, as one types.
import { amount, element, number } from '../core/paint.js';

const FIELDS = [
  ['layers', 'Layers', 32],
  ['heads', 'Query heads', 32],
  ['kv', 'KV heads', 8],
  ['dim', 'Size of a head', 128],
  ['tokens', 'Tokens', 2048],
  ['sequences', 'Sequences', 1],
];
/** @type {[number, string][]} */
const UNITS = [
  [2 ** 40, 'TiB'],
  [2 ** 30, 'GiB'],
  [2 ** 20, 'MiB'],
  [2 ** 10, 'KiB'],
  [1, 'bytes'],
];

// meta.types: a type's name -> its bytes.
export default function (host, { meta }, { clock }) {
  const inputs = Object.fromEntries(
    FIELDS.map(([key, , value]) => [key, element('input', { type: 'number', min: 1, max: 1e7, step: 1, value })]),
  );
  const type = element(
    'select',
    {},
    ...Object.keys(meta.types).map((name, n) => element('option', { value: name, selected: n === 1 }, name)),
  );
  const labelled = (key, text, made) =>
      element('label', { class: 'control', 'data-field': key }, element('span', {}, text), made),
    out = element('div', { class: 'sizes', role: 'status' });
  host.replaceChildren(
    element('b', { class: 'sizes-of' }, 'Now a cache of the size of a real model'),
    element(
      'div',
      { class: 'calculator' },
      ...FIELDS.map(([key, text]) => labelled(key, text, inputs[key])),
      labelled('type', 'Type', type),
    ),
    out,
  );
  const draw = () => {
    const read = Object.fromEntries(FIELDS.map(([key]) => [key, Number(inputs[key].value)])),
      wrong = FIELDS.find(([key]) => !Number.isInteger(read[key]) || read[key] < 1);
    if (wrong)
      return refuse(`${wrong[1]} is ${inputs[wrong[0]].value || 'empty'}. It must be a whole number from 1 on.`);
    const { layers, heads, kv, dim, tokens, sequences } = read,
      bytes = meta.types[type.value];
    if (heads % kv)
      return refuse(
        `${heads} query heads are no multiple of ${kv} KV heads. Query heads must be a multiple of KV heads.`,
      );
    const hidden = clock.covers.some(({ part }) => part === 'size'), // a question asks for it
      size = count => 2 * layers * count * dim * tokens * bytes * sequences;
    const kind = count => `${count === heads ? 'MHA' : count === 1 ? 'MQA' : 'GQA'} ${heads}:${count}`;
    const said =
      `Modelled: 2 (K and V) \u00d7 ${layers} layers \u00d7 ${kv} KV heads \u00d7 ${dim} ` +
      `\u00d7 ${number(tokens)} tokens \u00d7 ${bytes} byte${bytes > 1 ? 's' : ''} \u00d7 ` +
      `${number(sequences)} sequence${sequences > 1 ? 's' : ''} = ` +
      `${hidden ? '?' : number(size(kv))} bytes.`;
    const most = size(heads),
      row = count =>
        element(
          'div',
          { class: count === kv ? 'size chosen' : 'size' },
          element('span', {}, kind(count)),
          element('b', {}, hidden ? '?' : amount(size(count), UNITS, 4)),
          element('i', {
            style: `width:${hidden ? 0 : Math.max(0.5, (100 * size(count)) / most)}%`,
          }),
        );
    out.replaceChildren(...[...new Set([heads, kv, 1])].map(row), element('p', {}, said));
  };
  const refuse = text => out.replaceChildren(element('p', { class: 'note bad', role: 'alert' }, text));
  for (const made of [...Object.values(inputs), type]) made.oninput = draw;
  draw();
  clock.addEventListener('covers', draw);
  return {
    unmount() {
      clock.removeEventListener('covers', draw);
      host.replaceChildren();
    },
  };
}
