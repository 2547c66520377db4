// What the changes saved, of the course's end: the layers of the last stair, piled up by what they save. A pile is as high as
// its gain on the stairs' scale, so the piles together are as high as the last stair. Next to a pile are its stops.
import { filled } from '../core/follow.js';
import { amount, blend, COLOURS, PALETTE, rgb, short } from '../core/paint.js';
import { wrapped } from '../core/wrapped.js';

const NARROW = 600; // pixels
const LINE = 1.35; // em: a stop
const HEAD = 4.8; // em: the whole, and below it what fewer trips gain
const TALL = 12.5; // em: the same in a narrow picture
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
export const isNarrow = (/** @type {number} */ width) => width < NARROW;
const headOf = (/** @type {number} */ width) => (isNarrow(width) ? TALL : HEAD);

/** Heights from the bottom up that are so far apart, between two ends, near the wanted ones.
 *  @param {number[]} wanted @param {number} step @param {number} top @param {number} bottom */
function apart(wanted, step, top, bottom) {
  const found = [...wanted];
  found.forEach((one, n) => (found[n] = Math.min(one, n ? found[n - 1] - step : bottom)));
  for (let n = found.length - 1; n >= 0; n--)
    found[n] = Math.max(found[n], n === found.length - 1 ? top : found[n + 1] + step);
  return found;
}

/** @param {{width: number, em: number}} size @param {timing.RungsMeta} meta @param {Record<string, number>} us */
export function endHeight({ width, em }, meta, us) {
  const { piles, whole } = pilesOf(meta, us),
    // the stops of each pile fit beside its share of the height
    need = piles.map(({ stops, times }) => {
      const own = stops.filter(({ rungs }) => rungs.length).length;
      return (LINE * Math.max(own, 2.2) * Math.log(whole)) / Math.log(times);
    });
  return (headOf(width) + Math.max(...need) + GAP * (piles.length - 1) + 0.4) * em;
}

/** @type {import('./rungs_marks.js').Adds} */
export function addEnd(made, { width, height, em }, meta, now, paint, wide) {
  const { us } = now.problem,
    { piles, stairs, gain, product, whole } = pilesOf(meta, us),
    narrow = isNarrow(width),
    last = stairs[stairs.length - 1],
    pile = (narrow ? 0.25 : 0.3) * width,
    [left, long] = [pile + 3, (narrow ? 0.12 : 0.06) * width], // of the stops with stairs: their bands
    beside = left + long + 1.2 * em, // their labels
    from = (narrow ? 0.7 : 0.68) * width, // of the others
    room = from - beside - 0.6 * em, // for a label
    dim = blend(rgb(paint.text), rgb(paint.background), 0.72),
    late = { span: [0.6, 1] },
    factor = (/** @type {number} */ times) => `\u00d7\u00a0${short(times, 3)}`,
    title = filled(meta.words.whole, {
      ...{ before: timeOf(us[stairs[0]]), after: timeOf(us[last]), times: short(whole, 3) },
      factors: [...piles]
        .reverse()
        .map(({ times }) => factor(times))
        .join(' '),
    }),
    titles = wrapped(title, width, 2, one => wide(one, true, 1.2 * em)),
    trips = meta.trips.flatMap(text =>
      wrapped(text.replaceAll('\u00d7 ', '\u00d7\u00a0'), width, 4, one => wide(one, false, em)),
    ),
    under = (1.2 + 1.5 * titles.length) * em,
    head = under + (1.3 * trips.length - 0.7) * em,
    tall = height - head - (GAP * (piles.length - 1) + 0.4) * em,
    highOf = (/** @type {number} */ times) => (tall * Math.log(times)) / Math.log(whole);
  titles.forEach((line, n) =>
    made.text(`end whole ${n}`, [0, (1.25 + 1.5 * n) * em], line, { bold: true, size: 1.2 * em }),
  );
  trips.forEach((line, n) => made.text(`end trips ${n}`, [0, under + 1.3 * n * em], line, {}));
  if (wide(title, true, 1.2 * em) < from - em)
    made.text('end scale', [from, 1.25 * em, width - from], meta.words.scale, { fill: dim });
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
    const own = stops.filter(stop => stop.rungs.length);
    let foot = y + high;
    for (const { stop, rungs: of } of own) {
      const share = highOf(product(of));
      foot -= share;
      made.rect(`end ${kind} ${stop} part`, [left, foot, long, Math.max(1, share - 1)], {
        ...{ fill: blend(rgb(SAVED[kind]), rgb(paint.background), 0.4), ...late },
      });
    }
    // the labels are beside their bands, each with a short line to it
    const step = LINE * em,
      bands = own.map(({ rungs: of }) => highOf(product(of))),
      rows = bands.map((share, n) => y + high - bands.slice(0, n).reduce((all, one) => all + one, 0) - share / 2);
    const at = apart(rows, step, y + 0.5 * step, y + high - 0.5 * step);
    own.forEach(({ stop, said, rungs: of }, n) => {
      const label = `${stop} ${factor(product(of))}`,
        isFree = (at[n - 1] ?? Infinity) - at[n] > 2.4 * em && at[n] - (at[n + 1] ?? -Infinity) > 1.7 * em,
        both = !narrow && isFree && bands[n] > 3 * em && wide(said, false, em) < room,
        lines = narrow ? wrapped(label, room, 2, one => wide(one, true, em)) : [label],
        top = at[n] - (both || lines.length > 1 ? 0.3 : -0.35) * em;
      made.add(`end ${kind} ${stop} line`, 'line', [left + long + 1, rows[n], 0.9 * em, at[n] - rows[n]], {
        ...{ stroke: dim, ...late },
      });
      lines.forEach((line, row) =>
        made.text(`end ${kind} ${stop}${row || ''}`, [beside, top + 1.25 * row * em, room], line, {
          bold: true,
          ...late,
        }),
      );
      if (both) made.text(`end ${kind} ${stop} is`, [beside, top + 1.3 * em, room], said, late);
      made.add(`end ${kind} ${stop} area`, 'area', [left, at[n] - 0.6 * em, long + room, 1.2 * em], {
        datum: { stop },
        tip: [`${stop}: ${said}`, ...of.map(id => `${id}: ${factor(gain(id))}`)].join('\n'),
      });
    });
    y += high + GAP * em;
  }

  // the stops without a stair
  const others = meta.ends
      .filter(({ rungs }) => !rungs.length)
      .sort((one, other) => parseInt(one.stop, 10) - parseInt(other.stop, 10)),
    row = Math.min(2.2 * em, (height - head) / (others.length + 1));
  made.text('end others', [from, head + 1.1 * em, width - from], meta.words.others, { bold: true, ...late });
  others.forEach(({ stop, said, saves }, n) => {
    const top = head + (n + 1) * row;
    made.text(
      `end ${saves} ${stop}`,
      [from, top + 0.5 * row + 0.35 * em, width - from],
      narrow ? stop : `${stop}: ${said}`,
      { fill: dim, ...late },
    );
    made.add(`end ${saves} ${stop} area`, 'area', [from, top, width - from, row], {
      datum: { stop },
      tip: `${stop}: ${said}`,
    });
  });
}
