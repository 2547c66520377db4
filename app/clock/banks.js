// 32 lanes by 32 banks of one access: the cells served in this wavefront, before it and after it; shared words marked; bank loads above.
const N = 32, LEFT = 62, TOP = 104, BARS = 52;

export default function ({ data, parentElement }) {
  const { frames, accesses } = data.meta;
  const B = bus(), WAVES = PALETTE.wavefronts, now = rgb(WAVES.now), before = rgb(WAVES.before);
  const first = [];  // of each access, its first step
  frames.forEach((frame, step) => { first[frame.access] ??= step; });
  const frameAt = step => frames[Math.min(step, frames.length - 1)];
  const light = pressRows(parentElement.querySelector('table'), ['access', 'tensor', 'lanes', 'bytes each', 'passes', 'wavefronts', 'ideal', 'conflicts'],
    accesses.slice(0, 8).map((a, n) => [n, a.tensor, a.active, a.bytes, a.parts.length, a.wavefronts, a.ideal, a.conflicts]), n => B.set(first[n], 'user'));
  let cell, tall;

  const view = canvasView(parentElement, {
    title: 'Lanes and banks',
    layout(width) {
      cell = (width - LEFT - 8) / N;
      tall = Math.min(cell, 15);
      return TOP + N * tall + 26;
    },
    draw(g, { step, at, paint }) {
      const frame = frameAt(step), access = accesses[frame.access], back = rgb(paint.background), text = rgb(paint.text);
      drawLoads(g, paint, frame, access);
      g.textAlign = 'right';
      g.textBaseline = 'middle';
      g.fillText('bank', LEFT - 8, TOP - 12);
      for (let lane = 0; lane < N; lane += 4) g.fillText(`lane ${lane}`, LEFT - 8, TOP + (lane + 0.5) * tall);
      g.strokeStyle = blend(text, back, 0.16);
      g.lineWidth = 1;
      g.beginPath();
      for (let i = 0; i <= N; i++) {
        g.moveTo(LEFT + i * cell, TOP); g.lineTo(LEFT + i * cell, TOP + N * tall);
        g.moveTo(LEFT, TOP + i * tall); g.lineTo(LEFT + N * cell, TOP + i * tall);
      }
      g.stroke();
      for (const [lane, bank, wavefront, , sharers] of access.cells) {
        const x = LEFT + bank * cell, y = TOP + lane * tall, current = wavefront === frame.wavefront;
        g.fillStyle = current ? WAVES.now : wavefront < frame.wavefront ? blend(before, back, 0.35) : blend(text, back, 0.13);
        g.fillRect(x + 1, y + 1, cell - 2, tall - 2);
        if (sharers > 1) {  // a broadcast: a dot in the middle, whatever the colour
          g.fillStyle = current ? '#000' : paint.text;
          g.beginPath();
          g.arc(x + cell / 2, y + tall / 2, Math.min(2.4, tall / 4), 0, 7);
          g.fill();
        }
      }
      if (at) {
        g.strokeStyle = paint.primary;
        g.lineWidth = 2;
        g.strokeRect(LEFT + at.bank * cell, TOP + at.lane * tall, cell, tall);
      }
      g.fillStyle = paint.text;
      g.textAlign = 'left';
      g.fillText(`wavefront ${frame.wavefront + 1} of ${access.wavefronts}; ideal ${access.ideal}`, LEFT, TOP + N * tall + 14);
      light(frame.access);
    },
    locate(x, y) {
      const lane = Math.floor((y - TOP) / tall), bank = Math.floor((x - LEFT) / cell);
      return accesses[frameAt(B.step).access].cells.some(c => c[0] === lane && c[1] === bank) ? { lane, bank } : null;
    },
    describe({ lane, bank }, step) {
      const found = accesses[frameAt(step).access].cells.find(c => c[0] === lane && c[1] === bank);
      if (!found) return `lane ${lane} does not touch bank ${bank}`;
      const [, , wavefront, word, sharers] = found;
      return `lane ${lane}, bank ${bank}: word ${word} (bytes ${word * 4} to ${word * 4 + 3})\n` +
        `served in wavefront ${wavefront + 1}${sharers > 1 ? `, shared by ${sharers} lanes` : ''}`;
    },
    label: step => `${frameAt(step).title}: ${frameAt(step).sentence}`,
    click({ lane, bank }, step) {  // to the wavefront that serves the cell
      const frame = frameAt(step), found = accesses[frame.access].cells.find(c => c[0] === lane && c[1] === bank);
      if (found) B.set(step - frame.wavefront + found[2], 'user');
    },
  });

  // Above the banks: how many different words the pass wants of each.
  function drawLoads(g, paint, frame, access) {
    const [start, end] = access.parts.find(([from, to]) => from <= frame.wavefront && frame.wavefront < to) ?? [0, 1];
    const words = Array.from({ length: N }, () => new Set());
    for (const [, bank, wavefront, word] of access.cells) if (start <= wavefront && wavefront < end) words[bank].add(word);
    const most = Math.max(1, ...words.map(w => w.size));
    g.font = `12px ${paint.font}`;
    g.fillStyle = paint.text;
    g.textBaseline = 'middle';
    g.fillText('words wanted of each bank in this pass', LEFT, 8);
    g.textAlign = 'center';
    words.forEach(({ size }, bank) => {
      const x = LEFT + bank * cell, h = size ? Math.max(3, (BARS - 18) * size / most) : 0;
      g.fillStyle = size > 1 ? WAVES.conflict : WAVES.before;
      g.fillRect(x + 1, 30 + BARS - 14 - h, cell - 2, h);
      g.fillStyle = paint.text;
      if (size > 1) g.fillText(size, x + cell / 2, 30 + BARS - 21 - h);
      if (cell > 17 || bank % 4 === 0) g.fillText(bank, x + cell / 2, TOP - 12);
    });
  }
  return view.unmount;
}
