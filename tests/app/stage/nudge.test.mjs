import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changeOf, lossOf } from '../../../app/stage/views/nudge_loss.js';

// One query, two keys, one dim: equal scores, so o is the mean of v.
const heads = {
  group: 1,
  n: 1,
  keys: 2,
  d: 1,
  scale: 1,
  causal: false,
  offset: 0,
  q: [0],
  k: [1, 3],
  v: [2, 6],
  do: [10],
};

test('the loss is sum(o * do)', () => {
  assert.equal(lossOf(heads), 40);
  assert.equal(lossOf({ ...heads, causal: true }), 20); // query 0 sees key 0 only
});

test('a change of v counts by the weight, and exactly so', () => {
  assert.equal(changeOf(heads, 'v', 1, 0.5), 2.5);
});

test('a change of q moves the weights: by dL/dq for a small one', () => {
  // dq = scale * sum_k ds_k k = (p0 (dp0 - delta)) k0 + (p1 (dp1 - delta)) k1 = 0.5 * (-20) * 1 + 0.5 * 20 * 3
  const eps = 1e-6;
  assert.ok(Math.abs(changeOf(heads, 'q', 0, eps) / eps - 20) < 1e-3);
});

test('all query heads of a group count, because they share k and v', () => {
  const two = { ...heads, group: 2, q: [0, 0], do: [10, 1] };
  assert.equal(lossOf(two), 44);
  assert.ok(Math.abs(changeOf(two, 'v', 0, 1) - 5.5) < 1e-12);
});

test('a query without a key adds nothing', () => {
  assert.equal(lossOf({ ...heads, causal: true, offset: -1 }), 0);
});
