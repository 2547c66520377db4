// The bar: play, pause, speed, scrub, and the step's sentence. It sets the step of the clock.
import { makePauseAt } from './marks.js';
import { button, element, listen } from './paint.js';

const SPEEDS = [1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 10, 30]; // steps a second
const TICKS = 16; // at most, on the slider
const LARGE = 90; // characters of a headline at most, for the largest type
const FIRST = 250; // ms from the press to the first step
/** @type {Record<string, string>} */
const ICONS = {
  first: 'M5 5h2v14H5zM20 5v14L9 12z',
  previousTile: 'M12 5v14L2 12zM22 5v14l-10-7z',
  previous: 'M17 5v14L6 12z',
  next: 'M7 5l11 7-11 7z',
  nextTile: 'M2 5l10 7-10 7zM12 5l10 7-10 7z',
  last: 'M17 5h2v14h-2zM4 5l11 7-11 7z',
};

/** @param {string} action @param {string} label @param {string} keys */
function icon(action, label, keys) {
  const node = element('button', {
    type: 'button',
    'data-action': action,
    'aria-label': label,
    title: `${label} (${keys})`,
  });
  // our own text
  node.innerHTML = `<svg viewBox="0 0 24 24" aria-hidden="true"><path d="${ICONS[action]}"/></svg>`;
  return node;
}

