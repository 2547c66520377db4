// Where sequences are made: chosen, named, ordered, with a note at each moment; taken from files
// and written to them.
import { button, element, save as saveFile } from '../core/paint.js';
import { MOST, lengthOf, linkOf, makeStore, readFile, written } from './sequence.js';

/** @typedef {import('./sequence.js').Sequence} Sequence */
/** @typedef {import('./sequence.js').Moment} Moment */

// shown: it was opened or closed.
/** @param {App} app @param {(sequence: Sequence, at?: number) => void} play @param {(yes: boolean) => void} shown */
export function makeSequencePanel(app, play, shown) {
  const { rail } = app,
    { clock } = app.stage;
  const paths = rail.map(s => s.path),
    store = makeStore(paths);
  /** @type {Sequence[]} */ let ours = [];
  let ref = store.all()[0]?.id ?? '',
    opened = -1, // the moment whose fields are open
    sure = false, // Delete was pressed once
    drawn = 0;
  const said = element('p', { class: 'told', role: 'status' }),
    list = element('ol', { class: 'moments' });
  const which = element('select', { 'aria-label': 'Which sequence', 'data-name': 'sequence' });
  const name = element('input', {
    type: 'text',
    maxlength: MOST.title,
    'aria-label': 'Name of the sequence',
  });
  const file = element('input', {
    type: 'file',
    accept: '.json,application/json',
    hidden: true,
    'data-name': 'file',
  });
  const plan = element('p', { class: 'plan' });
  const erase = button('Delete', () => remove());
  const start = button('Play', () => play(chosen()), {
    class: 'go',
    title: 'Present it from its first moment (PageDown and PageUp go on and back)',
  });
  const copy = button('Copy to edit', () => take(store.create(chosen().title, chosen().moments), 'Copied.'));
  const out = button('Export', save, { title: 'Save it as a file' });
  const add = button('Add this moment', () => note(), {
    class: 'go',
    title: 'Add this page and step at the end',
  });
  const node = element(
    'section',
    { class: 'sequences', hidden: true, role: 'dialog', 'aria-label': 'Sequence' },
    element(
      'div',
      { class: 'top' },
      element('h2', { tabindex: '-1' }, 'Sequence'),
      button('\u00d7', () => toggle(), {
        'aria-label': 'Close the sequences',
        title: 'Close (Esc)',
        class: 'quiet close',
      }),
    ),
    element(
      'p',
      { class: 'about' },
      'A list of moments with notes, for a talk with a clicker. Only this browser keeps it.',
    ),
    element('div', { class: 'tools' }, which, start, add),
    element(
      'div',
      { class: 'tools' },
      name,
      button('New', () => take(store.create('My sequence'), 'An empty sequence.')),
      copy,
      button('Import', () => file.click(), { title: 'Read an exported file' }),
      out,
      erase,
      file,
    ),
    said,
    plan,
    list,
  );

  const find = (/** @type {string} */ id) => [...ours, ...store.all()].find(one => one.id === id);
  const mine = () => store.all().find(one => one.id === ref),
    // where a control shows only if there is one
    chosen = () => /** @type {Sequence} */ (find(ref)),
    edited = () => /** @type {Sequence} */ (mine());
  const titleOf = (/** @type {string} */ link) => rail.find(s => s.path === link.split('?')[0])?.title ?? '';
  const tell = (/** @type {string} */ text) => {
    said.textContent = text;
  };

  // ---- changes ----
  /** @param {Sequence} sequence @param {string} text */
  function take(sequence, text) {
    [ref, opened] = [sequence.id, -1];
    tell(store.put(sequence) || text);
    draw();
  }
  // Changes the moments of the chosen sequence in place.
  /** @param {(moments: Moment[]) => void} by */
  function change(by, text = '') {
    const sequence = edited(),
      moments = [...sequence.moments];
    by(moments);
    tell(store.put({ ...sequence, moments }) || text);
  }
  function note() {
    const sequence = mine() ?? store.create('My sequence'),
      here = app.address.now();
    let link;
    try {
      link = linkOf(here, paths);
    } catch (error) {
      return tell(`This moment was not added: ${error.message}`);
    }
    const step = /[?&]step=/.test(here) ? clock.titles[clock.step] : '';
    if (sequence.moments.length >= MOST.moments)
      return tell(`${sequence.title} has ${MOST.moments} moments, the most that one can have.`);
    const title = [titleOf(link), step].filter(Boolean).join(': ').slice(0, MOST.title),
      moments = [...sequence.moments, { link, title, note: '', minutes: 1, steps: 0 }];
    take({ ...sequence, moments }, `Added to ${sequence.title}: ${title}.`);
    list.lastElementChild.scrollIntoView({ block: 'nearest' });
  }
  function remove() {
    const { title } = edited();
    if (!sure) {
      sure = true;
      erase.textContent = `Delete ${title}: press again`;
      return;
    }
    tell(store.remove(ref) || `${title} was deleted.`);
    draw();
    which.focus();
  }
  function save() {
    const sequence = chosen(),
      text = JSON.stringify(written(sequence), null, 1);
    saveFile(new Blob([text], { type: 'application/json' }), `${sequence.title.replace(/[^\w-]+/g, '_')}.json`);
  }
  file.onchange = async () => {
    const [given] = file.files;
    if (!given) return;
    try {
      const { title, moments } = await readFile(given, paths);
      take(store.create(title, moments), `Imported ${title}: ${moments.length} moments.`);
    } catch (error) {
      tell(error.message);
    }
    file.value = ''; // the same file can be chosen again
  };
  name.onchange = () => {
    const title = name.value.trim();
    if (!title) {
      name.value = edited().title;
      return tell('A sequence must have a name.');
    }
    tell(store.put({ ...edited(), title }));
    draw();
  };
  erase.onblur = () => {
    sure = false;
    erase.textContent = 'Delete';
  };
  which.onchange = () => {
    choose(which.value);
    which.focus();
  };

  // ---- what is seen ----
  function draw() {
    drawn++;
    sure = false;
    erase.textContent = 'Delete';
    const kept = store.all();
    /** @type {(label: string, sequences: Sequence[]) => Node[]} */
    const group = (label, sequences) => {
      const options = sequences.map(({ id, title }) => element('option', { value: id, selected: id === ref }, title));
      return options.length ? [element('optgroup', { label }, ...options)] : [];
    };
    if (!find(ref)) ref = (kept[0] ?? ours[0])?.id ?? '';
    which.replaceChildren(...group('In this browser', kept), ...group('Come with Warpglass', ours));
    const sequence = find(ref),
      editable = !!mine();
    name.hidden = erase.hidden = !editable;
    copy.hidden = !sequence || editable;
    out.hidden = !sequence;
    start.disabled = !sequence?.moments.length;
    which.hidden = !sequence;
    name.value = sequence?.title ?? '';
    drawPlan();
    list.replaceChildren(...(sequence?.moments ?? []).map((moment, n, all) => row(moment, n, all.length, editable)));
  }
  function drawPlan() {
    const moments = find(ref)?.moments ?? [];
    plan.textContent = moments.length
      ? `${lengthOf(moments)} planned.`
      : 'No moment yet. Go to a page and a step, and press Add this moment.';
  }
  /** @param {Moment} moment @param {number} n @param {number} count @param {boolean} editable */
  function row(moment, n, count, editable) {
    const label = element('b', {}, moment.title || titleOf(moment.link)),
      small = element('small', {}, about(moment));
    const go = button(`${n + 1} `, () => app.visits.visit(moment.link), {
      class: 'quiet to-moment',
      title: 'Go there',
    });
    go.append(label, ' ', small);
    const acts = !editable
      ? [button('Play from here', () => play(chosen(), n), { class: 'quiet' })]
      : [
          button(
            'Edit',
            () => {
              opened = opened === n ? -1 : n;
              draw();
              at(n, 'edit');
            },
            {
              'data-act': 'edit',
              'aria-expanded': String(opened === n),
              'aria-label': `Edit moment ${n + 1}`,
            },
          ),
          button('\u2191', () => move(n, -1), {
            'data-act': 'up',
            disabled: n === 0,
            'aria-label': `Move moment ${n + 1} up`,
            title: 'Up (Alt+Up)',
          }),
          button('\u2193', () => move(n, 1), {
            'data-act': 'down',
            disabled: n === count - 1,
            'aria-label': `Move moment ${n + 1} down`,
            title: 'Down (Alt+Down)',
          }),
          button(
            'Remove',
            () => {
              opened = -1;
              change(moments => moments.splice(n, 1), `Removed moment ${n + 1}: ${label.textContent}.`);
              draw();
              at(Math.min(n, count - 2), 'edit');
            },
            { 'data-act': 'remove', 'aria-label': `Remove moment ${n + 1}` },
          ),
        ];
    const node = element('li', { 'data-moment': n }, element('div', { class: 'row' }, go, ...acts));
    if (editable && opened === n) node.append(fields(moment, n, label, small));
    else if (!editable && moment.note) node.append(element('p', { class: 'note-of' }, moment.note));
    node.onkeydown = (/** @type {any} */ event) => {
      const direction = event.key === 'ArrowUp' ? -1 : event.key === 'ArrowDown' ? 1 : 0;
      if (!editable || !direction || !event.altKey || event.target.matches('textarea')) return;
      event.preventDefault();
      event.stopPropagation();
      move(n, direction);
    };
    return node;
  }
  const about = (/** @type {Moment} */ { link, minutes, steps }) => {
    const step = new URLSearchParams(link.split('?')[1]).get('step'),
      range = [step && `step ${step}`, steps && `and ${steps} more`];
    return [titleOf(link), ...range, `${minutes} min`].filter(Boolean).join(', ');
  };
  // What is typed is kept at once. A field that is taken away says once more that it has changed:
  // of another moment by then.
  /** @param {Moment} moment @param {number} n @param {Element} label @param {Element} small */
  function fields(moment, n, label, small) {
    const when = drawn;
    const set = (/** @type {Partial<Moment>} */ more) => {
      change(moments => {
        moments[n] = { ...moments[n], ...more };
      });
      const now = edited().moments[n];
      label.textContent = now.title || titleOf(now.link);
      small.textContent = about(now);
      drawPlan();
    };
    const title = element('input', { type: 'text', maxlength: MOST.title, value: moment.title }),
      note = element('textarea', { rows: 5, maxlength: MOST.note });
    note.value = moment.note;
    title.oninput = () => set({ title: title.value });
    note.oninput = () => set({ note: note.value });
    /** @type {(key: 'minutes' | 'steps', most: number, step: string | number) => Element} */
    const numeric = (key, most, step) => {
      const made = element('input', {
        type: 'number',
        min: 0,
        max: most,
        step,
        value: moment[key],
      });
      const right = () => made.validity.valid && made.value !== '';
      made.oninput = () => {
        if (right()) set({ [key]: made.valueAsNumber });
      };
      made.onchange = () => {
        if (right() || when !== drawn) return;
        tell(`${key} is ${made.value || 'no number'}; it must be a number from 0 to ${most}.`);
        made.value = edited().moments[n][key];
      };
      return made;
    };
    return element(
      'div',
      { class: 'fields' },
      element('label', {}, 'Title', title),
      element('label', {}, 'Note', note),
      element('label', { class: 'short' }, 'Minutes', numeric('minutes', MOST.minutes, 'any')),
      element(
        'label',
        {
          class: 'short',
          title: 'Steps that PageDown shows before the next moment',
        },
        'More steps',
        numeric('steps', MOST.steps, 1),
      ),
    );
  }
  /** @param {number} n @param {string} act */
  const at = (n, act) => list.querySelector(`[data-moment="${n}"] [data-act=${act}]:not(:disabled)`)?.focus();
  /** @param {number} n @param {number} by */
  function move(n, by) {
    const to = n + by;
    if (to < 0 || to >= edited().moments.length) return;
    const act = document.activeElement?.getAttribute('data-act') ?? 'edit';
    change(moments => moments.splice(to, 0, ...moments.splice(n, 1)), `Moment ${n + 1} is now ${to + 1}.`);
    if (opened === n) opened = to;
    else if (opened === to) opened = n;
    draw();
    at(to, act);
    // the button that was pressed is at its end
    if (!list.contains(document.activeElement)) at(to, 'edit');
  }

  function toggle(yes = node.hidden) {
    if (yes === !node.hidden) return;
    node.hidden = !yes;
    shown(yes);
    if (!yes) return;
    tell('');
    draw();
    node.querySelector('h2').focus({ preventScroll: true });
  }
  function choose(/** @type {string} */ id) {
    [ref, opened] = [id, -1];
    tell('');
    draw();
  }
  node.onkeydown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    toggle(false);
  };
  return {
    node,
    toggle,
    choose,
    find,
    // The sequences that come with the app, once they are there.
    ours(/** @type {Sequence[]} */ talks) {
      ours = talks;
      if (!node.hidden) draw();
    },
  };
}
