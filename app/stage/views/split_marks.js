// The picture of one block against many, as marks. The bars have one axis: a token walked by a block is as wide in all.
import { Marks } from '../core/kinds.js';
import { blend, COLOURS, number, PALETTE, rgb, short } from '../core/paint.js';
import { spread } from './split_rule.js';

const MOST = 16; // blocks on an SM, as drawn

/** @typedef {block_table.Part} Part */

/**
 * @param {{width: number, height: number, em: number}} size of the pane
 * @param {{parts: Part[], tokens: number}} of the run
 */
export function splitLayout({ width: pane, height, em }, { parts, tokens }) {
  const narrow = pane < 46 * em,
    width = pane - (narrow ? 2 : 0.8 * em), // a gap before the Guide's card
    gap = 1.9 * em, // of a title
    bar = (narrow ? 2 : 2.4) * em,
    second = gap + bar + 2 * em + gap,
    clamp = (/** @type {number} */ free, /** @type {number} */ most) =>
      Math.max(1.5 * em, Math.min(most * em, free / parts.length)),
    race = { y: second, pitch: clamp(height - second - 0.4 * em, 5) },
    rows = { y: gap, pitch: clamp(height - gap - 9.5 * em, 4.2) },
    end = rows.y + parts.length * rows.pitch + 0.4 * em,
    longest = (Math.max(...parts.map(({ first, end: last }) => last - first)) * width) / tokens,
    // the columns of a part: its max, its output, its weight, its sum
    max = longest + (narrow ? 0.5 : 1.2) * em,
    output = max + 6.5 * em,
    weight = narrow ? max + 3.2 * em : output + 6.5 * em,
    sum = weight + (narrow ? 4 : 6.5) * em,
    unit = (width - sum - 3.5 * em) / Math.max(...parts.map(part => part.l)),
    half = Math.max(11.5 * em, (height - 0.4 * em) / 2);
  return {
    ...{ width, em, narrow, bar, gap, height, race, rows, columns: { max, output, weight, sum }, unit, half },
    merge: { y: end, h: Math.max(9 * em, Math.min(11 * em, height - end - 4)) },
    bottom: Math.max(race.y + parts.length * race.pitch + 4, end + 9 * em + 2, 2 * half),
  };
}

/** @typedef {ReturnType<typeof splitLayout>} Layout */

/**
 * @param {Layout} at
 * @param {object} now
 * @param {block_table.SplitMeta} now.meta
 * @param {string} now.phase whole, race, parts, merged or hand
 * @param {block_table.Timed | null} now.timed the recorded times in the hand
 * @param {number} now.longest µs of the longest bar
 * @param {Paint} paint
 */
export function splitMarks(at, { meta, phase, timed, longest }, paint) {
  const made = new Marks(at.em);
  if (phase === 'hand' && timed) {
    chips(made, at, meta, timed, longest, paint);
    return made.list;
  }
  if (phase === 'whole') {
    idle(made, at, meta, paint);
    return made.list;
  }
  if (phase === 'race') whole(made, at, meta, phase, paint);
  cut(made, at, meta, phase, paint);
  if (phase !== 'race') merge(made, at, meta, phase, paint);
  return made.list;
}

const GOES = [0, 0.06], // what leaves is gone before anything else moves
  COMES = [0.08, 0.2];

/** K, then V, of some tokens: where a block walks, and how far it is. */
/** @type {(made: Marks, id: string, rect: number[], span: number[], moves: string, paint: Paint, tip: string) =>
 *   void} */
