import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bitText, differing, inBothOrders, running } from '../../../app/stage/views/sums_bits.js';

const ONE = 1,
  NEXT = 1 + 2 ** -23,
  SMALL = 2 ** -24;

test('the bits are those of a float32: sign, exponent, fraction', () => {
  assert.equal(bitText(1), '00111111100000000000000000000000');
  assert.equal(bitText(-2), '11000000000000000000000000000000');
  assert.equal(differing(ONE, NEXT), 1);
  assert.equal(differing(0, -0), 1);
});

test('a sum in float32 depends on the order of its terms', () => {
  assert.equal(running([1, SMALL, SMALL]).at(-1), 1); // each is less than half of the last bit
  assert.equal(running([SMALL, SMALL, 1]).at(-1), NEXT);
});

test('both orders are shown only if they give the bits of the two runs', () => {
  const terms = [1, SMALL, SMALL];
  assert.deepEqual(inBothOrders(terms, 1, NEXT), {
    terms,
    forward: [1, 1, 1],
    back: [NEXT, 2 ** -23, SMALL],
  });
  assert.equal(inBothOrders(terms, 1, 1).forward, null);
  assert.equal(inBothOrders([], 1, 1).forward, null);
});
