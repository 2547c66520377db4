// The products of the forward in reverse, one a step, on the numbers of a tile: explainers/stories/backward/reverse.py.
// A number under the hand shows the row and the column that made it.
import { filled } from '../core/follow.js';
import { handView } from '../core/hand.js';
import { element, exact, matrixImage, rgb, short, signed, smallText, spanOf, theme, widest } from '../core/paint.js';
import { reverseLayout, reverseMarks } from './reverse_marks.js';
import { cut } from './reverse_rule.js';

/** @type {Picture<backward.ReverseMeta>} */
export default function (host, { meta, columns: { numbers } }, context) {
  const { clock } = context,
    { parts, hand } = meta,
    HAND = meta.frames.length - 1,
    images = new Map();
  /** @type {ReturnType<typeof reverseLayout>[]} */ let layouts; // of each step
  let said = '',
    known = { thing: '', step: 0 }; // what is under the hand, and since which step

  /** @param {string} part @param {number} tile */
  const image = (part, tile) => {
    const { background, text } = theme(host),
      key = `${part} ${tile} ${background}`,
      [first, rows, columns] = parts[part].windows[tile],
      values = numbers.subarray(first, first + rows * columns);
    if (!images.has(key))
      images.set(
        key,
        matrixImage(
          ...[columns, rows, (/** @type {number} */ y, /** @type {number} */ x) => values[y * columns + x]],
          ...[spanOf(values), signed(rgb(background)), rgb(text)],
        ),
      );
    return images.get(key);
  };
  /** @param {string} part @param {number[]} place @param {number} tile */
  const valueOf = (part, [row, column], tile) => {
    const [first, , columns, row0, column0] = parts[part].windows[tile];
    return numbers[first + (row - row0) * columns + (column - column0)];
  };
  const nameOf = (/** @type {string} */ part, /** @type {number[]} */ place) =>
    `${part}[${place.slice(0, parts[part].columns ? 2 : 1).join(', ')}]`;

  /** The number that a thing of the picture is, if it is one. @param {Thing | null} thing */
  function pickedOf(thing) {
    const part = thing && parts[thing.tensor];
    if (!part || thing[part.rows] === undefined) return null;
    return { part: thing.tensor, place: [thing[part.rows], part.columns ? thing[part.columns] : 0] };
  }
  /** The largest number of dQ: what the hand shows before it points. */
  function largest() {
    const [first, rows, columns, row0, column0] = parts.dQ.windows[meta.tile[HAND]],
      sizes = [...numbers.subarray(first, first + rows * columns)].map(Math.abs),
      best = sizes.indexOf(Math.max(...sizes));
    return { part: 'dQ', place: [row0 + Math.floor(best / columns), column0 + (best % columns)] };
  }
  /** @param {{part: string, place: number[]}} picked @param {number} tile */
  function sentence({ part, place }, tile) {
    const value = valueOf(part, place, tile),
      where = `${nameOf(part, place)} = ${short(value, 3)}`,
      [a, b] = parts[part].reads;
    if (Number.isNaN(value)) return filled(hand.masked, { where: nameOf(part, place) });
    if (hand[part] || !a) return filled(hand[part] ?? hand.memory, { where });
    const [from, to] = [a, b].map(read => cut(parts[part], parts[read], place)),
      form = from[0] === null ? 'down' : to[0] === null ? 'product' : 'across';
    const text = parts[part].scaled ? `${hand[form].slice(0, -1)}${hand.scaled}` : hand[form];
    return filled(text, { where, a, b, row: from[0] ?? from[1] ?? 0, col: to[0] ?? to[1] ?? 0 });
  }
  /** @param {string} part @param {number} tile */
  const grid = (part, tile) => {
    const [, rows, columns, row0, column0] = parts[part].windows[tile],
      { rows: down, columns: across } = parts[part],
      placeOf = (/** @type {number} */ n) => [row0 + Math.floor(n / columns), column0 + (n % columns)];
    return {
      datum: { tensor: part },
      grid: {
        ...{ columns, count: rows * columns },
        thing: (/** @type {number} */ n) => {
          const [row, column] = placeOf(n);
          return { tensor: part, [down]: row, ...(across && { [across]: column }) };
        },
        tip: (/** @type {number} */ n) => `${nameOf(part, placeOf(n))} = ${exact(valueOf(part, placeOf(n), tile))}`,
      },
    };
  };

  const signs = element('span', { class: 'from' }, 'blue: below zero, orange: above');
  function arrive() {
    signs.toggleAttribute('hidden', !meta.made[clock.step].length && clock.step !== HAND);
  }
  arrive();
  const view = handView(host, context, {
    frames: meta.frames,
    foot: [element('span', {}, meta.gradient), signs],
    heard: { step: arrive },
    title: 'In reverse',
    layout: (/** @type {any} */ size) => {
      layouts = meta.phases.map(phase => reverseLayout(size, parts, phase));
      return Math.max(...layouts.map(({ height }) => height));
    },
    marks: (/** @type {{step: number, paint: Paint, at: Thing | null}} */ { step, paint, at: thing }) => {
      const at = layouts[step],
        key = JSON.stringify(thing);
      if (key !== known.thing) known = { thing: key, step };
      const under = known.step === step ? pickedOf(thing) : null, // a step forgets the number before it
        picked = under && parts[under.part].seen[step] ? under : step === HAND ? largest() : null,
        small = at.narrow ? smallText(at.em) : 1.1 * at.em,
        wide = (/** @type {string} */ text, bold = false) =>
          widest([text], `${bold ? '600 ' : ''}${small}px ${paint.font}`);
      const told = picked && under ? sentence(picked, meta.tile[step]) : '';
      if (told !== said) clock.tell('said', (said = told));
      return reverseMarks(at, meta, { step, paint, small, picked, image, value: valueOf, wide, grid });
    },
  });
  return view;
}
