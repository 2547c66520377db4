// The rail: the stops of the course by number with their marks, and the pages next to the course.
import { inMinutes, linkOf } from './course.js';
import { button, element, way } from '../core/paint.js';
import { opens } from './menu.js';

/** @type {Texts} */
const MARKS = { seen: 'opened', done: 'all questions seen' };

/** @param {App} app */
export function makeRail(app) {
  const { stops } = app.course;
  const links = stops.map(stop => {
    const { name, number, title, idea, minutes } = stop,
      attributes = {
        'data-stop': name,
        'aria-label': `${number} ${title}`, // most windows have room for the number only
        title: `${title}: ${idea} ${inMinutes(minutes)}.`,
      };
    const go = () => app.visits.toStop(stop);
    return way(linkOf(stop), go, attributes, element('b', {}, String(number)), element('span', {}, ` ${title}`));
  });
  const more = makeMore(app),
    here = element('span', { class: 'here', 'aria-hidden': 'true' }); // after the numbers, which never move
  const node = element(
    'nav',
    { 'aria-label': 'The course' },
    element('ol', { class: 'stops' }, ...links.map(link => element('li', {}, link))),
    here,
    more.node,
  );
  return {
    node,
    // The page that is shown, and its stop if it has one.
    /** @param {string} path @param {Stop | null} stop */
    mark(path, stop) {
      for (const link of links) current(link, link.dataset.stop === stop?.name);
      here.textContent = stop && !stop.shelf ? stop.title : '';
      more.mark(path, !stop || !!stop.shelf);
    },
    // progress: stop -> seen or done.
    marks(/** @type {Texts} */ progress) {
      for (const link of links) sign(link, progress[link.dataset.stop ?? '']);
    },
  };
}

/** @param {Element} a @param {string} state */
function sign(a, state) {
  const said = MARKS[state];
  a.querySelector('.mark')?.remove();
  if (said)
    a.append(element('span', { class: `mark ${state}`, title: said }, element('span', { class: 'unseen' }, said)));
}

/** @param {Element} a @param {boolean} yes */
const current = (a, yes) => (yes ? a.setAttribute('aria-current', 'page') : a.removeAttribute('aria-current'));

// The shelves, the other pages, and every page of the course with the reader's own choices.
/** @param {App} app */
function makeMore(app) {
  const { course, rail } = app;
  const paths = new Set(course.all.map(({ story }) => story)),
    pages = rail.filter(({ path }) => path !== 'start');
  /** @type {(text: string, to: string, go: () => any, attributes: object) => Element} */
  const entry = (text, to, go, attributes) => {
    const leave = () => {
      list.hidePopover();
      go();
    };
    return element('li', {}, way(to, leave, attributes, text));
  };
  const ofPage = (/** @type {Lens} */ { path, title }) =>
    entry(title, path, () => app.visits.leave(path), { 'data-story': path });
  const ofStop = (/** @type {Stop} */ stop) =>
    entry(stop.title, linkOf(stop), () => app.visits.toStop(stop), { 'data-stop': stop.name, title: stop.idea });
  /** @type {(name: string, entries: Element[]) => Node[]} */
  const group = (name, entries) =>
    entries.length ? [element('p', {}, name), element('ul', { 'aria-label': name }, ...entries)] : [];
  const list = element(
    'div',
    { class: 'menu more-pages', popover: 'auto', role: 'group', 'aria-label': 'More pages' },
    ...course.shelves.flatMap(({ name, stops }) => group(name, stops.map(ofStop))),
    ...group('Tools', pages.filter(({ path }) => !paths.has(path)).map(ofPage)),
    ...group('Your choices on another page', pages.filter(({ path }) => paths.has(path)).map(ofPage)),
  );
  const opener = button('More', null, { class: 'opens-menu', 'aria-label': 'More pages' });
  opener.append(element('span', {}, ' pages'));
  opens(opener, list, { onOpen: () => list.querySelector('a').focus() });
  return {
    node: element('div', { class: 'with-menu' }, opener, list),
    /** @param {string} path @param {boolean} here */
    mark(path, here) {
      for (const a of list.querySelectorAll('[data-story]')) current(a, a.dataset.story === path);
      opener.classList.toggle('here', here && path !== 'start');
    },
  };
}
