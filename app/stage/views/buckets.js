// The words of one access fall into 32 banks. The reader moves the width of a row, and the tower topples. All numbers
// follow from buckets_rule.js, and are called modelled.
import { calm, filled, makeLoop } from '../core/follow.js';
import { handView } from '../core/hand.js';
import { button, element } from '../core/paint.js';
import { EASE } from '../core/tween.js';
import { BUCKETS_KINDS, bucketsLayout, bucketsMarks, swapMarks } from './buckets_marks.js';
import { access, BANKS, LANES, WIDTHS } from './buckets_rule.js';

const TOPPLE = 900; // ms from one pile to another
const RAIN = 500, // ms of a word's fall,
  AFTER = 22; // and between two lanes
const OUT = 600; // ms in which the padding sticks out, before the rows wrap
const TURN = 110; // ms of a turn when the banks give their words
const REST = 4; // turns in which the last number is seen
const PAD = BANKS + 1; // words of a row with an unused one
const AGAIN = 3; // how often the banks give their words at the step about it
const NAMES = { column: 'a column', same: 'one word' };

const plural = (/** @type {number} */ turns) => `${turns} ${turns === 1 ? 'turn' : 'turns'}`;
/** @type {(a: number, b: number) => number} */
const common = (a, b) => (b ? common(b, a % b) : a);
const within = (/** @type {number} */ t) => Math.max(0, Math.min(1, t));
const mix = (/** @type {number} */ a, /** @type {number} */ b, /** @type {number} */ t) => a + (b - a) * t;
/** A fall: slow at first, and one small bounce at its end. */
const fall = (/** @type {number} */ t) =>
  t < 0.8 ? (within(t) / 0.8) ** 2 : 1 - 0.05 * Math.sin((Math.PI * (within(t) - 0.8)) / 0.2);
/** The way of a tip: of a tower that falls first aside, then down; of a layer that becomes a tower the other way round. */
function swing(/** @type {number[]} */ [x0, y0], /** @type {number[]} */ [x1, y1], /** @type {number} */ t) {
  const angle = (Math.PI / 2) * t,
    down = y1 > y0;
  return [
    mix(x0, x1, down ? Math.sin(angle) : 1 - Math.cos(angle)),
    mix(y0, y1, down ? 1 - Math.cos(angle) : Math.sin(angle)),
  ];
}

