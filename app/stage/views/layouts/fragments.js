// Where A, B and C of a product stand: A left of C, B above it.

const K = 16; // of the instruction

const CELL = 10; // pixels: the least height of a cell with a number
const CAPTION = 11; // em: where a caption fits into one line

// shape: tallest, widest: the most rows and columns of a product's C. Returns name -> {x, y, w, h}
// for A, B and C, lines: of a caption, and height: of all.
export function fragmentsLayout({ width, height, em }, { tallest, widest }) {
  const left = 2.2 * em,
    gapX = 2 * em,
    w = width - left - gapX - 2,
    wideA = Math.max(Math.min(20 * em, 0.55 * w), Math.min(0.67 * w, (w * K) / (K + widest))),
    lines = Math.min(wideA, w - wideA) < CAPTION * em ? 2 : 1,
    top = (0.8 + 1.1 * lines) * em,
    gapY = (2.4 + 1.1 * lines) * em,
    rows = Math.min(tallest, K),
    h = Math.max((K + rows) * CELL, height - top - gapY - 3);
  const share = Math.max(Math.min(K * 1.16 * em, 0.38 * h), (h * K) / (K + tallest)),
    highB = tallest > K ? share : 0.42 * h; // its numbers take two cells each
  return {
    A: { x: left, y: top + highB + gapY, w: wideA, h: h - highB },
    B: { x: left + wideA + gapX, y: top, w: w - wideA, h: highB },
    C: { x: left + wideA + gapX, y: top + highB + gapY, w: w - wideA, h: h - highB },
    lines,
    height: Math.ceil(top + gapY + h + 3),
  };
}

const LARGE = 1.7, // times the small text: a number of two cells
  NARROW = 1.2, // sizes of letters that a number of two digits takes
  LOW = 1.02; // sizes of letters that a line of numbers takes: the lines do not touch

// The size of a lane's number in a cell, or 0 where it cannot be read. Two neighbours of one lane have
// one number: down, where they are one over the other, else across.
export function numberSize({ w, h }, small, pair = '') {
  const [wide, high] = [pair === 'across' ? 2 * w : w, pair === 'down' ? 2 * h : h],
    size = Math.min(pair ? LARGE * small : small, wide / NARROW, high / LOW);
  return size >= 9 ? size : 0;
}
