// One request of global memory: the 128-byte lines it touches, each of four sectors; the bytes asked for in the colour of their lane.
const LEFT = 96, TOP = 26, ROW = 19, SHOWN = 32, LINE = 128, SECTOR = 32;

export default function ({ data, parentElement }) {
  const { frames, requests } = data.meta;
  const B = bus(), ramp = PALETTE.magnitude.map(rgb), at3 = t => Math.min(2, Math.floor(t * 3));
  const laneColour = lane => blend(ramp[at3(lane / 31) + 1], ramp[at3(lane / 31)], (lane / 31) * 3 - at3(lane / 31));
  const units = (request, size) => [...new Set(request.offsets.flatMap(o =>
    (o < 0 ? [] : [Math.floor(o / size), Math.floor((o + request.bytes - 1) / size)])))].sort((a, b) => a - b);
  const linesOf = request => units(request, LINE);
  const tallest = Math.max(4, ...requests.map(r => Math.min(SHOWN, linesOf(r).length)));
  const requestAt = step => requests[Math.min(step, requests.length - 1)];
  const light = pressRows(parentElement.querySelector('table'), ['request', 'tensor', 'kind', 'lanes', 'bytes each', 'sectors', 'lines', 'used of 32'],
    requests.slice(0, 8).map((r, n) => [n, r.tensor, r.kind, r.active, r.bytes, r.sectors, r.lines, short(r.used / r.sectors, 3)]), n => B.set(n, 'user'));
  const y = n => TOP + n * ROW;
  let unit;

  const view = canvasView(parentElement, {
    title: 'Sectors',
    layout(width) {
      unit = (width - LEFT - 10) / LINE;
      return TOP + tallest * ROW + 28;
    },
    draw(g, { step, at, paint }) {
      const request = requestAt(step), lines = linesOf(request), shown = lines.slice(0, SHOWN), moved = new Set(units(request, SECTOR));
      const box = (n, s) => [LEFT + s * SECTOR * unit + 1, y(n) + 1, SECTOR * unit - 2, ROW - 3];
      g.font = `12px ${paint.font}`;
      g.textBaseline = 'middle';
      g.fillStyle = paint.text;
      g.textAlign = 'center';
      for (let s = 0; s < 4; s++) g.fillText(`sector ${s}`, LEFT + (s * SECTOR + SECTOR / 2) * unit, 12);
      g.textAlign = 'right';
      g.fillText('line from byte', LEFT - 8, 12);
      shown.forEach((line, n) => {
        g.fillStyle = paint.text;
        g.fillText((line * LINE).toLocaleString('en'), LEFT - 8, y(n) + ROW / 2);
        g.fillStyle = paint.panel;
        for (let s = 0; s < 4; s++) if (moved.has(line * 4 + s)) g.fillRect(...box(n, s));
      });
      request.offsets.forEach((offset, lane) => {
        const n = offset < 0 ? -1 : shown.indexOf(Math.floor(offset / LINE));
        if (n < 0) return;
        g.fillStyle = laneColour(lane);
        g.fillRect(LEFT + (offset % LINE) * unit + 0.5, y(n) + 3, Math.max(1, request.bytes * unit - 1), ROW - 7);
      });
      shown.forEach((line, n) => {
        for (let s = 0; s < 4; s++) {
          const on = moved.has(line * 4 + s);
          g.strokeStyle = on ? PALETTE.wavefronts.moved : paint.border;
          g.lineWidth = on ? 2 : 1;
          g.strokeRect(...box(n, s));
        }
      });
      if (at && shown.includes(Math.floor(at.byte / LINE))) {
        g.strokeStyle = paint.primary;
        g.lineWidth = 2;
        g.strokeRect(LEFT + (at.byte % LINE) * unit, y(shown.indexOf(Math.floor(at.byte / LINE))) + 1, Math.max(unit, 2), ROW - 3);
      }
      g.fillStyle = paint.text;
      g.textAlign = 'left';
      const many = lines.length > SHOWN, plural = request.sectors === 1 ? '' : 's';
      g.fillText(many ? `and ${lines.length - SHOWN} more lines like these`
        : `${request.sectors} sector${plural} moved, ${request.used} bytes of ${request.sectors * SECTOR} used`, LEFT, y(tallest) + 12);
      light(step);
    },
    locate(x, yAt) {
      const line = linesOf(requestAt(B.step)).slice(0, SHOWN)[Math.floor((yAt - TOP) / ROW)], byte = Math.floor((x - LEFT) / unit);
      return line !== undefined && byte >= 0 && byte < LINE ? { byte: line * LINE + byte } : null;
    },
    describe({ byte }, step) {
      const request = requestAt(step), sector = Math.floor(byte / SECTOR);
      const lanes = request.offsets.flatMap((o, lane) => (o >= 0 && o <= byte && byte < o + request.bytes ? [lane] : []));
      const said = lanes.length ? `lane${lanes.length > 1 ? 's' : ''} ${lanes.length > 6 ? `${lanes[0]} to ${lanes.at(-1)}` : lanes.join(', ')}`
        : units(request, SECTOR).includes(sector) ? 'moved, not used' : 'not moved';
      return `byte ${byte.toLocaleString('en')}, sector ${sector.toLocaleString('en')}: ${said}`;
    },
    label: step => frames[Math.min(step, frames.length - 1)].sentence,
  });
  return view.unmount;
}
