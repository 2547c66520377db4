import assert from 'node:assert/strict';
import { test } from 'node:test';
import { placePages } from '../../../app/stage/views/layouts/pages.js';
import { wayBetween } from '../../../app/stage/views/ways.js';

test('a way from page to page goes through the gaps', () => {
  const place = placePages(6, { top: 20, width: 200, height: 200, em: 14 });
  const [from, to] = [0, 5],
    way = wayBetween(place, from, to);
  assert.deepEqual(way[0], [place.at(from)[0] + place.w / 2, place.at(from)[1]]);
  assert.deepEqual(way.at(-1), [place.at(to)[0] + place.w / 2, place.at(to)[1]]);
  const within = ([x, y], page) => {
    const [left, top] = place.at(page);
    return x > left && x < left + place.w && y > top && y < top + place.h;
  };
  for (const point of way.slice(1, -1)) for (let page = 0; page < 6; page++) assert.ok(!within(point, page));
});
