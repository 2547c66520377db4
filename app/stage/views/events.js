// The history of a cache: its events, the one just played lit, a press goes there; what is wasted
// then; and, by hand, the next event.
import { button, element } from '../core/paint.js';

const WORDS = {
  append: 'Append tokens to',
  add: 'Add a sequence',
  fork: 'Fork a sequence',
  free: 'Free a sequence',
};
const LETTERS = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ'];
let last = {}; // what stood in the form, which is made anew with every event

export default function (host, { meta }, context) {
  const { clock, stage, change } = context;
  const { events, names, by_hand } = meta,
    rows = events.map((text, n) => button('', () => clock.set(n, 'user'), { class: 'event' }));
  rows.forEach((row, n) =>
    row.append(element('span', { class: 'number' }, String(n)), events[n] || 'empty cache'),
  );
  const list = element('div', { class: 'events', role: 'group', 'aria-label': 'Events' }, ...rows),
    waste = element('p', {});
  host.replaceChildren(
    ...(by_hand
      ? [form(events.slice(1), names.at(-1), stage.refused.events, text => change('events', text))]
      : []),
    list,
    waste,
  );
  const draw = step => {
    rows.forEach((row, n) => {
      row.classList.toggle('lit', n === step);
      row.setAttribute('aria-current', n === step ? 'step' : 'false');
    });
    const row = rows[Math.min(step, rows.length - 1)];
    list.scrollTop = Math.max(0, row.offsetTop - list.offsetTop - list.clientHeight / 2);
    waste.textContent = stage.frames[step]?.waste ?? '';
  };
  const unfollow = clock.follow(draw);
  draw(clock.step);
  return {
    unmount() {
      unfollow();
      host.replaceChildren();
    },
  };
}

// The next event. A refused one changes nothing and says why.
function form(events, names, refused, send) {
  const taken = new Set(events.map(text => text.split(' ')[1])),
    fresh = LETTERS.find(name => !taken.has(name)) ?? '';
  const action = element(
    'select',
    { 'aria-label': 'Next event' },
    ...Object.entries(WORDS).map(([value, text]) =>
      element('option', { value, disabled: !names.length && value !== 'add' }, text),
    ),
  );
  const which = element(
    'select',
    { 'aria-label': 'Sequence' },
    ...names.map(name => element('option', { value: name }, name)),
  );
  const name = element('input', {
    type: 'text',
    maxlength: 12,
    value: fresh,
    'aria-label': 'Name',
    spellcheck: 'false',
  });
  const tokens = element('input', {
    type: 'number',
    min: 1,
    max: 99999,
    'aria-label': 'Tokens',
    value: last.tokens ?? 20,
  });
  const parts = {
      append: [which, tokens],
      add: [name, tokens],
      fork: [which, name],
      free: [which],
    },
    words = { add: ['', 'tokens'], append: ['', 'tokens'], fork: ['', 'as'], free: [''] };
  const fields = element('span', { class: 'fields' });
  const show = () =>
    fields.replaceChildren(
      ...parts[action.value].flatMap((part, n) =>
        action.value === 'fork' && n
          ? [words.fork[1], part]
          : n
            ? [part, words[action.value][n]]
            : [part],
      ),
    );
  action.value = names.length ? (last.action ?? 'append') : 'add';
  if (names.includes(last.which)) which.value = last.which;
  if (refused && last.name) name.value = last.name;
  action.onchange = show;
  show();
  const written = () =>
    ({
      append: `append ${which.value} ${tokens.value}`,
      add: `add ${name.value.trim()} ${tokens.value}`,
      fork: `fork ${name.value.trim()} ${which.value}`,
      free: `free ${which.value}`,
    })[action.value];
  const made = element(
    'form',
    { class: 'hand', 'aria-label': 'The next event' },
    action,
    fields,
    element(
      'span',
      { class: 'fields' },
      element('button', { type: 'submit' }, 'Apply'),
      button('Undo', () => send(events.slice(0, -1).join(', ')), { disabled: !events.length }),
      button('Clear', () => send(''), { disabled: !events.length }),
    ),
    ...(refused
      ? [
          element(
            'p',
            { class: 'note bad', role: 'alert' },
            element('b', {}, 'Refused. '),
            `${refused} Nothing was changed.`,
          ),
        ]
      : []),
  );
  made.onsubmit = event => {
    event.preventDefault();
    last = { action: action.value, which: which.value, tokens: tokens.value, name: name.value };
    send([...events, written()].join(', '));
  };
  return made;
}
