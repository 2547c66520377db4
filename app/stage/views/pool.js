// A KV cache after each event: block tables, the pool of pages with reference counts, the free list, and the slots that are wasted.
import { canvasView } from '../canvas.js';
import { follow, hub } from '../hub.js';
import { COLOURS, button, element, number } from '../paint.js';
import { drawLabel, drawPage, drawTable, drawWay, fitting, placePages, placeTable, wayBetween } from './pages.js';

export default function (host, { meta }, { change }) {
  const { frames, size, page_bytes, kv_heads } = meta, count = frames[0].free.length;
  const most = Math.max(1, ...frames.flatMap(f => f.sequences.map(s => s.table.length))), rows = Math.max(1, ...frames.map(f => f.sequences.length));
  const widest = Math.max(1, ...frames.map(f => Math.max(f.usage.held, f.usage.reserved))), frameAt = step => frames[Math.min(step, frames.length - 1)];
  let em, width, left, high, place, tables = [], low = false;

  const layout = pane => {  // rows that hold every step: nothing moves from one to the next
    ({ em, width } = pane);
    left = Math.round(Math.min(7 * em, width * 0.22));
    const one = placeTable(most, { left, top: 0, width: width - left, em });
    high = one.bottom + 0.5 * em;
    low = pane.height < 30 * em;  // then the strip alone says what is used
    const top = 1.5 * em + rows * high + 2.4 * em, below = low ? 1.6 * em : 1.8 * em + 2 * 1.9 * em;
    place = placePages(count, { left: 0.4 * em, top, width: width - 0.4 * em, height: Math.max(2 * em, pane.height - top - below), em, high: 5 * em });
    return place.bottom + below + 2;
  };
  const draw = (g, { step, at, paint }) => {
    const frame = frameAt(step);
    const label = (name, y, note) => drawLabel(g, paint, em, name, [note], 0, y, width);
    label('Block tables', em, 'entry above, page below');
    tables = frame.sequences.map((s, n) => {
      const top = 1.5 * em + n * high, cells = placeTable(s.table.length, { left, top, width: width - left, em });
      g.fillStyle = s.colour;
      g.fillRect(0, top, 0.45 * em, 2.5 * em);
      g.fillStyle = paint.text;
      g.font = `600 ${em * 1.08}px ${paint.font}`;
      g.fillText(s.name, 0.9 * em, top + 1.05 * em, left - 1.2 * em);
      g.font = `${em}px ${paint.font}`;
      g.fillText(fitting(g, [`${s.length} token${s.length === 1 ? '' : 's'}`, String(s.length)], left - 1.2 * em), 0.9 * em, top + 2.3 * em);
      drawTable(g, paint, cells, s.table, { colour: s.colour, lit: at?.sequence === n ? at.entry : -1 });
      return cells;
    });
    if (!frame.sequences.length) g.fillText('No sequence yet.', 0.9 * em, 1.5 * em + 1.2 * em);
    label('Pool', place.top - 1.1 * em, `${count} pages of ${size} slots`);
    for (let page = 0; page < count; page++) {
      const held = frame.pages[page], owners = held ? held.owners.map(n => frame.sequences[n]) : [], next = frame.free.indexOf(page);
      const fresh = frame.new.filter(slot => Math.floor(slot / size) === page).map(slot => slot % size);
      drawPage(g, paint, place, page, size, { owners, fill: held?.fill ?? 0, fresh, note: owners.length > 1 ? `held by ${owners.length}` : next === 0 ? 'next' : next > 0 ? 'free' : '' });
      if (frame.released.includes(page)) outline(g, paint, page, [3, 3]);
    }
    if (frame.copied) drawWay(g, wayBetween(place, ...frame.copied), COLOURS.written, em);
    if (at?.page !== undefined) outline(g, paint, at.page, []);
    g.font = `${em}px ${paint.font}`;
    g.fillStyle = paint.text;
    const free = frame.free.join(', '), y = place.bottom + 1.35 * em;
    g.fillText(fitting(g, [`Free list, next first: ${free || 'empty'}`, `Free list, next first: ${frame.free.slice(0, 8).join(', ')}, ...`], width), 0, y);
    if (low) return;
    bar(g, paint, place.bottom + 1.9 * em, 'Pages', [[frame.usage.used, COLOURS.V, 'used'], [frame.usage.slack, '', 'slack']]);
    bar(g, paint, place.bottom + 3.8 * em, 'Contiguous', [[frame.usage.used, COLOURS.V, 'used'], [Math.max(frame.usage.copies, 0), COLOURS.S, 'copies'], [frame.usage.empty, '', 'empty']]);
  };
  const outline = (g, paint, page, dash) => {
    const [x, y] = place.at(page);
    g.setLineDash(dash);
    g.strokeStyle = paint.text;
    g.lineWidth = 2.5;
    g.strokeRect(x, y, place.w, place.h);
    g.setLineDash([]);
  };
  // Slots used, stored twice and wasted, to one scale: of pages, and of as many contiguous slots for each sequence.
  const bar = (g, paint, y, name, parts) => {
    const from = 7 * em, scale = (width - from - 1) / widest;
    let x = from;
    g.fillStyle = paint.text;
    g.font = `600 ${em}px ${paint.font}`;
    g.fillText(name, 0, y + 1.15 * em);
    g.font = `${em}px ${paint.font}`;
    for (const [slots, colour, word] of parts.filter(part => part[0])) {
      const wide = slots * scale, text = fitting(g, [`${slots} ${word}`, String(slots)], colour ? wide - 8 : Math.max(wide, width - x - wide) - 8);
      g.fillStyle = colour || paint.panel;
      g.fillRect(x, y, wide, 1.6 * em);
      g.strokeStyle = paint.border;
      g.lineWidth = 1;
      g.strokeRect(x + 0.5, y + 0.5, Math.max(wide - 1, 0), 1.6 * em - 1);
      g.fillStyle = colour ? '#000' : paint.text;
      g.fillText(text, x + 5 + (colour || g.measureText(text).width + 8 < wide ? 0 : wide), y + 1.15 * em);
      x += wide;
    }
  };

  const describe = (at, step) => {
    const frame = frameAt(step);
    if (at.entry !== undefined) {
      const s = frame.sequences[at.sequence], first = at.entry * size;
      return s && at.entry < s.table.length ? `entry ${at.entry} of ${s.name}: tokens ${first} to ${Math.min(first + size, s.length) - 1} lie in page ${s.table[at.entry]}` : '';
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
      return { sequence, entry, page: frameAt(hub.step).sequences[sequence].table[entry] };
    }
    const found = place.find(x, y);
    return found && { page: found.page, slot: Math.min(size - 1, Math.floor(found.x / (place.w / size))) };
  };
  const label = step => {
    const frame = frameAt(step);
    return `${frame.title}. ${frame.sentence} ${frame.sequences.map(s => `${s.name}: pages ${s.table.join(', ')}`).join('; ')}.`;
  };

  const inner = element('div', { class: 'view' }), run = button('Run the kernel on this cache', () => change('view', 'walk'), { class: 'run' });
  host.replaceChildren(inner, element('div', {}, run));
  const view = canvasView(inner, { title: 'KV cache', layout, draw, locate, describe, label });
  const able = step => {
    run.disabled = !frameAt(step).sequences.length;
    run.title = run.disabled ? 'It holds no sequence yet' : 'The walk through its block tables, as it stands after this event';
  };
  const unfollow = follow(able);
  able(hub.step);
  return { unmount() { unfollow(); view.unmount(); } };
}
