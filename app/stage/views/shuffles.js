// The few lanes that share a row: its scores drop into their registers, and shuffles carry the largest one to all of them.
// Its steps follow the chosen row of the run. In the last one, a click makes another score the largest.
import { filled } from '../core/follow.js';
import { makeGlide } from '../core/glide.js';
import { handView } from '../core/hand.js';
import { button, element, exact } from '../core/paint.js';
import { after, shufflesLayout, shufflesMarks } from './shuffles_marks.js';

const LANES = 32;
const ABOVE = 0.5; // how far a click lifts a score above the others
const WAYS = { held: 2000, 'shuffle 1': 800, 'shuffle 2': 800, warp: 2600, memory: 3200, sum: 1500, rescale: 1500 }; // ms
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

  /** What the row's lanes hold at a step. */
  function state(/** @type {number} */ step) {
    const n = ofTile[step],
      [first, last] = tiles[n],
      all = Array.from({ length: last - first + 1 }, (_, key) => first + key).filter(key => owner(chosen, key) >= 0),
      names = [...new Set(all.map(key => owner(chosen, key)))].sort((a, b) => a - b),
      top = Math.max(...all.map(key => of(s, key))),
      score = (/** @type {number} */ key) => (key === lifted ? top + ABOVE : of(s, key)),
      before = n ? m[(n - 1) * rows + chosen] : -Infinity,
      sumBefore = n ? l[(n - 1) * rows + chosen] : 0;
    const lanes = names.map(one => {
      const own = all.filter(key => owner(chosen, key) === one);
      return {
        ...{ lane: one % LANES, keys: own, scores: own.map(score), weights: own.map(key => of(p, key)) },
        max: Math.max(...own.map(score)),
        sum: own.reduce((sum, key) => sum + of(p, key), 0),
      };
    });
    return {
      ...{ phase: phases[step], tile: n, first, last, lanes, before, sumBefore, lifted },
      ...{ row: row0 + chosen, warp: Math.floor(names[0] / LANES) },
      m: Math.max(before, ...lanes.map(({ max }) => max)),
      l: l[n * rows + chosen],
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
  const said = element('span', { class: 'from' });
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
    controls: element('span', {}, words.hint),
    foot: [said, reset],
    heard: { step: onStep },
    end: glide.stop,
    live: true,
    title: 'Lanes of a row',
    layout: (/** @type {any} */ size) => {
      const { lanes } = state(0),
        of = { rows, columns: widest, lanes: lanes.length, slots: lanes[0].keys.length };
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
        const weighed = after(phases[step], 'weights') ? `, weight ${exact(of(p, what.register))}` : '';
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
