import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Chosen } from '../../../app/stage/shell/chosen.js';

const tiling = { path: 'tiling', own: [], begin: { kernel: '03', seq_len: '64' } };
const banks = { path: 'banks', own: ['view'], begin: { kernel: '03', view: 'lab' } };
const sectors = { path: 'sectors', own: ['view'], begin: { view: 'attention' } };

test('a choice goes along to every story', () => {
  const chosen = new Chosen();
  chosen.change(tiling, 'seq_len', { seq_len: '64' }, { seq_len: '128' });
  assert.deepEqual(chosen.along(banks), [['seq_len', '128']]);
});

test('a choice that means something only in its story stays there', () => {
  const chosen = new Chosen();
  chosen.change(banks, 'view', { view: 'lab' }, { view: 'attention' });
  assert.deepEqual(chosen.along(sectors), []);
  assert.deepEqual(chosen.along(tiling), []);
  assert.deepEqual(chosen.along(banks), [['view', 'attention']]);
});

test('the newest choice comes last', () => {
  const chosen = new Chosen();
  chosen.change(tiling, 'kernel', {}, { kernel: '04' });
  chosen.change(tiling, 'seq_len', { kernel: '04' }, { kernel: '04', seq_len: '32' });
  chosen.change(tiling, 'kernel', { kernel: '04' }, { kernel: '05' });
  assert.deepEqual(chosen.along(banks), [['seq_len', '32'], ['kernel', '05']]); // prettier-ignore
});

test('a change counts for the choices before that it moved, and for no other', () => {
  const chosen = new Chosen(),
    before = { kernel: '03', seq_len: '64', head_dim: '64' };
  chosen.change(tiling, 'seq_len', before, { ...before, seq_len: '128' });
  chosen.change(tiling, 'kernel', { ...before, seq_len: '128' }, { kernel: '05', seq_len: '256', head_dim: '32' });
  assert.deepEqual(chosen.along(banks), [['seq_len', '256'], ['kernel', '05']]); // prettier-ignore
});

test('a preset counts for all that it moved', () => {
  const chosen = new Chosen();
  chosen.change(tiling, 'preset', { kernel: '03' }, { kernel: '03', seq_len: '512' });
  assert.deepEqual(chosen.along(banks), [['seq_len', '512']]);
});

test('of a link counts what differs from the defaults', () => {
  const chosen = new Chosen();
  chosen.arrive(tiling, { kernel: '03', seq_len: '128' });
  assert.deepEqual(chosen.along(banks), [['seq_len', '128']]);
  chosen.arrive(tiling, { kernel: '03', seq_len: '64' }); // chosen before: its default counts now
  assert.deepEqual(chosen.along(banks), [['seq_len', '64']]);
});
