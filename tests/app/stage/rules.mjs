// Applies a rule of a picture under a hand to the cases of stdin: {rule, cases: [arguments of each]}.
import { access, sharedLoad } from '../../../app/stage/views/buckets_rule.js';
import { cure, limits } from '../../../app/stage/views/fits_rule.js';
import { onePass } from '../../../app/stage/views/drag_rule.js';
import { period, schedule, share } from '../../../app/stage/views/loop_rule.js';
import { placeOf } from '../../../app/stage/views/slots_rule.js';
import { traffic } from '../../../app/stage/views/race_rule.js';
import { bytesOf } from '../../../app/stage/views/sharing_rule.js';
import { spread } from '../../../app/stage/views/split_rule.js';
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
const apply = { onePass, placeOf, bytesOf, spread, sharedLoad, access, traffic, trips, loop, limits, cure }[rule];
console.log(
  JSON.stringify(
    cases.map(values => apply(...values), said),
    said,
  ),
);
