// What the page around keeps and must not: its title, and stops of the keyboard that lead nowhere.

const NAME = 'Warpglass';

// root: the stage's element. title(text): the page's, which Streamlit would put back.
export function makeFrame(root) {
  let wanted = NAME;
  const hold = () => {
    if (document.title !== wanted) document.title = wanted;
  };
  const observer = new MutationObserver(hold);
  observer.observe(document.head, { childList: true, subtree: true, characterData: true });

  const main = document.getElementById('stMain');
  main?.setAttribute('tabindex', '-1'); // nothing in it scrolls
  const onSkip = event => {
    if (!event.target.closest?.('[data-testid="stSkipToContent"]')) return;
    event.preventDefault();
    const first = root.querySelector('.start:not([hidden]) a, .bar [data-action=play]');
    first?.focus();
  };
  document.addEventListener('click', onSkip);
  return {
    title(text) {
      wanted = text ? `${text} - ${NAME}` : NAME;
      hold();
    },
    unmount() {
      observer.disconnect();
      document.removeEventListener('click', onSkip);
    },
  };
}
