// The trips to memory that a tile saves. The reader moves the side of the tile. All numbers follow from trips_rule.js,
// and are called modelled.
import { filled } from '../core/follow.js';
import { makeGlide } from '../core/glide.js';
import { handView } from '../core/hand.js';
import { element, number } from '../core/paint.js';
import { tripsLayout, tripsMarks } from './trips_marks.js';
import { trips } from './trips_rule.js';

const CUT = 1800, // ms from a step to the next
  CHANGE = 700; // and of a change in the hand

/** @type {Picture<tiling.TripsMeta>} */
export default function (host, { meta }, context) {
  const { frames, phases, words, choices, tokens } = meta,
    { clock } = context,
    last = frames.length - 1;
  let side = meta.side,
    played = false;
  /** @type {ReturnType<typeof tripsLayout>} */ let at;
  const now = () => (clock.step === last ? side : meta.side);
  const glide = makeGlide(() => view.draw());

  function speak() {
    const times = trips(tokens, 1).all / trips(tokens, side).all,
      said =
        side === 1 ? words.none : filled(side === tokens ? words.whole : words.fewer, { side, times: number(times) });
    clock.tell('said', clock.step === last && played ? said : '');
    controls.toggleAttribute('inert', clock.step !== last);
    slider.value = choices.indexOf(side);
    is.textContent = side === 1 ? 'no tile' : `${side} × ${side}`;
    slider.setAttribute('aria-valuetext', is.textContent);
    const held = filled(words.held, { bytes: number(side === 1 ? 0 : 2 * side * meta.bytes) });
    const timed = phases[clock.step] === 'all' ? meta.timed : null,
      time = timed && at?.narrow ? `${filled(words.timed, { times: timed.times })} Tiles: ${words.queue}. ` : '',
      more = clock.step === last ? held : timed ? time + timed.said : '';
    from.textContent = more ? `modelled. ${more}` : 'modelled';
    controls.style.display = timed ? 'none' : ''; // its words need the row
  }
  const slider = element('input', {
      ...{ type: 'range', class: 'wide', min: 0, max: choices.length - 1, step: 1, 'aria-label': 'side of the tile' },
    }),
    is = element('b'),
    from = element('span', { class: 'from' }),
    controls = element(
      'div',
      { class: 'hands', role: 'group', 'aria-label': 'The tile' },
      element('label', {}, 'tile ', slider, is),
    );
  function change(/** @type {number} */ to) {
    [side, played] = [to, true];
    glide.begin(CHANGE);
    speak();
    view.draw();
  }
  slider.oninput = () => change(choices[Number(slider.value)]);

  function arrive(/** @type {number} */ step, /** @type {string} */ why) {
    if (step !== last) [side, played] = [meta.side, false];
    if (why === 'jump') glide.end();
    else glide.begin(CUT);
    speak();
  }
  const onStep = (/** @type {any} */ { detail }) => arrive(detail.step, detail.why);
  // The side of an answer.
  const onRight = (/** @type {any} */ { detail }) => {
    if (!detail?.side) return;
    if (clock.step !== last) clock.set(last, 'user');
    change(detail.side);
  };
  const onPoint = () => onRight({ detail: clock.point });
  const view = handView(host, context, {
    frames,
    controls,
    foot: [from],
    heard: { step: onStep, covers: onPoint, right: onRight },
    end: glide.stop,
    title: 'Trips of a tile',
    live: true,
    layout: (/** @type {any} */ box) => {
      at = tripsLayout(box, tokens);
      glide.end();
      return at.bottom;
    },
    marks: (/** @type {{paint: Paint}} */ { paint }) =>
      glide.pass(tripsMarks(at, { meta, phase: phases[clock.step], side: now() }, paint)),
  });
  arrive(clock.step, 'jump');
  view.draw();
  return view;
}
