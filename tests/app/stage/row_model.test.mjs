import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rowModel } from '../../../app/stage/views/row_model.js';

// Two tiles of two keys, one dim: the second tile has the larger score, so the first is halved.
const meta = {
  ordinary: false,
  tile_of: [0, 0, 1, 1],
  scores_true: [0, 0, 1, 1],
  o_true: [2],
  total: { m: 1, l: 3 },
  frames: [
    { group: 'max', tile: 0, m: 0, l: null, o: -1, weighed: 0, rescale: null },
    { group: 'sum', tile: 0, m: 0, l: 2, o: -1, weighed: 2, rescale: null },
    { group: 'output', tile: 0, m: 0, l: 2, o: 0, weighed: 2, rescale: null },
    { group: 'max', tile: 1, m: 1, l: 2, o: 0, weighed: 2, rescale: null },
    { group: 'rescale', tile: 1, m: 1, l: 2, o: 0, weighed: 2, rescale: 0.5 },
    { group: 'weights', tile: 1, m: 1, l: 2, o: 0, weighed: 4, rescale: null },
    { group: 'sum', tile: 1, m: 1, l: 3, o: 0, weighed: 4, rescale: null },
    { group: 'output', tile: 1, m: 1, l: 3, o: 1, weighed: 4, rescale: null },
    { group: 'final', tile: -1, m: 1, l: 3, o: 2, weighed: 4, rescale: null },
  ],
};
const columns = { scores: [0, 0, 1, 1], weights: [1, 1, 1, 1], o: Float32Array.of(8, 6, 2) };
const model = rowModel(meta, columns);

test('from the rescale on, weights, l and O of the tiles before count less', () => {
  const at = step => [model.weight(step, 0), model.lAt(step), model.oAt(step, 0)];
  assert.deepEqual(at(3), [1, 2, 8]);
  assert.deepEqual(at(4), [0.5, 1, 4]);
  assert.deepEqual(at(5), [0.5, 1, 4]);
  assert.deepEqual(at(6), [0.5, 3, 4]); // l has been logged anew
  assert.deepEqual(at(7), [0.5, 3, 6]);
});

test('l is the sum of the weights that are in it', () => {
  for (const [step, frame] of meta.frames.entries()) {
    if (frame.l === null) continue;
    const keys = [...Array(model.summed[step]).keys()];
    assert.equal(keys.reduce((sum, key) => sum + model.weight(step, key), 0), model.lAt(step)); // prettier-ignore
  }
});

test('the running max is a stair of the tiles', () => {
  assert.deepEqual(model.maxima[2], [[0, 0]]);
  assert.deepEqual(model.maxima[3], [[0, 0], [1, 1]]); // prettier-ignore
});

test('where O is divided by l, its axis is: a bar keeps its height', () => {
  const [before, after] = model.spans;
  assert.equal(before, 8);
  assert.equal(model.oAt(7, 0) / before, model.oAt(8, 0) / after);
});

test('where no division has come, the axis follows the values', () => {
  const wrong = rowModel(meta, { ...columns, o: Float32Array.of(8, 6, 100) });
  assert.equal(wrong.spans[1], 100);
});
