import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fragmentsLayout, numberSize } from '../../../app/stage/views/layouts/fragments.js';
import { cellOf, cellSize, gridLayout } from '../../../app/stage/views/layouts/grid.js';
import { largest } from '../../../app/stage/views/layouts/largest.js';
import { lanesLayout } from '../../../app/stage/views/layouts/lanes.js';
import { matricesLayout } from '../../../app/stage/views/layouts/matrices.js';
import { placePages, placeTable, wayBetween } from '../../../app/stage/views/layouts/pages.js';
import { threadsLayout } from '../../../app/stage/views/layouts/threads.js';
import { wrapped } from '../../../app/stage/core/wrapped.js';

const WIDE = { width: 900, height: 600, em: 14 },
  HIGH = { width: 400, height: 700, em: 13 },
  LOW = { width: 1200, height: 260, em: 14 },
  PANES = [WIDE, HIGH, LOW];

const corners = ({ x, y, w, h }) => [x, y, x + w, y + h];
function inside(box, width, height, name) {
  const [left, top, right, bottom] = corners(box);
  assert.ok(left >= 0 && top >= 0, `${name} begins in the pane`);
  assert.ok(right <= width + 1 && bottom <= height + 1, `${name} ends in the pane`);
  assert.ok(box.w > 0 && box.h > 0, `${name} has a size`);
}
function apart(a, b) {
  const [l, t, r, u] = corners(a),
    [left, top, right, under] = corners(b);
  return r <= left || right <= l || u <= top || under <= t;
}
const asBox = ([x, y, w, h]) => ({ x, y, w, h });

test('grid: cells and lanes do not overlap and stay in the pane', () => {
  for (const pane of PANES) {
    const { cells, lanes } = gridLayout(pane);
    inside(cells, pane.width, pane.height, 'cells');
    inside(lanes, pane.width, pane.height, 'lanes');
    assert.ok(apart(cells, lanes));
  }
});

test('grid: every block has its own cell in the cells', () => {
  const { cells } = gridLayout(WIDE),
    launch = { rows: 2, cols: 3, per_item: 2 },
    boxes = Array.from({ length: 12 }, (_, block) => cellOf(cells, launch, block, WIDE.em));
  for (const [n, box] of boxes.entries()) {
    inside(asBox(box), cells.x + cells.w, cells.y + cells.h, `block ${n}`);
    for (const other of boxes.slice(n + 1)) assert.ok(apart(asBox(box), asBox(other)));
  }
  assert.equal(cellSize(cells, { rows: 1, cols: 1 }, WIDE.em).y, cells.y); // no row has a name
});

test('matrices: every box is in the pane, apart from the others, and to scale', () => {
  for (const tile of [0, 16])
    for (const pane of PANES) {
      const shape = { n: 64, keys: 96, d: 32, rows: 16, tile },
        made = matricesLayout(pane, shape),
        { boxes, unit, held, heldUnit, chip, height } = made,
        all = Object.values(boxes).map(asBox);
      all.forEach((box, n) => {
        inside(box, pane.width, height, Object.keys(boxes)[n]);
        for (const other of all.slice(n + 1)) assert.ok(apart(box, other));
        if (tile) assert.ok(apart(box, asBox(chip)));
      });
      assert.deepEqual(boxes.S.slice(2), [96 * unit, 64 * unit]);
      assert.equal(boxes.K[3], 32 * unit); // K is drawn transposed
      assert.deepEqual([boxes.Q[1], boxes.K[0], boxes.V[0]], [boxes.S[1], boxes.S[0], boxes.O[0]]);
      if (!tile) continue;
      inside(asBox(chip), pane.width, height, 'the SM');
      assert.deepEqual(held.S.slice(2), [16 * heldUnit, 16 * heldUnit]);
    }
});

test('matrices: the SM stands beside global memory in a wide pane, and below it in a high one', () => {
  const shape = { n: 64, keys: 64, d: 32, rows: 16, tile: 16 },
    wide = matricesLayout(WIDE, shape),
    high = matricesLayout(HIGH, shape);
  assert.ok(wide.chip[0] > wide.boxes.O[0] + wide.boxes.O[2]);
  assert.ok(high.chip[1] > high.boxes.O[1] + high.boxes.O[3]);
});

