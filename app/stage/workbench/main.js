// The workbench: an editor, its messages in a list, and the picture of the edited kernel's run.
import { makeAsking } from './asking.js';
import { makeEditor } from './editor.js';
import { makeExercises } from './exercises.js';
import { makeKeeping, packed, unpacked } from './keeping.js';
import { makeList } from './list.js';
import { makePicture } from './picture.js';
import { makeVersions } from './versions.js';
import css from './workbench.css';

const HELP = 'Press a line number to watch its value. On a loop, the picture steps through it.',
  KEYS = 'Keys: F9 watches the line. F8: next message. Ctrl+Enter: check. Esc, then Tab, leaves the editor.';

/**
 * @param {HTMLElement} host
 * @param {{starter: string, setting: string, off: boolean, exercise: string,
 *   exercises: import('./exercises.js').Exercise[]}} given
 * @param {Required<import('../core/host.js').Host>} page
 * @param {typeof import('../core/paint.js')} tools
 */
export default function (host, given, page, { element, button, save }) {
  const { starter, setting, off } = given;
  const keeping = makeKeeping(page);
  const said = element('p', { class: 'said-of-check', role: 'status' }),
    list = makeList({ element, button }, line => editor.goTo(line)),
    picture = makePicture({ element, button }, page.href),
    noted = element('p', { class: 'hints', role: 'status' }),
    place = element('div', { class: 'place' });
  const exercises = makeExercises({ element, button }, given.exercises, page, {
    current: () => editor.text,
    open: text => {
      versions.offer(!exercises.chosen);
      picture.node.hidden = !!exercises.chosen;
      check.textContent = exercises.chosen ? 'Grade' : 'Check';
      replace(text, false, keeping.file());
    },
    starter: () => keeping.read() ?? starter,
  });
  const say = (text, tone = '') => {
    said.textContent = text;
    said.dataset.tone = tone;
  };
  const editor = makeEditor({
    parent: place,
    text: keeping.read() ?? starter,
    changed: text => {
      noted.textContent = '';
      write(text);
      say(off ? setting : '');
      if (!off) asking.later();
    },
    check: () => off || asking.ask(true),
    watched: text => (noted.textContent = text),
  });
  const asking = makeAsking({
    request: page.request,
    text: () => editor.text,
    exercise: () => exercises.chosen,
    began: whole => say(whole ? 'All problems are being checked.' : 'The text is being checked.'),
    answered(answer) {
      show(answer);
      if (!answer.error && !exercises.chosen) versions.add(editor.text, answer);
    },
  });
  const versions = makeVersions({ element, button }, page, {
    compare: asking.compare,
    open: text => replace(text, true, keeping.file()),
    turned: shown => (picture.node.hidden = shown),
  });
  /** @param {import('./asking.js').Answer} answer */
  function show({ diagnostics, ok, said: sentence, kernel, pages, proposal, error, cases }) {
    editor.mark(diagnostics);
    list.show(diagnostics);
    opening.hidden = !proposal;
    opening.onclick = () => editor.change(proposal);
    if (error) return say(error, 'bad');
    const mark = !ok ? 'Not ok: ' : sentence.startsWith('ok') ? '' : 'ok: ';
    say(`${mark}${sentence}`, ok ? 'good' : 'bad');
    if (cases) exercises.graded(ok, cases);
    if (pages.length && !exercises.chosen) picture.show(kernel, pages);
  }

  // ---- the buttons ----
  const file = element('input', { type: 'file', accept: '.cu,.cuh,.txt', hidden: true });
  file.onchange = async () => {
    const [opened] = file.files;
    if (opened) replace(await opened.text(), true, opened.name);
    if (opened && !off) asking.ask(false);
    file.value = '';
  };
  const write = text => (exercises.chosen ? exercises.write(text) : keeping.write(text));
  const replace = (text, aside = true, name = undefined) => {
    if (aside && !exercises.chosen && text !== editor.text) keeping.setAside(editor.text);
    if (!exercises.chosen) keeping.setFile(name);
    editor.open(text);
    asking.forget();
    write(text);
    back.hidden = keeping.before() === null;
    show({ diagnostics: [], ok: false, said: '', kernel: '', pages: [], error: ' ' });
  };
  const back = button('Text before', () => replace(keeping.before() ?? starter), {
    title: 'The text before the last opened one',
    hidden: keeping.before() === null,
  });
  async function link() {
    const end = await packed(editor.text);
    if (!end) return say('The text is too long for a link. Save it as a file.', 'bad');
    await navigator.clipboard?.writeText(`${location.origin}${location.pathname}${end}`);
    say('The link is copied. It holds the text.');
  }
  const opening = button('Write the opening comment', () => {}, {
    title: 'Proposed from the signatures and the launches of this text',
    hidden: true,
  });
  const check = button('Check', () => asking.ask(true), {
    title: 'Compiles, runs and checks all problems (Ctrl+Enter)',
    disabled: off,
    class: 'check',
  });
  const bar = element(
    'div',
    { class: 'tools', role: 'group', 'aria-label': 'The text' },
    exercises.choice,
    check,
    button('Open', () => file.click(), { title: 'A .cu file of this computer' }),
    button('Save', () => save(new Blob([editor.text], { type: 'text/plain' }), keeping.file()), {
      title: 'As a .cu file',
    }),
    button('Copy link', link, { title: 'A link with this text' }),
    button('Start over', () => replace(exercises.start() ?? starter), { title: 'The first text' }),
    back,
    versions.button,
    opening,
    file,
  );
  host.replaceChildren(
    element('style', {}, css),
    element(
      'div',
      { class: 'workbench' },
      element(
        'section',
        { class: 'writing', 'aria-label': 'Editor' },
        bar,
        place,
        said,
        noted,
        list.node,
        element('p', { class: 'hints' }, HELP),
        element('p', { class: 'hints' }, KEYS),
      ),
      exercises.node,
      picture.node,
      versions.node,
    ),
  );
  // Streamlit has keys of its own, such as r and c.
  const own = event => event.stopPropagation();
  host.addEventListener('keydown', own);

  if (given.exercise) exercises.choose(given.exercise);

  // A link's text is shown, and not run before the reader asks: it is a stranger's.
  const take = async () => {
    const text = await unpacked(location.hash);
    if (text === null) return false;
    history.replaceState(history.state, '', location.pathname + location.search);
    if (text !== editor.text) replace(text);
    say('This text is from a link. Read it, then press Check.');
    return true;
  };
  take().then(taken => {
    if (!taken && !off) asking.ask(false);
  });
  addEventListener('hashchange', take);
  return {
    unmount() {
      asking.forget();
      removeEventListener('hashchange', take);
      editor.unmount();
      host.removeEventListener('keydown', own);
      host.replaceChildren();
    },
  };
}
