// Where the backward stands: the map of global memory, with every tensor as a strip along the
// queries or the keys, and beside or below it the tiles of a block on its SM. A product has its
// operands on the left and above, and its result where they cross.
export const QUERY_STRIPS = ['Q', 'O', 'dO', 'LSE', 'delta'],
  KEY_STRIPS = ['K', 'V'],
  KEY_RESULTS = ['dV', 'dK'];
const NARROW = 36; // sizes of text: a pane below this has the SM only

/**
 * @param {{width: number, height: number, em: number}} size of the pane
 * @param {{n: number, keys: number, d: number, rows: number, cols: number}} shape rows, cols: the
 *   queries and keys of a tile
 * @returns the strips and the map in pixels [x, y, width, height], `unit` pixels of a query or key;
 *   held: the same on the SM with `heldUnit`, chip: around it, and the place of the products' names
 */
export function backwardLayout({ width, height, em }, { n, keys, d, rows, cols }) {
  const shape = { d, rows, cols };
  if (width < NARROW * em)
    return {
      em,
      strips: {},
      map: null,
      unit: 0,
      title: 0,
      ...chipLayout([0, 0, width, height], em, shape),
    };
  const beside = width > 1.15 * height,
    pad = Math.round(0.7 * em),
    wide = beside ? Math.round(0.38 * width) : width,
    high = beside ? height : Math.round(0.42 * height),
    map = mapLayout([wide, high], em, { n, keys });
  const left = beside ? wide + pad : pad,
    top = beside ? 0 : map.bottom + Math.round(0.6 * em),
    room = [left, top, width - left - pad, height - top - 2];
  return { em, ...map, ...chipLayout(room, em, shape) };
}

// Strips and map in the middle of so much room.
function mapLayout([width, height], em, { n, keys }) {
  const step = Math.round(2 * em),
    thick = Math.round(0.9 * em),
    row = Math.round(1.5 * em), // of a lying strip
    left = QUERY_STRIPS.length * step + Math.round(0.2 * em),
    above = 1.6 * em + KEY_STRIPS.length * row + em,
    below = 0.6 * em + KEY_RESULTS.length * row,
    unit = Math.max(0.2, Math.min((width - left - step - em) / keys, (height - above - below) / n)),
    top = Math.max(0, Math.round((height - above - below - n * unit) / 2));
  const map = [left, top + above, keys * unit, n * unit],
    strips = {};
  QUERY_STRIPS.forEach((name, i) => (strips[name] = [2 + i * step, map[1], thick, map[3]]));
  strips.dQ = [left + map[2] + Math.round(0.8 * em), map[1], thick, map[3]];
  const lying = (names, first) =>
    names.forEach((name, i) => (strips[name] = [left, first + i * row, map[2], thick * 0.85]));
  lying(KEY_STRIPS, top + 1.6 * em);
  lying(KEY_RESULTS, map[1] + map[3] + 0.6 * em);
  const low = strips.dK[1] + strips.dK[3];
  return { strips, map, unit, title: top + 1.05 * em, bottom: low + 2 };
}

/** @param {number[]} room @param {number} em @param {any} shape */
function chipLayout([x, y, width, height], em, { d, rows, cols }) {
  const gap = Math.round(1.6 * em), // above a box for its name, and left of S and dP for a column
    close = Math.round(0.8 * em),
    pad = Math.round(0.6 * em),
    title = Math.round(1.5 * em),
    foot = Math.round(1.9 * em),
    across = 3 * d + 2 * cols,
    down = rows + 2 * d,
    gaps = 2 * gap + 2 * close,
    fitted = Math.max(
      0.2,
      Math.min((width - gaps - 2 * pad) / across, (height - title - foot - 3 * gap - pad) / down),
    ),
    unit = fitted >= 2 ? Math.floor(fitted) : fitted;
  const size = [across * unit + gaps, down * unit + 3 * gap],
    x0 = Math.round(x + (width - size[0]) / 2),
    y0 = Math.round(y + title + Math.max(0, (height - title - foot - size[1] - pad) / 2));
  const [a, b, c] = [d * unit, cols * unit, rows * unit],
    s = x0 + a + gap,
    o = s + b + close,
    p = o + a + gap,
    high = y0 + gap,
    middle = high + a + gap,
    low = middle + c + gap;
  const held = {
    K: [s, high, b, a],
    V: [p, high, b, a],
    Q: [x0, middle, a, c],
    S: [s, middle, b, c],
    dO: [o, middle, a, c],
    dP: [p, middle, b, c],
    dQ: [p + b + close, middle, a, c],
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
