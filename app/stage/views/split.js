// One block for a whole context against many blocks, with the run's partitions. In the hand, the reader chooses the
// contexts: the times are recorded, and the blocks of each SM follow from split_rule.js.
import { filled } from '../core/follow.js';
import { makeGlide } from '../core/glide.js';
import { handView } from '../core/hand.js';
import { button, element, number, short } from '../core/paint.js';
import { SPLIT_KINDS, splitLayout, splitMarks } from './split_marks.js';

const WALK = 2600, // ms of V1's walk
  MERGE = 2200, // of the second kernel
  CUT = 900, // and of another step
  CHANGE = 450; // and of a change in the hand
const PHASES = ['whole', 'race', 'parts', 'merged', 'hand'];

/** @type {Picture<block_table.SplitMeta>} */
export default function (host, { meta }, context) {
  const { frames, longer, more, words } = meta,
    { clock } = context,
    last = frames.length - 1,
    ways = { longer, more },
    middle = Math.floor(longer.length / 2);
  let way = /** @type {'longer' | 'more'} */ ('longer'),
    place = middle,
    played = false;
  /** @type {ReturnType<typeof splitLayout>} */ let at;
  const timed = () => ways[way][place] ?? null;
  const glide = makeGlide(() => view.draw());

  function marks(/** @type {{paint: Paint}} */ { paint }) {
    const longest = Math.max(...ways[way].flatMap(({ us }) => us));
    return glide.pass(splitMarks(at, { meta, phase: PHASES[clock.step], timed: timed(), longest }, paint));
  }
  function sentence() {
    const now = timed();
    if (clock.step !== last || !now || !played) return '';
    const [v1, v2] = now.us,
      [few, many] = now.blocks;
    if (v2 < v1) return filled(words.wins, { times: short(v1 / v2, 2) });
    return filled(few === many ? words.alone : words.full, { percent: Math.round(100 * (v2 / v1 - 1)) });
  }
  function speak() {
    clock.tell('said', sentence());
    const now = timed();
    controls.toggleAttribute('inert', clock.step !== last);
    slider.max = ways[way].length - 1;
    slider.value = place;
    for (const one of chips.children) one.setAttribute('aria-pressed', String(one.dataset.way === way));
    is.textContent = now ? `${now.contexts} context${now.contexts > 1 ? 's' : ''} of ${number(now.tokens)} tokens` : '';
    slider.setAttribute('aria-valuetext', is.textContent);
    from.textContent = clock.step === last ? meta.source : clock.step ? meta.ran : meta.times;
  }
  function change(/** @type {typeof way} */ to, /** @type {number} */ next) {
    [way, place, played] = [to, next, true];
    glide.begin(CHANGE);
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
        ['longer', 'longer contexts'],
        ['more', 'more contexts'],
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
    else glide.begin(PHASES[step] === 'race' ? WALK : PHASES[step] === 'merged' ? MERGE : CUT);
    speak();
  }
  const onStep = (/** @type {any} */ { detail }) => arrive(detail.step, detail.why);
  const onPoint = () => {
    if (clock.point?.way) change(clock.point.way, ways[/** @type {typeof way} */ (clock.point.way)].length - 1);
  };
  const view = handView(host, context, {
    frames,
    controls,
    foot: [from],
    heard: { step: onStep, covers: onPoint },
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
