// Where the ledger of a fused kernel is: a row for each tensor, a column for each launch, the names
// of both kernels over their columns, and two bars of all bytes under them.

const LEAST = 1.2, // em: the least and the most height of a row
  MOST = 3.2,
  BAR = 2.1, // em: the most height of a bar of all bytes with its gap
  SPLIT = 0.8; // em between the two kernels

// tensors: {name, shape} each. sides: the side of each launch. Returns {x: [of each column], w, label,
// shapes (whether there is room for them), shapeX, names, heads, top, row,
// sums, bar, height}: names, heads and sums are the tops of these lines.
export function fusionLayout({ width, height, em }, tensors, sides) {
  const rows = tensors.length,
    lettersOf = key => Math.max(...tensors.map(tensor => tensor[key].length)),
    shapeX = (0.55 * lettersOf('name') + 1) * em,
    wanted = shapeX + (0.5 * lettersOf('shape') + 0.5) * em,
    shapes = wanted < 0.3 * width,
    label = shapes ? wanted : Math.min(0.3 * width, 9.5 * em),
    split = SPLIT * em,
    w = (width - label - split * 2) / sides.length,
    top = 3.4 * em,
    bar = Math.max(1.5, Math.min(BAR, (height / em - 3.4 - LEAST * rows - 1) / 2)) * em,
    foot = 2 * bar + em,
    row = Math.max(LEAST * em, Math.min(MOST * em, (height - top - foot) / rows));
  const x = sides.map((side, n) => label + split + n * w + side * split);
  const sums = top + rows * row + 0.5 * em;
  return {
    ...{ x, w, label, shapes, shapeX, names: 0, heads: 1.6 * em, top, row, sums, bar },
    height: sums + foot - 0.5 * em,
  };
}
