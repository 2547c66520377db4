// A query's row with numbers: a score makes the width P of a bar, dP its height. The level of the bars, delta, is the loss of
// the query, and the area between a bar and the level is dS. Places only.
import { filled } from '../core/follow.js';
import { blend, COLOURS, guided, minus, rgb } from '../core/paint.js';
import { addBox, addLoss } from './reverse_parts.js';

/** @typedef {import('./reverse_marks.js').Now} Now */
/** @typedef {import('../core/kinds.js').Marks} Marks */
/** @typedef {ReturnType<typeof import('./layouts/reverse_row.js').rowLayout>} Layout */

const signed = (/** @type {number} */ value) => (value < 0 ? minus(value) : `+${minus(value)}`);

/** @type {(made: Marks, at: Layout, meta: backward.ReverseMeta, now: Now) => void} */
export function addRow(made, at, meta, now) {
  const phase = meta.phases[now.step],
    { narrow, label, left, end, scores, weights, grades, loss } = at,
    { paint, row, wide } = now,
    back = rgb(paint.background),
    { row: own } = meta;
  for (const [part, [y, h]] of /** @type {[string, number[]][]} */ ([
    ['S', scores],
    ['P', weights],
    ['dP', grades],
  ])) {
    const high = weights[1],
      top = part === 'S' ? y + (h - high) / 2 : y;
    made.rect(`${part} lane`, [left, y, end - left, h], { fill: blend(rgb(paint.panel), back, 0.6) });
    addBox(
      made,
      [2, top, label - 2, high],
      { name: part, said: narrow ? '' : meta.parts[part].said, size: at.big },
      now,
    );
  }
  if (phase === 'hand') {
    const box = [2, grades[0] + weights[1] + 0.6 * made.em, label - 2, weights[1]];
    addBox(made, box, { name: 'dS', said: narrow ? '' : meta.parts.dS.said, size: at.big }, now);
  }
  addScores(made, at, meta, now);
  addWeights(made, at, meta, now);
  addBars(made, at, meta, now);
  const change = row.delta - own.delta,
    due = phase === 'hand' ? now.due : null;
  addLoss(made, loss, {
    ...{
      y: at.grade.y,
      value: row.delta,
      name: meta.map_words.loss,
      said: narrow ? meta.map_words.toy.split(': ')[1] : meta.map_words.toy,
      big: at.big,
      narrow,
      wide,
    },
    ...(Math.abs(change) > 5e-3 && { before: own.delta, change: signed(change) }),
    ...(due !== null && { due, dueSaid: `${meta.row_words.slope} ${signed(due)}` }),
    paint,
  });
}

