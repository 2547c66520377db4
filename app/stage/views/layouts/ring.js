// Where the parts of a ring's picture are: the GPUs, the map of queries and keys, the merge of one
// row, and the orders with their idle time.

const NARROW = 34, // em: a pane of a phone
  MERGE = 11.3, // em: the height of the merge
  NAME = 1.5; // em: the line with an order's name

// counts: {gpus, orders}. heads: whether the GPUs have whole heads, without a map. Returns {columns,
// gap, boxW, boxH, across (from row to row of GPUs), top, side, map: [x, y], merge: [x, y, w],
// orders: [x, y, w], line (of a GPU in an order), name (its line), named (both), height}.
export function ringLayout({ width, height, em }, { gpus, orders }, heads) {
  const narrow = width < NARROW * em,
    gap = (narrow ? 1 : 1.6) * em,
    top = 1.6 * em,
    boxH = (narrow ? 6.4 : 6.6) * em,
    across = boxH + 2.2 * em;
  let columns = gpus;
  while (columns > 1 && (width - gap) / columns - gap < 6.5 * em) columns = Math.ceil(columns / 2);
  const boxW = (width - gap) / columns - gap,
    low = top + Math.ceil(gpus / columns) * across + 1.3 * em,
    free = height - low - 1.6 * em,
    most = narrow ? 0.34 * width : 0.38 * width,
    side = heads ? 0 : Math.min(most, Math.max(9 * em, free)),
    mapX = 2.2 * em,
    right = heads ? 0.4 * em : mapX + side + (narrow ? 1.4 : 2.4) * em,
    w = width - right - 0.4 * em;
  const lineOf = room => {
    const fits = (room / em - 0.5 - NAME * orders) / (orders * gpus);
    return Math.max(0.72, Math.min(1.1, fits)) * em;
  };
  const lines = line => 0.3 * em + orders * (NAME * em + gpus * line);
  const ordersY = low + (MERGE + 1.5) * em,
    line = lineOf(narrow ? side + 1.4 * em : height - ordersY),
    under = low + Math.max(side + 1.6 * em, lines(line)) + 1.8 * em; // of the map, on a phone
  return {
    ...{
      columns,
      gap,
      boxW,
      boxH,
      across,
      top,
      side,
      line,
      name: NAME * em,
      named: NAME * em + gpus * line,
    },
    map: [mapX, low],
    merge: narrow ? [0.4 * em, under, width - 0.8 * em] : [right, low, w],
    orders: narrow ? [right, low, w] : [right, ordersY, w],
    height: narrow ? under + MERGE * em : Math.max(low + side + 1.6 * em, ordersY + lines(line)),
  };
}
