// A score tile, each score with the lane that computes it, and the registers of the lanes of one row.
// A click chooses a row.
import { canvasView } from '../core/canvas.js';
import { PALETTE, blend, exact, figure, rgb, smallText, theme } from '../core/paint.js';
import { largest } from './layouts/largest.js';
import { lanesLayout } from './layouts/lanes.js';
import { drawShuffles } from './lane_shuffles.js';

const LANES = 32,
  SHOWN = 16, // lanes of a row with a line of their own
  ROUNDED = 4; // the most lanes whose shuffles are drawn round by round

const laneOf = thread => thread % LANES,
  warpOf = thread => Math.floor(thread / LANES),
  several = (word, count) => `${word}${count === 1 ? '' : 's'}`;

/** @param {number[]} numbers in order */
export function spans(numbers) {
  const parts = [];
  for (const n of numbers)
    if (parts.length && parts.at(-1)[1] === n - 1) parts.at(-1)[1] = n;
    else parts.push([n, n]);
  const said = parts.map(([a, b]) => (a === b ? `${a}` : `${a} to ${b}`));
  return said.length < 2 ? said.join('') : `${said.slice(0, -1).join(', ')} and ${said.at(-1)}`;
}

// The threads of a row in words: lanes 24 to 27 of warp 0.
export function threadsSaid(threads) {
  const warps = [...new Set(threads.map(warpOf))];
  if (warps.length > 1) return `${threads.length} lanes of ${several('warp', 2)} ${spans(warps.sort((a, b) => a - b))}`;
  return `${several('lane', threads.length)} ${spans(threads.map(laneOf))} of warp ${warps[0]}`;
}

