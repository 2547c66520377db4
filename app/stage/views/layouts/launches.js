// Where the panels of a time line and their rows are: one under the other, on one axis of time. The
// row of the host is above those of the streams.

const AXIS = 1.8, // em: the axis, the title of a panel and its row of the host
  TITLE = 1.8,
  HOST = 2.2,
  ROW = 26, // em: the most and the least height of a row
  LEAST = 2.5;

// panels: the rows of each panel. Returns {x, w, axis, row, call, panels: [{y, host, rows: [y]}],
// height}. call: the height of a row of the host.
export function launchesLayout({ width, height, em }, panels) {
  const label = Math.min(0.18 * width, 5.6 * em),
    count = panels.reduce((sum, rows) => sum + rows.length, 0),
    free = height - (AXIS + (TITLE + HOST) * panels.length) * em - 4,
    row = Math.max(LEAST * em, Math.min(ROW * em, free / Math.max(1, count)));
  let y = 0;
  const placed = panels.map(rows => {
    const host = y + TITLE * em,
      from = host + HOST * em;
    y = from + rows.length * row;
    return { y: host - TITLE * em, host, rows: rows.map((_, n) => from + n * row) };
  });
  return {
    x: label,
    w: Math.max(40, width - label - 6),
    axis: y,
    row,
    call: HOST * em,
    panels: placed,
    height: Math.ceil(y + AXIS * em + 4),
  };
}