function walk(made, id, [x, y, w, h], span, moves, paint, tip) {
  ['K', 'V'].forEach((cache, n) => {
    const rect = [x + (n * w) / 2, y, w / 2 - 1, h],
      middle = (span[0] + span[1]) / 2;
    made.rect(`${id} ${cache}`, rect, { fill: blend(rgb(COLOURS[cache]), rgb(paint.background), 0.2), out: GOES });
    made.rect(`${id} ${cache} walked ${moves}`, rect, {
      fill: COLOURS[cache],
      enter: moves ? { rect: [rect[0], y, 0, h] } : {},
      span: n ? [middle, span[1]] : [span[0], middle],
      ...{ ease: 'line', out: [0, 0.01], datum: { part: `${id} ${cache}` }, tip: `${tip}: ${cache}` },
    });
  });
}

/** The SMs of the GPU, a square each. busy: how many have a block. */
/** @type {(made: Marks, id: string, rect: number[], sms: {count: number, busy: number, columns: number}, fill: string,
 *   paint: Paint, span: number[]) => void} */
function squares(made, id, rect, { count, busy, columns }, fill, paint, span) {
  const fills = Array.from({ length: count }, (_, sm) => rgb(sm < busy ? fill : paint.panel));
  made.add(id, 'cells', rect, {
    ...{ columns, fills, border: paint.border, bordered: [`${rgb(paint.panel)}`], out: GOES, span },
    ...{ datum: { part: id }, tip: `${busy} of ${count} SMs have a block (modelled)` },
  });
}

/** V1 with one long context: few blocks, so most SMs idle. Below: its recorded times with few and with many blocks. */
/** @type {(made: Marks, at: Layout, meta: block_table.SplitMeta, paint: Paint) => void} */
function idle(made, at, { more, sms, heads }, paint) {
  const { em, narrow, width, height } = at,
    below = (more.length ? 11.5 : 4.5) * em,
    free = height - 1.7 * em - below,
    // the largest squares that have room
    columns = [12, 15, 17, 18, 19, 20, 21].find(many => Math.ceil(sms / many) * (width / many) <= free) ?? 22,
    lines = Math.ceil(sms / columns),
    cell = Math.max(1.3 * em, Math.min(width / columns, free / lines)),
    busy = Math.min(heads, sms),
    big = (narrow ? 1.15 : 1.7) * em;
  made.text(
    'idle is',
    [0, em],
    narrow ? `GPU: ${sms} SMs` : `The GPU has ${sms} SMs, its processors. Filled: SMs with work`,
    {
      ...{ bold: true, out: GOES, span: COMES },
    },
  );
  squares(
    made,
    'idle sms',
    [0, 1.6 * em, columns * cell, lines * cell],
    { count: sms, busy, columns },
    PALETTE.kernels[0],
    paint,
    COMES,
  );
  let y = 1.6 * em + lines * cell + 1.3 * big;
  made.text('idle has', [0, y], `${sms - busy} of ${sms} SMs idle`, {
    ...{ bold: true, size: big, fill: PALETTE.wrong, out: GOES, span: COMES },
  });
  y += 1.5 * em;
  made.text('idle why', [0, y], `V1: ${heads} blocks, one for each query head`, { out: GOES, span: COMES });
  if (!more.length) return;
  const [first, last] = [more[0], more[more.length - 1]],
    label = (narrow ? 7 : 9) * em,
    room = width - label - 6 * em,
    row = Math.max(1.9 * em, Math.min(3.2 * em, (height - y - 3 * em) / 2));
  y += 2.1 * em;
  made.text(
    'times are',
    [0, y],
    narrow
      ? 'Recorded times of V1'
      : `${last.contexts} requests take only ${short(last.us[0] / first.us[0], 2)} times as long as one. Recorded, ${number(first.tokens)} tokens each`,
    { bold: true, out: GOES, span: COMES },
  );
  [first, last].forEach(({ us: [us], blocks: [blocks] }, n) => {
    const top = y + 0.5 * em + n * row,
      line = top + (row - 0.4 * em) / 2 + 0.35 * em,
      wide = (room * us) / last.us[0];
    made.text(`time ${n} is`, [0, line], `${number(blocks)} blocks`, { out: GOES, span: COMES });
    made.rect(`time ${n}`, [label, top, wide, row - 0.4 * em], {
      ...{ fill: PALETTE.kernels[0], datum: { part: 'many', blocks }, out: GOES },
      ...{
        enter: { rect: [label, top, 0, row - 0.4 * em] },
        tip: `${number(blocks)} blocks: ${short(us, 4)} µs, recorded`,
      },
    });
    made.text(`time ${n} takes`, [label + wide + 0.6 * em, line], `${short(us, 3)} µs`, {
      ...{ bold: true, out: GOES, span: COMES },
    });
  });
}

