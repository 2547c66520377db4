// The rail: the acts of the course, the stops of the current act with their marks, and the pages
// that are no stops.
import { inMinutes, linkOf } from './course.js';
import { element, way } from '../core/paint.js';

const MARKS = { seen: ['\u00b7', 'opened'], done: ['\u2713', 'all questions seen'] };

// course: the stops; rail: the stories, as page.py hands them over; open(path): to a page, with the
// reader's choices; visit(stop): to a stop.
export function makeRail({ course, rail, open, visit }) {
  const toStop = (stop, attributes, ...text) =>
    way(linkOf(stop), () => visit(stop), attributes, ...text);
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
  const more = makeMore({ course, rail, open });
  const node = element(
    'nav',
    { 'aria-label': 'The course' },
    element('ol', { class: 'acts' }, ...acts.map(({ link }) => element('li', {}, link))),
    ...acts.map(({ list }) => list),
    more.node,
  );
  const current = (a, yes, kind) =>
    yes ? a.setAttribute('aria-current', kind) : a.removeAttribute('aria-current');
  const centre = () =>
    node
      .querySelector('.stops:not([hidden]) [aria-current]')
      ?.scrollIntoView({ block: 'nearest', inline: 'center' });
  new ResizeObserver(centre).observe(node);
  return {
    node,
    // The page that is shown, and its stop if it has one.
    mark(path, stop) {
      for (const { name, link, list } of acts) {
        current(link, name === stop?.act, 'true');
        list.hidden = name !== stop?.act;
        for (const a of list.querySelectorAll('a'))
          current(a, a.dataset.stop === stop?.name, 'page');
      }
      more.mark(path, !stop);
      centre();
    },
    // progress: stop -> seen or done.
    marks(progress) {
      for (const { name, stops, link, minutes } of acts) {
        for (const stop of stops)
          sign(node.querySelector(`[data-stop="${stop.name}"]`), progress[stop.name]);
        const done = stops.filter(stop => progress[stop.name] === 'done').length;
        link.title =
          `${name}: ${stops.length} stops, ${inMinutes(minutes)}` + (done ? `, ${done} done` : '');
        sign(link, done === stops.length ? 'done' : '');
      }
    },
  };
}

function sign(a, state) {
  const [mark, said] = MARKS[state] ?? [];
  a.querySelector('.mark')?.remove();
  if (mark)
    a.append(
      element(
        'span',
        { class: 'mark', title: said },
        mark,
        element('span', { class: 'unseen' }, said),
      ),
    );
}

// Pages that are no stops, and every page of the course with the reader's own choices.
function makeMore({ course, rail, open }) {
  const paths = new Set(course.stops.map(({ story }) => story)),
    pages = rail.filter(({ path }) => path !== 'start');
  const link = ({ path, title }) =>
    element(
      'li',
      {},
      way(path, () => leave(path), { 'data-story': path }, title),
    );
  const lists = [
    ['Next to the course', pages.filter(({ path }) => !paths.has(path))],
    ['Your choices on another page', pages.filter(({ path }) => paths.has(path))],
  ].filter(([, found]) => found.length);
  const list = element(
    'div',
    { class: 'menu more-pages', popover: 'auto', role: 'group', 'aria-label': 'More pages' },
    ...lists.flatMap(([name, found]) => [
      element('p', {}, name),
      element('ul', { 'aria-label': name }, ...found.map(link)),
    ]),
  );
  const opens = element(
    'button',
    { type: 'button', class: 'opens-menu', 'aria-expanded': 'false' },
    'More pages',
  );
  opens.popoverTargetElement = list;
  list.ontoggle = ({ newState }) => {
    opens.setAttribute('aria-expanded', String(newState === 'open'));
    if (newState !== 'open') return;
    const { left, bottom } = opens.getBoundingClientRect();
    list.style.left = `${Math.max(4, Math.min(left, innerWidth - list.offsetWidth - 4))}px`;
    list.style.top = `${Math.max(4, Math.min(bottom + 4, innerHeight - list.offsetHeight - 4))}px`;
    list.querySelector('a').focus();
  };
  const leave = path => {
    list.hidePopover();
    open(path);
  };
  return {
    node: element('div', { class: 'with-menu' }, opens, list),
    mark(path, here) {
      for (const a of list.querySelectorAll('a')) {
        if (a.dataset.story === path) a.setAttribute('aria-current', 'page');
        else a.removeAttribute('aria-current');
      }
      opens.classList.toggle('here', here && path !== 'start');
    },
  };
}
