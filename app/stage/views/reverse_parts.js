// What the scenes of the way back share: a part as a box, and the loss as a column that fills.
import { blend, COLOURS, colourOf, minus, PALETTE, rgb } from '../core/paint.js';

/** @typedef {import('../core/kinds.js').Marks} Marks */

/**
 * A part with its name and a line of words.
 * look: dim: not in use now. gone: not there. size: of the name. more: of its rectangle.
 * @param {Marks} made @param {number[]} rect
 * @param {{name: string, said: string, look?: 'lit' | 'dim' | 'gone' | 'wait', size: number, bold?: boolean, more?: any}} part
 * @param {{paint: Paint, wide: (text: string, bold?: boolean) => number}} now
 */
export function addBox(
  made,
  [x, y, w, h],
  { name, said, look = 'lit', size, bold = false, more = {} },
  { paint, wide },
) {
  const em = made.em,
    hue = name === 'LSE' ? COLOURS.other : colourOf(name),
    back = rgb(paint.background),
    gradient = /^d[A-Z]/.test(name),
    there = look === 'lit' || look === 'dim',
    colour = gradient ? blend(rgb(hue), back, 0.24) : hue,
    edge = look === 'wait' ? PALETTE.wrong : hue,
    ink = there && look === 'lit' && !gradient ? '#fff' : paint.text,
    fits = said && wide(said, bold) * (12 / em) <= w - 4,
    two = fits && h >= size + 1.7 * em,
    under = Math.max(12, Math.min(1.1 * em, (em * (w - 6)) / (wide(said, bold) || 1))),
    high = 0.94 * size + under, // of both lines
    name_at = y + h / 2 + (two ? 0.72 * size - high / 2 - 0.1 * under : 0.36 * size);
  made.rect(`${name} box`, [x, y, w, h], {
    ...(there
      ? {
          fill: look === 'lit' ? colour : blend(rgb(colour), back, gradient ? 0.55 : 0.4),
          stroke: gradient ? hue : colour,
          width: gradient ? 2 : 1,
        }
      : { stroke: edge, width: look === 'wait' ? 3 : 1.5, dash: [5, 4] }),
    ...more,
  });
  made.text(`${name} name`, [x + w / 2, name_at, w - 4], name, { align: 'center', bold: true, size, fill: ink });
  if (two)
    made.text(`${name} said`, [x + w / 2, y + h / 2 + high / 2 - 0.1 * under, w - 4], said, {
      ...{ align: 'center', fill: ink, bold, size: under },
    });
}

/**
 * The loss: a column that fills up to its value.
 * y: of a value. said: words below its name. before: its value before a hand moved it, change: by how much, in words.
 * due: the change that dS says, dueSaid: in words.
 * @param {Marks} made @param {number[]} rect
 * @param {{y: (value: number) => number, value: number, name: string, big: number, narrow: boolean, paint: Paint,
 *   wide: (text: string, bold?: boolean) => number, said?: string, before?: number, change?: string, due?: number, dueSaid?: string}} loss
 */
export function addLoss(
  made,
  [x, y, w, h],
  { y: at, value, name, big, narrow, paint, wide, said, before, change, due, dueSaid },
) {
  const em = made.em,
    line = at(value),
    back = rgb(paint.background),
    size = narrow ? 1.15 * em : big,
    middle = { align: 'center', bold: true, size };
  made.rect('loss box', [x, y, w, h], {
    ...{ fill: blend(rgb(paint.panel), back, 0.6), datum: { part: 'loss' }, tip: `${name}: ${minus(value, 4)}` },
  });
  made.rect('loss fill', [x, line, w, y + h - line], { fill: blend(rgb(PALETTE.wrong), back, 0.3) });
  made.rect('loss level', [x, line - 2, w, 4], { fill: PALETTE.wrong });
  made.rect('loss frame', [x, y, w, h], { stroke: PALETTE.wrong, width: 2 });
  const below = said && wide(said) <= w - 4;
  made.text('loss name', [x + w / 2, y + h - (below ? 2.2 : 0.8) * em, w - 4], name, middle);
  if (below) made.text('loss said', [x + w / 2, y + h - 0.9 * em, w - 4], said, { align: 'center' });
  made.text('loss value', [x + w / 2, line - 0.45 * em, w - 4], minus(value), middle);
  if (before !== undefined && change) {
    made.add('loss before', 'line', [x, at(before), w, 0], { stroke: paint.text, width: 2, dash: [4, 4] });
    made.text('loss change', [x + w / 2, line - 0.6 * em - size, w - 4], change, { ...middle, size: 0.85 * size });
  }
  if (due === undefined || Math.abs(due) < 5e-3) return;
  const arm = x - (narrow ? 0.4 : 1.2) * em,
    [from, to] = [at(before ?? value), at((before ?? value) + due)],
    beyond = due > 0 ? Math.min(to + 0.7 * size, from - 2.2 * em) : Math.max(to, from + 1.6 * size);
  made.add('loss due', 'way', null, {
    ...{
      points: [
        [arm, from],
        [arm, to],
      ],
      stroke: COLOURS.S,
      width: narrow ? 4 : 6,
      head: (narrow ? 0.4 : 0.6) * em,
    },
  });
  if (dueSaid) made.text('loss due is', [arm - 0.9 * em, beyond, 8 * em], dueSaid, { ...middle, align: 'right' });
}
