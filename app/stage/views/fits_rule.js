// The rule of the blocks on an SM. It has no DOM. A test compares it with kernels/build/occupancy.py.
const REGISTERS = 65536, // of an SM
  UNIT = 256, // a warp gets a multiple of so many registers
  PARTITIONS = 4,
  WARP = 32;

/** @typedef {{gpu: string, warps: number, blocks: number, shared_bytes: number, shared_bytes_per_block: number, reserved_bytes: number, unit: number}} Machine */
/** @typedef {{threads: number, registers: number, shared: number}} Block a block: its threads, the registers of a thread, its shared bytes */

const up = (/** @type {number} */ value, /** @type {number} */ unit) => Math.ceil(value / unit) * unit;

/** The blocks that each resource allows, in the order of the page. @param {Machine} machine @param {Block} block */
export function limits(machine, { threads, registers, shared }) {
  const warps = Math.ceil(threads / WARP),
    perWarp = up(registers * WARP, UNIT),
    byRegisters = Math.floor(REGISTERS / PARTITIONS / perWarp) * PARTITIONS,
    each = up(shared + machine.reserved_bytes, machine.unit);
  return {
    warps: Math.floor(machine.warps / warps),
    blocks: machine.blocks,
    registers: Math.floor(byRegisters / warps),
    'shared memory':
      shared > machine.shared_bytes_per_block ? 0 : each ? Math.floor(machine.shared_bytes / each) : machine.blocks,
  };
}

/** The blocks and warps of an SM. @param {Machine} machine @param {Block} block */
export function fits(machine, block) {
  const blocks = Math.min(...Object.values(limits(machine, block)));
  return { blocks, warps: blocks * Math.ceil(block.threads / WARP) };
}

/** The largest smaller value of one need with more blocks, or null. @param {Machine} machine @param {Block} block @param {'registers' | 'shared'} need */
export function cure(machine, block, need) {
  const now = fits(machine, block).blocks,
    step = need === 'shared' ? machine.unit : 1;
  for (let value = (Math.ceil(block[need] / step) - 1) * step; value >= (need === 'shared' ? 0 : 1); value -= step) {
    const { blocks } = fits(machine, { ...block, [need]: value });
    if (blocks > now) return { value, blocks };
  }
  return null;
}
