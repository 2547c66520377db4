// Where the backward is drawn: the chain of a block's tiles on its SM, from the operands on the left
// to the gradients on the right, and below or next to it the map of global memory, with every tensor
// as a strip along the queries or the keys.
export const QUERY_STRIPS = ['Q', 'O', 'dO', 'LSE', 'delta'];
export const KEY_STRIPS = ['K', 'V'];
export const KEY_RESULTS = ['dV', 'dK'];
const NARROW = 36, // sizes of text: a pane below this has short names, and less room between strips
  LEAST_MAP = 12, // sizes of text: the height of the map in a narrow pane
  FACTS = 9, // sizes of text: the height of the panel below a narrow map
  PANEL = 24, // its width next to a wide map
  TIGHT = 14, // below this height no column says where it lives
  LEAST_PANEL = 11, // its least height there
  FLAT = 2.2, // width by height: above this the two are next to each other
  WIDEST = 3; // pixels of a key by pixels of a query

/**
 * @param {{width: number, height: number, em: number}} size of the pane
 * @param {{n: number, keys: number, d: number, rows: number, cols: number, adds?: boolean}} shape rows,
 *   cols: the queries and keys of a tile
 * @returns the strips and the map in pixels [x, y, width, height], `across` pixels of a key and
 *   `down` pixels of a query; held: the same on the SM with `heldUnit`, chip: around it; ends: where
 *   the room of the columns S, P and of the gradients ends; columns, places: left ends of the four
 *   columns, and the line of text above them; edge: the right end of the map's room; panel: of the
 *   facts, null without room
 */
export function backwardLayout({ width, height, em }, { n, keys, d, rows, cols, adds = false }) {
  const shape = { d, rows, cols },
    flat = width > FLAT * height,
    space = Math.round(em),
    wide = flat ? Math.round(0.56 * width) : width,
    narrow = width < NARROW * em,
    upper = narrow ? height - (LEAST_MAP + FACTS + 2) * em : Math.round(0.6 * height),
    chain = chainLayout([0, 0, wide, flat ? height : upper], em, shape);
  const top = flat ? 0 : chain.height + Math.round(0.5 * em),
    left = flat ? wide + space : 0;
  const room = [left, top, width - left, Math.max(10 * em, height - top)];
  if (narrow) room[3] -= (FACTS + 1) * em;
  const beside = !narrow && !flat && room[3] > LEAST_PANEL * em,
    memory = memoryLayout(room, em, { n, keys, adds, panel: beside ? PANEL * em : 0 }),
    below = [em / 2, memory.height + 0.6 * em, width - em, FACTS * em],
    next = [width - PANEL * em + 7 * em, top, (PANEL - 7) * em, memory.height - top],
    panel = narrow ? below : beside ? next : null,
    bottom = Math.max(chain.height, memory.height + (narrow ? (FACTS + 0.6) * em : 0));
  return { em, ...chain, ...memory, panel, height: bottom };
}

/** @param {number[]} room @param {number} em @param {{n: number, keys: number, adds: boolean, panel: number}} shape */
function memoryLayout([x, y, width, height], em, { n, keys, adds, panel }) {
  const step = Math.round((width < NARROW * em ? 2.4 : 2.8) * em),
    thick = Math.round(0.9 * em),
    row = Math.round(1.35 * em), // of a lying strip
    left = QUERY_STRIPS.length * step,
    right = (adds && width < NARROW * em ? 7.6 : 3) * em + panel, // room for the names of blocks
    above = KEY_STRIPS.length * row + Math.round(1.6 * em),
    below = Math.round(0.5 * em) + KEY_RESULTS.length * row;
  const down = Math.max(0.2, (height - above - below) / n),
    across = Math.max(0.2, Math.min((width - left - right) / keys, WIDEST * down));
  const map = [x + left, y + above, keys * across, n * down],
    strips = {};
  QUERY_STRIPS.forEach((name, i) => {
    strips[name] = [x + i * step + Math.round(0.6 * em), map[1], thick, map[3]];
  });
  const gap = Math.round((panel ? 2 : 1.1) * em); // of the map and dQ
  strips.dQ = [map[0] + map[2] + gap, map[1], thick, map[3]];
  const lying = (names, first) =>
    names.forEach((name, i) => {
      strips[name] = [map[0], first + i * row, map[2], thick * 0.85];
    });
  lying(KEY_STRIPS, y + 2);
  lying(KEY_RESULTS, map[1] + map[3] + 0.5 * em);
  const bottom = strips.dK[1] + strips.dK[3] + 2;
  return {
    strips,
    map,
    across,
    down,
    title: [x + 2, y + 1.05 * em],
    sizes: [x + 2, y + 2.35 * em, left - (width < NARROW * em ? 2 : 1) * em],
    caption: map[1] - 0.55 * em,
    edge: x + width,
    height: bottom,
  };
}

