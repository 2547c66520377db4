// A picture under a hand: a canvas, its controls, and a foot below. What hears the clock hears it before the canvas draws the step.
import { canvasView } from './canvas.js';
import { element, listen } from './paint.js';

/**
 * controls: the node of the controls, or null. foot: nodes below them. heard: an event of the clock -> what hears it. end: called at
 * the end. All others are canvasView's.
 * @param {HTMLElement} host
 * @param {Context} context
 * @param {{frames: Frame[], foot: Node[], controls?: Node | null, heard?: Record<string, (event: any) => void>, end?: () => void,
 *   [of: string]: any}} given
 * @returns {{draw: () => void, unmount: () => void}}
 */
export function handView(host, context, { frames, foot, controls = null, heard = {}, end, ...view }) {
  const { clock } = context,
    deafen = Object.entries(heard).map(([name, hear]) => listen(clock, name, hear)),
    label = (/** @type {number} */ step) => `${frames[step].title}. ${frames[step].sentence}`,
    canvas = canvasView(host, context, { label, ...view });
  const below = [...(controls ? [controls] : []), element('div', { class: 'of-hand' }, ...foot)];
  host.append(element('div', { class: 'below-hand' }, ...below));
  return {
    draw: canvas.draw,
    unmount() {
      end?.();
      for (const one of deafen) one();
      clock.tell('said', '');
      canvas.unmount();
    },
  };
}

// Pulls a grip: moves(event) is called for each move until the hand lets go, and then letGo.
/** @param {HTMLElement} grip @param {PointerEvent} event the press @param {(event: PointerEvent) => void} moves @param {() => void} [letGo] */
export function pull(grip, event, moves, letGo = () => {}) {
  event.preventDefault();
  grip.setPointerCapture(event.pointerId);
  grip.onpointermove = moves;
  grip.onpointerup = grip.onpointercancel = () => {
    grip.onpointermove = grip.onpointerup = grip.onpointercancel = null;
    letGo();
  };
}
