// Pages of a KV cache on a canvas, shared by the pool, serving and the walk: where each box stands,
// how a box with its slots is drawn, and the ways between them, which lie in the gaps so that an
// arrow crosses no page and no number.
import { follow, hub } from '../hub.js';
import { COLOURS, button } from '../paint.js';

// The number of columns under which the pages are largest in the given room, in the fewest rows;
// what does not fit runs over its lower edge.
export function placePages(count, { left = 0, top, width, height, em, high = 3.4 * em }) {
  const gap = Math.round(em * 0.75),
    low = 2 * em,
    narrow = Math.max(2.2 * em, 26);
  const sized = columns => {
    const rows = Math.ceil(count / columns),
      w = Math.min(14 * em, (width + gap) / columns - gap),
      h = Math.min(high, (height + gap) / rows - gap);
    return {
      columns,
      rows,
      w,
      h,
      good: w >= narrow && h >= low ? Math.min(w / (7 * em), 1) * Math.min(h / (2.9 * em), 1) : 0,
    };
  };
  const best = Array.from({ length: count }, (_, n) => sized(n + 1)).reduce((a, b) =>
    b.good > a.good || (b.good === a.good && b.w * b.h >= a.w * a.h) ? b : a,
  );
  const { columns, rows, w, h } = best.good
    ? best
    : { ...sized(Math.max(1, Math.floor((width + gap) / (narrow + gap)))), h: low };
  return {
    w,
    h,
    em,
    gap,
    columns,
    rows,
    left,
    top,
    bottom: top + rows * (h + gap) - gap,
    at: page => [left + (page % columns) * (w + gap), top + Math.floor(page / columns) * (h + gap)],
    find(x, y) {
      const column = Math.floor((x - left) / (w + gap)),
        row = Math.floor((y - top) / (h + gap)),
        page = row * columns + column;
      if (column < 0 || column >= columns || row < 0 || page >= count) return null;
      const [px, py] = this.at(page);
      return x < px + w && y < py + h ? { page, x: x - px, y: y - py } : null;
    },
  };
}

// owners: [{colour}] that hold the page; fill: slots with a token; fresh: slots just written; note:
// the longest of these that fits. A shared page's slots are striped with all its owners' colours.
export function drawPage(
  g,
  paint,
  place,
  page,
  size,
  { owners = [], fill = 0, fresh = [], note = [], dim = false },
) {
  const [x, y] = place.at(page),
    { w, h, em } = place,
    cell = w / size,
    head = Math.min(h * 0.6, em * 1.25),
    top = y + head,
    tall = h - head;
  g.globalAlpha = dim ? 0.35 : 1;
  owners.forEach((owner, n) => {
    g.fillStyle = owner.colour;
    g.fillRect(x, top + (tall * n) / owners.length, fill * cell, tall / owners.length);
  });
  g.globalAlpha = 1;
  g.strokeStyle = paint.border;
  g.lineWidth = 1;
  if (cell >= 3.5) {
    g.beginPath();
    for (let s = 1; s < size; s++) {
      g.moveTo(x + s * cell, top);
      g.lineTo(x + s * cell, top + tall);
    }
    g.stroke();
  }
  g.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
  g.strokeStyle = paint.text;
  g.lineWidth = 2;
  if (fresh.length)
    // neighbours always
    g.strokeRect(x + fresh[0] * cell + 1, top + 1, Math.max(fresh.length * cell - 2, 1), tall - 2);
  g.fillStyle = paint.text;
  g.font = `600 ${em}px ${paint.mono}`;
  g.textAlign = 'left';
  g.fillText(String(page), x + 4, y + em);
  const used = g.measureText(String(page)).width;
  g.font = `${em}px ${paint.font}`;
  g.textAlign = 'right';
  g.fillText(fitting(g, [note].flat(), w - used - 14), x + w - 4, y + em);
  g.textAlign = 'left';
}

// A block table as cells, entry above, page below; wraps.
export function placeTable(count, { left, top, width, em }) {
  const w = Math.max(2.3 * em, Math.min(3.6 * em, width / Math.max(count, 1))),
    columns = Math.max(1, Math.floor(width / w)),
    h = 2.5 * em,
    step = h + 4;
  const at = entry => [left + (entry % columns) * w, top + Math.floor(entry / columns) * step];
  return {
    w,
    h,
    em,
    at,
    count,
    bottom: top + Math.ceil(Math.max(count, 1) / columns) * step - 4,
    find(x, y) {
      for (let entry = 0; entry < count; entry++) {
        const [cx, cy] = at(entry);
        if (x >= cx && x < cx + w - 3 && y >= cy && y < cy + h) return entry;
      }
      return -1;
    },
  };
}

