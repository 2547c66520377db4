import assert from 'node:assert/strict';
import { test } from 'node:test';
import { markedLines, toggled } from '../../../app/stage/workbench/marks.js';

const TEXT = `/*
title = "T"
family = "dense"

[[launches]]
entry = "f"
*/
__global__ void f(float* o, int n) {
  float m = 0; // the max
  for (int first = 0; first < n; first += 32) {
    for (int c = 0; c < 32; ++c) m = fmaxf(m, o[c]);
    o[first] = m;
    __syncthreads();
    if (m == 1) return;
    m *= 2;
  }
  m *= 2;
}
`;
const lineOf = (text, part) => text.slice(0, text.lastIndexOf(part)).split('\n').length;
function pressed(text, part) {
  const { changes, said } = toggled(text, lineOf(text, part));
  if (!changes) return { text, said };
  const { from, to = from, insert = '' } = changes;
  return { text: text.slice(0, from) + insert + text.slice(to), said };
}
const table = text => /\[watch\]\n([^]*?)\*\//.exec(text)?.[1].trim().split('\n');

test('a press marks the value of a line, and another one takes the mark away', () => {
  const once = pressed(TEXT, 'float m = 0').text;
  assert.deepEqual(table(once), ['"float m = 0;" = "m"']);
  assert.deepEqual([...markedLines(once)], [lineOf(once, 'float m = 0;')]);
  assert.equal(once.split('*/')[1], TEXT.split('*/')[1]);
  assert.equal(pressed(once, 'float m = 0').text, TEXT);
});

test('a loop becomes steps, a loop inside has a name of its own, an element that of its array', () => {
  let text = pressed(TEXT, 'for (int first').text;
  text = pressed(text, 'for (int c').text;
  text = pressed(text, 'o[first] = m').text;
  assert.deepEqual(table(text), [
    '"for (int first = 0; first < n; first += 32) {" = "tile"',
    '"for (int c = 0; c < 32; ++c) m = fmaxf(m, o[c]);" = "c_pass"',
    '"o[first] = m;" = "o = o[first]"',
  ]);
  assert.equal(markedLines(text).size, 3);
  assert.equal(table(pressed(text, 'for (int c').text).length, 2);
});

test('a line without a value, without a text of its own or outside the code is refused with the reason', () => {
  assert.match(pressed(TEXT, '__syncthreads').said, /sets no value/);
  assert.match(pressed(TEXT, 'if (m == 1)').said, /sets no value/);
  assert.match(pressed(TEXT, 'm *= 2').said, /no text of its own/);
  assert.match(pressed(TEXT, 'entry').said, /Only a line of the code/);
  assert.match(toggled('__global__ void f() {}\n', 1).said, /opening comment/);
});
