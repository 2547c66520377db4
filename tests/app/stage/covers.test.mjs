import assert from 'node:assert/strict';
import { test } from 'node:test';
import { around, canvasCovers, hiding, matches } from '../../../app/stage/core/covers.js';

test('a word is hidden as a whole word', () => {
  const hide = hiding(['13', '4,096 bytes', 'page 7', 'E']);
  assert.equal(hide('Entry 1 holds 13, 131 and 1.13.'), 'Entry 1 holds ?, 131 and 1.13.');
  assert.equal(hide('13,000 or 4,096 bytes; Page 7.'), '13,000 or ?; ?.');
  assert.equal(hide('e is not E, and 13 ends.'), 'e is not ?, and ? ends.');
});

test('the longest word is hidden first, and none hides nothing', () => {
  assert.equal(hiding(['32', '32 lanes'])('32 lanes of 32'), '? of ?');
  assert.equal(hiding([])('32 lanes'), '32 lanes');
});

test('a sign is no letter', () => {
  assert.equal(hiding(['-0.5', 'e^(m - n)'])('x -0.5, e^(m - n)'), 'x ?, ?');
});

test('a pair is a range', () => {
  assert.ok(matches({ bank: 3, word: 1 }, { bank: [2, 4] }));
  assert.ok(!matches({ bank: 5 }, { bank: [2, 4] }));
  assert.ok(!matches({ bank: 5 }, { word: 1 }));
});

test('a box is around all patches', () => {
  const rects = [
    { x: 1, y: 2, w: 3, h: 4 },
    { x: 5, y: 0, w: 1, h: 1 },
  ];
  assert.deepEqual(around(rects), { x: 1, y: 0, w: 5, h: 6 });
  assert.equal(around([]), null);
});

test('a cover is larger than its thing, so that no frame around the thing is seen', () => {
  const filled = [],
    g = new Proxy(
      {},
      {
        get:
          (_, name) =>
          (...at) =>
            name === 'fillRect' && filled.push(at),
      },
    ),
    clock = { covers: [{ cell: 0 }], point: null };
  canvasCovers(clock, () => [{ x: 10, y: 20, w: 20, h: 20 }]).draw(g, {
    width: 50,
    height: 50,
    step: 0,
    em: 10,
    paint: {},
  });
  assert.deepEqual(filled, [[6, 16, 28, 28]]);
});
