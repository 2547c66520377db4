// A row of weights shares 1, a row of dS adds up to 0, and the areas of the picture are the dS.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rowLayout } from '../../../app/stage/views/layouts/reverse_row.js';
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

test('the area between a bar and the level is the dS of its key, in any pane', () => {
  const P = [0.61, 0.2, 0.19],
    dP = [-3.75, -1.61, 6.05],
    row = { S: [1.26, 0.13, 0.11], P, dP, delta: sum(P.map((p, n) => p * dP[n])) },
    { dS } = moved(row, 0, dP[0]);
  for (const [width, height, em] of [
    [380, 330, 12],
    [800, 530, 13],
    [1900, 900, 20],
  ]) {
    const at = rowLayout({ width, height, em }, 'hand', row),
      area = at.widths(P).map(([, w], n) => w * (at.y(row.delta) - at.y(dP[n])));
    for (const n of [1, 2]) assert.ok(Math.abs(area[n] / area[0] - dS[n] / dS[0]) < 1e-9);
    const [x, w] = at.widths(P).at(-1),
      ends = dP.map(at.y);
    assert.ok(x + w <= width && Math.min(...ends) > at.chart.top && Math.max(...ends) < at.chart.bottom);
    near(at.at(at.y(2.5)), 2.5);
  }
});

test('a score that grows stays in its lane, above the strip of weights', () => {
  const row = { S: [1.26, -0.4, 0.11], P: [0.6, 0.1, 0.3], dP: [1, 2, 3], delta: 1.7 },
    at = rowLayout({ width: 800, height: 530, em: 13 }, 'share', row);
  for (const score of [...row.S, row.S[1] + 1])
    assert.ok(at.y(score) > at.chart.top && at.y(score) < at.strip[0] && at.strip[0] + at.strip[1] <= at.height);
});
