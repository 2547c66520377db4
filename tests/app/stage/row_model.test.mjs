import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rowModel } from '../../../app/stage/views/row_model.js';

const meta = {
  ordinary: false,
  o_true: [2],
  weight_top: 1,
  frames: [
    { group: 'max', tile: 0, m: 0, l: null },
    { group: 'sum', tile: 0, m: 0, l: 2 },
    { group: 'max', tile: 1, m: 1, l: 2 },
    { group: 'sum', tile: 1, m: 1, l: 3 },
    { group: 'final', tile: -1, m: 1, l: 3 },
  ],
};
const columns = {
  scores: [0, 1],
  o: Float32Array.of(8, 6, 2),
  state: [0, 0, 1, 1, 1],
  weight: [1, 1, 0.5, 1],
  o_state: [-1, -1, 0, 1, 2],
  o_now: [4, 6, 2],
};
const model = rowModel(meta, columns);

test('a step has the weights and the O of its state', () => {
  assert.deepEqual([model.weight(1, 0), model.weight(2, 0), model.weight(3, 1)], [1, 0.5, 1]);
  assert.deepEqual([2, 3, 4].map(step => model.oAt(step, 0)), [4, 6, 2]); // prettier-ignore
});

test('the running max is a stair of the tiles', () => {
  assert.deepEqual(model.maxima[1], [[0, 0]]);
  assert.deepEqual(model.maxima[2], [[0, 0], [1, 1]]); // prettier-ignore
});

test('where O is divided by l, its axis is: a bar keeps its height', () => {
  const [before, after] = model.spans;
  assert.equal(before, 8);
  assert.equal(model.oAt(3, 0) / before, model.oAt(4, 0) / after);
});

test('where no division has come, the axis follows the values', () => {
  const wrong = rowModel(meta, { ...columns, o: Float32Array.of(8, 6, 100) });
  assert.equal(wrong.spans[1], 100);
});
