// The rail: the acts of the course, the stops of the current act with their marks, and the pages
// that are no stops.
import { inMinutes, linkOf } from './course.js';
import { button, element, way } from '../core/paint.js';
import { opens } from './menu.js';

/** @type {Record<string, [string, string]>} */
const MARKS = { seen: ['\u00b7', 'opened'], done: ['\u2713', 'all questions seen'] };

/** @param {App} app */
export function makeRail(app) {
  const { course } = app;
  /** @type {(stop: Stop, attributes: object, ...text: (string | Node)[]) => any} */
  const toStop = (stop, attributes, ...text) => way(linkOf(stop), () => app.visits.toStop(stop), attributes, ...text);
  const acts = course.acts.map(act => ({
    ...act,
    link: toStop(act.stops[0], { 'data-act': act.name }, act.name),
    list: element(
      'ol',
      { class: 'stops', 'aria-label': act.name, hidden: true },
      ...act.stops.map(stop =>
        element(
          'li',
          {},
          toStop(
            stop,
            { 'data-stop': stop.name, title: `${stop.idea} ${inMinutes(stop.minutes)}.` },
            element('b', {}, String(stop.number)),
            ` ${stop.title}`,
          ),
        ),
      ),
    ),
  }));
  const more = makeMore(app);
  const node = element(
    'nav',
    { 'aria-label': 'The course' },
    element('ol', { class: 'acts' }, ...acts.map(({ link }) => element('li', {}, link))),
    ...acts.map(({ list }) => list),
    more.node,
  );
  const centre = () =>
    node.querySelector('.stops:not([hidden]) [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });
  new ResizeObserver(centre).observe(node);
  return {
    node,
    // The page that is shown, and its stop if it has one.
    /** @param {string} path @param {Stop | null} stop */
    mark(path, stop) {
      for (const { name, link, list } of acts) {
        current(link, name === stop?.act, 'true');
        list.hidden = name !== stop?.act;
        for (const a of list.querySelectorAll('a')) current(a, a.dataset.stop === stop?.name, 'page');
      }
      more.mark(path, !stop);
      centre();
    },
    // progress: stop -> seen or done.
    marks(/** @type {Texts} */ progress) {
      for (const { name, stops, link, minutes } of acts) {
        for (const stop of stops) sign(node.querySelector(`[data-stop="${stop.name}"]`), progress[stop.name]);
        const done = stops.filter(stop => progress[stop.name] === 'done').length;
        link.title = `${name}: ${stops.length} stops, ${inMinutes(minutes)}` + (done ? `, ${done} done` : '');
        sign(link, done === stops.length ? 'done' : '');
      }
    },
  };
}

/** @param {Element} a @param {string} state */
function sign(a, state) {
  const [mark, said] = MARKS[state] ?? [];
  a.querySelector('.mark')?.remove();
  if (mark) a.append(element('span', { class: 'mark', title: said }, mark, element('span', { class: 'unseen' }, said)));
}

/** @param {Element} a @param {boolean} yes @param {string} kind */
const current = (a, yes, kind) => (yes ? a.setAttribute('aria-current', kind) : a.removeAttribute('aria-current'));

// Pages that are no stops, and every page of the course with the reader's own choices.
/** @param {App} app */
function makeMore(app) {
  const { course, rail } = app;
  const paths = new Set(course.stops.map(({ story }) => story)),
    pages = rail.filter(({ path }) => path !== 'start');
  const link = (/** @type {Lens} */ { path, title }) => {
    const leave = () => {
      list.hidePopover();
      app.visits.leave(path);
    };
    return element('li', {}, way(path, leave, { 'data-story': path }, title));
  };
  /** @type {(name: string, pages: Lens[]) => Node[]} */
  const group = (name, pages) =>
    pages.length ? [element('p', {}, name), element('ul', { 'aria-label': name }, ...pages.map(link))] : [];
  const list = element(
    'div',
    { class: 'menu more-pages', popover: 'auto', role: 'group', 'aria-label': 'More pages' },
    ...group(
      'Next to the course',
      pages.filter(({ path }) => !paths.has(path)),
    ),
    ...group(
      'Your choices on another page',
      pages.filter(({ path }) => paths.has(path)),
    ),
  );
  const opener = button('More pages', null, { class: 'opens-menu' });
  opens(opener, list, { onOpen: () => list.querySelector('a').focus() });
  return {
    node: element('div', { class: 'with-menu' }, opener, list),
    /** @param {string} path @param {boolean} here */
    mark(path, here) {
      for (const a of list.querySelectorAll('a')) current(a, a.dataset.story === path, 'page');
      opener.classList.toggle('here', here && path !== 'start');
    },
  };
}
