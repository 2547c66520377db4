import assert from 'node:assert/strict';
import { test } from 'node:test';
import { placePages } from '../../../app/stage/views/layouts/pages.js';
import { drawWay, wayBetween } from '../../../app/stage/views/ways.js';

// A canvas's context that keeps its state as a browser's does.
function context() {
  const states = [{ lineJoin: 'miter', lineWidth: 1, strokeStyle: '#000', fillStyle: '#000' }],
    strokes = [];
  const g = {
    save: () => states.push({ ...states.at(-1) }),
    restore: () => states.length > 1 && states.pop(),
    stroke: () => strokes.push({ ...states.at(-1) }),
  };
  for (const name of ['beginPath', 'moveTo', 'lineTo', 'fill']) g[name] = () => {};
  for (const name of Object.keys(states[0]))
    Object.defineProperty(g, name, {
      get: () => states.at(-1)[name],
      set: value => {
        states.at(-1)[name] = value;
      },
    });
  return { g, strokes };
}

test('a way has round corners, and what is drawn after it has not', () => {
  const { g, strokes } = context();
  drawWay(g, [[0, 0], [5, 0], [5, 9]], '#f00', 14); // prettier-ignore
  assert.equal(strokes[0].lineJoin, 'round');
  assert.deepEqual([g.lineJoin, g.lineWidth, g.strokeStyle], ['miter', 1, '#000']);
});

test('a way from page to page goes through the gaps', () => {
  const place = placePages(6, { top: 20, width: 200, height: 200, em: 14 });
  const [from, to] = [0, 5],
    way = wayBetween(place, from, to);
  assert.deepEqual(way[0], [place.at(from)[0] + place.w / 2, place.at(from)[1]]);
  assert.deepEqual(way.at(-1), [place.at(to)[0] + place.w / 2, place.at(to)[1]]);
  for (const [x, y] of way.slice(1, -1)) assert.equal(place.find(x, y - 1e-6), null);
});