/** @type {(made: Marks, at: Layout, meta: block_table.SplitMeta, phase: string, paint: Paint) => void} */
function whole(made, at, meta, phase, paint) {
  const { tokens } = meta,
    { em, narrow, width, gap, bar } = at;
  made.text(`V1 is ${phase}`, [0, em], `V1: one block walks all ${tokens} tokens`, {
    ...{ bold: true, out: GOES, span: COMES },
  });
  walk(made, 'V1', [0, gap, width, bar], [0, 1], phase, paint, `V1's block, tokens 0 to ${tokens - 1}`);
  ['keys K', 'values V'].forEach((cache, n) =>
    made.text(
      `V1 ${cache} ${phase}`,
      [(n * width) / 2 + 0.6 * em, gap + bar / 2 + 0.4 * em],
      narrow ? cache : `${n ? 'then all' : 'first all'} ${cache}`,
      {
        ...{ fill: '#fff', bold: true, size: (narrow ? 1 : 1.2) * em },
        ...{ span: [0.5 * n + 0.3, 0.5 * n + 0.45], out: [0, 0.01] },
      },
    ),
  );
}

/** V2's blocks: each walks its own tokens, and then has its own max, output and sum. */
/** @type {(made: Marks, at: Layout, meta: block_table.SplitMeta, phase: string, paint: Paint) => void} */
function cut(made, at, meta, phase, paint) {
  const { tokens, parts, size, sms, heads, long } = meta,
    { em, narrow, width, gap, columns } = at,
    races = phase === 'race',
    { y, pitch } = races ? at.race : at.rows,
    tall = pitch - Math.max(4, 0.16 * pitch),
    scale = width / tokens,
    own = parts[0].end - parts[0].first,
    done = own * scale,
    lines = parts.map((_, n) => y + n * pitch + tall / 2 + 0.35 * em);
  made.text(
    `V2 is ${races}`,
    [0, y - 0.6 * em],
    races ? `V2: ${parts.length} blocks at the same time` : `${narrow ? '' : 'V2: '}${parts.length} blocks`,
    { bold: true, out: GOES, span: COMES },
  );
  parts.forEach(({ first, end, ...part }, n) => {
    const rect = [0, y + n * pitch, (end - first) * scale, tall],
      tip = `V2's block ${n}, tokens ${first} to ${end - 1}`;
    walk(made, `V2 ${n}`, rect, [0, (end - first) / tokens], races ? phase : '', paint, tip);
    if (rect[2] > 2.4 * em)
      made.text(`block ${n} ${races}`, [0.4 * em, lines[n]], `${n}`, {
        ...{ fill: '#fff', bold: true, span: races ? [0.12, 0.2] : [0, 1], out: [0, 0.01] },
      });
    else
      made.text(`block ${n} ${races}`, [rect[2] + 0.4 * em, lines[n]], `${n}`, {
        ...{ bold: true, span: races ? [0.12, 0.2] : [0, 1], out: [0, 0.01] },
      });
    if (races)
      made.text(`tokens ${n}`, [columns.max, lines[n]], `tokens ${first} to ${end - 1}`, {
        out: GOES,
        span: [0.14, 0.24],
      });
    else
      made.text(`own ${n}`, [columns.max, lines[n]], short(part.m, 3), {
        ...{ datum: { part: 'own', partition: n }, out: GOES, span: [0.3, 0.6] },
      });
  });
  if (!races) return;
  const ends = [gap + at.bar, y - 1.8 * em, y, y + parts.length * pitch - 4]; // not over the title
  [0, 2].forEach(n =>
    made.add(`done ${n}`, 'line', [done + 2, ends[n], 0, ends[n + 1] - ends[n]], {
      ...{ stroke: PALETTE.wrong, width: 2, dash: [6, 4], span: [0.14, 0.18], out: GOES },
    }),
  );
  made.text(
    'done is',
    [done + 0.7 * em, gap + at.bar + 1.4 * em],
    narrow ? 'V2 has read all' : 'V2 has read everything. V1 reads on',
    {
      ...{ bold: true, fill: PALETTE.wrong, size: 1.1 * em, span: [0.16, 0.22], out: GOES },
    },
  );
  if (narrow) return;
  // the SMs that a whole request keeps busy, on a GPU
  const left = columns.max + 9.5 * em,
    comes = { out: GOES, span: [0.2, 0.3] },
    high = (parts.length * pitch - 8 * em) / 2,
    of = [Math.min(width - left - 2, (high * 22) / 6), high],
    each = Math.ceil(long / size),
    blocks = [heads, heads * each],
    says = [`${heads} blocks`, `${heads} × ${each} parts = ${number(heads * each)} blocks`];
  made.text('busy is', [left, y - 0.6 * em], `The GPU, ${number(long)} tokens, ${heads} query heads`, comes);
  says.forEach((text, n) => {
    const from = y + n * (high + 2.6 * em),
      busy = Math.min(blocks[n], sms),
      now = busy < sms ? `${sms - busy} SMs idle` : `all ${sms} SMs busy`;
    made.text(`V${n + 1} busy is`, [left, from + em], `V${n + 1}: ${text}, ${now}`, { bold: true, ...comes });
    squares(
      made,
      `V${n + 1} busy`,
      [left, from + 1.5 * em, of[0], of[1]],
      { count: sms, busy, columns: 22 },
      PALETTE.kernels[n],
      paint,
      [0.2, 0.3],
    );
  });
  if (size !== own)
    made.text(
      'size',
      [left, y + parts.length * pitch - 1.2 * em],
      `Left: parts of ${own} tokens. Right: parts of ${size}`,
      { out: GOES, span: [0.3, 0.4] },
    );
}

