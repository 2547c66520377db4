// The terms with their meanings, their sources and links to their places.
import { element, way } from '../core/paint.js';

/** @type {Picture<{entries: glossary.Entry[]}>} */
export default function (host, { meta: { entries } }, { open, href }) {
  const place = ({ story, query }) => {
    const params = Object.fromEntries(new URLSearchParams(query));
    return way(href(`/${story}?${query}`), () => open(story, params), {}, 'Show it');
  };
  const source = ({ source, link }) =>
    link ? element('a', { href: link, target: '_blank', rel: 'noopener' }, source) : source;
  const list = element(
    'dl',
    { class: 'terms' },
    ...entries.map(entry =>
      element(
        'div',
        { id: `term-${entry.term.replaceAll(' ', '-')}` },
        element('dt', {}, entry.term),
        element('dd', {}, `${entry.said} `, element('small', {}, place(entry), ' \u00b7 ', source(entry))),
      ),
    ),
  );
  host.replaceChildren(element('div', { class: 'sheet', tabindex: '0', role: 'region', 'aria-label': 'Terms' }, list));
  return { unmount: () => host.replaceChildren() };
}