export function drawTable(g, paint, cells, table, { colour, lit = -1, visited = () => true }) {
  const { w, h, em } = cells;
  g.textAlign = 'center';
  table.forEach((page, entry) => {
    const [x, y] = cells.at(entry);
    g.globalAlpha = visited(entry) ? 0.28 : 0.08;
    g.fillStyle = colour;
    g.fillRect(x, y, w - 3, h);
    g.globalAlpha = 1;
    g.strokeStyle = entry === lit ? paint.text : colour;
    g.lineWidth = entry === lit ? 3 : 1.5;
    g.strokeRect(x + 0.5, y + 0.5, w - 4, h - 1);
    g.fillStyle = paint.text;
    g.font = `${em}px ${paint.font}`;
    g.fillText(String(entry), x + w / 2 - 1.5, y + em * 1.05);
    g.font = `600 ${em * 1.08}px ${paint.mono}`;
    g.fillText(String(page), x + w / 2 - 1.5, y + em * 2.2);
  });
  g.textAlign = 'left';
}

// From an entry of a table down to its page, through the gaps. channel: the height at which it goes
// sideways.
export function wayDown(cells, entry, place, page, channel) {
  const [cx, cy] = cells.at(entry),
    out = cx + cells.w / 2 - 1.5,
    under = cy + cells.h,
    last = under >= cells.bottom - 1,
    x = last ? out : cx + cells.w - 1.5;
  const [px, py] = place.at(page),
    middle = px + place.w / 2,
    gap = place.gap / 2;
  const down =
    page < place.columns
      ? []
      : [
          [px - gap, channel],
          [px - gap, py - gap],
          [middle, py - gap],
        ];
  return [
    [out, under],
    ...(last
      ? []
      : [
          [out, under + 2],
          [x, under + 2],
        ]),
    [x, channel],
    ...(down.length ? down : [[middle, channel]]),
    [middle, py],
  ];
}

// From a page down to a point below the pool.
export function wayOut(place, page, [x, y], channel) {
  const [px, py] = place.at(page),
    middle = px + place.w / 2,
    below = py + place.h,
    gap = place.gap / 2;
  const last = Math.floor(page / place.columns) === place.rows - 1;
  return [
    [middle, below],
    ...(last
      ? []
      : [
          [middle, below + gap],
          [px - gap, below + gap],
          [px - gap, channel],
        ]),
    ...(last ? [[middle, channel]] : []),
    [x, channel],
    [x, y],
  ];
}

// From a page to another one.
export function wayBetween(place, from, to) {
  const [x0, y0] = place.at(from),
    [x1, y1] = place.at(to),
    half = place.w / 2,
    gap = place.gap / 2;
  return [
    [x0 + half, y0],
    [x0 + half, y0 - gap],
    [x1 - gap, y0 - gap],
    [x1 - gap, y1 - gap],
    [x1 + half, y1 - gap],
    [x1 + half, y1],
  ];
}

export function drawWay(g, points, colour, em) {
  g.strokeStyle = g.fillStyle = colour;
  g.lineWidth = 2;
  g.lineJoin = 'round';
  g.beginPath();
  points.forEach(([x, y], n) => (n ? g.lineTo(x, y) : g.moveTo(x, y)));
  g.stroke();
  const [x, y] = points.at(-1),
    size = em * 0.4; // they all end downwards
  g.beginPath();
  g.moveTo(x, y + 1);
  g.lineTo(x - size, y - size * 1.3);
  g.lineTo(x + size, y - size * 1.3);
  g.fill();
}

// The longest of these texts that fits, or ''.
export const fitting = (g, texts, width) =>
  texts.find(text => g.measureText(text).width <= width) ?? '';

// A label: its name in bold, and after it the longest of the notes for which there is room.
export function drawLabel(g, paint, em, name, notes, x, y, width) {
  g.fillStyle = paint.text;
  g.font = `600 ${em}px ${paint.font}`;
  g.fillText(name, x, y);
  const used = g.measureText(name + '  ').width;
  g.font = `${em}px ${paint.font}`;
  g.fillText(fitting(g, notes, width - used), x + used, y);
}

