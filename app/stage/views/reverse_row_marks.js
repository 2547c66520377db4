// A query's row with numbers. First S above P. Then P is the width of each bar of dP: its average is their level, delta, and
// the area between a bar and the level is dS. Places only.
import { filled } from '../core/follow.js';
import { blend, COLOURS, minus, rgb } from '../core/paint.js';
import { grown, GROWS } from './layouts/reverse_row.js';
import { share } from './reverse_rule.js';

/** @typedef {import('./reverse_marks.js').Now} Now */
/** @typedef {import('../core/kinds.js').Marks} Marks */
/** @typedef {ReturnType<typeof import('./layouts/reverse_row.js').rowLayout>} Layout */

/** @type {(made: Marks, at: Layout, meta: backward.ReverseMeta, now: Now) => void} */
export function addRow(made, at, meta, now) {
  const phase = meta.phases[now.step],
    weights = phase === 'share' ? share(meta.row.P, grown(meta.row), GROWS) : meta.row.P;
  if (at.above) addScores(made, at, meta, now);
  else addBars(made, at, meta, now);
  addWeights(made, at, meta, now, weights);
  addKept(made, at, meta, now);
}

/** P as the widths of a strip. @type {(made: Marks, at: Layout, meta: backward.ReverseMeta, now: Now, weights: number[]) => void} */
function addWeights(made, at, meta, { step, paint, wide }, weights) {
  const { em, big, narrow, left, room, strip } = at,
    { row, row_words: words, sizes } = meta,
    phase = meta.phases[step],
    gone = phase === 'kept',
    shared = phase === 'share',
    [top, high] = strip,
    pale = blend(rgb(COLOURS.P), rgb(paint.background), 0.35),
    whole = row.of === row.keys.length,
    some = filled(words.some, { count: row.keys.length, of: row.of }),
    sized = ['forward', 'kept'].includes(phase),
    title = gone ? words.P_gone : !at.above ? words.wide : whole ? words.P : some,
    right = sized ? `${words.all}: ${sizes.P}` : phase === 'weights' ? words.exp : '';
  made.text('P title', [left, top - 0.55 * em, room], title, { bold: true, size: 1.15 * em });
  made.text('P right', [left + room, top - 0.55 * em, 0.55 * room], right, {
    ...{ align: 'right', bold: true, size: sized ? big : 1.15 * em },
  });
  const before = at.widths(row.P);
  at.widths(weights).forEach(([x, w], n) => {
    const key = filled(words.key, { key: row.keys[n] }),
      value = weights[n].toFixed(2),
      formula = `exp(${minus(row.S[n])} − ${row.LSE < 0 ? `(${minus(row.LSE)})` : minus(row.LSE)})`,
      said = phase === 'weights' && wide(formula) < w - 8 ? formula : wide(key) < w - 6 ? key : `${row.keys[n]}`,
      up = shared ? weights[n] > row.P[n] : true,
      box = [x, top, Math.max(1, w - 3), high];
    made.rect(`P ${n}`, box, {
      ...(gone
        ? { stroke: COLOURS.P, dash: [5, 4] }
        : {
            fill: shared && !up ? pale : COLOURS.P,
            stroke: COLOURS.P,
            ease: 'both',
            enter: { rect: [x, top, 0, high] },
          }),
      datum: { tensor: 'P', key: n },
      tip: gone ? `${key}: P, ${words.gone}` : `${key}: P = ${weights[n].toFixed(4)}`,
    });
    const ink = gone || (shared && !up) ? paint.text : '#fff',
      text = shared ? `${row.P[n].toFixed(2)} → ${value}` : value,
      middle = top + high / 2;
    made.text(`P ${n} key`, [x + w / 2, middle + 1.15 * em + 0.12 * big, w - 4], said, {
      align: 'center',
      fill: ink,
      ease: 'both',
    });
    if (!gone)
      made.text(`P ${n} is`, [x + w / 2, middle + 0.12 * big, w - 4], text, {
        ...{ align: 'center', bold: true, size: shared && !narrow ? 0.85 * big : big, fill: ink, ease: 'both' },
      });
    if (shared && n)
      made.add(`P ${n} before`, 'line', [before[n][0] - 1.5, top - 0.4 * em, 0, 0.3 * high], {
        ...{ stroke: paint.text, width: 2, dash: [4, 4] },
      });
  });
  if (!whole) {
    const [last, own] = at.widths(weights)[weights.length - 1],
      x = last + own;
    made.rect('P others', [x, top, left + room - x, high], { stroke: paint.border, dash: [4, 4] });
    if (!shared) made.text('P others is', [x + 0.4 * em, top + high / 2, left + room - x - 0.5 * em], words.rest);
  }
}

