// One request of global memory: the 128-byte lines it touches, each of four sectors; the bytes asked for in the colour of their lane.
export default function ({ data, parentElement }) {
  const { frames, requests } = data;
  const canvas = parentElement.querySelector('canvas'), tip = parentElement.querySelector('.tip'), table = parentElement.querySelector('table');
  const B = bus(), paint = theme(parentElement), LEFT = 96, TOP = 26, ROW = 19, SHOWN = 32;
  const linesOf = request => [...new Set(request.offsets.flatMap(o => (o < 0 ? [] : [Math.floor(o / 128), Math.floor((o + request.bytes - 1) / 128)])))].sort((a, b) => a - b);
  const tallest = Math.max(4, ...requests.map(r => Math.min(SHOWN, linesOf(r).length)));
  const cividis = t => `rgb(${[[0, 34, 78], [87, 92, 109], [166, 157, 117], [254, 232, 56]].reduce((found, colour, i, all) => {
    const at = t * 3;
    return i < 3 && at >= i && at <= i + 1 ? colour.map((v, k) => Math.round(v + (all[i + 1][k] - v) * (at - i))) : found;
  }, [254, 232, 56])})`;
  let view, hover = null;

  const draw = step => {
    const request = requests[Math.min(step, requests.length - 1)], lines = linesOf(request), shown = lines.slice(0, SHOWN);
    const width = view.width || 700, height = TOP + tallest * ROW + 28, unit = (width - LEFT - 10) / 128;
    const g = prepare(canvas, width, height), y = n => TOP + n * ROW;
    g.font = `12px ${paint.font}`;
    g.textBaseline = 'middle';
    g.fillStyle = paint.text;
    g.textAlign = 'right';
    g.fillText('line from byte', LEFT - 8, 12);
    g.textAlign = 'center';
    for (let s = 0; s < 4; s++) g.fillText(`sector ${s}`, LEFT + (s * 32 + 16) * unit, 12);
    const wanted = new Set(request.offsets.flatMap(o => (o < 0 ? [] : [Math.floor(o / 32), Math.floor((o + request.bytes - 1) / 32)])));
    shown.forEach((line, n) => {
      g.fillStyle = paint.text;
      g.textAlign = 'right';
      g.fillText((line * 128).toLocaleString('en'), LEFT - 8, y(n) + ROW / 2);
      for (let s = 0; s < 4; s++) {
        const moved = wanted.has(line * 4 + s);
        g.fillStyle = moved ? paint.panel : 'transparent';
        g.fillRect(LEFT + s * 32 * unit + 1, y(n) + 1, 32 * unit - 2, ROW - 3);
      }
    });
    request.offsets.forEach((offset, lane) => {
      if (offset < 0) return;
      const n = shown.indexOf(Math.floor(offset / 128));
      if (n < 0) return;
      g.fillStyle = cividis(lane / 31);
      g.fillRect(LEFT + (offset % 128) * unit + 0.5, y(n) + 3, Math.max(1, request.bytes * unit - 1), ROW - 7);
    });
    shown.forEach((line, n) => {
      for (let s = 0; s < 4; s++) {
        const moved = wanted.has(line * 4 + s);
        g.strokeStyle = moved ? COLOURS.vermillion : paint.border;
        g.lineWidth = moved ? 2 : 1;
        g.strokeRect(LEFT + s * 32 * unit + 1, y(n) + 1, 32 * unit - 2, ROW - 3);
      }
    });
    g.fillStyle = paint.text;
    g.textAlign = 'left';
    g.fillText(lines.length > SHOWN ? `and ${lines.length - SHOWN} more lines like these` : `${request.sectors} sector${request.sectors === 1 ? '' : 's'} moved, ${request.used} bytes of ${request.sectors * 32} used`,
      LEFT, y(tallest) + 12);
    canvas.setAttribute('aria-label', frames[Math.min(step, frames.length - 1)].sentence);
    let text = null;
    if (hover) {
      const n = Math.floor((hover.y - TOP) / ROW), byte = Math.floor((hover.x - LEFT) / unit);
      if (shown[n] !== undefined && byte >= 0 && byte < 128) {
        const at = shown[n] * 128 + byte, lanes = request.offsets.flatMap((o, lane) => (o >= 0 && o <= at && at < o + request.bytes ? [lane] : []));
        text = `byte ${at.toLocaleString('en')}, sector ${Math.floor(at / 32).toLocaleString('en')}: ` +
          (lanes.length ? `lane${lanes.length > 1 ? 's' : ''} ${lanes.length > 6 ? `${lanes[0]} to ${lanes.at(-1)}` : lanes.join(', ')}` : wanted.has(Math.floor(at / 32)) ? 'moved, not used' : 'not moved');
      }
    }
    showTip(tip, text && hover, text, width);
    for (const row of table.querySelectorAll('tr[data-request]')) row.classList.toggle('lit', +row.dataset.request === step);
  };
  const mounted = mount(parentElement, { onStep: draw, title: 'Sectors' });
  view = mounted.view;
  canvas.onmousemove = event => { hover = { x: event.offsetX, y: event.offsetY }; draw(B.step); };
  canvas.onmouseleave = () => { hover = null; draw(B.step); };
  table.replaceChildren(element('tr', {}, ...['request', 'tensor', 'kind', 'lanes', 'bytes each', 'sectors', 'lines', 'used of 32'].map(text => element('th', {}, text))),
    ...requests.slice(0, 8).map((r, n) => {
      const row = element('tr', { 'data-request': n }, ...[n, r.tensor, r.kind, r.active, r.bytes, r.sectors, r.lines, short(r.used / r.sectors, 3)]
        .map((text, i) => element(i ? 'td' : 'th', {}, String(text))));
      row.onclick = () => B.set(n, 'user');
      return row;
    }));
  draw(mounted.step);
  return mounted.unmount;
}
