// Under a hand, the drawn bars of a schedule rest exactly as much as its share says.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { period, schedule, settled, share } from '../../../app/stage/views/loop_rule.js';

test('over a period of the drawn bars, the tensor cores work for the share that is shown', () => {
  for (const softmax of [50, 349, 500, 584, 600, 690, 1200, 2000])
    for (const copy of [50, 800, 1129, 1260, 1840, 3000]) {
      const times = { copy, softmax, product: 292, groups: 2 },
        bars = schedule('turns', times),
        end = period(bars),
        drawn = settled(bars).filter(({ unit, start }) => unit === 'tensor' && start < end),
        busy = drawn.reduce((sum, bar) => sum + Math.min(end, bar.end) - Math.max(0, bar.start), 0);
      assert.ok(Math.abs(busy / end - share(bars, times)) < 0.005, `softmax ${softmax}, copy ${copy}: ${busy / end}`);
      if (softmax <= 584 && copy <= 1129) assert.ok(busy > end - 1, `a rest with softmax ${softmax}, copy ${copy}`);
    }
});
