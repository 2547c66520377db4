// Where the panels of a time line and their rows are: one under the other, on one axis of time.

const AXIS = 1.8, // em: the axis, and the title of a panel
  TITLE = 1.8,
  ROW = 10, // em: the most and the least height of a row
  LEAST = 2.5;

// panels: the rows of each panel. Returns {x, w, axis, row, panels: [{y, rows: [y]}], height}.
export function launchesLayout({ width, height, em }, panels) {
  const label = Math.min(0.18 * width, 5.6 * em),
    count = panels.reduce((sum, rows) => sum + rows.length, 0),
    free = height - (AXIS + TITLE * panels.length) * em - 4,
    row = Math.max(LEAST * em, Math.min(ROW * em, free / Math.max(1, count)));
  let y = 0;
  const placed = panels.map(rows => {
    const from = y + TITLE * em;
    y = from + rows.length * row;
    return { y: from - TITLE * em, rows: rows.map((_, n) => from + n * row) };
  });
  return {
    x: label,
    w: Math.max(40, width - label - 6),
    axis: y,
    row,
    panels: placed,
    height: Math.ceil(y + AXIS * em + 4),
  };
}
