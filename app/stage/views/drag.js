// One row under the reader's hand. Its steps show the three passes of an ordinary softmax, then read the row tile by
// tile, with the numbers of the run. In a hand, the kernel waits at the tile of the held bar: the numbers are the
// rule's then (drag_rule.js), and are called modelled. So they are without m, and with a causal mask.
import { calm, filled, Follower, makeLoop } from '../core/follow.js';
import { handView, pull } from '../core/hand.js';
import { EASE } from '../core/tween.js';
import { addsUp, button, element, minus, number, short } from '../core/paint.js';
import { DRAG_KINDS, dragLayout, dragMarks, FLOAT_RANGE, PASSES } from './drag_marks.js';
import { errorOf, onePass } from './drag_rule.js';

const READ = 900; // ms of a tile after the hand has let go
const WAVE = [160, 620]; // ms: when the factor reaches the nearest earlier weight, and the farthest
const CHIP = 900; // ms of the factor's whole way. Then the tile's own weights grow
const PASS = 1100; // ms of each pass over the row
const ASKS = 12_000; // ms that the marked bar pulses
const WRONG = 1e-3; // a relative error above that of fp32
const ABOVE = 2.6; // room above the largest score
const LABELS = 2.5; // lines of text at the top that no score reaches
const LONGEST_ROW = 20, // log2 of the keys of a row that the reader thinks of
  USUAL_ROW = 10;

const keysOf = (/** @type {{weights: number[]}} */ { weights }) => [...weights.keys()];

