// Where the parts of a ring's picture are: the GPUs in a ring, the map of queries and keys, and the
// merge of one row.

const NARROW = 34, // em: a pane of a phone
  SHORT = 8.8, // em: the height of the merge without O, on a phone
  O = 1.4, // em: a row of O
  IN_A_ROW = 4;

// heads: whether the GPUs have whole heads, without a map. Returns {columns, gap, boxW, boxH, across
// (from row to row of GPUs), top, side (of the map), map: [x, y], merge: [x, y, w], words: [x, y, w]
// (the meaning of m, l and O), strips (rows of O), height}.
export function ringLayout({ width, height, em }, gpus, heads) {
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
    most = narrow ? 0.25 * width : 0.4 * width,
    strips = free > (SHORT + 1.6 + 4 * O) * em ? 4 : 2,
    high = SHORT + 1.4 + strips * O, // em: of the merge
    side = heads ? 0 : Math.max(6 * em, Math.min(most, free - 1.6 * em)),
    mapX = 2.6 * em,
    mapY = low + 1.2 * em,
    right = heads ? 0.4 * em : mapX + side + (narrow ? 1 : 2.2) * em,
    under = low + side + 2.8 * em, // of the map, on a phone
    merge =
      narrow && !heads
        ? [0.4 * em, under, width - 0.8 * em]
        : [right, low, width - right - 0.4 * em];
  return {
    ...{ columns, gap, boxW, boxH, across, top, side, narrow, loop, strips },
    map: [mapX, mapY],
    merge,
    words:
      narrow && !heads
        ? [right, low, width - right]
        : [merge[0], low + (high + 0.5) * em, merge[2]],
    height:
      narrow && !heads
        ? under + SHORT * em
        : Math.max(
            mapY + side + 0.4 * em,
            low + (high + (free > (high + 4.4) * em ? 4.4 : 0)) * em,
          ),
  };
}

// The column and row of a GPU: each second row runs back, so neighbours of the ring are neighbours.
export function placeInRing(gpu, columns) {
  const row = Math.floor(gpu / columns),
    at = gpu % columns;
  return [row % 2 ? columns - 1 - at : at, row];
}
