// The header: the name, the rail, the guide, the provenance of the shown values, the menu.
import { makeMenu } from './menu.js';
import { makeRail } from './rail.js';
import { LABELS, PROVENANCE } from '../core/data.js';
import { button, element, listen, way } from '../core/paint.js';

/** @param {App} app */
export function makeHeader(app) {
  const home = () => app.visits.leave('start'),
    brand = way('./', home, { 'data-story': 'start', class: 'brand' }, 'Warpglass');
  const nav = makeRail(app),
    entries = app.menu();
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
  const asks = button('Guide', () => app.guide.toggle(), {
    class: 'guide-button',
    'aria-expanded': 'false',
    title: 'Hints and questions',
  });
  const front = entries
    .filter(e => e.front)
    .map(({ label, onClick = null, title }) =>
      button(String(label), onClick, { class: 'head-button front-entry', title }),
    );
  const node = element(
    'header',
    { class: 'head' },
    brand,
    nav.node,
    asks,
    app.search.button,
    app.sequences.button,
    app.lesson.opener,
    chip,
    ...front,
    makeMenu('Menu', 'Present, talks, classes, theme, size of type, keys', entries),
    said,
  );
  /** @type {story.Provenance | null} */ let shown = null;
  return {
    node,
    idea,
    asks,
    unmount: listen(document, 'pointerdown', ({ target }) => {
      if (!said.hidden && !node.contains(target)) chip.click();
    }),
    /** @param {string} path @param {Stop | null} stop */
    mark(path, stop) {
      nav.mark(path, stop);
      if (path === 'start') brand.setAttribute('aria-current', 'page');
      else brand.removeAttribute('aria-current');
      asks.hidden = !stop?.questions.length;
    },
    marks: nav.marks,

    headline(/** @type {string} */ text) {
      idea.textContent = text;
    },
    provenance(/** @type {story.Provenance | null} */ given) {
      if (given === shown) return;
      shown = given;
      chip.hidden = !given;
      said.hidden ||= !given;
      if (!given) return;
      const label = LABELS[given.label];
      chip.textContent = label;
      chip.className = `provenance ${given.label}`;
      said.replaceChildren(
        element('p', {}, given.said),
        element('p', {}, `${label[0].toUpperCase()}${label.slice(1)}: ${PROVENANCE[given.label]}`),
      );
    },
  };
}
