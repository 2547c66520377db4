// The header: the name, the rail, the guide, the provenance of the shown values, the menu.
import { makeMenu } from './menu.js';
import { makeRail } from './rail.js';
import { LABELS } from '../core/data.js';
import { button, element, way } from '../core/paint.js';

// course, rail, open, visit: of the rail (rail.js); guide(): opens or closes the guide; entries: of
// the menu (menu.js), those that are `front` also as buttons where there is room; beside: what
// stands beside the guide.
export function makeHeader({ course, rail, open, visit, guide, entries, beside: others = [] }) {
  const brand = way(
    './',
    () => open('start'),
    { 'data-story': 'start', class: 'brand' },
    'Warpglass',
  );
  const nav = makeRail({ course, rail, open, visit });
  const chip = button(
    '',
    () => {
      said.hidden = !said.hidden;
      chip.setAttribute('aria-expanded', String(!said.hidden));
    },
    { class: 'provenance', 'aria-expanded': 'false', hidden: true },
  );
  const said = element('div', { class: 'said', hidden: true, role: 'status' }),
    idea = element('p', { class: 'idea' });
  const asks = button('Guide', guide, {
    class: 'guide-button',
    'aria-expanded': 'false',
    title: 'Hints and questions',
  });
  const front = entries
    .filter(e => e.front)
    .map(e => button(e.label, e.onClick, { class: 'head-button front-entry', title: e.title }));
  const node = element(
    'header',
    { class: 'head' },
    brand,
    nav.node,
    asks,
    ...others,
    chip,
    ...front,
    makeMenu('Menu', 'Present, talks, classes, theme, size of type, keys', entries),
    said,
  );
  const onDown = event => {
    if (!said.hidden && !node.contains(event.target)) chip.click();
  };
  document.addEventListener('pointerdown', onDown);
  return {
    node,
    idea,
    asks,
    unmount() {
      document.removeEventListener('pointerdown', onDown);
    },
    mark(path, stop) {
      nav.mark(path, stop);
      if (path === 'start') brand.setAttribute('aria-current', 'page');
      else brand.removeAttribute('aria-current');
      asks.hidden = !stop?.questions.length;
    },
    marks: nav.marks,
    guideOpen(yes) {
      asks.setAttribute('aria-expanded', String(yes));
    },
    headline(text) {
      idea.textContent = text;
    },
    provenance(given, meanings) {
      chip.hidden = !given;
      if (!given) {
        said.hidden = true;
        return;
      }
      const label = LABELS[given.label];
      chip.textContent = label;
      chip.className = `provenance ${given.label}`;
      said.replaceChildren(
        element('p', {}, given.said),
        element('p', {}, `${label[0].toUpperCase()}${label.slice(1)}: ${meanings[given.label]}`),
      );
    },
  };
}
