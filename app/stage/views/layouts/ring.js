// Where the parts of a ring's picture are: the GPUs in a ring, the map of queries and keys, and next to
// it a panel: the other order in a products step, the merge of one row in a merge step. On a phone the
// merge takes the place of the maps.

const NARROW = 34, // em: a pane of a phone
  O = 1.4, // em: a row of O
  MERGE = 10.2, // em: the merge without O
  IN_A_ROW = 4;

// heads: whether the GPUs have whole heads, without a map. other: whether another order has a map.
// Returns {columns, gap, boxW, boxH, across (from row to row of GPUs), top, side (of the map),
// map: [x, y], other: [x, y, side] (of the other order's map), work: [x, y, w] (of its lines),
// merge: [x, y, w], words: [x, y, w] (the meaning of m, l and O), low (the top of these parts),
// strips (rows of O), height}.
export function ringLayout({ width, height, em }, gpus, heads, other = false) {
  const narrow = width < NARROW * em,
    columns = narrow ? Math.min(2, gpus) : gpus > IN_A_ROW ? Math.ceil(gpus / 2) : gpus,
    rows = Math.ceil(gpus / columns),
    gap = (narrow ? 2 : 2.6) * em,
    top = 1.6 * em,
    boxH = (narrow ? 6.3 : 7.6) * em,
    across = boxH + (heads ? 2 : narrow ? 0.9 : 0.7) * em,
    boxW = Math.min(15 * em, (width - gap) / columns - gap),
    loop = heads || (rows % 2 && gpus > 1) ? 1.5 * em : 0, // the way back under the last row
    low = top + rows * across + loop + 1.2 * em,
    free = height - low - 0.4 * em,
    mapX = 2.6 * em,
    mapY = low + 1.2 * em,
    most = narrow ? (width - 2 * mapX) / 2 - 0.4 * em : 0.4 * width,
    side = heads ? 0 : Math.max(6 * em, Math.min(most, narrow ? most : free - 1.6 * em)),
    right = heads || narrow ? 0.4 * em : mapX + side + 2.2 * em,
    strips = 3,
    high = MERGE + strips * O,
    merge = [right, low, width - right - 0.4 * em],
    small = narrow ? side : Math.min(0.62 * side, 0.36 * merge[2]),
    place = narrow ? [mapX + side + mapX, mapY, small] : [right + 2.2 * em, mapY, small],
    lines = narrow
      ? [0.4 * em, mapY + side + 1.8 * em, width - 0.8 * em]
      : [place[0] + small + 1.6 * em, low, width - place[0] - small - 2 * em],
    under = low + (high + 0.5) * em,
    below = narrow
      ? Math.max(lines[1] + (other ? 1.8 : 0) * em, low + (high + 0.3) * em)
      : Math.max(mapY + side + 0.4 * em, low + (high + (free > (high + 4.4) * em ? 4.4 : 0)) * em);
  return {
    ...{ columns, gap, boxW, boxH, across, top, side, narrow, loop, strips, low, merge },
    ...{ map: [mapX, mapY], other: place, work: lines, words: [merge[0], under, merge[2]] },
    height: below,
  };
}

// The column and row of a GPU: each second row runs back, so neighbours of the ring are neighbours.
export function placeInRing(gpu, columns) {
  const row = Math.floor(gpu / columns),
    at = gpu % columns;
  return [row % 2 ? columns - 1 - at : at, row];
}
