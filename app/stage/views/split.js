// How fast K and V arrive at few blocks and at many, and how the results of many become one. In the hand, the reader
// chooses the contexts: the times are recorded, and the blocks of each SM follow from split_rule.js.
import { filled } from '../core/follow.js';
import { makeGlide } from '../core/glide.js';
import { handView } from '../core/hand.js';
import { button, element, number, short } from '../core/paint.js';
import { SPLIT_KINDS, splitLayout, splitMarks } from './split_marks.js';

const STREAM = 2000, // ms of a new stream
  MERGE = 2200, // of the second kernel
  CUT = 900, // and of another step
  CHANGE = 700, // and of a change in the hand
  FLOW = 6; // lengths that a stream flows in a change

/** @type {Picture<block_table.SplitMeta>} */
export default function (host, { meta }, context) {
  const { frames, longer, more, words } = meta,
    { clock } = context,
    last = frames.length - 1,
    ways = { longer, more },
    middle = Math.floor(longer.length / 2);
  let way = /** @type {'longer' | 'more'} */ ('longer'),
    place = middle,
    flow = 0,
    played = false;
  /** @type {ReturnType<typeof splitLayout>} */ let at;
  const timed = () => ways[way][place] ?? null;
  const glide = makeGlide(() => view.draw());

  function marks(/** @type {{paint: Paint}} */ { paint }) {
    return glide.pass(splitMarks(at, { meta, phase: meta.phases[clock.step], timed: timed(), flow }, paint));
  }
  function begin(/** @type {number} */ ms) {
    flow += FLOW;
    glide.begin(ms);
  }
  function sentence() {
    const now = timed();
    if (meta.phases[clock.step] !== 'hand' || !now || !played) return '';
    const [v1, v2] = now.us,
      [few, many] = now.blocks;
    if (v2 < v1) return filled(words.wins, { times: short(v1 / v2, 2) });
    return filled(few === many ? words.alone : words.full, { percent: Math.round(100 * (v2 / v1 - 1)) });
  }
  function speak() {
    clock.tell('said', sentence());
    const now = timed();
    controls.toggleAttribute('inert', meta.phases[clock.step] !== 'hand');
    slider.max = ways[way].length - 1;
    slider.value = place;
    for (const one of chips.children) one.setAttribute('aria-pressed', String(one.dataset.way === way));
    is.textContent = now ? `${now.contexts} context${now.contexts > 1 ? 's' : ''} of ${number(now.tokens)} tokens` : '';
    slider.setAttribute('aria-valuetext', is.textContent);
    from.textContent = meta.provenances[clock.step] ? meta.source : meta.ran;
  }
  function change(/** @type {typeof way} */ to, /** @type {number} */ next) {
    [way, place, played] = [to, next, true];
    begin(CHANGE);
    speak();
    view.draw();
  }

  const slider = element('input', { type: 'range', class: 'wide', min: 0, step: 1, 'aria-label': 'contexts' }),
    is = element('b'),
    from = element('span', { class: 'from' }),
    chips = element(
      'span',
      { class: 'choices', role: 'group', 'aria-label': 'What grows' },
      ...[
        ['longer', 'length of contexts'],
        ['more', 'number of contexts'],
      ].map(([name, text]) =>
        button(text, () => change(/** @type {any} */ (name), 0), { class: 'chip', 'data-way': name }),
      ),
    ),
    controls = element(
      'div',
      { class: 'hands', role: 'group', 'aria-label': 'The contexts' },
      chips,
      element('label', {}, slider, is),
    );
  slider.oninput = () => change(way, Number(slider.value));

  function arrive(/** @type {number} */ step, /** @type {string} */ why) {
    if (step !== last) [way, place, played] = ['longer', middle, false];
    if (why === 'jump') glide.end();
    else begin({ many: STREAM, cut: STREAM, merged: MERGE }[meta.phases[step]] ?? CUT);
    speak();
  }
  const onStep = (/** @type {any} */ { detail }) => arrive(detail.step, detail.why);
  /** The last contexts of a way, as an answer shows them. */
  function show(/** @type {typeof way | undefined} */ to) {
    if (to) change(to, ways[to].length - 1);
  }
  const view = handView(host, context, {
    frames,
    controls,
    foot: [from],
    heard: {
      step: onStep,
      covers: () => show(clock.point?.way),
      right: (/** @type {any} */ { detail }) => show(detail?.way),
    },
    end: glide.stop,
    title: 'Partitions',
    live: true,
    kinds: SPLIT_KINDS,
    layout: (/** @type {any} */ box) => {
      at = splitLayout(box, meta);
      glide.end();
      return at.bottom;
    },
    marks,
  });
  arrive(clock.step, 'jump');
  view.draw();
  return view;
}
