// Where the matrices of attention stand: all of them in global memory, and to the right or below the
// tiles that a block holds on its SM. Both are laid out as two products: Q left of S, K^T above S,
// V above O, O right of S.
const PLACES = ['Q', 'K', 'S', 'V', 'O'];

// shape: n queries, keys, head dimension d; rows and tile: the queries and keys of a tile, or
// tile 0 for a kernel that holds nothing on the SM. Returns {boxes: of global memory, name -> [x, y,
// width, height], unit: pixels of an element; held, chip and heldUnit: the same on the SM, or null;
// reads: the place of words below the SM, or null; gap; title: the baseline of the words above; height}.
export function matricesLayout({ width, height, em }, { n, keys, d, rows = 0, tile = 0 }) {
  const gap = Math.round(1.7 * em),
    head = Math.round(1.5 * em), // a name above the uppermost box
    title = tile ? head : 0,
    pad = Math.round(0.7 * em),
    all = { across: keys + 2 * d, down: n + Math.max(keys, d) },
    part = { across: tile + 2 * d, down: rows + Math.max(tile, d) },
    around = { across: 2 * gap + 2, down: gap + head + title + 2 };
  const fitted = (w, h, { across, down }) =>
    Math.max(0.2, Math.min((w - around.across) / across, (h - around.down) / down));
  const only = fitted(width, height, all);
  if (!tile) {
    const boxes = placed([(width - all.across * only - 2 * gap) / 2, head], only, gap, all, {
      n,
      keys,
      d,
    });
    return {
      boxes,
      unit: only,
      held: null,
      chip: null,
      reads: null,
      heldUnit: 0,
      title: 0,
      gap,
      height: bottom(boxes),
    };
  }
  const within = height - 4, // its frame
    beside = width > 1.15 * height,
    roomy = beside && height > 24 * em,
    share = beside ? 0.5 : 0.56,
    words = roomy ? 3.6 * em : 0, // below the SM
    unit = beside ? fitted(share * width, within, all) : fitted(width, share * height, all),
    high = all.down * unit + around.down,
    wide = all.across * unit + 2 * gap,
    room = width - wide - 2 * gap - 2 * pad;
  const scale = beside
      ? fitted(room, (roomy ? high : within) - words - 2 * pad, part)
      : fitted(width - 2 * pad, height - high - 2 * pad, part),
    heldUnit = scale >= 2 ? Math.floor(2 * scale) / 2 : scale,
    size = [part.across * heldUnit + 2 * gap, part.down * heldUnit + gap + head];
  const above = beside ? Math.max(0, (within - high) / 2) : 0,
    boxes = placed([beside ? 1 : (width - wide) / 2, above + title + head], unit, gap, all, {
      n,
      keys,
      d,
    });
  const left = Math.round(beside ? width - size[0] - pad - 1 : (width - size[0]) / 2),
    top = Math.round(
      roomy ? above + title + pad : beside ? Math.max(title + pad, (height - size[1]) / 2) : high + title + pad,
    ),
    held = placed([left, top + head], heldUnit, gap, part, { n: rows, keys: tile, d }),
    chip = [left - pad, top - pad / 2, size[0] + 2 * pad, size[1] + 1.5 * pad];
  const end = chip[1] + chip[3],
    low = Math.max(bottom(boxes), end + words);
  return {
    boxes,
    unit,
    held,
    chip,
    reads: roomy ? [chip[0], end, chip[2], low - end] : null,
    heldUnit,
    title: above + 1.1 * em,
    gap,
    height: low + 2,
  };
}

// The boxes of the two products, from their upper left corner.
function placed([x, y], unit, gap, { down }, { n, keys, d }) {
  const a = d * unit,
    b = keys * unit,
    h = n * unit,
    low = y + (down - n) * unit + gap, // where Q, S and O begin
    far = x + a + b + 2 * gap;
  return {
    Q: [x, low, a, h],
    K: [x + a + gap, low - gap - a, b, a],
    S: [x + a + gap, low, b, h],
    V: [far, low - gap - b, a, b],
    O: [far, low, a, h],
  };
}
const bottom = boxes => Math.max(...PLACES.map(name => boxes[name][1] + boxes[name][3])) + 4;
