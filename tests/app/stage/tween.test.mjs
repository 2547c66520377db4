import assert from 'node:assert/strict';
import { test } from 'node:test';
import { firstPart } from '../../../app/stage/core/kinds.js';
import { Motion, at, channels, diff, resting } from '../../../app/stage/core/tween.js';
import { handTime } from './hand_time.mjs';

const box = (id, x, more = {}) => ({ id, kind: 'rect', rect: [x, 0, 10, 10], ...more });

test('a mark of both steps moves and recolours', () => {
  const tracks = diff([box('a', 0, { fill: '#000' })], [box('a', 100, { fill: 'rgb(200,0,0)' })]);
  const [half] = at(tracks, 0.5);
  assert.ok(half.rect[0] > 50 && half.rect[0] < 100); // it starts at once
  assert.deepEqual(channels(half.fill), [175, 0, 0]);
  assert.deepEqual(at(tracks, 1), [box('a', 100, { fill: 'rgb(200,0,0)' })]);
});

test('a mark enters from where it says, and fades without that', () => {
  const [far, faint] = diff([], [box('a', 50, { enter: { rect: [0, 0, 10, 10] } }), box('b', 0)]);
  assert.deepEqual([far.from.rect[0], far.moves], [0, ['rect']]);
  assert.equal(at([faint], 0).length, 0);
  assert.ok(at([faint], 0.5)[0].alpha > 0.5);
});

test('a mark that leaves is gone at its end, and keeps its place in the drawing order', () => {
  const tracks = diff([box('a', 0), box('gone', 0), box('b', 0)], [box('new', 0), box('a', 0), box('b', 0)]); // prettier-ignore
  assert.deepEqual(tracks.map(one => one.to.id), ['new', 'a', 'gone', 'b']); // prettier-ignore
  assert.deepEqual(at(tracks, 0.6).map(mark => mark.id), ['new', 'a', 'b']); // prettier-ignore
});

test('a span is the part of the time in which a mark moves', () => {
  const tracks = diff([box('a', 0)], [box('a', 10, { span: [0.5, 0.75], ease: 'line' })]);
  assert.deepEqual([0.5, 0.625, 0.75].map(share => at(tracks, share)[0].rect[0]), [0, 5, 10]); // prettier-ignore
});

test('what rises on its way ends where it says', () => {
  const tracks = diff([box('a', 0)], [box('a', 10, { lift: 8, ease: 'both' })]);
  assert.equal(at(tracks, 0.5)[0].rect[1], -8);
  assert.deepEqual(at(tracks, 1)[0].rect, [10, 0, 10, 10]);
});

test('a shape that changes by ratios does not swell', () => {
  const wide = { ...box('a', 0), rect: [0, 0, 100, 1], area: true, ease: 'line' };
  const [half] = at(diff([{ ...box('a', 0), rect: [0, 0, 1, 100] }], [wide]), 0.5);
  assert.ok(Math.abs(half.rect[2] * half.rect[3] - 100) < 1e-9);
});

test('two marks with one id are refused', () => {
  assert.throws(() => diff([], [box('a', 0), box('a', 1)]), /Two marks have the id a\./);
});

test('no picture at rest has a mark of the way', () => {
  assert.deepEqual(resting([box('a', 0), box('b', 0, { passing: true })]), [box('a', 0)]);
  assert.deepEqual(diff([box('b', 0, { passing: true })], []), []);
});

test('a line grows from its start', () => {
  const way = [[0, 0], [10, 0], [10, 10]]; // prettier-ignore
  assert.deepEqual(firstPart(way, 0.75), [[0, 0], [10, 0], [10, 5]]); // prettier-ignore
  assert.deepEqual(firstPart(way, 1), way);
});

// ---- the motion with its time ----
const A = [box('a', 0)],
  B = [box('a', 100)],
  C = [box('a', 200)];

function motion(more = {}) {
  const time = handTime(),
    painted = [];
  const made = new Motion({ paint: marks => painted.push(marks), time: () => time, ...more });
  made.show(A);
  return { made, time, painted, x: () => painted.at(-1)[0].rect[0] };
}

test('a step draws its first frame at once, and ends with its own marks', () => {
  const { made, time, painted, x } = motion();
  made.go(B, { ms: 200 });
  assert.equal(painted.length, 2);
  time.advance(100);
  assert.ok(x() > 0 && x() < 100 && made.running);
  time.advance(100);
  assert.equal(painted.at(-1)[0], B[0]); // no mixture at the end
  assert.ok(!made.running);
});

test('the next step cuts the motion short and starts from its end', () => {
  const { made, time, x } = motion();
  made.go(B, { ms: 300 });
  time.advance(150);
  made.go(C, { ms: 300 });
  assert.equal(x(), 100);
  time.advance(300);
  assert.deepEqual([x(), made.running], [200, false]);
});

test('two steps within an eighth of a second give no motion', () => {
  const { made, time, x } = motion();
  made.go(B);
  time.advance(120);
  made.go(C);
  assert.deepEqual([x(), made.running], [200, false]);
});

test('a step back plays the same way from its end, in 150 ms', () => {
  const { made, time, painted } = motion();
  const to = { ...B[0], enter: { rect: [40, 0, 10, 10] }, id: 'b' };
  made.go([...A, to], { ms: 300 });
  time.advance(300);
  made.go(A, { ms: 300, back: true });
  time.advance(75);
  assert.ok(painted.at(-1)[1].rect[0] > 40 && painted.at(-1)[1].rect[0] < 100);
  time.advance(75);
  assert.deepEqual([painted.at(-1), made.running], [A, false]);
});

test('who asks for less motion gets none, nor does a fast clock', () => {
  for (const more of [{ still: () => true }, { pace: () => 10 }]) {
    const { made, x } = motion(more);
    made.go(B);
    assert.deepEqual([x(), made.running], [100, false]);
  }
});

test('steps that play leave time between two motions', () => {
  const { made, time } = motion({ pace: () => 4 });
  made.go(B, { ms: 300 });
  time.advance(199);
  assert.ok(made.running);
  time.advance(1);
  assert.ok(!made.running);
});

test('other marks of the same step do not end the motion', () => {
  const { made, time, x } = motion();
  made.go(B, { ms: 200 });
  time.advance(100);
  made.change(C);
  assert.ok(made.running);
  time.advance(100);
  assert.equal(x(), 200);
  made.change(B);
  assert.equal(x(), 100);
});

test('to finish is to show the end', () => {
  const { made, time, x } = motion();
  made.go(B);
  made.finish();
  assert.deepEqual([x(), made.running], [100, false]);
  time.advance(500);
  assert.equal(x(), 100);
});
