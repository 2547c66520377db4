// The one toolbar: kernel, problem, what-if as chips, the story's own choices; the rest behind
// "More". Guided shows one or two choices and "Settings"; its labels are plain words.
import { control } from './controls.js';
import { makeMenu } from './menu.js';
import { button, element } from '../core/paint.js';

const GROUPS = {
  place: 'What is traced',
  problem: 'Problem',
  build: 'Build',
  run: 'Where it runs',
};
// What Guided shows in front: the first of these groups that a page has. Its others are behind
// "Settings".
const FRONT = ['what_if', 'kernel', 'own', 'preset'];

// A choice in plain words, its identifier on hover; with all in sight, the identifier itself.
const wordsOf = ({ name, plain, help }, deep) =>
  deep || !plain ? {} : { label: plain, help: [help, `(${name})`].filter(Boolean).join(' ') };

// change(name, value): asks for another value; shares: entries (menu.js) of the menu beside "Copy
// link"; deep(): whether everything is in sight. Returns {node, open, load, redraw, unmount}.
export function makeToolbar({ change, copyLink, shares, deep }) {
  const front = element('div', { class: 'front' }),
    panel = element('div', {
      class: 'more',
      hidden: true,
      role: 'group',
      'aria-label': 'More choices',
    });
  const more = button('More', () => open(panel.hidden), {
    'aria-expanded': 'false',
    class: 'quiet',
  });
  const copy = button(
    'Copy link',
    async () => {
      copy.textContent = await copyLink();
      setTimeout(() => {
        copy.textContent = 'Copy link';
      }, 2000);
    },
    { class: 'quiet copy', title: 'Copy a link to these choices and this step' },
  );
  const about = element('p', { class: 'about-line few', hidden: true });
  const node = element(
    'div',
    { class: 'toolbar', role: 'group', 'aria-label': 'Choices' },
    front,
    about,
    more,
    copy,
    makeMenu('\u25be', 'Embed code, image, print', shares),
    panel,
  );
  let shown = '',
    given = [[], {}];
  const open = yes => {
    panel.hidden = !yes;
    more.setAttribute('aria-expanded', String(yes));
    if (yes) panel.querySelector('input,select,button')?.focus();
  };
  node.onkeydown = event => {
    if (event.key !== 'Escape' || panel.hidden) return;
    open(false);
    more.focus();
    event.stopPropagation();
  };
  const onDown = event => {
    if (!panel.hidden && !node.contains(event.target)) open(false);
  };
  document.addEventListener('pointerdown', onDown);

  const put = (choice, narrow) =>
    control({ ...choice, ...wordsOf(choice, deep()) }, given[1][choice.name], change, narrow);
  const groups = (behind, titles) =>
    Object.entries(titles)
      .filter(([group]) => behind.some(c => c.group === group))
      .map(([group, title]) =>
        element(
          'fieldset',
          {},
          element('legend', {}, title),
          ...behind.filter(c => c.group === group).map(c => put(c, false)),
        ),
      );
  const drawAll = choices => {
    const inFront = choices.filter(c => !GROUPS[c.group]),
      behind = choices.filter(c => GROUPS[c.group]);
    // two rows of the same chips would not fit
    const sides = inFront.filter(c => c.group === 'what_if').length > 1;
    front.replaceChildren(...inFront.map(c => put(c, sides && c.group === 'what_if')));
    panel.replaceChildren(...groups(behind, GROUPS));
    return behind.length;
  };
  const drawFew = (choices, refused) => {
    const many = name => choices.filter(c => c.group === name).length,
      group = many('kernel') > 1 ? 'kernel' : FRONT.find(many),
      few = choices.filter(c => c.group === group).slice(0, 2),
      others = choices.filter(c => !few.includes(c) && (!GROUPS[c.group] || refused[c.name]));
    front.replaceChildren(...few.map(c => put(c, true)));
    panel.replaceChildren(...others.map(c => put(c, false)));
    return others.length;
  };
  const draw = () => {
    const [choices, refused] = given,
      key = JSON.stringify([deep(), choices, refused]);
    if (key === shown) return;
    shown = key;
    const focused = node.contains(document.activeElement)
      ? document.activeElement.getAttribute('data-name')
      : null;
    more.textContent = deep() ? 'More' : 'Settings';
    more.hidden = !(deep() ? drawAll(choices) : drawFew(choices, refused));
    if (focused) node.querySelector(`[data-name="${focused}"]`)?.focus();
  };

  return {
    node,
    open,
    // choices: app/choices/described.py; refused: name -> why its new value was not taken.
    load(choices, refused) {
      given = [choices, refused];
      draw();
    },
    // What Guided shows: the problem, and the place of recorded figures. Everything has the problem among its choices,
    // and the place behind the label in the header. "run" names the run next to figures of other runs.
    /** @type {(problem?: string, from?: {place?: string, label?: string}) => void} */
    about(problem, { place = '', label = '' } = {}) {
      const run = place && label !== 'recorded' ? 'run: ' : '';
      about.replaceChildren(
        ...(problem ? [element('span', {}, `${run}${problem}`)] : []),
        ...(place ? [element('span', {}, `recorded: ${place}`)] : []),
      );
      about.hidden = !about.childElementCount;
    },
    has: name => given[0].some(choice => choice.name === name),
    // Puts the focus on a choice.
    reveal(name) {
      const control = node.querySelector(`[data-name="${name}"]`);
      if (panel.contains(control)) open(true);
      control?.focus();
    },
    // The depth has changed.
    redraw: () => draw(),
    unmount() {
      document.removeEventListener('pointerdown', onDown);
    },
  };
}
