// Pages of a KV cache on a canvas, shared by the pool, serving and the walk: how a box with its slots
// is drawn.
import { COLOURS, button } from '../core/paint.js';
import { drawWay, wayBetween } from './ways.js';

// owners: [{colour}] that hold the page; fill: slots with a token; light: how full their colour is;
// fresh: slots just written; note: a text, or the longest of several that fits.
// The slots of a shared page are striped with the colours of all its owners.
export function drawPage(
  g,
  paint,
  place,
  page,
  size,
  { owners = [], fill = 0, fresh = [], note = /** @type {string | string[]} */ (''), light = 1 },
) {
  const [x, y] = place.at(page),
    { w, h, em } = place,
    { head, high: tall, wide: cell } = slotsOf(place, size),
    top = y + head;
  g.globalAlpha = light;
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

// Where the slots of a page are in its box: their top, and the width of one.
export function slotsOf({ w, h, em }, size) {
  const head = Math.min(h * 0.6, em * 1.25);
  return { head, high: h - head, wide: w / size };
}

// Kinds of mark (kinds.js) for what this module draws.
export const PAGE_KINDS = {
  page: (g, { page, place, size, ...more }, paint) => drawPage(g, paint, place, page, size, more),
  label: (g, { rect: [x, y, width, em], name, notes }, paint) =>
    drawLabel(g, paint, em, name, notes, x, y, width),
};

export function drawTable(g, paint, cells, table, { colour, lit = -1, visited = null }) {
  const { w, h, em } = cells;
  g.textAlign = 'center';
  table.forEach((page, entry) => {
    const [x, y] = cells.at(entry);
    g.globalAlpha = !visited || visited(entry) ? 0.28 : 0.08;
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

// The longest of these texts that fits, or ''.
export const fitting = (g, texts, width) =>
  texts.find(text => g.measureText(text).width <= width) ?? '';

// A label: its name in bold, and after it the longest of the notes for which there is room.
export function drawLabel(g, paint, em, name, notes, x, y, width) {
  g.textAlign = 'left';
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
  if (!usage.held) return;
  bar(y, 'With pages', [
    [usage.used, COLOURS.V, 'used'],
    [usage.slack, '', 'empty'],
  ]);
  bar(y + 1.9 * em, 'Reserved', [
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
export function runButtons(frameAt, { clock, turnTo }) {
  const made = [
    [
      'walk',
      'Run the decode kernel',
      'On this cache, with a query for each of its sequences. The browser leads back here.',
    ],
    [
      'reads',
      'Who reads its pages',
      'By several kernels, counted in whole runs on this cache. The browser leads back here.',
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
  able(clock.step);
  return { nodes: made.map(({ node }) => node), end: clock.follow(able) };
}