/** What the second kernel does with the parts: each sum counts by its weight, and the sums become one. */
/** @type {(made: Marks, at: Layout, meta: block_table.SplitMeta, phase: string, paint: Paint) => void} */
function merge(made, at, { parts, m, l, v1_l }, phase, paint) {
  const { em, narrow, width, rows, columns, unit } = at,
    merged = phase === 'merged',
    high = rows.pitch - Math.max(4, 0.16 * rows.pitch),
    title = rows.y - 0.6 * em,
    light = blend(rgb(COLOURS.P), rgb(paint.background), 0.3),
    most = Math.max(...parts.flatMap(({ output }) => output.map(Math.abs))), // of all numbers of the outputs
    box = at.merge,
    bar = { y: box.y + 2.4 * em, h: 2.4 * em },
    names = [
      ['max', narrow ? 'max' : 'own max m'],
      ...(narrow ? [] : [['output', 'own O']]),
      ...(merged ? [['weight', 'factor']] : []),
      ['sum', merged ? 'own sum × factor' : 'own sum l'],
    ];
  for (const [column, name] of names)
    made.text(`${column} is ${name}`, [columns[/** @type {'max'} */ (column)], title], name, {
      ...{ bold: true, out: GOES, span: COMES, fill: column === 'weight' ? PALETTE.wrong : paint.text },
    });
  made.rect('one', [1, box.y, width - 2, box.h], {
    ...{ stroke: merged ? paint.text : paint.border, width: merged ? 2 : 1, dash: merged ? undefined : [5, 4] },
    out: GOES,
  });
  const says = merged ? 'Second kernel: one sum' : 'Second kernel: waits for all blocks';
  made.text(`one ${phase}`, [0.8 * em, box.y + 1.6 * em], says, { bold: true, out: GOES, span: COMES });
  let left = 0.8 * em;
  parts.forEach((part, n) => {
    const y = rows.y + n * rows.pitch,
      line = y + high / 2 + 0.35 * em,
      own = part.l * part.weight,
      now = merged ? own : part.l,
      wide = ((width - 1.6 * em) * own) / l,
      turn = 0.03 * n,
      tip = `block ${n}: ${short(part.l, 3)} × ${short(part.weight, 3)} = ${short(own, 3)} of l`,
      thing = { datum: { part: 'weight', share: n }, tip };
    if (!narrow)
      part.output.forEach((value, dim) => {
        const pitch = (5 * em) / part.output.length,
          tall = (Math.abs(value) / most) * (high / 2) * (merged ? part.weight : 1),
          zero = y + high / 2;
        made.rect(
          `output ${n} ${dim}`,
          [columns.output + dim * pitch, value < 0 ? zero : zero - tall, pitch - 1, Math.max(1, tall)],
          {
            ...{ fill: COLOURS.O, out: GOES, ease: 'both' },
            ...{
              span: merged ? [0.1 + turn, 0.3 + turn] : [0.3, 0.6],
              tip: `block ${n}, dim ${dim}: ${short(value, 3)}, not divided by l yet`,
            },
          },
        );
      });
    if (merged) {
      made.text(`weight ${n}`, [columns.weight, line], `× ${short(part.weight, 3)}`, {
        ...{
          bold: true,
          fill: PALETTE.wrong,
          datum: { part: 'weight', partition: n },
          span: [turn, 0.1 + turn],
          out: GOES,
        },
      });
    }
    made.rect(`sum ${n} was`, [columns.sum, y, part.l * unit, high], { fill: light, out: GOES });
    made.rect(`sum ${n}`, [columns.sum, y, now * unit, high], {
      ...{ fill: COLOURS.P, out: GOES, ease: 'both', span: merged ? [0.1 + turn, 0.35 + turn] : [0.3, 0.8] },
      ...{ enter: { rect: [columns.sum, y, 0, high] }, ...thing },
    });
    const inside = merged && (part.l - own) * unit > 3.2 * em, // beside the part that counts
      after = columns.sum + part.l * unit + 0.5 * em;
    made.text(`sum ${n} is ${merged}`, [inside ? columns.sum + own * unit + 0.4 * em : after, line], short(now, 3), {
      ...{ bold: merged, out: GOES, span: merged ? [0.3 + turn, 0.4 + turn] : [0.6, 0.8] },
    });
    if (inside) made.text(`sum ${n} of`, [after, line], short(part.l, 3), { out: GOES, span: COMES });
    if (!merged) return;
    made.rect(`share ${n}`, [left, bar.y, wide - 1, bar.h], {
      ...{ fill: COLOURS.P, ease: 'both', span: [0.4 + turn, 0.7 + turn], out: GOES, ...thing },
      enter: { rect: [columns.sum, y, wide, high], alpha: 0 },
    });
    if (wide > 0.55 * em)
      made.text(`share ${n} is`, [left + wide / 2, bar.y + bar.h / 2 + 0.35 * em], `${n}`, {
        ...{ fill: '#fff', bold: true, align: 'center', span: [0.9, 1], out: GOES },
      });
    left += wide;
  });
  if (!merged) return;
  const same = short(v1_l, 4) === short(l, 4);
  const lines = [
    `l = ${short(l, 4)}, all parts under the largest m, ${short(m, 3)}${same ? '. V1 has the same l' : ''}`,
    'Factor: e^(own m − m). O = all outputs × their factors, added, then divided by l',
  ];
  (narrow
    ? [`l = ${short(l, 4)}${same ? ', as in V1' : ''}. m = ${short(m, 3)}`, 'O = sum of O × factor, / l']
    : lines
  ).forEach((text, n) =>
    made.text(`one is ${n}`, [0.8 * em, bar.y + bar.h + (1.7 + 1.7 * n) * em], text, {
      ...{ bold: !n, span: [0.9, 1], datum: { part: 'weight', line: n }, out: GOES },
    }),
  );
}

