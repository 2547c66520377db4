// A KV cache after each event: block tables, the pool of pages with reference counts, the free list, and the slots that are wasted.
const LEFT = 92;

export default function ({ data, parentElement, setStateValue }) {
  const { frames, size, run, max_len, page_bytes, kv_heads } = data;
  const canvas = parentElement.querySelector('canvas'), tip = parentElement.querySelector('.tip');
  const B = bus(), paint = theme(parentElement), number = value => value.toLocaleString('en');
  const pageCount = frames[0].free.length;
  const most = Math.max(1, ...frames.flatMap(f => f.sequences.map(s => s.table.length)));
  const rows = Math.max(1, ...frames.map(f => f.sequences.length));  // heights that hold every step: the page below must not move
  let view, hover = null, tables = [], place, rest;

  const tableRows = width => {
    const w = Math.max(27, Math.min(44, (width - LEFT) / most));
    return Math.ceil(most / Math.max(1, Math.floor((width - LEFT) / w)));
  };
  const draw = step => {
    const frame = frames[Math.min(step, frames.length - 1)], width = view.width || 600, rowHeight = 37 * tableRows(width) + 7;
    const poolTop = 24 + rows * rowHeight + 34;
    place = placePages(pageCount, width, poolTop);
    const g = prepare(canvas, width, place.bottom + 26 + 74);
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
    if (hover?.page !== undefined) outline(g, hover.page, []);
    g.font = `12px ${paint.font}`;
    g.fillStyle = paint.text;
    const free = frame.free.length ? `Free list, next first: ${frame.free.join(', ')}` : 'Free list: empty';
    g.fillText(free, 0, place.bottom + 18, width);
    bars(g, frame, place.bottom + 34, width);
    canvas.setAttribute('aria-label', `${frame.title}. ${frame.sentence} ${frame.sequences.map(s => `${s.name}: pages ${s.table.join(', ')}`).join('; ')}.`);
    showTip(tip, hover, hover && describe(frame), width);
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
    g.strokeStyle = g.fillStyle = COLOURS.vermillion;
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
    line(top, 'Pages', [[u.used, '#009E73', 'used'], [u.slack, paint.panel, 'slack']]);
    line(top + 28, 'Contiguous', [[u.used, '#009E73', 'used'], [Math.max(u.copies, 0), '#CC79A7', 'copies'], [u.empty, paint.panel, 'empty']]);
  };

  const describe = frame => {
    if (hover.entry !== undefined) {
      const s = frame.sequences[hover.sequence], first = hover.entry * size;
      return `entry ${hover.entry} of ${s.name}: tokens ${first} to ${Math.min(first + size, s.length) - 1} lie in page ${s.table[hover.entry]}`;
    }
    const held = frame.pages[hover.page];
    if (!held) return `page ${hover.page} is free` + (frame.free[0] === hover.page ? ': the next to be taken' : '');
    const names = held.owners.map(n => frame.sequences[n].name).join(', '), slot = hover.slot, token = held.entry * size + slot;
    const where = kv_heads ? `\nKV head 0: K from byte ${number(hover.page * kv_heads * page_bytes + 16 * slot)}` : '';
    return `page ${hover.page}, slot ${slot}: ${slot < held.fill ? `token ${token} of ${names}` : `empty: slack of ${names}`}`
      + (held.owners.length > 1 ? `\nreference count ${held.owners.length}` : '') + where;
  };
  canvas.onpointermove = event => {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const found = place.find(x, y), sequence = tables.findIndex(t => t.find(x, y) >= 0), frame = frames[Math.min(B.step, frames.length - 1)];
    hover = found ? { page: found.page, slot: Math.min(size - 1, Math.floor(found.x / (place.w / size))), x, y } : null;
    if (sequence >= 0) {
      const entry = tables[sequence].find(x, y);
      hover = { sequence, entry, page: frame.sequences[sequence].table[entry], x, y };
    }
    draw(B.step);
  };
  canvas.onpointerleave = () => { hover = null; draw(B.step); };

  // Python hears the moment only when the user rests: the sections that run kernels start from it.
  const tell = () => setStateValue('moment', { run, step: B.step });
  const onStep = step => {
    if (!view) return;
    draw(step);
    clearTimeout(rest);
    if (B.step !== data.moment) rest = setTimeout(() => { if (!B.playing) tell(); else onStep(B.step); }, 450);
  };
  const mounted = mount(parentElement, { onStep, title: 'KV cache' });
  view = mounted.view;
  draw(mounted.step);
  return () => { clearTimeout(rest); mounted.unmount(); };
}
