// The way back: the map of a tile's products, one query's row with numbers, and the block's loop:
// explainers/stories/backward/reverse.py. Under the hand, a score moves the weights of its row and the loss.
import { calm, filled } from '../core/follow.js';
import { makeGlide } from '../core/glide.js';
import { handView, pull } from '../core/hand.js';
import { button, element, minus, widest } from '../core/paint.js';
import { MOST } from './layouts/reverse_row.js';
import { reverseLayout, reverseMarks, sceneOf } from './reverse_marks.js';
import { raised } from './reverse_rule.js';

const STEP = 0.1; // of a score, by a key
const NEAR = 0.05; // of the loss, by which dS may be off
const SHOWN = 1; // by which a score has risen where the step comes
const GLIDE = 600, // ms to the next step
  TILE = 1000; // ms of a tile of the loop

/** @type {Picture<backward.ReverseMeta>} */
export default function (host, { meta }, context) {
  const { clock } = context,
    { hand, row, phases } = meta,
    tiles = meta.spans.length,
    first = row.dS.indexOf(Math.max(...row.dS)),
    signed = (/** @type {number} */ value) => (value < 0 ? '' : '+') + minus(value),
    bends = filled(hand.slope, { change: signed(raised(row, first, 1).delta - row.delta) });
  let key = first,
    numbers = raised(row, first, 0),
    touched = false,
    tile = tiles + 1, // of the loop: how many are done, and one more at the end
    next = 0; // the timer of the next one
  /** @type {ReturnType<typeof reverseLayout>} */ let at;

  const phase = () => phases[clock.step],
    hands = () => phase() === 'share' || phase() === 'hand',
    movedBy = (/** @type {number} */ n) => numbers.S[n] - row.S[n],
    moved = () => row.keys.some((_, n) => Math.abs(movedBy(n)) > 5e-3),
    /** The change of the loss that dS says: of the moved scores, or of one that rises by 1. */
    due = () => (moved() ? row.dS.reduce((sum, dS, n) => sum + dS * movedBy(n), 0) : row.dS[key]);

  function speak() {
    const change = numbers.delta - row.delta,
      slope = Math.abs(change - due()) < NEAR ? hand.near : hand.far;
    clock.tell('said', touched ? filled(phase() === 'share' ? hand.moves : slope, { change: signed(change) }) : '');
    const scene = phase() === 'kept' ? 'sizes' : sceneOf(phase());
    below.textContent = hands()
      ? phase() === 'hand'
        ? bends
        : hand.modelled
      : (scene === 'price' && meta.price?.said) || meta.below[scene] || '';
    below.className = hands() ? 'modelled' : '';
    reset.textContent = phase() === 'next' ? hand.again : hand.reset;
    reset.toggleAttribute('inert', !touched && phase() !== 'next');
    bars.toggleAttribute('hidden', !hands());
    grips.forEach((grip, n) => {
      grip.setAttribute('aria-valuenow', numbers.S[n].toFixed(1));
      grip.tabIndex = n === key ? 0 : -1;
    });
  }
  function change(/** @type {number} */ n, /** @type {number} */ score) {
    const to = Math.max(row.S[n] - MOST, Math.min(row.S[n] + MOST, score));
    numbers = raised(numbers, n, to - numbers.S[n]);
    [key, touched] = [n, true];
    glide.end();
    speak();
    view.draw();
  }
  /** The row of a step, before a hand moves it. */
  function restore() {
    [key, numbers, touched] = [first, raised(row, first, phase() === 'share' ? SHOWN : 0), false];
  }
  /** The tiles of the loop, one after the other. */
  function play(/** @type {number} */ from) {
    clearTimeout(next);
    tile = phase() === 'next' && !calm() ? from : tiles + 1;
    if (tile <= tiles)
      next = setTimeout(() => {
        glide.begin(GLIDE);
        play(tile + 1);
        view.draw();
      }, TILE);
  }
  function arrive(/** @type {string} */ why) {
    restore();
    play(why === 'jump' ? tiles + 1 : 1);
    if (why === 'jump') glide.end();
    else glide.begin(GLIDE);
    speak();
  }
  const grips = row.keys.map((one, n) => {
    const grip = element('div', {
      ...{
        role: 'slider',
        tabindex: '-1',
        'aria-orientation': 'vertical',
        'aria-label': filled(hand.control, { key: one }),
      },
      ...{ 'aria-valuemin': (row.S[n] - MOST).toFixed(1), 'aria-valuemax': (row.S[n] + MOST).toFixed(1) },
    });
    grip.onkeydown = (/** @type {any} */ event) => {
      const by = /** @type {Record<string, number>} */ ({
          ArrowUp: STEP,
          ArrowDown: -STEP,
          PageUp: 5 * STEP,
          PageDown: -5 * STEP,
        })[event.key],
        to = /** @type {Record<string, number>} */ ({ ArrowLeft: n - 1, ArrowRight: n + 1 })[event.key];
      if (by !== undefined) change(n, numbers.S[n] + by);
      else if (to !== undefined) grips[Math.max(0, Math.min(grips.length - 1, to))].focus();
      else return;
      event.preventDefault();
      event.stopPropagation();
    };
    grip.onfocus = () => {
      key = n;
      speak();
      view.draw();
    };
    // A drag moves the bar by as much as the hand: nothing jumps.
    grip.onpointerdown = (/** @type {PointerEvent} */ event) => {
      const scoreAt = (/** @type {PointerEvent} */ { clientY }) =>
          at.row.score.at(clientY - bars.getBoundingClientRect().top),
        off = numbers.S[n] - scoreAt(event);
      grip.focus({ focusVisible: false, preventScroll: true });
      pull(grip, event, moving => change(n, scoreAt(moving) + off));
    };
    return grip;
  });
  const bars = element(
      'div',
      { class: 'bars', role: 'group', 'aria-label': 'Scores of the row: up and down move a score' },
      ...grips,
    ),
    below = element('span', {}),
    reset = button(hand.reset, () => {
      restore();
      play(1);
      glide.begin(GLIDE);
      speak();
      view.draw();
    });
  const glide = makeGlide(() => view.draw());
  /** @type {ReturnType<typeof handView>} */
  const view = handView(host, context, {
    frames: meta.frames,
    foot: [below, reset],
    heard: { step: (/** @type {any} */ { detail }) => arrive(detail.why) },
    end() {
      clearTimeout(next);
      glide.stop();
    },
    ...{ title: 'In reverse', live: true },
    layout: (/** @type {any} */ size) => {
      glide.end();
      at = reverseLayout(size, row);
      const height = Math.max(at.row.height, at.map.height);
      at = reverseLayout({ ...size, height }, row);
      const { columns, scores } = at.row;
      grips.forEach((grip, n) =>
        Object.assign(grip.style, {
          ...{
            left: `${columns[n][0]}px`,
            width: `${columns[n][1]}px`,
            top: `${scores[0]}px`,
            height: `${scores[1]}px`,
          },
        }),
      );
      return height;
    },
    marks: (/** @type {{step: number, paint: Paint}} */ { step, paint }) => {
      const wide = (/** @type {string} */ text, bold = false) =>
        widest([text], `${bold ? '600 ' : ''}${at.size.em}px ${paint.font}`);
      return glide.pass(reverseMarks(at, meta, { step, paint, row: numbers, changed: key, due: due(), tile, wide }));
    },
  });
  host.querySelector('.sheet')?.append(bars);
  arrive('jump');
  view.draw();
  return view;
}
