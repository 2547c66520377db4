// A KV cache after each event: block tables, the pool of pages with reference counts, the free list, and the slots that are wasted.
const LEFT = 92;

export default function ({ data, parentElement, setStateValue }) {
  const { frames, size, run, moment, page_bytes, kv_heads } = data.meta;
  const B = bus(), number = value => value.toLocaleString('en');
  const pageCount = frames[0].free.length;
  const most = Math.max(1, ...frames.flatMap(f => f.sequences.map(s => s.table.length)));
  const rows = Math.max(1, ...frames.map(f => f.sequences.length));  // heights that hold every step: the page below must not move
  let width, tables = [], place, poolTop, rowHeight, paint, rest, drawn;
  const frameAt = step => frames[Math.min(step, frames.length - 1)];

  const tableRows = width => {
    const w = Math.max(27, Math.min(44, (width - LEFT) / most));
    return Math.ceil(most / Math.max(1, Math.floor((width - LEFT) / w)));
  };
  const layout = wide => {
    width = wide;
    rowHeight = 37 * tableRows(width) + 7;
    poolTop = 24 + rows * rowHeight + 34;
    place = placePages(pageCount, width, poolTop);
    return place.bottom + 26 + 74;
  };
  const draw = (g, { step, at, paint: colours }) => {
    const frame = frameAt(step);
    paint = colours;
    const label = (text, x, y) => { g.font = `600 13px ${paint.font}`; g.fillStyle = paint.text; g.fillText(text, x, y); };
    label('Block tables: entry above, page below', 0, 13);
    tables = frame.sequences.map((s, n) => {
      const y = 24 + n * rowHeight;
      g.fillStyle = s.colour;
      g.fillRect(0, y, 6, 32);
      g.fillStyle = paint.text;
      g.font = `600 14px ${paint.font}`;
      g.fillText(s.name, 12, y + 14, LEFT - 16);
      g.font = `11px ${paint.font}`;
      g.fillText(`${s.length} token${s.length === 1 ? '' : 's'}`, 12, y + 28);
      return drawTable(g, paint, s.table, LEFT, y, width, s);
    });
    if (!frame.sequences.length) {
      g.font = `13px ${paint.font}`;
      g.fillText('No sequence.', 12, 42);
    }
    label(`Pool: ${pageCount} pages of ${size} slots`, 0, poolTop - 16);
    for (let page = 0; page < pageCount; page++) {
      const held = frame.pages[page], count = held ? held.owners.length : 0;
      const fresh = frame.new.filter(slot => Math.floor(slot / size) === page).map(slot => slot % size);
      const place_ = frame.free.indexOf(page);
      drawPage(g, paint, place, page, size, { owners: held ? held.owners.map(n => frame.sequences[n]) : [], fill: held?.fill ?? 0, fresh,
        note: count > 1 ? `held by ${count}` : place_ === 0 ? 'next' : place_ > 0 ? 'free' : '' });
      if (frame.released.includes(page)) outline(g, page, [3, 3]);
    }
    if (frame.copied) {
      const [from, to] = frame.copied.map(page => place.at(page)), top = ([x, y]) => [x + place.w / 2, y];
      arrow(g, top(from), top(to));
    }
    if (at?.page !== undefined) outline(g, at.page, []);
    g.font = `12px ${paint.font}`;
    g.fillStyle = paint.text;
    const free = frame.free.length ? `Free list, next first: ${frame.free.join(', ')}` : 'Free list: empty';
    g.fillText(free, 0, place.bottom + 18, width);
    bars(g, frame, place.bottom + 34, width);
  };
  const outline = (g, page, dash) => {
    const [x, y] = place.at(page);
    g.setLineDash(dash);
    g.strokeStyle = paint.text;
    g.lineWidth = 2.5;
    g.strokeRect(x, y, place.w, place.h);
    g.setLineDash([]);
  };
  const arrow = (g, [x0, y0], [x1, y1]) => {
    const cx = (x0 + x1) / 2, cy = Math.min(y0, y1) - 16, angle = Math.atan2(y1 - cy, x1 - cx);  // an arc over the boxes
    g.strokeStyle = g.fillStyle = COLOURS.written;
    g.lineWidth = 2.5;
    g.beginPath();
    g.moveTo(x0, y0);
    g.quadraticCurveTo(cx, cy, x1, y1);
    g.stroke();
    g.beginPath();
    g.moveTo(x1, y1);
    for (const turn of [2.6, -2.6]) g.lineTo(x1 + 11 * Math.cos(angle + turn), y1 + 11 * Math.sin(angle + turn));
    g.fill();
  };
  // Used, shared copies and waste, to one scale, of pages and of contiguous memory
  const widest = Math.max(1, ...frames.map(f => Math.max(f.usage.held, f.usage.reserved)));
  const bars = (g, frame, top, width) => {
    const u = frame.usage, left = 92, scale = (width - left) / widest;
    const line = (y, name, parts) => {
      g.fillStyle = paint.text;
      g.font = `600 12px ${paint.font}`;
      g.fillText(name, 0, y + 14);
      let x = left;
      for (const [count, colour, word] of parts) {
        if (!count) continue;
        g.fillStyle = colour;
        g.fillRect(x, y, count * scale, 20);
        g.strokeStyle = paint.border;
        g.lineWidth = 1;
        g.strokeRect(x + 0.5, y + 0.5, Math.max(count * scale - 1, 0), 19);
        g.font = `11px ${paint.font}`;
        const text = `${count} ${word}`;
        const inside = g.measureText(text).width + 8 < count * scale, last = x + count * scale;
        g.fillStyle = colour === paint.panel || !inside ? paint.text : '#000';
        if (inside || word === 'slack') g.fillText(text, inside ? x + 4 : last + 6, y + 14);
        x = last;
      }
    };
    line(top, 'Pages', [[u.used, COLOURS.V, 'used'], [u.slack, paint.panel, 'slack']]);
    line(top + 28, 'Contiguous', [[u.used, COLOURS.V, 'used'], [Math.max(u.copies, 0), COLOURS.S, 'copies'], [u.empty, paint.panel, 'empty']]);
  };

  const describe = (at, step) => {
    const frame = frameAt(step);
    if (at.entry !== undefined) {
      const s = frame.sequences[at.sequence], first = at.entry * size;
      return `entry ${at.entry} of ${s.name}: tokens ${first} to ${Math.min(first + size, s.length) - 1} lie in page ${s.table[at.entry]}`;
    }
    const held = frame.pages[at.page];
    if (!held) return `page ${at.page} is free` + (frame.free[0] === at.page ? ': the next to be taken' : '');
    const names = held.owners.map(n => frame.sequences[n].name).join(', '), slot = at.slot, token = held.entry * size + slot;
    const where = kv_heads ? `\nKV head 0: K from byte ${number(at.page * kv_heads * page_bytes + 16 * slot)}` : '';
    return `page ${at.page}, slot ${slot}: ${slot < held.fill ? `token ${token} of ${names}` : `empty: slack of ${names}`}`
      + (held.owners.length > 1 ? `\nreference count ${held.owners.length}` : '') + where;
  };
  const locate = (x, y) => {
    const sequence = tables.findIndex(t => t.find(x, y) >= 0);
    if (sequence >= 0) {
      const entry = tables[sequence].find(x, y);
      return { sequence, entry, page: frameAt(B.step).sequences[sequence].table[entry] };
    }
    const found = place.find(x, y);
    return found && { page: found.page, slot: Math.min(size - 1, Math.floor(found.x / (place.w / size))) };
  };
  const label = step => {
    const frame = frameAt(step);
    return `${frame.title}. ${frame.sentence} ${frame.sequences.map(s => `${s.name}: pages ${s.table.join(', ')}`).join('; ')}.`;
  };

  // Python hears the moment only when the user rests: the sections that run kernels start from it.
  const tell = () => setStateValue('moment', { run, step: B.step });
  const rested = () => {
    clearTimeout(rest);
    if (B.step !== moment) rest = setTimeout(() => { if (B.playing) rested(); else tell(); }, 450);
  };
  const onDraw = (g, now) => {
    draw(g, now);
    if (now.step !== drawn) rested();
    drawn = now.step;
  };
  const view = canvasView(parentElement, { title: 'KV cache', layout, draw: onDraw, locate, describe, label });
  return () => { clearTimeout(rest); view.unmount(); };
}
