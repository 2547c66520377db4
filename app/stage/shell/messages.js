// What the page has to say, one line each and none in another's way: how the run goes, warnings,
// what of a link was not taken, offers.
import { button, element, way } from '../core/paint.js';

export function makeMessages() {
  const slots = Object.fromEntries(['run', 'warnings', 'told', 'lost', 'offer'].map(name => [name, element('div')]));
  const node = element(
    'div',
    { class: 'messages', hidden: true, tabindex: '0', role: 'region', 'aria-label': 'Messages' },
    ...Object.values(slots),
  );
  /** @type {string[]} */ let told = [];
  let over = false; // what stands in `told` is of the question before
  /** @type {(name: string, ...notes: Node[]) => void} */
  const put = (name, ...notes) => {
    slots[name].replaceChildren(...notes);
    node.hidden = !Object.values(slots).some(slot => slot.childElementCount);
  };
  return {
    node,
    // Of the run: a note of the caller's, or none.
    show(/** @type {Node | null} */ note) {
      put('run', ...(note ? [note] : []));
    },
    // Another question: what was told stays until its answer is there.
    anew() {
      [told, over] = [[], true];
    },
    // Sentences on what was not taken; those of one question stand together until they are
    // dismissed.
    tell(/** @type {string[]} */ sentences) {
      const more = sentences.filter(sentence => !told.includes(sentence));
      if (!more.length && !over) return;
      told = [...told, ...more];
      over = false;
      if (!told.length) return put('told');
      const text = `Not all that was asked for could be taken. ${told.join(' ')} `,
        dismiss = button('Dismiss', () => put('told'), { class: 'quiet' });
      put('told', element('p', { class: 'note info', role: 'alert' }, text, dismiss));
    },
    // An address without a page, in a sentence, and places near it (app/web/searching.py).
    /** @type {(found: {said: string, near: any[]}, go: (link: string) => void) => void} */
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
    // A change that would show more (asking.py), or none; take makes it.
    /** @type {(given: any, take: (set: any) => void) => void} */
    offer(given, take) {
      if (!given) return put('offer');
      const act = button(given.label, () => take(given.set));
      put('offer', element('p', { class: 'note info', role: 'status' }, `${given.text} `, act));
    },
    // What a reader must know before believing the run.
    warn(/** @type {string[]} */ texts) {
      put('warnings', ...texts.map(text => element('p', { class: 'note bad', role: 'alert' }, text)));
    },
    clear() {
      for (const name of Object.keys(slots)) put(name);
      told = [];
    },
  };
}