// onRest: the user has come to rest at a step.
/** @param {{clock: Clock, onRest: (step: number) => void}} given */
export function makeBar({ clock, onRest }) {
  const play = button('Play', null, {
    'data-action': 'play',
    'aria-pressed': 'false',
    title: 'Play or pause (Space)',
  });
  const ticks = element('datalist', { id: 'warpglass-ticks' });
  const range = element('input', {
    id: 'warpglass-clock',
    type: 'range',
    min: 0,
    max: 0,
    step: 1,
    value: 0,
    'aria-label': 'Step',
  });
  const count = element('output', { 'aria-live': 'off' }),
    title = element('span', { class: 'title' });
  const speed = element(
    'select',
    { 'aria-label': 'Speed' },
    ...SPEEDS.map(s =>
      element(
        'option',
        { value: s, selected: s === 4 },
        s < 1 ? `1 step in ${1 / s} s` : `${s} ${s === 1 ? 'step' : 'steps'}/s`,
      ),
    ),
  );
  const loop = button('Loop', () => actions.loop(), {
      class: 'loop',
      'aria-pressed': 'false',
      title: 'Play the present tile again and again (l)',
    }),
    pauseAt = makePauseAt(clock);
  const sentences = element('div', { class: 'sentences' });
  const root = element(
    'div',
    { class: 'clock', role: 'group', 'aria-label': 'Step through the trace' },
    icon('first', 'First step', 'Home'),
    icon('previousTile', 'Previous tile', 'Shift+Left'),
    icon('previous', 'Previous step', 'Left'),
    play,
    icon('next', 'Next step', 'Right'),
    icon('nextTile', 'Next tile', 'Shift+Right'),
    icon('last', 'Last step', 'End'),
    range,
    ticks,
    count,
    title,
    pauseAt.node,
    loop,
    speed,
  );
  const node = element('div', { class: 'bar' }, root, sentences);
  let frame = 0,
    rest = 0,
    paced = false, // the reader has chosen a speed
    /** @type {Frame[][]} */ told = [[]];

  const schedule = () => {
    clearTimeout(rest);
    if (!clock.playing) rest = setTimeout(() => onRest(clock.step), 300);
  };
  const stop = () => {
    cancelAnimationFrame(frame);
    frame = 0;
    clock.playing = false;
    clock.pace = 0;
    play.textContent = 'Play';
    play.setAttribute('aria-pressed', 'false');
    schedule();
  };
  const looped = () => loop.getAttribute('aria-pressed') === 'true';
  // The last outer step that is before a step, and the next one.
  const tileBefore = (/** @type {number} */ step) => clock.outer.findLast(m => m < step) ?? 0;
  const nextTile = () => clock.outer.find(m => m > clock.step);
  const start = () => {
    if (clock.step >= clock.count - 1 && !looped()) clock.set(0, 'user');
    clock.playing = true;
    play.textContent = 'Pause';
    play.setAttribute('aria-pressed', 'true');
    clock.pace = Number(speed.value);
    let since = performance.now() - 1000 / clock.pace + FIRST;
    const tick = (/** @type {number} */ now) => {
      const period = 1000 / (clock.pace = Number(speed.value));
      if (now >= since + period) {
        // one step at most per frame: a late frame delays, it never skips
        since = Math.max(since + period, now - period);
        const last = ((looped() && nextTile()) || clock.count) - 1;
        clock.set(looped() && clock.step >= last ? tileBefore(clock.step + 1) : clock.step + 1, 'play');
        if (pauseAt.pauses(clock.step) || (!looped() && clock.step >= last)) return stop();
      }
      frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
  };
  /** @type {Record<string, () => any>} */
  const actions = {
    first: () => clock.set(0, 'user'),
    last: () => clock.set(clock.count - 1, 'user'),
    next: () => clock.set(clock.step + 1, 'user'),
    previous: () => clock.set(clock.step - 1, 'user'),
    nextTile: () => clock.set(nextTile() ?? clock.count - 1, 'user'),
    previousTile: () => clock.set(tileBefore(clock.step), 'user'),
    play: () => (frame ? stop() : start()),
    slower: () => turn(-1),
    faster: () => turn(1),
    loop: () => loop.setAttribute('aria-pressed', String(!looped())),
    pauseAt: () => pauseAt.next(),
  };
  const turn = (/** @type {number} */ by) => {
    paced = true;
    speed.selectedIndex = Math.max(0, Math.min(SPEEDS.length - 1, speed.selectedIndex + by));
  };
  speed.onchange = () => {
    paced = true;
  };
  root.onclick = (/** @type {any} */ { target }) => actions[target.closest('[data-action]')?.dataset.action]?.();
  range.oninput = () => clock.set(+range.value, 'user');

  let said = ''; // by a picture under a hand, in place of the step's sentence
  const showSentences = (/** @type {number} */ step) =>
    [...sentences.children].forEach((box, side) => {
      const now = told[side][step] ?? told[side][0],
        [status] = box.children,
        head = said ? '' : (now?.head ?? '');
      status.children[status.children.length - 2].textContent = head;
      status.lastChild.textContent = said || (now?.sentence ?? '');
      box.classList.toggle('headed', !!head);
      status.title = said ? '' : (now?.details ?? '');
      status.firstChild.textContent = now?.wrong && !said ? 'Wrong here. ' : '';
      status.ariaLive = said ? 'off' : 'polite'; // the hand's own control says what it does
      box.classList.toggle('wrong', !!now?.wrong);
    });
  const unsay = listen(clock, 'said', ({ detail }) => {
    if (said === detail) return;
    said = detail;
    showSentences(clock.step);
  });
  const unfollow = clock.follow(step => {
    showSentences(step); // at once, whatever the picture still has to move
    const name = clock.titles[step] ?? '';
    range.value = step;
    count.textContent = `${clock.number} / ${clock.last}`;
    title.textContent = title.title = name;
    range.setAttribute('aria-valuetext', `step ${clock.number} of ${clock.last}, ${name}`);
    root.dataset.at = step ? (step + 1 < clock.count ? 'middle' : 'end') : 'begin';
    schedule();
  });

  // As keys do them: not while the bar is not there, or has nothing to step through.
  const byKey = Object.fromEntries(
    Object.entries(actions).map(([name, act]) => [name, () => (node.hidden || clock.count < 2 ? false : act())]),
  );

  return {
    node,
    root,
    stop,
    sentences,
    actions: byKey,
    get speed() {
      return speed.selectedOptions[0].textContent;
    },
    // The speed until the reader chooses one, in steps a second.
    pace(/** @type {number} */ steps) {
      if (!paced) speed.value = String(steps);
    },
    // frames: the steps; sides: for each side its sentences. The longest sentence, unseen, holds the
    // height: nothing moves from step to step.
    /** @param {Frame[]} frames @param {Frame[][]} sides */
    load(frames, sides) {
      stop();
      told = sides;
      range.max = clock.count - 1;
      // Ticks where a tile or a way begins, if these are few and have several steps each.
      const begins = clock.outer,
        few = begins.length > 1 && begins.length <= TICKS && 2 * begins.length <= clock.count;
      range.toggleAttribute('list', few);
      if (few) range.setAttribute('list', ticks.id);
      ticks.replaceChildren(...begins.map(value => element('option', { value })));
      pauseAt.load(frames);
      sentences.replaceChildren(
        ...sides.map((side, n) => {
          const [longest, head] = [side.map(f => (f.wrong ? 'Wrong here. ' : '') + f.sentence), side.map(headOf)].map(
            texts => texts.reduce((a, b) => (b.length > a.length ? b : a), ''),
          );
          return element(
            'div',
            { class: head.length > LARGE ? 'narration long' : 'narration' },
            element(
              'div',
              { role: 'status', 'aria-live': 'polite' },
              element('span', { class: 'flag' }),
              ...(sides.length > 1 && !named(side) ? [element('b', {}, `${'AB'[n]}: `)] : []),
              element('span', { class: 'said-short' }),
              element('span', { class: 'sentence' }),
            ),
            element('div', { class: 'longest', 'aria-hidden': 'true' }, longest),
            element('div', { class: 'longest said-short', 'aria-hidden': 'true' }, head),
          );
        }),
      );
    },
    unmount() {
      stop();
      clearTimeout(rest);
      unfollow();
      unsay();
      pauseAt.unmount();
    },
  };
}

// A step in few words, where the reader is guided (shell/depth.css).
const headOf = (/** @type {Frame} */ frame) => frame.head ?? frame.sentence;

// Whether each sentence of a side begins with the side's own name, as in "V1: done.".
const named = (/** @type {Frame[]} */ side) => {
  const name = side[0]?.sentence.match(/^\w+(?=: )/)?.[0];
  return !!name && side.every(({ sentence }) => sentence.startsWith(name));
};
