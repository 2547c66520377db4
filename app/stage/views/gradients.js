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
  [
    `background:color-mix(in srgb,${PALETTE.sign.above} 25%,transparent)`,
    'pale: not on the SM now',
  ],
  [
    'background:repeating-linear-gradient(135deg,currentColor 0 1px,transparent 1px 5px)',
    'P so far',
  ],
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

  const inside = ([bx, by, w, h], x, y) => x >= bx && y >= by && x < bx + w && y < by + h;
  const locate = (x, y) => {
    const frame = frameAt(step),
      { held, heldUnit, strips, map, across, down } = laid;
    for (const [box, rect] of Object.entries(held)) {
      if (box === absentOf(frame) || !inside(rect, x, y) || !model.logs(box)) continue;
      return thingAt(
        frame,
        box,
        Math.floor((x - rect[0]) / heldUnit),
        Math.floor((y - rect[1]) / heldUnit),
      );
    }
    for (const [tensor, rect] of Object.entries(strips)) {
      if (!model.parts.includes(tensor) || !inside(rect, x, y)) continue;
      return alongKeys(tensor)
        ? { tensor, strip: true, key: Math.floor((x - rect[0]) / across) }
        : { tensor, strip: true, query: Math.floor((y - rect[1]) / down) };
    }
    if (map && inside(map, x, y))
      return {
        tensor: 'P',
        map: true,
        query: Math.min(n - 1, Math.floor((y - map[1]) / down)),
        key: Math.min(keys - 1, Math.floor((x - map[0]) / across)),
      };
    return null;
  };
  const thingAt = (frame, box, col, row) => {
    const query = (frame.queries?.[0] ?? 0) + row,
      first = frame.keys?.[0] ?? 0,
      tensor = box;
    if (SQUARES.includes(box)) return { tensor, box, query, key: first + col };
    return alongKeys(box)
      ? { tensor, box, key: first + row, dim: col }
      : { tensor, box, query, dim: col };
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
    locate,
    describe,
    label: now => `${context.stage.frames[now].title}. ${context.stage.frames[now].sentence}`,
    legend: meta.frames.some(frame => frame.flying.length) ? [IN_FLIGHT, ...LEGEND] : LEGEND,
  });
}