/** A score of a key as a bar, and how it has moved. @type {(made: Marks, at: Layout, meta: backward.ReverseMeta, now: Now) => void} */
function addScores(made, at, meta, { step, paint, row, changed }) {
  const { em, big, narrow, left, scores, score } = at,
    { row_words: words, row: own } = meta,
    phase = meta.phases[step],
    hand = phase !== 'grades',
    back = rgb(paint.background),
    zero = score.y(0);
  made.rect('S zero', [left, zero, at.room, 1], { fill: paint.text });
  if (hand)
    made.text('S drag', [at.end - 0.6 * em, scores[0] + scores[1] - 0.7 * em, at.room], words.drag, {
      ...{ align: 'right', bold: true, fill: paint.primary },
    });
  row.S.forEach((value, n) => {
    const to = score.y(value),
      from = score.y(own.S[n]),
      [left, each] = at.columns[n],
      w = Math.min(0.42 * each, 7 * em),
      middle = left + each / 2,
      box = [middle - w / 2, Math.min(zero, to), w, Math.max(2, Math.abs(to - zero))],
      key = filled(words.key, { key: own.keys[n] }),
      moved = value - own.S[n],
      held = hand && n === changed,
      size = narrow ? em : big,
      beside = (/** @type {number} */ y, /** @type {string} */ text) =>
        made.text(`S ${n} moved`, [middle + w / 2 + 0.5 * em, y + 0.36 * size, each / 2 - w / 2 - 0.6 * em], text, {
          ...{ bold: true, size },
        });
    made.rect(`S ${n}`, box, {
      ...{ fill: COLOURS.S, stroke: COLOURS.S, datum: { tensor: 'S', key: n }, tip: `${key}: S = ${minus(value, 4)}` },
    });
    if (Math.abs(moved) > 5e-3) {
      made.rect(`S ${n} before`, [box[0] - 4, Math.min(from, zero), w + 8, Math.max(2, Math.abs(from - zero))], {
        ...{ stroke: paint.text, width: 2, dash: [4, 4] },
      });
      beside(to, signed(moved));
    } else if (held && phase === 'hand') {
      const up = score.y(value + 1);
      made.rect(`S ${n} one`, [box[0], up, w, to - up], {
        ...{ fill: blend(rgb(COLOURS.S), back, 0.12), stroke: COLOURS.S, width: 2, dash: [4, 4] },
      });
      beside((up + to) / 2, '+1');
    }
    if (hand)
      made.rect(
        `S ${n} grip`,
        held ? [middle - w / 2 - 2, to - 5, w + 4, 10] : [middle - 1.4 * em, to - 4, 2.8 * em, 8],
        {
          ...{ fill: paint.primary, stroke: paint.background, width: 2 },
        },
      );
  });
}

/** P as widths. @type {(made: Marks, at: Layout, meta: backward.ReverseMeta, now: Now) => void} */
function addWeights(made, at, meta, { step, paint, row, wide }) {
  const { em, big, left, room, weights } = at,
    { row: own, row_words: words } = meta,
    phase = meta.phases[step],
    [top, high] = weights,
    places = at.widths(row.P),
    before = at.widths(own.P),
    whole = own.of === own.keys.length;
  places.forEach(([x, w], n) => {
    const key = filled(words.key, { key: own.keys[n] }),
      value = phase === 'share' ? row.P[n].toFixed(2) : key,
      size = Math.max(em, Math.min(phase === 'share' ? big : 1.2 * em, (w - 6) / (wide(value, true) / em)));
    made.rect(`P ${n}`, [x, top, Math.max(1, w - 3), high], {
      ...{ fill: COLOURS.P, stroke: COLOURS.P, datum: { tensor: 'P', key: n } },
      tip: `${key}: P = ${row.P[n].toFixed(4)}`,
    });
    if (w > 2 * size)
      made.text(`P ${n} is`, [x + w / 2 - 1.5, top + high / 2 + 0.36 * size, w - 4], value, {
        ...{ align: 'center', bold: true, size, fill: '#fff' },
      });
    if (phase === 'share' && n)
      made.add(`P ${n} before`, 'line', [before[n][0] - 1.5, top - 0.8 * em, 0, 0.8 * em], {
        ...{ stroke: paint.text, width: 2, dash: [4, 4] },
      });
  });
  if (whole) return;
  const [last, own_width] = places[places.length - 1],
    x = last + own_width;
  made.rect('P others', [x, top, left + room - x, high], { stroke: paint.border, dash: [4, 4] });
  made.text('P others is', [x + 0.4 * em, top + high / 2 + 0.36 * em, left + room - x - 0.5 * em], words.rest);
}