/** @type {Picture<online_softmax.DragMeta>} */
export default function (host, { meta, columns }, context) {
  const { block_kv: tile, words, frames, causal } = meta,
    { clock } = context,
    run = Array.from(columns.scores),
    v = columns.v,
    keys = run.length,
    tiles = keys / tile,
    dims = v.length / keys,
    first = (/** @type {number} */ of) => (of - 1) * tile;
  const [DIVIDED, HAND, OVERFLOW, CAUSAL] = [4, 3, 2, 1].map(n => frames.length - n),
    hint = run.reduce((best, s, key) => (key >= keys - tile && (best < 0 || s > run[best]) ? key : best), -1),
    lowest = Math.min(...run, -0.5) - 0.2,
    highest = Math.max(...run) + ABOVE,
    fullL = 1.3 * Math.max(...meta.l),
    fullO = 1.1 * Math.max(...columns.o.map(Math.abs));

  const state = {
    scores: [...run],
    subtract: true,
    rescale: true,
    causal: false,
    times: 1,
    read: 0,
    /** @type {number | null} */ hand: null, // the key that is held or has the focus
    played: false,
  };
  const touched = () =>
    state.times !== 1 ||
    !state.subtract ||
    !state.rescale ||
    state.causal ||
    state.scores.some((s, key) => s !== run[key]);
  const tilesRead = () => (state.causal ? Math.ceil(causal.ends[causal.own] / tile) : tiles);
  const shown = run.map(() => new Follower(0)); // the weights as drawn
  /** @type {{begun: number, tile: number, key: number}[]} */ let chips = [];
  /** @type {ReturnType<typeof dragLayout>} */ let at;
  /** @type {any} */ let now; // outcome() of the state as it is
  let begun = 0, // when the passes began
    arrived = -1, // at which step
    asked = 0, // since when the marked bar pulses
    sent = { factor: 1, when: 0 }, // the last factor that flew, so that a slow drag does not send one in each frame
    reading = 0; // the timer of the next tile

  // ---- values ----
  const scaled = () => state.scores.map(s => Math.fround(s * state.times));
  /** The state after each tile, as the run has it. */
  const recorded = Array.from({ length: tiles }, (_, n) => ({
    ...{ m: meta.m[n], factor: meta.factor[n], l: meta.l[n] },
    o: Array.from(columns.o.subarray(n * dims, (n + 1) * dims)),
    weights: Array.from(columns.weights.subarray(n * keys, n * keys + (n + 1) * tile)),
  }));
  function outcome() {
    const is = touched(),
      bounds = state.causal ? { seen: causal.seen, end: causal.ends[causal.own] } : {},
      all = is ? onePass(scaled(), v, tile, { ...state, ...bounds }) : recorded,
      due = is ? onePass(scaled(), v, tile, bounds) : recorded,
      { read } = state,
      [last, before, right] = [all[read - 1], all[read - 2], due[read - 1]],
      off = last && is ? errorOf(last, scaled().slice(0, Math.min(read * tile, bounds.seen ?? keys)), v) : 0;
    return { last, before, right, off, rose: read > 1 && right.factor < 0.995, needed: right?.factor ?? 1 };
  }
  /** Shares of the lane of the weights. Without m on a log scale, where less than 1 has no height. */
  const heights = (/** @type {number[]} */ weights) =>
    state.subtract
      ? weights
      : weights.map((w, key) =>
          Number.isFinite(w) ? Math.max(0.004, (state.scores[key] * state.times) / FLOAT_RANGE) : 1,
        );

  // ---- motion ----
  const loop = makeLoop((time, seconds) => {
    const moving = shown.map(one => one.step(time, seconds)).some(Boolean);
    chips = chips.filter(chip => time - chip.begun < CHIP && chip.tile === state.read);
    view.draw();
    return moving || chips.length > 0 || pulse(time) >= 0 || (clock.step === 0 && passes(time).some(one => one < 1));
  });
  /** How far each pass over the row is. */
  const passes = (/** @type {number} */ time) =>
    PASSES.map((_, n) => (calm() ? 1 : Math.max(0, Math.min(1, (time - begun) / PASS - n))));
  /** Aims the weights at their values. Those of earlier tiles get theirs when the factor passes, and those of a new
   * tile when it has passed. */
  function aim(/** @type {boolean} */ wave, /** @type {boolean} */ added) {
    const begun = performance.now(),
      high = now.last ? heights(now.last.weights) : [],
      begin = first(state.read);
    shown.forEach((follower, key) => {
      const share = begin > 1 ? (begin - 1 - key) / (begin - 1) : 0,
        waits = wave && now.rose && !calm(),
        passed = WAVE[0] + share * (WAVE[1] - WAVE[0]);
      follower.aim(high[key] ?? 0, begun + (!waits ? 0 : key < begin ? passed : added ? CHIP : 0));
    });
    loop.wake();
  }
  /** Sends the factor from the new line along all earlier weights, then to l and O. */
  function sendFactor() {
    if (!now.rose || !state.rescale || !state.subtract || calm()) return;
    const begin = first(state.read),
      own = state.scores.slice(begin, begin + tile);
    sent = { factor: now.last.factor, when: performance.now() };
    chips.push({ begun: sent.when, tile: state.read, key: begin + own.indexOf(Math.max(...own)) });
  }
  /** Where the factors are: up at the line, an arc down to the nearest weight, along the weights, at l and O. */
  const chipsAt = (/** @type {number} */ time) =>
    chips.flatMap(({ begun, tile: of, key }, n) => {
      const t = time - begun,
        { weight, sum, o } = at.lanes,
        edge = 3 * at.em,
        factor = now.last.factor,
        mix = (/** @type {number} */ a, /** @type {number} */ b, /** @type {number} */ s) =>
          a + (b - a) * Math.max(0, Math.min(1, s)),
        s = EASE.both(Math.min(1, t / WAVE[0])),
        along = (t - WAVE[0]) / (WAVE[1] - WAVE[0]),
        near = at.x(first(of) - 1),
        fade = Math.max(0, Math.min(1, (CHIP - t) / 180));
      const x = t < WAVE[0] ? mix(at.x(key), near, s) : mix(near, at.x(0), along),
        y = mix(at.scoreY(state.scores[key]), weight.y + at.em / 2, s),
        there = { factor, alpha: Math.max(0, Math.min(1, (t - WAVE[0]) / 120)) * fade };
      return [
        { id: `chip ${n}`, x: Math.max(edge, x), y, factor, alpha: t < WAVE[1] ? 1 : fade },
        { id: `chip ${n} l`, x: Math.min(at.width - edge, at.sumEnd + edge), y: sum.y + sum.h / 2, ...there },
        { id: `chip ${n} o`, x: at.low - edge, y: o.y + o.h / 2, ...there },
      ];
    });
  const asks = () => clock.step === HAND && !state.played && state.hand === null;
  const pulse = (/** @type {number} */ time) =>
    asks() && !calm() && time - asked < ASKS ? ((time - asked) / 1500) % 1 : -1;

  // ---- picture ----
  function marks(/** @type {{paint: Paint}} */ { paint }) {
    const { last, before, right, off, rose } = now,
      log = !state.subtract,
      sum = () => (!before || log || !Number.isFinite(last.l) ? '' : addsUp(before.l, last.factor, last.l)),
      values = shown.map(one => one.value),
      moves = last && !log && Number.isFinite(last.l) && !shown.every(one => one.rests);
    // l and O as the sums of the weights on their way. At rest they are the run's or the rule's own.
    const sums = () =>
      last.o.map((/** @type {number} */ _, /** @type {number} */ dim) =>
        values.reduce((sum, w, key) => sum + w * v[key * dims + dim], 0),
      );
    const o = !last ? [] : log ? last.o.map((/** @type {number} */ one) => one / last.l) : moves ? sums() : last.o,
      most = Math.max(...o.filter(Number.isFinite).map(Math.abs), 0),
      bad = !(off < WRONG);
    return dragMarks(
      at,
      {
        ...{ row: meta.row, dims, scores: state.scores, times: state.times, read: state.read, log, o },
        ...{
          m: last?.m ?? 0,
          before: before?.m ?? -Infinity,
          l: last?.l ?? 0,
          weights: last?.weights ?? [],
          shown: values,
        },
        sum: sum(),
        ghosts: rose && state.rescale && !log ? before.weights : [],
        fullL: Math.max(fullL, Number.isFinite(last?.l) ? last.l : 0),
        fullO: log ? 1.1 * most || 1 : Math.max(fullO, most),
        right: bad && !log && last ? right.o : null,
        wrong: new Set(
          last && !log ? keysOf(last).filter(key => last.weights[key] > 1.02 * right.weights[key] + 1e-6) : [],
        ),
        off: bad ? (Number.isNaN(off) ? 'NaN' : `off by ${Math.round(100 * off)} %`) : '',
        knob: state.hand ?? (asks() ? hint : null),
        pulse: pulse(performance.now()),
        long: clock.step === DIVIDED ? 2 ** length.value : null,
        passes: passes(performance.now()),
        causal: clock.step === CAUSAL ? { ...causal, on: state.causal } : null,
        chips: chipsAt(performance.now()),
      },
      paint,
    );
  }

  // ---- words ----
  const fill = (/** @type {string} */ name, /** @type {Texts} */ values = {}) => filled(words[name], values);
  /** The sentence in place of the step's, or "". */
  function sentence() {
    const { last, before, off, needed, rose } = now,
      held = state.hand !== null;
    if (!touched() && !held) return '';
    if (!state.subtract) {
      const largest = Math.round(Math.max(...scaled()));
      return Number.isFinite(last.l) && !Number.isNaN(off)
        ? fill('no_max')
        : fill('overflow', { largest: String(largest) });
    }
    if (!state.rescale && !(off < WRONG)) return fill('forgot', { off: `${Math.round(100 * off)} %` });
    if (state.causal && !held) return fill('causal');
    if (state.times > 20) return fill('large');
    if (held && state.read === 1) return fill('first');
    if (!rose) return fill('below');
    return held
      ? fill('rises', { gap: minus(last.m - before.m), factor: minus(needed) })
      : fill('exact', { factor: minus(needed) });
  }
  function speak() {
    const is = touched(),
      counted = clock.step === DIVIDED;
    clock.tell('said', sentence());
    said.textContent = counted
      ? 'modelled: numbers counted, for any length'
      : is
        ? 'modelled, under your hand'
        : `run of ${meta.kernel}, row ${meta.row}`;
    said.classList.toggle('modelled', is || counted);
    reset.toggleAttribute('inert', !is);
    scaleIs.textContent = state.times.toFixed(state.times < 10 ? 1 : 0);
    [...bars.children].forEach((bar, key) => {
      const score = (state.scores[key] * state.times).toFixed(2);
      bar.setAttribute('aria-valuenow', state.scores[key].toFixed(2));
      bar.setAttribute('aria-valuetext', `score ${score}`);
    });
  }
  /** After any change. wave: the factor has to travel. */
  function changed({ wave = true, added = false } = {}) {
    now = outcome();
    aim(wave, added);
    speak();
  }

  // ---- hands ----
  function stopReading() {
    clearTimeout(reading);
  }
  function hold(/** @type {number} */ key) {
    stopReading();
    if (clock.step < HAND) clock.set(HAND, 'user');
    stopReading();
    state.hand = key;
    const reads = Math.min(Math.floor(key / tile) + 1, tilesRead());
    if (state.read !== reads) chips = [];
    state.read = reads;
    changed({ wave: false });
  }
  function letGo() {
    if (state.hand === null) return;
    state.hand = null;
    readOn();
  }
  /** The kernel reads the tiles that are left, one after another. */
  function readOn() {
    stopReading();
    changed();
    if (state.read >= tilesRead()) return;
    reading = window.setTimeout(() => {
      state.read++;
      changed({ added: true });
      sendFactor();
      readOn();
    }, READ);
  }
  function move(/** @type {number} */ key, /** @type {number} */ score) {
    const { m } = now.last,
      time = performance.now();
    state.scores[key] = Math.max(lowest, Math.min(ceiling(), score));
    changed();
    if (!now.rose) sent = { factor: 1, when: 0 };
    else if (now.last.m > m) {
      state.played = true;
      speak();
      const grown = Math.abs(now.last.factor / sent.factor - 1) > 0.06 || time - sent.when > 1200;
      if (!chips.length && grown) sendFactor();
    }
  }
  /** The highest score: the label of m stays below those of the tiles. */
  const ceiling = () => at.scoreAt(at.lanes.score.y + LABELS * at.em);
  function restore() {
    Object.assign(state, { scores: [...run], subtract: true, rescale: true, causal: false, times: 1 });
    subtract.checked = rescale.checked = true;
    hides.checked = false;
    scale.value = 0;
  }

  // ---- the parts of the page ----
  const said = element('span', { class: 'from' }),
    reset = button('Back to the run', () => {
      restore();
      readOn();
    }),
    subtract = element('input', { type: 'checkbox', checked: true }),
    rescale = element('input', { type: 'checkbox', checked: true }),
    hides = element('input', { type: 'checkbox' }),
    scale = element('input', { type: 'range', min: 0, max: 100, step: 1, value: 0, 'aria-label': 'scores times' }),
    scaleIs = element('output'),
    length = element('input', {
      type: 'range',
      min: Math.log2(keys),
      max: LONGEST_ROW,
      step: 1,
      'aria-label': 'keys of a row',
    }),
    long = element('output');
  length.value = String(USUAL_ROW);
  subtract.onchange = () => {
    state.subtract = subtract.checked;
    changed({ wave: false });
  };
  rescale.onchange = () => {
    state.rescale = rescale.checked;
    changed();
    if (state.rescale) sendFactor();
  };
  scale.oninput = () => {
    state.times = 100 ** (scale.value / 100); // on a log scale, from 1 to 100
    changed({ wave: false });
  };
  const measure = (length.oninput = () => {
    long.textContent = number(2 ** length.value);
    loop.wake();
  });
  hides.onchange = () => hide(hides.checked);
  /** With a causal mask the block stops at its last tile. */
  function hide(/** @type {boolean} */ causal) {
    stopReading();
    state.causal = hides.checked = causal;
    state.read = tilesRead();
    changed({ wave: false });
  }
  const label = (/** @type {any[]} */ ...parts) => element('label', {}, ...parts);
  /** @type {Record<number, HTMLElement[]>} the controls of a step */
  const OF_STEP = {
    [DIVIDED]: [label('keys of the row ', length, long)],
    [HAND]: [label(rescale, ' rescale')],
    [OVERFLOW]: [label(subtract, ' subtract m'), label('scores × ', scale, scaleIs)],
    [CAUSAL]: [label(hides, ' causal')],
  };
  const controls = element('div', { class: 'hands', role: 'group', 'aria-label': 'Try it' });
  const bars = element('div', {
    class: 'bars',
    role: 'group',
    'aria-label': 'Scores of the row: left and right choose a bar, up and down move it',
  });
  run.forEach((_, key) => bars.append(slider(key)));

  function slider(/** @type {number} */ key) {
    const bar = element('div', {
      role: 'slider',
      tabindex: key === hint ? 0 : -1,
      'aria-orientation': 'vertical',
      'aria-label': `score of key ${key}, tile ${Math.floor(key / tile) + 1}`,
      'aria-valuemin': short(lowest, 3),
    });
    bar.onfocus = () => {
      for (const other of bars.children) other.tabIndex = other === bar ? 0 : -1;
      hold(key);
    };
    bar.onblur = () => {
      delete bar.dataset.held;
      letGo();
    };
    bar.onkeydown = (/** @type {KeyboardEvent} */ event) => {
      const by = { ArrowUp: 0.1, ArrowDown: -0.1, PageUp: 0.5, PageDown: -0.5 }[event.key],
        to = { ArrowLeft: key - 1, ArrowRight: key + 1, Home: 0, End: keys - 1 }[event.key];
      if (by !== undefined) {
        if (state.hand === null) hold(key);
        move(key, state.scores[key] + by);
      } else if (to !== undefined) bars.children[Math.max(0, Math.min(keys - 1, to))].focus();
      else if (event.key === 'Escape') bar.blur();
      else return;
      event.preventDefault();
      event.stopPropagation();
    };
    bar.onpointerdown = (/** @type {PointerEvent} */ event) => grab(event, key);
    return bar;
  }
  /** A drag moves the bar by as much as the hand: nothing jumps when it is held below its top. */
  function grab(/** @type {PointerEvent} */ event, /** @type {number} */ near) {
    const key = handleAt(event) ?? near,
      bar = bars.children[key],
      top = () => bars.getBoundingClientRect().top;
    bar.focus({ focusVisible: false, preventScroll: true });
    bar.dataset.held = ''; // left and right step again, up and down still move it
    hold(key);
    const grip = state.scores[key] - at.scoreAt(event.clientY - top());
    pull(bar, event, e => move(key, at.scoreAt(e.clientY - top()) + grip), letGo); // the bar keeps the focus, for up and down
  }
  /** The bar whose handle is under a finger, though the finger is over a neighbour. */
  function handleAt(/** @type {PointerEvent} */ { clientX, clientY }) {
    const key = state.hand ?? (asks() ? hint : null),
      box = bars.getBoundingClientRect();
    if (key === null) return null;
    const far = Math.hypot(
      clientX - box.left - at.x(key) - at.bar / 2,
      clientY - box.top - at.scoreY(state.scores[key]),
    );
    return far < 22 ? key : null;
  }

  // ---- the canvas and the clock ----
  // What is drawn at a step. Its factor travels if the step is the next one.
  function arrive(/** @type {number} */ step, /** @type {string} */ why) {
    stopReading();
    const before = state.read;
    state.hand = null;
    if (step !== arrived) restore();
    arrived = step;
    state.read = Math.min(step, tilesRead());
    controls.replaceChildren(...(OF_STEP[step] ?? []));
    bars.hidden = step === DIVIDED; // it draws no row
    if (step === 0) begun = performance.now();
    if (step === HAND) asked = performance.now();
    chips = [];
    changed({ wave: state.read === before + 1, added: true });
    if (why === 'jump') shown.forEach(one => one.jump(one.waiting.at(-1)?.[1] ?? one.goal));
    else if (state.read === before + 1) sendFactor();
  }
  const onStep = (/** @type {any} */ { detail }) => arrive(detail.step, detail.why);
  const onPoint = () => {
    if (clock.point?.causal) hide(true);
  };
  const onRight = (/** @type {any} */ { detail }) => detail?.causal && clock.step === CAUSAL && hide(true);
  state.read = Math.min(clock.step, tiles);
  now = outcome();
  const view = handView(host, context, {
    frames,
    controls,
    foot: [said, reset],
    heard: { step: onStep, covers: onPoint, right: onRight },
    end: () => {
      stopReading();
      loop.stop();
    },
    title: `Row ${meta.row}, in your hand`,
    live: true,
    kinds: DRAG_KINDS,
    layout: (/** @type {any} */ size) => {
      at = dragLayout(size, { keys, tile, dims, lowest, highest });
      [...bars.children].forEach((bar, key) => {
        bar.setAttribute('aria-valuemax', short(ceiling(), 3));
        Object.assign(bar.style, {
          left: `${at.x(key) - 1}px`,
          width: `${at.pitch}px`,
          top: `${at.lanes.score.y}px`,
          height: `${at.lanes.score.h}px`,
        });
      });
      return at.height;
    },
    marks,
  });
  host.querySelector('.sheet')?.append(bars);
  measure();
  arrive(clock.step, 'jump');
  return view;
}