/** S as bars of equal width, and the way of each to its weight. @type {(made: Marks, at: Layout, meta: backward.ReverseMeta,
 *  now: Now) => void} */
function addScores(made, at, meta, { step, paint }) {
  const { em, big, left, room, chart, strip, y } = at,
    { row, row_words: words } = meta,
    phase = meta.phases[step],
    gone = phase === 'kept',
    raised = phase === 'share' ? grown(row) : -1,
    each = room / row.keys.length,
    weights = raised < 0 ? row.P : share(row.P, raised, GROWS),
    places = at.widths(weights),
    title = filled(words.S, { query: row.query });
  made.text('S title', [left, 1.15 * em, room], gone ? words.S_gone : title, {
    bold: true,
    size: 1.15 * em,
  });
  made.rect('S zero', [left, y(0), room, 1], { fill: paint.text });
  row.S.forEach((score, n) => {
    const now = score + (n === raised ? GROWS : 0),
      [from, to] = [y(0), y(now)],
      w = Math.min(0.5 * each, 9 * em),
      middle = left + (n + 0.5) * each,
      box = [middle - w / 2, Math.min(from, to), w, Math.max(1, Math.abs(to - from))],
      key = filled(words.key, { key: row.keys[n] });
    made.rect(`S ${n}`, box, {
      ...(gone
        ? { stroke: COLOURS.S, dash: [5, 4] }
        : { fill: COLOURS.S, stroke: COLOURS.S, ease: 'both', enter: { rect: [box[0], from, w, 0] } }),
      datum: { tensor: 'S', key: n },
      tip: gone ? `${key}: S, ${words.gone}` : `${key}: S = ${minus(now, 4)}`,
    });
    if (n === raised) {
      made.rect(`S ${n} before`, [box[0] - 4, y(score), w + 8, from - y(score)], {
        stroke: paint.text,
        width: 2,
        dash: [4, 4],
      });
      made.text(`S ${n} grows`, [middle, (to + y(score)) / 2 + 0.36 * big, w], words.grows, {
        ...{ align: 'center', bold: true, size: big, fill: '#fff' },
      });
    }
    if (!gone)
      made.text(`S ${n} is`, [middle, now < 0 ? to + big : to - 0.3 * em, each], minus(now), {
        ...{ align: 'center', bold: true, size: big, ease: 'both' },
      });
    if (gone) return;
    const [x, wide_] = places[n],
      end = x + wide_ / 2,
      down = Math.max(chart.bottom, from, to) + (now < 0 ? big : 0) + 0.5 * em;
    made.add(`S ${n} way`, 'way', null, {
      points: [
        [middle, down],
        [end, strip[0] - em - big],
      ],
      ...{ stroke: COLOURS.P, width: 3, head: 0.42 * em, grown: 1, enter: { grown: 0 }, ease: 'both' },
    });
  });
}

/** What memory keeps: the inputs of S, and LSE, left of the lanes. @type {(made: Marks, at: Layout, meta: backward.ReverseMeta,
 *  now: Now) => void} */
