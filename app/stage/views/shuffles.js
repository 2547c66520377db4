// The few lanes that share a row: its scores drop into their registers, and shuffles carry the largest one to all.
// Its steps follow the chosen row of the run. In the first one, a click in the tile chooses the row. In the last one,
// the reader drags a score or clicks it: a click makes it the largest. While it is held, no lane has heard of it.
import { filled } from '../core/follow.js';
import { makeGlide } from '../core/glide.js';
import { handView, pull } from '../core/hand.js';
import { button, element, exact } from '../core/paint.js';
import { PHASES, scale, shufflesLayout, shufflesMarks } from './shuffles_marks.js';

const LANES = 32;
const ABOVE = 0.3; // how far a click lifts a score above the others
const WAYS = { own: 2000, 'shuffle 1': 800, 'shuffle 2': 800, warp: 2600, memory: 2200, sum: 1800, gain: 1800 }; // ms
const TRAVELS = 1600; // of a new max
const WAY = 600; // of another step

/** @type {Picture<registers.ShufflesMeta>} */
export default function (host, { meta, columns }, context) {
  const { row0, rows, keys, tile, frames, phases, words, kernel, shared, reductions, gain } = meta,
    { clock } = context,
    { thread, s, p, l } = columns,
    [first, last] = tile,
    HAND = frames.length - 1;
  let chosen = meta.row - row0,
    held = false; // a bar, by the hand
  /** @type {{key: number, score: number} | null} */ let lifted = null; // the score that the reader moved
  /** @type {Record<string, ReturnType<typeof shufflesLayout>>} */ let at; // of each phase
  const glide = makeGlide(() => view.draw());

  const of = (/** @type {Float32Array} */ values, /** @type {number} */ key) => values[chosen * keys + key];
  const owner = (/** @type {number} */ row, /** @type {number} */ key) => thread[row * keys + key];
  const ofTile = (/** @type {number} */ row) =>
    Array.from({ length: last - first + 1 }, (_, key) => first + key).filter(key => owner(row, key) >= 0);

  /** What the row's lanes hold at a step. */
  function state(/** @type {number} */ step) {
    const all = ofTile(chosen),
      names = [...new Set(all.map(key => owner(chosen, key)))].sort((a, b) => a - b),
      own = all.map(key => of(s, key)),
      score = (/** @type {number} */ key) => (key === lifted?.key ? lifted.score : of(s, key));
    const lanes = names.map(one => {
      const mine = all.filter(key => owner(chosen, key) === one);
      return {
        ...{ lane: one % LANES, keys: mine, scores: mine.map(score), weights: mine.map(key => of(p, key)) },
        max: Math.max(...mine.map(score)),
        sum: mine.reduce((sum, key) => sum + of(p, key), 0),
      };
    });
    return {
      ...{ phase: phases[step], first, lanes, lifted: lifted?.key ?? null },
      rounds: held ? 0 : (PHASES[phases[step]].rounds ?? 0),
      ...{ row: row0 + chosen, warp: Math.floor(names[0] / LANES), l: l[chosen] },
      range: [Math.min(...own) - 0.1, Math.max(...own) + ABOVE + 0.1],
    };
  }

  function choose(/** @type {any} */ what) {
    if (what.row !== undefined) {
      [chosen, lifted] = [what.row - row0, null];
      glide.begin(WAY);
    } else if (what.register === undefined) return false;
    else {
      if (clock.step !== HAND) clock.set(HAND, 'user');
      lift(what.register, Infinity);
      travel();
    }
    speak();
    view.draw();
    return true;
  }
  /** Moves a score, at most a little above the others. */
  function lift(/** @type {number} */ key, /** @type {number} */ score) {
    const [low, high] = state(HAND).range;
    lifted = { key, score: Math.max(low + 0.1, Math.min(high - 0.1, score)) };
    speak();
  }
  /** The lanes learn the max anew, from a picture in which none has heard of it. */
  function travel() {
    held = true;
    glide.end();
    view.draw();
    held = false;
    glide.begin(TRAVELS);
    speak();
    view.draw();
  }
  const reset = button('Back to the run', () => {
    lifted = null;
    glide.begin(WAY);
    speak();
    view.draw();
  });
  const said = element('span', { class: 'from' }),
    hint = element('span', {});
  function speak() {
    const now = state(clock.step),
      moved = lifted && clock.step === HAND,
      best = now.lanes.reduce((one, lane) => (lane.max > one.max ? lane : one));
    clock.tell('said', moved ? filled(held ? words.held : words.lifted, { lane: best.lane }) : '');
    const { phase } = now,
      ran = `run of ${kernel}, row ${row0 + chosen}`;
    said.textContent = moved
      ? 'modelled, under your hand'
      : phase === 'memory'
        ? `left: ${ran}; right: modelled`
        : ({ warp: `modelled${reductions ? '; cycles: recorded' : ''}`, gain: 'recorded' }[phase] ?? ran);
    said.classList.toggle('modelled', !!moved);
    hint.textContent = phase === 'row' ? words.rows : phase === 'hand' ? words.hint : '';
    reset.toggleAttribute('inert', !moved);
    place();
  }
  // ---- the bars as sliders, in the last step ----
  const bars = element('div', {
    class: 'bars',
    role: 'group',
    'aria-label': 'Scores of the row: left and right choose a bar, up and down move it',
  });
  ofTile(chosen).forEach((key, n, all) => {
    const bar = element('div', {
      role: 'slider',
      tabindex: n ? -1 : 0,
      'aria-orientation': 'vertical',
      'aria-label': `score of key ${key}`,
    });
    const scoreNow = () => (lifted?.key === key ? lifted.score : of(s, key));
    bar.onkeydown = (/** @type {KeyboardEvent} */ event) => {
      const by = { ArrowUp: 0.1, ArrowDown: -0.1, PageUp: 0.5, PageDown: -0.5 }[event.key],
        to = { ArrowLeft: n - 1, ArrowRight: n + 1, Home: 0, End: all.length - 1 }[event.key];
      if (by !== undefined) lift(key, scoreNow() + by);
      else if (event.key === 'Enter') choose({ register: key });
      else if (to !== undefined) bars.children[Math.max(0, Math.min(all.length - 1, to))].focus();
      else return;
      view.draw();
      event.preventDefault();
      event.stopPropagation();
    };
    bar.onfocus = () => {
      for (const other of bars.children) other.tabIndex = other === bar ? 0 : -1;
    };
    bar.onpointerdown = (/** @type {PointerEvent} */ event) => {
      const { unit } = scale(at.hand, 'hand', state(HAND).range),
        from = scoreNow();
      bar.focus({ focusVisible: false, preventScroll: true });
      pull(
        bar,
        event,
        ({ clientY }) => {
          if (!held && Math.abs(clientY - event.clientY) < 4) return; // a click
          held = true;
          glide.end();
          lift(key, from - (clientY - event.clientY) / unit);
          view.draw();
        },
        () => (held ? travel() : choose({ register: key })),
      );
    };
    bars.append(bar);
  });
  /** The sliders over the bars. */
  function place() {
    bars.hidden = clock.step !== HAND || !at;
    if (bars.hidden) return;
    const { lanes } = state(HAND),
      { chart, pitch, x } = at.hand;
    ofTile(chosen).forEach((key, n) => {
      const lane = lanes.findIndex(one => one.keys.includes(key)),
        slot = lanes[lane].keys.indexOf(key),
        bar = bars.children[n];
      const [low, high] = state(HAND).range;
      Object.entries({ valuemin: low + 0.1, valuemax: high - 0.1, valuenow: lanes[lane].scores[slot] }).forEach(
        ([name, value]) => bar.setAttribute(`aria-${name}`, value.toFixed(2)),
      );
      Object.assign(bar.style, {
        ...{ left: `${x(lane) + slot * pitch}px`, width: `${pitch}px`, top: `${chart.y}px`, height: `${chart.h}px` },
      });
    });
  }
  const onStep = (/** @type {any} */ { detail }) => {
    [lifted, held] = [null, false];
    if (detail.why === 'jump') glide.end();
    else glide.begin(/** @type {Record<string, number>} */ (WAYS)[phases[detail.step]] ?? WAY);
    speak();
  };

  const view = handView(host, context, {
    frames,
    controls: hint,
    foot: [said, reset],
    heard: { step: onStep },
    end: glide.stop,
    live: true,
    title: 'Lanes of a row',
    layout: (/** @type {any} */ size) => {
      const { lanes } = state(0),
        of = { columns: last - first + 1, lanes: lanes.length, slots: lanes[0].keys.length };
      at = Object.fromEntries(phases.map(phase => [phase, shufflesLayout(size, of, phase)]));
      glide.end();
      place();
      return Math.max(...Object.values(at).map(({ height }) => height));
    },
    marks: (/** @type {{step: number, paint: Paint}} */ { step, paint }) => {
      const now = state(step),
        grid = Array.from({ length: rows }, (_, row) =>
          Array.from({ length: last - first + 1 }, (_, key) =>
            owner(row, first + key) < 0 ? NaN : s[row * keys + first + key],
          ),
        );
      return glide.pass(shufflesMarks(at[now.phase], { ...now, grid, row0, chosen, shared, reductions, gain }, paint));
    },
    describe(/** @type {any} */ what, /** @type {number} */ step) {
      if (what.row !== undefined && what.key !== undefined) {
        const one = owner(what.row - row0, what.key);
        return one < 0
          ? `query ${what.row}, key ${what.key}: no score`
          : `query ${what.row}, key ${what.key}: lane ${one % LANES} of warp ${Math.floor(one / LANES)}`;
      }
      if (what.register !== undefined && step === HAND) return `key ${what.register}`; // it hides no value
      if (what.register !== undefined) {
        const weighed = PHASES[phases[step]].of === 'P' ? `, weight ${exact(of(p, what.register))}` : '';
        const score = exact(of(s, what.register));
        return `register of key ${what.register}: score ${score}${weighed}`;
      }
      return what.said ?? '';
    },
    click: choose,
  });
  host.querySelector('.sheet')?.append(bars);
  speak();
  return view;
}
