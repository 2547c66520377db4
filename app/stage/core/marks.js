// Where play pauses: at the next step that the explainers have marked (Frame.marks), such as a rise
// of m. Offered only where a stage has such steps; it says how many are still ahead.
import { MARKS } from './data.js';
import { element, number } from './paint.js';

/** @param {Clock} clock */
export function makePauseAt(clock) {
  const select = element('select', {
      'aria-label': 'Pause at',
      title: 'Pauses of play (n: the next choice)',
    }),
    ahead = element('span', { class: 'ahead', role: 'status' });
  const node = element('span', { class: 'pause-at', hidden: true }, select, ahead);
  /** @type {Record<string, number[]>} */
  let steps = {}; // mark -> the steps that have it, in order
  let chosen = '', // over stages without it, too
    words = '';

  const tell = () => {
    const here = steps[select.value],
      left = here ? here.filter(n => n > clock.step).length : 0,
      text = here ? `${left ? number(left) : 'no'} ${left === 1 ? select.value : MARKS[select.value]} ahead` : '';
    if (text !== words) ahead.textContent = words = text;
  };
  const choose = (/** @type {string} */ mark) => {
    select.value = chosen = mark;
    tell();
  };
  select.onchange = () => choose(select.value);
  const unfollow = clock.follow(() => {
    if (select.value) tell();
  });
  return {
    node,
    load(/** @type {Frame[]} */ frames) {
      steps = {};
      frames.forEach((frame, n) => (frame.marks ?? []).forEach(mark => (steps[mark] ??= []).push(n)));
      node.hidden = !Object.keys(steps).length;
      select.replaceChildren(
        element('option', { value: '' }, 'no pause'),
        ...Object.entries(steps).map(([mark, at]) =>
          element('option', { value: mark }, `pause at ${mark} (${number(at.length)})`),
        ),
      );
      select.value = chosen in steps ? chosen : '';
      tell();
    },
    pauses: (/** @type {number} */ step) => steps[select.value]?.includes(step) ?? false,
    // The next of the choices; false where there are none.
    next() {
      if (node.hidden) return false;
      const names = ['', ...Object.keys(steps)];
      choose(names[(names.indexOf(select.value) + 1) % names.length]);
    },
    unmount: unfollow,
  };
}
