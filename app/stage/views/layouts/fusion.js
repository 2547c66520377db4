// Where the ledger of a fused kernel is: a row for each tensor, a column for each launch, the names
// of both kernels over their columns, and under them the sums of both sides: bytes and time.

const LEAST = 1.5, // em: the least and the most height of a row
  MOST = 3.4,
  SPLIT = 0.8, // em between the two kernels
  NARROW = 40, // em: a pane of a phone
  LINE = 1.25, // em: a line of an idea
  TITLE = 1.4, // em: the title of a group of bars
  BAR = 1.4, // em: a bar with its gap
  NOTE = 1.4; // em: the line under them

// tensors: {name, part} each. sides: the side of each launch. linesOf(side, width): lines of a kernel's idea.
// bars: of each group of sums under the rows. Returns {x: [of each column], w, label,
// lines (of an idea), narrow, heads, top, row,
// sums: [{x, y, w} of each group], title, bar, height}: heads, top and y are the tops of these parts.
export function fusionLayout({ width, height, em }, tensors, sides, linesOf, bars) {
  const rows = tensors.length,
    narrow = width < NARROW * em,
    lettersOf = key => Math.max(...tensors.map(tensor => tensor[key].length)),
    letters = narrow
      ? lettersOf('name')
      : Math.max(...tensors.map(({ name, part }) => name.length + 0.8 * part.length + 1)),
    label = Math.min((narrow ? 0.26 : 0.24) * width, (0.5 * letters + 1) * em),
    split = (narrow ? 0.4 : SPLIT) * em,
    w = (width - label - 2 * split) / sides.length,
    x = sides.map((side, n) => label + split + n * w + side * split),
    wideOf = side => w * sides.filter(one => one === side).length,
    highOf = count => (TITLE + count * BAR + NOTE) * em,
    beside = bars.length > 1 && !narrow,
    highs = bars.map(highOf),
    foot = (beside ? Math.max(...highs) : highs.reduce((a, b) => a + b, 0)) + 0.5 * em,
    spare = height - 3.6 * em - foot - LEAST * em * rows,
    wanted = Math.max(linesOf(0, wideOf(0) - 0.6 * em), linesOf(1, wideOf(1) - 0.6 * em)),
    lines = narrow ? 0 : Math.max(0, Math.min(wanted, Math.floor(spare / (LINE * em)))),
    heads = (1.5 + LINE * lines) * em,
    top = heads + 2.1 * em,
    row = Math.max(LEAST * em, Math.min(MOST * em, (height - top - foot) / rows)),
    under = top + rows * row + 0.4 * em,
    each = beside ? (width - 2 * em) / bars.length : width;
  const sums = bars.map((_, n) => ({
    x: beside ? n * (each + 2 * em) : 0,
    y: under + (beside ? 0 : highs.slice(0, n).reduce((a, b) => a + b, 0)),
    w: each,
  }));
  return {
    ...{ x, w, label, lines, narrow, heads, top, row },
    ...{ sums, title: TITLE * em, bar: BAR * em, line: LINE * em, height: top + rows * row + foot },
  };
}
