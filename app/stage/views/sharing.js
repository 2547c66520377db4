// What shared KV heads save, and what they do not. The reader moves the number of KV heads. The sizes follow from
// sharing_rule.js, for a real model, and are called modelled. The times of one step are recorded.
import { filled } from '../core/follow.js';
import { makeGlide } from '../core/glide.js';
import { handView } from '../core/hand.js';
import { element } from '../core/paint.js';
import { SHARING_KINDS, sharingLayout, sharingMarks } from './sharing_marks.js';

const CUT = 1000, // ms from a step to the next
  CHANGE = 600; // and of a change in the hand

/** @type {Picture<block_table.SharingMeta>} */
export default function (host, { meta }, context) {
  const { frames, words, choices, heads } = meta,
    { clock } = context,
    last = frames.length - 1,
    phase = () => meta.phases[clock.step],
    low = () => ['own', 'shared'].includes(phase()); // on a phone, a question's options are in sight under the picture
  let kv = meta.kv[last],
    played = false,
    drawn = clock.step; // a question may draw a step before this view hears of it
  /** @type {ReturnType<typeof sharingLayout>} */ let at;
  const now = () => (clock.step === last ? kv : meta.kv[clock.step]);
  const glide = makeGlide(() => view.draw());

  function speak() {
    const times = heads / now(),
      said = times > 1 ? filled(words.saves, { times }) : words.none;
    clock.tell('said', clock.step === last && played ? said : '');
    controls.toggleAttribute('inert', clock.step !== last);
    host.dataset.low = String(low());
    slider.value = choices.indexOf(kv);
    slider.setAttribute('aria-valuetext', `${kv} KV head${kv > 1 ? 's' : ''}`);
    is.textContent = kv;
    from.textContent = phase() === 'times' ? meta.times : meta.source;
  }
  const slider = element('input', {
      ...{ type: 'range', class: 'wide', min: 0, max: choices.length - 1, step: 1, 'aria-label': 'KV heads' },
    }),
    is = element('b'),
    from = element('span', { class: 'from' }),
    controls = element(
      'div',
      { class: 'hands', role: 'group', 'aria-label': 'The KV heads' },
      element('label', {}, 'KV heads ', slider, is),
    );
  slider.oninput = () => {
    [kv, played] = [choices[Number(slider.value)], true];
    glide.begin(CHANGE);
    speak();
    view.draw();
  };

  function arrive(/** @type {number} */ step, /** @type {string} */ why) {
    if (step !== last) [kv, played] = [meta.kv[last], false];
    if (why === 'jump') {
      glide.end();
      drawn = step;
    }
    speak();
  }
  const onStep = (/** @type {any} */ { detail }) => arrive(detail.step, detail.why);
  const view = handView(host, context, {
    frames,
    controls,
    foot: [from],
    heard: { step: onStep },
    end: glide.stop,
    title: 'Grouped heads',
    live: true,
    kinds: SHARING_KINDS,
    layout: (/** @type {any} */ box) => {
      at = sharingLayout(box, heads, low());
      glide.end();
      return at.bottom;
    },
    marks: (/** @type {any} */ { paint, at: thing }) => {
      if (drawn !== clock.step) glide.begin(CUT);
      drawn = clock.step;
      const head = thing?.head ?? (thing?.request === 0 ? thing.store * (heads / now()) : null);
      return glide.pass(sharingMarks(at, { meta, step: clock.step, kv: now(), head }, paint));
    },
  });
  arrive(clock.step, 'jump');
  view.draw();
  return view;
}
