// The bytes of a KV cache, and the bytes that query heads ask for. It has no DOM. A test compares it with runs.

/**
 * @param {{layers: number, heads: number, dim: number, item: number, tokens: number}} model
 * @param {number} kv KV heads
 * @returns {{held: number, asked: number, group: number, products: number}} held: bytes of K and V. asked: by all query
 *   heads for one new token. group: query heads of a KV head. products: of all query heads for one new token.
 */
export function bytesOf({ layers, heads, dim, item, tokens }, kv) {
  const one = 2 * layers * dim * item * tokens; // K and V of one head
  return { held: kv * one, asked: heads * one, group: heads / kv, products: 2 * layers * heads * dim * tokens };
}
