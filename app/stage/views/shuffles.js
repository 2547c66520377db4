// The few lanes that share a row: its scores drop into their registers, and shuffles carry the largest one to all.
// Its steps follow the chosen row of the run. In the first one, a click in the tile chooses the row. In the last one,
// a click makes another score the largest.
import { filled } from '../core/follow.js';
import { makeGlide } from '../core/glide.js';
import { handView } from '../core/hand.js';
import { button, element, exact } from '../core/paint.js';
import { PHASES, shufflesLayout, shufflesMarks } from './shuffles_marks.js';

const LANES = 32;
const ABOVE = 0.3; // how far a click lifts a score above the others
const WAYS = { held: 2000, 'shuffle 1': 800, 'shuffle 2': 800, warp: 2600, memory: 1800, sum: 1500 }; // ms
const WAY = 600; // of another step

/** @type {Picture<registers.ShufflesMeta>} */
export default function (host, { meta, columns }, context) {
  const { row0, rows, keys, tiles, frames, phases, of_tile: ofTile, words, kernel } = meta,
    { clock } = context,
    { thread, s, p, m, l } = columns,
    HAND = frames.length - 1;
  let chosen = meta.row - row0;
  /** @type {number | null} */ let lifted = null; // the key whose score the reader made the largest
  /** @type {Record<string, ReturnType<typeof shufflesLayout>>} */ let at; // of each phase
  const glide = makeGlide(() => view.draw());

  const of = (/** @type {Float32Array} */ values, /** @type {number} */ key) => values[chosen * keys + key];
  const owner = (/** @type {number} */ row, /** @type {number} */ key) => thread[row * keys + key];
  const widest = Math.max(...tiles.map(([first, last]) => last - first + 1));

  /** What each tile up to one has added to l, against the m of that one. */
  const parts = (/** @type {number} */ last) =>
    Array.from({ length: last + 1 }, (_, n) => {
      const mOf = (/** @type {number} */ tile) => m[tile * rows + chosen],
        before = n ? l[(n - 1) * rows + chosen] * Math.exp(mOf(n - 1) - mOf(n)) : 0;
      return (l[n * rows + chosen] - before) * Math.exp(mOf(n) - mOf(last));
    });

  /** What the row's lanes hold at a step. */
  function state(/** @type {number} */ step) {
    const n = ofTile[step],
      [first, last] = tiles[n],
      all = Array.from({ length: last - first + 1 }, (_, key) => first + key).filter(key => owner(chosen, key) >= 0),
      names = [...new Set(all.map(key => owner(chosen, key)))].sort((a, b) => a - b),
      top = Math.max(...all.map(key => of(s, key))),
      score = (/** @type {number} */ key) => (key === lifted ? top + ABOVE : of(s, key)),
      own = s.subarray(chosen * keys, (chosen + 1) * keys).filter(Number.isFinite),
      before = n ? m[(n - 1) * rows + chosen] : -Infinity;
    const lanes = names.map(one => {
      const mine = all.filter(key => owner(chosen, key) === one);
      return {
        ...{ lane: one % LANES, keys: mine, scores: mine.map(score), weights: mine.map(key => of(p, key)) },
        max: Math.max(...mine.map(score)),
        sum: mine.reduce((sum, key) => sum + of(p, key), 0),
      };
    });
    return {
      ...{ phase: phases[step], tile: n, first, last, lanes, before, lifted },
      ...{ row: row0 + chosen, warp: Math.floor(names[0] / LANES) },
      m: Math.max(before, ...lanes.map(({ max }) => max)),
      l: l[n * rows + chosen],
      ...{ parts: parts(n), most: Math.max(...tiles.map((_, tile) => l[tile * rows + chosen])) },
      range: [Math.min(...own) - 0.1, Math.max(...own) + ABOVE + 0.1],
    };
  }

  function choose(/** @type {any} */ what) {
    if (what.row !== undefined) [chosen, lifted] = [what.row - row0, null];
    else if (what.register === undefined) return false;
    else {
      if (clock.step !== HAND) clock.set(HAND, 'user');
      lifted = what.register;
    }
    glide.begin(WAY);
    speak();
    view.draw();
    return true;
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
    const lane = state(clock.step).lanes.find(one => one.keys.includes(/** @type {number} */ (lifted)));
    clock.tell('said', lane ? filled(words.lifted, { lane: lane.lane }) : '');
    const phase = phases[clock.step],
      ran = `run of ${kernel}, row ${row0 + chosen}`;
    said.textContent = lane
      ? 'modelled, under your hand'
      : phase === 'memory'
        ? `left: ${ran}; right: modelled`
        : phase === 'warp'
          ? 'modelled'
          : ran;
    said.classList.toggle('modelled', !!lane);
    hint.textContent = phase === 'row' ? words.rows : phase === 'hand' ? words.hint : '';
    reset.toggleAttribute('inert', !lane);
  }
  const onStep = (/** @type {any} */ { detail }) => {
    if (detail.step !== HAND) lifted = null;
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
        of = { columns: widest, lanes: lanes.length, slots: lanes[0].keys.length };
      at = Object.fromEntries(phases.map(phase => [phase, shufflesLayout(size, of, phase)]));
      glide.end();
      return Math.max(...Object.values(at).map(({ height }) => height));
    },
    marks: (/** @type {{step: number, paint: Paint}} */ { step, paint }) => {
      const now = state(step),
        tile = Array.from({ length: rows }, (_, row) =>
          Array.from({ length: now.last - now.first + 1 }, (_, n) => owner(row, now.first + n)),
        );
      return glide.pass(shufflesMarks(at[now.phase], { ...now, grid: tile, row0, chosen, shared: meta.shared }, paint));
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
        const score = what.register === lifted ? 'made the largest' : exact(of(s, what.register));
        return `register of key ${what.register}: score ${score}${weighed}`;
      }
      return what.said ?? '';
    },
    click: choose,
  });
  speak();
  return view;
}
