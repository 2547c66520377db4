// One row of the softmax at each step: its weights as they count now, their sum and O's row, with
// the factors that the kernel has logged.

/** @param {any} value as encoding.py writes NaN and infinity */
export const num = value => ({ inf: Infinity, '-inf': -Infinity })[value] ?? Number(value);

const finite = array => [...array].filter(Number.isFinite);
const most = array => Math.max(1e-30, ...finite(array).map(Math.abs));

/**
 * @param {any} meta of the view
 * @param {any} columns
 */
export function rowModel(meta, columns) {
  const { frames, ordinary, tile_of: tileOf, total, o_true: oTrue, scores_true: scoresTrue } = meta,
    { scores, weights, o } = columns,
    d = oTrue.length,
    states = o.length / d,
    { decay, maxima, since, summed } = history(frames, Math.max(0, ...tileOf) + 1);
  const weight = (step, key) => weights[key] * (ordinary ? 1 : decay[step][tileOf[key]]);
  // What it should be, in float64: softmax itself for one max and sum; for an online softmax
  // e^(score - m), with the m as logged.
  const due = (frame, key) =>
    ordinary
      ? Math.exp(scoresTrue[key] - total.m) / total.l
      : Math.exp(scoresTrue[key] - num(frame.m));
  const ends = finite(frames.map(frame => num(frame.l ?? NaN)));
  const soFar = most(o.subarray(0, (states - 1) * d)),
    end = most([...o.subarray((states - 1) * d), ...oTrue]),
    kept = soFar / Math.abs(ends.at(-1) ?? 1);
  return {
    ...meta,
    ...columns,
    oTrue,
    n: scores.length,
    d,
    states,
    maxima,
    since,
    summed,
    weight,
    due,
    range: [Math.min(0, ...finite(scores)), Math.max(0, ...finite(scores))],
    weightTop: ordinary ? 1 / total.l : Math.max(1, ...finite(weights)),
    lTop: 1.04 * Math.max(1e-30, ...ends),
    // Of O's axis, before the end and at it. Where O is divided by l, so is the axis: a bar keeps
    // its height.
    spans: [soFar, !ordinary && kept >= end && kept < 4 * end ? kept : end],
    // A dim of O's row as it counts at the step.
    oAt: (step, dim) => o[frames[step].o * d + dim] * since[step].o,
    // l as it counts at the step.
    lAt: step => (frames[step].l === null ? null : num(frames[step].l) * since[step].l),
  };
}

// By step: how much each tile's weights have been scaled; the running max [tile, m] of each tile;
// the factor by which l and O count since they were logged; and how many weights are in l.
function history(frames, tiles) {
  const decay = [],
    maxima = [],
    since = [],
    summed = [];
  let now = new Float64Array(tiles).fill(1),
    stair = [],
    factor = { l: 1, o: 1 },
    inSum = 0;
  frames.forEach((frame, step) => {
    const before = frames[step - 1],
      m = num(frame.m ?? NaN);
    if (frame.rescale !== null && frame.tile > 0) {
      const scale = num(frame.rescale);
      now = now.map((value, tile) => (tile < frame.tile ? value * scale : value));
      factor = { l: factor.l * scale, o: factor.o * scale };
    }
    if (frame.group === 'sum' || frame.l !== (before?.l ?? null)) {
      factor = { ...factor, l: 1 };
      inSum = frame.weighed;
    }
    if (frame.group === 'output' || frame.o !== (before?.o ?? -1)) factor = { ...factor, o: 1 };
    if (frame.group === 'max' && Number.isFinite(m)) stair = [...stair, [frame.tile, m]];
    decay.push(now);
    maxima.push(stair);
    since.push(factor);
    summed.push(inSum);
  });
  return { decay, maxima, since, summed };
}
