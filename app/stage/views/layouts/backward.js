// Where the backward stands: the map of global memory, with every tensor as a strip along the
// queries or the keys, and beside or below it the tiles of a block on its SM. A product has its
// operands on the left and above, and its result where they cross.
export const QUERY_STRIPS = ['Q', 'O', 'dO', 'LSE', 'delta'],
  KEY_STRIPS = ['K', 'V'],
  KEY_RESULTS = ['dV', 'dK'];

/**
 * @param {{width: number, height: number, em: number}} size of the pane
 * @param {{n: number, keys: number, d: number, rows: number, cols: number}} shape rows, cols: the
 *   queries and keys of a tile
 * @returns the strips and the map in pixels [x, y, width, height], `unit` pixels of a query or key;
 *   held: the same on the SM with `heldUnit`, chip: around it, and the place of the products' names
 */
export function backwardLayout({ width, height, em }, { n, keys, d, rows, cols }) {
  const beside = width > 1.15 * height,
    pad = Math.round(0.7 * em),
    wide = beside ? Math.round(0.4 * width) : width,
    high = beside ? height : Math.round(0.42 * height),
    map = mapLayout([0, 0, wide, high], em, { n, keys });
  const left = beside ? wide + pad : pad,
    top = beside ? 0 : map.bottom + Math.round(0.6 * em),
    room = [left, top, width - left - pad, height - top - 2];
  return { em, ...map, ...chipLayout(room, em, { d, rows, cols }) };
}

function mapLayout([x, y, width, height], em, { n, keys }) {
  const step = Math.round(2.1 * em),
    thick = Math.round(0.95 * em),
    title = Math.round(1.6 * em),
    left = x + QUERY_STRIPS.length * step + Math.round(0.3 * em),
    above = y + title + KEY_STRIPS.length * step * 0.75 + em,
    across = width - (left - x) - step - em,
    down = height - (above - y) - KEY_RESULTS.length * step * 0.75 - 0.6 * em;
  const unit = Math.max(0.2, Math.min(across / keys, down / n)),
    map = [left, above, keys * unit, n * unit],
    strips = {};
  QUERY_STRIPS.forEach((name, i) => (strips[name] = [x + 2 + i * step, above, thick, map[3]]));
  strips.dQ = [left + map[2] + Math.round(0.9 * em), above, thick, map[3]];
  const lying = (names, first) =>
    names.forEach(
      (name, i) => (strips[name] = [left, first + i * step * 0.75, map[2], thick * 0.8]),
    );
  lying(KEY_STRIPS, y + title);
  lying(KEY_RESULTS, above + map[3] + 0.6 * em);
  const low = strips.dK[1] + strips.dK[3];
  return { strips, map, unit, title: y + 1.05 * em, bottom: low + 2 };
}

/** @param {number[]} room @param {number} em @param {any} shape */
function chipLayout([x, y, width, height], em, { d, rows, cols }) {
  const gap = Math.round(1.6 * em),
    pad = Math.round(0.6 * em),
    title = Math.round(1.5 * em),
    foot = Math.round(1.9 * em),
    across = 3 * d + 2 * cols,
    down = rows + 2 * d,
    fitted = Math.max(
      0.2,
      Math.min(
        (width - 4 * gap - 2 * pad) / across,
        (height - title - foot - 3 * gap - pad) / down,
      ),
    ),
    unit = fitted >= 2 ? Math.floor(fitted) : fitted;
  const size = [across * unit + 4 * gap, down * unit + 3 * gap],
    x0 = Math.round(x + (width - size[0]) / 2),
    y0 = Math.round(y + title + Math.max(0, (height - title - foot - size[1] - pad) / 2));
  const at = (widths, start) => {
    let now = start;
    return widths.map(w => (now += w * unit + gap) - w * unit - gap);
  };
  const [q, s, o, p, r] = at([d, cols, d, cols, d], x0),
    [high, middle, low] = at([d, rows, d], y0 + gap),
    [a, b, c] = [d * unit, cols * unit, rows * unit];
  const held = {
    K: [s, high, b, a],
    V: [p, high, b, a],
    Q: [q, middle, a, c],
    S: [s, middle, b, c],
    dO: [o, middle, a, c],
    dP: [p, middle, b, c],
    dQ: [r, middle, a, c],
    dV: [s, low, b, a],
    dK: [p, low, b, a],
  };
  const bottom = y0 + size[1] + pad + foot;
  return {
    held,
    heldUnit: unit,
    chip: [x0 - pad, y0 - 2, size[0] + 2 * pad, size[1] + foot],
    products: [x0, bottom - pad - 0.5 * em, size[0]],
    height: bottom + 2,
  };
}
