// Where the panels of a time line and their rows are: one under the other, on one axis of time. The
// row of the host is above those of the streams. A row has its bars, and under them a strip for the
// lengths of its gaps. A low picture has no rows of the host.

const AXIS = 1.8, // em: the axis, the title of a panel and its row of the host
  TITLE = 1.6,
  HOST = 1.5,
  STRIP = 1.35, // em: under the bars of each row
  BARS = 1.7, // em: the least height of the bars of a row, and of each further part of a row
  PART = 1.15,
  MOST = 9; // em: the most of the first part

// panels: the rows of each panel, each with its parts and whether it has gaps. Returns {x, w, axis, call,
// panels: [{y, host, rows: [{y, h, strip}]}], height}. call: the height of a row of the host, or 0. h: of
// the bars. strip: under them.
export function launchesLayout({ width, height, em }, panels) {
  const label = Math.min(0.18 * width, 5.6 * em),
    stripOf = row => (row.gaps ? STRIP : 0.3) * em,
    least = panels.flat().map(({ parts }) => (BARS + PART * (parts - 1)) * em),
    rows = panels.flat().reduce((sum, row, n) => sum + least[n] + stripOf(row), 0),
    titles = (AXIS + TITLE * panels.length) * em + 4,
    call = titles + HOST * em * panels.length + rows <= height ? HOST * em : 0,
    free = height - titles - call * panels.length - rows,
    total = least.reduce((sum, bars) => sum + bars, 0),
    scale = Math.max(1, Math.min(MOST / BARS, 1 + free / Math.max(1, total)));
  let y = 0,
    n = 0;
  const placed = panels.map(listed => {
    const top = y,
      host = y + TITLE * em;
    y = host + call;
    const places = listed.map(row => {
      const place = { y, h: least[n++] * scale, strip: stripOf(row) };
      y += place.h + place.strip;
      return place;
    });
    return { y: top, host, rows: places };
  });
  return {
    x: label,
    w: Math.max(40, width - label - 6),
    axis: y,
    call,
    panels: placed,
    height: Math.ceil(y + AXIS * em + 4),
  };
}
