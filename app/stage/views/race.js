// Two ways of attention over one memory. Its steps move the bytes of one length. In the reader's hand, one slider sets
// the tokens. The bars are bytes held then, and one scale holds for all lengths. Bytes follow from race_rule.js and are
// called modelled. A recorded figure has its own length, mask and height of a tile, and never moves.
import { calm, filled, Follower, makeLoop } from '../core/follow.js';
import { handView } from '../core/hand.js';
import { button, element, number } from '../core/paint.js';
import { EASE } from '../core/tween.js';
import { askingMarks, figureMarks, RACE_KINDS, raceLayout, raceMarks } from './race_marks.js';
import { after, held, keysRead, placeOf, total, traffic } from './race_rule.js';

const MOVE = 1800; // ms of a step of the race
const LAST = 700; // and of the step whose sentence names the finished O
const ASKING = 1500; // ms in which all words ask
const MIXING = 700; // and in which one row becomes weights and its output
const OCTAVES = [6, 14]; // log2 of the fewest and the most tokens
const NEAR = 0.13; // of an octave: so near, the slider holds at a whole one
const GRAIN = 64; // tokens between two lengths under a moving hand
const HEIGHTS = [16, 64, 128];
/** @type {[number, string][]} */
const UNITS = [
  [1e9, 'GB'],
  [1e6, 'MB'],
];

/** A value with as many decimals as three digits of another one need: what rolls does not jump. */
const three = (/** @type {number} */ value, like = value) =>
  value.toFixed(Math.max(0, Math.min(4, 2 - Math.floor(Math.log10(like || 1)))));

