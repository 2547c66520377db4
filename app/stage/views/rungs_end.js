// What the changes saved, of the course's end: the layers of the last stair, piled up by what they save. A pile is as high as
// its gain on the stairs' scale, so the piles together are as high as the last stair. Next to a pile are its stops.
import { filled } from '../core/follow.js';
import { amount, blend, COLOURS, PALETTE, rgb, short } from '../core/paint.js';
import { wrapped } from '../core/wrapped.js';

const NARROW = 600; // pixels
const CHIP = 2.7; // em: a stop
const LINE = 1.4; // em: the same in a narrow picture, without its words
const HEAD = 2.2; // em: the whole
const TALL = 3.6; // em: the same in a narrow picture
const GAP = 0.6; // em: between two piles

/** @type {Record<string, string>} what a change saves -> its colour */
export const SAVED = { trips: COLOURS.read, waiting: PALETTE.wavefronts.conflict, work: COLOURS.S };

/** @type {(us: number) => string} */
export const timeOf = us =>
  amount(us, [
    [1e3, 'ms'],
    [1, '\u00b5s'],
  ]);

/** The piles, the last one first: what they save, their gain, their stops, and the gain of each rung.
 *  @param {timing.RungsMeta} meta @param {Record<string, number>} us */
function pilesOf(meta, us) {
  const stairs = meta.rungs
      .map(({ id }) => id)
      .filter(id => id === meta.shown[0].rung || meta.ends.some(one => one.rungs.includes(id))),
    gain = (/** @type {string} */ id) => us[stairs[stairs.indexOf(id) - 1]] / us[id],
    product = (/** @type {string[]} */ ids) => ids.reduce((all, id) => all * gain(id), 1);
  const piles = Object.keys(meta.saves).map(kind => {
    const stops = meta.ends.filter(({ saves }) => saves === kind),
      rungs = stairs.filter(id => stops.some(one => one.rungs.includes(id)));
    return { kind, stops, rungs, times: product(rungs) };
  });
  return { piles: piles.reverse(), stairs, gain, product, whole: us[stairs[0]] / us[stairs[stairs.length - 1]] };
}
const isNarrow = (/** @type {number} */ width) => width < NARROW;
const chipOf = (/** @type {number} */ width) => (isNarrow(width) ? LINE : CHIP);
const columnsOf = (/** @type {number} */ width, /** @type {number} */ em) =>
  isNarrow(width) ? 2 : Math.max(2, Math.min(6, Math.floor((0.66 * width) / (9.5 * em))));
const headOf = (/** @type {number} */ width) => (isNarrow(width) ? TALL : HEAD);

/** @param {{width: number, em: number}} size @param {timing.RungsMeta} meta @param {Record<string, number>} us */
export function endHeight({ width, em }, meta, us) {
  const { piles, whole } = pilesOf(meta, us),
    columns = columnsOf(width, em),
    // the stops of each pile fit into its share of the height
    need = piles.map(({ stops, times }) => {
      const rows = Math.ceil(stops.length / columns) * chipOf(width);
      return (rows * Math.log(whole)) / Math.log(times);
    });
  return (headOf(width) + Math.max(...need) + GAP * (piles.length - 1) + 0.4) * em;
}

/** @type {import('./rungs_marks.js').Adds} */
export function addEnd(made, { width, height, em }, meta, now, paint, wide) {
  const { us } = now.problem,
    { piles, stairs, gain, product, whole } = pilesOf(meta, us),
    narrow = isNarrow(width),
    columns = columnsOf(width, em),
    last = stairs[stairs.length - 1],
    head = headOf(width) * em,
    tall = height - head - (GAP * (piles.length - 1) + 0.4) * em,
    highOf = (/** @type {number} */ times) => (tall * Math.log(times)) / Math.log(whole),
    pile = (narrow ? 0.28 : 0.32) * width,
    from = pile + (narrow ? 0.6 : 1.2) * em,
    each = (width - from) / columns,
    chip = chipOf(width),
    dim = blend(rgb(paint.text), rgb(paint.background), 0.72),
    title = filled(meta.words.whole, {
      ...{ before: timeOf(us[stairs[0]]), after: timeOf(us[last]), times: short(whole, 3) },
      factors: [...piles]
        .reverse()
        .map(({ times }) => `\u00d7 ${short(times, 3)}`)
        .join(' '),
    });
  wrapped(title, width, 2, one => wide(one, true, 1.2 * em)).forEach((line, n) =>
    made.text(`end whole ${n}`, [0, (1.25 + 1.5 * n) * em], line, { bold: true, size: 1.2 * em }),
  );
  let y = head;
  for (const { kind, stops, rungs, times } of piles) {
    const high = highOf(times);
    let low = Math.round(y + high),
      exact = y + high;
    for (const id of rungs) {
      exact -= highOf(gain(id));
      const top = Math.round(exact);
      made.rect(`stair ${last} ${id}`, [0, top, pile, low - top], { fill: SAVED[kind], ease: 'both' });
      low = top;
    }
    const size = Math.min(2.6 * em, 0.34 * high, narrow ? 1.7 * em : Infinity),
      middle = y + high / 2;
    made.text(`end ${kind} times`, [pile / 2, middle + 0.1 * em], `\u00d7 ${short(times, 3)}`, {
      ...{ align: 'center', bold: true, fill: '#fff', size, span: [0.6, 1] },
    });
    made.text(`end ${kind}`, [pile / 2, middle + 1.4 * em], meta.saves[kind], {
      ...{ align: 'center', bold: true, fill: '#fff', size: (narrow ? 1 : 1.2) * em, span: [0.6, 1] },
    });
    const lines = Math.ceil(stops.length / columns),
      row = Math.min(2 * chip * em, high / lines),
      over = y + (high - lines * row) / 2;
    stops.forEach(({ stop, said, rungs: own }, n) => {
      const x = from + (n % columns) * each,
        top = over + Math.floor(n / columns) * row + (row - chip * em) / 2,
        factor = own.length ? ` \u00d7 ${short(product(own), 3)}` : '';
      made.text(`end ${kind} ${stop}`, [x, top + 1.1 * em, each - 0.6 * em], `${stop}${factor}`, {
        ...{ bold: !!own.length, fill: own.length ? paint.text : dim, span: [0.6, 1] },
      });
      if (chip > LINE)
        made.text(`end ${kind} ${stop} is`, [x, top + 2.35 * em, each - 0.6 * em], said, { fill: dim, span: [0.6, 1] });
      made.add(`end ${kind} ${stop} area`, 'area', [x, top, each - 0.3 * em, (chip - 0.1) * em], {
        datum: { stop },
        tip: [`${stop}: ${said}`, ...own.map(id => `${id}: \u00d7 ${short(gain(id), 3)}`)].join('\n'),
      });
    });
    y += high + GAP * em;
  }
}
