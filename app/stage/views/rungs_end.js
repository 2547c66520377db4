// What the changes saved, at the end of the course: the layers of the last stair as three piles next to each other, on the
// stairs' scale. Each riser has its name in it, or next to it.
import { amount, blend, COLOURS, PALETTE, rgb, short } from '../core/paint.js';
import { filled } from '../core/follow.js';
import { wrapped } from '../core/wrapped.js';

const THIN = 1.2; // a gain
const NARROW = 600; // pixels
const HEAD = 4.4; // em: a pile's factor and name
const FOOT = 2.2; // em: the stops without a riser
const LEAST = 22; // em: the highest pile

/** @type {Record<string, string>} what a change saves -> its colour */
export const SAVED = { trips: COLOURS.read, waiting: PALETTE.wavefronts.conflict, work: COLOURS.S };

/** @type {(us: number) => string} */
export const timeOf = us =>
  amount(us, [
    [1e3, 'ms'],
    [1, '\u00b5s'],
  ]);

export const isNarrow = (/** @type {number} */ width) => width < NARROW;

/** @param {{width: number, em: number}} size */
export const endHeight = ({ width, em }) => (isNarrow(width) ? 30 : HEAD + LEAST + FOOT + 1.3) * em;

/** @type {import('./rungs_marks.js').Adds} */
export function addEnd(made, { width, height, em }, meta, now, paint, wide) {
  const { us } = now.problem,
    { stairs } = now,
    narrow = isNarrow(width),
    last = stairs[stairs.length - 1],
    gain = (/** @type {string} */ id) => us[stairs[stairs.indexOf(id) - 1]] / us[id],
    rowOf = (/** @type {string} */ id) => /** @type {timing.Rung} */ (meta.rungs.find(one => one.id === id)),
    piles = Object.keys(meta.saves).map(kind => {
      const rungs = stairs.filter(id => rowOf(id).saves === kind);
      return { kind, rungs, times: rungs.reduce((all, id) => all * gain(id), 1) };
    }),
    most = Math.max(...piles.map(({ times }) => times)),
    dim = blend(rgb(paint.text), rgb(paint.background), 0.72),
    late = { span: [0.6, 1] },
    factor = (/** @type {number} */ times) => `\u00d7\u00a0${short(times, 3)}`,
    // a narrow pile has no room next to its thin risers
    thin = narrow ? piles.flatMap(({ rungs }) => rungs.filter(id => gain(id) < THIN)) : [],
    listed = thin.map(id => `${rowOf(id).short} ${factor(gain(id))}`).join(', '),
    notes = [listed && filled(meta.words.thin, { listed }), meta.others]
      .filter(Boolean)
      .flatMap(text => wrapped(text, width, 3, one => wide(one, false, em))),
    large = (narrow ? 1.15 : 1.4) * em,
    race = narrow ? wrapped(meta.race, width, 5, one => wide(one, true, large)) : [], // below. Else over a low pile
    below = race.length * 1.3 * large + (race.length ? 0.6 * em : 0),
    foot = height - (0.9 + 1.3 * notes.length) * em - below,
    tall = foot - HEAD * em,
    gap = (narrow ? 0.6 : 1.6) * em,
    each = (width - 2 * gap) / piles.length,
    pile = narrow ? each : each - wide('one pass', true, em) - 1.3 * em;
  piles.forEach(({ kind, rungs, times }, n) => {
    const x = n * (each + gap),
      high = (tall * Math.log(times)) / Math.log(most),
      head = foot - high - HEAD * em,
      size = (narrow ? 1.9 : 2.8) * em;
    made.text(`end ${kind} times`, [x, head + 2.4 * em], factor(times), {
      bold: true,
      fill: SAVED[kind],
      size,
      ...late,
    });
    made.text(`end ${kind} saves`, [x, head + 3.9 * em, each], meta.saves[kind], {
      ...{ bold: true, fill: SAVED[kind], size: (narrow ? 1 : 1.3) * em, ...late },
    });
    let y = foot;
    for (const id of rungs) {
      const own = (high * Math.log(gain(id))) / Math.log(times),
        { short: name, ways, said, where } = rowOf(id),
        inside = own > 1.5 * em,
        tops = ways.map(([title]) => title.split(' ')[0]),
        stops = [meta.words.stop.replace('{n}', tops.join(', ')), where].filter(Boolean).join(', ');
      y -= own;
      made.rect(`stair ${last} ${id}`, [x, y, pile, Math.max(1.5, own - 1.5)], {
        fill: SAVED[kind],
        alpha: 1,
        ease: 'both',
      });
      made.add(`end ${id} area`, 'area', [x, y, each, own], {
        datum: { row: id },
        tip: [`${id}: ${said}`, factor(gain(id)), ...ways.map(([title]) => title)].join('\n'),
      });
      if (inside) {
        const two = own > 3.2 * em && tops.length > 0,
          middle = y + own / 2 + (two || (narrow && own > 3 * em) ? -0.3 : 0.35) * em,
          at = x + (narrow ? 0.4 : 0.8) * em,
          white = { fill: '#fff', ...late };
        if (narrow && own > 3 * em) {
          made.text(`end ${id} is`, [at, middle, pile - 0.8 * em], name, { bold: true, ...white });
          made.text(`end ${id} gain`, [at, middle + 1.35 * em], factor(gain(id)), white);
          if (own > 5 * em) made.text(`end ${id} where`, [at, middle + 2.7 * em, pile - 0.8 * em], where, white);
        } else {
          const room = pile - (narrow ? 0.8 : 1.6) * em;
          made.text(`end ${id} is`, [at, middle, narrow ? room - wide(factor(gain(id)), false, em) - 4 : room], name, {
            ...{ bold: true, ...white, size: (narrow ? 1 : 1.1) * em },
          });
          made.text(`end ${id} gain`, [at + room, middle], factor(gain(id)), {
            ...{ align: 'right', bold: !narrow, ...white, size: (narrow ? 1 : 1.1) * em },
          });
          if (two) made.text(`end ${id} stop`, [at, middle + 1.4 * em], stops, white);
        }
      } else if (!narrow) {
        const thin = y + own / 2,
          at = x + pile + 0.9 * em;
        made.rect(`end ${id} line`, [x + pile + 2, thin, 0.6 * em, 1], { fill: dim, ...late });
        made.text(`end ${id} is`, [at, thin + 0.35 * em], name, { bold: true, ...late });
        made.text(`end ${id} gain`, [at, thin + 1.6 * em], factor(gain(id)), { fill: dim, ...late });
      }
    }
    // in the empty places over the low piles: the race, and the product of all
    if (!n && !narrow)
      wrapped(meta.race, each, 8, one => wide(one, true, large)).forEach((line, at) =>
        made.text(`race ${at}`, [x, (1.3 * at + 1) * large], line, { bold: true, size: large, ...late }),
      );
    if (n === piles.length - 1 && head > 5 * em) {
      made.text('end whole', [x, 1.3 * em], meta.words.together, {
        bold: true,
        size: (narrow ? 1 : 1.3) * em,
        ...late,
      });
      made.text('end product', [x, 4 * em], factor(us[stairs[0]] / us[last]), {
        ...{ bold: true, size: (narrow ? 1.9 : 2.8) * em, ...late },
      });
    }
  });
  made.rect('end ground', [0, foot, width, 1.5], { fill: dim });
  notes.forEach((line, n) => made.text(`end others ${n}`, [0, foot + below + (1.6 + 1.3 * n) * em], line, late));
  race.forEach((line, n) =>
    made.text(`race ${n}`, [0, foot + 0.5 * em + 1.3 * (n + 1) * large], line, { bold: true, size: large, ...late }),
  );
}
