// A moment to take along: as a PNG, made in this browser of what stands on the stage, and as a
// printed page (image.css).
import { drawNode } from './drawn.js';
import { element, save, theme } from '../core/paint.js';

const RATIO = 2,
  EDGE = 24,
  GAP = 12; // device pixels for each of CSS; CSS pixels

// Lines of text that fit in `width`, at words where there are any.
function wrapped(g, text, width) {
  const lines = [''];
  for (const word of text.split(/(?<=[ &?/])/)) {
    if (lines.at(-1) && g.measureText(lines.at(-1) + word).width > width) lines.push('');
    lines[lines.length - 1] += word;
  }
  return lines;
}

// parts: the nodes that stand one above the other, in that order; above, below: texts over and
// under them, [{text, size, bold}]. Returns the canvas.
export async function drawMoment({ el, clock }, parts, above, below) {
  const paint = theme(el),
    boxes = parts.map(part => part.getBoundingClientRect()).filter(box => box.height),
    shown = parts.filter(part => part.getBoundingClientRect().height);
  const wide = Math.max(...boxes.map(box => box.width)),
    canvas = element('canvas'),
    g = canvas.getContext('2d');
  const set = ({ text, size, bold }) => {
    const font = `${bold ? 700 : 400} ${size}px ${paint.font}`;
    g.font = font;
    return { font, lines: wrapped(g, text, wide), step: 1.35 * size };
  };
  const [head, foot] = [above, below].map(texts => texts.filter(t => t.text).map(set)),
    tall = texts => texts.reduce((sum, t) => sum + t.lines.length * t.step, 0);
  const width = wide + 2 * EDGE,
    height =
      2 * EDGE +
      tall(head) +
      GAP +
      boxes.reduce((sum, box) => sum + box.height + GAP, 0) +
      tall(foot);
  [canvas.width, canvas.height] = [Math.ceil(width * RATIO), Math.ceil(height * RATIO)];
  g.scale(RATIO, RATIO);
  g.fillStyle = paint.background;
  g.fillRect(0, 0, width, height);
  let y = EDGE;
  const write = texts => {
    g.textBaseline = 'top';
    for (const { font, lines, step } of texts)
      for (const line of lines) {
        [g.font, g.fillStyle] = [font, paint.text];
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
export async function savePng(canvas, name) {
  const blob = await new Promise(done => {
    canvas.toBlob(done, 'image/png');
  });
  if (!blob)
    throw new Error('This browser could not make an image of that size. Make the window smaller.');
  save(blob, name);
}

// A printed page has what the image has: title, sentence, picture, state, the code that is in
// sight, provenance and link. above(), below(): the texts over and under it, as drawMoment has
// them. Returns {head, foot, unmount}: nodes that only print.
export function makePrint({ above, below, main }) {
  const head = element('div', { class: 'printed' }),
    foot = element('div', { class: 'printed' });
  const fill = (node, texts) =>
    node.replaceChildren(
      ...texts
        .filter(t => t.text)
        .map(t => element('p', { class: t.bold ? 'bold' : null }, t.text)),
    );
  // Lines of code that are in sight; printed, they begin at the top of their pane.
  const before = () => {
    fill(head, above());
    fill(foot, below());
    for (const pane of main.querySelectorAll('.code')) {
      const { top, bottom } = pane.getBoundingClientRect();
      for (const row of pane.children) {
        const box = row.getBoundingClientRect();
        row.classList.toggle('out-of-sight', box.bottom <= top || box.top >= bottom);
      }
    }
  };
  const after = () =>
    main.querySelectorAll('.out-of-sight').forEach(row => row.classList.remove('out-of-sight'));
  addEventListener('beforeprint', before);
  addEventListener('afterprint', after);
  return {
    head,
    foot,
    unmount() {
      removeEventListener('beforeprint', before);
      removeEventListener('afterprint', after);
    },
  };
}
