// Q, K^T, S, V^T and O to scale, the tile in work lit. Keys run along the columns of K^T, S and V^T, queries along the rows of
// Q, S and O. Below: what the block holds in shared memory, and the bytes moved so far.
const GAP = 30;

export default function ({ data, parentElement }) {
  const { n, d, row0, rows, head, frames, traced, blocks } = data.meta;
  const canvas = parentElement.querySelector('canvas'), tip = parentElement.querySelector('.tip'), pin = parentElement.querySelector('.pin');
  const shared = parentElement.querySelector('.shared'), bytes = parentElement.querySelector('.bytes');
  const B = bus(), paint = theme(parentElement);
  const values = { Q: column(data.q), K: column(data.k), V: column(data.v), S: column(data.s), O: column(data.o) };
  const oFinal = column(data.o_final);
  const span = array => { let m = 1e-30; for (const v of array) if (Number.isFinite(v)) m = Math.max(m, Math.abs(v)); return m; };
  const low = rgb(COLOURS.blue), high = rgb(COLOURS.orange), middle = rgb(paint.background);

  // One small canvas per matrix, a pixel per element: blue below zero, orange above.
  const image = (width, height, at, scale) => {
    const small = element('canvas', { width, height }), g = small.getContext('2d'), pixels = g.createImageData(width, height);
    for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
      const v = at(y, x), i = 4 * (y * width + x);
      if (v === undefined || Number.isNaN(v)) continue;  // stays transparent: not logged
      const t = Math.min(1, Math.abs(v) / scale) ** 0.7, end = v < 0 ? low : high;
      for (let c = 0; c < 3; c++) pixels.data[i + c] = middle[c] + (end[c] - middle[c]) * t;
      pixels.data[i + 3] = 255;
    }
    g.putImageData(pixels, 0, 0);
    return small;
  };
  const firstWrite = frames.findIndex(f => f.touched.some(t => t.tensor === 'O' && t.kind === 'store'));
  const writtenAt = firstWrite < 0 ? Infinity : firstWrite;  // from this step on O is final
  const oBlocks = values.O.length / (rows * d);
  const pictures = {
    Q: image(d, n, (y, x) => values.Q[y * d + x], span(values.Q)), K: image(n, d, (y, x) => values.K[x * d + y], span(values.K)),
    V: image(n, d, (y, x) => values.V[x * d + y], span(values.V)), S: image(n, rows, (y, x) => values.S[y * n + x], span(values.S)),
    O: Array.from({ length: oBlocks }, (_, b) => image(d, rows, (y, x) => values.O[(b * rows + y) * d + x], span(values.O))),
  };
  pictures.O.push(image(d, rows, (y, x) => oFinal[y * d + x], span(oFinal)));

  const keys = frames.map(f => ({ resident: f.block + JSON.stringify(f.resident), bytes: JSON.stringify(f.bytes) }));  // to see what a step leaves alone
  let layout, view, hover = null, pinned = null, sharedNow, bytesNow;
  const place = width => {
    const unit = Math.min((width - 2 * GAP - 2) / (n + 2 * d), 640 / (n + 2 * d)), a = d * unit, b = n * unit;
    const left = Math.max(0, (width - (2 * a + b + 2 * GAP)) / 2);
    return { unit, height: 2 * a + b + 2 * GAP + 20,
      boxes: { Q: [left, 16 + a + GAP, a, b], K: [left + a + GAP, 16, b, a], S: [left + a + GAP, 16 + a + GAP, b, b],
        V: [left + a + GAP, 16 + a + b + 2 * GAP, b, a], O: [left + a + b + 2 * GAP, 16 + a + GAP, a, b] } };
  };
  // Pixel rectangle of elements [r0, r1] x [c0, c1]; K and V are drawn with keys along x.
  const pixels = (tensor, [r0, r1, c0, c1]) => {
    const [x, y] = layout.boxes[tensor === 'P' ? 'S' : tensor], u = layout.unit;
    return 'KV'.includes(tensor) ? [x + r0 * u, y + c0 * u, (r1 - r0 + 1) * u, (c1 - c0 + 1) * u] : [x + c0 * u, y + r0 * u, (c1 - c0 + 1) * u, (r1 - r0 + 1) * u];
  };

  const draw = step => {
    step = Math.min(step, frames.length - 1);
    const frame = frames[step], width = view.width || 500;
    layout = place(width);
    const g = prepare(canvas, width, layout.height), u = layout.unit;
    g.imageSmoothingEnabled = false;
    const lit = [...frame.touched, ...frame.uses.filter(t => frame.resident[t]?.rect).map(t => ({ tensor: t, kind: 'use', rect: frame.resident[t].rect }))];

    for (const tensor of ['Q', 'K', 'V']) {  // dim everywhere, full where lit
      const [x, y, w, h] = layout.boxes[tensor];
      g.globalAlpha = 0.3;
      g.drawImage(pictures[tensor], x, y, w, h);
      g.globalAlpha = 1;
      for (const part of lit.filter(p => p.tensor === tensor)) {
        const [px, py, pw, ph] = pixels(tensor, part.rect);
        g.drawImage(pictures[tensor], (px - x) / u, (py - y) / u, pw / u, ph / u, px, py, pw, ph);
      }
    }
    for (let past = 0; past <= step; past++) {  // S: only the scores computed by now
      const rect = frames[past].scores;
      if (!rect) continue;
      const [x, y, w, h] = pixels('S', rect);
      g.globalAlpha = past === step || rectsMeet(rect, frame.resident.P?.rect) ? 1 : 0.45;
      g.drawImage(pictures.S, rect[2], rect[0] - row0, rect[3] - rect[2] + 1, rect[1] - rect[0] + 1, x, y, w, h);
    }
    g.globalAlpha = 1;
    const written = step >= writtenAt;
    const o = written ? oBlocks : frame.o;
    if (o >= 0) {
      const [x, y, w, h] = pixels('O', [row0, row0 + rows - 1, 0, d - 1]);
      g.drawImage(pictures.O[o], x, y, w, h);
    }

    g.lineWidth = 1;
    g.strokeStyle = paint.border;
    g.font = `600 13px ${paint.font}`;
    g.textBaseline = 'alphabetic';
    const names = { Q: 'Q', K: 'K\u1d40', S: 'S', V: 'V\u1d40', O: 'O' };
    for (const [tensor, [x, y, w, h]] of Object.entries(layout.boxes)) {
      g.strokeRect(x - 0.5, y - 0.5, w + 1, h + 1);
      g.fillStyle = paint.text;
      g.fillText(names[tensor], x, y - 5);
    }
    g.font = `12px ${paint.font}`;
    g.globalAlpha = 0.75;
    const [sx, sy, sw] = layout.boxes.S;
    g.fillText(sw > 150 ? `${n} queries \u00d7 ${n} keys` : `${n} \u00d7 ${n}`, sx + 16, sy - 5);
    if (layout.boxes.Q[2] > 70) g.fillText(`${n} \u00d7 ${d}`, layout.boxes.Q[0] + 18, layout.boxes.Q[1] - 5);
    if (o >= 0 && !written && layout.boxes.O[2] > 70) g.fillText('so far', layout.boxes.O[0] + 18, layout.boxes.O[1] - 5);
    g.globalAlpha = 1;

    g.textAlign = 'center';  // which block makes which part of the output
    g.font = `11px ${paint.font}`;
    for (const [r0, r1, c0, c1, block] of blocks) {
      const [x, y, w, h] = pixels('O', [r0, r1, c0, c1]);
      g.strokeStyle = paint.border;
      if (h > 4) g.strokeRect(x - 0.5, y - 0.5, w + 1, h + 1);
      if (h < 13 || w < 40 || (r0 === row0 && o >= 0)) continue;
      g.fillStyle = paint.text;
      g.fillText(`block ${block}`, x + w / 2, y + h / 2 + 4);
    }
    g.textAlign = 'left';
    const [bx, by, bw] = pixels('O', [row0, row0 + rows - 1, 0, d - 1]);  // the traced part
    g.strokeStyle = paint.text;
    g.setLineDash([2, 3]);
    g.strokeRect(bx - 0.5, by - 0.5, bw + 1, rows * u + 1);
    for (const [tensor, held] of Object.entries(frame.resident)) {
      if (!held.rect) continue;
      g.strokeStyle = paint.text;
      g.lineWidth = 1.5;
      g.setLineDash([5, 3]);
      g.strokeRect(...pixels(tensor, held.rect));
    }
    g.setLineDash([]);
    for (const part of lit) {
      g.strokeStyle = part.kind === 'store' ? COLOURS.vermillion : part.kind === 'use' ? paint.text : COLOURS.sky;
      g.lineWidth = 3;
      g.strokeRect(...pixels(part.tensor, part.rect));
    }
    if (frame.scores) {
      g.strokeStyle = paint.text;
      g.lineWidth = 2.5;
      g.strokeRect(...pixels('S', frame.scores));
    }
    cross(g);
    if (sharedNow !== keys[step].resident) drawShared(frame, keys[step].resident);
    if (bytesNow !== keys[step].bytes) drawBytes(frame, keys[step].bytes);
    canvas.setAttribute('aria-label', `${frame.title}. ${frame.sentence}`);
    pin.textContent = pinned ? `Pinned: ${describe(pinned)}` : '';
    showTip(tip, hover, hover && describe(hover), view.width);
  };
  const rectsMeet = (a, b) => b && a[0] <= b[1] && b[0] <= a[1] && a[2] <= b[3] && b[2] <= a[3];

  // One cursor: a query is a row of Q, S and O, a key a column of K^T, S and V^T.
  const cross = g => {
    const at = hover ?? pinned;
    if (!at) return;
    g.strokeStyle = paint.primary;
    g.lineWidth = 1;
    const u = layout.unit, B_ = layout.boxes;
    if (at.query !== undefined) for (const t of ['Q', 'S', 'O']) g.strokeRect(B_[t][0], B_[t][1] + at.query * u, B_[t][2], Math.max(u, 1));
    if (at.key !== undefined) for (const t of ['K', 'S', 'V']) g.strokeRect(B_[t][0] + at.key * u, B_[t][1], Math.max(u, 1), B_[t][3]);
  };
  const locate = (x, y) => {
    for (const [tensor, [bx, by, w, h]] of Object.entries(layout.boxes)) {
      if (x < bx || y < by || x >= bx + w || y >= by + h) continue;
      const across = Math.floor((x - bx) / layout.unit), down = Math.floor((y - by) / layout.unit);
      if (tensor === 'K' || tensor === 'V') return { tensor, key: across, dim: down };
      return tensor === 'S' ? { tensor, query: down, key: across } : { tensor, query: down, dim: across };
    }
    return null;
  };
  const describe = at => {
    const where = `${at.tensor}[${at.tensor === 'S' ? `${at.query}, ${at.key}` : `${at.query ?? at.key}, ${at.dim}`}]`;
    const inTile = at.query >= row0 && at.query < row0 + rows;
    if (at.tensor === 'S') {
      const done = frames.slice(0, B.step + 1).some(f => f.scores && at.query >= f.scores[0] && at.query <= f.scores[1] && at.key >= f.scores[2] && at.key <= f.scores[3]);
      const v = inTile ? values.S[(at.query - row0) * n + at.key] : NaN;
      return `${where} ${!inTile ? 'is outside the traced query tile' : Number.isNaN(v) ? 'is masked: never computed' : done ? `= ${exact(v)}` : 'is not computed yet'}`;
    }
    if (at.tensor === 'O') {
      const frame = frames[B.step], written = B.step >= writtenAt;
      if (!inTile) return `${where} is made by block ${blocks.find(([r0, r1, c0, c1]) => at.query >= r0 && at.query <= r1 && at.dim >= c0 && at.dim <= c1)[4]}, not traced`;
      if (written) return `${where} = ${exact(oFinal[(at.query - row0) * d + at.dim])}`;
      return frame.o < 0 ? `${where} is not begun` : `${where} so far = ${exact(values.O[(frame.o * rows + at.query - row0) * d + at.dim])}`;
    }
    return `${where} = ${exact(values[at.tensor][(at.query ?? at.key) * d + at.dim])}`;
  };
  canvas.onpointermove = event => {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top, at = locate(x, y);
    hover = at && { ...at, x, y };
    draw(B.step);
  };
  canvas.onpointerleave = () => { hover = null; draw(B.step); };
  canvas.onclick = () => { pinned = hover && !(pinned && pinned.tensor === hover.tensor && describe(pinned) === describe(hover)) ? { ...hover } : null; draw(B.step); };

  const number = value => value.toLocaleString('en');
  const drawShared = (frame, key) => {
    sharedNow = key;
    const held = Object.entries(frame.resident);
    const total = held.reduce((sum, [, part]) => sum + part.bytes, 0);
    shared.replaceChildren(element('div', { class: 'label' }, held.length ? `In shared memory of block ${frame.block}: ${number(total)} bytes` : `Block ${frame.block} holds nothing in shared memory`),
      element('div', { class: 'strip' }, ...held.map(([tensor, part]) => {
        const rect = part.rect, name = 'KV'.includes(tensor) ? 'keys' : 'queries';
        const box = element('div', { class: 'box' }, element('b', {}, tensor), rect ? ` ${name} ${rect[0]}\u2013${rect[1]}` : '', element('small', {}, ` ${number(part.bytes)} B`));
        box.style.flexGrow = part.bytes;
        box.style.borderColor = COLOURS[tensor];
        return box;
      })));
  };
  const drawBytes = (frame, key) => {
    bytesNow = key;
    const cell = (tensor, kind) => element('td', {}, number(frame.bytes[`${tensor} ${kind}`] ?? 0));
    bytes.replaceChildren(element('caption', {}, 'Bytes of global memory so far, this query tile'),
      element('tr', {}, element('th', {}, ''), ...traced.map(t => element('th', {}, t))),
      element('tr', {}, element('th', {}, 'read'), ...traced.map(t => cell(t, 'load'))),
      element('tr', {}, element('th', {}, 'written'), ...traced.map(t => cell(t, 'store'))));
  };

  const mounted = mount(parentElement, { onStep: step => view && draw(step), title: `Matrices of head ${head}` });
  view = mounted.view;
  draw(mounted.step);
  return mounted.unmount;
}
