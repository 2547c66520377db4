// The speaker's notes in a window of their own, so that a projector shows the stage alone. The page
// that plays writes it.
import { button, element, listen } from '../core/paint.js';

const STYLE = `body { margin: 0; padding: 1.2rem; font: 22px/1.45 system-ui, sans-serif; }
body { color: CanvasText; background: Canvas; color-scheme: light dark; }
h1 { font-size: 1.15em; margin: 0 0 .6em; }
p { margin: 0 0 .8em; white-space: pre-wrap; }
.small { font-size: .75em; }
button { font: inherit; margin-right: .5em; }`;
/** @type {Record<string, number>} */
const KEYS = { PageDown: 1, ArrowRight: 1, ArrowDown: 1, PageUp: -1, ArrowLeft: -1, ArrowUp: -1 };

// move: to the next (1) or the previous press (-1) of the talk. open() is false where the browser forbids it.
/** @param {(direction: number) => void} move */
export function makeNotes(move) {
  /** @type {Window | null} */ let other = null;
  const place = element('p', { class: 'small' }),
    title = element('h1'),
    note = element('p'),
    next = element('p', { class: 'small' }),
    time = element('p', { class: 'small' });

  const close = () => {
    other?.close();
    other = null;
  };
  const deafen = listen(window, 'pagehide', close); // nobody would write it any more
  return {
    open() {
      other = window.open('', 'warpglass-notes', 'popup,width=760,height=560');
      if (!other) return false;
      const page = other.document;
      page.title = 'Warpglass: notes';
      page.documentElement.lang = 'en';
      page.head.replaceChildren(element('style', {}, STYLE));
      page.body.replaceChildren(
        place,
        title,
        note,
        next,
        time,
        element(
          'div',
          {},
          button('Previous', () => move(-1)),
          button('Next', () => move(1)),
        ),
      );
      page.onkeydown = event => {
        if (!KEYS[event.key] || event.altKey || event.ctrlKey || event.metaKey) return;
        event.preventDefault();
        if (!event.repeat) move(KEYS[event.key]);
      };
      return true;
    },
    // Any of {place, title, note, next, time}.
    show(/** @type {Texts} */ texts) {
      if (!other || other.closed) return;
      /** @type {Record<string, Element>} */ const parts = { place, title, note, next, time };
      for (const [name, text] of Object.entries(texts)) parts[name].textContent = text;
    },
    close,
    unmount() {
      close();
      deafen();
    },
  };
}
