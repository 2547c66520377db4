// The end of a stop, in its card: what its idea wins, a link to go deeper, and the paper.
import { element, way } from '../core/paint.js';

/**
 * @param {import('./course.js').Stop} stop
 * @param {(link: string) => void} follow goes to a moment
 * @returns {Node[]}
 */
export function endOf({ wins, small, source, deeper, paper }, follow) {
  const gain = [
    element('h3', {}, 'Why it matters'),
    element('p', { class: 'wins' }, wins),
    ...(small ? [element('p', {}, small)] : []),
    ...(source ? [element('p', { class: 'origin' }, `${source}.`)] : []),
  ];
  const links = [
    deeper && way(deeper.link, () => follow(deeper.link), {}, `Go deeper: ${deeper.label}`),
    paper && outside(paper.link, `Source: ${paper.label}`),
  ];
  return [...(wins ? gain : []), element('p', { class: 'further' }, ...links.filter(Boolean))];
}

const outside = (href, text) => element('a', { href, target: '_blank', rel: 'noopener' }, text);
