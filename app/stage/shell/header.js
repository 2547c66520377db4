// The header: the name, the rail of the course with what was answered, the guide, the provenance of
// what is shown, the menu.
import { makeMenu } from './menu.js';
import { button, element, way } from '../core/paint.js';

const MARKS = { seen: ['\u00b7', 'opened'], done: ['\u2713', 'all questions seen'] };

// rail: the stories, as page.py hands them over; open(path): goes there; guide(): opens or closes
// the guide; entries: of the menu (menu.js), those that are `front` also as buttons where there is
// room; beside: what stands beside the guide.
export function makeHeader({ rail, open, guide, entries, beside: others = [] }) {
  const linkTo = (s, text, attributes = {}) =>
    way(
      s.path === 'start' ? './' : s.path,
      () => open(s.path),
      { 'data-story': s.path, ...attributes },
      ...text,
    );
  const stops = rail.filter(s => s.number),
    beside = rail.filter(s => !s.number && s.path !== 'start');
  const brand = linkTo(
    rail.find(s => s.path === 'start'),
    ['Warpglass'],
    { class: 'brand' },
  );
  const nav = element(
    'nav',
    { 'aria-label': 'The course' },
    element(
      'ol',
      {},
      ...stops.map(s =>
        element('li', {}, linkTo(s, [element('b', {}, String(s.number)), ' ', s.title])),
      ),
    ),
    element('ul', {}, ...beside.map(s => element('li', {}, linkTo(s, [s.title])))),
  );
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
    title: 'What to look for, and questions',
  });
  const front = entries
    .filter(e => e.front)
    .map(e => button(e.label, e.onClick, { class: 'head-button front-entry', title: e.title }));
  const node = element(
    'header',
    { class: 'head' },
    brand,
    nav,
    asks,
    ...others,
    chip,
    ...front,
    makeMenu('Menu', 'Present, talks, classes, theme, size of type, keys', entries),
    said,
  );
  const centre = () =>
    nav.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });
  new ResizeObserver(centre).observe(nav); // the chips beside it come later, and leave it less room
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
    mark(path) {
      for (const a of node.querySelectorAll('a[data-story]')) {
        if (a.dataset.story === path) a.setAttribute('aria-current', 'page');
        else a.removeAttribute('aria-current');
      }
      centre();
      asks.hidden = !stops.some(s => s.path === path);
    },
    // progress: path -> seen or done.
    marks(progress) {
      for (const { path } of stops) {
        const a = nav.querySelector(`[data-story="${path}"]`),
          [sign, said] = MARKS[progress[path]] ?? [];
        a.querySelector('.mark')?.remove();
        if (sign)
          a.append(
            element(
              'span',
              { class: 'mark', title: said },
              sign,
              element('span', { class: 'unseen' }, said),
            ),
          );
      }
    },
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
      chip.textContent = given.label;
      chip.className = `provenance ${given.label}`;
      said.replaceChildren(
        element('p', {}, given.said),
        element(
          'p',
          {},
          `${given.label[0].toUpperCase()}${given.label.slice(1)}: ${meanings[given.label]}`,
        ),
      );
    },
  };
}
