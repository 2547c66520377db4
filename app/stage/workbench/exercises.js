// The exercises: a choice, the task, hints in steps, the graded problems, and the solution with its story.
const DONE = 'warpglass-exercises', // the names of the accepted ones
  TEXT = 'warpglass-exercise-'; // and a name: the reader's text

/**
 * @typedef {{name: string, title: string, idea: string, number: number, task: string,
 *   hints: string[], start: string, solution: string, story: string}} Exercise
 * @typedef {{problem: Record<string, string>, ok: boolean, said: string}} Case
 */

/**
 * @param {{element: any, button: any}} tools
 * @param {Exercise[]} all
 * @param {{kept: (name: string) => string | null, keep: (name: string, value: string) => void}} page
 * @param {{current: () => string, open: (text: string) => void, starter: () => string}} editor
 */
export function makeExercises({ element, button }, all, { kept, keep }, editor) {
  const done = new Set(JSON.parse(kept(DONE) ?? '[]'));
  const select = element('select', { 'aria-label': 'Exercise' }),
    node = element('section', { class: 'exercise', 'aria-label': 'The exercise', hidden: true }),
    results = element('ol', { class: 'cases', 'aria-label': 'Problems' });
  const chosen = () => all.find(one => one.name === select.value);

  const list = () => {
    const before = select.value,
      option = ({ name, number, title }) =>
        element('option', { value: name }, `${done.has(name) ? '✓ ' : ''}${number}. ${title}`);
    select.replaceChildren(element('option', { value: '' }, 'Free editing'), ...all.map(option));
    select.value = before;
  };
  select.onchange = () => {
    const one = chosen();
    node.hidden = !one;
    if (one) draw(one);
    editor.open(one ? (kept(TEXT + one.name) ?? one.start) : editor.starter());
  };

  /** @param {Exercise} one */
  function draw(one) {
    const hints = element('ol', { class: 'steps-of-help', 'aria-label': 'Hints' }),
      solution = element('div', { hidden: true });
    const more = button('Show a hint', () => {
      hints.append(element('li', {}, ...inline(element, one.hints[hints.childElementCount])));
      more.textContent = 'Show another hint';
      more.hidden = hints.childElementCount === one.hints.length;
    });
    const show = button('Show the solution', () => {
      solution.hidden = !solution.hidden;
      show.textContent = solution.hidden ? 'Show the solution' : 'Hide the solution';
      if (!solution.hidden) solution.scrollIntoView({ block: 'start' });
    });
    solution.append(
      element('h3', {}, 'Solution'),
      ...blocks(element, one.story),
      element('pre', { tabindex: '0' }, one.solution),
    );
    results.replaceChildren();
    node.replaceChildren(
      element('h2', {}, one.title),
      ...blocks(element, one.task),
      hints,
      element('p', { class: 'tools' }, more, show),
      results,
      solution,
    );
  }
  list();
  return {
    node,
    choice: select,
    get chosen() {
      return select.value;
    },
    /** @param {string} name */
    choose(name) {
      select.value = name;
      select.onchange();
    },
    start: () => chosen()?.start,
    write: text => keep(TEXT + select.value, text),
    /**
     * The answer of a grade: all problems.
     * @param {boolean} accepted
     * @param {Case[]} cases
     */
    graded(accepted, cases) {
      if (accepted) {
        done.add(select.value);
        keep(DONE, JSON.stringify([...done]));
        list();
      }
      results.replaceChildren(
        ...cases.map(({ problem, ok, said }) => {
          const fields = Object.entries(problem).map(([name, value]) => `${name} ${value}`);
          return element(
            'li',
            { 'data-ok': String(ok), title: fields.join(', ') },
            element('b', {}, `${ok ? 'Right' : 'Wrong'}: `),
            `${fields.slice(0, 5).join(', ')}. ${said}`,
          );
        }),
      );
    },
  };
}

// Paragraphs and lists of a short Markdown text.
function blocks(element, text) {
  return text.split(/\n\s*\n/).map(block => {
    const items = block.split(/^(?:-|\d+\.) /m);
    if (items.length === 1) return element('p', {}, ...inline(element, block));
    const list = items.slice(1).map(item => element('li', {}, ...inline(element, item)));
    return element(block.startsWith('-') ? 'ul' : 'ol', {}, ...list);
  });
}

const inline = (element, text) => text.split('`').map((part, n) => (n % 2 ? element('code', {}, part) : part));
