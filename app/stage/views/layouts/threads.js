// Where the grid of blocks, the strip of a block's lanes and the matrices stand: grid and strip above
// the matrices, or left of them, whichever leaves larger matrices.

const LANES = 32;

// The matrices in so many columns, and the size of the smallest one's cells.
function flow(x, y, w, h, em, planes, columns) {
  const rows = Math.ceil(planes.length / columns),
    cw = w / columns,
    ch = h / rows,
    head = em * 1.35;
  const made = planes.map(({ name, most: [r, c] }, n) => {
    const unit = Math.min((cw - em * 0.8) / c, (ch - head - em * 0.5) / r);
    return {
      plane: n,
      name,
      x: x + (n % columns) * cw,
      y: y + Math.floor(n / columns) * ch + head,
      unit,
      high: r * unit < em ? Math.min(em * 1.2, ch - head - 4) / r : unit,
      room: cw - em * 0.8,
    };
  });
  return { made, least: Math.min(...made.map(box => box.unit)) };
}

function best(x, y, w, h, em, planes) {
  const columns = [1, 2, 3, 4, 5, 6, 7, 8].filter(n => n <= Math.max(1, planes.length));
  return columns
    .map(n => flow(x, y, w, h, em, planes, n))
    .reduce((a, b) => (b.least > a.least ? b : a), { made: [], least: -1 });
}

// planes: [{name, most: [rows, columns]}]; gridSize, gridRows: blocks of the widest and the highest
// grid; warps: of the largest block. Returns {boxes of the planes, grid, strip}.
export function threadsLayout({ width: w, height: h, em }, { planes, gridSize, gridRows, warps }) {
  const label = em * 2.2,
    head = em * 1.4,
    gap = em * 1.2,
    axes = h > 24 * em ? em * 2.6 : 0;
  const gridW = Math.min(gridSize * em * 1.3, w * 0.3),
    gridCell = Math.max(1.5, Math.min(gridW / gridSize, (h * 0.22) / gridRows, em * 1.3));
  const laneH = Math.max(2, Math.min(em * 1.2, (h * 0.3 - head * 2) / warps)),
    gw = Math.max(gridCell * gridSize, axes ? Math.min(w * 0.3, em * 15) : em * 5.5),
    laneW = Math.max(2, Math.min(em * 1.3, (w - gw - gap - label - 2) / LANES));
  const topH = head + Math.max(gridRows * gridCell + axes, warps * laneH + em) + em * 0.6;
  const above = {
    grid: { x: 1, y: head, cell: gridCell, axes, room: gw },
    strip: { x: gw + gap + label, y: head, w: laneW, h: laneH },
    flow: best(1, topH, w - 1, h - topH, em, planes),
  };
  const sideW = Math.min(w * 0.45, label + LANES * em),
    sideCell = Math.max(1.5, Math.min(sideW / gridSize, (h * 0.3) / gridRows, em * 1.5));
  const stripY = head + gridRows * sideCell + axes + head + em * 0.4,
    sideLaneH = Math.max(2, Math.min(em * 1.5, (h - stripY - em * 1.4) / warps));
  const beside = {
    grid: { x: 1, y: head, cell: sideCell, axes, room: sideW },
    strip: { x: label, y: stripY, w: (sideW - label) / LANES, h: sideLaneH },
    flow: best(sideW + gap, 0, w - sideW - gap, h, em, planes),
  };
  const used = beside.flow.least > above.flow.least ? beside : above;
  return { boxes: used.flow.made, grid: used.grid, strip: used.strip };
}
