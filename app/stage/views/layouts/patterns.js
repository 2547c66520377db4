// Where the ways of a pattern stand. A wide pane has a row for each way: its words, its threads, its
// places and its reason. A narrow one has boxes: words, threads and places, and below all of them
// the reason of one way.

const LANES = 32;
const GAP = 1.4; // em between two columns or ways
const WIDE = 40; // em: from here on there are rows
const FEW = 4; // ways that stand below each other in a narrow pane
const NARROW = 34; // em: below this width a box has no line for its step
const FOOT = 3; // lines for the reason of one way
const LINE = 1.15; // of the size of small text

/**
 * @typedef {{x: number, y: number, w: number, h: number, cw: number, ch: number, threads: number[],
 *   places: number[], words: number[], reason: number[], lines: number}} Box
 * x, y, w, h: of the way. cw, ch: of a cell. threads, places: the corners of the grids. words: the
 * place and the width of its words. reason: those of its reason and its lines, the same for all
 * ways if there is room for one only. lines: of words.
 */

/**
 * @param {{width: number, height: number, em: number, small: number}} size
 * @param {{ways: number, threadRows: number, placeRows: number}} parts
 * @returns {{boxes: Box[], height: number}}
 */
export function layout(size, parts) {
  if (size.width >= WIDE * size.em) return rows(size, parts);
  return parts.ways <= FEW ? stacked(size, parts) : boxes(size, parts);
}

function rows({ width, height, em, small }, { ways, threadRows, placeRows }) {
  const head = 1.5 * small,
    least = (3 * LINE + 0.4) * small,
    h = Math.max(least, (height - head) / ways),
    gap = GAP * em,
    left = 0.29 * width,
    grid = (ways > 4 ? 0.155 : 0.2) * width,
    cw = Math.min(grid / LANES, 1.2 * em),
    ch = Math.min((h - 0.7 * em) / Math.max(threadRows, placeRows), 7 * cw),
    lines = Math.floor((h - 0.3 * small) / (LINE * small));
  const from = left + gap,
    second = from + LANES * cw + gap,
    third = second + LANES * cw + gap;
  const found = Array.from({ length: ways }, (_, n) => {
    const y = head + n * h;
    return {
      ...{ x: 1, y, w: width - 2, h, cw, ch },
      threads: [from, y + 0.3 * em],
      places: [second, y + 0.3 * em],
      words: [1, y, left],
      reason: [third, y, width - third - 1, Math.max(3, lines)],
      lines,
    };
  });
  return { boxes: found, height: Math.ceil(head + ways * h) };
}

// Two lines of words, and below them threads next to places and two lines of the reason.
function stacked({ width, height, em, small }, { ways, threadRows, placeRows }) {
  const most = Math.max(threadRows, placeRows),
    text = (4 * LINE + 1.3) * small,
    h = Math.max(height / ways, text + 0.5 * em * most),
    cw = (width - 2 - GAP * em) / 2 / LANES,
    ch = Math.min((h - text) / most, 3 * cw);
  const found = Array.from({ length: ways }, (_, n) => {
    const y = n * h,
      grids = y + (2 * LINE + 0.65) * small;
    return {
      ...{ x: 1, y, w: width - 2, h, cw, ch },
      threads: [1, grids],
      places: [1 + LANES * cw + GAP * em, grids],
      words: [1, y, width - 2],
      reason: [1, grids + ch * most + 0.1 * small, width - 2, 2],
      lines: 2,
    };
  });
  return { boxes: found, height: Math.ceil(ways * h) };
}

// As many columns as give the largest cells, and no hole in the last row if possible.
function boxes({ width, height, em, small }, { ways, threadRows, placeRows }) {
  const lines = width < NARROW * em ? 3 : 4,
    text = (lines + 0.6) * LINE * small,
    below = 0.7 * em,
    foot = FOOT * LINE * small,
    all = threadRows + placeRows;
  const fit = columns => {
    const w = (width - 2 - (columns - 1) * GAP * em) / columns,
      down = Math.ceil(ways / columns),
      cw = Math.min(w / LANES, 1.2 * em),
      h = (height - foot) / down - text - below - 0.4 * em;
    return { columns, w, cw, ch: Math.max(Math.min(h / all, 3 * cw), Math.min(cw, 0.18 * em)) };
  };
  const every = Array.from({ length: ways }, (_, n) => fit(n + 1)),
    roomy = every.filter(({ w }, n) => !n || w >= 9.5 * em),
    whole = roomy.filter(({ columns }) => columns > 1 && ways % columns === 0),
    area = ({ cw, ch }) => Math.min(cw, ch);
  const { columns, w, cw, ch } = (whole.length ? whole : roomy).reduce((a, b) =>
      area(b) > area(a) ? b : a,
    ),
    high = ch * all + 0.4 * em + text + below,
    down = Math.ceil(ways / columns);
  const reason = [1, down * high, width - 2, FOOT];
  const found = Array.from({ length: ways }, (_, n) => {
    const x = 1 + (n % columns) * (w + GAP * em),
      y = Math.floor(n / columns) * high,
      threads = y + text;
    return {
      ...{ x, y, w, h: high, cw, ch },
      threads: [x, threads],
      places: [x, threads + ch * threadRows + 0.4 * em],
      words: [x, y, w],
      reason,
      lines,
    };
  });
  return { boxes: found, height: Math.ceil(down * high + foot) };
}

/**
 * The lines of a text of words.
 * @param {string} text
 * @param {number} width
 * @param {number} most lines
 * @param {(text: string) => number} measure
 * @returns {string[]}
 */
export function wrapped(text, width, most, measure) {
  const lines = [''];
  for (const word of text.split(' ')) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (measure(longer) <= width || !lines.at(-1) || lines.length === most)
      lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

export { LANES, LINE };
