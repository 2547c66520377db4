// A kernel as WebAssembly (kernels/build/wasm.py): its launches on tensors of the page, the values that its probes log,
// and the right answer.

// Bytes of simt.h's and probe.cuh's structs with pointers of 4 bytes, and where their fields are.
const BUFFER = { size: 40, bytes: 8, name: 16, element: 24, row: 32 },
  LAUNCH = { size: 2096, stacks: 40, message: 48 },
  RECORD = { size: 16, words: 4, value: 0, site: 2, keys: 3 },
  ALIGNED = 128,
  RECORDS = 256; // of each thread, at first

/**
 * @typedef {{entry: string, grids: number[][], block: number[], shared: number,
 *   arguments: (string | string[])[]}} Launch an argument: a tensor, or [type, name] of a number
 * @typedef {{kernel: string, module: string, dim: number, scale: number, causal: boolean,
 *   tensors: Record<string, string[]>, launches: Launch[], values: Record<string, string[]>}} Meta
 *   tensors: name -> axes. values: site of a probe -> the name of its value, the names of its keys
 * @typedef {{tokens: number, causal: boolean}} Sizes
 * @typedef {Record<string, Float32Array>} Tensors
 * @typedef {Record<string, number[][]>} Values name -> row -> by the second key, or [value] without one
 */

const product = (/** @type {number[]} */ sizes) => sizes.reduce((all, one) => all * one, 1);

// The memory of a module, whose buffer changes as it grows.
class Heap {
  /** @type {number[]} */ held = [];

  constructor(/** @type {any} */ wasm) {
    this.wasm = wasm;
  }
  get view() {
    return new DataView(this.wasm.memory.buffer);
  }
  /** @param {number} at @param {number} count */
  words(at, count) {
    return new Uint32Array(this.wasm.memory.buffer, at, count);
  }
  /** @param {number} at @param {number} count */
  floats(at, count) {
    return new Float32Array(this.wasm.memory.buffer, at, count);
  }
  take(/** @type {number} */ bytes) {
    const at = this.wasm.malloc(bytes + ALIGNED);
    if (!at) throw new Error('The browser has no memory left for the kernel. Close other pages.');
    this.held.push(at);
    return Math.ceil(at / ALIGNED) * ALIGNED;
  }
  text(/** @type {string} */ name) {
    const bytes = [...new TextEncoder().encode(name), 0],
      at = this.take(bytes.length);
    new Uint8Array(this.wasm.memory.buffer, at, bytes.length).set(bytes);
    return at;
  }
  end() {
    for (const at of this.held.splice(0)) this.wasm.free(at);
  }
}

export class Kernel {
  records = RECORDS;

