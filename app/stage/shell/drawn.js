// A part of the page as an image: text, lines, backgrounds, canvases and charts drawn again on one
// canvas, each where it stands, so that letters are sharp at any ratio. It knows what the stage is
// made of, and no more of CSS.
import { sharp } from '../core/canvas.js';
import { element } from '../core/paint.js';

const SKIPPED = '.guide, .tip, .unseen, .divider, .longest, .vacant, .meaning, .file label, .file button';

// Draws `node` on g with its top left corner at (x, y); ratio: device pixels for each of CSS. What
// is scrolled out of sight stays out.
/**
 * @param {Clock} clock
 * @param {CanvasRenderingContext2D} g
 * @param {Element} node
 * @param {number} x
 * @param {number} y
 * @param {number} ratio
 */
export async function drawNode(clock, g, node, x, y, ratio) {
  const charts = new Map(); // a chart's canvas -> the chart drawn anew
  for (const { vega } of clock.views)
    if (vega) charts.set(vega.container().querySelector('canvas'), await vega.toCanvas(ratio));
  const swatches = await drawnByBrowser(node),
    { left, top } = node.getBoundingClientRect();
  g.save();
  g.translate(x - left, y - top);
  sharp(clock, ratio, () => paint(g, node, { charts, swatches }));
  g.restore();
}

// Gradients and dashed borders, as of a legend's boxes: element -> an image of its box, which the
// browser draws by itself.
/** @param {Element} node */
async function drawnByBrowser(node) {
  const odd = [...node.querySelectorAll('*')].filter(one => {
    const style = getComputedStyle(one);
    return (
      meet(one.getBoundingClientRect(), (one.closest('.code') ?? node).getBoundingClientRect()) &&
      !one.matches(SKIPPED) &&
      (style.backgroundImage !== 'none' || /dashed|dotted/.test(style.borderStyle)) &&
      !one.closest('button')
    );
  });
  const images = odd.map(async one => {
    const style = getComputedStyle(one),
      { width, height } = one.getBoundingClientRect(),
      size = `box-sizing:border-box;width:${width}px;height:${height}px`,
      box = element('div', { style: size });
    for (const name of ['background', 'border', 'border-radius', 'color'])
      box.style.setProperty(name, style.getPropertyValue(name));
    const image = new Image(),
      inner = new XMLSerializer().serializeToString(box);
    const svg =
      `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">` +
      `<foreignObject width="100%" height="100%">${inner}</foreignObject></svg>`;
    image.src = `data:image/svg+xml,${encodeURIComponent(svg)}`;
    await image.decode().catch(() => {});
    return /** @type {[Element, HTMLImageElement]} */ ([one, image]);
  });
  return new Map(await Promise.all(images));
}

/**
 * made: the images of charts and swatches.
 * @param {any} g
 * @param {any} node
 * @param {Record<'charts' | 'swatches', Map<Element, CanvasImageSource>>} made
 */
function paint(g, node, made) {
  if (node.nodeType === Node.TEXT_NODE) return letters(g, node);
  if (node.nodeType !== Node.ELEMENT_NODE || node.matches(SKIPPED)) return;
  const style = getComputedStyle(node),
    box = node.getBoundingClientRect();
  if (style.display === 'none' || !box.width || !box.height) return;
  const clips = style.overflowX !== 'visible' || style.overflowY !== 'visible',
    seen = style.visibility !== 'hidden';
  if (seen && made.swatches.has(node)) g.drawImage(made.swatches.get(node), box.left, box.top, box.width, box.height);
  else if (seen) frame(g, box, style);
  g.save();
  if (clips) {
    g.beginPath();
    g.rect(box.left, box.top, box.width, box.height);
    g.clip();
  }
  if (seen && node.tagName === 'CANVAS')
    g.drawImage(made.charts.get(node) ?? node, box.left, box.top, box.width, box.height);
  else if (seen && node.tagName === 'svg') lines(g, node, box);
  else if (seen && node.tagName === 'INPUT') field(g, node, box, style);
  else {
    // Of a long list only what is in sight is walked through.
    for (const child of node.childNodes)
      if (!clips || child.nodeType !== Node.ELEMENT_NODE || meet(child.getBoundingClientRect(), box))
        paint(g, child, made);
  }
  g.restore();
}
/** @type {(a: DOMRect, b: DOMRect) => boolean} */
const meet = (a, b) => a.bottom > b.top && a.top < b.bottom && a.right > b.left && a.left < b.right;

