// What the changes saved, of the course's end: the layers of the last stair, piled up by what they save. A pile is as high as
// its gain on the stairs' scale, so the piles together are as high as the last stair. Next to a pile are its stops.
import { filled } from '../core/follow.js';
import { amount, blend, COLOURS, PALETTE, rgb, short } from '../core/paint.js';
import { wrapped } from '../core/wrapped.js';

const NARROW = 600; // pixels
const LINE = 1.35; // em: a stop
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
const headOf = (/** @type {number} */ width) => (isNarrow(width) ? TALL : HEAD);

/** @param {{width: number, em: number}} size @param {timing.RungsMeta} meta @param {Record<string, number>} us */
export function endHeight({ width, em }, meta, us) {
  const { piles, whole } = pilesOf(meta, us),
    // the stops of each pile fit into its share of the height
    need = piles.map(({ stops, times }) => {
      const own = stops.filter(({ rungs }) => rungs.length).length;
      return (LINE * Math.max(own, stops.length - own, 2) * Math.log(whole)) / Math.log(times);
    });
  return (headOf(width) + Math.max(...need) + GAP * (piles.length - 1) + 0.4) * em;
}

/** @type {import('./rungs_marks.js').Adds} */
export function addEnd(made, { width, height, em }, meta, now, paint, wide) {
  const { us } = now.problem,
    { piles, stairs, gain, product, whole } = pilesOf(meta, us),
    narrow = isNarrow(width),
    last = stairs[stairs.length - 1],
    head = headOf(width) * em,
    tall = height - head - (GAP * (piles.length - 1) + 0.4) * em,
    highOf = (/** @type {number} */ times) => (tall * Math.log(times)) / Math.log(whole),
    pile = (narrow ? 0.25 : 0.3) * width,
    [left, long] = [pile + 3, (narrow ? 0.4 : 0.36) * width], // of the stops with stairs
    from = left + long + (narrow ? 0.5 : 1.2) * em, // of the others
    dim = blend(rgb(paint.text), rgb(paint.background), 0.72),
    late = { span: [0.6, 1] },
    factor = (/** @type {number} */ times) => `\u00d7 ${short(times, 3)}`,
    title = filled(meta.words.whole, {
      ...{ before: timeOf(us[stairs[0]]), after: timeOf(us[last]), times: short(whole, 3) },
      factors: [...piles]
        .reverse()
        .map(({ times }) => factor(times))
        .join(' '),
    });
  wrapped(title, narrow ? width : from, 2, one => wide(one, true, 1.2 * em)).forEach((line, n) =>
    made.text(`end whole ${n}`, [0, (1.25 + 1.5 * n) * em], line, { bold: true, size: 1.2 * em }),
  );
  let titled = false;
  let y = head;
  for (const { kind, stops, rungs, times } of piles) {
    const high = highOf(times),
      size = Math.min(2.6 * em, 0.34 * high, narrow ? 1.7 * em : Infinity),
      middle = y + high / 2;
    let low = Math.round(y + high),
      exact = y + high;
    for (const id of rungs) {
      exact -= highOf(gain(id));
      const top = Math.round(exact);
      made.rect(`stair ${last} ${id}`, [0, top, pile, low - top], { fill: SAVED[kind], ease: 'both' });
      low = top;
    }
    made.rect(`end ${kind} pile`, [0, y, pile, high], { fill: SAVED[kind], span: [0.8, 1] });
    for (const [id, at, text, px] of /** @type {[string, number, string, number][]} */ ([
      ['times', middle + 0.1 * em, factor(times), size],
      ['saves', middle + 1.4 * em, meta.saves[kind], (narrow ? 1 : 1.2) * em],
    ]))
      made.text(`end ${kind} ${id}`, [pile / 2, at, pile - 4], text, {
        ...{ align: 'center', bold: true, fill: '#fff', size: px, ...late },
      });

    // the stops with stairs, each as high as its gain
    const own = stops.filter(stop => stop.rungs.length),
      others = stops.filter(stop => !stop.rungs.length);
    let foot = y + high;
    for (const { stop, rungs: of } of own) {
      const share = highOf(product(of));
      foot -= share;
      made.rect(`end ${kind} ${stop} part`, [left, foot, long, Math.max(1, share - 1)], {
        ...{ fill: blend(rgb(SAVED[kind]), rgb(paint.background), 0.26), ...late },
      });
    }
    foot = y + high;
    let under = foot; // the top of the label below
    for (const { stop, said, rungs: of } of own) {
      const share = highOf(product(of)),
        both = !narrow && share > 4 * em,
        room = (both ? 2 * LINE : LINE) * em,
        top = Math.max(y, Math.min(under - room, foot - share / 2 - room / 2));
      made.text(
        `end ${kind} ${stop}`,
        [left + 0.6 * em, top + 1.05 * em, long - em],
        `${stop} ${factor(product(of))}`,
        {
          ...{ bold: true, size: both ? 1.15 * em : em, ...late },
        },
      );
      if (both) made.text(`end ${kind} ${stop} is`, [left + 0.6 * em, top + 2.4 * em, long - em], said, late);
      made.add(`end ${kind} ${stop} area`, 'area', [left, top, long, room], {
        datum: { stop },
        tip: [`${stop}: ${said}`, ...of.map(id => `${id}: ${factor(gain(id))}`)].join('\n'),
      });
      [foot, under] = [foot - share, top];
    }
    const row = Math.min(2.2 * em, high / Math.max(1, others.length));
    if (others.length && !titled)
      made.text('end others', [from, middle - (0.5 * others.length + 0.3) * row], meta.words.others, {
        bold: true,
        ...late,
      });
    titled ||= others.length > 0;
    others.forEach(({ stop, said }, n) => {
      const top = middle + (n - others.length / 2) * row;
      made.text(
        `end ${kind} ${stop}`,
        [from, top + row / 2 + 0.35 * em, width - from],
        narrow ? stop : `${stop}: ${said}`,
        {
          ...{ fill: dim, ...late },
        },
      );
      made.add(`end ${kind} ${stop} area`, 'area', [from, top, width - from, row], {
        datum: { stop },
        tip: `${stop}: ${said}`,
      });
    });
    y += high + GAP * em;
  }
}
