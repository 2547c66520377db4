// Where the panels of a time line and their rows are: one under the other, on one axis of time. A row
// has its bars, and under them a strip for the lengths of its gaps. Below the axis, on the same scale,
// are the host's calls: a title, and a row for each panel. A low picture has no host.

const AXIS = 1.9, // em: the axis, the title of a panel, the title and a row of the host
  TITLE = 1.6,
  HOST_TITLE = 2.1,
  HOST = 1.7,
  STRIP = 1.35, // em: under the bars of each row
  BARS = 1.7, // em: the least height of the bars of a row, and of each further part of a row
  PART = 1.15,
  MOST = 9; // em: the most of the first part

// panels: the rows of each panel, each with its parts and whether it has gaps. Returns {x, w, axis,
// panels: [{y, rows: [{y, h, strip}]}], host: null or {y, rows: [{y, h}]}, height}. h: of the bars.
// strip: under them.
export function launchesLayout({ width, height, em }, panels) {
  const label = Math.min(0.18 * width, 5.6 * em),
    stripOf = row => (row.gaps ? STRIP : 0.3) * em,
    least = panels.flat().map(({ parts }) => (BARS + PART * (parts - 1)) * em),
    rows = panels.flat().reduce((sum, row, n) => sum + least[n] + stripOf(row), 0),
    titles = (AXIS + TITLE * panels.length) * em + 4,
    calls = (HOST_TITLE + HOST * panels.length) * em,
    hosts = titles + calls + rows <= height,
    free = height - titles - (hosts ? calls : 0) - rows,
    total = least.reduce((sum, bars) => sum + bars, 0),
    scale = Math.max(1, Math.min(MOST / BARS, 1 + free / Math.max(1, total)));
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
  const under = y + AXIS * em,
    hostRow = (_, p) => ({ y: under + (HOST_TITLE + HOST * p) * em, h: (HOST - 0.3) * em });
  return {
    x: label,
    w: Math.max(40, width - label - 6),
    axis: y,
    panels: placed,
    host: hosts ? { y: under, rows: panels.map(hostRow) } : null,
    height: Math.ceil(under + (hosts ? calls : 0) + 4),
  };
}
