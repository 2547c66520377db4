// How each kind of mark is drawn (tween.js). A kind sets all that it uses and leaves nothing set: a
// picture never depends on what was drawn before it.

/** @typedef {Record<string, (g: any, mark: any, paint: any) => void>} Kinds */

// The radius of a rectangle's corners: none for a small one, whose area says a number.
const softness = (/** @type {number[]} */ [, , w, h]) => (Math.min(w, h) < 14 ? 0 : Math.min(5, Math.min(w, h) / 6));
/** @param {any} g @param {number[]} rect @param {number} radius */
function path(g, rect, radius) {
  g.beginPath();
  g.roundRect(...rect, radius);
  return g;
}

/** @type {Kinds} */
const KINDS = {
  // A grid of cells. fills: [r, g, b] of each. border: of a cell of one of these colours.
  cells(g, { rect: [x, y, w, h], columns, fills, border, bordered }) {
    const cw = w / columns,
      ch = h / Math.ceil(fills.length / columns),
      gap = Math.min(cw, ch) > 5 ? 1 : 0.4;
    g.strokeStyle = border;
    g.lineWidth = 1;
    fills.forEach((fill, n) => {
      const left = x + (n % columns) * cw,
        top = y + Math.floor(n / columns) * ch;
      g.fillStyle = `rgb(${fill.map(Math.round).join(',')})`;
      g.fillRect(left, top, cw - gap, ch - gap);
      if (gap < 1 || !bordered.includes(`${fill}`)) return;
      g.strokeRect(left + 0.5, top + 0.5, cw - gap - 1, ch - gap - 1);
    });
  },
  // Numbers on their way: a small rectangle at each point. size: [width, height].
  flights(g, { points, size: [w, h] }) {
    g.fillStyle = 'rgb(240, 228, 66)';
    g.strokeStyle = '#000';
    g.lineWidth = 0.6;
    for (const [x, y] of points) {
      g.fillRect(x, y, w, h);
      g.strokeRect(x, y, w, h);
    }
  },
  area() {}, // only its datum: what the marks on it show together
  rect(g, { rect, fill, stroke, width = 1, dash }) {
    const soft = softness(rect);
    if (fill) {
      g.fillStyle = fill;
      if (soft) path(g, rect, soft).fill();
      else g.fillRect(...rect);
    }
    if (!stroke) return;
    g.strokeStyle = stroke;
    g.lineWidth = width;
    g.setLineDash(dash ?? []);
    if (soft) path(g, rect, soft).stroke();
    else g.strokeRect(...rect);
    if (dash) g.setLineDash([]);
  },
  // A disc in its rectangle.
  dot(g, { rect: [x, y, w, h], fill }) {
    g.fillStyle = fill;
    g.beginPath();
    g.ellipse(x + w / 2, y + h / 2, w / 2, h / 2, 0, 0, 2 * Math.PI);
    g.fill();
  },
  // source: the part of the image, [x, y, width, height]
  image(g, { image, source, rect }) {
    if (rect[2] <= 0 || rect[3] <= 0) return;
    if (source) g.drawImage(image, ...source, ...rect);
    else g.drawImage(image, ...rect);
  },
  // rect: [x, y of the baseline, the widest it may be or 0, size]. A value with a format is a number
  // that runs.
  text(g, { rect: [x, y, most, size], text, value, format, fill, bold, mono, align = 'left' }, paint) {
    g.font = `${bold ? '600 ' : ''}${size}px ${mono ? paint.mono : paint.font}`;
    g.fillStyle = fill ?? paint.text;
    g.textAlign = align;
    g.fillText(format ? format(value) : text, x, y, most || undefined);
  },
  // rect: [x, y, to the right, down]
  line(g, { rect: [x, y, dx, dy], stroke, width = 1, dash }) {
    g.strokeStyle = stroke;
    g.lineWidth = width;
    g.setLineDash(dash ?? []);
    g.beginPath();
    g.moveTo(x, y);
    g.lineTo(x + dx, y + dy);
    g.stroke();
    if (dash) g.setLineDash([]);
  },
  // Slanted lines, so many pixels apart.
  hatch(g, { rect: [x, y, w, h], stroke, gap, width = 1.5 }) {
    g.save();
    g.beginPath();
    g.rect(x, y, w, h);
    g.clip();
    g.strokeStyle = stroke;
    g.lineWidth = width;
    g.beginPath();
    for (let at = x - h - ((x - h) % gap); at < x + w; at += gap) {
      g.moveTo(at, y + h);
      g.lineTo(at + h, y);
    }
    g.stroke();
    g.restore();
  },
  // The lines between so many columns and rows.
  grid(g, { rect: [x, y, w, h], columns, rows, stroke, width = 1 }) {
    g.strokeStyle = stroke;
    g.lineWidth = width;
    g.beginPath();
    for (let n = 1; n < columns; n++) {
      g.moveTo(x + (n * w) / columns, y);
      g.lineTo(x + (n * w) / columns, y + h);
    }
    for (let n = 1; n < rows; n++) {
      g.moveTo(x, y + (n * h) / rows);
      g.lineTo(x + w, y + (n * h) / rows);
    }
    g.stroke();
  },
  // points: a line with its head at the end; grown: the share of it that is there. An arrow without
  // a way has no head.
  way(g, { points, stroke, width = 2, grown = 1, head = 5 }) {
    if (grown < 0.01) return;
    const seen = grown < 1 ? firstPart(points, grown) : points,
      [x, y] = seen.at(-1);
    g.save();
    g.strokeStyle = g.fillStyle = stroke;
    g.lineWidth = width;
    g.lineJoin = 'round';
    g.beginPath();
    seen.forEach(([px, py], n) => (n ? g.lineTo(px, py) : g.moveTo(px, py)));
    g.stroke();
    g.translate(x, y);
    g.rotate(Math.atan2(y - seen.at(-2)[1], x - seen.at(-2)[0]) - Math.PI / 2);
    g.beginPath();
    g.moveTo(0, 1);
    g.lineTo(-head, -head * 1.3);
    g.lineTo(head, -head * 1.3);
    g.fill();
    g.restore();
  },
};

