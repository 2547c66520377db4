// Where the matrices of attention stand: Q left of S, O right of it, K^T above S, V^T below it; in a
// low pane V^T stands beside K^T instead, above O.

// shape: n queries, keys, head dimension d. Returns {boxes: name -> [x, y, width, height], unit:
// pixels of an element, gap, height}.
export function matricesLayout({ width, height, em }, { n, keys, d }) {
  const gap = Math.round(em * 1.9),
    top = Math.round(em * 1.3),
    wide = width - 2 * gap - 2,
    high = height - top - gap - 4;
  const tall = Math.min(wide / (keys + 2 * d), (high - gap) / (n + 2 * d)),
    low = Math.min(wide / (2 * keys + d), wide / (keys + 2 * d), high / (n + d));
  const beside = low > 1.1 * tall,
    unit = Math.max(0.4, beside ? low : tall);
  const a = d * unit,
    b = keys * unit,
    h = n * unit,
    across = a + b + 2 * gap + (beside ? Math.max(a, b) : a),
    left = Math.max(0, (width - across) / 2);
  return {
    unit,
    gap,
    boxes: {
      Q: [left, top + a + gap, a, h],
      K: [left + a + gap, top, b, a],
      S: [left + a + gap, top + a + gap, b, h],
      V: beside
        ? [left + a + b + 2 * gap, top, b, a]
        : [left + a + gap, top + a + h + 2 * gap, b, a],
      O: [left + a + b + 2 * gap, top + a + gap, a, h],
    },
    height: top + a + h + gap + (beside ? 0 : a + gap) + 4,
  };
}
