// How fast K and V arrive at few blocks and at many, and how the results of many become one. Two hands: the blocks of
// an SM, which share its pipe by split_rule.js, and the contexts, with recorded times.
import { filled } from '../core/follow.js';
import { makeGlide } from '../core/glide.js';
import { handView, pull } from '../core/hand.js';
import { button, element, number, short } from '../core/paint.js';
import { SPLIT_KINDS, splitLayout, splitMarks } from './split_marks.js';
import { asked } from './split_rule.js';

const STREAM = 2000, // ms of a new stream
  MERGE = 2200, // of the second kernel
  WAIT = 4200, // of the first waits of a block
  MORE = 450, // of a change of the blocks
  FIRST = 4, // blocks before the reader changes them
  CUT = 900, // and of another step
  CHANGE = 700, // and of a change in the hand
  FLOW = 6; // lengths that a stream flows in a change

/** @type {Picture<block_table.SplitMeta>} */
export default function (host, { meta }, context) {
  const { frames, longer, words } = meta,
    { clock } = context,
    last = frames.length - 1,
    most = meta.asks?.most ?? 1,
    ways = { longer, more: meta.more },
    middle = Math.floor(longer.length / 2);
  let way = /** @type {'longer' | 'more'} */ ('longer'),
    place = middle,
    flow = 0,
    blocks = FIRST,
    played = false;
  /** @type {ReturnType<typeof splitLayout>} */ let at;
  const timed = () => ways[way][place] ?? null;
  const glide = makeGlide(() => view.draw());

  function marks(/** @type {{paint: Paint}} */ { paint }) {
    return glide.pass(
      splitMarks(at, { meta, phase: meta.phases[clock.step], timed: timed(), blocks, played, flow }, paint),
    );
  }
  function begin(/** @type {number} */ ms) {
    flow += FLOW;
    glide.begin(ms);
  }
  function sentence() {
    const now = timed(),
      phase = meta.phases[clock.step];
    if (phase === 'asks' && meta.asks && played) {
      const { share } = asked(blocks, meta.asks, meta.sms, meta.best);
      return share < 1 ? filled(words.some, { blocks: onSm(), percent: Math.round(100 * share) }) : words.filled;
    }
    if (phase !== 'hand' || !now || !played) return '';
    const [v1, v2] = now.us,
      [few, many] = now.blocks;
    const times = short(v1 / v2, 2);
    if (v2 < v1)
      return filled(many < meta.sms ? words.few : words.wins, { times, many: number(many), few: number(few) });
    return filled(few === many ? words.alone : words.full, { percent: Math.round(100 * (v2 / v1 - 1)) });
  }
  function speak() {
    clock.tell('said', sentence());
    const now = timed(),
      phase = meta.phases[clock.step];
    controls.toggleAttribute('inert', phase !== 'hand' && phase !== 'asks');
    const own = phase === 'hand' ? [chips, lengths] : [of];
    if (controls.firstChild !== own[0]) controls.replaceChildren(...own);
    grips.hidden = phase !== 'asks';
    more.value = blocks;
    has.textContent = onSm();
    more.setAttribute('aria-valuetext', onSm());
    slider.max = ways[way].length - 1;
    slider.value = place;
    for (const one of chips.children) one.setAttribute('aria-pressed', String(one.dataset.way === way));
    const is = now ? `${now.contexts} context${now.contexts > 1 ? 's' : ''} of ${number(now.tokens)} tokens` : '';
    slider.setAttribute('aria-valuetext', is);
    from.textContent =
      { parts: meta.ran, merged: meta.ran, waits: meta.modelled, asks: meta.modelled }[phase] ?? meta.source;
  }
  const onSm = () => `${blocks} block${blocks > 1 ? 's' : ''}`;
  /** So many blocks on the SM. */
  function put(/** @type {number} */ to) {
    const next = Math.max(1, Math.min(most, to));
    if (next !== blocks) glide.begin(MORE);
    [blocks, played] = [next, true];
    speak();
    view.draw();
  }
  function change(/** @type {typeof way} */ to, /** @type {number} */ next) {
    [way, place, played] = [to, next, true];
    begin(CHANGE);
    speak();
    view.draw();
  }

  const more = element('input', { type: 'range', class: 'wide', min: 1, max: most, step: 1, 'aria-label': 'blocks' }),
    has = element('b'),
    of = element('label', {}, 'blocks on the SM ', more, has),
    grip = element('div', {}),
    grips = element('div', { class: 'bars' }, grip);
  more.oninput = () => put(Number(more.value));
  grip.style.cursor = 'grab';
  const under = (/** @type {PointerEvent} */ { clientX }) => {
    const { left, width } = grip.getBoundingClientRect();
    return Math.ceil((most * (clientX - left)) / width);
  };
  grip.onpointerdown = (/** @type {PointerEvent} */ event) => {
    pull(grip, event, e => put(under(e)));
    put(under(event));
  };

  const slider = element('input', { type: 'range', class: 'wide', min: 0, step: 1, 'aria-label': 'contexts' }),
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
    lengths = element('label', {}, slider),
    controls = element('div', { class: 'hands', role: 'group', 'aria-label': 'Blocks and contexts' });
  slider.oninput = () => change(way, Number(slider.value));

  function arrive(/** @type {number} */ step, /** @type {string} */ why) {
    if (step !== last) [way, place, blocks, played] = ['longer', middle, FIRST, false];
    if (why === 'jump') glide.end();
    else begin({ waits: WAIT, asks: STREAM, cut: STREAM, merged: MERGE }[meta.phases[step]] ?? CUT);
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
      const { x, w, chart } = at.time;
      Object.assign(grip.style, {
        left: `${x}px`,
        top: `${chart.y}px`,
        width: `${w}px`,
        height: `${chart.end - chart.y}px`,
      });
      return at.bottom;
    },
    marks,
    click: (/** @type {any} */ thing) => {
      if (thing.part !== 'lane' || grips.hidden) return false;
      put(thing.lane + 1);
    },
  });
  host.querySelector('.sheet')?.append(grips);
  arrive(clock.step, 'jump');
  view.draw();
  return view;
}