test('pages: pages of a pool and entries of a table are apart, and in their room', () => {
  const place = placePages(10, { left: 5, top: 20, width: 500, height: 200, em: 14 }),
    cells = placeTable(30, { left: 0, top: 0, width: 300, em: 14 });
  for (const [count, one, right] of /** @type {const} */ ([
    [10, place, 506],
    [30, cells, 301],
  ])) {
    const boxes = Array.from({ length: count }, (_, n) => ({ x: one.at(n)[0], y: one.at(n)[1], w: one.w, h: one.h }));
    assert.ok(new Set(boxes.map(({ y }) => y)).size > 1); // they wrap
    for (const [n, box] of boxes.entries()) {
      assert.ok(box.x + box.w <= right && box.y + box.h <= one.bottom + 1e-9);
      assert.ok(boxes.slice(n + 1).every(other => apart(box, other)));
    }
  }
});

test('fragments: A is left of C, B above it, with the same rows and columns', () => {
  for (const pane of [WIDE, HIGH, LOW]) {
    const { A, B, C, height } = fragmentsLayout(pane, {
      tallest: 16,
      widest: 8,
    });
    for (const [name, box] of Object.entries({ A, B, C })) inside(box, pane.width, height, name);
    assert.ok(A.x + A.w < C.x && B.y + B.h < C.y);
    assert.deepEqual([A.y, A.h, B.x, B.w], [C.y, C.h, C.x, C.w]);
  }
});

test('fragments: beside the guide at 1280 pixels each lane has its number, and no caption is squeezed', () => {
  const { C, lines } = fragmentsLayout({ width: 385, height: 420, em: 13 }, { tallest: 16, widest: 8 });
  assert.ok(numberSize({ w: C.w / 8, h: C.h / 16 }, 13) >= 9);
  assert.equal(lines, 2);
  assert.equal(numberSize({ w: 5, h: 5 }, 13), 0);
});

test('fragments: in a low pane the picture keeps its height, and the pane scrolls', () => {
  const { A, height } = fragmentsLayout({ width: 730, height: 70, em: 13 }, { tallest: 16, widest: 8 });
  assert.ok(A.h >= 160 && A.y + A.h <= height);
});

test('fragments: a warpgroup has more room for its rows', () => {
  const height = tallest => fragmentsLayout(WIDE, { tallest, widest: 8 }).C.h;
  assert.ok(height(64) > height(16));
});

test('threads: the matrices are as large as either place allows', () => {
  const shape = {
    planes: ['Q', 'K', 'V'].map(name => ({ name, most: [16, 64] })),
    gridSize: 4,
    gridRows: 2,
    warps: 4,
  };
  for (const pane of PANES) {
    const { boxes, grid, strip } = threadsLayout(pane, shape);
    assert.deepEqual(
      boxes.map(box => box.name),
      ['Q', 'K', 'V'],
    );
    for (const { x, y, unit, name } of boxes)
      inside({ x, y, w: 64 * unit, h: 16 * unit }, pane.width, pane.height, name);
    assert.ok(strip.x + 32 * strip.w <= pane.width && grid.cell >= 1.5);
  }
  const { boxes, strip } = threadsLayout(HIGH, shape);
  assert.ok(boxes[0].y > strip.y + 4 * strip.h); // below grid and strip
  const tall = { ...shape, planes: [{ name: 'Q', most: [256, 16] }] },
    beside = threadsLayout(LOW, tall);
  assert.ok(beside.boxes[0].x > beside.grid.room);
});

test('threads: a run without planes has no boxes', () => {
  const shape = { planes: [], gridSize: 1, gridRows: 1, warps: 1 };
  assert.deepEqual(threadsLayout(WIDE, shape).boxes, []);
});

test('lanes: the tile and the registers of its row are apart, in the height that they ask for', () => {
  const shape = { rows: 16, cols: 16, lanes: 4, slots: 4 };
  for (const pane of PANES) {
    const { grid, list, height } = lanesLayout(pane, shape),
      registers = {
        x: list.x,
        y: list.y,
        w: list.name + shape.slots * list.slot,
        h: shape.lanes * list.high,
      };
    inside(grid, pane.width, height, 'tile');
    inside(registers, pane.width, height, 'registers');
    assert.ok(apart(grid, registers) && list.foot < height);
    assert.equal(grid.w, 16 * grid.unit);
  }
});

test('largest: text grows in a large pane, and keeps its size in a small one', () => {
  const layout = ({ em }) => ({ height: 30 * em }),
    sizeIn = height => largest({ width: 900, height, em: 10 }, layout, ({ em }) => em < 17).em;
  assert.deepEqual([sizeIn(200), sizeIn(400), sizeIn(900)], [10, 12, 16]);
});

test('wrapped: words fill each line, and the last line takes the rest', () => {
  const lines = wrapped('one two three four', 9, 2, text => text.length);
  assert.deepEqual(lines, ['one two', 'three four']);
});

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
