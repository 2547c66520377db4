import assert from 'node:assert/strict';
import { register } from 'node:module';
import { test } from 'node:test';

// The server makes core/data.js. These tests need none of its constants.
const module = text => `data:text/javascript,${encodeURIComponent(text)}`,
  data = module('export const PALETTE = { tensors: {}, marks: {} };');
register(
  module(`export const resolve = (name, context, next) =>
    name.endsWith('/data.js') ? { shortCircuit: true, url: '${data}' } : next(name, context);`),
);
const { addsUp, amount, figure } = await import('../../../app/stage/core/paint.js');

const US = [
  [1e3, 'ms'],
  [1, 'us'],
];

test('a unit changes where the rounded number does, as in glossary.amount', () => {
  assert.equal(amount(999.4, US), '999 us');
  assert.equal(amount(999.6, US), '1 ms');
  assert.equal(amount(0.4, US), '0.4 us');
  assert.equal(amount(9999.6, US, 4), '10 ms');
  assert.equal(amount(1234567, US, 4), '1,235 ms');
});

test('a figure has no exponent below 1e15', () => {
  assert.equal(figure(9999.5, 4), '10,000');
  assert.equal(figure(82380200470.6, 4), '82,380,000,000');
  assert.equal(figure(8.238020047058534e28, 4), '8.238e+28');
});

test('the figures of a running sum add up', () => {
  assert.equal(addsUp(5.93449, 1, 7.00751), '5.934 + 1.074 = 7.008');
  assert.equal(addsUp(4.27, 0.9474, 9.29), '4.27 × 0.947 + 5.25 = 9.29');
});
