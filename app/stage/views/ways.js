// The ways between boxes, which lie in the gaps, so that an arrow crosses no page and no number.

// From an entry of a table down to its page, through the gaps. channel: the height at which it goes
// sideways.
export function wayDown(cells, entry, place, page, channel) {
  const [cx, cy] = cells.at(entry),
    out = cx + cells.w / 2 - 1.5,
    under = cy + cells.h,
    last = under >= cells.bottom - 1,
    x = last ? out : cx + cells.w - 1.5;
  const [px, py] = place.at(page),
    middle = px + place.w / 2,
    gap = place.gap / 2;
  const down =
    page < place.columns
      ? []
      : [
          [px - gap, channel],
          [px - gap, py - gap],
          [middle, py - gap],
        ];
  return [
    [out, under],
    ...(last
      ? []
      : [
          [out, under + 2],
          [x, under + 2],
        ]),
    [x, channel],
    ...(down.length ? down : [[middle, channel]]),
    [middle, py],
  ];
}

// From a page down to a point below the pool.
export function wayOut(place, page, [x, y], channel) {
  const [px, py] = place.at(page),
    middle = px + place.w / 2,
    below = py + place.h,
    gap = place.gap / 2;
  const last = Math.floor(page / place.columns) === place.rows - 1;
  return [
    [middle, below],
    ...(last
      ? []
      : [
          [middle, below + gap],
          [px - gap, below + gap],
          [px - gap, channel],
        ]),
    ...(last ? [[middle, channel]] : []),
    [x, channel],
    [x, y],
  ];
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
