// How the blocks of a grid are spread over the SMs. It has no DOM.

/**
 * @param {number} blocks
 * @param {number} sms
 * @returns {number[]} the blocks of each SM, spread evenly
 */
export const spread = (blocks, sms) =>
  Array.from({ length: sms }, (_, n) => Math.floor(blocks / sms) + (n < blocks % sms ? 1 : 0));
