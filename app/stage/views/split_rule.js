// How the blocks of a grid are spread over the SMs, and how the blocks of an SM share its pipe. It has no DOM.

/**
 * @param {number} blocks
 * @param {number} sms
 * @returns {number[]} the blocks of each SM, spread evenly
 */
export const spread = (blocks, sms) =>
  Array.from({ length: sms }, (_, n) => Math.floor(blocks / sms) + (n < blocks % sms ? 1 : 0));

/**
 * Little's law: bytes on their way = bytes a second x wait. A block has equal requests, one after the other. A full pipe
 * brings one request at a time, and the blocks take turns.
 * @param {number} blocks of each SM
 * @param {{bytes: number, cycles: number, ns: number}} wait bytes of a request, and its wait in an empty pipe
 * @param {number} sms
 * @param {number} best TB/s of a full pipe, of all SMs
 * @returns {{full: number, slot: number, period: number, rate: number, share: number}}
 *   full: bytes on their way that fill the pipe of an SM. slot: cycles in which it brings a request. period: cycles from
 *   a request of a block to its next. rate: TB/s of all SMs. share: of the pipe
 */
export function asked(blocks, { bytes, cycles, ns }, sms, best) {
  const full = (1000 * best * ns) / sms, // 1 TB/s is 1,000 bytes in a nanosecond
    slot = (cycles * bytes) / full,
    period = Math.max(cycles, blocks * slot),
    share = (blocks * slot) / period;
  return { full, slot, period, rate: share * best, share };
}
