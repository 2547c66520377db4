// Where the panels of one row of the softmax stand: scores, weights, their sum l, O's row.
const SHARES = { score: 0.4, weight: 0.3, o: 0.3 }, // of the height that the sum leaves
  SUM = 1.6; // sizes of text

// sum: whether there is a panel of the sum. counts: panel -> its columns; left: the room that the
// axes need. Returns {left, w, panels: name -> {kind, y, h, each}, height}.
export function rowLayout({ width, height, em }, { sum, counts, left }) {
  const head = Math.round(em * 1.5),
    names = ['score', 'weight', ...(sum ? ['sum'] : []), 'o'],
    bar = sum ? Math.round(SUM * em) : 0,
    room = Math.max(4 * em, height - names.length * head - bar - 4),
    w = width - left - 3,
    panels = {};
  let y = 0;
  for (const kind of names) {
    const h = kind === 'sum' ? bar : Math.floor(room * SHARES[kind]);
    panels[kind] = { kind, y: y + head, h, each: w / (counts[kind] ?? 1) };
    y += head + h;
  }
  return { left, w, panels, height: y + 4 };
}
