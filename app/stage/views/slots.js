// Reserved slots against pages, and then a token's place in pages: the reader drags along a sequence. The place follows
// from slots_rule.js, with the block table of the run.
import { makeGlide } from '../core/glide.js';
import { handView, pull } from '../core/hand.js';
import { element } from '../core/paint.js';
import { slotsLayout, slotsMarks } from './slots_marks.js';
import { placeOf } from './slots_rule.js';

const CUT = 1100; // ms from a step to the next
const HOP = 160; // ms from a token's page to another

/** @type {Picture<block_table.SlotsMeta>} */
export default function (host, { meta }, context) {
  const { frames, phases, held, pages, size, name, bases, piece, words } = meta,
    { clock } = context,
    last = frames.length - 1,
    own = held[last].find(one => one.name === name),
    /** @type {number[]} */ table = own?.table ?? [],
    length = own?.tokens ?? 1,
    rows = Math.max(...held.flat().map(({ tokens }) => Math.ceil(tokens / size)));
  let token = meta.example,
    said = '';
  /** @type {ReturnType<typeof slotsLayout>} */ let at;
  const spot = () => ({ token, ...placeOf(token, table, bases, size, piece) });
  const glide = makeGlide(() => view.draw());

  function marks(/** @type {{paint: Paint}} */ { paint }) {
    const phase = phases[clock.step],
      now = { held: held[clock.step], pages, size, max: meta.max_len, name, phase };
    return glide.pass(slotsMarks(at, { ...now, spot: ['path', 'hand'].includes(phase) ? spot() : null }, paint));
  }
  function speak() {
    const phase = phases[clock.step];
    clock.tell('said', clock.step === last ? said : '');
    slider.value = token;
    slider.setAttribute('aria-valuetext', `token ${token}: page ${spot().page}, slot ${spot().slot}`);
    tokenIs.textContent = token;
    controls.toggleAttribute('inert', clock.step !== last);
    from.textContent = ['table', 'path', 'hand'].includes(phase)
      ? `block table: run of ${meta.kernel}`
      : 'modelled: the block manager of the cache';
  }
  /** The reader's token. */
  function choose(/** @type {number} */ to) {
    if (clock.step !== last) clock.set(last, 'user');
    const before = { at: token, ...spot() };
    token = Math.max(0, Math.min(length - 1, to));
    if (spot().page !== before.page) {
      said = before.at + 1 === token ? words.next : words.jumps;
      glide.begin(HOP);
    } else said = words.moves;
    speak();
    view.draw();
  }

  // ---- hands ----
  const slider = element('input', {
      ...{ type: 'range', class: 'wide', min: 0, max: length - 1, step: 1, 'aria-label': `token of ${name}` },
    }),
    tokenIs = element('b'),
    from = element('span', { class: 'from' }),
    controls = element(
      'div',
      { class: 'hands', role: 'group', 'aria-label': 'The token' },
      element('label', {}, `token of ${name} `, slider, tokenIs),
    ),
    grip = element('div', {}),
    grips = element('div', { class: 'bars' }, grip);
  grip.style.cursor = 'grab';
  slider.oninput = () => choose(Number(slider.value));
  const under = (/** @type {PointerEvent} */ event) => {
    const box = grip.getBoundingClientRect(),
      column = Math.max(0, Math.min(size - 1, Math.floor((event.clientX - box.left) / at.token))),
      row = Math.max(0, Math.min(table.length - 1, Math.floor((event.clientY - box.top) / at.line)));
    return row * size + column;
  };
  grip.onpointerdown = (/** @type {PointerEvent} */ event) => {
    pull(grip, event, e => choose(under(e)));
    choose(under(event));
  };

  // ---- the canvas and the clock ----
  function arrive(/** @type {number} */ step, /** @type {string} */ why) {
    if (step !== last) [token, said] = [meta.example, ''];
    grips.hidden = !['table', 'path', 'hand'].includes(phases[step]);
    if (why === 'jump') glide.end();
    else glide.begin(CUT);
    speak();
  }
  const onStep = (/** @type {any} */ { detail }) => arrive(detail.step, detail.why);
  // The token of an answer, or its step.
  const onRight = (/** @type {any} */ { detail }) => {
    if (detail?.of === name) choose(detail.token);
    else if (detail?.to > clock.step) clock.set(detail.to, 'user');
  };
  const onPoint = () => clock.point?.of === name && choose(clock.point.token);
  const view = handView(host, context, {
    frames,
    controls,
    foot: [from],
    heard: { step: onStep, covers: onPoint, right: onRight },
    end: glide.stop,
    title: 'Pages',
    live: true,
    layout: (/** @type {any} */ box) => {
      at = slotsLayout(box, { pages, size, rows });
      glide.end();
      const [x, y] = at.of(0);
      Object.assign(grip.style, {
        ...{ left: `${x}px`, top: `${y}px` },
        ...{ width: `${at.token * size}px`, height: `${at.line * table.length}px` },
      });
      return at.bottom + 4;
    },
    marks,
    click: (/** @type {any} */ thing) => {
      if (thing.of !== name) return false;
      choose(thing.token);
    },
  });
  host.querySelector('.sheet')?.append(grips);
  arrive(clock.step, 'jump');
  view.draw();
  return view;
}
