// Q, K^T, S, V and O to scale in global memory, and the tiles that a block holds on its SM. Keys run
// along the columns of K^T and S and the rows of V, queries along the rows of Q, S and O.
import { canvasView } from '../core/canvas.js';
import { COLOURS, NOT_FINITE, PALETTE, exact, theme } from '../core/paint.js';
import { matricesLayout } from './layouts/matrices.js';
import { matrixMarks, matrixTime } from './matrix_marks.js';
import { matrixModel, meet, onChip } from './matrix_model.js';

const GLOBAL = [
  [`border:3px solid ${COLOURS.read}`, 'read from global memory'],
  [`border:3px solid ${COLOURS.written}`, 'written to global memory'],
];
const COMPUTED = [['border:3px solid currentColor', 'computed']];
const SHARED = [
  ['border:3px solid currentColor', 'read from shared memory, or computed'],
  ['border:2px dashed currentColor', 'held in shared memory'],
  ['border:2px solid var(--st-primary-color)', 'a key and its scores with all queries'],
];
const SIGN = `linear-gradient(90deg,${PALETTE.sign.below},transparent,${PALETTE.sign.above})`;

/** @type {Picture<models.MatricesMeta>} */
export default function (host, { meta, columns }, context) {
  const { n, keys, d, row0, rows, head, frames, blocks, causal } = meta,
    model = matrixModel(host, meta, columns),
    { values, oFinal, states, frameAt, oNow, logged, masked, named, oddAt, tile } = model,
    { background, border } = theme(host);
  let laid, step;

  const layout = size => {
    const shape = { n, keys, d, rows: tile ? rows : 0, tile };
    laid = { em: size.em, ...matricesLayout(size, shape) };
    return laid.height;
  };
  const marks = now => {
    step = now.step;
    return matrixMarks(model, laid, now);
  };
  // One cursor: a query is a row of Q, S and O, a key a column of K^T and S, and a row of V.
  const over = (g, { at, paint }) => {
    if (!at) return;
    const { boxes, unit } = laid,
      thick = Math.max(unit, 1);
    g.strokeStyle = paint.primary;
    g.lineWidth = 1;
    const row = (place, i) =>
      g.strokeRect(boxes[place][0], boxes[place][1] + i * unit, boxes[place][2], thick);
    const column = (place, i) =>
      g.strokeRect(boxes[place][0] + i * unit, boxes[place][1], thick, boxes[place][3]);
    if (at.query !== undefined) for (const place of ['Q', 'S', 'O']) row(place, at.query);
    if (at.key === undefined) return;
    for (const place of ['K', 'S']) column(place, at.key);
    row('V', at.key);
  };

  const cell = (boxes, unit, x, y) => {
    for (const [tensor, [bx, by, w, h]] of Object.entries(boxes))
      if (x >= bx && y >= by && x < bx + w && y < by + h)
        return { tensor, across: Math.floor((x - bx) / unit), down: Math.floor((y - by) / unit) };
    return null;
  };
  const thingAt = ({ tensor, across, down }) => {
    if (tensor === 'K') return { tensor, key: across, dim: down };
    if (tensor === 'V') return { tensor, key: down, dim: across };
    return tensor === 'S'
      ? { tensor, query: down, key: across }
      : { tensor, query: down, dim: across };
  };
  // The same element on the SM: its place there, and the first row and key of the tile.
  const onSm = (x, y) => {
    const found = laid.held && cell(laid.held, laid.heldUnit, x, y);
    if (!found) return null;
    const { tiles, score } = onChip(model, step ?? 0),
      here = tiles.findLast(one => one.place === found.tensor)?.rect,
      thing = thingAt(found);
    if (found.tensor === 'S')
      return (
        score && { ...thing, query: thing.query + score.rect[0], key: thing.key + score.rect[2] }
      );
    if (found.tensor === 'O') return { ...thing, query: thing.query + row0 };
    if (!here) return null;
    return found.tensor === 'Q'
      ? { ...thing, query: thing.query + here[0] }
      : { ...thing, key: thing.key + here[0] };
  };
  const locate = (x, y) => {
    const found = cell(laid.boxes, laid.unit, x, y);
    return found ? thingAt(found) : onSm(x, y);
  };
  const describe = (at, step) => {
    const where = `${at.tensor}[${at.tensor === 'S' ? `${at.query}, ${at.key}` : `${at.query ?? at.key}, ${at.dim}`}]`;
    const inTile = at.query >= row0 && at.query < row0 + rows;
    if (at.tensor === 'S') {
      const done = frames
        .slice(0, step + 1)
        .some(f => f.scores && meet([at.query, at.query, at.key, at.key], f.scores));
      if (!inTile) return `${where} is outside the traced query tile`;
      if (!logged(at.query - row0, at.key))
        return `${where} ${masked(at.query - row0, at.key) ? 'is masked: never computed' : 'was never logged'}`;
      return `${where} ${done ? `= ${exact(values.S[(at.query - row0) * keys + at.key])}` : 'is not computed yet'}`;
    }
    if (at.tensor === 'O') {
      const now = oNow(step),
        inRow = (at.query - row0) * d + at.dim;
      const maker = blocks.find(([r0, r1, c0, c1]) =>
        meet([at.query, at.query, at.dim, at.dim], [r0, r1, c0, c1]),
      );
      if (!inTile)
        return maker
          ? `${where} is made by block ${maker[4]}, not traced`
          : `${where} is not traced`;
      if (now === states) return `${where} = ${exact(oFinal[inRow])}`;
      return now < 0 || !named(now, at.query - row0, at.dim)
        ? `${where} is not begun`
        : `${where} so far = ${exact(values.O[now * rows * d + inRow])}`;
    }
    return `${where} = ${exact(values[at.tensor][(at.query ?? at.key) * d + at.dim])}`;
  };

  const label = step =>
    [
      `${frameAt(step).title}. ${frameAt(step).sentence}`,
      ...['S', 'O']
        .filter(place => oddAt(place, step))
        .map(place => `${place} has ${oddAt(place, step)}.`),
    ].join(' ');
  const legend = [
    ...GLOBAL,
    ...(tile ? SHARED : COMPUTED),
    [`background:${SIGN}`, 'below zero, above zero'],
    ...(causal
      ? [[`background:color-mix(in srgb,${border} 50%,${background})`, 'masked: no score']]
      : []),
    ...(model.anyOdd ? [NOT_FINITE] : []),
  ];
  return canvasView(host, context, {
    title: `Matrices of head ${head}`,
    layout,
    marks,
    over,
    ms: step => matrixTime(model, step),
    locate,
    describe,
    label,
    legend,
  });
}
