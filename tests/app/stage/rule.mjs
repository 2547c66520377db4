// Applies the rule of the picture `drag` to the cases of stdin: [scores, v, tile, how] each.
import { onePass } from '../../../app/stage/views/drag_rule.js';

let given = '';
for await (const part of process.stdin) given += part;
const said = (name, value) => (typeof value === 'number' && !Number.isFinite(value) ? String(value) : value);
console.log(
  JSON.stringify(
    JSON.parse(given).map(([scores, v, tile, how]) => onePass(scores, v, tile, how)),
    said,
  ),
);
