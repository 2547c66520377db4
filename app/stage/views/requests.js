// The requests that a server gets, to be changed: a row for each, and all of them sent at once.
// Refused ones change nothing and say why.
import { button, element } from '../core/paint.js';

const NUMBERS = [
  ['arrives', 'arrives at step', 1],
  ['prompt', 'prompt', 0],
  ['answer', 'answer', 0],
];
const LETTERS = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ'];
let draft = null; // what was sent last: it stands here again if it is refused

export default function (host, { meta }, context) {
  const { stage, change } = context;
  const refused = stage.refused.requests,
    begun = refused && draft ? draft : meta.visits;
  const body = element('tbody', {}),
    rows = () =>
      [...body.children].map(row =>
        Object.fromEntries([...row.querySelectorAll('[name]')].map(field => [field.name, field.value.trim()])),
      );
  // Each may be forked from one that stands above it. from, to: one that was called otherwise.
  const offer = (from, to) =>
    [...body.children].forEach((row, n) => {
      const field = row.querySelector('select'),
        value = field.value === from ? to : field.value,
        names = rows()
          .slice(0, n)
          .map(one => one.name);
      field.replaceChildren(...['', ...names].map(name => element('option', { value: name }, name || 'none')));
      field.value = names.includes(value) ? value : '';
    });
  const add = visit => {
    const name = element('input', {
      type: 'text',
      name: 'name',
      maxlength: 12,
      value: visit.name,
      spellcheck: 'false',
      'aria-label': 'Name',
    });
    const numbers = NUMBERS.map(([key, label, min]) =>
      element('input', {
        type: 'number',
        name: key,
        min,
        max: 9999,
        value: visit[key],
        'aria-label': `${visit.name}: ${label}`,
      }),
    );
    const parent = element(
      'select',
      { name: 'parent', 'aria-label': `${visit.name}: forked from` },
      element('option', { value: visit.parent }, visit.parent),
    );
    const row = element(
      'tr',
      {},
      ...[
        name,
        ...numbers,
        parent,
        button(
          '\u00d7',
          () => {
            row.remove();
            offer();
          },
          { 'aria-label': `Remove ${visit.name}`, title: 'Remove' },
        ),
      ].map(field => element('td', {}, field)),
    );
    let called = visit.name;
    name.onchange = () => {
      offer(called, name.value.trim());
      called = name.value.trim();
    };
    body.append(row);
  };
  const more = () => {
    const now = rows(),
      name = LETTERS.find(letter => !now.some(one => one.name === letter)) ?? '';
    add({
      name,
      arrives: Math.max(1, ...now.map(one => Number(one.arrives))),
      prompt: 20,
      answer: 8,
      parent: '',
    });
    offer();
    body.lastChild.querySelector('input').focus();
  };
  begun.forEach(add);
  offer();
  const heads = ['name', ...NUMBERS.map(([, label]) => String(label)), 'forked from'].map(label =>
    element('th', { scope: 'col' }, label),
  );
  const form = element(
    'form',
    { class: 'requests', 'aria-label': 'The requests' },
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
    element(
      'p',
      {},
      'Prompt and answer in tokens. An answer of 0 makes a prefix for other requests. A prompt ' +
        'of 0 makes one more answer to the parent.',
    ),
    element(
      'p',
      { class: 'fields' },
      element('button', { type: 'submit' }, 'Serve these'),
      button('Add a request', more),
    ),
    element('table', {}, element('thead', {}, element('tr', {}, ...heads, element('td', {}))), body),
  );
  form.noValidate = true; // what cannot be is refused in words
  form.onsubmit = event => {
    event.preventDefault();
    draft = rows();
    change(
      'requests',
      draft
        .map(({ name, arrives, prompt, answer, parent }) => [name, arrives, prompt, answer, parent].join(' ').trim())
        .join(', '),
    );
  };
  host.replaceChildren(form);
  return {
    unmount() {
      host.replaceChildren();
    },
  };
}
