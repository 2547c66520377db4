// What the page has to say, one line each and none in another's way: how the run goes, warnings,
// what of a link was not taken, offers.
import { button, element, way } from '../core/paint.js';

export function makeMessages() {
  const slots = Object.fromEntries(
    ['run', 'warnings', 'told', 'lost', 'offer'].map(name => [name, element('div')]),
  );
  const node = element(
    'div',
    { class: 'messages', hidden: true, tabindex: '0', role: 'region', 'aria-label': 'Messages' },
    ...Object.values(slots),
  );
  let told = [],
    over = false; // over: what stands in `told` is of the question before
  const put = (name, ...notes) => {
    slots[name].replaceChildren(...notes);
    node.hidden = !Object.values(slots).some(slot => slot.childElementCount);
  };
  return {
    node,
    // Of the run: a note of the caller's, or none.
    show(note) {
      put('run', ...(note ? [note] : []));
    },
    // Another question: what was told stays until its answer is there.
    anew() {
      [told, over] = [[], true];
    },
    // Sentences on what was not taken; those of one question stand together until they are
    // dismissed.
    tell(sentences) {
      const more = sentences.filter(sentence => !told.includes(sentence));
      if (!more.length && !over) return;
      told = [...told, ...more];
      over = false;
      put(
        'told',
        ...(told.length
          ? [
              element(
                'p',
                { class: 'note info', role: 'alert' },
                `Not all that was asked for could be taken. ${told.join(' ')} `,
                button('Dismiss', () => put('told'), { class: 'quiet' }),
              ),
            ]
          : []),
      );
    },
    // An address without a page, in a sentence, and places near it (app/web/searching.py); go(link).
    lost({ said, near }, go) {
      const links = near.map(({ title, link }) =>
        element(
          'li',
          {},
          way(link, () => go(link), {}, title),
        ),
      );
      put(
        'lost',
        element(
          'div',
          { class: 'note info', role: 'alert' },
          `${said} `,
          ...(links.length ? [element('ul', { 'aria-label': 'Near it' }, ...links)] : []),
          button('Dismiss', () => put('lost'), { class: 'quiet' }),
        ),
      );
    },
    // A change that would show more (asking.py), or none; take(set) makes it.
    offer(given, take) {
      put(
        'offer',
        ...(given
          ? [
              element(
                'p',
                { class: 'note info', role: 'status' },
                `${given.text} `,
                button(given.label, () => take(given.set)),
              ),
            ]
          : []),
      );
    },
    // What a reader must know before believing the run.
    warn(texts) {
      put(
        'warnings',
        ...texts.map(text => element('p', { class: 'note bad', role: 'alert' }, text)),
      );
    },
    clear() {
      for (const name of Object.keys(slots)) put(name);
      told = [];
    },
  };
}
