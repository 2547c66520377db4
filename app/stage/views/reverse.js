// The way back: a row with numbers, then the map of a tile's products, one a step: explainers/stories/backward/reverse.py.
// Under the hand, a number of dP moves the average of its row.
import { filled } from '../core/follow.js';
import { handView, pull } from '../core/hand.js';
import { button, element, minus, widest } from '../core/paint.js';
import { reverseLayout, reverseMarks, sceneOf } from './reverse_marks.js';
import { moved } from './reverse_rule.js';

const STEP = 0.1; // of a dP, by a key

/** @type {Picture<backward.ReverseMeta>} */
export default function (host, { meta }, context) {
  const { clock } = context,
    { hand, row, phases } = meta,
    HAND = phases.indexOf('hand'),
    first = row.dP.indexOf(Math.max(...row.dP)),
    [low, high] = [Math.min(0, ...row.dP) - 1, Math.max(0, ...row.dP) + 0.5];
  let key = first,
    numbers = moved(row, key, row.dP[key]),
    touched = false;
  /** @type {ReturnType<typeof reverseLayout>[]} */ let layouts = []; // of each step

  function speak() {
    const { dP, delta } = numbers,
      values = { mean: minus(delta) };
    clock.tell('said', touched ? filled(row.of === row.keys.length ? hand.said : hand.some, values) : '');
    below.textContent = touched
      ? hand.modelled
      : (phases[clock.step] === 'price' && meta.price?.said) ||
        meta.below[clock.step < 2 ? 'sizes' : sceneOf(phases[clock.step])] ||
        '';
    below.className = touched ? 'modelled' : '';
    reset.toggleAttribute('inert', !touched);
    bars.toggleAttribute('hidden', clock.step !== HAND);
    grips.forEach((grip, n) => {
      grip.setAttribute('aria-valuenow', dP[n].toFixed(1));
      grip.tabIndex = n === key ? 0 : -1;
    });
  }
  function change(/** @type {number} */ to, /** @type {number} */ value) {
    numbers = moved(numbers, to, Math.max(low, Math.min(high, value)));
    [key, touched] = [to, true];
    speak();
    view.draw();
  }
  function restore() {
    [key, numbers, touched] = [first, moved(row, first, row.dP[first]), false];
    speak();
  }
  const grips = row.keys.map((one, n) => {
    const grip = element('div', {
      ...{
        role: 'slider',
        tabindex: '-1',
        'aria-orientation': 'vertical',
        'aria-label': filled(hand.control, { key: one }),
      },
      ...{ 'aria-valuemin': low.toFixed(1), 'aria-valuemax': high.toFixed(1) },
    });
    grip.onkeydown = (/** @type {any} */ event) => {
      const by = /** @type {Record<string, number>} */ ({
          ArrowUp: STEP,
          ArrowDown: -STEP,
          PageUp: 10 * STEP,
          PageDown: -10 * STEP,
        })[event.key],
        to = /** @type {Record<string, number>} */ ({ ArrowLeft: n - 1, ArrowRight: n + 1 })[event.key];
      if (by !== undefined) change(n, numbers.dP[n] + by);
      else if (to !== undefined) grips[Math.max(0, Math.min(grips.length - 1, to))].focus();
      else return;
      event.preventDefault();
      event.stopPropagation();
    };
    grip.onfocus = () => {
      key = n;
      speak();
      view.draw();
    };
    // A drag moves the bar by as much as the hand: nothing jumps.
    grip.onpointerdown = (/** @type {PointerEvent} */ event) => {
      const at = (/** @type {PointerEvent} */ { clientY }) =>
          layouts[HAND].row.at(clientY - bars.getBoundingClientRect().top),
        off = numbers.dP[n] - at(event);
      grip.focus({ focusVisible: false, preventScroll: true });
      pull(grip, event, moving => change(n, at(moving) + off));
    };
    return grip;
  });
  const bars = element(
      'div',
      { class: 'bars', role: 'group', 'aria-label': 'dP of the row: up and down move a bar' },
      ...grips,
    ),
    below = element('span', {}),
    reset = button(hand.reset, () => {
      restore();
      view.draw();
    });
  const view = handView(host, context, {
    frames: meta.frames,
    foot: [below, reset],
    heard: { step: restore },
    title: 'In reverse',
    layout: (/** @type {any} */ size) => {
      layouts = phases.map(phase => reverseLayout(size, phase, row));
      const height = Math.max(...layouts.flatMap(({ row: { height }, map }) => [height, map.height]));
      layouts = phases.map(phase => reverseLayout({ ...size, height }, phase, row));
      const { widths, chart } = layouts[HAND].row;
      widths(row.P).forEach(([x, w], n) =>
        Object.assign(grips[n].style, {
          ...{ left: `${x}px`, width: `${w}px`, top: `${chart.top}px`, height: `${chart.bottom - chart.top}px` },
        }),
      );
      return height;
    },
    marks: (/** @type {{step: number, paint: Paint}} */ { step, paint }) => {
      const at = layouts[step],
        wide = (/** @type {string} */ text, bold = false) =>
          widest([text], `${bold ? '600 ' : ''}${at.size.em}px ${paint.font}`);
      return reverseMarks(at, meta, { step, paint, row: numbers, changed: key, wide });
    },
  });
  host.querySelector('.sheet')?.append(bars);
  restore();
  return view;
}
