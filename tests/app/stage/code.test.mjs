import assert from 'node:assert/strict';
import { test } from 'node:test';
import { codeLine } from '../../../app/stage/core/moments.js';

test('code: it starts after the front matter', () => {
  assert.equal(codeLine(['/*', 'title = "x"', '*/', '#include "a.cuh"', 'int b;']), 4);
  assert.equal(codeLine(['#include "a.cuh"']), 1);
  assert.equal(codeLine(['/* one line */', 'int b;']), 1);
  assert.equal(codeLine(['/*', '*/']), 2);
  assert.equal(codeLine([]), 1);
});
