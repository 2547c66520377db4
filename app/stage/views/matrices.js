// Q, K^T, S, V and O to scale in global memory, and the tiles that a block holds on its SM. Keys run
// along the columns of K^T and S and the rows of V, queries along the rows of Q, S and O.
import { canvasView } from '../core/canvas.js';
import { COLOURS, NOT_FINITE, PALETTE, button, element, exact, theme } from '../core/paint.js';
import { matricesLayout } from './layouts/matrices.js';
import { matrixMarks, matrixTime } from './matrix_marks.js';
import { matrixModel, meet, onChip } from './matrix_model.js';

const GLOBAL = [
  [`border:3px solid ${COLOURS.read}`, 'read from global memory'],
  [`border:3px solid ${COLOURS.written}`, 'written to global memory'],
];
const COMPUTED = [['border:3px solid currentColor', 'computed']];
const SHARED = [
  ['border:3px solid currentColor', 'read on the SM'],
  ['border:2px dashed currentColor', 'held on the SM'],
];
const SIGN = `linear-gradient(90deg,${PALETTE.sign.below},transparent,${PALETTE.sign.above})`;

/** @type {Picture<models.MatricesMeta>} */
export default function (host, { meta, columns }, context) {
  const { n, keys, d, row0, rows, head, frames, blocks, causal } = meta,
    model = matrixModel(host, meta, columns),
    { values, oFinal, states, frameAt, oNow, logged, masked, named, oddAt, tile } = model,
    { background, border } = theme(host);
  let laid;

  const layout = size => {
    const shape = { n, keys, d, rows: tile ? rows : 0, tile };
    laid = { em: size.em, ...matricesLayout(size, shape) };
    return laid.height;
  };
  const marks = now => matrixMarks(model, laid, now);
  // One cursor: a query is a row of Q, S and O, a key a column of K^T and S, and a row of V.
  const over = (g, { at, paint }) => {
    if (!at) return;
    const { boxes, unit } = laid,
      thick = Math.max(unit, 1);
    g.strokeStyle = paint.primary;
    g.lineWidth = 1;
    const row = (place, i) => g.strokeRect(boxes[place][0], boxes[place][1] + i * unit, boxes[place][2], thick);
    const column = (place, i) => g.strokeRect(boxes[place][0] + i * unit, boxes[place][1], thick, boxes[place][3]);
    if (at.query !== undefined) for (const place of ['Q', 'S', 'O']) row(place, at.query);
    if (at.key === undefined) return;
    for (const place of ['K', 'S']) column(place, at.key);
    row('V', at.key);
  };

  const thingAt = ({ tensor, across, down }) => {
    if (tensor === 'K') return { tensor, key: across, dim: down };
    if (tensor === 'V') return { tensor, key: down, dim: across };
    return tensor === 'S' ? { tensor, query: down, key: across } : { tensor, query: down, dim: across };
  };
  const areaOf = ([tensor, rect], unit, place) => {
    const columns = Math.round(rect[2] / unit),
      count = columns * Math.round(rect[3] / unit),
      thing = number => place(thingAt({ tensor, across: number % columns, down: Math.floor(number / columns) }));
    return { rect, datum: { tensor }, grid: { columns, count, thing } };
  };
  // An element on the SM has its place in the tensor: the first row and key of the tile are added.
  const areas = ({ step }) => {
    const { tiles, score } = onChip(model, step),
      [first, firstKey] = score ? [score.rect[0], score.rect[2]] : [0, 0];
    const onSm = thing => {
      if (thing.tensor === 'S') return score && { ...thing, query: thing.query + first, key: thing.key + firstKey };
      if (thing.tensor === 'O') return { ...thing, query: thing.query + row0 };
      const tile = tiles.findLast(({ place }) => place === thing.tensor)?.rect,
        along = thing.tensor === 'Q' ? 'query' : 'key';
      return tile ? { ...thing, [along]: thing[along] + tile[0] } : null;
    };
    return [
      ...Object.entries(laid.boxes).map(one => areaOf(one, laid.unit, thing => thing)),
      ...Object.entries(laid.held ?? {}).map(one => areaOf(one, laid.heldUnit, onSm)),
    ];
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
      const maker = blocks.find(([r0, r1, c0, c1]) => meet([at.query, at.query, at.dim, at.dim], [r0, r1, c0, c1]));
      if (!inTile) return maker ? `${where} is made by block ${maker[4]}, not traced` : `${where} is not traced`;
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
      ...['S', 'O'].filter(place => oddAt(place, step)).map(place => `${place} has ${oddAt(place, step)}.`),
    ].join(' ');
  const legend = [
    ...GLOBAL,
    ...(tile ? SHARED : COMPUTED),
    [`background:${SIGN}`, 'below zero, above zero'],
    ...(causal ? [[`background:color-mix(in srgb,${border} 50%,${background})`, 'masked: no score']] : []),
    ...(model.anyOdd ? [NOT_FINITE] : []),
  ];
  const view = canvasView(host, context, {
    title: `Matrices of head ${head}`,
    layout,
    marks,
    over,
    ms: step => matrixTime(model, step),
    areas,
    describe,
    label,
    legend,
  });
  const stop = meta.heights ? addHeights(host, meta.heights, context) : () => {};
  return {
    draw: view.draw,
    unmount() {
      stop();
      view.unmount();
    },
  };
}

// Another height of the query tile is another run. Returns what ends it.
function addHeights(host, { name, values, now, said, since }, { clock, change }) {
  const told = element('span', { class: 'from' }, said),
    buttons = values.map(value =>
      button(String(value), () => change(name, String(value)), {
        class: 'chip',
        'aria-pressed': String(value === now),
        'data-height': value,
      }),
    ),
    choices = element('span', { class: 'choices', role: 'group', 'aria-label': 'queries of a tile' }, ...buttons),
    hands = element('div', { class: 'hands' }, element('span', { class: 'group' }, 'queries of a tile ', choices));
  host.append(element('div', { class: 'below-hand' }, hands, element('div', { class: 'of-hand' }, told)));
  const tell = step => told.toggleAttribute('inert', step < since); // it answers a question about the first scores
  tell(clock.step);
  return clock.follow(tell);
}