function addKept(made, at, meta, { step, paint }) {
  const { em, narrow, big, left, strip, above, chart } = at,
    { row, row_words: words, sizes, parts } = meta,
    phase = meta.phases[step],
    w = left - (narrow ? 1.4 : 2.6) * em,
    gap = left - w;
  if (!above && phase !== 'grades') return;
  /** @type {[string, number, number][]} part, top, height */
  const boxes = [],
    room = chart.bottom - chart.top,
    h = Math.min(0.4 * room, 6 * em),
    first = chart.top + (room - 2.2 * h) / 2;
  (above ? ['Q', 'K'] : ['dO', 'V']).forEach((part, n) => boxes.push([part, first + 1.2 * n * h, h]));
  if (above && phase !== 'forward') boxes.push(['LSE', strip[0], strip[1]]);
  boxes.forEach(([part, y, high]) => {
    const back = rgb(paint.background),
      one = part === 'LSE',
      hue = COLOURS[/** @type {'Q'} */ (part.replace(/^d/, ''))] ?? paint.text,
      fill = one ? paint.text : part === 'dO' ? blend(rgb(COLOURS.O), back, 0.22) : hue,
      ink = one ? paint.background : part === 'dO' ? paint.text : '#fff',
      raised = grown(row),
      // of a row whose score has grown: no longer the kept one
      fresh = row.LSE + (phase === 'share' ? Math.log(1 + row.P[raised] * (Math.exp(GROWS) - 1)) : 0),
      now = phase === 'share' ? filled(words.new, { value: minus(fresh) }) : `${minus(fresh)}, ${words.kept}`,
      text = one ? (narrow ? minus(fresh) : now) : parts[part].said;
    made.rect(`${part} kept`, [2, y, w - 2, high], {
      ...{ fill, stroke: part === 'dO' ? COLOURS.O : fill, width: 2 },
      datum: { tensor: part },
      tip: one
        ? `LSE = m + ln l = ${minus(fresh, 4)}${phase === 'share' ? '' : `, ${words.kept}`}`
        : `${part}: ${parts[part].said}`,
    });
    made.text(`${part} kept is`, [w / 2, y + high / 2 + (narrow ? 0.36 : 0) * em, w - 8], part, {
      ...{ align: 'center', bold: true, fill: ink, size: narrow ? em : big },
    });
    if (!narrow || one)
      made.text(`${part} kept said`, [w / 2, y + high / 2 + (narrow ? 1.7 : 1.5) * em, w - 6], text, {
        ...{ align: 'center', fill: ink, bold: one },
      });
    if (one && phase === 'kept' && !narrow)
      made.text('LSE size', [w / 2, y + high / 2 + 2.9 * em, w - 6], sizes.LSE, { align: 'center', fill: ink });
    if (phase !== 'kept')
      made.add(`${part} kept way`, 'way', null, {
        points: [
          [w + 2, y + high / 2],
          [w + gap - 3, one ? y + high / 2 : chart.top + room / 2 + (y + high / 2 - chart.top - room / 2) * 0.5],
        ],
        ...{ stroke: paint.text, width: 3, head: 0.42 * em, grown: 1, enter: { grown: 0 }, ease: 'both' },
      });
  });
  if (phase === 'forward')
    made.text('softmax', [left, strip[0] - 1.6 * em - big, at.room / 2], words.softmax, {
      bold: true,
      size: 1.15 * em,
    });
}

