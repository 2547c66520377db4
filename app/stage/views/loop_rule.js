// The rule of the picture `loop`: when the pieces of a key tile run on the copy engine, the tensor cores and the units of
// the softmax. It has no DOM. A test compares it with explainers/stories/pipeline/schedule.py and loop.py.
const TILES = 24; // modelled key tiles
export const SETTLED = 12; // from this tile on, a schedule repeats itself
const PLACES = 2; // in shared memory for tiles of K, and for tiles of V

/**
 * Times of the pieces in ns. copy: of K and V of a key tile. product, softmax: of one warpgroup.
 * @typedef {{copy: number, product: number, softmax: number, groups: number}} Times
 * @typedef {'after' | 'flight' | 'turns'} Schedule
 * @typedef {{unit: 'copy' | 'tensor' | 'softmax', part: string, tile: number, group: number, start: number, end: number}} Bar
 *   group: a warpgroup from 0, -1 for a copy
 */

/**
 * after: a tile is copied, then computed, by all warpgroups in step. Products at once share the tensor cores.
 * flight: a copy starts once its place is free. K is free after the scores, V after the output.
 * turns: also, the tensor cores take one product after the other, of the warpgroup that is ready first.
 * @param {Schedule} name
 * @param {Times} times
 * @returns {Bar[]}
 */
export function schedule(name, times) {
  return name === 'turns' ? inTurns(times) : inStep(times, name === 'flight');
}

/** The ns from one softmax of the first warpgroup to its next one, once the schedule repeats itself. @param {Bar[]} bars */
export function period(bars) {
  const starts = bars.filter(({ unit, group }) => unit === 'softmax' && group === 0).map(({ start }) => start);
  return (starts[TILES - 1] - starts[SETTLED]) / (TILES - 1 - SETTLED);
}

/** The bars once the schedule repeats itself, from the first product of a tile on: the time of its share. @param {Bar[]} bars */
export function settled(bars) {
  const begin = bars.find(({ part, tile, group }) => part === 'S' && tile === SETTLED && group === 0)?.start ?? 0;
  return bars.map(bar => ({ ...bar, start: bar.start - begin, end: bar.end - begin })).filter(({ end }) => end > 1e-6);
}

/** The share of the time in which the tensor cores work. @param {Bar[]} bars @param {Times} times */
export const share = (bars, { groups, product }) => Math.min(1, (2 * groups * product) / period(bars));

/** @param {Times} times @param {boolean} ahead whether copies run ahead */
function inStep({ copy, product, softmax, groups }, ahead) {
  const /** @type {Bar[]} */ bars = [],
    all = Array.from({ length: groups }, (_, group) => group),
    scored = [0, 0], // when the places of K and of V are free
    written = [0, 0];
  let engine = 0,
    now = 0;
  const copied = (/** @type {string} */ part, /** @type {number} */ tile, /** @type {number} */ from) => {
    const start = Math.max(engine, from);
    engine = start + copy / 2;
    bars.push({ unit: 'copy', part, tile, group: -1, start, end: engine });
    return engine;
  };
  const piece = (
    /** @type {Bar['unit']} */ unit,
    /** @type {string} */ part,
    /** @type {number} */ tile,
    /** @type {number} */ ns,
  ) => {
    for (const group of all) bars.push({ unit, part, tile, group, start: now, end: now + ns });
    now += ns;
  };
  for (let tile = 0; tile < TILES; tile++) {
    const place = tile % PLACES,
      keys = copied('K', tile, ahead ? scored[place] : now),
      values = copied('V', tile, ahead ? written[place] : now);
    now = Math.max(now, ahead ? keys : values);
    piece('tensor', 'S', tile, groups * product);
    scored[place] = now;
    piece('softmax', 'P', tile, softmax);
    now = Math.max(now, values);
    piece('tensor', 'O', tile, groups * product);
    written[place] = now;
  }
  return bars;
}

/** @param {Times} times */
function inTurns({ copy, product, softmax, groups }) {
  const /** @type {Bar[]} */ bars = [],
    /** @type {Record<string, number[]>} */ arrived = { K: [], V: [] },
    /** @type {Record<string, number[][]>} */ ends = { K: [], V: [] }, // of the products that read a tile
    ready = Array(groups).fill(0),
    done = Array(groups).fill(0); // products of each warpgroup
  let engine = 0,
    free = 0;
  // The copies whose place is free by now: K and V of a tile after the ones of the tile before.
  const copyAll = () => {
    for (;;) {
      const part = arrived.K.length > arrived.V.length ? 'V' : 'K',
        tile = arrived[part].length,
        before = tile < PLACES ? [] : (ends[part][tile - PLACES] ?? []);
      if (tile === TILES || (tile >= PLACES && before.length < groups)) return;
      const start = Math.max(engine, ...before);
      engine = start + copy / 2;
      arrived[part].push(engine);
      bars.push({ unit: 'copy', part, tile, group: -1, start, end: engine });
    }
  };
  /** When a warpgroup is ready for its next product, and its copy has arrived. */
  const waits = (/** @type {number} */ group) => {
    const tile = Math.floor(done[group] / 2);
    if (tile === TILES) return Infinity;
    return Math.max(ready[group], arrived[done[group] % 2 ? 'V' : 'K'][tile] ?? Infinity);
  };
  for (let left = 2 * TILES * groups; left > 0; left--) {
    copyAll();
    let next = 0;
    for (let group = 1; group < groups; group++) if (waits(group) < waits(next)) next = group; // the first to wait
    const [tile, output] = [Math.floor(done[next] / 2), done[next] % 2 === 1],
      start = Math.max(free, waits(next));
    free = start + product;
    bars.push({ unit: 'tensor', part: output ? 'O' : 'S', tile, group: next, start, end: free });
    (ends[output ? 'V' : 'K'][tile] ??= []).push(free);
    if (!output)
      bars.push({ unit: 'softmax', part: 'P', tile, group: next, start: free, end: (ready[next] = free + softmax) });
    else ready[next] = free;
    done[next]++;
  }
  return bars;
}

/**
 * The cycles of an SM for a tile of scores, at full speed: for both products, and for the exponentials.
 * @param {number[]} tile queries, keys, and the numbers of a key
 * @param {number[]} cycle multiply-adds and exponentials in a cycle
 */
export function cycles([rows, keys, dim], [products, exponentials]) {
  return { products: (2 * rows * keys * dim) / products, exponentials: (rows * keys) / exponentials };
}
