// The bars of the walk: one for each token, its score and then its weight; in V's colour once its
// value has been added.
import { COLOURS, short } from '../core/paint.js';

const STATE_COLOURS = [null, COLOURS.S, COLOURS.P, COLOURS.V]; // known: score, weight, value added

/** @param {any} now the step: {marks, walk, paint, state, frame, role, laid, step} */
export function addBars(now) {
  const { marks, walk, paint, state, frame } = now,
    { left, width, box, low } = now.laid,
    { bars: top, bar, each } = box,
    weighed = state.some(s => s >= 2),
    mixed = weighed && state.some(s => s === 1), // V2: scores of a later partition
    range = mixed || !weighed ? walk.scoreRange : [0, 1.05 * walk.weightTop],
    y = v => top + bar * (1 - (v - range[0]) / Math.max(range[1] - range[0], 1e-30));
  if (!low) addTitle(now, weighed, mixed);
  addTicks(now, range, y, `${mixed} ${weighed}`);
  const inset = each > 4 ? 0.5 : 0;
  for (let token = 0; token < walk.length; token++) {
    if (!state[token]) continue;
    const tip = y(barOf(now, token, mixed, range)),
      from = y(0),
      x = left + token * each + inset,
      wide = Math.max(each - 2 * inset, 0.6);
    marks.rect(`bar ${token}`, [x, Math.min(tip, from), wide, Math.max(Math.abs(from - tip), 0.8)], {
      fill: STATE_COLOURS[state[token]],
      enter: { rect: [x, from, wide, 0] },
      ease: frame.phase === 'softmax' ? 'both' : 'out',
      span: whenBar(now, token % walk.size),
    });
  }
  addTokens(now);
  marks.rect('bars edge', [left + 0.5, top + 0.5, width - left - 1, bar - 1], {
    stroke: paint.border,
  });
  if (frame.tokens)
    marks.rect('tokens', [left + frame.tokens[0] * each, top, (frame.tokens[1] - frame.tokens[0] + 1) * each, bar], {
      stroke: paint.text,
      width: 2,
      ease: 'both',
      span: [0.1, 0.6],
    });
}
function barOf(now, token, mixed, range) {
  const { scores, weights, weightTop } = now.walk;
  if (now.state[token] < 2) return scores[token];
  return mixed ? (range[1] * weights[token]) / (1.06 * weightTop) : weights[token];
}
// After what leads to it: the arrow, then the tokens.
function whenBar(now, slot) {
  const share = slot / now.walk.size;
  if (now.role === 'K') return [0.6 + 0.12 * share, 0.88 + 0.12 * share];
  return now.role === 'V' ? [0.6, 1] : [0, 1];
}
function addTitle(now, weighed, mixed) {
  const { marks, walk, step } = now,
    { em, left, width, box } = now.laid,
    last = walk.frames.slice(0, step + 1).findLast(f => f.m !== undefined),
    formula = 'e^(score \u2212 m)';
  const notes = !weighed
    ? ['a bar for each token, by its place in the sequence', 'a bar for each token']
    : walk.partitioned
      ? [`${formula} with the m of its own partition`, formula]
      : [`${formula}, m = ${short(last.m, 4)}, l = ${short(last.l, 4)}`, formula];
  marks.add('bars title', 'label', [left, box.bars - 0.6 * em, width - left, em], {
    name: mixed ? 'Scores and weights' : weighed ? 'Weights' : 'Scores',
    notes,
  });
}
// The marks of the axis leave before the bars go to another one, and return after: no bar is read
// off the wrong axis.
function addTicks(now, range, y, axis) {
  const { marks, paint, frame } = now,
    { em, left, width, box } = now.laid,
    when = { span: frame.phase === 'softmax' ? [0.7, 1] : [0, 0.3], out: [0, 0.3] };
  for (const tick of ticks(range, Math.max(3, Math.floor(box.bar / (2.2 * em))))) {
    const id = `${axis} ${tick}`;
    marks.text(`tick ${id}`, [left - 6, y(tick) + 0.35 * em], short(tick, 3), {
      align: 'right',
      ...when,
    });
    marks.add(`line ${id}`, 'line', [left - 4, y(tick), width - left + 4, 0], {
      stroke: paint.border,
      ...when,
    });
  }
}
function addTokens(now) {
  const { marks, walk, paint } = now,
    { em, left, width, box } = now.laid,
    { bars: top, bar, each } = box,
    skip = Math.ceil((3.2 * em) / (walk.size * each));
  for (let token = 0, n = 0; token < walk.length; token += walk.size, n++) {
    const x = left + token * each;
    marks.add(`token line ${token}`, 'line', [x, top, 0, bar + 4], { stroke: paint.border });
    if (n % skip === 0)
      marks.text(`token ${token}`, [x, top + bar + 1.2 * em], String(token), {
        align: x + 1.2 * em > width ? 'right' : 'center', // the last one stays inside
      });
  }
  marks.text('token', [left - 1.2 * em, top + bar + 1.2 * em], 'token', { align: 'right' });
}

// Round numbers in a range, about `count` of them.
/** @param {number[]} range
 * @param {number} count */
function ticks([low, high], count) {
  const rough = (high - low) / count,
    power = 10 ** Math.floor(Math.log10(rough)),
    step = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough);
  const found = [];
  for (let n = Math.ceil(low / step); n * step <= high + 1e-9 * step; n++) found.push(n * step);
  return found;
}
