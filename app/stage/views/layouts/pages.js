// Where the pages of a KV cache and the entries of a block table stand.

// The number of columns under which the pages are largest in the given room, in the fewest rows;
// what does not fit runs over its lower edge.
export function placePages(count, { left = 0, top, width, height, em, high = 3.4 * em }) {
  const gap = Math.round(em * 0.75),
    low = 2 * em,
    narrow = Math.max(2.2 * em, 26);
  const sized = columns => {
    const rows = Math.ceil(count / columns),
      w = Math.min(14 * em, (width + gap) / columns - gap),
      h = Math.min(high, (height + gap) / rows - gap);
    return {
      columns,
      rows,
      w,
      h,
      good: w >= narrow && h >= low ? Math.min(w / (7 * em), 1) * Math.min(h / (2.9 * em), 1) : 0,
    };
  };
  const best = Array.from({ length: count }, (_, n) => sized(n + 1)).reduce((a, b) =>
    b.good > a.good || (b.good === a.good && b.w * b.h >= a.w * a.h) ? b : a,
  );
  const { columns, rows, w, h } = best.good
    ? best
    : { ...sized(Math.max(1, Math.floor((width + gap) / (narrow + gap)))), h: low };
  return {
    w,
    h,
    em,
    gap,
    columns,
    rows,
    left,
    top,
    bottom: top + rows * (h + gap) - gap,
    at: page => [left + (page % columns) * (w + gap), top + Math.floor(page / columns) * (h + gap)],
  };
}

// A block table as cells, entry above, page below; wraps.
export function placeTable(count, { left, top, width, em }) {
  const w = Math.max(2.3 * em, Math.min(3.6 * em, width / Math.max(count, 1))),
    columns = Math.max(1, Math.floor(width / w)),
    h = 2.5 * em,
    step = h + 4;
  const at = entry => [left + (entry % columns) * w, top + Math.floor(entry / columns) * step];
  return {
    w,
    h,
    em,
    at,
    bottom: top + Math.ceil(Math.max(count, 1) / columns) * step - 4,
  };
}

// From a page to another one.
export function wayBetween(place, from, to) {
  const [x0, y0] = place.at(from),
    [x1, y1] = place.at(to),
    half = place.w / 2,
    gap = place.gap / 2;
  return [
    [x0 + half, y0],
    [x0 + half, y0 - gap],
    [x1 - gap, y0 - gap],
    [x1 - gap, y1 - gap],
    [x1 + half, y1 - gap],
    [x1 + half, y1],
  ];
}
