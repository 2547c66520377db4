// A kernel as WebAssembly (kernels/build/wasm.py): its launches on tensors of the page, and the right answer.

// Bytes of simt.h's structs with pointers of 4 bytes, and where their fields are.
const BUFFER = { size: 40, bytes: 8, name: 16, element: 24, row: 32 },
  LAUNCH = { size: 2096, stacks: 40, message: 48 },
  ALIGNED = 128;

/**
 * @typedef {{entry: string, grids: number[][], block: number[], shared: number,
 *   arguments: (string | string[])[]}} Launch an argument: a tensor, or [type, name] of a number
 * @typedef {{kernel: string, module: string, dim: number, scale: number, causal: boolean,
 *   tensors: Record<string, string[]>, launches: Launch[]}} Meta tensors: name -> axes
 * @typedef {{tokens: number, causal: boolean}} Sizes
 * @typedef {Record<string, Float32Array>} Tensors
 */

/** @param {ArrayBuffer} bytes @returns {Promise<any>} the exports */
export async function load(bytes) {
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
  return exports;
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
    const tensor = new Float32Array(axes.reduce((size, axis) => size * sizes[axis], 1));
    return [name, 'qkv'.includes(name) ? tensor.map(() => draw() * (name === 'q' ? spread : 1)) : tensor.fill(NaN)];
  });
  return Object.fromEntries(made);
}

/**
 * Runs the launches in order and returns the tensors after them. Throws the shim's message.
 * @param {any} wasm from load @param {Meta} meta @param {Sizes} sizes @param {Tensors} tensors
 * @returns {Tensors}
 */
export function run(wasm, { launches, scale, dim }, { tokens, causal }, tensors) {
  /** @type {number[]} */ const held = [];
  const numbers = /** @type {Record<string, number>} */ ({ seq_len: tokens, causal: Number(causal), scale });
  const view = () => new DataView(wasm.memory.buffer); // the memory may have grown
  const take = (/** @type {number} */ bytes) => {
    const at = wasm.malloc(bytes + ALIGNED);
    if (!at) throw new Error('This browser has no memory left for the kernel. Close other pages.');
    held.push(at);
    return Math.ceil(at / ALIGNED) * ALIGNED;
  };
  const text = (/** @type {string} */ name) => {
    const at = take(name.length + 1);
    new Uint8Array(wasm.memory.buffer, at, name.length + 1).set([...new TextEncoder().encode(name), 0]);
    return at;
  };
  const places = Object.fromEntries(Object.entries(tensors).map(([name, { byteLength }]) => [name, take(byteLength)]));
  const inWasm = (/** @type {string} */ name) =>
    new Float32Array(wasm.memory.buffer, places[name], tensors[name].length);
  for (const name of Object.keys(tensors)) inWasm(name).set(tensors[name]);

  const tableOf = (/** @type {string[]} */ names) => {
    const table = take(BUFFER.size * names.length);
    for (const [n, name] of names.entries()) {
      const at = table + BUFFER.size * n,
        said = text(name),
        write = view();
      write.setUint32(at, places[name], true);
      write.setBigUint64(at + BUFFER.bytes, BigInt(tensors[name].byteLength), true);
      write.setUint32(at + BUFFER.name, said, true);
      write.setBigUint64(at + BUFFER.element, 4n, true);
      write.setBigUint64(at + BUFFER.row, BigInt(dim), true);
    }
    return table;
  };
  const argumentsOf = (/** @type {Launch['arguments']} */ all) => {
    const [values, list] = [take(8 * all.length), take(4 * all.length)],
      write = view();
    for (const [n, argument] of all.entries()) {
      const at = values + 8 * n;
      if (typeof argument === 'string') write.setUint32(at, places[argument], true);
      else if (argument[0] === 'float32') write.setFloat32(at, numbers[argument[1]], true);
      else write.setInt32(at, numbers[argument[1]], true);
      write.setUint32(list + 4 * n, at, true);
    }
    return list;
  };
  try {
    for (const { entry, grids, block, shared, arguments: all } of launches) {
      const names = all.filter(one => typeof one === 'string'),
        [table, list, request] = [tableOf(names), argumentsOf(all), take(LAUNCH.size)],
        fields = [...grids[tokens - 1], ...block, shared, 0, names.length, table, 0, 0];
      new Uint32Array(wasm.memory.buffer, request, fields.length).set(fields);
      const failed = wasm[`launch_${entry}`](request, list);
      wasm.free(view().getUint32(request + LAUNCH.stacks, true));
      if (!failed) continue;
      const said = new Uint8Array(wasm.memory.buffer, request + LAUNCH.message, LAUNCH.size - LAUNCH.message);
      throw new Error(`${entry} was stopped at ${new TextDecoder().decode(said.subarray(0, said.indexOf(0)))}`);
    }
    return Object.fromEntries(Object.keys(tensors).map(name => [name, inWasm(name).slice()]));
  } finally {
    for (const at of held) wasm.free(at);
  }
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
