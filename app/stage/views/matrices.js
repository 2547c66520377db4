// Q, K^T, S, V^T and O to scale, the tile in work lit. Keys run along the columns of K^T, S and
// V^T, queries along the rows of Q, S and O.
import { canvasView } from '../core/canvas.js';
import {
  COLOURS,
  NOT_FINITE,
  PALETTE,
  exact,
  matrixImage,
  odd,
  rgb,
  signed,
  spanOf,
  theme,
} from '../core/paint.js';
import { matricesLayout } from './layouts/matrices.js';

const LEGEND = [
  [`border:3px solid ${COLOURS.read}`, 'read from global memory'],
  [`border:3px solid ${COLOURS.written}`, 'written to global memory'],
  ['border:3px solid currentColor', 'read from shared memory, or computed'],
  ['border:2px dashed currentColor', 'held in shared memory'],
  [
    `background:linear-gradient(90deg,${PALETTE.sign.below},transparent,${PALETTE.sign.above})`,
    'below zero, above zero',
  ],
];

export default function (host, { meta, columns }, context) {
  const { n, keys, offset, d, row0, rows, head, frames, places, blocks, causal } = meta;
  const values = { Q: columns.q, K: columns.k, V: columns.v, S: columns.s, O: columns.o };
  const oFinal = columns.o_final,
    { text, background, border } = theme(host),
    colour = signed(rgb(background)),
    ink = rgb(text),
    grey = rgb(border);
  const picture = (width, height, at, of) =>
    matrixImage(width, height, at, spanOf(of), colour, ink);
  // Why there is no value is never guessed from NaN, which is a value. y: a row of the tile.
  const logged = (y, x) => columns.s_logged[y * keys + x] > 0,
    masked = (y, x) => causal && x > row0 + y + offset && !logged(y, x);
  const oNamed = (state, y, x) => columns.o_since[y * d + x] <= state;
  const firstWrite = frames.findIndex(f =>
    f.touched.some(t => places[t.tensor] === 'O' && t.kind === 'store'),
  );
  const writtenAt = firstWrite < 0 ? Infinity : firstWrite; // from this step on O is final
  const oStates = values.O.length / (rows * d);
  const pictures = {
    Q: picture(d, n, (y, x) => values.Q[y * d + x], values.Q),
    K: picture(keys, d, (y, x) => values.K[x * d + y], values.K),
    V: picture(keys, d, (y, x) => values.V[x * d + y], values.V),
    S: picture(keys, rows, (y, x) => (logged(y, x) ? values.S[y * keys + x] : undefined), values.S),
    O: Array.from({ length: oStates }, (_, b) =>
      picture(
        d,
        rows,
        (y, x) => (oNamed(b, y, x) ? values.O[(b * rows + y) * d + x] : undefined),
        values.O,
      ),
    ),
    masked: matrixImage(
      keys,
      rows,
      (y, x) => (masked(y, x) ? 0 : undefined),
      1,
      () => grey,
    ),
  };
  pictures.O.push(picture(d, rows, (y, x) => oFinal[y * d + x], oFinal));
  // What of S and O is not finite after each step, in words.
  const oOdd = pictures.O.map((_, b) =>
    odd(
      b < oStates
        ? values.O.subarray(b * rows * d, (b + 1) * rows * d).filter(
            (_, i) => columns.o_since[i] <= b,
          )
        : oFinal,
    ),
  );
  const computed = [],
    sOdd = frames.map(({ scores: rect }) => {
      for (let y = rect ? rect[0] - row0 : 0; rect && y <= rect[1] - row0; y++)
        for (let x = rect[2]; x <= rect[3]; x++)
          if (logged(y, x)) computed[y * keys + x] = values.S[y * keys + x];
      return rect ? odd(computed) : null;
    });
  for (let step = 0; step < sOdd.length; step++) sOdd[step] ??= sOdd[step - 1] ?? '';
  const oddAt = (place, step) =>
    place === 'S'
      ? sOdd[Math.min(step, frames.length - 1)]
      : place === 'O'
        ? (oOdd[oNow(step)] ?? '')
        : '';
  const placeOf = tensor => (places[tensor] === 'P' ? 'S' : places[tensor]);
  const frameAt = step => frames[Math.min(step, frames.length - 1)];
  let unit, boxes, gap, em;

  // Pixel rectangle of elements [r0, r1] x [c0, c1]; K and V are drawn with keys along x.
  /** @type {(place: string, rect: number[]) => [number, number, number, number]} */
  const pixels = (place, [r0, r1, c0, c1]) => {
    const [x, y] = boxes[place];
    return 'KV'.includes(place)
      ? [x + r0 * unit, y + c0 * unit, (r1 - r0 + 1) * unit, (c1 - c0 + 1) * unit]
      : [x + c0 * unit, y + r0 * unit, (c1 - c0 + 1) * unit, (r1 - r0 + 1) * unit];
  };
  const tile = [row0, row0 + rows - 1];
  const meet = (a, b) => b && a[0] <= b[1] && b[0] <= a[1] && a[2] <= b[3] && b[2] <= a[3];
  // which state of O is shown; -1: none yet
  const oNow = step => (step >= writtenAt ? oStates : frameAt(step).o);

  const layout = size => {
    const made = matricesLayout(size, { n, keys, d });
    em = size.em;
    ({ unit, gap, boxes } = made);
    return made.height;
  };

  const draw = (g, { step, at, paint }) => {
    const frame = frameAt(step);
    const used = frame.uses
      .filter(t => placeOf(t.tensor))
      .map(t => ({ place: placeOf(t.tensor), kind: 'use', rect: t.rect }));
    const lit = [
      ...frame.touched
        .filter(t => placeOf(t.tensor))
        .map(t => ({ ...t, place: placeOf(t.tensor) })),
      ...used,
    ];
    g.imageSmoothingEnabled = false;
    drawInputs(g, lit);
    drawScores(g, step, frame);
    if (oNow(step) >= 0) g.drawImage(pictures.O[oNow(step)], ...pixels('O', [...tile, 0, d - 1]));
    drawNames(g, paint, step);
    drawBlocks(g, paint, step);
    g.lineWidth = 1.5;
    g.strokeStyle = paint.text;
    g.setLineDash([5, 3]);
    for (const [tensor, held] of Object.entries(frame.resident))
      if (placeOf(tensor))
        for (const rect of held.rects) g.strokeRect(...pixels(placeOf(tensor), rect));
    g.setLineDash([]);
    g.lineWidth = 3;
    for (const part of lit) {
      g.strokeStyle = { store: COLOURS.written, use: paint.text }[part.kind] ?? COLOURS.read;
      g.strokeRect(...pixels(part.place, part.rect));
    }
    if (frame.scores) {
      g.strokeStyle = paint.text;
      g.lineWidth = 2.5;
      g.strokeRect(...pixels('S', frame.scores));
    }
    drawCross(g, paint, at);
  };
  const drawInputs = (g, lit) => {
    // dim everywhere, full where lit
    for (const place of ['Q', 'K', 'V']) {
      const [x, y, w, h] = boxes[place];
      g.globalAlpha = 0.3;
      g.drawImage(pictures[place], x, y, w, h);
      g.globalAlpha = 1;
      for (const part of lit.filter(p => p.place === place)) {
        const [px, py, pw, ph] = pixels(place, part.rect);
        g.drawImage(
          pictures[place],
          (px - x) / unit,
          (py - y) / unit,
          pw / unit,
          ph / unit,
          px,
          py,
          pw,
          ph,
        );
      }
    }
  };
  const drawScores = (g, step, frame) => {
    // only those that are computed by now
    const weights = Object.entries(frame.resident).find(([tensor]) => places[tensor] === 'P')?.[1]
      .rects[0];
    for (let past = 0; past <= Math.min(step, frames.length - 1); past++) {
      const rect = frames[past].scores;
      if (!rect) continue;
      g.globalAlpha = past === step || meet(rect, weights) ? 1 : 0.45;
      g.drawImage(
        pictures.S,
        rect[2],
        rect[0] - row0,
        rect[3] - rect[2] + 1,
        rect[1] - rect[0] + 1,
        ...pixels('S', rect),
      );
    }
    g.globalAlpha = 0.5;
    g.drawImage(pictures.masked, ...pixels('S', [...tile, 0, keys - 1]));
    g.globalAlpha = 1;
  };
  const drawNames = (g, paint, step) => {
    const names = { Q: 'Q', K: 'K\u1d40', S: 'S', V: 'V\u1d40', O: 'O' };
    g.lineWidth = 1;
    g.strokeStyle = paint.border;
    g.fillStyle = paint.text;
    g.font = `600 ${em}px ${paint.font}`;
    for (const [place, [x, y, w, h]] of Object.entries(boxes)) {
      g.strokeRect(x - 0.5, y - 0.5, w + 1, h + 1);
      g.fillText(names[place], x, y - 5);
    }
    g.font = `${em}px ${paint.font}`;
    const note = (place, said) => {
      const wrong = oddAt(place, step),
        [x, y, w] = boxes[place],
        from = x + em * 1.6;
      g.globalAlpha = wrong ? 1 : 0.75;
      if (wrong) {
        g.fillStyle = PALETTE.wrong;
        g.fillRect(from, y - 5 - 0.7 * em, 0.7 * em, 0.7 * em);
        g.fillStyle = paint.text;
      }
      g.fillText(
        wrong || said,
        from + (wrong ? em : 0),
        y - 5,
        wrong ? w + gap - 2.6 * em : undefined,
      );
    };
    note('S', boxes.S[2] > 14 * em ? `${n} queries \u00d7 ${keys} keys` : `${n} \u00d7 ${keys}`);
    if (boxes.Q[2] > 6 * em) note('Q', `${n} \u00d7 ${d}`);
    if (oddAt('O', step) || (boxes.O[2] > 5 * em && oNow(step) >= 0 && oNow(step) < oStates))
      note('O', 'so far');
    g.globalAlpha = 1;
  };
  const drawBlocks = (g, paint, step) => {
    // which block makes which part of the output
    g.textAlign = 'center';
    g.font = `${em}px ${paint.font}`;
    g.fillStyle = paint.text;
    g.strokeStyle = paint.border;
    for (const [r0, r1, c0, c1, block] of blocks) {
      const [x, y, w, h] = pixels('O', [r0, r1, c0, c1]);
      if (h > 4) g.strokeRect(x - 0.5, y - 0.5, w + 1, h + 1);
      if (h < em || w < 4 * em || (r0 === row0 && oNow(step) >= 0)) continue;
      g.fillText(`block ${block}`, x + w / 2, y + h / 2 + 4);
    }
    g.textAlign = 'left';
    const [x, y, w, h] = pixels('O', [...tile, 0, d - 1]); // the traced part
    g.strokeStyle = paint.text;
    g.setLineDash([2, 3]);
    g.strokeRect(x - 0.5, y - 0.5, w + 1, h + 1);
    g.setLineDash([]);
  };
  const drawCross = (g, paint, at) => {
    // one cursor: a query is a row of Q, S and O, a key a column of K^T, S and V^T
    if (!at) return;
    g.strokeStyle = paint.primary;
    g.lineWidth = 1;
    const thick = Math.max(unit, 1);
    if (at.query !== undefined)
      for (const t of ['Q', 'S', 'O'])
        g.strokeRect(boxes[t][0], boxes[t][1] + at.query * unit, boxes[t][2], thick);
    if (at.key !== undefined)
      for (const t of ['K', 'S', 'V'])
        g.strokeRect(boxes[t][0] + at.key * unit, boxes[t][1], thick, boxes[t][3]);
  };

  const locate = (x, y) => {
    for (const [tensor, [bx, by, w, h]] of Object.entries(boxes)) {
      if (x < bx || y < by || x >= bx + w || y >= by + h) continue;
      const across = Math.floor((x - bx) / unit),
        down = Math.floor((y - by) / unit);
      if (tensor === 'K' || tensor === 'V') return { tensor, key: across, dim: down };
      return tensor === 'S'
        ? { tensor, query: down, key: across }
        : { tensor, query: down, dim: across };
    }
    return null;
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
      if (now === oStates) return `${where} = ${exact(oFinal[inRow])}`;
      return now < 0 || !oNamed(now, at.query - row0, at.dim)
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
    ...LEGEND,
    ...(causal
      ? [[`background:color-mix(in srgb,${border} 50%,${background})`, 'masked: no score']]
      : []),
    ...([...sOdd, ...oOdd].some(Boolean) ? [NOT_FINITE] : []),
  ];
  return canvasView(host, context, {
    title: `Matrices of head ${head}`,
    layout,
    draw,
    locate,
    describe,
    label,
    legend,
  });
}