/**
 * The first share of a line, with the point where it ends.
 * @param {number[][]} points
 * @param {number} share
 * @returns {number[][]}
 */
export function firstPart(points, share) {
  const lengths = points.slice(1).map(([x, y], n) => Math.hypot(x - points[n][0], y - points[n][1]));
  let left = share * lengths.reduce((a, b) => a + b, 0);
  const seen = [points[0]];
  for (let n = 0; n < lengths.length && left > 0; n++) {
    if (!lengths[n]) continue;
    const part = Math.min(1, left / lengths[n]),
      [x0, y0] = points[n],
      [x1, y1] = points[n + 1];
    seen.push([x0 + (x1 - x0) * part, y0 + (y1 - y0) * part]);
    left -= lengths[n];
  }
  return seen;
}

/**
 * @param {any} g a canvas's context
 * @param {(import('./tween.js').Mark & {air?: number})[]} marks
 * @param {any} paint the theme
 * @param {Kinds} [more] kinds of the view's own
 */
export function paintMarks(g, marks, paint, more = {}) {
  g.imageSmoothingEnabled = false;
  for (const mark of marks) {
    if (mark.air > 0.02) shadow(g, mark);
    g.globalAlpha = mark.alpha ?? 1;
    (more[mark.kind] ?? KINDS[mark.kind])(g, mark, paint);
  }
  g.globalAlpha = 1;
  g.textAlign = 'left';
}

/** @param {any} g @param {any} mark */
function shadow(g, { rect: [x, y, w, h], air, alpha = 1 }) {
  g.globalAlpha = 0.16 * Math.min(1, air) * alpha;
  g.fillStyle = '#000';
  g.fillRect(x + 2 * air, y + 5 * air, w, h);
}

/** The marks of a step, in the order in which they are drawn. */
export class Marks {
  /** @type {import('./tween.js').Mark[]} */
  list = [];

  /** @param {number} em the size of text */
  constructor(em) {
    this.em = em;
  }
  /**
   * @param {string} id
   * @param {string} kind
   * @param {number[] | null} rect null: of a kind with points
   * @param {Record<string, any>} [more]
   */
  add(id, kind, rect, more) {
    this.list.push({ id, kind, rect, ...more });
  }
  /**
   * @param {string} id
   * @param {number[]} rect
   * @param {Record<string, any>} [more]
   */
  rect(id, rect, more) {
    this.add(id, 'rect', rect, more);
  }
  /**
   * @param {string} id
   * @param {[number, number, number?]} place x, y of the baseline, the widest it may be
   * @param {string} text
   * @param {Record<string, any>} [more]
   */
  text(id, [x, y, most = 0], text, more) {
    this.add(id, 'text', [x, y, most, more?.size ?? this.em], { text, ...more });
  }
}
