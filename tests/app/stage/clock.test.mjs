import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Clock } from '../../../app/stage/core/clock.js';

const FRAMES = [0, 0, 1, 1].map((tile, n) => ({ tile, title: `step ${n}` }));

function started() {
  const clock = new Clock(),
    seen = [];
  clock.load(FRAMES);
  clock.addEventListener('step', ({ detail }) => seen.push([detail.step, detail.why]));
  return { clock, seen };
}

test('the clock knows its steps and where a tile begins', () => {
  const { clock } = started();
  assert.equal(clock.count, 4);
  assert.deepEqual(clock.titles, ['step 0', 'step 1', 'step 2', 'step 3']);
  assert.deepEqual(clock.outer, [0, 2]);
});

test('the clock counts from 0 where the first frame is before the first step', () => {
  const { clock } = started();
  assert.deepEqual([clock.number, clock.last], [1, 4]);
  clock.load([{ before: true }, {}, {}]);
  assert.deepEqual([clock.number, clock.last], [0, 2]);
});

test('a step stays within the frames', () => {
  const { clock, seen } = started();
  clock.set(9, 'user');
  clock.set(-3, 'user');
  clock.set('2', 'play');
  assert.deepEqual(seen, [[3, 'user'], [0, 'user'], [2, 'play']]); // prettier-ignore
});

test('Show me points at a thing of one step', () => {
  const { clock } = started();
  clock.cover({ point: { tensor: 'Q' } });
  clock.set(0, 'jump');
  assert.deepEqual(clock.point, { tensor: 'Q' });
  clock.set(1, 'user');
  assert.equal(clock.point, null);
});

test('only a jump reports a step that is shown already', () => {
  const { clock, seen } = started();
  clock.set(0, 'user');
  assert.deepEqual(seen, []);
  clock.set(0, 'jump');
  assert.deepEqual(seen, [[0, 'jump']]);
});

test('fewer frames move the step to the last one', () => {
  const { clock } = started();
  clock.set(3, 'user');
  clock.load(FRAMES.slice(0, 2));
  assert.equal(clock.step, 1);
});

test('a follower hears every step until it ends that', () => {
  const { clock } = started(),
    heard = [],
    end = clock.follow(step => heard.push(step));
  clock.set(1, 'user');
  end();
  clock.set(2, 'user');
  assert.deepEqual(heard, [1]);
});

test('two mounted stages have clocks of their own', () => {
  const [{ clock }, other] = [started(), started()];
  clock.set(3, 'user');
  assert.equal(other.clock.step, 0);
  assert.deepEqual(other.seen, []);
});

test('a view is found by its title or the beginning of it', () => {
  const { clock } = started();
  clock.views.push({ title: 'Scores of block 3', where: thing => thing });
  assert.equal(clock.where('Scores', 7), 7);
  assert.equal(clock.where('Weights', 7), null);
});
