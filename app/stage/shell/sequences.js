// Sequences as the page has them: the button of the header, the panel, the player, and the talks of
// the start page.
import { button, element } from '../core/paint.js';
import { makePlayer } from './player.js';
import { checked, lengthOf } from './sequence.js';
import { makeSequencePanel } from './sequence_panel.js';

/** @param {App} app */
export function makeSequences(app) {
  const opener = button('Sequence', () => panel.toggle(), {
    class: 'head-button front-entry',
    'data-open': 'sequence',
    'aria-expanded': 'false',
    title: 'Talks: moments in an order, with notes, played by clicker',
  });
  const player = makePlayer(app);
  /** @type {(sequence: import('./sequence.js').Sequence, at?: number) => Promise<any>} */
  const play = (sequence, at) => {
    panel.toggle(false);
    app.guide.close();
    app.present.enter();
    return player.play(sequence, at);
  };
  const shown = (/** @type {boolean} */ yes) => {
    opener.setAttribute('aria-expanded', String(yes));
    if (yes) return;
    const menu = document.querySelector('.wg .head .opens-menu[aria-haspopup]'); // of a narrow window
    (opener.checkVisibility() ? opener : menu)?.focus({ preventScroll: true });
  };
  const panel = makeSequencePanel(app, play, shown);
  const talks = element('ul', { class: 'cards talks' });

  const paths = app.rail.map(s => s.path);
  const ours = import('../talks/ours.js')
    .then(({ TALKS }) => {
      const list = TALKS.map(({ id, ...talk }) => ({ id: `ours ${id}`, ...checked(talk, paths) }));
      panel.ours(list);
      talks.replaceChildren(
        ...list.map((talk, n) => {
          const look = () => {
            panel.choose(talk.id);
            panel.toggle(true);
          };
          return element(
            'li',
            { 'data-talk': TALKS[n].id },
            element('b', {}, talk.title),
            element('span', {}, lengthOf(talk.moments)),
            element(
              'span',
              { class: 'row' },
              button('Play', () => play(talk)),
              button('Look at the notes', look, { class: 'quiet' }),
            ),
          );
        }),
      );
    })
    .catch(error =>
      talks.replaceChildren(
        element('li', {}, `The talks could not be fetched (${error.message}). Load the page anew.`),
      ),
    );
  player.resume(async (/** @type {string} */ ref) => {
    await ours;
    return panel.find(ref);
  });

  return {
    button: opener,
    panel: panel.node,
    bar: player.node,
    notes: player.notes,
    slide: player.slide,
    talks,
    playing: player.playing,
    unmount: player.unmount,
  };
}