/** @type {Picture<bank_conflicts.BucketsMeta>} */
export default function (host, { meta }, context) {
  const { frames, words: texts, gain } = meta,
    { clock } = context,
    [ASKS, FALLS, TURNS, PADDED, HAND, SWAP] = frames.keys(),
    /** @type {import('./buckets_rule.js').Ask} */ start = { read: 'column', xor: false, width: BANKS };
  let ask = { ...start },
    played = false, // whether the reader changed it at this step
    now = access(ask),
    note = '', // of a switch that changed the width
    /** @type {Map<string, any>} */ blocks = new Map(),
    /** @type {{kind: 'rain' | 'topple' | 'read', begun: number, from: any, out: number} | null} */ motion = null,
    arrived = -1, // at which step
    again = 0, // how often the banks give their words still
    top = 0; // the height of the tallest pile on its way, in layers
  const drawn = { width: BANKS, swap: 0, out: 0 }; // of memory, on its way
  /** @type {ReturnType<typeof bucketsLayout>} */ let at;

  // ---- motion ----
  /** A block is known by its row: it keeps its name as it moves. */
  function arrange() {
    const next = new Map(),
      before = (/** @type {string} */ id) => blocks.get(id) ?? {};
    for (const word of now.words) {
      const row = word.lanes[0],
        id = `${row}`,
        { x, y, late: was = word.late } = before(id);
      next.set(id, { ...word, id, row, x, y, was, alpha: 1 });
    }
    blocks = next;
  }
  const goal = (/** @type {any} */ block) => [at.x(block.bank), at.pileY(block.turn)];
  function begin(/** @type {'rain' | 'topple' | 'read'} */ kind) {
    if (kind === 'read') settle();
    const out = kind === 'topple' && drawn.width === BANKS && now.width > BANKS && !calm() ? OUT : 0;
    motion = { kind, begun: performance.now() + out, from: { ...drawn, top }, out };
    for (const block of blocks.values())
      block.from =
        kind === 'rain' || block.x === undefined
          ? [at.x(block.bank), at.wordY(block.word, now.width)]
          : [block.x, block.y];
    loop.wake();
  }
  /** The end of a motion: everything where it belongs. */
  function settle() {
    for (const block of blocks.values()) [block.x, block.y, block.alpha, block.left] = [...goal(block), 1, null];
    Object.assign(drawn, { width: now.width, swap: ask.xor ? 1 : 0, out: 0 });
    top = now.turns;
    motion = null;
  }
  const loop = makeLoop(time => {
    const more = !!motion && advance(time);
    view.draw();
    return more;
  });
  function advance(/** @type {number} */ time) {
    const { kind, begun, from, out } = /** @type {NonNullable<typeof motion>} */ (motion),
      t = time - begun;
    if (t < 0 && out) {
      drawn.out = EASE.both(within(1.6 * (1 + t / out))); // the padding of each row sticks out
      return true;
    }
    drawn.out = 0;
    if (kind === 'read') return read(t);
    const share = calm() ? 1 : within(t / (kind === 'rain' ? RAIN + AFTER * LANES : TOPPLE)),
      eased = EASE.both(share);
    drawn.width = mix(from.width, now.width, eased);
    drawn.swap = mix(from.swap, ask.xor ? 1 : 0, eased);
    if (kind === 'topple') top = mix(from.top, now.turns, eased);
    else {
      const down = [...blocks.values()].filter(({ lanes }) => t > AFTER * lanes[0] + 0.8 * RAIN);
      top = Math.max(0, ...down.map(({ turn }) => turn + 1));
    }
    for (const block of blocks.values()) {
      const own = (t - AFTER * block.lanes[0]) / RAIN;
      if (kind === 'topple') [block.x, block.y] = swing(block.from, goal(block), fall(share));
      else
        Object.assign(block, {
          x: goal(block)[0],
          y: mix(block.from[1], goal(block)[1], fall(own)),
          alpha: own > 0 ? 1 : 0,
        });
    }
    if (share < 1) return true;
    settle();
    clock.tell('said', sentence());
    if (kind !== 'rain' || clock.step !== TURNS || again <= 0) return false;
    begin('read');
    return true;
  }
  /** In each turn every bank gives its lowest word. Then the words fall again. */
  function read(/** @type {number} */ t) {
    const turn = Math.floor(t / TURN),
      part = calm() ? 0 : EASE.both(within((t / TURN - turn) * 1.6));
    for (const block of blocks.values()) {
      const left = block.turn - turn;
      block.left = left; // turns until its own
      block.alpha = left < 0 ? 0 : left === 0 ? 1 - part : 1;
      block.y = at.pileY(Math.max(0, left - (left > 0 ? part : 0)));
    }
    top = Math.min(now.turns, turn + 1);
    if (turn >= now.turns + REST) {
      begin('rain');
      again--;
    }
    return true;
  }

  // ---- picture ----
  function marks(/** @type {{paint: Paint, at: any}} */ { paint, at: thing }) {
    if (clock.step === SWAP) return swapMarks(at, at.floor, paint);
    const asks = clock.step === ASKS,
      highest = Math.max(...now.words.map(({ turn }) => turn)),
      high = new Set(now.words.filter(({ turn }) => turn === highest).map(({ bank }) => bank)),
      first = Math.min(...high),
      next = Array.from({ length: BANKS }, (_, n) => first + n).findIndex(bank => !high.has(bank)),
      tallest = next > 0 && next < 8 ? first + next - 1 : first, // the last of a few towers side by side
      reads = motion?.kind === 'read',
      sticks = drawn.out > 0, // then the words are still where they were
      refills = motion?.kind === 'rain' && clock.step === TURNS, // after the banks gave their words
      moves = motion?.kind === 'topple', // no number until the words have arrived
      whole = reads || refills || !motion,
      turns = whole && !reads ? now.turns : Math.round(top);
    return bucketsMarks(
      at,
      {
        ...{
          ask,
          ...drawn,
          asks,
          tallest,
          blocks: [...blocks.values()].map(one => ({
            ...one,
            late: !asks && (sticks ? one.was : reads ? one.left > 0 : one.late),
            left: reads ? one.left : null,
          })),
        },
        top: reads || refills ? now.turns : top,
        says: reads ? `turn ${turns} of ${now.turns}` : turns && !moves ? plural(turns) : '',
        bad: turns > 1,
        lane: thing?.lane ?? null,
      },
      paint,
    );
  }

  // ---- words ----
  const fill = (/** @type {string} */ name, /** @type {Record<string, string | number>} */ values = {}) =>
    filled(texts[name], values);
  /** The sentence in place of the step's, or "". */
  function sentence() {
    if (!played) return '';
    if (motion?.kind === 'topple') return texts.moving;
    const { turns, width } = now,
      values = { turns: plural(turns), width, factor: common(width, BANKS) };
    if (note) return fill(note, values);
    if (ask.read === 'same') return fill('same', values);
    if (ask.xor) return fill('xor', values);
    return fill(width === BANKS ? 'aligned' : values.factor === 1 ? 'odd' : 'shared', values);
  }
  function speak() {
    clock.tell('said', sentence());
    width.value = now.width;
    widthIs.textContent = now.width;
    width.disabled = ask.xor;
    width.setAttribute('aria-valuetext', `rows of ${now.width} words: ${plural(now.turns)}`);
    xor.checked = ask.xor;
    for (const one of reads.children) one.setAttribute('aria-pressed', String(one.dataset.read === ask.read));
    const own = clock.step < HAND || clock.step === SWAP ? [] : hands;
    if (controls.children.length !== own.length) controls.replaceChildren(...own); // else it would lose the focus
    // the gain of the cure comes after the question under the slider
    from.textContent = gain && (clock.step > SWAP || (clock.step === HAND && played)) ? gain : texts.rule;
  }

  // ---- hands ----
  function change(/** @type {Partial<import('./buckets_rule.js').Ask>} */ to) {
    const before = now.width;
    played = true;
    ask = { ...ask, ...to };
    now = access(ask);
    // a switch never changes a value silently
    note = 'width' in to || now.width === before ? '' : 'now_xor';
    ask.width = now.width;
    arrange();
    begin('topple');
    if (calm()) settle();
    speak();
  }
  const width = element('input', {
      ...{ type: 'range', class: 'wide', min: WIDTHS[0], max: WIDTHS[1], step: 1, 'aria-label': 'words of a row' },
    }),
    widthIs = element('output'),
    from = element('span', { class: 'from' }),
    xor = element('input', { type: 'checkbox' }),
    reads = element(
      'span',
      { class: 'choices', role: 'group', 'aria-label': 'What the lanes read' },
      ...Object.entries(NAMES).map(([name, text]) =>
        button(text, () => change({ read: /** @type {any} */ (name) }), { class: 'chip', 'data-read': name }),
      ),
    ),
    give = button('Replay', () => begin('read'));
  width.oninput = () => change({ width: Number(width.value) });
  xor.onchange = () => change({ xor: xor.checked });
  const label = (/** @type {any[]} */ ...parts) => element('label', {}, ...parts);
  const controls = element('div', { class: 'hands', role: 'group', 'aria-label': 'The access' }),
    hands = [label('rows of ', element('b', {}, widthIs), ' words ', width), label(xor, ' XOR'), reads, give];

  // ---- the canvas and the clock ----
  function arrive(/** @type {number} */ step, /** @type {string} */ why) {
    if (step !== arrived) [ask, played] = [{ ...start, width: step === HAND ? PAD : BANKS }, false];
    arrived = step;
    [now, note] = [access(ask), ''];
    arrange();
    speak();
    settle();
    again = step === TURNS ? AGAIN : 0;
    if (step === PADDED) pad(why);
    else if (why !== 'jump' && step === FALLS) begin('rain');
    else if (step === TURNS && !calm()) begin('read');
    else loop.wake();
  }
  /** At the step about it, each row gets its unused word by itself. */
  function pad(/** @type {string} */ why) {
    ask.width = PAD;
    now = access(ask);
    arrange();
    if (why === 'jump' || calm()) settle();
    else begin('topple');
    speak();
    loop.wake();
  }
  const onStep = (/** @type {any} */ { detail }) => at && arrive(detail.step, detail.why);
  /** Shows the width that a question asks for. */
  function widen(/** @type {number | undefined} */ wide) {
    if (!wide) return;
    if (clock.step < HAND || clock.step === SWAP) clock.set(HAND, 'user'); // it takes the point away
    change({ ...start, width: wide });
  }
  const onPoint = () => widen(clock.point?.width),
    onRight = (/** @type {any} */ { detail }) => widen(detail?.width);
  arrange();
  const view = handView(host, context, {
    frames,
    controls,
    foot: [from],
    heard: { step: onStep, covers: onPoint, right: onRight },
    end: loop.stop,
    title: '32 banks',
    live: true,
    kinds: BUCKETS_KINDS,
    layout: (/** @type {any} */ size) => {
      at = bucketsLayout(size);
      if (!motion) settle();
      return 0;
    },
    marks,
  });
  speak();
  return view;
}
