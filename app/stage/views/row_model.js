// One row of the softmax at each step: the scales of its axes, and where each step's numbers are in
// the columns (explainers/stories/online_softmax/online_softmax.py, counted).

/** @param {any} value as encoding.py writes NaN and infinity */
export const num = value => ({ inf: Infinity, '-inf': -Infinity })[value] ?? Number(value);

const finite = array => [...array].filter(Number.isFinite);
const most = array => Math.max(1e-30, ...finite(array).map(Math.abs));

/**
 * @param {any} meta of the view
 * @param {any} columns
 */
export function rowModel(meta, columns) {
  const { frames, ordinary, o_true: oTrue, weight_top: weightTop } = meta,
    { scores, o, state, o_state: oState, o_now: oNow } = columns,
    n = scores.length,
    d = oTrue.length,
    states = o.length / d;
  const of = name => (step, key) => columns[name][state[step] * n + key];
  const ends = finite(frames.map(frame => num(frame.l ?? NaN)));
  const soFar = most(o.subarray(0, (states - 1) * d)),
    end = most([...o.subarray((states - 1) * d), ...oTrue]),
    kept = soFar / Math.abs(ends.at(-1) ?? 1);
  // By step: the running max [tile, m] of each tile.
  const maxima = [];
  for (const { group, tile, m } of frames) {
    const stair = maxima.at(-1) ?? [],
      risen = group === 'max' && Number.isFinite(num(m ?? NaN));
    maxima.push(risen ? [...stair, [tile, num(m)]] : stair);
  }
  return {
    ...meta,
    ...columns,
    oTrue,
    n,
    d,
    maxima,
    weight: of('weight'),
    due: of('due'),
    off: of('off'),
    range: [Math.min(0, ...finite(scores)), Math.max(0, ...finite(scores))],
    weightTop,
    lTop: 1.04 * Math.max(1e-30, ...ends),
    // Of O's axis, before the end and at it. Where O is divided by l, so is the axis: a bar keeps
    // its height.
    spans: [soFar, !ordinary && kept >= end && kept < 4 * end ? kept : end],
    oAt: (step, dim) => oNow[oState[step] * d + dim],
  };
}
