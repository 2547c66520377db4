import assert from 'node:assert/strict';
import { test } from 'node:test';
import { find, fit } from '../../../app/stage/shell/finding.js';

const entries = [
  { title: 'bank', said: 'One of the 32 columns of shared memory.' },
  { title: 'bank conflict', said: 'Lanes read different words of one bank.' },
  { title: 'key tile (BLOCK_KV)', said: 'keys per tile' },
  { title: 'shared memory', said: 'Memory on the SM.' },
];
const titles = text => find(entries, text).map(entry => entry.title);

test('a whole title comes before its beginning, and both before a sentence', () => {
  assert.deepEqual(titles('bank'), ['bank', 'bank conflict']);
  assert.deepEqual(titles('shared'), ['shared memory', 'bank']);
});
test('all words have to be found, and nothing is found without one', () => {
  assert.deepEqual(titles('tile block'), ['key tile (BLOCK_KV)']);
  assert.deepEqual(titles('tile conflict'), []);
  assert.deepEqual(titles('  '), []);
});
test('a word within a word counts less than its beginning', () => {
  assert.ok(fit(entries[2], ['block']) > fit(entries[2], ['lock']));
});
