// A wgmma descriptor under a hand: the reader changes the swizzle, the operand or a field, or drags an arrow, and sees
// the chunks that the tensor cores read. All of it follows from descriptor_rule.js, and is called modelled.
import { filled } from '../core/follow.js';
import { makeGlide } from '../core/glide.js';
import { handView, pull } from '../core/hand.js';
import { button, element, figure } from '../core/paint.js';
import { DESCRIPTOR_KINDS, FIELDS, chunkSaid, descriptorLayout, descriptorMarks, stored } from './descriptor_marks.js';
import { CHUNK, SWIZZLES, bitsOf, fieldsOf, leads, reads, stepOf } from './descriptor_rule.js';

const STEP = 900, // ms to another step
  CHANGE = 500; // and of a change in the hand
const DEEPEST = 16; // numbers of the sum in an instruction
const FARTHEST = 0x3fff; // of a field
/** @typedef {import('./descriptor_rule.js').Fields} Fields */
/** @typedef {'stride' | 'leading'} Arrow */
/** @type {Record<string, [string, (right: Fields, swizzle: number) => Partial<Fields>]>} */
const FAULTS = {
  none: ['right values', () => ({})],
  half: ['stride ÷ 2', ({ stride }) => ({ stride: stride / 2 })],
  swapped: ['swapped', ({ stride, leading }) => ({ stride: leading, leading: stride })],
  bytes: [
    'no >> 4',
    ({ stride, leading }) => ({ stride: (stride * CHUNK) & FARTHEST, leading: (leading * CHUNK) & FARTHEST }),
  ],
  type: ['wrong type', ({ type }) => ({ type: (type + 1) % 4 })],
  start: ['start + 16', ({ start }) => ({ start: start + 1 })],
};
const NEXT = 'next'; // the start address of the next instruction
const EDITED = /** @type {const} */ (['stride', 'leading', 'start']);

/** @type {Record<string, string>} */
const ABOUT = { stride: 'stride', ignored: 'leading', leading: 'leading', wrong: 'stride' }; // the field of a step

