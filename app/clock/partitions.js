// V1 and V2 on one axis of tokens: how far each block has come through K and V, and below what the second kernel combines.
const LEFT = 56, SECOND = 90;  // pixels: where tokens begin; from there down it is V2

export default function ({ data, parentElement }) {
  const { frames, length, parts, v1, v2, name, head } = data.meta;
  const table = parentElement.querySelector('.numbers'), B = bus();
  const frameAt = step => frames[Math.min(step, frames.length - 1)];
  let scale, rowsNow = null;

  const lane = (g, paint, y, one, title, strong) => {
    const x = LEFT + one.first * scale, w = (one.end - one.first) * scale;
    for (const [n, key, colour] of [[0, 'k', PALETTE.tensors.K], [1, 'v', PALETTE.tensors.V]]) {
      const top = y + n * 19;
      g.fillStyle = paint.panel;
      g.fillRect(x, top, w - 2, 16);
      g.fillStyle = colour;
      g.fillRect(x, top, Math.max(0, (one[key] - one.first) * scale - 2), 16);
      g.strokeStyle = paint.border;
      g.lineWidth = 1;
      g.strokeRect(x + 0.5, top + 0.5, w - 3, 15);
    }
    if (strong) {
      g.strokeStyle = paint.text;
      g.lineWidth = 2;
      g.strokeRect(x - 1, y - 1, w, 37);
    }
    g.fillStyle = paint.text;
    g.font = `12px ${paint.font}`;
    if (w > 70) g.fillText(title, x, y + 52, w - 4);
  };
  const view = canvasView(parentElement, {
    title: 'V1 beside V2',
    layout(width) {
      scale = (width - LEFT) / length;
      return 214;
    },
    draw(g, { step, paint }) {
      const frame = frameAt(step), working = one => one.phase !== 'done';
      const label = (text, y) => { g.fillStyle = paint.text; g.font = `600 13px ${paint.font}`; g.fillText(text, 0, y); };
      const sides = y => { g.font = `600 12px ${paint.mono}`; g.fillText('K', LEFT - 22, y + 13); g.fillText('V', LEFT - 22, y + 32); };
      label(`V1: one block for query head ${head} of ${name}, ${length} tokens`, 14);
      sides(24);
      lane(g, paint, 24, frame.v1, frame.v1.state ? `m = ${short(v1.m, 4)}, l = ${short(v1.l, 4)}` : '', working(frame.v1));
      label(`V2: ${frame.v2.length} block${frame.v2.length > 1 ? 's' : ''}, one per partition`, 108);
      sides(118);
      frame.v2.forEach((one, n) => lane(g, paint, 118, one, one.state ? `m ${short(parts[n].m, 4)}  l ${short(parts[n].l, 4)}` : '', working(one)));
      const said = { combine: 'Second kernel: combining m and l', write: 'Second kernel: combining the outputs', done: 'Done: O is written' };
      g.font = `12px ${paint.font}`;
      g.fillStyle = paint.text;
      g.fillText(said[frame.reduce] ?? 'The second kernel waits for all partitions', LEFT, 204);
      drawRows(frame);
    },
    locate(x, y) {
      const token = Math.floor((x - LEFT) / scale), first = y < SECOND;
      if (token < 0 || token >= length) return null;
      const partition = first ? null : frameAt(B.step).v2.findIndex(one => token >= one.first && token < one.end);
      return partition === -1 ? null : { token, partition };
    },
    describe({ token, partition }, step) {
      const frame = frameAt(step), one = partition === null ? frame.v1 : frame.v2[partition];
      const where = partition === null ? 'V1' : `partition ${partition}`;
      return `token ${token}, ${where}: K ${token < one.k ? 'read' : 'not yet'}, V ${token < one.v ? 'read' : 'not yet'}`;
    },
    label: step => `${frameAt(step).title}. ${frameAt(step).sentence}`,
  });

  function drawRows(frame) {
    const key = JSON.stringify([frame.v2.map(one => one.state), frame.reduce, frame.v1.state]);
    if (key === rowsNow) return;
    rowsNow = key;
    const combined = frame.reduce !== null, cell = text => element('td', {}, text), tr = (...cells) => element('tr', {}, ...cells);
    const said = (known, text) => cell(known ? text : '–');
    table.replaceChildren(
      element('caption', {}, 'm = max m_i;  l = Σ l_i e^(m_i − m);  O = Σ O_i e^(m_i − m) / l'),
      tr(...['partition', 'tokens', 'm_i', 'l_i', 'e^(m_i − m)', 'l_i e^(m_i − m)'].map(t => element('th', {}, t))),
      ...parts.map((p, n) => tr(element('th', {}, String(p.partition)), cell(`${p.first}–${p.end - 1}`), said(frame.v2[n].state, exact(p.m)),
        said(frame.v2[n].state, exact(p.l)), said(combined, exact(p.weight)), said(combined, short(p.l * p.weight, 7)))),
      tr(element('th', {}, 'V2 in all'), cell(`0–${length - 1}`), said(combined, exact(v2.m)), said(combined, exact(v2.l)), cell(''),
        said(combined, short(v2.l, 7))),
      tr(element('th', {}, 'V1'), cell(`0–${length - 1}`), said(frame.v1.state, exact(v1.m)), said(frame.v1.state, exact(v1.l)), cell(''), cell('')));
  }
  return view.unmount;
}
