// Where the parts of decoding over a work list stand: the lists of pages, the ring of stages with the
// warps, the bars of scores, and the partitions.

// shape: lists: pages of each list; stages; length in tokens; units: pieces of the followed
// sequence; labels: width of the bars' widest label. Returns {rows, ring, bars, parts, height}.
export function rangesLayout({ width, height, em }, { lists, stages, length, units, labels }) {
  const whole = units === 1,
    scarce = height < 34 * em,
    cell = scarce ? 1.5 * em : 1.9 * em,
    under = 1.25 * em,
    titled = 1.35 * em;
  let y = 0;
  const rows = lists.map(pages => {
    const row = {
      y: y + titled + 1.1 * em,
      each: Math.min(4.2 * em, (width - 2) / pages),
      h: cell,
    };
    y = row.y + cell + under + 0.35 * em;
    return row;
  });
  const ringHigh = (scarce ? 1.5 : 2) * em,
    above = (scarce ? 0.6 : 1) * em, // the partitions
    high = (whole ? 2.5 : 3.6) * em;
  const fixed = titled + 0.9 * em + ringHigh + 2.8 * em + titled + above + high,
    left = Math.max(height - y - fixed - 2, 0);
  const ringTop = y + titled + 0.4 * em,
    warps = ringTop + ringHigh + 0.5 * em,
    ring = { y: ringTop, h: ringHigh, warps, w: width / stages };
  const x = Math.max(3.2 * em, labels + 6),
    bars = {
      x,
      y: warps + 2.8 * em + titled,
      h: Math.max(3 * em, Math.min(26 * em, left)),
      each: (width - x) / length,
    };
  const gap = 0.6 * em,
    all = Math.min(14 * em, 0.27 * width),
    parts = {
      y: bars.y + bars.h + above,
      h: high,
      gap,
      all,
      w: whole ? 0 : (width - all - 2.2 * em) / units - gap,
    };
  return { rows, ring, bars, parts, height: parts.y + parts.h + 1 };
}
