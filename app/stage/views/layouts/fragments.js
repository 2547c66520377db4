// Where A, B and C of a product stand: A left of C, B above it.

const K = 16; // of the instruction

// shape: tallest, widest: the most rows and columns of a product's C. Returns name -> {x, y, w, h}.
export function fragmentsLayout({ width, height, em }, { tallest, widest }) {
  const left = 2.2 * em,
    top = 1.9 * em,
    gapX = 2 * em,
    gapY = 3.5 * em,
    w = width - left - gapX - 2,
    h = Math.max(4 * em, height - top - gapY - 3);
  const wideA = Math.max(Math.min(20 * em, 0.55 * w), Math.min(0.67 * w, (w * K) / (K + widest))),
    share = Math.max(Math.min(K * 1.16 * em, 0.6 * h), (h * K) / (K + tallest)),
    highB = tallest > K ? share : h / 2;
  return {
    A: { x: left, y: top + highB + gapY, w: wideA, h: h - highB },
    B: { x: left + wideA + gapX, y: top, w: w - wideA, h: highB },
    C: { x: left + wideA + gapX, y: top + highB + gapY, w: w - wideA, h: h - highB },
  };
}
