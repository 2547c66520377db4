// The one toolbar: kernel, problem, what-if as chips, the story's own choices; the rest behind
// "More". Guided shows one or two choices and "Settings"; its labels are plain words.
import { control } from './controls.js';
import { makeMenu } from './menu.js';
import { button, element, listen } from '../core/paint.js';

/** @type {Texts} */
const GROUPS = {
  place: 'What is traced',
  problem: 'Problem',
  build: 'Build',
  run: 'Where it runs',
};
// What Guided shows in front: the first of these groups that a page has. Its others are behind
// "Settings".
const FRONT = ['what_if', 'kernel', 'own', 'preset'];

/** @param {App} app */
export function makeToolbar(app) {
  const deep = () => app.depth.deep; // whether everything is in sight
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
      copy.textContent = await app.saving.copiesLink();
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
    makeMenu('\u25be', 'Embed code, image, page, print', [
      {
        label: 'Copy embed code',
        title: 'An iframe of this moment, for slides',
        stays: true,
        onClick: () => app.saving.copyEmbedCode(),
      },
      {
        label: 'Save as PNG',
        title: 'An image of what stands on the stage',
        stays: true,
        onClick: () => app.saving.savePicture(),
      },
      {
        label: 'Save as a page',
        title: 'One file that steps without a network',
        stays: true,
        onClick: () => app.saving.savePage(),
      },
      { label: 'Print', title: 'This moment on one page', onClick: () => print() },
    ]),
    panel,
  );
  let shown = '';
  /** @type {any[]} */ let choices = [];
  /** @type {Texts} */ let refused = {};
  const open = (/** @type {boolean} */ yes) => {
    panel.hidden = !yes;
    more.setAttribute('aria-expanded', String(yes));
    if (yes) panel.querySelector('input,select,button')?.focus();
  };
  node.onkeydown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== 'Escape' || panel.hidden) return;
    open(false);
    more.focus();
    event.stopPropagation();
  };

  const put = (/** @type {any} */ choice, narrow = false) => {
    const { name, plain, help } = choice;
    // In plain words, its identifier on hover; with all in sight, the identifier itself.
    if (!deep() && plain) choice = { ...choice, label: plain, help: [help, `(${name})`].filter(Boolean).join(' ') };
    return control(choice, refused[name], (...change) => app.change(...change), narrow, app.base);
  };
  const inGroup = (/** @type {string} */ name) => choices.filter(({ group }) => group === name);
  const drawAll = () => {
    // two rows of the same chips would not fit
    const narrow = inGroup('what_if').length > 1 ? 'what_if' : '';
    const inFront = choices.filter(({ group }) => !GROUPS[group]);
    front.replaceChildren(...inFront.map(c => put(c, c.group === narrow)));
    const behind = Object.entries(GROUPS).filter(([group]) => inGroup(group).length);
    panel.replaceChildren(
      ...behind.map(([group, title]) =>
        element('fieldset', {}, element('legend', {}, title), ...inGroup(group).map(c => put(c))),
      ),
    );
    return behind.length;
  };
  const drawFew = () => {
    const many = (/** @type {string} */ name) => inGroup(name).length,
      group = many('kernel') > 1 ? 'kernel' : FRONT.find(many),
      few = inGroup(group ?? '').slice(0, 2),
      others = choices.filter(c => !few.includes(c) && (!GROUPS[c.group] || refused[c.name]));
    front.replaceChildren(...few.map(c => put(c, true)));
    panel.replaceChildren(...others.map(c => put(c)));
    return others.length;
  };
  const draw = () => {
    const key = JSON.stringify([deep(), choices, refused]);
    if (key === shown) return;
    shown = key;
    const focused = node.contains(document.activeElement) && document.activeElement?.getAttribute('data-name');
    more.textContent = deep() ? 'More' : 'Settings';
    more.hidden = !(deep() ? drawAll() : drawFew());
    if (focused) node.querySelector(`[data-name="${focused}"]`)?.focus();
  };

  return {
    node,
    open,
    // choices: app/choices/described.py; refused: name -> why its new value was not taken.
    /** @param {any[]} described @param {Texts} reasons */
    load(described, reasons) {
      // the site without a server opens no file
      [choices, refused] = [described.filter(({ kind }) => kind !== 'file' || !app.root.matches('.site')), reasons];
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
    has: (/** @type {string} */ name) => choices.some(choice => choice.name === name),
    // Puts the focus on a choice.
    reveal(/** @type {string} */ name) {
      const control = node.querySelector(`[data-name="${name}"]`);
      if (panel.contains(control)) open(true);
      control?.focus();
    },
    redraw: draw, // the depth has changed
    unmount: listen(document, 'pointerdown', ({ target }) => {
      if (!panel.hidden && !node.contains(target)) open(false);
    }),
  };
}
