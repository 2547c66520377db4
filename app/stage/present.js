// Present mode: picture, sentence and code alone, in larger type, over the whole screen where the
// browser allows that. What is left of the bars is one slim line: how far the steps are, where the
// values come from, the way out. In an iframe (embed=true) the same line holds the way to the page
// itself.
import { hub } from './hub.js';
import { button, element } from './paint.js';

// root: the stage; changed(yes): type is to be large, or as before; stop(): pauses what plays; way:
// a link that stands in the line, or none.
export function makePresent({ root, changed, stop, way }) {
  const done = element('i', { class: 'done' }),
    count = element('span', { class: 'count' }),
    from = element('b', { class: 'from' });
  const leaving = button('Leave (p)', () => set(false), {
    class: 'leave',
    title: 'Leave present mode: p, or Esc in full screen',
  });
  const node = element(
    'div',
    { class: 'slim' },
    element('div', { class: 'progress', 'aria-hidden': 'true' }, done),
    count,
    from,
    ...(way ? [way] : []),
    leaving,
  );
  const black = element('div', {
    class: 'black',
    hidden: true,
    role: 'img',
    'aria-label': 'The screen is blank. Any key ends it.',
  });
  root.append(black);
  let on = false;

  const tell = () => {
    const text = hub.count > 1 ? `step ${hub.step + 1} / ${hub.count}` : '';
    if (count.textContent !== text) count.textContent = text;
    done.style.transform = `scaleX(${hub.count > 1 ? hub.step / (hub.count - 1) : 0})`;
  };
  const onStep = () => {
    if (on) tell();
  };
  hub.addEventListener('step', onStep);

  const set = yes => {
    if (yes === on) return;
    on = yes;
    root.classList.toggle('presenting', on);
    // Streamlit's own corner goes too
    document.documentElement.classList.toggle('wg-presenting', on);
    black.hidden = true;
    changed(on);
    tell();
    document.activeElement?.blur?.(); // a button that is hidden now would take Space
    fill();
  };
  const fill = async () => {
    try {
      if (on) await document.documentElement.requestFullscreen();
      if (!on && document.fullscreenElement) await document.exitFullscreen();
    } catch {
      /* not allowed, as in some iframes: it works without */
    }
  };
  const onScreen = () => {
    if (!document.fullscreenElement) set(false);
  };
  document.addEventListener('fullscreenchange', onScreen);
  // What is done on a black screen is not seen: the first key, or press, ends it and does nothing
  // else.
  const wake = event => {
    if (black.hidden || ['Shift', 'Control', 'Alt', 'Meta'].includes(event.key)) return;
    black.hidden = true;
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  document.addEventListener('keydown', wake, true);
  black.onclick = wake;

  return {
    node,
    get on() {
      return on;
    },
    toggle() {
      set(!on);
    },
    leave() {
      set(false);
    },
    blank() {
      if (!on) return false;
      stop();
      black.hidden = false;
    },
    // The label of what is shown: executed, measured, ...
    provenance(label) {
      from.textContent = label;
    },
    unmount() {
      set(false);
      black.remove();
      hub.removeEventListener('step', onStep);
      document.removeEventListener('fullscreenchange', onScreen);
      document.removeEventListener('keydown', wake, true);
    },
  };
}
