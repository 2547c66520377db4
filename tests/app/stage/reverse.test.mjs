// A row of weights shares 1, and a row of dS adds up to 0.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { moved, share } from '../../../app/stage/views/reverse_rule.js';

const sum = row => row.reduce((a, b) => a + b, 0),
  near = (a, b) => assert.ok(Math.abs(a - b) < 1e-12, `${a} is not ${b}`);

test('a score that grows takes weight from all others, each by the same share', () => {
  const before = [0.5, 0.3, 0.2],
    after = share(before, 1, 1);
  near(sum(after), 1);
  assert.ok(after[1] > before[1]);
  near(after[0] / after[2], before[0] / before[2]);
  near(after[1] / after[0], (before[1] / before[0]) * Math.E);
});

test('a dP that moves takes the average with it, and the row of dS still adds up to 0', () => {
  const P = [0.5, 0.3, 0.2],
    dP = [1, -2, 4],
    row = moved({ P, dP, delta: sum(P.map((p, n) => p * dP[n])) }, 2, -1);
  near(row.delta, 0.5 - 0.6 - 0.2);
  near(sum(row.dS), 0);
  near(row.dS[0], 0.5 * (1 - row.delta));
});
