// Applies a rule of a picture under a hand to the cases of stdin: {rule, cases: [arguments of each]}.
import { access, sharedLoad } from '../../../app/stage/views/buckets_rule.js';
import { cure, limits } from '../../../app/stage/views/fits_rule.js';
import {
  bitsOf,
  fieldsOf,
  placeOf as chunkAt,
  readPlace,
  reads,
  stepOf,
} from '../../../app/stage/views/descriptor_rule.js';
import { onePass } from '../../../app/stage/views/drag_rule.js';
import { period, schedule, share } from '../../../app/stage/views/loop_rule.js';
import { placeOf } from '../../../app/stage/views/slots_rule.js';
import { held, traffic } from '../../../app/stage/views/race_rule.js';
import { bytesOf } from '../../../app/stage/views/sharing_rule.js';
import { asked, spread } from '../../../app/stage/views/split_rule.js';
import { trips } from '../../../app/stage/views/trips_rule.js';

let given = '';
for await (const part of process.stdin) given += part;
const said = (name, value) => (typeof value === 'number' && !Number.isFinite(value) ? String(value) : value);
const { rule, cases } = JSON.parse(given);
/** The bars of a schedule, its period and its share. */
const loop = (name, times) => {
  const bars = schedule(name, times);
  return { bars, period: period(bars), share: share(bars, times) };
};
/** The bits of a descriptor, and the address of each chunk that an instruction reads. */
const descriptor = (fields, turned, outers, units) => ({
  bits: bitsOf(fields),
  places: Array.from({ length: outers }, (_, outer) =>
    Array.from({ length: units }, (_, unit) => readPlace(fields, turned, outer, unit)),
  ),
});
/** A stored tile, the fields of the right descriptor of a step of the sum, and the step that these fields read. */
const operand = (tile, swizzle, step, outer) => {
  const fields = fieldsOf(tile, swizzle, step),
    found = reads(tile, swizzle, fields, outer);
  return {
    ...{ fields, bits: bitsOf(fields), step: stepOf(tile, found), right: found.filter(({ right }) => right).length },
    places: Array.from({ length: tile.rows }, (_, row) =>
      Array.from({ length: tile.units }, (_, unit) => chunkAt(tile, swizzle, row, unit)),
    ),
  };
};
const apply = {
  descriptor,
  operand,
  onePass,
  placeOf,
  bytesOf,
  spread,
  asked,
  sharedLoad,
  access,
  traffic,
  held,
  trips,
  loop,
  limits,
  cure,
}[rule];
console.log(
  JSON.stringify(
    cases.map(values => apply(...values), said),
    said,
  ),
);
