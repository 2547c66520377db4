// Eight rows of a tile in the banks, in two orders of their pieces: the pieces that one matrix of
// ldmatrix takes are lit. Below a column is the number of them, and below all the turns.
import { canvasView } from '../core/canvas.js';
import { blend, COLOURS, rgb, smallText } from '../core/paint.js';

const N = 8, // rows, pieces of a row and places
  BANKS = 4, // of a place
  INSET = 8; // pixels from the edge, for a frame around the words

/** @type {Picture<tensor_cores.PiecesMeta, tensor_cores.ProductFrame>} */
export default function (host, { meta }, context) {
  const { tensor, first, piece, sides } = meta;
  let em,
    boxes = [];

  const layout = size => {
    ({ em } = size);
    const across = size.width >= 34 * em ? 2 : 1,
      label = 4.4 * em,
      w = (size.width - (across - 1) * 2 * em) / across,
      head = 4.6 * em,
      foot = 3.6 * em,
      unit = Math.min(
        (w - label) / N,
        Math.max(1.5 * em, (size.height / (across === 2 ? 1 : 2) - head - foot) / N),
        4.2 * em,
      );
    boxes = sides.map((_, n) => ({
      x: (across === 2 ? n * (w + 2 * em) : 0) + label,
      y: (across === 2 ? 0 : n * (head + N * unit + foot)) + head,
      left: across === 2 ? n * (w + 2 * em) : 0,
      wide: (w - label) / N > 4.2 * em ? 4.2 * em : (w - label) / N,
      unit,
      w,
    }));
    return Math.ceil(boxes.at(-1).y + N * unit + foot);
  };

  // ---- drawing ----
  const draw = (g, { at, paint }) => {
    sides.forEach((side, n) => drawSide(g, paint, side, boxes[n]));
    if (!at) return;
    const { x, y, wide, unit } = boxes[at.side];
    g.strokeStyle = paint.primary;
    g.lineWidth = 2;
    if (!at.turns) g.strokeRect(x + at.place * wide, y + at.row * unit, wide, unit);
  };
  const drawSide = (g, paint, { title, rule, own, places, turns }, box) => {
    const { x, y, left, wide, unit, w } = box,
      small = smallText(em);
    g.fillStyle = paint.text;
    g.font = `600 ${em}px ${paint.font}`;
    const head = `${title}${own ? ', as in this run' : ''}`;
    g.fillText(head, left, 1.2 * em + y - 4.6 * em, w);
    g.font = `${small}px ${paint.font}`;
    g.fillText(rule, left, y - 1.95 * em, w);
    g.textAlign = 'center';
    for (let c = 0; c < N; c++) g.fillText(`${c * BANKS}`, x + (c + 0.5) * wide, y - 0.4 * em);
    g.textAlign = 'left';
    g.fillText('bank', left, y - 0.4 * em);
    places.forEach((row, r) => {
      g.fillStyle = paint.text;
      g.fillText(`key ${first + r}`, left, y + (r + 0.5) * unit + 0.35 * small, x - left - 4);
      row.forEach((place, p) => drawPiece(g, paint, box, r, place, p));
    });
    g.fillStyle = paint.text;
    g.font = `600 ${em}px ${paint.font}`;
    const said = turns > 1 ? `${turns} rows in one bank: ${turns} turns` : 'each row in different banks: 1 turn';
    g.fillText(said, left + INSET, y + N * unit + 1.7 * em, w);
  };
  const drawPiece = (g, paint, { x, y, wide, unit }, r, place, p) => {
    const lit = p === piece;
    g.fillStyle = lit ? COLOURS[tensor] : blend(rgb(COLOURS[tensor]), rgb(paint.background), 0.14);
    g.fillRect(x + place * wide, y + r * unit, wide - 2, unit - 2);
    g.fillStyle = lit ? '#fff' : paint.text;
    g.textAlign = 'center';
    g.font = `${lit ? 600 : 400} ${smallText(em)}px ${paint.font}`;
    g.fillText(`${p}`, x + (place + 0.5) * wide - 1, y + (r + 0.5) * unit + 0.35 * em);
    g.textAlign = 'left';
  };

  // ---- the cursor ----
  const areas = () =>
    boxes.flatMap(({ x, y, left, wide, unit, w }, side) => [
      { rect: [left, y - 2.9 * em, w, N * unit + 5.5 * em], datum: { side, turns: 2 } },
      { rect: [left, y + N * unit, w, 2.6 * em], datum: { side, turns: 1 } },
      {
        rect: [x, y, N * wide, N * unit],
        datum: { side, turns: 0 },
        grid: {
          columns: N,
          count: N * N,
          thing: number => ({ side, row: Math.floor(number / N), place: number % N, turns: 0 }),
        },
      },
    ]);
  const describe = ({ side, row, place, turns }) => {
    const { title, places, turns: many } = sides[side];
    if (turns) return `${title}: ldmatrix takes ${many === 1 ? 'one turn' : `${many} turns`} for these rows`;
    const p = places[row].indexOf(place);
    return (
      `${title}: piece ${p} of key ${first + row}, numbers ${8 * p} to ${8 * p + 7}\n` +
      `in banks ${BANKS * place} to ${BANKS * place + BANKS - 1}`
    );
  };
  const label = () => sides.map(({ title, rule, turns }) => `${title}: ${rule}, ${turns} turns`).join('. ');
  const legend = [
    [`background:${COLOURS[tensor]}`, `the piece of 16 bytes that ldmatrix takes from each row`],
    ['', 'number: the piece of the row'],
  ];
  return canvasView(host, context, {
    title: 'Rows in the banks',
    layout,
    draw,
    areas,
    describe,
    label,
    legend,
  });
}
