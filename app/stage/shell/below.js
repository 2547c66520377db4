// In a small window the card is under the picture. A button leads to it while it is out of sight.
import { button } from '../core/paint.js';

const LEAST = 30; // pixels of the card that count as in sight: its heading

/** @param {HTMLElement} card */
export function makeBelow(card) {
  const node = button(
    'Question below',
    () => {
      card.scrollIntoView({ block: 'start' });
      card.querySelector('h2')?.focus({ preventScroll: true });
    },
    { class: 'below', hidden: true },
  );
  const observer = new IntersectionObserver(entries => (node.hidden = entries.at(-1)?.isIntersecting), {
    rootMargin: `0px 0px -${LEAST}px 0px`,
  });
  observer.observe(card);
  return { node, unmount: () => observer.disconnect() };
}