/** Recorded times, and the blocks of each SM. */
/** @type {(made: Marks, at: Layout, meta: block_table.SplitMeta, timed: block_table.Timed, longest: number, paint: Paint) => void} */
function chips(made, at, { sms, size }, { us, blocks, contexts }, longest, paint) {
  const { em, width, half, narrow } = at,
    [few, many] = blocks,
    slower = us.indexOf(Math.max(...us));
  ['V1', 'V2'].forEach((id, n) => {
    const y = n * half,
      each = Math.round(blocks[n] / sms),
      time = { y: y + 1.7 * em, h: 3 * em },
      wide = Math.max(2, ((width - 8 * em) * us[n]) / longest),
      stacks = [0, time.y + time.h + 2.3 * em, width, half - time.h - 4.8 * em];
    made.text(
      `${id} hand`,
      [0, y + 1.1 * em],
      n ? `V2: a block for each ${size} tokens, and a second kernel` : 'V1: a block for a whole context',
      {
        ...{ bold: true, out: GOES, span: COMES },
      },
    );
    made.rect(`${id} time`, [0, time.y, wide, time.h], {
      ...{ fill: PALETTE.kernels[n], ease: 'both', out: GOES, enter: { rect: [0, time.y, 0, time.h] } },
      ...{ datum: { part: 'time', kernel: id }, tip: `${id}: ${short(us[n], 4)} µs, recorded` },
    });
    made.text(`${id} takes`, [wide + 0.7 * em, time.y + 2 * em], `${short(us[n], 3)} µs`, {
      ...{ bold: true, size: 1.5 * em, fill: n === slower ? PALETTE.wrong : paint.text, ease: 'both', out: GOES },
    });
    const says = each ? `about ${each} for each` : 'most have none',
      of = `${contexts} context${contexts > 1 ? 's' : ''} × ${few / contexts} query heads${n ? ` × ${many / few} parts` : ''} = `;
    made.text(
      `${id} work`,
      [0, stacks[1] - 0.6 * em],
      `${narrow ? '' : of}${number(blocks[n])} blocks on ${sms} SMs: ${says}`,
      { out: GOES, span: COMES },
    );
    made.add(`${id} sms`, 'stacks', stacks, {
      ...{ counts: spread(blocks[n], sms), unit: stacks[3] / MOST, fill: PALETTE.kernels[n], empty: paint.panel },
      ...{
        stroke: paint.border,
        datum: { part: 'sms', kernel: id },
        tip: `${id}: ${number(blocks[n])} blocks on ${sms} SMs`,
        out: GOES,
      },
    });
  });
}

/** @type {import('../core/kinds.js').Kinds} */
export const SPLIT_KINDS = {
  // A column for each SM, with its blocks from the bottom up.
  stacks(g, { rect: [x, y, w, h], counts, unit, fill, empty, stroke }) {
    const pitch = w / counts.length,
      gap = pitch > 5 ? 1 : 0.5;
    /** @type {number[]} */ (counts).forEach((count, n) => {
      const left = x + n * pitch;
      g.fillStyle = empty;
      g.fillRect(left, y, pitch - gap, h);
      g.fillStyle = stroke;
      g.fillRect(left, y + h - 1, pitch - gap, 1);
      g.fillStyle = fill;
      for (let block = 0; block < count; block++) {
        const share = Math.min(1, count - block);
        g.fillRect(left, y + h - (block + share) * unit + 1, pitch - gap, share * unit - 1);
      }
    });
  },
};
