// A row of weights shares 1, a row of dS adds up to 0, the areas of the picture are the dS, and dS is the slope of the loss.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MOST, rowLayout } from '../../../app/stage/views/layouts/reverse_row.js';
import { changeOf } from '../../../app/stage/views/nudge_loss.js';
import { raised } from '../../../app/stage/views/reverse_rule.js';

const sum = row => row.reduce((a, b) => a + b, 0),
  near = (a, b, by = 1e-12) => assert.ok(Math.abs(a - b) < by, `${a} is not ${b}`),
  mean = ({ P, dP }) => sum(P.map((p, n) => p * dP[n]));
const random = (
    seed => () =>
      (seed = (seed * 48271) % 2147483647) / 2147483647
  )(7),
  rowOf = (keys, known = keys) => {
    const scores = Array.from({ length: keys }, () => 4 * random() - 2),
      all = sum(scores.map(Math.exp)),
      P = scores.map(score => Math.exp(score) / all),
      dP = scores.map(() => 20 * random() - 10),
      few = { S: scores.slice(0, known), P: P.slice(0, known), dP: dP.slice(0, known), delta: mean({ P, dP }) };
    return { few, scores, dP };
  };

test('a score that rises takes weight from all others, each by the same share', () => {
  const { few } = rowOf(3),
    after = raised(few, 1, 1);
  near(sum(after.P), 1);
  assert.ok(after.P[1] > few.P[1]);
  near(after.P[0] / after.P[2], few.P[0] / few.P[2]);
  near(after.P[1] / after.P[0], (few.P[1] / few.P[0]) * Math.E);
  near(sum(after.dS), 0);
});

test('the loss under the hand is the one of two forward runs, for 200 rows, with keys out of sight too', () => {
  for (let n = 0; n < 200; n++) {
    const { few, scores, dP } = rowOf(6, n % 2 ? 6 : 4),
      key = n % 4,
      by = 2 * MOST * random() - MOST,
      // a query of 1 whose keys are the scores and whose values are the dP
      heads = { group: 1, n: 1, keys: 6, d: 1, scale: 1, causal: false, offset: 0, q: [1], k: scores, v: dP, do: [1] };
    near(raised(few, key, by).delta - few.delta, changeOf(heads, 'k', key, by), 1e-9);
  }
});

test('dS is how fast the loss moves with a score', () => {
  const { few } = rowOf(5),
    { dS } = raised(few, 0, 0);
  for (const key of [0, 1, 2, 3, 4]) near((raised(few, key, 1e-6).delta - few.delta) / 1e-6, dS[key], 1e-4);
});

const ROW = { S: [0.76, 0.36, 0.13], P: [0.45, 0.31, 0.24], dP: [8.76, -2.58, 2.34] },
  PANES = [
    [380, 330, 12],
    [800, 530, 13],
    [1900, 900, 20],
  ].map(([width, height, em]) => ({ width, height, em }));

test('the area between a bar and the level is the dS of its key, in any pane', () => {
  const row = { ...ROW, delta: mean(ROW) },
    { dS } = raised(row, 0, 0);
  for (const pane of PANES) {
    const at = rowLayout(pane, row),
      area = at.widths(row.P).map(([, w], n) => w * (at.grade.y(row.delta) - at.grade.y(row.dP[n])));
    for (const n of [1, 2]) assert.ok(Math.abs(area[n] / area[0] - dS[n] / dS[0]) < 1e-9);
    const [x, w] = at.widths(row.P).at(-1),
      ends = row.dP.map(at.grade.y),
      [top, high] = at.grades;
    assert.ok(x + w <= at.loss[0] && at.loss[0] + at.loss[2] <= pane.width);
    assert.ok(Math.min(...ends) > top && Math.max(...ends) <= top + high && top + high <= at.height);
    near(at.grade.at(at.grade.y(2.5)), 2.5, 1e-9);
  }
});

test('a score stays in its lane wherever a hand may move it', () => {
  for (const pane of PANES) {
    const at = rowLayout(pane, { ...ROW, delta: mean(ROW) }),
      [top, high] = at.scores;
    for (const score of ROW.S.flatMap(one => [one - MOST, one + MOST])) {
      assert.ok(at.score.y(score) > top && at.score.y(score) < top + high);
      near(at.score.at(at.score.y(score)), score, 1e-9);
    }
    for (const [x, w] of at.columns) assert.ok(x >= at.left && x + w <= at.end + 1e-9);
  }
});
