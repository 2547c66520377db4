import assert from 'node:assert/strict';
import { test } from 'node:test';
import { scheduleLayout } from '../../../app/stage/views/layouts/schedule.js';

const PANES = [
  { width: 900, height: 600, em: 14 },
  { width: 400, height: 700, em: 13 },
  { width: 1200, height: 260, em: 14 },
];

test('schedule: panels and rows do not overlap, and a low pane scrolls', () => {
  const rows = Array.from({ length: 3 }, () => ['warpgroup 1', 'warpgroup 2', 'tensor cores']);
  for (const pane of PANES) {
    const { x, w, row, panels, axis, height } = scheduleLayout(pane, rows);
    assert.ok(x + w <= pane.width && row >= 1.1 * pane.em && axis < height);
    const tops = panels.flatMap(panel => panel.rows);
    for (const [n, top] of tops.slice(1).entries()) assert.ok(top - tops[n] >= row - 1e-9);
    for (const panel of panels) assert.ok(panel.rows[0] - panel.y >= 1.6 * pane.em);
  }
  assert.ok(scheduleLayout({ width: 700, height: 80, em: 13 }, rows).height > 80);
});
