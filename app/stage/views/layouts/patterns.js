// Where the parts of a pattern's picture stand: the name of the way of the step, its threads next to
// its places, its reason and counts, and below them a bar for each way.

const LANES = 32;
const GAP = 1.6; // em between the two grids
const WIDE = 40; // em: from here on counts have columns, and lines with their meaning
const LINE = 1.25; // of the size of small text

/**
 * @param {{width: number, height: number, em: number, small: number}} size
 * @param {{ways: number, threadRows: number, placeRows: number, counts: number}} parts
 * @returns {{name: number, heads: number, threads: number[], places: number[], cw: number, ch: number,
 *   reason: number, reasons: number, counts: number, apart: boolean, tight: boolean, list: number,
 *   bars: number, bar: number, height: number}}
 * name, heads, reason, counts, list, bars: the tops of lines of text. threads, places: the corners of the
 * grids. cw, ch: of a cell. reasons: lines of the reason. apart: whether each count has its own line.
 * tight: whether no room is left for these lines. bar: the height of a line of the bars.
 */
export function layout({ width, height, em, small }, { ways, threadRows, placeRows, counts }) {
  const apart = width >= WIDE * em,
    line = LINE * small,
    most = Math.max(threadRows, placeRows),
    reasons = apart ? 2 : 3,
    rows = 1.12 * line * ways,
    around = lines => (4.6 + reasons + (apart ? lines + 1 : 1)) * line + 2 * em,
    tight = apart && height < around(counts) + rows + 0.5 * em * most,
    told = tight ? 0 : counts,
    words = around(told),
    cw = (width - 2 - GAP * em) / 2 / LANES,
    ch = Math.max(0.32 * em, Math.min((height - words - rows) / most, 1.6 * cw)),
    heads = 1.5 * line,
    grids = heads + 1.25 * line,
    reason = grids + ch * most + 0.5 * em,
    below = reason + reasons * line + 0.2 * em,
    list = below + (apart ? told : 1) * line + 0.5 * em,
    bars = list + (apart ? 2.3 : 1.3) * line,
    free = Math.max(0, height - bars - rows - 2),
    bar = (rows + Math.min(free, (ways < 5 ? 1.4 : 0.8) * line * ways)) / ways;
  return {
    ...{ name: 0, heads, cw, ch, reason, reasons, apart, tight },
    threads: [1, grids],
    places: [1 + LANES * cw + GAP * em, grids],
    counts: below,
    ...{ list, bars },
    bar,
    height: Math.ceil(bars + ways * bar + 1),
  };
}

export { LANES, LINE };
