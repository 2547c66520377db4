// Where the grid's cells and the multiprocessors' lanes stand: beside each other in a wide pane, one
// above the other in a high one.

export function gridLayout({ width, height, em }) {
  const wide = width > 1.2 * height,
    head = Math.round(1.7 * em),
    foot = Math.round(2.5 * em),
    left = Math.round(3.2 * em);
  const share = wide ? Math.round(width * 0.34) : width,
    half = Math.round(height * 0.4);
  return {
    cells: {
      x: 0,
      y: head,
      w: share - (wide ? 1.5 * em : 0),
      h: wide ? height - head - 4 : half - head,
    },
    lanes: wide
      ? { x: share + left, y: head, w: width - share - left - 4, h: height - head - foot }
      : { x: left, y: half + head, w: width - left - 4, h: height - half - head - foot },
  };
}

// The size of an item's cell. launch: {rows, cols}. Rows of items are next to each other, a row's
// items below one another, as O is drawn elsewhere.
export function cellSize(cells, launch, em) {
  const under = launch.rows > 1 ? 1.3 * em : 0,
    w = Math.min(cells.w / launch.rows, 11 * em),
    h = Math.min((cells.h - under) / launch.cols, 6 * em),
    least = Math.min(w, h);
  return { w, h, y: cells.y + under, gap: least > 8 ? 2 : least > 3 ? 0.5 : 0 };
}

// The rectangle of a block: its part of its item's cell.
export function cellOf(cells, launch, block, em) {
  const { w, h, y, gap } = cellSize(cells, launch, em),
    item = Math.floor(block / launch.per_item),
    row = Math.floor(item / launch.cols),
    part = w / launch.per_item;
  return [row * w + (block % launch.per_item) * part, y + (item % launch.cols) * h, part - gap, h - gap];
}
