// What the page around keeps and must not: its title, and stops of the keyboard that lead nowhere.

import { listen } from '../core/paint.js';

const NAME = 'Warpglass';

// root: the stage's element. title: the page's, which Streamlit would put back.
/** @param {HTMLElement} root */
export function makeFrame(root) {
  let wanted = NAME;
  const hold = () => {
    if (document.title !== wanted) document.title = wanted;
  };
  const observer = new MutationObserver(hold);
  observer.observe(document.head, { childList: true, subtree: true, characterData: true });

  const main = document.getElementById('stMain');
  main?.setAttribute('tabindex', '-1'); // nothing in it scrolls
  const deafen = listen(document, 'click', event => {
    if (!event.target.closest?.('[data-testid="stSkipToContent"]')) return;
    event.preventDefault();
    /** @type {HTMLElement | null} */
    (root.querySelector('.start:not([hidden]) a, .bar [data-action=play]'))?.focus();
  });
  return {
    title(/** @type {string} */ text) {
      wanted = text ? `${text} - ${NAME}` : NAME;
      hold();
    },
    unmount() {
      observer.disconnect();
      deafen();
    },
  };
}
