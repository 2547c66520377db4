// One row of the online softmax: its scores and the running max, each key's weight as it counts now
// and their sum, and O's row.
import { canvasView } from '../core/canvas.js';
import { COLOURS, PALETTE, exact, short, smallText, theme, widest } from '../core/paint.js';
import { rowLayout } from './layouts/row.js';
import { ROW_KINDS } from './row_kinds.js';
import { rowMarks, rowTime } from './row_marks.js';
import { num, rowModel } from './row_model.js';

const LEGEND = [
  [`background:${COLOURS.S}`, 'score'],
  [`background:${COLOURS.P}`, 'weight'],
  [`background:${COLOURS.O}`, 'O'],
  [`background:${COLOURS.P};opacity:0.3`, 'before the factor'],
  ['height:3px;background:currentColor', 'max so far, by tile (in weights and O: float64)'],
  ['height:0;border-top:2px dashed currentColor;vertical-align:middle', 'running max m'],
  [`background:${PALETTE.wrong}`, 'wrong, NaN or infinite'],
];

/** @type {Picture<online_softmax.RowMeta>} */
export default function (host, { meta, columns }, context) {
  const { frames, row, ordinary, keys } = meta,
    { scores, weights, o } = columns,
    model = rowModel(meta, columns),
    { n, d } = model,
    last = frames.length - 1,
    frameAt = step => frames[Math.min(step, last)];
  const scales = [...model.range, 0, model.weightTop, ...model.spans.flatMap(span => [-span, span])],
    labels = scales.filter(v => Number.isFinite(v) && (!v || Math.abs(v) > 1e-29)).map(value => short(value, 2));
  let laid;

  const layout = size => {
    const font = `${smallText(size.em)}px ${theme(host).mono}`,
      left = Math.round(Math.max(size.em * 4.2, widest(labels, font) + 6)),
      counts = { score: n, weight: n, o: d };
    laid = { em: size.em, ...rowLayout(size, { sum: !ordinary, counts, left }) };
    return laid.height;
  };
  const marks = ({ step, paint }) => rowMarks(model, laid, { step: Math.min(step, last), paint });
  const over = (g, { at, paint }) => {
    if (!at) return;
    const { y, h, each } = laid.panels[at.kind];
    g.strokeStyle = paint.primary;
    g.lineWidth = 2;
    g.strokeRect(laid.left + at.index * each, y, each, h);
  };

  const describe = (at, step) => {
    const frame = frameAt(step),
      i = at.index,
      place = Math.min(step, last),
      scaled = frame.o >= 0 && columns.o_factor[place] !== 1;
    if (at.kind === 'score')
      return i < frame.keys
        ? `score[${row}, ${keys[i]}] = ${exact(scores[i])}`
        : `score[${row}, ${keys[i]}] is not computed yet`;
    if (at.kind === 'weight') {
      if (i >= frame.weighed) return `key ${keys[i]} has no weight yet`;
      const weight = model.weight(place, i),
        said = ordinary || weight === weights[i] ? exact(weights[i]) : short(weight, 7);
      const forMax = ordinary ? '' : ' for this m';
      return `weight of key ${keys[i]} = ${said}, float64${forMax} ${short(model.due(place, i), 7)}`;
    }
    if (at.kind === 'sum')
      return frame.l === null
        ? 'l is not begun'
        : `l = ${exact(num(frame.l))}` +
            (columns.l_factor[place] === 1 ? '' : `, now ${short(columns.l[place], 7)} by the factor`);
    return frame.o < 0
      ? `O[${row}, ${i}] is not begun`
      : `O[${row}, ${i}]${frame.group === 'final' ? '' : ' so far'} = ${exact(o[frame.o * d + i])}` +
          (scaled ? `, now ${short(model.oAt(place, i), 7)} by the factor` : '') +
          (frame.group === 'final' ? `, float64 ${short(model.oTrue[i], 9)}` : '');
  };
  const areas = () =>
    Object.values(laid.panels).map(({ kind, y, h, each }) => {
      const columns = Math.round(laid.w / each);
      return {
        rect: [laid.left, y, laid.w, h],
        datum: { kind },
        grid: { columns, count: columns, thing: index => ({ kind, index }) },
      };
    });
  const label = step => `${frameAt(step).title}. ${frameAt(step).sentence}`;
  return canvasView(host, context, {
    title: `Row ${row}`,
    layout,
    marks,
    over,
    kinds: ROW_KINDS,
    ms: step => rowTime(frameAt(step)),
    areas,
    describe,
    label,
    legend: LEGEND,
  });
}
