// Present mode: picture, sentence and code alone, in larger type, over the whole screen where the
// browser allows that. What is left of the bars is one slim line: how far the steps are, where the
// values come from, the way out. In an iframe (embed=true) the same line holds the way to the page
// itself.
import { LABELS } from '../core/data.js';
import { button, element, listen } from '../core/paint.js';
import { embedded, wayOut } from './embed.js';

/** @param {App} app */
export function makePresent(app) {
  const { root } = app,
    { clock } = app.stage;
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
    ...(embedded ? [wayOut(() => app.address.whole())] : []),
    leaving,
  );
  const black = element('div', {
    class: 'black',
    hidden: true,
    role: 'img',
    'aria-label': 'The screen is blank. Any key ends it.',
  });
  root.append(black);
  let on = false,
    full = false; // this presentation has had the whole screen

  const tell = () => {
    const text = clock.count > 1 ? `step ${clock.number} / ${clock.last}` : '';
    if (count.textContent !== text) count.textContent = text;
    done.style.transform = `scaleX(${clock.count > 1 ? clock.step / (clock.count - 1) : 0})`;
  };

  const set = (/** @type {boolean} */ yes) => {
    if (yes === on) return;
    [on, full] = [yes, false];
    if (on) app.stage.bar.stop(); // the lecturer steps
    app.guide.presented(on);
    root.classList.toggle('presenting', on);
    // Streamlit's own corner goes too
    document.documentElement.classList.toggle('wg-presenting', on);
    black.hidden = true;
    app.look.present(on);
    tell();
    /** @type {any} */ (document.activeElement)?.blur?.(); // a button that is hidden now would take Space
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
    // The end of one full screen may come when the next presentation has begun.
    if (document.fullscreenElement) full = on;
    else if (full) set(false);
  };
  // What is done on a black screen is not seen: the first key, or press, ends it and does nothing
  // else.
  const wake = (/** @type {any} */ event) => {
    if (black.hidden || ['Shift', 'Control', 'Alt', 'Meta'].includes(event.key)) return;
    black.hidden = true;
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  black.onclick = wake;
  const ends = [
    clock.follow(() => {
      if (on) tell();
    }),
    listen(document, 'fullscreenchange', onScreen),
    listen(window, 'keydown', wake, true), // before the keys of the stage
  ];

  return {
    node,
    get on() {
      return on;
    },
    toggle: () => set(!on),
    enter: () => set(true),
    leave: () => set(false),
    // It goes on after the full screen, which the browser ends for another window.
    keep() {
      full = false;
    },
    blank() {
      if (!on) return false;
      app.stage.bar.stop();
      black.hidden = false;
    },
    // The label of the shown values (core/data.js).
    provenance(/** @type {string} */ label) {
      from.textContent = LABELS[label] ?? '';
    },
    unmount() {
      set(false);
      black.remove();
      ends.forEach(end => end());
    },
  };
}
