import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  framesOf,
  ownClock,
  picturesOf,
  sameMoment,
  stepUpTo,
  stepWanted,
  valueAt,
} from '../../../app/stage/core/moments.js';

const frame = (tile, phase) => ({ tile, phase });
const own = { clock: true, frames: [frame(0, 'a')] };
const content = {
  frames: [frame(0, 'load'), frame(0, 'score'), frame(1, 'load')],
  views: [
    { id: 'one', title: 'One', meta: {} },
    { id: 'one', title: 'One', meta: {} },
    { id: 'two', title: 'Two', meta: own },
  ],
};

test('views of one id are one picture', () => {
  assert.deepEqual(picturesOf(content), [
    { id: 'one', title: 'One' },
    { id: 'two', title: 'Two' },
  ]);
});

test('a picture with a clock of its own has its own frames', () => {
  assert.equal(ownClock(content, 'one'), null);
  assert.equal(framesOf(content, 'one'), content.frames);
  assert.equal(ownClock(content, 'two'), own);
  assert.equal(framesOf(content, 'two'), own.frames);
});

test('a link counts steps from 1, and a step that is not there is reported', () => {
  assert.deepEqual(stepWanted('2', 3), { step: 1, missing: '' });
  assert.deepEqual(stepWanted('9', 3), { step: 2, missing: 'step is 9. Here it can be 1 to 3.' });
  assert.equal(stepWanted('0', 3).step, 0);
  assert.equal(stepWanted('x', 3).step, 0);
  assert.equal(stepWanted('1.5', 3).step, 0);
  assert.equal(stepWanted('2', 0).step, 0);
});

test('after a change the same phase of the same tile is shown', () => {
  const longer = [frame(0, 'load'), frame(0, 'wait'), frame(0, 'score'), frame(1, 'load')];
  assert.equal(sameMoment(content.frames, 1, longer), 2);
  assert.equal(sameMoment(content.frames, 2, longer), 3);
  assert.equal(sameMoment(longer, 1, content.frames), 1); // there is none: the same step
  assert.equal(sameMoment(longer, 3, [frame(5, 'x')]), 0);
});

test('the second of two equal frames stays the second', () => {
  const twice = [frame(0, 'a'), frame(0, 'a'), frame(0, 'b')];
  assert.equal(sameMoment(twice, 1, twice), 1);
});

test('a choice that is the step leads to the last step with at most its value', () => {
  const some = { ...content, step_values: [0, 4, 8] };
  assert.equal(valueAt(some, 1), 4);
  assert.equal(valueAt(content, 1), 1);
  assert.equal(stepUpTo(some, some.frames, 7), 1);
  assert.equal(stepUpTo(some, some.frames, -1), 0);
});