// Slots used, stored twice and wasted, to one scale: of pages, and of as many contiguous slots for
// each sequence.
export function drawUsage(g, paint, em, y, width, widest, usage) {
  const bar = (top, name, parts) => {
    const from = 7 * em,
      scale = (width - from - 1) / widest;
    let x = from;
    g.fillStyle = paint.text;
    g.font = `600 ${em}px ${paint.font}`;
    g.fillText(name, 0, top + 1.15 * em);
    g.font = `${em}px ${paint.font}`;
    for (const [slots, colour, word] of parts.filter(part => part[0])) {
      const wide = slots * scale,
        text = fitting(
          g,
          [`${slots} ${word}`, String(slots)],
          colour ? wide - 8 : Math.max(wide, width - x - wide) - 8,
        );
      g.fillStyle = colour || paint.panel;
      g.fillRect(x, top, wide, 1.6 * em);
      g.strokeStyle = paint.border;
      g.lineWidth = 1;
      g.strokeRect(x + 0.5, top + 0.5, Math.max(wide - 1, 0), 1.6 * em - 1);
      g.fillStyle = colour ? '#000' : paint.text;
      g.fillText(
        text,
        x + 5 + (colour || g.measureText(text).width + 8 < wide ? 0 : wide),
        top + 1.15 * em,
      );
      x += wide;
    }
  };
  bar(y, 'Pages', [
    [usage.used, COLOURS.V, 'used'],
    [usage.slack, '', 'slack'],
  ]);
  bar(y + 1.9 * em, 'Contiguous', [
    [usage.reserved - usage.copies - usage.empty, COLOURS.V, 'used'],
    [Math.max(usage.copies, 0), COLOURS.S, 'copies'],
    [usage.empty, '', 'empty'],
  ]);
}

// Every page of a pool as a frame has it: its owners' slots, what was just written, what was freed
// and what was copied where.
const notes = (owners, next) => {
  if (!owners.length) return next === 0 ? 'next' : 'free';
  return [
    owners.map(owner => owner.name).join(', '),
    ...(owners.length > 1 ? [`held by ${owners.length}`, `x${owners.length}`] : []),
  ];
};

export function drawPool(g, paint, place, frame, count, size, copies) {
  for (let page = 0; page < count; page++) {
    const held = frame.pages[page],
      owners = held ? held.owners.map(n => frame.sequences[n]) : [],
      next = frame.free.indexOf(page);
    const fresh = frame.new
      .filter(slot => Math.floor(slot / size) === page)
      .map(slot => slot % size);
    drawPage(g, paint, place, page, size, {
      owners,
      fill: held?.fill ?? 0,
      fresh,
      note: notes(owners, next),
    });
    if (frame.released.includes(page)) outlinePage(g, paint, place, page, [3, 3]);
  }
  for (const [from, to] of copies)
    drawWay(g, wayBetween(place, from, to), COLOURS.written, place.em);
}

export function outlinePage(g, paint, place, page, dash = []) {
  const [x, y] = place.at(page);
  g.setLineDash(dash);
  g.strokeStyle = paint.text;
  g.lineWidth = 2.5;
  g.strokeRect(x, y, place.w, place.h);
  g.setLineDash([]);
}

// What lies in a slot of a page, in words.
export function tellSlot(frame, { page, slot }, size) {
  const held = frame.pages[page];
  if (!held)
    return `page ${page} is free` + (frame.free[0] === page ? ': the next to be taken' : '');
  const names = held.owners.map(n => frame.sequences[n].name).join(', '),
    token = held.entry * size + slot;
  return (
    `page ${page}, slot ${slot}: ${slot < held.fill ? `token ${token} of ${names}` : `empty: slack of ${names}`}` +
    (held.owners.length > 1 ? `\nreference count ${held.owners.length}` : '')
  );
}

// What runs kernels on the cache of the step: where it stands, and what enables it.
export function runButtons(frameAt, turnTo) {
  const made = [
    [
      'walk',
      'Run the decode kernel',
      'On this cache, with a query for each sequence that it holds after this step. The browser leads back here, and so does "Look at".',
    ],
    [
      'reads',
      'Who reads its pages',
      'By several kernels, counted in whole runs on this cache. The browser leads back here, and so does "Look at".',
    ],
  ].map(([view, text, title]) => ({
    title,
    node: button(text, () => turnTo('view', view), { class: 'run' }),
  }));
  const able = step =>
    made.forEach(({ node, title }) => {
      node.disabled = !frameAt(step).sequences.length;
      node.title = node.disabled ? 'It holds no sequence yet' : title;
    });
  able(hub.step);
  return { nodes: made.map(({ node }) => node), end: follow(able) };
}
