// Q, K^T, S, V^T and O to scale, the tile in work lit. Keys run along the columns of K^T, S and V^T, queries along the rows of
// Q, S and O. Below: what the block holds in shared memory, and the bytes moved so far.
const GAP = 30;

export default function ({ data, parentElement }) {
  const { n, d, row0, rows, head, frames, traced, places, blocks } = data.meta;
  const shared = parentElement.querySelector('.shared'), bytes = parentElement.querySelector('.bytes');
  const B = bus();
  const values = { Q: column(data.q), K: column(data.k), V: column(data.v), S: column(data.s), O: column(data.o) };
  const oFinal = column(data.o_final), colour = signed(rgb(theme(parentElement).background));
  const picture = (width, height, at, of) => matrixImage(width, height, at, spanOf(of), colour);
  const firstWrite = frames.findIndex(f => f.touched.some(t => places[t.tensor] === 'O' && t.kind === 'store'));
  const writtenAt = firstWrite < 0 ? Infinity : firstWrite;  // from this step on O is final
  const oStates = values.O.length / (rows * d);
  const pictures = {
    Q: picture(d, n, (y, x) => values.Q[y * d + x], values.Q),
    K: picture(n, d, (y, x) => values.K[x * d + y], values.K),
    V: picture(n, d, (y, x) => values.V[x * d + y], values.V),
    S: picture(n, rows, (y, x) => values.S[y * n + x], values.S),
    O: Array.from({ length: oStates }, (_, b) => picture(d, rows, (y, x) => values.O[(b * rows + y) * d + x], values.O)),
  };
  pictures.O.push(picture(d, rows, (y, x) => oFinal[y * d + x], oFinal));
  const keys = frames.map(f => ({ resident: f.block + JSON.stringify(f.resident), bytes: JSON.stringify(f.bytes) }));  // to see what a step leaves alone
  const placeOf = tensor => (places[tensor] === 'P' ? 'S' : places[tensor]);
  const frameAt = step => frames[Math.min(step, frames.length - 1)];
  let unit, boxes, sharedNow, bytesNow;

  // Pixel rectangle of elements [r0, r1] x [c0, c1]; K and V are drawn with keys along x.
  const pixels = (place, [r0, r1, c0, c1]) => {
    const [x, y] = boxes[place];
    return 'KV'.includes(place) ? [x + r0 * unit, y + c0 * unit, (r1 - r0 + 1) * unit, (c1 - c0 + 1) * unit]
      : [x + c0 * unit, y + r0 * unit, (c1 - c0 + 1) * unit, (r1 - r0 + 1) * unit];
  };
  const tile = [row0, row0 + rows - 1];
  const meet = (a, b) => b && a[0] <= b[1] && b[0] <= a[1] && a[2] <= b[3] && b[2] <= a[3];
  const oNow = step => (step >= writtenAt ? oStates : frameAt(step).o);  // which state of O is shown; -1: none yet

  const layout = width => {
    unit = Math.min((width - 2 * GAP - 2) / (n + 2 * d), 640 / (n + 2 * d));
    const a = d * unit, b = n * unit, left = Math.max(0, (width - (2 * a + b + 2 * GAP)) / 2);
    boxes = { Q: [left, 16 + a + GAP, a, b], K: [left + a + GAP, 16, b, a], S: [left + a + GAP, 16 + a + GAP, b, b],
      V: [left + a + GAP, 16 + a + b + 2 * GAP, b, a], O: [left + a + b + 2 * GAP, 16 + a + GAP, a, b] };
    return 2 * a + b + 2 * GAP + 20;
  };

  const draw = (g, { step, at, paint }) => {
    const frame = frameAt(step);
    const used = frame.uses.filter(t => placeOf(t) && frame.resident[t]?.rect).map(t => ({ place: placeOf(t), kind: 'use', rect: frame.resident[t].rect }));
    const lit = [...frame.touched.filter(t => placeOf(t.tensor)).map(t => ({ ...t, place: placeOf(t.tensor) })), ...used];
    g.imageSmoothingEnabled = false;
    drawInputs(g, lit);
    drawScores(g, step, frame);
    if (oNow(step) >= 0) g.drawImage(pictures.O[oNow(step)], ...pixels('O', [...tile, 0, d - 1]));
    drawNames(g, paint, step);
    drawBlocks(g, paint, step);
    g.lineWidth = 1.5;
    g.strokeStyle = paint.text;
    g.setLineDash([5, 3]);
    for (const [tensor, held] of Object.entries(frame.resident)) if (held.rect && placeOf(tensor)) g.strokeRect(...pixels(placeOf(tensor), held.rect));
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
    const { resident, bytes: moved } = keys[Math.min(step, frames.length - 1)];
    if (sharedNow !== resident) drawShared(frame);
    if (bytesNow !== moved) drawBytes(frame);
    sharedNow = resident;
    bytesNow = moved;
  };
  const drawInputs = (g, lit) => {  // dim everywhere, full where lit
    for (const place of ['Q', 'K', 'V']) {
      const [x, y, w, h] = boxes[place];
      g.globalAlpha = 0.3;
      g.drawImage(pictures[place], x, y, w, h);
      g.globalAlpha = 1;
      for (const part of lit.filter(p => p.place === place)) {
        const [px, py, pw, ph] = pixels(place, part.rect);
        g.drawImage(pictures[place], (px - x) / unit, (py - y) / unit, pw / unit, ph / unit, px, py, pw, ph);
      }
    }
  };
  const drawScores = (g, step, frame) => {  // only those that are computed by now
    const weights = Object.entries(frame.resident).find(([tensor]) => places[tensor] === 'P')?.[1].rect;
    for (let past = 0; past <= Math.min(step, frames.length - 1); past++) {
      const rect = frames[past].scores;
      if (!rect) continue;
      g.globalAlpha = past === step || meet(rect, weights) ? 1 : 0.45;
      g.drawImage(pictures.S, rect[2], rect[0] - row0, rect[3] - rect[2] + 1, rect[1] - rect[0] + 1, ...pixels('S', rect));
    }
    g.globalAlpha = 1;
  };
  const drawNames = (g, paint, step) => {
    const names = { Q: 'Q', K: 'K\u1d40', S: 'S', V: 'V\u1d40', O: 'O' };
    g.lineWidth = 1;
    g.strokeStyle = paint.border;
    g.fillStyle = paint.text;
    g.font = `600 13px ${paint.font}`;
    for (const [place, [x, y, w, h]] of Object.entries(boxes)) {
      g.strokeRect(x - 0.5, y - 0.5, w + 1, h + 1);
      g.fillText(names[place], x, y - 5);
    }
    g.font = `12px ${paint.font}`;
    g.globalAlpha = 0.75;
    const note = (place, text) => g.fillText(text, boxes[place][0] + 18, boxes[place][1] - 5);
    note('S', boxes.S[2] > 150 ? `${n} queries \u00d7 ${n} keys` : `${n} \u00d7 ${n}`);
    if (boxes.Q[2] > 70) note('Q', `${n} \u00d7 ${d}`);
    if (boxes.O[2] > 70 && oNow(step) >= 0 && oNow(step) < oStates) note('O', 'so far');
    g.globalAlpha = 1;
  };
  const drawBlocks = (g, paint, step) => {  // which block makes which part of the output
    g.textAlign = 'center';
    g.font = `11px ${paint.font}`;
    g.fillStyle = paint.text;
    g.strokeStyle = paint.border;
    for (const [r0, r1, c0, c1, block] of blocks) {
      const [x, y, w, h] = pixels('O', [r0, r1, c0, c1]);
      if (h > 4) g.strokeRect(x - 0.5, y - 0.5, w + 1, h + 1);
      if (h < 13 || w < 40 || (r0 === row0 && oNow(step) >= 0)) continue;
      g.fillText(`block ${block}`, x + w / 2, y + h / 2 + 4);
    }
    g.textAlign = 'left';
    const [x, y, w, h] = pixels('O', [...tile, 0, d - 1]);  // the traced part
    g.strokeStyle = paint.text;
    g.setLineDash([2, 3]);
    g.strokeRect(x - 0.5, y - 0.5, w + 1, h + 1);
    g.setLineDash([]);
  };
  const drawCross = (g, paint, at) => {  // one cursor: a query is a row of Q, S and O, a key a column of K^T, S and V^T
    if (!at) return;
    g.strokeStyle = paint.primary;
    g.lineWidth = 1;
    const thick = Math.max(unit, 1);
    if (at.query !== undefined) for (const t of ['Q', 'S', 'O']) g.strokeRect(boxes[t][0], boxes[t][1] + at.query * unit, boxes[t][2], thick);
    if (at.key !== undefined) for (const t of ['K', 'S', 'V']) g.strokeRect(boxes[t][0] + at.key * unit, boxes[t][1], thick, boxes[t][3]);
  };

  const locate = (x, y) => {
    for (const [tensor, [bx, by, w, h]] of Object.entries(boxes)) {
      if (x < bx || y < by || x >= bx + w || y >= by + h) continue;
      const across = Math.floor((x - bx) / unit), down = Math.floor((y - by) / unit);
      if (tensor === 'K' || tensor === 'V') return { tensor, key: across, dim: down };
      return tensor === 'S' ? { tensor, query: down, key: across } : { tensor, query: down, dim: across };
    }
    return null;
  };
  const describe = (at, step) => {
    const where = `${at.tensor}[${at.tensor === 'S' ? `${at.query}, ${at.key}` : `${at.query ?? at.key}, ${at.dim}`}]`;
    const inTile = at.query >= row0 && at.query < row0 + rows;
    if (at.tensor === 'S') {
      const done = frames.slice(0, step + 1).some(f => f.scores && meet([at.query, at.query, at.key, at.key], f.scores));
      const v = inTile ? values.S[(at.query - row0) * n + at.key] : NaN;
      return `${where} ${!inTile ? 'is outside the traced query tile' : Number.isNaN(v) ? 'is masked: never computed' : done ? `= ${exact(v)}` : 'is not computed yet'}`;
    }
    if (at.tensor === 'O') {
      const now = oNow(step), inRow = (at.query - row0) * d + at.dim;
      const maker = blocks.find(([r0, r1, c0, c1]) => meet([at.query, at.query, at.dim, at.dim], [r0, r1, c0, c1]));
      if (!inTile) return maker ? `${where} is made by block ${maker[4]}, not traced` : `${where} is not traced`;
      if (now === oStates) return `${where} = ${exact(oFinal[inRow])}`;
      return now < 0 ? `${where} is not begun` : `${where} so far = ${exact(values.O[now * rows * d + inRow])}`;
    }
    return `${where} = ${exact(values[at.tensor][(at.query ?? at.key) * d + at.dim])}`;
  };

  const number = value => value.toLocaleString('en');
  const drawShared = frame => {
    const held = Object.entries(frame.resident), total = held.reduce((sum, [, part]) => sum + part.bytes, 0);
    const said = held.length ? `In shared memory of block ${frame.block}: ${number(total)} bytes` : `Block ${frame.block} holds nothing in shared memory`;
    shared.replaceChildren(element('div', { class: 'label' }, said), element('div', { class: 'strip' }, ...held.map(([tensor, part]) => {
      const rect = part.rect, name = 'KV'.includes(placeOf(tensor) ?? ' ') ? 'keys' : 'queries';
      const box = element('div', { class: 'box' }, element('b', {}, tensor), rect ? ` ${name} ${rect[0]}\u2013${rect[1]}` : '',
        element('small', {}, ` ${number(part.bytes)} B`));
      box.style.flexGrow = part.bytes;
      box.style.borderColor = COLOURS[places[tensor] ?? 'other'];
      return box;
    })));
  };
  const drawBytes = frame => {
    const cell = (tensor, kind) => element('td', {}, number(frame.bytes[`${tensor} ${kind}`] ?? 0));
    const line = (name, kind) => element('tr', {}, element('th', {}, name), ...traced.map(t => cell(t, kind)));
    bytes.replaceChildren(element('caption', {}, 'Bytes of global memory so far, this query tile'),
      element('tr', {}, element('th', {}, ''), ...traced.map(t => element('th', {}, t))), line('read', 'load'), line('written', 'store'));
  };

  const label = step => `${frameAt(step).title}. ${frameAt(step).sentence}`;
  return canvasView(parentElement, { title: `Matrices of head ${head}`, layout, draw, locate, describe, label }).unmount;
}