/** dP over the widths P, their level, and the areas. @type {(made: Marks, at: Layout, meta: backward.ReverseMeta, now: Now) => void} */
function addBars(made, at, meta, { step, paint, row, changed, wide }) {
  const { em, big, narrow, left, room, chart, y } = at,
    { row_words: words, row: own } = meta,
    phase = meta.phases[step],
    back = rgb(paint.background),
    areas = phase === 'hand',
    level = phase !== 'grades',
    end = left + room,
    places = at.widths(own.P),
    heading = chart.top - 0.55 * em;
  made.text('dP title', [left, heading, room], areas ? words.dS : words.dP, { bold: true, size: 1.15 * em });
  const aside = areas && own.of === own.keys.length ? words.zero : phase === 'mean' ? words.same : '';
  if (aside && !narrow)
    made.text('aside', [end, heading, room / 2], aside, { align: 'right', bold: true, size: 1.15 * em });
  places.forEach(([x, w], n) => {
    const value = row.dP[n],
      [from, to] = [y(0), y(value)],
      box = [x, Math.min(from, to), w - 3, Math.max(1, Math.abs(to - from))],
      held = phase === 'hand' && n === changed,
      key = filled(words.key, { key: own.keys[n] });
    made.rect(`dP ${n}`, box, {
      ...{ fill: blend(rgb(COLOURS.P), back, areas ? 0.16 : 0.4), stroke: COLOURS.P, width: 2, ease: 'both' },
      ...{
        enter: { rect: [x, from, w - 3, 0] },
        datum: { tensor: 'dP', key: n },
        tip: `${key}: dP = ${minus(value, 4)}`,
      },
    });
    const under = areas ? value < row.delta : value < 0, // away from the level
      at_y = under ? to + (areas ? 1.15 * em : big + 0.1 * em) : to - 0.5 * em,
      text = `${areas && !narrow ? 'dP ' : ''}${minus(value)}`;
    made.text(`dP ${n} is`, [x + w / 2, at_y, w], text, {
      align: 'center',
      bold: true,
      size: areas ? em : big,
      ease: 'both',
    });
    if (phase === 'hand')
      made.rect(`dP ${n} grip`, held ? [x - 2, to - 5, w + 1, 10] : [x + w / 2 - 1.6 * em, to - 5, 3.2 * em, 10], {
        ...{ fill: paint.primary, stroke: paint.background },
      });
  });
  made.rect('dP zero', [left, y(0), room, 1], { fill: paint.text });
  if (!level) return;
  const line = y(row.delta);
  if (phase === 'mean')
    made.rect('level', [left, Math.min(y(0), line), room, Math.abs(line - y(0))], {
      ...{ fill: paint.text, alpha: 0.16, ease: 'both', enter: { rect: [left, y(0), room, 0] } },
    });
  if (areas)
    places.forEach(([x, w], n) => {
      const to = y(row.dP[n]),
        box = [x, Math.min(line, to), w - 3, Math.max(1.5, Math.abs(to - line))],
        up = row.dS[n] > 0,
        key = filled(words.key, { key: own.keys[n] });
      made.rect(`dS ${n}`, box, {
        ...{ fill: up ? COLOURS.S : blend(rgb(COLOURS.S), back, 0.45), stroke: COLOURS.S, width: 2, ease: 'both' },
        ...{
          enter: { rect: [x, line, w - 3, 0] },
          datum: { tensor: 'dS', key: n },
          tip: `${key}: dS = ${minus(row.dS[n], 4)}`,
        },
      });
      const said = `${narrow ? '' : 'dS '}${minus(row.dS[n])}`,
        full = Math.min(1, (w - 6) / ((wide(said, true) * big) / em)) * big,
        inside = Math.min(full, box[3] / 1.3),
        high = inside >= Math.max(12, 0.9 * em),
        size = Math.max(12, high ? inside : em),
        tag = (wide(said, true) * size) / em + em,
        plate = up ? line + 0.3 * em : line - 0.3 * em - 1.4 * size; // of a low area: on the other side of the level
      if (!high)
        made.rect(`dS ${n} tag`, [x + (w - tag) / 2, plate, tag, 1.4 * size], {
          ...{ fill: paint.background, stroke: COLOURS.S, width: 2, ease: 'both' },
        });
      made.text(
        `dS ${n} is`,
        [x + w / 2, high ? box[1] + box[3] / 2 + 0.36 * size : plate + 1.06 * size, w - 4],
        said,
        {
          ...{ align: 'center', bold: true, size, fill: high && up ? '#fff' : paint.text, ease: 'both' },
        },
      );
    });
  made.rect('delta', [left, line - 2, room, 4], {
    fill: paint.text,
    ease: 'both',
    enter: { rect: [left, y(0), room, 2] },
  });
  made.add('delta area', 'area', [0, line - em, end, 2 * em], {
    datum: { tensor: 'delta' },
    tip: `delta = ${minus(row.delta, 4)}`,
  });
  made.text('delta is', [left - 0.5 * em, line - 0.1 * em, left - em], words.delta, {
    align: 'right',
    bold: true,
    size: 1.15 * em,
    ease: 'both',
  });
  made.text('delta value', [left - 0.5 * em, line + (narrow ? 1.1 : 0.85) * big, left - em], minus(row.delta), {
    ...{ align: 'right', bold: true, size: big, ease: 'both' },
  });
  const few = (/** @type {number} */ one) => one.toFixed(narrow && !areas ? 3 : 4),
    within = (/** @type {number} */ one) => (one < 0 ? `(${minus(one)})` : minus(one)),
    n = phase === 'hand' ? changed : row.dP.indexOf(Math.max(...row.dP)),
    terms = own.keys.map((_, k) => `${few(row.P[k])} × ${within(row.dP[k])}`),
    rest = own.of === own.keys.length ? [] : [words.rest],
    all = areas
      ? `${filled(words.key, { key: own.keys[n] })}: ${few(row.P[n])} × (${minus(row.dP[n])} − ${within(row.delta)}) = ${minus(row.dS[n])}`
      : `${[...terms, ...rest].join(' + ')} = ${minus(row.delta)}`,
    size = Math.max(12, Math.min(1.3 * em, (em * room) / wide(all, true)));
  made.text('sum', [narrow ? 2 : left, at.height - 0.6 * em, narrow ? at.width - 4 : room], all, { bold: true, size });
}
