// One loop in three schedules: the pieces of a key tile on the units of an SM, and how long the tensor cores rest. The
// reader drags the end of the copy or of the softmax. Bars follow from loop_rule.js and are called modelled. The run is
// recorded and never moves.
import { calm, filled, makeLoop } from '../core/follow.js';
import { handView, pull } from '../core/hand.js';
import { button, element } from '../core/paint.js';
import { at as along, diff } from '../core/tween.js';
import { loopLayout, loopMarks } from './loop_marks.js';
import { cycles, period, schedule, SETTLED, settled, share } from './loop_rule.js';

const MOVE = 1100; // ms of a step
const LONGEST = { copy: 3000, softmax: 2000 }; // ns
const [PIECES, , AFTER, , TURNS, RUN, HAND] = Array(7).keys();
const ROWS = [['A'], ['A'], ['A'], ['B', 'A'], ['C', 'B', 'A'], ['run', 'C'], ['C', 'B']]; // the schedules of each step

/** @type {Picture<pipeline.LoopMeta>} */
export default function (host, { meta }, context) {
  const { frames, words: texts, run } = meta,
    { clock } = context,
    { product, groups } = meta,
    needs = cycles(meta.tile, meta.cycle),
    least = Math.round((2 * product * needs.exponentials) / needs.products), // ns of a softmax: of its exponentials
    start = { copy: meta.copy, softmax: meta.softmax };
  let asked = { ...start },
    touched = false,
    /** @type {any} */ view = null,
    /** @type {any} */ size = null,
    /** @type {any[]} */ shown = [], // the marks of the step, without a motion
    /** @type {{tracks: any[] | null, from: any[], begun: number} | null} */ motion = null;
  const first = period(schedule('after', { ...start, product, groups })); // the axis stays as long under a hand

  // ---- values ----
  /** @type {() => import('./loop_marks.js').Panel[]} */
  function panels() {
    const { step } = clock,
      times = { ...asked, product, groups };
    const one = (
      /** @type {string} */ id,
      /** @type {import('./loop_rule.js').Schedule} */ name,
      /** @type {string} */ title,
      /** @type {string} */ note,
    ) => {
      const all = schedule(name, times),
        bars = step >= TURNS ? settled(all) : all; // the time of the share, without the start
      return {
        ...{ id, title, note, share: share(all, times), recorded: false, numbered: step < TURNS },
        ...{ bars: step > 1 ? bars : bars.filter(({ tile }) => tile === 0), first: step >= TURNS ? SETTLED : 0 },
      };
    };
    // the first one is large. Under the hand, it is the one that the hand moves
    return ROWS[step].map(id => {
      if (id === 'A') return one(id, 'after', 'A  No overlap', texts.after);
      if (id === 'B') return one(id, 'flight', 'B  Copies ahead', texts.flight);
      if (id === 'C') return one(id, 'turns', 'C  Taking turns', filled(texts.turns, { tile: SETTLED }));
      return {
        ...{ id, title: 'Real run', note: meta.source, bars: /** @type {any} */ (run), share: meta.share },
        ...{ recorded: true, numbered: false, first: 0 },
      };
    });
  }
  const place = (now = panels()) =>
    loopLayout(size, { units: clock.step > PIECES, metered: clock.step >= AFTER, panels: now });
  const length = () => (clock.step < AFTER ? 1 : 2) * first;
  /** The moments under a handle: the first ends in sight. */
  function handles() {
    if (clock.step !== HAND) return [];
    const bars = settled(schedule('turns', { ...asked, product, groups })),
      endOf = (/** @type {string} */ of) =>
        bars.find(({ part, start, group }) => part === of && start > -1e-6 && group < 1)?.end ?? 0;
    return [
      { x: 'copy', at: endOf('V'), ns: asked.copy },
      { x: 'softmax', at: endOf('P'), ns: asked.softmax },
    ];
  }

  // ---- motion ----
  const loop = makeLoop(time => {
    if (motion && (calm() || time - motion.begun >= MOVE)) motion = null;
    view.draw();
    return !!motion;
  });
  function marks(/** @type {{paint: Paint, at: any}} */ { paint, at: thing }) {
    const now = panels();
    shown = loopMarks(
      place(now),
      {
        ...{ panels: now, length: length(), cycle: meta.cycle, needs, handles: handles() },
        tile: thing?.tile === undefined ? null : thing,
        ...{ softmax: start.softmax, least: meta.least },
      },
      paint,
    );
    if (!motion) return shown;
    motion.tracks ??= diff(motion.from, shown);
    return along(motion.tracks, Math.min(1, Math.max(0, performance.now() - motion.begun) / MOVE));
  }

  // ---- words ----
  function sentence() {
    if (clock.step !== HAND || !touched) return '';
    const times = { ...asked, product, groups },
      bars = schedule('turns', times),
      rest = asked.softmax - 2 * (groups - 1) * product;
    if (asked.softmax <= least) return filled(texts.floor, { ns: least.toLocaleString('en') });
    if (share(bars, times) > 0.999) return filled(texts.full);
    if (asked.copy > Math.max(2 * groups * product, 2 * product + asked.softmax)) return filled(texts.copy);
    if (rest <= 0) return ''; // of three warpgroups
    return filled(texts.rest, { ns: Math.round(rest).toLocaleString('en') });
  }
  function speak() {
    clock.tell('said', sentence());
    for (const [name, input, said] of /** @type {any[]} */ (inputs)) {
      const ns = Math.round(asked[/** @type {'copy' | 'softmax'} */ (name)]);
      input.value = ns;
      said.textContent = `${ns.toLocaleString('en')} ns`;
      input.setAttribute('aria-valuetext', `${name}: ${ns} ns`);
    }
    controls.toggleAttribute('inert', clock.step !== HAND);
    from.textContent = clock.step < AFTER ? '' : clock.step === RUN ? meta.least : meta.rule; // the first steps have no times
    reset.toggleAttribute('inert', !touched);
    grips.toggleAttribute('hidden', clock.step !== HAND);
  }

  // ---- hands ----
  function change(/** @type {Partial<typeof start>} */ to) {
    asked = { ...asked, ...to };
    touched = asked.copy !== start.copy || asked.softmax !== start.softmax;
    motion = null;
    speak();
    putGrips();
    view.draw();
  }
  const shortest = (/** @type {string} */ name) => (name === 'copy' ? 50 : least);
  const inputs = /** @type {const} */ (['softmax', 'copy']).map(name => {
    const input = element('input', {
        type: 'range',
        min: shortest(name),
        max: LONGEST[name],
        step: 1,
        'aria-label': `ns of the ${name}`,
      }),
      said = element('output');
    input.oninput = () => change({ [name]: Number(input.value) });
    return [name, input, said];
  });
  const from = element('span', { class: 'from' }),
    reset = button('Back to the run', () => change(start)),
    controls = element(
      'div',
      { class: 'hands', role: 'group', 'aria-label': 'Lengths of the pieces' },
      ...inputs.map(([name, input, said]) => element('label', {}, `${name} `, input, said)),
      reset,
    );
  // Over the ends of the bars: a hand drags them. Keys move the sliders below.
  const grips = element('div', { class: 'bars', 'aria-hidden': 'true' });
  for (const name of /** @type {const} */ (['copy', 'softmax'])) {
    const grip = element('div', { 'data-grip': name });
    grip.style.cursor = 'ew-resize';
    grip.onpointerdown = (/** @type {PointerEvent} */ event) => {
      const [from, held, scale] = [event.clientX, asked[name], nsOfPixel()];
      pull(grip, event, ({ clientX }) => {
        const ns = held + (clientX - from) * scale * (name === 'copy' ? 2 : 1); // a bar has half a copy
        change({ [name]: Math.max(shortest(name), Math.min(LONGEST[name], ns)) });
      });
    };
    grips.append(grip);
  }
  function nsOfPixel() {
    const at = place();
    return length() / (at.width - at.left - at.right);
  }
  function putGrips() {
    if (!size || clock.step !== HAND) return;
    const at = place(),
      scale = nsOfPixel();
    for (const { x, at: ns } of handles()) {
      const lane = x === 'copy' ? at.lanes.copy : at.lanes.rows[0],
        grip = /** @type {HTMLElement} */ (grips.querySelector(`[data-grip=${x}]`));
      Object.assign(grip.style, {
        left: `${at.left + ns / scale - 22}px`,
        width: '44px',
        top: `${lane.y - (x === 'copy' ? 6 : 2 * at.em)}px`,
        height: `${lane.h + (x === 'copy' ? 12 : 2 * at.em + 6)}px`,
      });
    }
  }

  // ---- the canvas and the clock ----
  function arrive(/** @type {string} */ why) {
    if (clock.step !== HAND) [asked, touched] = [{ ...start }, false];
    motion = why === 'jump' || calm() || !shown.length ? null : { tracks: null, from: shown, begun: performance.now() };
    speak();
    putGrips();
    loop.wake();
  }
  const onStep = (/** @type {any} */ { detail }) => arrive(detail.why);
  view = handView(host, context, {
    frames,
    controls,
    foot: [from],
    heard: { step: onStep },
    end: loop.stop,
    title: 'One loop, three schedules',
    live: true,
    layout: (/** @type {any} */ now) => {
      size = now;
      if (motion) motion.tracks = null; // the way goes on to the new places
      putGrips();
      return place().height;
    },
    marks,
  });
  host.querySelector('.sheet')?.append(grips);
  arrive('jump');
  return view;
}