/** @param {any} g @param {DOMRect} box @param {any} style */
function frame(g, box, style) {
  const width = (/** @type {string} */ side) => parseFloat(style[`border${side}Width`]) || 0;
  if (style.backgroundColor !== 'rgba(0, 0, 0, 0)') {
    g.fillStyle = style.backgroundColor;
    g.beginPath();
    const radius = parseFloat(style.borderTopLeftRadius) || 0;
    g.roundRect(box.left, box.top, box.width, box.height, radius);
    g.fill();
  }
  const sides = {
    Top: [box.left, box.top, box.width, width('Top')],
    Bottom: [box.left, box.bottom - width('Bottom'), box.width, width('Bottom')],
    Left: [box.left, box.top, width('Left'), box.height],
    Right: [box.right - width('Right'), box.top, width('Right'), box.height],
  };
  for (const [side, rect] of Object.entries(sides)) {
    if (!width(side) || style[`border${side}Style`] === 'none') continue;
    g.fillStyle = style[`border${side}Color`];
    g.fillRect(...rect);
  }
}

// A text as the page has broken it into lines.
/** @param {any} g @param {any} node a text */
function letters(g, node) {
  const style = getComputedStyle(node.parentElement);
  if (style.visibility === 'hidden' || !node.data.trim()) return;
  const range = document.createRange();
  g.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  g.fillStyle = style.color;
  g.textBaseline = 'alphabetic';
  g.textAlign = 'left';
  const rise = g.measureText('x').fontBoundingBoxAscent;
  let line = '',
    at = { left: 0, top: -Infinity };
  const flush = () => {
    if (line.trim()) g.fillText(line, at.left, at.top + rise);
    line = '';
  };
  for (let n = 0; n < node.length; n++) {
    range.setStart(node, n);
    range.setEnd(node, n + 1);
    const box = range.getClientRects()[0];
    if (!box) continue; // a space at a line's end
    if (Math.abs(box.top - at.top) > 1) {
      flush();
      at = { left: box.left, top: box.top };
    }
    line += /\s/.test(node.data[n]) ? ' ' : node.data[n];
  }
  flush();
}

// The strip's lines: paths and lines in a box of their own, with strokes that keep their width.
/** @param {any} g @param {SVGSVGElement} svg @param {DOMRect} box */
function lines(g, svg, box) {
  const { x, y, width, height } = svg.viewBox.baseVal;
  if (!width) return;
  const turn = new DOMMatrix()
    .translate(box.left, box.top)
    .scale(box.width / width, box.height / height)
    .translate(-x, -y);
  for (const mark of svg.children) {
    const style = getComputedStyle(mark),
      get = (/** @type {string} */ name) => mark.getAttribute(name) ?? '0',
      path = new Path2D();
    if (!['line', 'path'].includes(mark.tagName)) continue;
    const line = `M${get('x1')} ${get('y1')}L${get('x2')} ${get('y2')}`;
    path.addPath(new Path2D(mark.getAttribute('d') ?? line), turn);
    g.lineWidth = parseFloat(style.strokeWidth) || 1;
    if (style.stroke !== 'none') {
      g.strokeStyle = style.stroke;
      g.stroke(path);
    }
    if (style.fill !== 'none') {
      g.fillStyle = style.fill;
      g.fill(path);
    }
  }
}

/** @param {any} g @param {HTMLInputElement} input @param {DOMRect} box @param {CSSStyleDeclaration} style */
function field(g, input, box, style) {
  g.font = `${style.fontSize} ${style.fontFamily}`;
  g.fillStyle = g.strokeStyle = style.color;
  g.textBaseline = 'middle';
  if (input.type !== 'checkbox') return g.fillText(input.value, box.left + 6, box.top + box.height / 2);
  g.lineWidth = 1;
  g.strokeRect(box.left + 0.5, box.top + 0.5, box.width - 1, box.height - 1);
  if (input.checked) g.fillRect(box.left + 3, box.top + 3, box.width - 6, box.height - 6);
}
