// The forward and the backward as one map, a product a step: explainers/stories/backward/reverse.py. Under the hand, a number
// of dP moves the average of its row.
import { filled } from '../core/follow.js';
import { handView } from '../core/hand.js';
import { button, element, widest } from '../core/paint.js';
import { reverseLayout, reverseMarks } from './reverse_marks.js';
import { moved } from './reverse_rule.js';

const MOST = 12; // of a dP

/** @type {Picture<backward.ReverseMeta>} */
export default function (host, { meta }, context) {
  const { clock } = context,
    { hand, row } = meta,
    HAND = meta.frames.length - 1,
    first = row.dP.indexOf(Math.max(...row.dP));
  let key = first,
    numbers = moved(row, key, row.dP[key]),
    touched = false;
  /** @type {ReturnType<typeof reverseLayout>[]} */ let layouts; // of each step

  function speak() {
    const { dP, delta } = numbers,
      values = { key: row.keys[key], value: dP[key].toFixed(1), mean: delta.toFixed(2) },
      text = row.of === row.keys.length ? hand.said : hand.some;
    clock.tell('said', touched ? filled(text, values).replaceAll('-', '\u2212') : '');
    slider.value = String(dP[key]);
    name.textContent = filled(hand.control, { key: row.keys[key] });
    for (const [n, chip] of [...keys.children].entries()) chip.setAttribute('aria-pressed', String(n === key));
  }
  function change(/** @type {number} */ to, /** @type {number} */ value) {
    [key, numbers, touched] = [to, moved(row, to, value), true];
    speak();
    view.draw();
  }
  function arrive() {
    if (clock.step !== HAND) [key, numbers, touched] = [first, moved(row, first, row.dP[first]), false];
    controls.toggleAttribute('inert', clock.step !== HAND);
    speak();
  }
  const name = element('span', {}),
    slider = element('input', { type: 'range', class: 'wide', min: String(-MOST), max: String(MOST), step: 'any' }),
    keys = element(
      'span',
      { class: 'choices', role: 'group', 'aria-label': 'key' },
      ...row.keys.map((one, n) => button(`key ${one}`, () => change(n, row.dP[n]), { class: 'chip' })),
    ),
    controls = element(
      'div',
      { class: 'hands', role: 'group', 'aria-label': 'A row' },
      keys,
      element('label', {}, name, slider),
    );
  slider.oninput = () => change(key, Number(slider.value));
  const view = handView(host, context, {
    frames: meta.frames,
    controls,
    foot: [element('span', {}, meta.gradient)],
    heard: { step: arrive },
    title: 'In reverse',
    layout: (/** @type {any} */ size) => {
      layouts = meta.phases.map(phase => reverseLayout(size, phase));
      const height = Math.max(...layouts.map(({ height }) => height));
      layouts = meta.phases.map(phase => reverseLayout({ ...size, height }, phase));
      return height;
    },
    marks: (/** @type {{step: number, paint: Paint}} */ { step, paint }) => {
      const at = layouts[step],
        wide = (/** @type {string} */ text, bold = false) =>
          widest([text], `${bold ? '600 ' : ''}${at.em}px ${paint.font}`);
      return reverseMarks(at, meta, { step, paint, row: numbers, changed: key, wide });
    },
  });
  arrive();
  return view;
}