/** dP over the widths P, their level, and the areas. @type {(made: Marks, at: Layout, meta: backward.ReverseMeta, now: Now) => void} */
function addBars(made, at, meta, { step, paint, row, changed, wide }) {
  const { em, big, narrow, left, room, end, grade, loss } = at,
    { row_words: words, row: own } = meta,
    phase = meta.phases[step],
    back = rgb(paint.background),
    areas = phase === 'hand',
    zero = grade.y(0),
    line = grade.y(row.delta);
  at.widths(row.P).forEach(([x, w], n) => {
    const value = row.dP[n],
      to = grade.y(value),
      key = filled(words.key, { key: own.keys[n] }),
      box = [x, Math.min(zero, to), Math.max(1, w - 3), Math.max(1, Math.abs(to - zero))];
    made.rect(`dP ${n}`, box, {
      ...{ fill: blend(rgb(COLOURS.P), back, areas ? 0.16 : 0.35), stroke: COLOURS.P, width: 2 },
      ...{ datum: { tensor: 'dP', key: n }, tip: `${key}: dP = ${minus(value, 4)}` },
      enter: { rect: [x, zero, w - 3, 0] },
    });
    if (phase === 'grades')
      made.text(`dP ${n} is`, [x + w / 2, value < 0 ? to + big : to - 0.4 * em, w], minus(value), {
        ...{ align: 'center', bold: true, size: big },
      });
    if (!areas) return;
    const dS = row.dS[n],
      area = [x, Math.min(line, to), Math.max(1, w - 3), Math.max(1.5, Math.abs(to - line))],
      said = signed(dS),
      size = Math.max(em, Math.min(big, (w - 8) / (wide(said, true) / em), area[3] / 1.3)),
      inside = area[3] >= 1.3 * size;
    made.rect(`dS ${n}`, area, {
      ...{
        fill: dS > 0 ? COLOURS.S : blend(rgb(COLOURS.S), back, 0.4),
        stroke: n === changed ? paint.text : COLOURS.S,
      },
      ...{ width: n === changed ? 3 : 2, enter: { rect: [x, line, w - 3, 0] } },
      ...{ datum: { tensor: 'dS', key: n }, tip: `${key}: dS = ${minus(dS, 4)}` },
    });
    made.text(
      `dS ${n} is`,
      [x + w / 2 - 1.5, inside ? area[1] + area[3] / 2 + 0.36 * size : area[1] - 0.3 * em, w - 4],
      said,
      {
        ...{ align: 'center', bold: true, size, fill: inside && dS > 0 ? '#fff' : paint.text },
      },
    );
  });
  if (zero < at.grades[0] + at.grades[1] - 4) made.rect('dP zero', [left, zero, room, 1], { fill: paint.text });
  made.rect('delta', [left, line - 2, loss[0] - left, 4], {
    fill: paint.text,
    enter: { rect: [left, line - 2, 0, 4] },
  });
  made.add('delta area', 'area', [left, line - 0.6 * em, room, 1.2 * em], {
    ...{ datum: { tensor: 'delta' }, tip: `delta = ${minus(row.delta, 4)}` },
  });
  if (!areas || Math.abs(row.delta - own.delta) < 5e-3)
    made.text('delta is', [end - 0.4 * em, line - 0.6 * em, room / 2], phase === 'grades' ? words.delta : words.level, {
      ...{ align: 'right', bold: true, size: narrow ? em : 1.2 * em },
    });
  if (areas) {
    const said = `dS ${meta.short.dS}`,
      long = `${words.area} ${said}`,
      text = (wide(long, true) * big) / em < room - em ? long : said;
    made.text('dS formula', [end - 0.4 * em, at.grades[0] + 1.1 * big], text, {
      align: 'right',
      bold: true,
      size: big,
    });
  }
  if (guided() || phase === 'share') return;
  const within = (/** @type {number} */ one) => (one < 0 ? `(${minus(one)})` : minus(one)),
    terms = own.keys.map((_, k) => `${row.P[k].toFixed(4)} × ${within(row.dP[k])}`),
    rest = own.of === own.keys.length ? [] : [words.rest],
    key = filled(words.key, { key: own.keys[changed] }),
    all = areas
      ? `${key}: ${row.P[changed].toFixed(4)} × (${minus(row.dP[changed])} − ${within(row.delta)}) = ${minus(row.dS[changed])}`
      : `${[...terms, ...rest].join(' + ')} = ${minus(row.delta)}`;
  made.text('sum', [end - 0.4 * em, at.grades[0] + (areas ? 1.1 * big + 1.6 * em : 1.3 * em), room - em], all, {
    align: 'right',
    bold: true,
  });
}
