// The matrices of attention as pictures, and what each step shows of them.
import { PALETTE, matrixImage, odd, rgb, signed, spanOf, theme } from '../core/paint.js';

export const meet = (a, b) => b && a[0] <= b[1] && b[0] <= a[1] && a[2] <= b[3] && b[2] <= a[3];
const inside = (a, b) => a[0] >= b[0] && a[1] <= b[1] && a[2] >= b[2] && a[3] <= b[3];

/**
 * @param {Element} host
 * @param {any} meta of the view
 * @param {any} columns
 */
export function matrixModel(host, meta, columns) {
  const { keys, d, row0, rows, frames, places, causal, offset } = meta,
    values = { Q: columns.q, K: columns.k, V: columns.v, S: columns.s, P: columns.p, O: columns.o },
    states = values.O.length / (rows * d),
    placeOf = tensor => places[tensor];
  // Why there is no value is never guessed from NaN, which is a value. y: a row of the tile.
  const logged = (y, x) => columns.s_logged[y * keys + x] > 0,
    masked = (y, x) => causal && x > row0 + y + offset && !logged(y, x),
    named = (state, y, x) => columns.o_since[y * d + x] <= state;
  const stored = frames.findIndex(f => f.touched.some(t => placeOf(t.tensor) === 'O' && t.kind === 'store'));
  const writtenAt = stored < 0 ? Infinity : stored; // from this step on O is final
  const last = frames.length - 1,
    frameAt = step => frames[Math.min(step, last)],
    // Which state of O is shown; -1: none yet.
    oNow = step => (step >= writtenAt ? states : frameAt(step).o),
    scored = frames.map((_, step) => frames.slice(0, step + 1).findLastIndex(f => f.scores));
  const model = {
    ...meta,
    values,
    oFinal: columns.o_final,
    states,
    writtenAt,
    frameAt,
    oNow,
    logged,
    masked,
    named,
    placeOf,
    scoredBy: step => scored[Math.min(step, last)],
    // The scores of each block, if several blocks share the keys of the query tile: [rect, block, step].
    makers: makersOf(frames),
    launches: new Set(frames.map(f => f.launch)).size,
    // Whether scores and weights are in global memory.
    storesS: frames.some(f => f.touched.some(t => 'SP'.includes(placeOf(t.tensor) ?? '-'))),
    // The largest tile of keys on the SM; 0 where nothing is held there.
    tile: Math.max(0, ...frames.flatMap(f => held(f, placeOf))),
  };
  return { ...model, pictures: picturesOf(host, model), ...oddOf(model, columns) };
}
function makersOf(frames) {
  const found = frames.flatMap(({ scores, block }, step) => (scores ? [[scores, block, step]] : []));
  return new Set(found.map(([, block]) => block)).size > 1 ? found : [];
}
const held = ({ resident }, placeOf) =>
  Object.entries(resident)
    .filter(([tensor]) => 'KV'.includes(placeOf(tensor) ?? '-'))
    .flatMap(([, { rects }]) => rects.map(([r0, r1]) => r1 - r0 + 1));

function picturesOf(host, model) {
  const { n, keys, d, rows, values, states, oFinal, logged, masked, named } = model,
    { text, background, border } = theme(host),
    colour = signed(rgb(background)),
    ink = rgb(text),
    grey = rgb(border),
    base = rgb(background),
    full = rgb(PALETTE.tensors.P);
  const picture = (width, height, at, of) => matrixImage(width, height, at, spanOf(of), colour, ink);
  const faded = share => base.map((v, i) => v + (full[i] - v) * share);
  return {
    Q: picture(d, n, (y, x) => values.Q[y * d + x], values.Q),
    K: picture(keys, d, (y, x) => values.K[x * d + y], values.K),
    V: picture(d, keys, (y, x) => values.V[y * d + x], values.V),
    S: picture(keys, rows, (y, x) => (logged(y, x) ? values.S[y * keys + x] : undefined), values.S),
    P: matrixImage(keys, rows, (y, x) => (logged(y, x) ? values.P[y * keys + x] : undefined), 1, faded, ink),
    O: [
      ...Array.from({ length: states }, (_, b) =>
        picture(d, rows, (y, x) => (named(b, y, x) ? values.O[(b * rows + y) * d + x] : undefined), values.O),
      ),
      picture(d, rows, (y, x) => oFinal[y * d + x], oFinal),
    ],
    masked: matrixImage(
      keys,
      rows,
      (y, x) => (masked(y, x) ? 0 : undefined),
      1,
      () => grey,
    ),
  };
}

// What of S and O is not finite after each step, in words.
function oddOf({ keys, d, row0, rows, frames, values, states, oFinal, logged, oNow }, columns) {
  const size = rows * d;
  const inO = Array.from({ length: states + 1 }, (_, b) =>
    odd(b < states ? values.O.subarray(b * size, (b + 1) * size).filter((_, i) => columns.o_since[i] <= b) : oFinal),
  );
  const computed = [],
    inS = frames.map(({ scores: rect }) => {
      for (let y = rect ? rect[0] - row0 : 0; rect && y <= rect[1] - row0; y++)
        for (let x = rect[2]; x <= rect[3]; x++) if (logged(y, x)) computed[y * keys + x] = values.S[y * keys + x];
      return rect ? odd(computed) : null;
    });
  for (let step = 0; step < inS.length; step++) inS[step] ??= inS[step - 1] ?? '';
  return {
    anyOdd: [...inS, ...inO].some(Boolean),
    oddAt(place, step) {
      if (place === 'S') return inS[Math.min(step, frames.length - 1)];
      return place === 'O' ? (inO[oNow(step)] ?? '') : '';
    },
  };
}

/**
 * What a block holds on its SM after a step, for the two products.
 * @param {any} model
 * @param {number} step
 * @returns {{tiles: {place: string, tensor: string, rect: number[], fresh: boolean,
 *   used: boolean}[],
 *   score: {rect: number[], weighed: boolean, old: boolean} | null}} tiles in shared memory, the ones
 *   in use last; fresh: since this step. score: the scores or weights of the tile in work.
 */
export function onChip(model, step) {
  const { placeOf, frames, frameAt } = model,
    frame = frameAt(step),
    before = step > 0 ? frames[step - 1] : null,
    tiles = [];
  for (const [tensor, { rects }] of Object.entries(frame.resident)) {
    const place = placeOf(tensor),
      same = before?.block === frame.block, // else another block loads anew
      was = (same && before.resident[tensor]?.rects) || [];
    if (!place || !'QKV'.includes(place)) continue;
    for (const rect of rects) {
      const fresh = !was.some(one => one.join() === rect.join()),
        used = frame.uses.some(u => u.tensor === tensor && meet(u.rect, rect));
      tiles.push({ place, tensor, rect, fresh, used });
    }
  }
  tiles.sort((a, b) => Number(a.used) - Number(b.used));
  return { tiles, score: scoresOn(model, step, frame) };
}
function scoresOn({ frames, placeOf, scoredBy, storesS }, step, frame) {
  if (frame.scores) return { rect: frame.scores, weighed: false, old: false };
  const held = Object.entries(frame.resident).find(([tensor]) => placeOf(tensor) === 'P'),
    made = scoredBy(step),
    same = made >= 0 && frames[made].tile === frame.tile;
  if (held) {
    const rect = held[1].rects.at(-1);
    return { rect, weighed: true, old: !storesS && !(same && inside(rect, frames[made].scores)) };
  }
  return !storesS && frame.tile >= 0 && same ? { rect: frames[made].scores, weighed: true, old: false } : null;
}
