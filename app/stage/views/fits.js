// An SM under a hand: the reader moves the needs of a block, and reads how many blocks fit and what would fit more.
// All numbers follow from fits_rule.js, and are called modelled.
import { button, element } from '../core/paint.js';
import { cure, fits, limits } from './fits_rule.js';

const NEEDS = /** @type {const} */ ({
  registers: { text: 'registers of a thread', min: 16, max: 255, step: 1 },
  shared: { text: 'shared bytes of a block', min: 0, max: 233472, step: 128 },
  threads: { text: 'threads of a block', min: 32, max: 1024, step: 32 },
});
const said = (/** @type {number} */ n) => n.toLocaleString('en-US');
const plural = (/** @type {number} */ n, /** @type {string} */ noun) => `${said(n)} ${noun}${n === 1 ? '' : 's'}`;

/** @typedef {{machines: Record<string, import('./fits_rule.js').Machine>, arch: string, launches: ({entry: string} & import('./fits_rule.js').Block)[]}} FitsMeta */

/** @param {HTMLElement} host @param {{meta: FitsMeta}} given */
export default function (host, { meta }) {
  const start = meta.launches[0];
  let arch = meta.arch,
    { entry, ...block } = start;
  const out = element('div', { class: 'sizes', role: 'status' }),
    inputs = Object.entries(NEEDS).map(([need, { text, ...range }]) => {
      const slide = element('input', { type: 'range', 'aria-label': text, ...range }),
        value = element('output');
      slide.oninput = () => change({ [need]: Number(slide.value) });
      return { need: /** @type {keyof typeof NEEDS} */ (need), text, slide, value };
    }),
    architecture = element(
      'select',
      {},
      ...Object.entries(meta.machines).map(([name, { gpu }]) =>
        element('option', { value: name, selected: name === arch }, `${name} (${gpu})`),
      ),
    ),
    launches = meta.launches.map(({ entry: name, ...needs }) =>
      button(`as ${name}`, () => change(needs), { class: 'chip' }),
    );
  architecture.oninput = () => {
    arch = architecture.value;
    change({});
  };

  /** @param {Partial<import('./fits_rule.js').Block>} to */
  function change(to) {
    block = { ...block, ...to };
    const machine = meta.machines[arch],
      allowed = limits(machine, block),
      { blocks, warps } = fits(machine, block);
    for (const { need, slide, value } of inputs) {
      slide.value = String(block[need]);
      value.textContent = said(block[need]);
    }
    const share = Math.round((100 * warps) / machine.warps);
    out.replaceChildren(
      element('p', { class: 'fits' }, `${plural(blocks, 'block')}, ${warps} of ${machine.warps} warps: ${share} %`),
      ...Object.entries(allowed).map(([name, count]) => bar(name, count, machine.blocks, count === blocks)),
      ...cures(machine),
    );
  }
  const bar = (
    /** @type {string} */ name,
    /** @type {number} */ count,
    /** @type {number} */ most,
    /** @type {boolean} */ limit,
  ) =>
    element(
      'div',
      { class: limit ? 'size chosen' : 'size' },
      element('span', {}, limit ? `${name}: the limit` : name),
      element('b', {}, plural(count, 'block')),
      element('i', { style: `width:${Math.max(0.5, (100 * Math.min(count, most)) / most)}%` }),
    );
  function cures(/** @type {import('./fits_rule.js').Machine} */ machine) {
    const lines = /** @type {const} */ (['registers', 'shared']).flatMap(need => {
      const found = cure(machine, block, need);
      if (!found) return [];
      const less = `${said(block[need] - found.value)} fewer ${NEEDS[need].text}`;
      return [
        button(`${less}: ${plural(found.blocks, 'block')}`, () => change({ [need]: found.value }), { class: 'chip' }),
      ];
    });
    return lines.length
      ? lines
      : [element('p', {}, 'Neither fewer registers nor fewer shared bytes alone fit more blocks.')];
  }

  host.replaceChildren(
    element(
      'div',
      { class: 'calculator' },
      ...inputs.map(({ need, text, slide, value }) =>
        element('label', { class: 'control', 'data-field': need }, element('span', {}, text, ' ', value), slide),
      ),
      element('label', { class: 'control', 'data-field': 'arch' }, element('span', {}, 'architecture'), architecture),
      ...launches,
    ),
    out,
    element('p', { class: 'from' }, 'modelled: the rounding and the limits of the CUDA C++ Programming Guide'),
  );
  change({});
  return { unmount: () => host.replaceChildren() };
}
