// The kinds of mark (kinds.js) of one row of the softmax.
import { short, smallText } from '../core/paint.js';

export const ROW_KINDS = {
  axis(g, { rect: [left, y, w, h], em, label, note, lo, hi }, paint) {
    g.strokeStyle = paint.border;
    g.lineWidth = 1;
    g.strokeRect(left + 0.5, y + 0.5, w - 1, h - 1);
    g.fillStyle = paint.text;
    g.textAlign = 'left';
    g.font = `600 ${em}px ${paint.font}`;
    g.fillText(label, left, y - em * 0.4, w);
    const wide = g.measureText(label).width;
    g.font = `${em}px ${paint.font}`;
    if (wide + g.measureText(note).width + em * 1.5 < w)
      g.fillText(note, left + w - g.measureText(note).width, y - em * 0.4);
    g.font = `${smallText(em)}px ${paint.mono}`;
    g.textAlign = 'right';
    if (Number.isFinite(hi)) g.fillText(short(hi, 2), left - 5, y + em * 0.8);
    if (Number.isFinite(lo) && h > 2.2 * em) g.fillText(short(lo, 2), left - 5, y + h - 1);
    g.textAlign = 'left';
  },
  lost(g, { rect: [left, y, w, h], em, text }, paint) {
    g.font = `600 ${em}px ${paint.font}`;
    const wide = Math.min(w - 8, g.measureText(text).width + em);
    g.textAlign = 'left';
    g.fillStyle = paint.background;
    g.fillRect(left + 4, y + h / 2 - em * 0.9, wide, em * 1.7);
    g.fillStyle = paint.text;
    g.fillText(text, left + 4 + em / 2, y + h / 2 + em * 0.35, wide - em);
  },
  // Bold words that end at x, on clean ground.
  said(g, { rect: [x, y, most, size], text }, paint) {
    g.font = `600 ${size}px ${paint.font}`;
    const wide = Math.min(most, g.measureText(text).width);
    g.fillStyle = paint.background;
    g.fillRect(x - wide - 4, y - size, wide + 8, 1.35 * size);
    g.fillStyle = paint.text;
    g.textAlign = 'right';
    g.fillText(text, x, y, most);
    g.textAlign = 'left';
  },
};
