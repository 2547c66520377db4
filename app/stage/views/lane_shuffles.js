// The max of a row, of which each lane has a part: its own max, and after each round the larger one of its own and of
// its partner's. The partners are the half of the lanes apart, then a quarter, as in group_max of
// kernels/device/common.cuh.

/**
 * @param {any[]} made the marks
 * @param {(id: string, x: number, y: number, said: string, more?: any) => void} word adds a text
 * @param {{lanes: {one: number, max: number, fill: string, from: number[]}[], rounds: number, left: number,
 *   wide: number, y: number, em: number, name: number, paint: any}} what lanes: with the place of their largest score;
 *   rounds: 0 for the first line only; left, wide, y: of the first chip; name: where the names of the lines are
 */
export function drawShuffles(made, word, { lanes, rounds, left, wide, y, em, name, paint }) {
  const high = 1.6 * em,
    every = 3.1 * em, // from line to line
    middle = n => left + n * wide + (wide - 4) / 2;
  let values = lanes.map(({ max }) => max);
  for (let round = 0; round <= rounds; round++) {
    const top = y + round * every,
      apart = lanes.length >> round,
      start = 0.3 * round;
    if (round) {
      const before = values;
      values = values.map((value, n) => Math.max(value, before[n ^ apart]));
      for (const [n, { one }] of lanes.entries())
        for (const from of [n, n ^ apart])
          made.push({
            id: `round ${round} ${one} ${from}`,
            kind: 'way',
            rect: [0, 0, 0, 0],
            points: [
              [middle(from), top - every + high],
              [middle(n), top - 2],
            ],
            stroke: from === n ? paint.border : paint.text,
            width: from === n ? 1 : 1.6,
            head: 4,
            enter: { grown: 0 },
            span: [start, start + 0.4],
          });
    }
    if (rounds)
      word(`line ${round}`, name, top + 1.15 * em, round ? `round ${round}` : 'own max', {
        size: em,
      });
    for (const [n, { one, fill, from }] of lanes.entries()) {
      const rect = [left + n * wide, top, wide - 4, high];
      made.push({
        id: `largest ${round} ${one}`,
        kind: 'rect',
        rect,
        fill,
        stroke: paint.border,
        ...(round ? {} : { enter: { rect: from }, ease: 'both' }),
        span: [start, start + 0.4],
      });
      word(`largest of ${round} ${one}`, rect[0] + 0.3 * em, top + 1.15 * em, shortly(values[n]), {
        mono: true,
        most: wide - em,
        bold: round > 0 && round === rounds,
        span: [Math.min(0.9, start + 0.3), 1],
      });
    }
  }
}
const shortly = value => String(Number(value.toPrecision(2)));
