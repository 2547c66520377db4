// The rule of a wgmma descriptor: where an operand of 16-bit numbers is in shared memory, and which 16 bytes (chunks)
// the tensor cores read for a descriptor. It has no DOM. A test compares it with the products of the CPU shim
// (kernels/device/simt/cuda/products.h), and its fields with kernels/device/hopper.cuh.
export const CHUNK = 16; // bytes: eight numbers
const EIGHT = 8; // rows of a group
const DEPTH = 2; // chunks of the sum in one instruction: 16 numbers
export const SWIZZLES = [0, 32, 64, 128]; // bytes of a row
const TYPES = [0, 128, 64, 32]; // layout type -> bytes of the swizzle
const FIELD = 0x3fff; // the 14 bits of an address or an offset

/**
 * A tile as stored. units: chunks of a row. turned: whether the product sums over its rows (MN-major).
 * @typedef {{rows: number, units: number, turned: boolean}} Tile
 * The fields of a descriptor: addresses and offsets in chunks, and the layout type.
 * @typedef {{start: number, leading: number, stride: number, type: number}} Fields
 * @typedef {{outer: number, unit: number, at: number, holds: {row: number, unit: number} | null, right: boolean}} Read
 *   outer, unit: the place in the operand, by row and chunk of the tile. at: bytes. holds: what is stored there.
 */

/** The address with the swizzle: bits 4 to 6 change by bits 7 to 9. @param {number} at @param {number} swizzle */
export const swizzled = (at, swizzle) => (swizzle ? at ^ (((at >> 7) & (swizzle / CHUNK - 1)) << 4) : at);

/** Chunks of a row of a panel. A panel has as many bytes of each row as the swizzle. */
const unitsOf = (/** @type {number} */ swizzle) => Math.max(1, swizzle / CHUNK);

/**
 * Where a chunk of the tile is, in bytes: panel by panel.
 * @type {(tile: Tile, swizzle: number, row: number, unit: number) => number}
 */
export function placeOf({ rows }, swizzle, row, unit) {
  const units = unitsOf(swizzle),
    panel = Math.floor(unit / units);
  return swizzled(CHUNK * (units * (panel * rows + row) + (unit % units)), swizzle);
}

/** Whether the tensor cores use the leading offset. @param {Tile} tile @param {number} swizzle */
export const leads = ({ turned, units }, swizzle) => (turned ? !swizzle || units > unitsOf(swizzle) : !swizzle);

/**
 * The fields for the chunks of an instruction, the first one or a later one of the sum.
 * @param {Tile} tile @param {number} swizzle @param {number} [step]
 * @returns {Fields}
 */
export function fieldsOf(tile, swizzle, step = 0) {
  const units = unitsOf(swizzle),
    panel = units * tile.rows,
    group = EIGHT * units,
    type = TYPES.indexOf(swizzle),
    start = tile.turned ? DEPTH * group * step : placeOf(tile, swizzle, 0, DEPTH * step) / CHUNK;
  if (!swizzle && tile.turned) return { start, leading: group, stride: panel, type };
  return { start, leading: leads(tile, swizzle) ? panel : 1, stride: group, type };
}

/**
 * The address that the tensor cores read.
 * @type {(fields: Fields, turned: boolean, outer: number, unit: number) => number}
 */
export function readPlace(fields, turned, outer, unit) {
  const [start, leading, stride] = [fields.start, fields.leading, fields.stride].map(field => CHUNK * (field & FIELD)),
    swizzle = TYPES[fields.type],
    units = unitsOf(swizzle),
    [group, row] = [Math.floor(outer / EIGHT), outer % EIGHT];
  if (!swizzle)
    return start + row * CHUNK + (turned ? unit * stride + group * leading : group * stride + unit * leading);
  const across = turned ? Math.floor(unit / units) * leading + (unit % units) * CHUNK : unit * CHUNK;
  return swizzled(start + across + row * swizzle + group * stride, swizzle);
}

/**
 * All chunks that one instruction reads, of the first `outer` rows of its part.
 * @param {Tile} tile @param {number} swizzle of the stored tile @param {Fields} fields @param {number} outer
 * @returns {Read[]}
 */
export function reads(tile, swizzle, fields, outer) {
  const held = new Map();
  for (let row = 0; row < tile.rows; row++)
    for (let unit = 0; unit < tile.units; unit++) held.set(placeOf(tile, swizzle, row, unit), { row, unit });
  return Array.from({ length: outer }, (_, row) =>
    Array.from({ length: tile.turned ? tile.units : DEPTH }, (_, unit) => {
      const at = readPlace(fields, tile.turned, row, unit),
        holds = held.get(at) ?? null;
      return { outer: row, unit, at, holds, right: holds?.row === row && holds.unit === unit };
    }),
  ).flat();
}

/**
 * The later instruction of the sum that these chunks are for, 0 for the first one, or -1.
 * @type {(tile: Tile, found: Read[]) => number}
 */
export function stepOf({ turned }, found) {
  const [{ holds }] = found;
  if (!holds) return -1;
  const step = turned ? holds.row / (DEPTH * EIGHT) : holds.unit / DEPTH,
    [down, across] = turned ? [DEPTH * EIGHT * step, 0] : [0, DEPTH * step];
  return Number.isInteger(step) &&
    found.every(one => one.holds?.row === one.outer + down && one.holds.unit === one.unit + across)
    ? step
    : -1;
}

/** The 64 bits, the highest first. @param {Fields} fields */
export function bitsOf({ start, leading, stride, type }) {
  const bits = (/** @type {number} */ value, /** @type {number} */ width) => value.toString(2).padStart(width, '0'),
    field = (/** @type {number} */ value) => bits(value & FIELD, 16);
  return bits(type, 2) + bits(0, 14) + field(stride) + field(leading) + field(start);
}