/** @type {Picture<models.RaceMeta>} */
export default function (host, { meta }, context) {
  const { frames, phases, job, times, parts, words, begin, grown } = meta,
    { clock } = context,
    HAND = frames.length - 1,
    FIRST = phases.indexOf('scores'), // the first step with bytes
    TIMES = phases.includes('times') ? phases.indexOf('times') : HAND, // and with recorded figures
    GROWN = phases.includes('grown') ? phases.indexOf('grown') : HAND + 1; // the first step with more tokens
  const start = { tokens: begin, height: meta.height, causal: false };
  let chosen = { ...start },
    touched = '', // the control that the reader moved last
    dragging = false,
    share = 0, // of the bytes of the left side
    lasts = MOVE, // ms of the motion
    began = -1e9, // ms, of the asking
    passed = ASKING + MIXING, // and since then
    /** @type {{from: number, to: number, begun: number} | null} */ motion = null;
  const drawn = new Follower(Math.log2(begin)), // of the tokens, on the slider's scale
    FULL = 1.04 * total(traffic(2 ** OCTAVES[1], meta.height, false, job).keep), // bytes: the right bar never ends
    HELD = 1.04 * sumOf(held(2 ** OCTAVES[1], job).store),
    FIXED = begin === grown ? 0 : GROWN, // the first step with this scale
    full = new Follower(Math.log2(FULL)); // of a whole bar, in log2 of bytes
  /** @type {ReturnType<typeof raceLayout>} */ let at;

  // ---- values ----
  const ways = () => traffic(chosen.tokens, chosen.height, chosen.causal, job);
  const record = () =>
    chosen.height === meta.height && times.find(one => one.tokens === chosen.tokens && one.causal === chosen.causal);
  const saying = (/** @type {number} */ whole) => {
    const [size, unit] = UNITS.find(([size]) => whole >= size) ?? UNITS[1];
    return (/** @type {number} */ bytes) => /** @type {[string, string]} */ ([three(bytes / size, whole / size), unit]);
  };
  const amount = (/** @type {number} */ bytes) => `${three(bytes / 1e9)} GB`;
  /** The share of the left side's bytes at a step: after each of its stages. */
  function shareAt(/** @type {number} */ step) {
    const { store } = ways();
    const ended = Math.max(0, step - FIRST + 1),
      moved = total(store.slice(0, ended));
    return (ended && ended < store.length ? moved - 1 : moved) / total(store); // a stage rests in its last tile
  }
  /** Whether the bars are bytes held: in the hand, after the recorded figures. */
  const holds = (/** @type {number} */ step) => step === HAND && TIMES < HAND;
  /** The scale of the bars: the race fills the left one, later one scale holds for all lengths. */
  const fullAt = (/** @type {number} */ step) =>
    holds(step) ? HELD : step >= FIXED ? FULL : total(traffic(begin, meta.height, false, job).store);
  const inGB = (/** @type {number} */ whole) => (/** @type {number} */ bytes) =>
    /** @type {[string, string]} */ ([three(bytes / 1e9, Math.max(0.05, whole / 1e9)), 'GB']);
  function look() {
    const { store, keep } = ways(),
      whole = total(store),
      found = record() || null,
      rows = number(Math.ceil(chosen.tokens / chosen.height)),
      told = holds(clock.step),
      kept = held(chosen.tokens, job),
      none = fill(chosen.height === meta.height ? 'none' : 'none_height', {
        ...{ tokens: number(chosen.tokens), height: chosen.height },
      });
    const side = (
      /** @type {import('./race_rule.js').Moved[][]} */ stages,
      /** @type {boolean} */ masks,
      /** @type {number | undefined} */ ms,
    ) => {
      const all = total(stages),
        bytes = Math.min(whole * share, all),
        state = after(stages, bytes),
        place = placeOf(keysRead(chosen.tokens, chosen.height, masks), state.share),
        done = whole * share >= all - 0.5,
        reads = done
          ? fill(rows === '1' ? 'once' : 'again', { height: chosen.height })
          : fill('row', {
              first: number(place.row * chosen.height + 1),
              last: number(Math.min(chosen.tokens, (place.row + 1) * chosen.height)),
            }),
        time = ms ? `${three(ms)} ms` : '';
      return {
        ...{ bytes, all, held: stages.length > 1 ? kept.store : kept.keep },
        ...state,
        ...place,
        done,
        lines: told ? [fill('asked', { bytes: amount(all) }), time ? `*${time}, ${meta.where}` : none] : [reads],
        brief: [told && time ? `*${fill('timed', { time })}` : done ? '' : reads],
      };
    };
    return {
      ...{ parts, first: begin, full: 2 ** full.value, held: told, once: kept.keep.K },
      says: told
        ? (/** @type {number} */ bytes) => /** @type {[string, string]} */ ([three(bytes / 1e9), 'GB'])
        : inGB(whole),
      sides: [side(store, false, found?.unfused), side(keep, chosen.causal, found?.flash)],
      words: {
        ...words,
        heads: fill(told ? 'held' : 'heads', { heads: job.batch * job.heads, tokens: number(chosen.tokens) }),
        first: fill('first', { tokens: number(begin) }),
        square_of: fill('square_of', { tokens: number(chosen.tokens) }),
        keeps: fill('keeps', { height: chosen.height }),
      },
    };
  }
  /** The recorded figures of a length, one group for each quantity. */
  function groups(/** @type {models.Raced} */ found) {
    const { store, keep } = traffic(found.tokens, meta.height, found.causal, job),
      square = total([store[0].filter(([tensor]) => tensor === 'S')]),
      repeats = [store, keep].map(stages => again(stages, sumOf(held(found.tokens, job).keep) / 4)),
      once = [store, keep].map((stages, n) => total(stages) * (1 - repeats[n])); // without the repeats
    const group = (
      /** @type {string} */ title,
      /** @type {string} */ from,
      /** @type {number[]} */ pair,
      /** @type {(value: number) => string} */ says,
      /** @type {string} */ fewer,
      /** @type {object[]} */ more = [],
    ) => ({
      ...{ title, from, end: fill(fewer, { ratio: (pair[0] / pair[1]).toFixed(pair[0] / pair[1] < 20 ? 1 : 0) }) },
      bars: pair.map((value, n) => ({
        ...{ name: words[n ? 'keep' : 'store'], share: value / pair[0], value: says(value) },
        ...more[n],
      })),
    });
    return [
      {
        ...group(
          words.bytes,
          words.bytes_from,
          [total(store), total(keep)],
          amount,
          'fewer',
          repeats.map(again => ({ again })),
        ),
        notes: [
          fill('solid', { ratio: (once[0] / once[1]).toFixed(0) }),
          fill('solid_from', { before: amount(once[0]), now: amount(once[1]) }),
        ],
      },
      group(
        words.time,
        `${meta.where}, ${words.bits}`,
        [found.unfused, found.flash],
        value => `${three(value)} ms`,
        'faster',
      ),
      group(words.memory, meta.where, found.held, amount, 'less', [
        { parts: ['S', 'P'].map(tensor => /** @type {[string, number]} */ ([tensor, square / found.held[0]])) },
      ]),
    ];
  }

  // ---- motion ----
  const loop = makeLoop((time, seconds) => {
    if (motion) {
      const t = calm() ? 1 : Math.min(1, Math.max(0, time - motion.begun) / lasts);
      share = motion.from + (motion.to - motion.from) * EASE.both(t);
      if (t === 1) motion = null;
    }
    const glides = [drawn, full].map(one => one.step(time, dragging ? seconds : seconds / 4)).some(Boolean);
    passed = calm() ? ASKING + MIXING : Math.max(0, time - began);
    view.draw();
    return !!motion || glides || passed < ASKING + MIXING;
  });
  function aim() {
    drawn.aim(Math.log2(chosen.tokens));
    full.aim(Math.log2(fullAt(clock.step)));
  }
  function goTo(/** @type {number} */ to, /** @type {boolean} */ moves) {
    motion = moves && !calm() ? { from: share, to, begun: performance.now() } : null;
    if (!motion) share = to;
    aim();
    if (!moves) for (const one of [drawn, full]) one.jump(one.goal);
    loop.wake();
  }

  // ---- words ----
  const squareOf = () => total([ways().store[0].filter(([tensor]) => tensor === 'S')]);
  const fill = (/** @type {string} */ name, /** @type {Record<string, string | number>} */ values = {}) =>
    filled(words[name], values);
  function sentence() {
    if (clock.step !== HAND || !touched) return '';
    const found = record() || null,
      square = 2 * squareOf(),
      values = {
        ...{
          tokens: number(chosen.tokens),
          height: chosen.height,
          again: number(Math.ceil(chosen.tokens / chosen.height)),
        },
        square: saying(square)(square).join(' '),
        ratio: found ? (found.unfused / found.flash).toFixed(1) : '',
      };
    if (touched === 'height' && chosen.height !== meta.height) return fill('height', values);
    if (chosen.causal) return fill('causal', values);
    return fill(found ? 'recorded' : chosen.tokens < chosen.height ? 'short' : 'modelled', values);
  }
  function speak() {
    clock.tell('said', sentence());
    count.textContent = number(chosen.tokens);
    if (!dragging) tokens.value = Math.log2(chosen.tokens);
    tokens.setAttribute('aria-valuetext', `${number(chosen.tokens)} tokens`);
    causal.checked = chosen.causal;
    more.toggleAttribute('inert', clock.step !== HAND);
    for (const one of heights.children)
      one.setAttribute('aria-pressed', String(Number(one.dataset.height) === chosen.height));
  }

  // ---- hands ----
  /** A hand at any step goes to the last one. */
  function change(/** @type {Partial<typeof chosen>} */ to) {
    [touched] = Object.keys(to);
    if (clock.step !== HAND) clock.set(HAND, 'jump');
    chosen = { ...chosen, ...to };
    share = 1;
    motion = null;
    aim();
    speak();
    loop.wake();
  }
  const tokens = element('input', {
      ...{
        type: 'range',
        class: 'wide',
        min: OCTAVES[0],
        max: OCTAVES[1],
        step: 1 / 32,
        'aria-label': 'tokens',
        list: 'race-recorded',
      },
    }),
    marks = element('datalist', { id: 'race-recorded' }, ...[...new Set(times.map(one => one.tokens))].map(ticked)),
    count = element('b'),
    causal = element('input', { type: 'checkbox' }),
    heights = element(
      'span',
      { class: 'choices', role: 'group', 'aria-label': 'rows of a tile' },
      ...HEIGHTS.map(height =>
        button(String(height), () => change({ height }), { class: 'chip', 'data-height': height }),
      ),
    );
  const whole = () => Math.round(tokens.value);
  tokens.oninput = () => {
    dragging = true;
    const near = Math.abs(tokens.value - whole()) < NEAR;
    change({ tokens: near ? 2 ** whole() : GRAIN * Math.max(1, Math.round(2 ** tokens.value / GRAIN)) });
  };
  tokens.onchange = () => {
    dragging = false;
    change({ tokens: 2 ** whole() }); // recorded lengths are whole octaves
  };
  tokens.onkeydown = (/** @type {KeyboardEvent} */ event) => {
    const way = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, Home: -99, End: 99 }[event.key];
    if (!way) return;
    event.preventDefault();
    change({ tokens: 2 ** Math.max(OCTAVES[0], Math.min(OCTAVES[1], Math.round(Math.log2(chosen.tokens)) + way)) });
  };
  causal.onchange = () => change({ causal: causal.checked });
  const label = (/** @type {any[]} */ ...parts) => element('label', {}, ...parts);
  const more = element('span', { class: 'group' }, 'rows of a tile ', heights, label(causal, ' causal'));
  const controls = element(
    'div',
    { class: 'hands', role: 'group', 'aria-label': 'The race' },
    label(count, ' tokens ', tokens, marks),
    ...(phases.includes('hand') ? [more] : []),
  );

  // ---- the canvas and the clock ----
  function arrive(/** @type {number} */ step, /** @type {string} */ why) {
    if (step !== HAND) touched = '';
    if (!touched) chosen = { ...start, tokens: step >= GROWN ? grown : begin };
    if (phases[step] === 'words') began = performance.now();
    controls.style.visibility = phases[step] === 'words' ? 'hidden' : ''; // no tokens to drag yet
    lasts = step + 1 < TIMES ? MOVE : LAST;
    goTo(shareAt(step), why !== 'jump');
    speak();
  }
  const onStep = (/** @type {any} */ { detail }) => arrive(detail.step, detail.why);
  const view = handView(host, context, {
    frames,
    controls,
    foot: [element('span', {}, fill('job', { ...job })), element('span', { class: 'from' }, meta.recorded)],
    heard: { step: onStep },
    end: loop.stop,
    title: 'The race',
    live: true,
    kinds: RACE_KINDS,
    layout: (/** @type {any} */ size) => {
      at = raceLayout(size);
      return at.height;
    },
    marks: (/** @type {{paint: Paint}} */ { paint }) => {
      const figures = phases[clock.step] === 'times' && record();
      if (phases[clock.step] === 'words')
        return askingMarks(
          at,
          {
            ...{ asked: Math.min(1, passed / ASKING), mixed: Math.max(0, Math.min(1, (passed - ASKING) / MIXING)) },
            ...{ parts, words: meta.example, says: words.example },
          },
          paint,
        );
      if (figures) return figureMarks(at, groups(figures), paint);
      return raceMarks(at, { ...chosen, ...look(), drawn: 2 ** drawn.value }, paint);
    },
  });
  arrive(clock.step, 'jump');
  return view;
}

/** The share of all bytes that is K or V after its first time. matrix: bytes of K. */
const again = (/** @type {import('./race_rule.js').Moved[][]} */ stages, /** @type {number} */ matrix) => {
  const read = stages.flat().filter(([tensor]) => tensor === 'K' || tensor === 'V');
  return (total([read]) - 2 * matrix) / total(stages);
};
const sumOf = (/** @type {Record<string, number>} */ parts) => Object.values(parts).reduce((a, b) => a + b, 0);
const ticked = (/** @type {number} */ tokens) => element('option', { value: Math.log2(tokens) });
