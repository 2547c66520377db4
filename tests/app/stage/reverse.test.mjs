// The row and the column that make a number of a part.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cut } from '../../../app/stage/views/reverse_rule.js';

const part = (rows, columns) => ({ rows, columns }),
  PARTS = {
    ...{ Q: part('query', 'dim'), K: part('key', 'dim'), V: part('key', 'dim'), dO: part('query', 'dim') },
    ...{ S: part('query', 'key'), P: part('query', 'key'), dS: part('query', 'key'), dP: part('query', 'key') },
    ...{ dQ: part('query', 'dim'), dK: part('key', 'dim'), dV: part('key', 'dim'), LSE: part('query', '') },
  },
  of = (made, ...reads) => reads.map(read => cut(PARTS[made], PARTS[read], [3, 5]));

test('a product of two matrices takes a row and a column, as its formula says', () => {
  assert.deepEqual(of('dQ', 'dS', 'K'), [
    [3, null],
    [null, 5],
  ]); // dS K
  assert.deepEqual(of('S', 'Q', 'K'), [
    [3, null],
    [5, null],
  ]); // Q K^T
  assert.deepEqual(of('dV', 'P', 'dO'), [
    [null, 3],
    [null, 5],
  ]); // P^T dO
});

test('a number that is made from single numbers takes these', () => {
  assert.deepEqual(of('P', 'S', 'LSE'), [
    [3, 5],
    [3, 0],
  ]);
});
