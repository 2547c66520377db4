import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isRight, missed, told, worded } from '../../../app/stage/shell/answers.js';

const said = (question, guess) =>
  told(question, guess)
    .map(parts => parts.filter(Boolean).join(' '))
    .filter(Boolean)
    .join(' ');
const PAGES = {
  kind: 'options',
  options: ['Page 1', 'Page 13'],
  answer: 1,
  why: 'Entry 1 of the table holds page 13.',
  reasons: ['That is the logical page.', ''],
};
const BYTES = { kind: 'number', answer: 41152, unit: 'bytes', tolerance: 0, why: 'All of it.' };

test('a wrong option is told what is right, and its reason is at the option', () => {
  const why = 'Entry 1 of the table holds page 13.';
  assert.equal(said(PAGES, 1), `Right: page 13. ${why}`);
  for (const guess of [0, null]) assert.equal(said(PAGES, guess), `The answer: page 13. ${why}`);
});

test('a guess is held to the tolerance of its question', () => {
  const right = (guess, answer, tolerance) => isRight(guess, { ...BYTES, answer, tolerance });
  assert.ok(right(2.1, 2, 0.1) && right(2, 2, 0) && right(0.5, 0.5, 0));
  assert.ok(!right(2.3, 2, 0.1) && !right(3, 2, 0));
});

test('an amount has a size, with commas', () => {
  const colon = { ...BYTES, kind: 'options', unit: '', options: ['Once: one copy'], answer: 0 };
  assert.equal(said(colon, 0), 'Right. Once: one copy. All of it.');
  assert.equal(said(BYTES, 41152), 'Right: 41,152 bytes. All of it.');
  const answer = 'The answer: 41,152 bytes. All of it.';
  assert.equal(said(BYTES, 13717), `Not 13,717 bytes. That is 3 times too little. ${answer}`);
  assert.equal(said(BYTES, 41153), `Not 41,153 bytes. ${answer}`);
  assert.equal(said({ ...BYTES, unit: '' }, 1), 'Not 1. The answer: 41,152. All of it.');
  assert.deepEqual(missed(BYTES, 13717), ['Not 13,717 bytes.', 'That is 3 times too little.']);
});

test('one of a unit is singular', () => {
  assert.equal(worded({ kind: 'number', unit: 'lanes', answer: 4 }, 1), '1 lane');
});

test('a click is right in a range', () => {
  const click = { kind: 'click', answer: { bank: [2, 4] }, why: 'Bank 2 conflicts.' };
  assert.ok(isRight({ bank: 3, word: 1 }, click));
  assert.equal(said(click, { bank: 3 }), 'Right. Bank 2 conflicts.');
  assert.equal(said(click, { bank: 1, word: 7 }), 'Not bank 1, word 7. Bank 2 conflicts.');
  assert.equal(said(click, null), 'Bank 2 conflicts.');
});

test('a sentence begins with a small letter, a name does not', () => {
  const option = text => worded({ kind: 'options', options: [text] }, 0);
  assert.equal(option('They are multiplied by e^(m - n).'), 'they are multiplied by e^(m - n)');
  assert.equal(option('FlashAttention'), 'FlashAttention');
  assert.equal(option('A block'), 'a block');
  assert.equal(option('K and V'), 'K and V');
});
