// A moment to take along: as a PNG, made in this browser of what stands on the stage, and as a
// printed page (image.css).
import { drawNode } from './drawn.js';
import { element, listen, save, theme } from '../core/paint.js';

const RATIO = 2,
  EDGE = 24,
  GAP = 12; // device pixels for each of CSS; CSS pixels

/** @typedef {{text: string, size: number, bold?: boolean}} Line */

// Lines of text that fit in `width`, at words where there are any.
/** @param {CanvasRenderingContext2D} g @param {string} text @param {number} width */
function wrapped(g, text, width) {
  const lines = [''];
  for (const word of text.split(/(?<=[ &?/])/)) {
    if (lines.at(-1) && g.measureText(lines.at(-1) + word).width > width) lines.push('');
    lines[lines.length - 1] += word;
  }
  return lines;
}

// parts: the nodes that stand one above the other, in that order; above, below: texts over and under
// them. Returns the canvas.
/**
 * @param {Stage} stage
 * @param {Element[]} parts
 * @param {Line[]} above
 * @param {Line[]} below
 */
export async function drawMoment({ el, clock }, parts, above, below) {
  const paint = theme(el),
    shown = parts.filter(part => part.getBoundingClientRect().height),
    boxes = shown.map(part => part.getBoundingClientRect());
  const wide = Math.max(...boxes.map(box => box.width)),
    canvas = element('canvas'),
    g = canvas.getContext('2d');
  const set = (/** @type {Line[]} */ texts) =>
    texts
      .filter(({ text }) => text)
      .flatMap(({ text, size, bold }) => {
        const font = `${bold ? 700 : 400} ${size}px ${paint.font}`;
        g.font = font;
        return wrapped(g, text, wide).map(line => ({ font, line, step: 1.35 * size }));
      });
  const [head, foot] = [set(above), set(below)],
    lines = [...head, ...foot].reduce((sum, { step }) => sum + step, 0),
    width = wide + 2 * EDGE,
    height = 2 * EDGE + lines + GAP + boxes.reduce((sum, box) => sum + box.height + GAP, 0);
  [canvas.width, canvas.height] = [Math.ceil(width * RATIO), Math.ceil(height * RATIO)];
  g.scale(RATIO, RATIO);
  g.fillStyle = paint.background;
  g.fillRect(0, 0, width, height);
  let y = EDGE;
  const write = (/** @type {typeof head} */ texts) => {
    for (const { font, line, step } of texts) {
      [g.textBaseline, g.font, g.fillStyle] = ['top', font, paint.text];
      g.fillText(line, EDGE, y);
      y += step;
    }
  };
  write(head);
  y += GAP;
  for (const [n, part] of shown.entries()) {
    await drawNode(clock, g, part, EDGE, y, RATIO);
    y += boxes[n].height + GAP;
  }
  write(foot);
  return canvas;
}

// Saves the canvas as a file of that name.
/** @param {HTMLCanvasElement} canvas @param {string} name */
export async function savePng(canvas, name) {
  /** @type {Blob | null} */
  const blob = await new Promise(done => canvas.toBlob(done, 'image/png'));
  if (!blob) throw new Error('This browser could not make an image of that size. Make the window smaller.');
  save(blob, name);
}

// A printed page has what the image has: title, sentence, picture, state, the code that is in
// sight, provenance and link. above, below: the texts over and under it. head, foot: nodes that only
// print.
/** @param {{above: () => Line[], below: () => Line[], main: Element}} given */
export function makePrint({ above, below, main }) {
  const head = element('div', { class: 'printed' }),
    foot = element('div', { class: 'printed' });
  /** @type {(node: Element, texts: Line[]) => void} */
  const fill = (node, texts) => {
    const lines = texts.filter(({ text }) => text);
    node.replaceChildren(...lines.map(({ text, bold }) => element('p', { class: bold ? 'bold' : null }, text)));
  };
  // Lines of code that are in sight; printed, they begin at the top of their pane.
  const printing = listen(window, 'beforeprint', () => {
    fill(head, above());
    fill(foot, below());
    for (const pane of main.querySelectorAll('.code')) {
      const { top, bottom } = pane.getBoundingClientRect();
      for (const row of pane.children) {
        const box = row.getBoundingClientRect();
        row.classList.toggle('out-of-sight', box.bottom <= top || box.top >= bottom);
      }
    }
  });
  const printed = listen(window, 'afterprint', () =>
    main.querySelectorAll('.out-of-sight').forEach(row => row.classList.remove('out-of-sight')),
  );
  return {
    head,
    foot,
    unmount() {
      printing();
      printed();
    },
  };
}
