// Pages of a KV cache on a canvas, shared by the pool and the walk: where each box stands, and how a box with its slots is drawn.
function placePages(count, width, top, height = 40, gap = 8) {
  const left = 0, columns = Math.min(count, width < 420 ? 4 : count > 40 ? 12 : 8);
  const w = (width + gap) / Math.max(columns, width < 420 ? 4 : 8) - gap, rows = Math.ceil(count / columns);
  return { w, h: height, columns, bottom: top + rows * (height + gap) - gap,
    at: page => [left + (page % columns) * (w + gap), top + Math.floor(page / columns) * (height + gap)],
    find(x, y) {
      for (let page = 0; page < count; page++) {
        const [px, py] = this.at(page);
        if (x >= px && x < px + w && y >= py && y < py + height) return { page, x: x - px, y: y - py };
      }
      return null;
    } };
}

const PAGE_HEAD = 16;  // pixels of a box above its slots
// owners: [{colour}] that hold the page; fill: slots with a token. A shared page's slots are striped with all its owners' colours.
function drawPage(g, paint, place, page, size, { owners = [], fill = 0, fresh = [], note = '', dim = false }) {
  const [x, y] = place.at(page), cell = place.w / size, top = y + PAGE_HEAD, h = place.h - PAGE_HEAD;
  g.globalAlpha = dim ? 0.35 : 1;
  owners.forEach((owner, n) => {
    g.fillStyle = owner.colour;
    g.fillRect(x, top + (h * n) / owners.length, fill * cell, h / owners.length);
  });
  g.globalAlpha = 1;
  g.strokeStyle = paint.border;
  g.lineWidth = 1;
  if (cell >= 3.5) {
    g.beginPath();
    for (let s = 1; s < size; s++) {
      g.moveTo(x + s * cell, top);
      g.lineTo(x + s * cell, top + h);
    }
    g.stroke();
  }
  g.strokeRect(x + 0.5, y + 0.5, place.w - 1, place.h - 1);
  g.strokeStyle = paint.text;
  g.lineWidth = 2;
  if (fresh.length) g.strokeRect(x + fresh[0] * cell + 1, top + 1, Math.max(fresh.length * cell - 2, 1), h - 2);  // neighbours always
  g.fillStyle = paint.text;
  g.font = `600 11px ${paint.mono}`;
  g.textAlign = 'left';
  g.fillText(String(page), x + 4, y + 12);
  g.font = `11px ${paint.font}`;
  g.textAlign = 'right';
  g.fillText(note, x + place.w - 4, y + 12);
  g.textAlign = 'left';
}

// A block table as a row of cells, entry above, page below; wraps. Returns where each cell stands.
function drawTable(g, paint, table, left, top, width, { colour, lit = -1, visited = () => true }) {
  const w = Math.max(27, Math.min(44, (width - left) / Math.max(table.length, 1))), columns = Math.max(1, Math.floor((width - left) / w)), h = 32;
  const at = entry => [left + (entry % columns) * w, top + Math.floor(entry / columns) * (h + 5)];
  table.forEach((page, entry) => {
    const [x, y] = at(entry);
    g.globalAlpha = visited(entry) ? 0.42 : 0.12;
    g.fillStyle = colour;
    g.fillRect(x, y, w - 3, h);
    g.globalAlpha = 1;
    g.strokeStyle = entry === lit ? paint.text : colour;
    g.lineWidth = entry === lit ? 3 : 1;
    g.strokeRect(x + 0.5, y + 0.5, w - 4, h - 1);
    g.fillStyle = paint.text;
    g.textAlign = 'center';
    g.font = `10px ${paint.font}`;
    g.fillText(String(entry), x + w / 2 - 1, y + 11);
    g.font = `600 13px ${paint.mono}`;
    g.fillText(String(page), x + w / 2 - 1, y + 26);
  });
  g.textAlign = 'left';
  return { w, h, at, bottom: top + Math.ceil(Math.max(table.length, 1) / columns) * (h + 5) - 5,
    find(x, y) {
      return table.findIndex((_, entry) => { const [cx, cy] = at(entry); return x >= cx && x < cx + w - 3 && y >= cy && y < cy + h; });
    } };
}