/** @param {number[]} room @param {number} em @param {any} shape */
function chainLayout([x, y, width, height], em, { d, rows, cols }) {
  const small = width < NARROW * em,
    pad = Math.round(0.7 * em),
    letter = small ? em : Math.round(1.15 * em), // of the names
    label = Math.round(1.45 * letter), // above a box, for its name
    title = Math.round(1.5 * em),
    between = Math.round(0.5 * em), // the two rows
    places = height < TIGHT * em ? 0 : Math.round(1.3 * em), // above the columns: where each lives
    name = (small ? 7.4 : 8) * letter, // the widest name of a gradient
    least = [small ? 1.6 : 3, small ? 2.2 : 4, small ? 1.6 : 4.5].map(gap => gap * em),
    gaps = least.reduce((sum, gap) => sum + gap, 0);
  const fitted = Math.max(
    0.05,
    Math.min(
      (width - gaps - 2 * pad) / (2 * d + 2 * cols),
      (width - gaps - 2 * pad - name) / (d + 2 * cols),
      (height - 3 - title - places - pad - between - 4 * label) / (2 * (rows + cols)),
    ),
  );
  const unit = fitted >= 2 ? Math.floor(fitted) : fitted,
    [a, b, c] = [d * unit, cols * unit, rows * unit],
    spare = Math.max(0, width - gaps - 2 * pad - a - 2 * b - Math.max(a, name)) / 3;
  const columns = [x + pad];
  [a, b, b].forEach((wide, i) => columns.push(columns[i] + wide + least[i] + spare));
  const [operands, scores, weights, gradients] = columns.map(Math.round),
    deep = 2 * label + b + c, // of a row of the chain
    tops = [y + title + places, y + title + places + deep + between],
    middle = (top, tall) => top + (deep - label - tall) / 2 + label;
  const held = {
    Q: [operands, tops[0] + label, a, c],
    K: [operands, tops[0] + 2 * label + c, a, b],
    S: [scores, middle(tops[0], c), b, c],
    P: [weights, middle(tops[0], c), b, c],
    dV: [gradients, middle(tops[0], b), a, b],
    dO: [operands, tops[1] + label, a, c],
    V: [operands, tops[1] + 2 * label + c, a, b],
    O: [operands, tops[1] + 2 * label + c, a, c], // in its place, while delta is made
    dP: [scores, middle(tops[1], c), b, c],
    dS: [weights, middle(tops[1], c), b, c],
    dK: [gradients, tops[1] + label, a, b],
    dQ: [gradients, tops[1] + 2 * label + b, a, c],
  };
  const bottom = tops[1] + deep + pad;
  return {
    held,
    heldUnit: unit,
    small,
    letter,
    columns: [operands, scores, weights, gradients],
    places: places && y + title + 1.2 * em,
    ends: [weights - 2 * em, gradients - 1.6 * em, x + width - 2],
    chip: [x + 1, y + title, width - 2, bottom - y - title],
    heading: [x + 1, y + 1.05 * em],
    height: bottom + 2,
  };
}