/** @type {Picture<pipeline.DescriptorMeta>} */
export default function (host, { meta }, context) {
  const { frames, phases, operands, words } = meta,
    { clock } = context,
    last = frames.length - 1,
    tiles = operands.map(({ rows, columns, turned }) => ({ rows, units: (2 * columns) / CHUNK, turned }));
  /**
   * @typedef {{which: number, swizzle: number, fields: Fields, reads: boolean, arrows: Arrow[],
   *   touched: boolean}} State
   */
  const right = (/** @type {number} */ which, swizzle = meta.swizzle, step = 0) =>
    fieldsOf(tiles[which], swizzle, step);
  const arrowsOf = (/** @type {number} */ which, /** @type {number} */ swizzle) =>
    /** @type {State['arrows']} */ (leads(tiles[which], swizzle) ? ['stride', 'leading'] : ['stride']);
  /** @param {number} which @param {number} [swizzle] @returns {State} */
  const plain = (which, swizzle = meta.swizzle) => ({
    ...{ which, swizzle, fields: right(which, swizzle), reads: true, arrows: arrowsOf(which, swizzle), touched: false },
  });
  /** What a step shows. @type {Record<string, () => State>} */
  const shows = {
    stored: () => ({ ...plain(0), reads: false, arrows: [] }),
    read: () => ({ ...plain(0), arrows: [] }),
    stride: () => plain(0),
    ignored: () => ({ ...plain(0), fields: { ...right(0), leading: 0 } }),
    leading: () => plain(1),
    swapped: () => plain(1, 0),
    wrong: () => ({ ...plain(1), fields: { ...right(1), stride: right(1).stride / 2 } }),
    hand: () => plain(1),
  };
  let now = shows[phases[clock.step]](),
    field = 'stride';
  /** @type {any} */ let size = null,
    /** @type {any} */ view = null;
  /** @type {ReturnType<typeof descriptorLayout>} */ let at;
  const glide = makeGlide(() => view.draw());
  const tile = () => tiles[now.which],
    operand = () => operands[now.which],
    found = () => reads(tile(), now.swizzle, now.fields, operand().outer);

  // ---- words ----
  /** The meaning of each field. */
  function means() {
    const { row, column } = operand(),
      { turned } = tile(),
      order = turned ? 'mn' : 'k',
      kind = now.swizzle ? 'swizzled' : 'plain',
      said = (/** @type {string} */ name) => filled(meta.offsets[name], { row, column, panel: now.swizzle / 2 }),
      idle = turned && !leads(tile(), now.swizzle);
    return {
      ...{ start: said('start'), base: said('base'), type: said('type'), stride: said(`${order}_${kind}_stride`) },
      leading: said(idle ? 'mn_one_leading' : `${order}_${kind}_leading`),
    };
  }
  function sentence() {
    if (clock.step !== last || !now.touched) return '';
    const all = found(),
      wrong = all.filter(one => !one.right),
      { turned, row, column } = operand();
    if (!wrong.length) return filled(words.right, { count: all.length });
    const step = stepOf(tile(), all);
    if (step > 0) {
      const first = DEEPEST * step;
      return filled(words.next, { rows: `${turned ? row : column}s`, first, last: first + DEEPEST - 1 });
    }
    const [{ outer, unit, holds }] = wrong;
    return filled(words.wrong, {
      ...{ wrong: figure(wrong.length), count: figure(all.length) },
      of: chunkSaid(operand(), { row: outer, unit }).replace(/^./, first => first.toUpperCase()),
      gets: holds ? chunkSaid(operand(), holds) : words.outside,
    });
  }
  function speak() {
    clock.tell('said', sentence());
    press(orders, 'which', now.which);
    press(swizzles, 'swizzle', now.swizzle);
    const own = right(now.which, now.swizzle),
      is = (/** @type {Partial<Fields>} */ to) => JSON.stringify({ ...own, ...to }) === JSON.stringify(now.fields),
      fault = Object.keys(FAULTS).find(name => is(FAULTS[name][1](own, now.swizzle)));
    faults.value = fault ?? (is({ start: right(now.which, now.swizzle, 1).start }) ? NEXT : 'own');
    chosen.value = field;
    value.hidden = field === 'type';
    type.hidden = field !== 'type';
    if (field === 'type') type.value = now.fields.type;
    else if (document.activeElement !== value) value.value = bytesOf(field); // a number that is typed stays
    meaning.textContent = `${field}: ${means()[/** @type {'stride'} */ (field)]}`;
    value.setAttribute('aria-label', `${field}: bytes`);
  }
  const bytesOf = (/** @type {string} */ name) => CHUNK * now.fields[/** @type {'stride'} */ (name)];
  /** @type {(group: any, name: string, value: number) => void} */
  const press = (group, name, value) => {
    for (const one of group.children) one.setAttribute('aria-pressed', String(one.dataset[name] === `${value}`));
  };

  // ---- hands ----
  /** Another state of the last step. A change at an earlier step goes there. */
  function change(/** @type {Partial<State>} */ to) {
    const before = { ...now, reads: true, arrows: arrowsOf(to.which ?? now.which, to.swizzle ?? now.swizzle) };
    if (clock.step !== last) clock.set(last, 'user');
    now = { ...before, ...to, touched: true };
    glide.begin(CHANGE);
    settle();
  }
  /** A field in 16 bytes. */
  const edit = (/** @type {Partial<Fields>} */ to) => change({ fields: { ...now.fields, ...to } });
  function settle() {
    relay();
    speak();
    view?.draw();
    putGrips();
  }
  const orders = element(
      'span',
      { class: 'choices', role: 'group', 'aria-label': 'The operand' },
      ...operands.map(({ name, turned }, which) =>
        button(`${name}: ${turned ? 'MN' : 'K'}-major`, () => change({ which, fields: right(which, now.swizzle) }), {
          class: 'chip',
          'data-which': which,
        }),
      ),
    ),
    swizzles = element(
      'span',
      { class: 'choices', role: 'group', 'aria-label': 'The swizzle in bytes' },
      ...SWIZZLES.map(swizzle =>
        button(swizzle ? `${swizzle}` : 'none', () => change({ swizzle, fields: right(now.which, swizzle) }), {
          ...{ class: 'chip', 'data-swizzle': swizzle },
        }),
      ),
    ),
    faults = element(
      'select',
      { 'aria-label': 'A fault' },
      ...Object.entries(FAULTS).map(([name, [text]]) => element('option', { value: name }, text)),
      element('option', { value: NEXT }, 'next start'),
      element('option', { value: 'own', hidden: true }, 'your own'),
    ),
    chosen = element(
      'select',
      { 'aria-label': 'A field' },
      ...FIELDS.filter(({ name }) => name !== 'base').map(({ name, short }) =>
        element('option', { value: name }, short),
      ),
    ),
    value = element('input', { type: 'number', min: 0, max: CHUNK * FARTHEST, step: CHUNK }),
    type = element(
      'select',
      { 'aria-label': 'layout type' },
      ...['0 = none', '1 = 128 bytes', '2 = 64 bytes', '3 = 32 bytes'].map((text, n) =>
        element('option', { value: n }, text),
      ),
    ),
    meaning = element('span'),
    from = element('span', { class: 'from' }, meta.rule);
  faults.onchange = () => {
    const own = right(now.which, now.swizzle);
    if (faults.value === NEXT) change({ fields: right(now.which, now.swizzle, 1) });
    else if (FAULTS[faults.value]) change({ fields: { ...own, ...FAULTS[faults.value][1](own, now.swizzle) } });
  };
  chosen.onchange = () => pick(chosen.value);
  value.oninput = () => {
    const chunks = Number(value.value) / CHUNK;
    if (value.value !== '' && Number.isInteger(chunks) && chunks >= 0 && chunks <= FARTHEST) edit({ [field]: chunks });
  };
  value.onchange = () => {
    value.value = bytesOf(field);
  };
  type.onchange = () => edit({ type: Number(type.value) });
  function pick(/** @type {string} */ name) {
    field = name;
    speak();
    view.draw();
  }
  const label = (/** @type {any[]} */ ...parts) => element('label', {}, ...parts),
    controls = element(
      'div',
      { class: 'hands', role: 'group', 'aria-label': 'The descriptor' },
      orders,
      element('span', { class: 'group' }, 'swizzle', swizzles),
      faults,
      label(chosen, value, type),
    );

  // Over the heads of the arrows: a hand drags them. Keys change the number below.
  const grips = element('div', { class: 'bars', 'aria-hidden': 'true' });
  for (const name of /** @type {const} */ (['stride', 'leading'])) {
    const grip = element('div', { 'data-grip': name });
    grip.style.cursor = 'grab';
    grip.onpointerdown = (/** @type {PointerEvent} */ event) => {
      pick(name);
      pull(grip, event, ({ clientX, clientY }) => {
        const box = host.querySelector('canvas')?.getBoundingClientRect();
        if (!box) return;
        const chunks = at.addressAt(clientX - box.left, clientY - box.top) / CHUNK - now.fields.start;
        if (chunks !== now.fields[name]) edit({ [name]: Math.max(0, chunks) });
      });
    };
    grips.append(grip);
  }
  function putGrips() {
    for (const name of /** @type {const} */ (['stride', 'leading'])) {
      const grip = /** @type {HTMLElement} */ (grips.querySelector(`[data-grip=${name}]`)),
        spot = size && now.arrows.includes(name) && at.spot(CHUNK * (now.fields.start + now.fields[name]));
      grip.hidden = !spot;
      if (!spot) continue;
      const middle = [spot.x, spot.y + at.line / 2];
      Object.assign(grip.style, {
        ...{ left: `${middle[0] - 22}px`, top: `${middle[1] - 18}px`, width: '40px', height: '36px' },
      });
    }
  }

  // ---- the canvas and the clock ----
  function relay() {
    if (size) at = descriptorLayout(size, stored(tile(), now.swizzle).lines);
  }
  function marks(/** @type {{paint: Paint}} */ { paint }) {
    return glide.pass(
      descriptorMarks(
        at,
        {
          ...{ operand: operand(), tile: tile(), swizzle: now.swizzle, fields: now.fields, bits: bitsOf(now.fields) },
          ...{ reads: now.reads ? found() : [], chunks: stored(tile(), now.swizzle).chunks },
          ...{ arrows: now.arrows, means: means(), field: now.arrows.length ? field : '' },
        },
        paint,
      ),
    );
  }
  function arrive(/** @type {string} */ why) {
    now = shows[phases[clock.step]]();
    field = ABOUT[phases[clock.step]] ?? field;
    if (why === 'jump') glide.end();
    else glide.begin(STEP);
    settle();
  }
  view = handView(host, context, {
    ...{ frames, controls, foot: [meaning, from], end: glide.stop, title: 'The wgmma descriptor', live: true },
    heard: { step: (/** @type {any} */ { detail }) => arrive(detail.why) },
    kinds: DESCRIPTOR_KINDS,
    click: (/** @type {any} */ thing) => {
      if (!EDITED.includes(thing.field) && thing.field !== 'type') return false;
      pick(thing.field);
      return true;
    },
    layout: (/** @type {any} */ box) => {
      size = box;
      glide.end();
      relay();
      putGrips();
      return at.height;
    },
    marks,
  });
  host.querySelector('.sheet')?.append(grips);
  arrive('jump');
  return view;
}
