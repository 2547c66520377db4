// Where the panels of a time line and their rows are: one under the other, on one axis of time. A row
// has its bars, and under them a strip for the lengths of its gaps.

const AXIS = 1.9, // em: the axis, the title of a panel
  TITLE = 1.55,
  STRIP = 1.35, // em: under the bars of a row with gaps
  BARS = 1.45, // em: the least height of the bars of a row, and of each further part of a row
  PART = 1.15,
  MOST = 12; // em: the most of the first part

// panels: the rows of each panel, each with its parts and whether it has gaps. Returns {x, w, axis,
// panels: [{y, rows: [{y, h, strip}]}], height}. h: of the bars. strip: under them.
export function launchesLayout({ width, height, em }, panels) {
  const label = Math.min(0.18 * width, 5.6 * em),
    stripOf = row => (row.gaps ? STRIP : 0.25) * em,
    least = panels.flat().map(({ parts }) => (BARS + PART * (parts - 1)) * em),
    rows = panels.flat().reduce((sum, row, n) => sum + least[n] + stripOf(row), 0),
    titles = (AXIS + TITLE * panels.length) * em + 4,
    total = least.reduce((sum, bars) => sum + bars, 0),
    scale = Math.max(1, Math.min(MOST / BARS, 1 + (height - titles - rows) / Math.max(1, total)));
  let y = 0,
    n = 0;
  const placed = panels.map(listed => {
    const top = y;
    y += TITLE * em;
    const places = listed.map(row => {
      const place = { y, h: least[n++] * scale, strip: stripOf(row) };
      y += place.h + place.strip;
      return place;
    });
    return { y: top, rows: places };
  });
  return {
    x: label,
    w: Math.max(40, width - label - 6),
    axis: y,
    panels: placed,
    height: Math.ceil(y + AXIS * em + 4),
  };
}
