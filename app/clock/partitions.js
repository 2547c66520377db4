// V1 and V2 on one axis of tokens: how far each block has come through K and V, and below what the second kernel combines.
const LEFT = 56;

export default function ({ data, parentElement }) {
  const { frames, length, parts, v1, v2, name, head } = data;
  const canvas = parentElement.querySelector('canvas'), tip = parentElement.querySelector('.tip'), table = parentElement.querySelector('.numbers');
  const paint = theme(parentElement), B = bus();
  let view, hover = null;

  const lane = (g, y, one, scale, title, strong) => {
    const x = LEFT + one.first * scale, w = (one.end - one.first) * scale;
    for (const [n, key, colour] of [[0, 'k', COLOURS.K], [1, 'v', COLOURS.V]]) {
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
    g.textAlign = 'left';
    if (w > 70) g.fillText(title, x, y + 52, w - 4);
  };
  const working = one => one.phase !== 'done';
  const draw = step => {
    const frame = frames[Math.min(step, frames.length - 1)], width = view.width || 600, scale = (width - LEFT) / length, g = prepare(canvas, width, 214);
    const label = (text, y) => { g.fillStyle = paint.text; g.font = `600 13px ${paint.font}`; g.textAlign = 'left'; g.fillText(text, 0, y); };
    const sides = y => { g.fillStyle = paint.text; g.font = `600 12px ${paint.mono}`; g.fillText('K', LEFT - 22, y + 13); g.fillText('V', LEFT - 22, y + 32); };
    label(`V1: one block for query head ${head} of ${name}, ${length} tokens`, 14);
    sides(24);
    lane(g, 24, frame.v1, scale, frame.v1.state ? `m = ${short(v1.m, 4)}, l = ${short(v1.l, 4)}` : '', working(frame.v1));
    label(`V2: ${frame.v2.length} block${frame.v2.length > 1 ? 's' : ''}, one per partition`, 108);
    sides(118);
    frame.v2.forEach((one, n) => lane(g, 118, one, scale, one.state ? `m ${short(parts[n].m, 4)}  l ${short(parts[n].l, 4)}` : '', working(one)));
    g.font = `12px ${paint.font}`;
    g.fillStyle = paint.text;
    const said = { combine: 'Second kernel: combining m and l', write: 'Second kernel: combining the outputs', done: 'Done: O is written' }[frame.reduce] ?? 'The second kernel waits for all partitions';
    g.fillText(said, LEFT, 204);
    rows(frame);
    canvas.setAttribute('aria-label', `${frame.title}. ${frame.sentence}`);
    showTip(tip, hover, hover?.text, width);
  };
  let rowsNow;
  const rows = frame => {
    const key = JSON.stringify([frame.v2.map(one => one.state), frame.reduce, frame.v1.state]);
    if (key === rowsNow) return;
    rowsNow = key;
    const combined = frame.reduce !== null, cell = text => element('td', {}, text), tr = (...cells) => element('tr', {}, ...cells);
    table.replaceChildren(
      element('caption', {}, 'm = max m_i;  l = Σ l_i e^(m_i − m);  O = Σ O_i e^(m_i − m) / l'),
      tr(...['partition', 'tokens', 'm_i', 'l_i', 'e^(m_i − m)', 'l_i e^(m_i − m)'].map(t => element('th', {}, t))),
      ...parts.map((p, n) => tr(element('th', {}, String(p.partition)), cell(`${p.first}–${p.end - 1}`), cell(frame.v2[n].state ? exact(p.m) : '–'),
        cell(frame.v2[n].state ? exact(p.l) : '–'), cell(combined ? exact(p.weight) : '–'), cell(combined ? short(p.l * p.weight, 7) : '–'))),
      tr(element('th', {}, 'V2 in all'), cell(`0–${length - 1}`), cell(combined ? exact(v2.m) : '–'), cell(combined ? exact(v2.l) : '–'), cell(''), cell(combined ? short(v2.l, 7) : '–')),
      tr(element('th', {}, 'V1'), cell(`0–${length - 1}`), cell(frame.v1.state ? exact(v1.m) : '–'), cell(frame.v1.state ? exact(v1.l) : '–'), cell(''), cell('')));
  };
  canvas.onpointermove = event => {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const frame = frames[Math.min(B.step, frames.length - 1)], token = Math.floor(((x - LEFT) / (view.width - LEFT)) * length);
    const one = y < 90 ? frame.v1 : frame.v2.find(lane => token >= lane.first && token < lane.end);
    hover = token >= 0 && token < length && one ? { x, y, text: `token ${token}, ${y < 90 ? 'V1' : `partition ${frame.v2.indexOf(one)}`}: K ${token < one.k ? 'read' : 'not yet'}, V ${token < one.v ? 'read' : 'not yet'}` } : null;
    draw(B.step);
  };
  canvas.onpointerleave = () => { hover = null; draw(B.step); };
  const mounted = mount(parentElement, { onStep: step => view && draw(step), title: 'V1 beside V2' });
  view = mounted.view;
  rowsNow = null;
  draw(mounted.step);
  return mounted.unmount;
}