export default function (host, { meta, columns }, context) {
  const { row0, rows, keys, tiles, shown, summed } = meta,
    { thread, scored, weighed, s, p, m, l } = columns;
  const stops = PALETTE.magnitude.map(rgb),
    paper = rgb(theme(host).background);
  let chosen = meta.row - row0,
    rounds = 0, // of shuffles that are drawn
    grid,
    list,
    em;

  const at = (row, key) => row * keys + key;
  const tileAt = step => tiles[shown[Math.min(step, shown.length - 1)]];
  const threadsOf = (row, [first, last]) => {
    const found = new Set();
    for (let key = first; key <= last; key++) if (thread[at(row, key)] >= 0) found.add(thread[at(row, key)]);
    return [...found].sort((a, b) => a - b);
  };
  const widest = tiles.map(([first, last]) => last - first + 1);
  const most = pick => Math.max(1, ...tiles.flatMap(tile => Array.from({ length: rows }, (_, row) => pick(row, tile))));
  const keysOf = (row, one, [first, last]) => {
    const found = [];
    for (let key = first; key <= last; key++) if (thread[at(row, key)] === one) found.push(key);
    return found;
  };
  const lanes = Math.min(
      SHOWN,
      most((row, tile) => threadsOf(row, tile).length),
    ),
    slots = Math.min(
      8,
      most((row, tile) => Math.max(1, ...threadsOf(row, tile).map(one => keysOf(row, one, tile).length))),
    );
  const allRounds = lanes <= ROUNDED && Number.isInteger(Math.log2(lanes)) ? Math.log2(lanes) : 0;
  const known = (steps, row, key, step) => steps[at(row, key)] >= 0 && steps[at(row, key)] <= step;
  const shade = share => {
    const place = (0.15 + 0.7 * share) * (stops.length - 1),
      low = Math.min(stops.length - 2, Math.floor(place));
    return blend(stops[low + 1], stops[low], place - low);
  };
  const hues = new Map(); // a colour in words -> in numbers: the browser takes long for that
  const hue = (row, one, tile) => {
    const mine = threadsOf(row, tile),
      colour = shade(mine.length > 1 ? mine.indexOf(one) / (mine.length - 1) : 0.5);
    if (!hues.has(colour)) hues.set(colour, rgb(colour));
    return hues.get(colour);
  };
  const bands = [0, 1, 2, 3].map(n => `${shade(n / 3)} ${25 * n}% ${25 * n + 25}%`);

  const layout = size => {
    const shape = { rows, cols: Math.max(...widest), lanes, slots },
      laid = rounds => ({
        ...largest(size, now => lanesLayout(now, { ...shape, rounds }), roomy),
        rounds,
      });
    const all = laid(allRounds),
      made = all.height > size.height ? laid(0) : all; // a small pane has no room for the shuffles
    ({ grid, list, em, rounds } = made);
    return made.height;
  };

  // Whether digits of that size have room in the cells.
  const roomy = ({ grid, list, em }) =>
    grid.unit > 1.4 * em && grid.high > 1.3 * em && list.slot > 3.7 * em && list.high > 2.7 * em;

  const marks = ({ step, paint }) => {
    const made = [],
      tile = tileAt(step),
      small = smallText(em);
    const word = (id, x, y, said, more = {}) =>
      made.push({
        id,
        kind: 'text',
        rect: [x, y, more.most ?? 0, more.size ?? em],
        text: said,
        ...more,
      });
    word('title', 1, em, 'Score tile: the number in a score is its lane', {
      bold: true,
      most: list.y > grid.y ? list.w : grid.x + grid.w,
    });
    word('keys', grid.x, grid.y - 0.5 * em, `keys ${tile[0]} to ${tile[1]}`, { size: small });
    drawTile(made, word, { step, tile, paint, small });
    drawRow(made, word, { step, tile, paint, small });
    return made;
  };
  const drawTile = (made, word, { step, tile, paint, small }) => {
    const every = Math.max(1, Math.ceil((1.15 * em) / grid.high));
    let before = -1;
    for (let row = 0; row < rows; row++) {
      const y = grid.y + row * grid.high,
        mine = threadsOf(row, tile),
        middle = y + grid.high / 2 + 0.35 * small;
      if (mine.length && warpOf(mine[0]) !== before) {
        before = warpOf(mine[0]);
        word(`warp ${before}`, 1, middle, `warp ${before}`, { size: small, most: 3.6 * em });
      }
      if (row % every === 0 || row === chosen)
        word(`row ${row}`, 3.8 * em, middle, `row ${row0 + row}`, {
          size: small,
          bold: row === chosen,
          most: 3.6 * em,
        });
      for (let key = tile[0]; key <= tile[1]; key++) {
        const one = thread[at(row, key)],
          there = one >= 0 && known(scored, row, key, step),
          x = grid.x + (key - tile[0]) * grid.unit;
        made.push({
          id: `cell ${row} ${key}`,
          kind: 'rect',
          rect: [x, y, grid.unit - 1, grid.high - 1],
          fill: there ? blend(hue(row, one, tile), paper, row === chosen ? 0.6 : 0.32) : paint.panel,
        });
        if (there && grid.unit > 1.3 * em && grid.high > 1.1 * small)
          word(`lane ${row} ${key}`, x + grid.unit / 2, middle, String(laneOf(one)), {
            size: small,
            align: 'center',
            bold: row === chosen,
          });
      }
    }
    made.push({
      id: 'chosen',
      kind: 'rect',
      rect: [grid.x - 1.5, grid.y + chosen * grid.high - 1.5, grid.unit * (tile[1] - tile[0] + 1) + 2, grid.high + 2],
      stroke: paint.text,
      width: 2.5,
    });
  };
  const drawRow = (made, word, { step, tile, paint, small }) => {
    const mine = threadsOf(chosen, tile),
      named = shown[Math.min(step, shown.length - 1)];
    word(
      'row',
      list.x,
      list.y - 1.7 * em,
      `Row ${row0 + chosen}: ${mine.length ? threadsSaid(mine) : 'no score in this tile'}`,
      {
        bold: true,
        most: list.w,
      },
    );
    const weights = mine.some(one => keysOf(chosen, one, tile).some(key => known(weighed, chosen, key, step))),
      present = mine.some(one => keysOf(chosen, one, tile).some(key => known(scored, chosen, key, step)));
    const holds = weights ? 'weights e^(score \u2212 m)' : 'scores';
    word('holds', list.x, list.y - 0.5 * em, present ? `Registers of each lane: its ${holds}` : 'No score yet', {
      size: small,
      most: list.w,
    });
    mine.slice(0, SHOWN).forEach((one, n) => {
      const y = list.y + n * list.high,
        colour = hue(chosen, one, tile);
      made.push({
        id: `name ${one}`,
        kind: 'rect',
        rect: [list.x, y, list.name - 4, list.high - 4],
        fill: blend(colour, paper, 0.6),
      });
      word(`name of ${one}`, list.x + 0.4 * em, y + list.high / 2 + 0.2 * em, `lane ${laneOf(one)}`, {
        most: list.name - 0.9 * em,
      });
      keysOf(chosen, one, tile)
        .slice(0, slots)
        .forEach((key, place) => drawSlot(made, word, { step, paint, small, key, place, y, colour, tile }));
    });
    if (mine.length > SHOWN)
      word('more', list.x, list.y + SHOWN * list.high + em, `and ${mine.length - SHOWN} more lanes`, { size: small });
    drawFoot(made, word, { step, paint, tile, named, mine, small });
  };
  // A score in its lane's register comes from its place in the tile.
  const drawSlot = (made, word, { step, paint, small, key, place, y, colour, tile }) => {
    const x = list.x + list.name + place * list.slot,
      there = known(scored, chosen, key, step),
      weight = known(weighed, chosen, key, step),
      value = weight ? p[at(chosen, key)] : s[at(chosen, key)];
    made.push({
      id: `slot ${key}`,
      kind: 'rect',
      rect: [x, y, list.slot - 4, list.high - 4],
      fill: there ? blend(colour, paper, 0.32) : paint.panel,
      stroke: paint.border,
    });
    const roomy = list.high > 2.6 * em,
      from = grid.x + (key - tile[0]) * grid.unit;
    if (roomy)
      word(`key ${key}`, x + 0.3 * em, y + 1.05 * small, `key ${key}`, {
        size: small,
        most: list.slot - 0.8 * em,
      });
    if (!there) return;
    const rect = [x + 0.3 * em, y + (roomy ? 2.2 * small : list.high / 2 + 0.2 * em), list.slot - 0.8 * em, em];
    made.push({
      id: `${weight ? 'weight' : 'score'} ${key}`,
      kind: 'text',
      rect,
      text: roomy ? figure(value, list.slot > 4.4 * em ? 3 : 2) : `${key}: ${figure(value, 2)}`,
      mono: true,
      enter: {
        alpha: 0,
        rect: weight ? rect : [from, grid.y + (chosen + 0.7) * grid.high, list.slot, em],
      },
    });
  };
  // The largest score of each lane comes from its register. Shuffles make one max of them.
  const drawLargest = (made, word, { paint, tile, mine }) => {
    const wide = rounds ? list.slot : Math.min(list.slot, list.w / mine.length),
      left = list.x + (rounds ? list.name : 0),
      y = list.foot + em;
    if (wide < 2.8 * em) return false;
    const lanes = mine.map((one, n) => {
      const held = keysOf(chosen, one, tile),
        score = key => s[at(chosen, key)],
        best = held.reduce((most, key) => (score(key) > score(most) ? key : most)),
        from = [list.x + list.name + held.indexOf(best) * list.slot, list.y + n * list.high];
      return {
        one,
        max: score(best),
        fill: blend(hue(chosen, one, tile), paper, 0.32),
        from: [...from, list.slot - 4, list.high - 4],
      };
    });
    drawShuffles(made, word, { lanes, rounds, left, wide, y, em, name: list.x, paint });
    return true;
  };
  const drawFoot = (made, word, { step, paint, tile, named, mine, small }) => {
    if (!mine.length || step < summed[named]) return;
    const of = columnsOf => columnsOf[named * rows + chosen],
      shared = mine.length > 1 && new Set(mine.map(warpOf)).size === 1;
    const how = shared ? 'The max of the tile, by shuffles' : 'The max and the sum of the row:',
      most = list.w,
      chips = shared && drawLargest(made, word, { paint, tile, mine }),
      under = list.foot + (chips ? 4.2 + 3.1 * rounds : 2.1) * em;
    word('how', list.x, list.foot + 0.6 * em, how, { most });
    if (Number.isFinite(of(m)) && Number.isFinite(of(l)))
      word('ends', list.x, under, `max m = ${figure(of(m), 4)}, sum l = ${figure(of(l), 4)}`, {
        bold: true,
        most,
        size: Math.max(em, small),
      });
  };

  const areas = ({ step }) => {
    const tile = tileAt(step),
      columns = tile[1] - tile[0] + 1,
      score = number => ({
        row: row0 + Math.floor(number / columns),
        key: tile[0] + (number % columns),
      });
    return [
      {
        rect: [grid.x, grid.y, columns * grid.unit, rows * grid.high],
        datum: {},
        grid: { columns, count: rows * columns, thing: score },
      },
      ...threadsOf(chosen, tile)
        .slice(0, SHOWN)
        .flatMap((one, n) => {
          const y = list.y + n * list.high,
            datum = { lane: laneOf(one), warp: warpOf(one) };
          return [
            { rect: [list.x, y, list.name + slots * list.slot, list.high], datum },
            ...keysOf(chosen, one, tile)
              .slice(0, slots)
              .map((register, place) => ({
                rect: [list.x + list.name + place * list.slot, y, list.slot, list.high],
                datum: { ...datum, register },
              })),
          ];
        }),
    ];
  };
  const describe = (what, step) => {
    if (what.key === undefined && what.register === undefined) {
      const one = what.warp * LANES + what.lane,
        held = keysOf(chosen, one, tileAt(step));
      return `Lane ${what.lane} of warp ${what.warp}: keys ${spans(held)} of row ${row0 + chosen}`;
    }
    const row = what.row === undefined ? chosen : what.row - row0,
      key = what.key ?? what.register,
      one = thread[at(row, key)];
    if (one < 0) return `Row ${row0 + row}, key ${key}: no score`;
    const who = `lane ${laneOf(one)} of warp ${warpOf(one)}`;
    if (!known(scored, row, key, step)) return `Row ${row0 + row}, key ${key}: no score yet, ${who}`;
    const weight = known(weighed, row, key, step) ? `, weight ${exact(p[at(row, key)])}` : '';
    return `Row ${row0 + row}, key ${key}: ${who}\nscore ${exact(s[at(row, key)])}${weight}`;
  };
  const told = step => {
    const tile = tileAt(step),
      mine = threadsOf(chosen, tile);
    return `Row ${row0 + chosen}: ${mine.length ? threadsSaid(mine) : 'no score in this tile'}.`;
  };
  const click = what => {
    if (what.row !== undefined) chosen = what.row - row0;
  };
  return canvasView(host, context, {
    title: 'Lanes of a row',
    layout,
    marks,
    areas,
    describe,
    label: step => `Lanes of a row. ${told(step)}`,
    click,
    said: told,
    legend: [
      [`background:linear-gradient(90deg,${bands.join()})`, 'a colour for each lane of a row'],
      ['border:2px solid currentColor', 'the chosen row; click another'],
    ],
  });
}
