// A thread loads numbers from its memories. Each number needs its recorded wait, on one scale, so it moves evenly and no
// figure moves. At the last step the data grows by itself and spills into farther memories; then the reader sets it.
import { calm, makeLoop } from '../core/follow.js';
import { handView } from '../core/hand.js';
import { button, element } from '../core/paint.js';
import { EASE } from '../core/tween.js';
import { PLACES_KINDS, placesLayout, placesMarks } from './places_marks.js';

const SLIDE = 450; // ms in which a memory moves to its distance
const PACE = 2.4; // ms of a cycle
const GROWS = 4000; // ms in which the data becomes as large as it can

/** @type {Picture<memory_hierarchy.PlacesMeta>} */
export default function (host, { meta }, context) {
  const { frames, levels, sizes } = meta,
    { clock } = context,
    HAND = frames.length - 1,
    DATA = HAND - 1, // the first step with the reader's data
    RACE = HAND - 2,
    FAR = HAND - 3; // device memory is at its distance
  let size = 0, // a place in sizes
    seen = 0, // the largest one so far
    touched = false,
    /** @type {{levels: number[], slides: boolean, begun: number} | null} levels: whose numbers are on their way */
    motion = null,
    /** @type {number | null} ms, since when the data grows by itself */ grows = null;
  /** @type {ReturnType<typeof placesLayout>} */ let at;

  // ---- motion ----
  const passed = () => performance.now() - (motion?.begun ?? 0);
  /** The cycles since the numbers left. */
  const since = () => (passed() - (motion?.slides ? SLIDE : 0)) / PACE;
  const loop = makeLoop(() => {
    if (grows !== null) {
      const share = calm() ? 1 : (performance.now() - grows) / GROWS;
      size = seen = Math.min(sizes.length - 1, Math.max(0, Math.floor(share * sizes.length)));
      if (share >= 1) grows = null;
      speak();
    }
    const ways = motion?.levels.map(n => (n < 0 ? sizes[size] : levels[n]).cycles) ?? [];
    if (calm() || since() >= Math.max(0, ...ways)) motion = null;
    view.draw();
    return !!motion || grows !== null;
  });
  /** Numbers leave these levels. -1: the reader's data. */
  function send(/** @type {number[]} */ from, slides = false) {
    motion = { levels: from, slides, begun: performance.now() };
    loop.wake();
  }
  const isNew = (/** @type {number} */ n) => n > 0 && levels[n].now === clock.step;

  function now() {
    const { step } = clock,
      moves = (/** @type {number} */ n) => !!motion?.levels.includes(n),
      slid = motion?.slides ? EASE.both(Math.min(1, Math.max(0, passed() / SLIDE))) : 1,
      left = (/** @type {number} */ cycles) => (since() < 0 ? cycles : Math.max(0, cycles - since()));
    const away = levels.map(({ now }, n) => (now < step ? 1 : now > step ? 0 : moves(n) || !n ? slid : 1));
    return {
      ...{
        levels,
        sizes,
        away,
        seen,
        l2: meta.l2,
        tensors: meta.tensors,
        chip: step < FAR ? meta.chip : null,
        ruled: step >= levels[levels.length - 1].now,
      },
      known: levels.map(({ now, cycles }, n) => now < step || (now === step && !(moves(n) && since() < cycles))),
      on: levels.map(({ cycles }, n) => (moves(n) && since() < cycles ? left(cycles) : null)),
      home: step >= DATA ? sizes[size].home : -1,
      size: step >= DATA ? size : -1,
      sent: moves(-1) ? left(sizes[size].cycles) : null,
    };
  }

  // ---- words and hands ----
  function speak() {
    clock.tell('said', clock.step === HAND && touched ? sizes[size].said : '');
    amount.textContent = sizes[size].size;
    slider.value = size;
    slider.setAttribute('aria-valuetext', `${sizes[size].size} of data: ${sizes[size].wait}`);
    controls.toggleAttribute('inert', clock.step < DATA);
    from.textContent = [meta.recorded, ...(clock.step < FAR ? [] : [meta.scaled]), meta.ring].join(' ');
  }
  function change(/** @type {number} */ to) {
    if (clock.step !== HAND) clock.set(HAND, 'jump');
    [size, seen, touched, grows] = [to, Math.max(seen, to), true, null];
    speak();
    send([-1]);
  }
  const slider = element('input', {
      ...{ type: 'range', class: 'wide', min: 0, max: sizes.length - 1, step: 1, 'aria-label': 'amount of data' },
    }),
    amount = element('b'),
    from = element('span', { class: 'from' });
  slider.oninput = () => change(Number(slider.value));
  const controls = element(
    'div',
    { class: 'hands', role: 'group', 'aria-label': 'The data' },
    element('label', {}, amount, ' of data ', slider),
    button('Load again', () => send([-1])),
  );

  // ---- the canvas and the clock ----
  function arrive(/** @type {number} */ step, /** @type {string} */ why) {
    [size, seen, touched, motion, grows] = [0, 0, false, null, null];
    if (step === HAND) size = seen = why === 'jump' || calm() ? sizes.length - 1 : 0;
    speak();
    const fresh = levels.flatMap((_, n) => (isNew(n) ? [n] : []));
    if (why === 'jump' || calm()) view.draw();
    else if (step === HAND) {
      grows = performance.now();
      loop.wake();
    } else if (step === RACE) send(levels.flatMap(({ cycles }, n) => (cycles ? [n] : [])));
    else if (fresh.length) send(fresh, true);
    else loop.wake();
  }
  const onStep = (/** @type {any} */ { detail }) => arrive(detail.step, detail.why);
  const onPoint = () => {
    if (clock.step === HAND && clock.point?.kind === 'size') change(clock.point.size);
  };
  // The data of an answer.
  const onRight = (/** @type {any} */ { detail }) => {
    if (detail?.kind !== 'size') return;
    if (clock.step !== HAND) clock.set(HAND, 'user');
    change(detail.size);
  };
  const view = handView(host, context, {
    frames,
    controls,
    foot: [from],
    heard: { step: onStep, covers: onPoint, right: onRight },
    end: loop.stop,
    title: 'Where bytes live',
    live: true,
    kinds: PLACES_KINDS,
    layout: (/** @type {any} */ room) => {
      at = placesLayout(room, levels);
      return at.height;
    },
    marks: (/** @type {{paint: Paint}} */ { paint }) => placesMarks(at, now(), paint),
    click: (/** @type {any} */ thing, /** @type {number} */ step) => {
      if (thing.kind === 'size') change(thing.size);
      else if (thing.level && levels[thing.level].now < step && step < DATA) send([thing.level]);
      else return false;
    },
  });
  speak();
  return view;
}
