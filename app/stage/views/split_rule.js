// How the blocks of a grid are spread over the SMs, and how fast they read. It has no DOM.

/**
 * @param {number} blocks
 * @param {number} sms
 * @returns {number[]} the blocks of each SM, spread evenly
 */
export const spread = (blocks, sms) =>
  Array.from({ length: sms }, (_, n) => Math.floor(blocks / sms) + (n < blocks % sms ? 1 : 0));

/**
 * What the query heads ask for, in TB/s, by V1 and by V2.
 * @param {{us: number[], asked: number}} timed
 */
export const rates = ({ us, asked }) => us.map(one => asked / one / 1e6);
