// Where the work of each GPU in each order of a ring is, and under it the recorded products and copies.

const NAME = 1.7, // em: the line with an order's name
  FOOT = 1.9, // em: under the bars of an order
  LENGTH = 2.6; // em: the products and copies of a length

// Returns {tops (of each order), name, line (of a GPU), bars: {x, w}, hiding (its top), height}.
export function ordersLayout({ width, height, em }, { gpus, orders, lengths }) {
  const under = lengths ? NAME + LENGTH * lengths + 3 : 0,
    free = height / em - under - orders * (NAME + FOOT),
    line = Math.max(0.8, Math.min(2.4, free / (orders * gpus))) * em,
    each = (NAME + FOOT) * em + gpus * line,
    tops = Array.from({ length: orders }, (_, n) => n * each),
    x = 4.2 * em;
  return {
    ...{ tops, line, name: NAME * em, bars: { x, w: width - x - 4 * em } },
    ...{ hiding: orders * each, height: orders * each + under * em },
  };
}
