// What the page around keeps and must not: its title, and stops of the keyboard that lead nowhere.

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
  const onSkip = (/** @type {any} */ event) => {
    if (!event.target.closest?.('[data-testid="stSkipToContent"]')) return;
    event.preventDefault();
    /** @type {HTMLElement | null} */
    (root.querySelector('.start:not([hidden]) a, .bar [data-action=play]'))?.focus();
  };
  document.addEventListener('click', onSkip);
  return {
    title(/** @type {string} */ text) {
      wanted = text ? `${text} - ${NAME}` : NAME;
      hold();
    },
    unmount() {
      observer.disconnect();
      document.removeEventListener('click', onSkip);
    },
  };
}
