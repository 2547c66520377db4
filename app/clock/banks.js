// 32 lanes by 32 banks of one access: the cells served in this wavefront, before it and after it; shared words ringed; bank loads above.
export default function ({ data, parentElement }) {
  const { frames, accesses } = data;
  const canvas = parentElement.querySelector('canvas'), tip = parentElement.querySelector('.tip'), table = parentElement.querySelector('table');
  const B = bus(), paint = theme(parentElement), N = 32, LEFT = 62, TOP = 104, BARS = 52;
  const now = rgb(COLOURS.orange), back = rgb(paint.background), blue = rgb(COLOURS.blue), css = c => `rgb(${c.map(Math.round)})`;
  const mix = (a, b, share) => css(a.map((v, i) => v * share + b[i] * (1 - share)));
  let view, hover = null;

  const draw = step => {
    const frame = frames[Math.min(step, frames.length - 1)], access = accesses[frame.access];
    const width = view.width || 700, cell = (width - LEFT - 8) / N, tall = Math.min(cell, 15), height = TOP + N * tall + 26;
    const g = prepare(canvas, width, height);
    g.font = `12px ${paint.font}`;
    g.fillStyle = paint.text;
    g.textBaseline = 'middle';
    const part = access.parts.find(([start, end]) => start <= frame.wavefront && frame.wavefront < end) ?? [0, 1];
    const words = Array.from({ length: N }, () => new Set());
    for (const [, bank, wavefront, word, , ] of access.cells) if (part[0] <= wavefront && wavefront < part[1]) words[bank].add(word);
    const most = Math.max(1, ...words.map(w => w.size));
    g.fillText('words wanted of each bank in this pass', LEFT, 8);
    for (let bank = 0; bank < N; bank++) {
      const count = words[bank].size, x = LEFT + bank * cell, h = count ? Math.max(3, (BARS - 18) * count / most) : 0;
      g.fillStyle = count > 1 ? COLOURS.vermillion : css(blue);
      g.fillRect(x + 1, 30 + BARS - 14 - h, cell - 2, h);
      if (count > 1) {
        g.textAlign = 'center';
        g.fillText(count, x + cell / 2, 30 + BARS - 21 - h);
      }
      g.fillStyle = paint.text;
      g.textAlign = 'center';
      if (cell > 17 || bank % 4 === 0) g.fillText(bank, x + cell / 2, TOP - 12);
    }
    g.textAlign = 'right';
    g.fillText('bank', LEFT - 8, TOP - 12);
    for (let lane = 0; lane < N; lane += 4) g.fillText(`lane ${lane}`, LEFT - 8, TOP + (lane + 0.5) * tall);
    g.strokeStyle = mix(rgb(paint.text), back, 0.16);
    g.lineWidth = 1;
    g.beginPath();
    for (let i = 0; i <= N; i++) {
      g.moveTo(LEFT + i * cell, TOP); g.lineTo(LEFT + i * cell, TOP + N * tall);
      g.moveTo(LEFT, TOP + i * tall); g.lineTo(LEFT + N * cell, TOP + i * tall);
    }
    g.stroke();
    for (const [lane, bank, wavefront, , sharers] of access.cells) {
      const x = LEFT + bank * cell, y = TOP + lane * tall, current = wavefront === frame.wavefront;
      g.fillStyle = current ? css(now) : wavefront < frame.wavefront ? mix(blue, back, 0.35) : mix(rgb(paint.text), back, 0.13);
      g.fillRect(x + 1, y + 1, cell - 2, tall - 2);
      if (sharers > 1) {  // a broadcast: a dot in the middle, whatever the colour
        g.fillStyle = current ? '#000' : paint.text;
        g.beginPath();
        g.arc(x + cell / 2, y + tall / 2, Math.min(2.4, tall / 4), 0, 7);
        g.fill();
      }
    }
    g.fillStyle = paint.text;
    g.textAlign = 'left';
    g.fillText(`wavefront ${frame.wavefront + 1} of ${access.wavefronts}; ideal ${access.ideal}`, LEFT, TOP + N * tall + 14);
    canvas.setAttribute('aria-label', `${frame.title}: ${frame.sentence}`);
    if (hover) {
      const lane = Math.floor((hover.y - TOP) / tall), bank = Math.floor((hover.x - LEFT) / cell);
      const found = access.cells.find(c => c[0] === lane && c[1] === bank);
      const text = found ? `lane ${lane}, bank ${bank}: word ${found[3]} (bytes ${found[3] * 4} to ${found[3] * 4 + 3})\n` +
        `served in wavefront ${found[2] + 1}${found[4] > 1 ? `, shared by ${found[4]} lanes` : ''}` : null;
      showTip(tip, text && hover, text, width);
    } else showTip(tip, null);
    const rows = table.querySelectorAll('tr[data-access]');
    for (const row of rows) row.classList.toggle('lit', +row.dataset.access === frame.access);
  };
  const mounted = mount(parentElement, { onStep: draw, title: 'Lanes and banks' });
  view = mounted.view;
  canvas.onmousemove = event => { hover = { x: event.offsetX, y: event.offsetY }; draw(B.step); };
  canvas.onmouseleave = () => { hover = null; draw(B.step); };
  canvas.onclick = event => {  // the wavefront that serves the cell
    const frame = frames[B.step], access = accesses[frame.access];
    const cell = ((view.width || 700) - LEFT - 8) / N, tall = Math.min(cell, 15);
    const found = access.cells.find(c => c[0] === Math.floor((event.offsetY - TOP) / tall) && c[1] === Math.floor((event.offsetX - LEFT) / cell));
    if (found) B.set(B.step - frame.wavefront + found[2], 'user');
  };
  const first = [];
  frames.forEach((frame, step) => { first[frame.access] ??= step; });
  const head = element('tr', {}, ...['access', 'tensor', 'lanes', 'bytes each', 'passes', 'wavefronts', 'ideal', 'conflicts'].map(text => element('th', {}, text)));
  table.replaceChildren(head, ...accesses.slice(0, 8).map((a, n) => {
    const row = element('tr', { 'data-access': n }, ...[`${n}`, a.tensor, `${a.active}`, `${a.bytes}`, `${a.parts.length}`, `${a.wavefronts}`, `${a.ideal}`, `${a.conflicts}`]
      .map((text, i) => element(i ? 'td' : 'th', {}, text)));
    row.onclick = () => B.set(first[n], 'user');
    return row;
  }));
  draw(mounted.step);
  return mounted.unmount;
}
