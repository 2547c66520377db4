// The backward of attention, tile by tile: the chain of a block's tiles on its SM with its five
// products, the gradients that grow in registers or are added in memory, and global memory as strips.
import { canvasView } from '../core/canvas.js';
import { COLOURS, PALETTE, exact } from '../core/paint.js';
import { backwardLayout } from './layouts/backward.js';
import { backwardMarks, backwardTime } from './backward_marks.js';
import { GROWING, SQUARES, absentOf, alongKeys, backwardModel } from './backward_model.js';

const LEGEND = [
  [`border:3px solid ${COLOURS.S}`, 'made now'],
  ['border:3px solid currentColor', 'input of this step'],
  [`background:color-mix(in srgb,${PALETTE.sign.above} 25%,transparent)`, 'pale: not on the SM now'],
  ['background:repeating-linear-gradient(135deg,currentColor 0 1px,transparent 1px 5px)', 'P so far'],
  [`border:3px solid ${COLOURS.read}`, 'read from global memory'],
  [`border:3px solid ${COLOURS.written}`, 'written'],
  [
    'background:linear-gradient(90deg,color-mix(in srgb,currentColor 60%,transparent) 50%,' +
      'color-mix(in srgb,currentColor 30%,transparent) 50%)',
    'written by this block, by others',
  ],
  [
    `background:linear-gradient(90deg,${PALETTE.sign.below},transparent,${PALETTE.sign.above})`,
    'below zero, above zero',
  ],
  ['', "LSE: a row's log(sum(exp(S)))"],
];
const IN_FLIGHT = [`border:3px dashed ${COLOURS.S}`, 'in flight: the tensor cores multiply'];

/** @type {Picture<backward.BackwardMeta>} */
export default function (host, { meta, columns }, context) {
  const model = backwardModel(host, meta, columns),
    { d, n, keys, frameAt } = model;
  let laid,
    step = 0;

  const layout = size => {
    laid = backwardLayout(size, model);
    return laid.height;
  };
  const marks = now => {
    step = now.step;
    return backwardMarks(model, laid, { ...now, hide: context.clock.hide });
  };
  const over = (g, { at, paint }) => {
    const box = at && boxOfThing(at);
    if (!box) return;
    g.strokeStyle = paint.primary;
    g.lineWidth = 1.5;
    g.strokeRect(...box);
  };
  // A cell on the SM, or a row of a strip.
  const boxOfThing = at => {
    const { heldUnit: unit, held, strips, across, down } = laid,
      frame = frameAt(step);
    if (at.strip) {
      const [x, y, w, h] = strips[at.tensor] ?? [0, 0, 0, 0];
      return alongKeys(at.tensor)
        ? [x + at.key * across, y, Math.max(across, 1), h]
        : [x, y + at.query * down, w, Math.max(down, 1)];
    }
    if (at.box === undefined || !held[at.box]) return null;
    const [x, y] = held[at.box],
      keys = alongKeys(at.box),
      col = at.dim ?? at.key - (frame.keys?.[0] ?? 0),
      row = keys ? at.key - (frame.keys?.[0] ?? 0) : at.query - (frame.queries?.[0] ?? 0);
    return [x + col * unit, y + row * unit, unit, unit];
  };

  const gridOf = (rect, columns, count, datum, thing) => ({
    rect,
    datum,
    grid: {
      columns,
      count,
      thing: number => ({ ...datum, ...thing(number % columns, Math.floor(number / columns)) }),
    },
  });
  const areas = now => {
    const frame = frameAt(now.step),
      { held, heldUnit, strips, map } = laid,
      [query, key] = [frame.queries?.[0] ?? 0, frame.keys?.[0] ?? 0];
    const boxes = Object.entries(held).filter(([box]) => box !== absentOf(frame) && model.logs(box));
    return [
      ...(map
        ? [
            gridOf(map, keys, n * keys, { tensor: 'P', map: true }, (x, y) => ({
              query: y,
              key: x,
            })),
          ]
        : []),
      ...Object.entries(strips)
        .filter(([tensor]) => model.parts.includes(tensor))
        .map(([tensor, rect]) =>
          alongKeys(tensor)
            ? gridOf(rect, keys, keys, { tensor, strip: true }, x => ({ key: x }))
            : gridOf(rect, 1, n, { tensor, strip: true }, (_, y) => ({ query: y })),
        ),
      ...boxes.map(([box, rect]) => {
        const [columns, rows] = [rect[2], rect[3]].map(size => Math.round(size / heldUnit));
        return gridOf(rect, columns, columns * rows, { tensor: box, box }, (x, y) =>
          SQUARES.includes(box)
            ? { query: query + y, key: key + x }
            : { [alongKeys(box) ? 'key' : 'query']: (alongKeys(box) ? key : query) + y, dim: x },
        );
      }),
    ];
  };

  const describe = (at, now) => {
    const frame = frameAt(now),
      { tensor } = at;
    const low = frame.head * n; // of the query head in work
    if (at.strip)
      return ['LSE', 'delta'].includes(tensor)
        ? `${tensor}[${at.query}] = ${exact(columns[tensor][low + at.query])}`
        : `${tensor}, ${at.key !== undefined ? `key ${at.key}` : `query ${at.query}`}`;
    if (at.map) return `P[${at.query}, ${at.key}] has no place in memory`;
    if (at.query !== undefined && at.key !== undefined) {
      const where = `${tensor}[${at.query}, ${at.key}]`;
      if (frame.state[tensor] < 0) return `${where} is not computed yet`;
      const value = model.valueAt(tensor, frame.state[tensor], at.query, at.key);
      if (value === undefined) return `${where} is in no tile`;
      return Number.isNaN(value) ? `${where} is masked` : `${where} = ${exact(value)}`;
    }
    const row = at.key ?? at.query,
      where = `${tensor}[${row}, ${at.dim}]`;
    if (!GROWING.includes(tensor))
      return frame.holds.includes(tensor)
        ? `${where} = ${exact(columns[tensor][((alongKeys(tensor) ? 0 : low) + row) * d + at.dim])}`
        : `${where} is not on the SM`;
    const state = frame.state[tensor];
    if (state < 0) return `${where} is not begun`;
    const value = model.valueAt(tensor, state, row, at.dim);
    if (value === undefined) return `${where} is not in this tile`;
    const what = tensor === 'dQ' && meta.adds ? 'the part of this block' : 'so far';
    return `${where}, ${what}: ${exact(value)}`;
  };
  return canvasView(host, context, {
    title: `Backward of head ${meta.head}`,
    layout,
    marks,
    over,
    ms: now => backwardTime(frameAt(now)),
    areas,
    describe,
    label: now => `${context.stage.frames[now].title}. ${context.stage.frames[now].sentence}`,
    legend: meta.frames.some(frame => frame.flying.length) ? [IN_FLIGHT, ...LEGEND] : LEGEND,
  });
}