  /** @param {any} wasm the module's exports @param {Meta} meta */
  constructor(wasm, meta) {
    this.wasm = wasm;
    this.meta = meta;
  }
  /** @param {ArrayBuffer} bytes @param {Meta} meta */
  static async load(bytes, meta) {
    const imports = {
      env: { emscripten_notify_memory_growth() {} },
      wasi_snapshot_preview1: {
        proc_exit(/** @type {number} */ code) {
          throw new Error(`The kernel ended with the code ${code}.`);
        },
      },
    };
    const { exports } = /** @type {any} */ ((await WebAssembly.instantiate(bytes, imports)).instance);
    exports._initialize(); // the shim's own statics
    return new Kernel(exports, meta);
  }
  /**
   * Runs the launches in order. Throws the shim's message. After another error the module is lost.
   * @param {Sizes} sizes @param {Tensors} tensors
   * @returns {{tensors: Tensors, values: Values}}
   */
  run(sizes, tensors) {
    const heap = new Heap(this.wasm);
    const places = Object.fromEntries(
      Object.entries(tensors).map(([name, { byteLength }]) => [name, heap.take(byteLength)]),
    );
    try {
      for (const [name, values] of Object.entries(tensors)) heap.floats(places[name], values.length).set(values);
      /** @type {Values} */ const values = {};
      for (const launch of this.meta.launches) {
        const logged = () => this.launch(heap, launch, sizes, tensors, places);
        this.read(heap, logged() ?? logged(), values);
      }
      const after = Object.keys(tensors).map(name => [name, heap.floats(places[name], tensors[name].length).slice()]);
      return { tensors: Object.fromEntries(after), values };
    } finally {
      heap.end();
    }
  }
  /**
   * The place of the launch's records and of their counts, or null if a thread had too little room.
   * @param {Heap} heap @param {Launch} launch @param {Sizes} sizes @param {Tensors} tensors
   * @param {Record<string, number>} places
   */
  launch(heap, { entry, grids, block, shared, arguments: all }, { tokens, causal }, tensors, places) {
    const grid = grids[tokens - 1],
      blocks = product(grid),
      threads = blocks * product(block),
      room = this.records,
      [records, counts] = [heap.take(threads * room * RECORD.size), heap.take(4 * threads)],
      numbers = /** @type {Record<string, number>} */ ({ seq_len: tokens, causal: +causal, scale: this.meta.scale });
    const given = all.map(one => (typeof one === 'string' ? ['pointer', places[one]] : [one[0], numbers[one[1]]]));
    const probes = [records, counts, room, 0, blocks].map(one => ['pointer', one]),
      list = this.list(heap, [...given, ...probes]),
      names = all.filter(one => typeof one === 'string'),
      table = this.table(heap, names, tensors, places),
      request = heap.take(LAUNCH.size),
      fields = [...grid, ...block, shared, 0, names.length, table, 0, 0];
    heap.words(request, fields.length).set(fields);
    heap.words(counts, threads).fill(0); // a thread may leave before its first probe
    const failed = this.wasm[`launch_${entry}`](request, list);
    this.wasm.free(heap.view.getUint32(request + LAUNCH.stacks, true));
    if (failed) {
      const said = new Uint8Array(this.wasm.memory.buffer, request + LAUNCH.message, LAUNCH.size - LAUNCH.message);
      throw new Error(`${entry} was stopped at ${new TextDecoder().decode(said.subarray(0, said.indexOf(0)))}`);
    }
    this.records = Math.max(room, ...heap.words(counts, threads));
    return this.records > room ? null : { records, counts, threads };
  }
  /** @param {Heap} heap @param {string[]} names @param {Tensors} tensors @param {Record<string, number>} places */
  table(heap, names, tensors, places) {
    const texts = names.map(name => heap.text(name)),
      table = heap.take(BUFFER.size * names.length),
      { view } = heap;
    for (const [n, name] of names.entries()) {
      const at = table + BUFFER.size * n;
      view.setUint32(at, places[name], true);
      view.setBigUint64(at + BUFFER.bytes, BigInt(tensors[name].byteLength), true);
      view.setUint32(at + BUFFER.name, texts[n], true);
      view.setBigUint64(at + BUFFER.element, 4n, true);
      view.setBigUint64(at + BUFFER.row, BigInt(this.meta.dim), true);
    }
    return table;
  }
  /** @param {Heap} heap @param {any[][]} given [type, number] of each argument */
  list(heap, given) {
    const [values, list] = [heap.take(4 * given.length), heap.take(4 * given.length)],
      { view } = heap;
    for (const [n, [type, value]] of given.entries()) {
      if (type === 'float32') view.setFloat32(values + 4 * n, value, true);
      else view.setUint32(values + 4 * n, value, true);
      view.setUint32(list + 4 * n, values + 4 * n, true);
    }
    return list;
  }
  /**
   * @param {Heap} heap @param {{records: number, counts: number, threads: number} | null} logged
   * @param {Values} found
   */
  read(heap, logged, found) {
    if (!logged) throw new Error('The kernel logged other numbers of records in two equal runs.');
    const { records, counts, threads } = logged,
      words = heap.words(records, threads * this.records * RECORD.words),
      floats = heap.floats(records, words.length),
      known = new Map(
        Object.entries(this.meta.values).map(([site, [name, ...keys]]) => [Number(site), { name, keys }]),
      );
    for (const [thread, count] of heap.words(counts, threads).entries())
      for (let n = 0; n < count; ++n) {
        const at = (thread * this.records + n) * RECORD.words,
          value = known.get(words[at + RECORD.site]);
        if (!value) continue;
        const [first, second] = [words[at + RECORD.keys] & 0xffff, words[at + RECORD.keys] >>> 16],
          rows = (found[value.name] ??= []);
        (rows[first] ??= [])[value.keys.length > 1 ? second : 0] = floats[at + RECORD.value];
      }
  }
}

// Normal numbers from a seed: mulberry32, then Box and Muller's method.
/** @param {number} seed @returns {() => number} */
function normal(seed) {
  let state = seed >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (((t ^ (t >>> 14)) >>> 0) + 0.5) / 2 ** 32;
  };
  return () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
}

/**
 * Q, K and V, and the other tensors as NaN, so that a missing write shows.
 * @param {Meta} meta @param {number} tokens @param {{seed: number, spread: number}} random
 *   spread: the standard deviation of Q, and about that of the scores
 * @returns {Tensors}
 */
export function tensorsOf({ tensors, dim }, tokens, { seed, spread }) {
  const draw = normal(seed),
    sizes = /** @type {Record<string, number>} */ ({ batch: 1, head: 1, query: tokens, key: tokens, dim });
  const made = Object.entries(tensors).map(([name, axes]) => {
    const tensor = new Float32Array(product(axes.map(axis => sizes[axis])));
    return [name, 'qkv'.includes(name) ? tensor.map(() => draw() * (name === 'q' ? spread : 1)) : tensor.fill(NaN)];
  });
  return Object.fromEntries(made);
}

/**
 * softmax(scale * Q K^T) V in float64.
 * @param {Tensors} tensors @param {Meta} meta @param {Sizes} sizes
 */
export function truth({ q, k, v }, { dim, scale }, { tokens, causal }) {
  const o = new Float64Array(tokens * dim);
  for (let row = 0; row < tokens; ++row) {
    const scores = Array.from({ length: causal ? row + 1 : tokens }, (_, key) => {
      let sum = 0;
      for (let d = 0; d < dim; ++d) sum += q[row * dim + d] * k[key * dim + d];
      return scale * sum;
    });
    const largest = Math.max(...scores),
      weights = scores.map(score => Math.exp(score - largest)),
      total = weights.reduce((sum, weight) => sum + weight);
    for (let d = 0; d < dim; ++d)
      o[row * dim + d] = weights.reduce((sum, weight, key) => sum + weight * v[key * dim + d], 0) / total;
  }
  return o;
}
