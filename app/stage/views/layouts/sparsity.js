// Where the mask, the list of a row's blocks and the chart of scores stand: list and chart beside
// the mask in a wide pane, else below it.

// shape: queries, keys, entries of the list, labels: width of the chart's widest label. Returns
// {map, list, chart, height}; map.unit: pixels of an element.
export function sparsityLayout({ width, height, em }, { queries, keys, entries, labels }) {
  const under = 4.6 * em, // words under the chart
    left = 2.6 * em,
    top = 2.9 * em,
    wide = width > 0.95 * height && width > 30 * em;
  // The mask takes what its height allows, and leaves the chart more than a third.
  const share = Math.min(0.62, Math.max(0.5, (((height - top) * keys) / queries + left) / width));
  const across = (wide ? share * width : width) - left - 4,
    down = Math.max(9 * em, (wide ? height : 0.52 * height) - top - 4),
    unit = Math.max(0.02, Math.min(across / keys, down / queries));
  const map = { x: left, y: top, w: keys * unit, h: queries * unit, unit };
  const x = wide ? map.x + Math.max(map.w, 9 * em) + 2 * em : 0,
    y = wide ? 0 : top + map.h + 0.8 * em,
    w = width - x - 2;
  const each = Math.min(3 * em, w / Math.max(1, entries)),
    list = { x, y: y + 2.9 * em, w, h: 1.9 * em, each, title: y + em };
  const from = list.y + list.h + 2.9 * em,
    ends = wide ? map.y + map.h - under : 0; // with the mask, or lower
  const until = Math.max(from + 4 * em, Math.min(height - under, Math.max(from + 17 * em, ends)));
  const gutter = Math.max(3 * em, labels + 0.5 * em),
    chart = { x: x + gutter, y: from, w: w - gutter - 4, h: until - from };
  return { map, list, chart, height: Math.max(until + under, wide ? map.y + map.h + 4 : 0) };
}
