import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rectsOf, thingAt, tipOf } from '../../../app/stage/core/areas.js';

const matrix = {
  rect: [10, 20, 40, 30],
  datum: { tensor: 'S' },
  grid: {
    ...{ columns: 4, count: 11 },
    thing: number => ({ tensor: 'S', row: Math.floor(number / 4), col: number % 4 }),
    tip: number => `cell ${number}`,
  },
};
const areas = [
  { rect: [0, 0, 100, 100], datum: { all: 1 }, tip: 'all' },
  matrix,
  { rect: [10, 20, 5, 5], datum: { pin: 1 }, tip: 'pin' },
];

test('the topmost thing at a point', () => {
  assert.deepEqual(thingAt(areas, 12, 22), { pin: 1 });
  assert.deepEqual(thingAt(areas, 49, 39.9), { tensor: 'S', row: 1, col: 3 });
  assert.deepEqual(thingAt(areas, 99, 1), { all: 1 });
  assert.equal(thingAt([matrix], 49, 49), null); // 11 of 12 cells are there
  assert.equal(thingAt([matrix], 50, 49), null);
});

test('a thing has the tip of its area or of its cell', () => {
  assert.equal(tipOf(areas, { tensor: 'S', row: 1, col: 3 }), 'cell 7');
  assert.equal(tipOf(areas, { all: 1 }), 'all');
  assert.equal(tipOf(areas, { other: 1 }), '');
});

test('neighbours of a grid are covered as one rectangle', () => {
  const rows = rectsOf(areas, [{ tensor: 'S', row: [0, 1], col: [1, 2] }]);
  assert.deepEqual(rows, [{ x: 20, y: 20, w: 20, h: 20 }]);
  assert.deepEqual(rectsOf(areas, [{ tensor: 'S', row: 2, col: 2 }, { pin: 1 }]), [
    { x: 30, y: 40, w: 10, h: 10 },
    { x: 10, y: 20, w: 5, h: 5 },
  ]);
});

test('a grid without things of its own counts its cells', () => {
  const { thing: _, ...grid } = matrix.grid;
  assert.deepEqual(thingAt([{ ...matrix, grid }], 21, 21), { tensor: 'S', number: 1 });
});
