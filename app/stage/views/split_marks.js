// The picture of one block against many, as marks. The bars have one axis: a token walked by a block is as wide in each.
import { Marks } from '../core/kinds.js';
import { blend, COLOURS, number, PALETTE, rgb, short } from '../core/paint.js';
import { rates, spread } from './split_rule.js';

const MOST = 16; // blocks on an SM, as drawn

/** @typedef {block_table.Part} Part */

/**
 * @param {{width: number, height: number, em: number}} size of the pane
 * @param {number} parts
 */
export function splitLayout({ width, height, em }, parts) {
  const narrow = width < 46 * em,
    gap = 1.9 * em, // of a title
    bar = 2 * em,
    v1 = { y: gap, bar },
    alone = { y: gap, bar: 1.6 * bar },
    times = gap + alone.bar + 2.2 * em, // of V1 with more contexts
    second = v1.y + bar + 1.6 * em + gap,
    pitch = Math.max(1.5 * em, Math.min(2.6 * em, (height - second - 0.4 * em) / parts)),
    v2 = { y: second, bar: pitch - 4 },
    half = Math.max(17 * em, (height - 0.4 * em) / 2);
  return {
    ...{ width, em, narrow, v1, alone, times, v2, pitch, half },
    row: Math.max(2.2 * em, Math.min(3.6 * em, (height - times - 7 * em) / 5)),
    bottom: Math.max(v2.y + parts * pitch + 4, 2 * half),
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
 * @param {number} now.most TB/s of the longest bar
 * @param {Paint} paint
 */
export function splitMarks(at, { meta, phase, timed, longest, most }, paint) {
  const made = new Marks(at.em);
  if (phase === 'hand' && timed) {
    chips(made, at, meta, timed, { longest, most }, paint);
    return made.list;
  }
  whole(made, at, meta, phase, paint);
  if (phase !== 'whole') cut(made, at, meta, phase, paint);
  return made.list;
}

/** K, then V, of some tokens: where a block walks, and how far it is. */
/** @type {(made: Marks, at: Layout, id: string, rect: number[], span: number[], phase: string, paint: Paint, tip: string) => void} */
function walk(made, at, id, [x, y, w, h], span, phase, paint, tip) {
  ['K', 'V'].forEach((cache, n) => {
    const rect = [x + (n * w) / 2, y, w / 2 - 1, h],
      moves = phase === 'whole' || phase === 'race',
      middle = (span[0] + span[1]) / 2;
    made.rect(`${id} ${cache}`, rect, { fill: blend(rgb(COLOURS[cache]), rgb(paint.background), 0.2) });
    made.rect(`${id} ${cache} walked ${moves ? phase : ''}`, rect, {
      fill: COLOURS[cache],
      enter: moves ? { rect: [rect[0], y, 0, h] } : {},
      span: n ? [middle, span[1]] : [span[0], middle],
      ...{ ease: 'line', out: [0, 0.01], datum: { part: `${id} ${cache}` }, tip: `${tip}: ${cache}` },
    });
  });
}

/** V1's recorded times with more and more blocks. */
/** @type {(made: Marks, at: Layout, meta: block_table.SplitMeta, paint: Paint) => void} */
function many(made, at, { more, sms }, paint) {
  const { em, narrow, width, times, row } = at;
  if (!more.length) return;
  const labels = (narrow ? 9 : 19) * em,
    room = width - labels - 6 * em,
    longest = Math.max(...more.map(({ us }) => us[0])),
    [first, last] = [more[0], more[more.length - 1]],
    size = narrow ? em : 1.7 * em;
  made.text(
    'many is',
    [0, times],
    narrow
      ? 'V1 with more blocks'
      : `V1's blocks on the ${sms} SMs, each over ${number(first.tokens)} tokens. Bars: recorded times`,
    {
      bold: true,
    },
  );
  more.forEach(({ us: [us], blocks: [blocks] }, n) => {
    const y = times + 0.9 * em + n * row,
      h = row - 0.7 * em,
      line = y + h / 2 + 0.35 * em,
      each = Math.round(blocks / sms),
      says = each ? `${each} for each SM` : 'most SMs have none';
    made.text(`many ${n} is`, [0, line], `${number(blocks)} blocks${narrow ? '' : `: ${says}`}`);
    made.rect(`many ${n}`, [labels, y, (room * us) / longest, h], {
      ...{ fill: PALETTE.kernels[0], datum: { part: 'many', blocks } },
      ...{ enter: { rect: [labels, y, 0, h] }, tip: `${number(blocks)} blocks: ${short(us, 4)} µs, recorded` },
    });
    made.text(`many ${n} takes`, [labels + (room * us) / longest + 0.6 * em, line], `${short(us, 3)} µs`, {
      bold: true,
    });
  });
  const says = [
    `${short(last.blocks[0] / first.blocks[0], 3)} times the blocks, only ${short(last.us[0] / first.us[0], 2)} times the time:`,
    'a block alone has few loads on their way, and waits.',
  ];
  says.forEach((text, n) =>
    made.text(`many says ${n}`, [0, times + 0.9 * em + more.length * row + (n + 1) * 1.3 * size], text, {
      ...{ size, bold: !n, fill: n ? paint.text : PALETTE.wrong },
    }),
  );
}

/** @type {(made: Marks, at: Layout, meta: block_table.SplitMeta, phase: string, paint: Paint) => void} */
function whole(made, at, meta, phase, paint) {
  const { tokens, head, name } = meta,
    { em, narrow, width } = at,
    place = phase === 'whole' ? at.alone : at.v1,
    size = phase === 'whole' && !narrow ? 1.3 * em : em,
    moves = phase === 'whole' || phase === 'race';
  const title = narrow
    ? `V1: one block, ${tokens} tokens of ${name}`
    : `V1: one block walks all ${tokens} tokens of ${name}, for query head ${head}`;
  made.text('V1 is', [0, em], title, { bold: true });
  walk(made, at, 'V1', [0, place.y, width, place.bar], [0, 1], phase, paint, `V1's block, tokens 0 to ${tokens - 1}`);
  ['keys K', 'values V'].forEach((cache, n) =>
    made.text(
      `V1 ${cache} ${moves ? phase : ''}`,
      [(n * width) / 2 + 0.6 * em, place.y + place.bar / 2 + 0.35 * size],
      narrow ? cache : `${n ? 'then the' : 'first the'} ${cache} of ${tokens} tokens`,
      { fill: '#fff', bold: true, size, span: moves ? [0.5 * n + 0.3, 0.5 * n + 0.5] : [0, 1], out: [0, 0.01] },
    ),
  );
  if (phase === 'whole') many(made, at, meta, paint);
}

/** @type {(made: Marks, at: Layout, meta: block_table.SplitMeta, phase: string, paint: Paint) => void} */
function cut(made, at, { tokens, parts, m, l }, phase, paint) {
  const { em, narrow, v2, pitch, width } = at,
    scale = width / tokens,
    longest = Math.max(...parts.map(({ first, end }) => end - first)),
    text = Math.max(longest * scale + 0.8 * em, narrow ? 6 * em : 15 * em),
    weights = text + (narrow ? 8 : 12) * em,
    box = { x: weights + (narrow ? 5 : 12) * em, y: v2.y, h: parts.length * pitch - 4 },
    knows = phase !== 'race',
    merged = phase === 'merged',
    title = v2.y - 0.5 * em,
    lines = parts.map((_, n) => v2.y + n * pitch + v2.bar / 2 + 0.35 * em);
  made.text(
    'V2 is',
    [0, title],
    narrow ? `V2: ${parts.length} blocks` : `V2: ${parts.length} blocks at the same time`,
    {
      bold: true,
    },
  );
  parts.forEach(({ first, end, ...part }, n) => {
    const rect = [0, v2.y + n * pitch, (end - first) * scale, v2.bar];
    const tip = `V2's block ${n}, tokens ${first} to ${end - 1}`;
    walk(made, at, `V2 ${n}`, rect, [0, (end - first) / tokens], phase, paint, tip);
    made.text(`block ${n} ${phase === 'race'}`, [0.4 * em, lines[n]], `${n}`, {
      ...{ fill: '#fff', bold: true, span: phase === 'race' ? [0.15, 0.25] : [0, 1], out: [0, 0.01] },
    });
    const says = knows ? `m ${short(part.m, 3)}, l ${short(part.l, 3)}` : `tokens ${first} to ${end - 1}`;
    made.text(`${knows ? 'own' : 'tokens'} ${n}`, [text, lines[n]], says, {
      datum: { part: 'own', partition: n },
    });
  });
  if (!knows) return;
  made.text('own is', [text, title], narrow ? 'max, sum' : 'own max m, own sum l', { bold: true });
  made.rect('one', [box.x, box.y, width - box.x - 2, box.h], {
    ...{ stroke: merged ? paint.text : paint.border, width: merged ? 2 : 1, dash: merged ? undefined : [5, 4] },
  });
  const inner = box.x + 0.8 * em;
  if (!merged)
    return made.text('one waits', [inner, box.y + 1.6 * em], narrow ? 'waits' : 'Second kernel: waits for all blocks', {
      bold: true,
    });
  made.text('weight is', [weights, title], narrow ? 'weight' : 'weight e^(own m − m)', { bold: true });
  const room = width - box.x - 1.8 * em,
    high = Math.max(1.6 * em, Math.min(6 * em, box.h - 10 * em)),
    bar = box.y + 4.6 * em;
  let left = inner;
  parts.forEach((part, n) => {
    made.text(`weight ${n}`, [weights, lines[n]], `× ${short(part.weight, 3)}`, {
      ...{ bold: true, fill: PALETTE.wrong, datum: { part: 'weight', partition: n }, span: [0.04 * n, 0.2 + 0.04 * n] },
    });
    const own = part.l * part.weight,
      wide = (room * own) / l,
      tip = `block ${n}: ${short(part.l, 3)} × ${short(part.weight, 3)} = ${short(own, 3)} of l`;
    made.rect(`share ${n}`, [left, bar, wide - 1, high], {
      ...{
        fill: COLOURS.P,
        datum: { part: 'weight', share: n },
        tip,
        ease: 'both',
        span: [0.3 + 0.04 * n, 0.6 + 0.05 * n],
      },
      enter: { rect: [weights, lines[n] - 0.8 * em, 3 * em, em], alpha: 0 },
    });
    if (wide > 1.6 * em)
      made.text(`share ${n} is`, [left + wide / 2, bar + high / 2 + 0.35 * em], `${n}`, {
        ...{ fill: '#fff', bold: true, align: 'center', span: [0.8, 1] },
      });
    left += wide;
  });
  const says = [
    [1.6, narrow ? 'one result' : 'Second kernel: one result'],
    [3.6, narrow ? `m ${short(m, 3)}` : `m = ${short(m, 3)}, the largest one`],
    [4.6 + high / em + 1.5, narrow ? `l ${short(l, 4)}` : `l = ${short(l, 4)}, the sum of all l × weight`],
    [4.6 + high / em + 3.4, narrow ? 'O = sum / l' : 'O = the sum of all O × weight, / l'],
  ];
  says.forEach(([down, line], n) =>
    made.text(`one is ${n}`, [inner, box.y + Number(down) * em], String(line), {
      ...{ bold: !n, span: [0.6, 1], datum: n ? { part: 'weight', line: n } : undefined },
    }),
  );
}

/** Recorded times, what they say of the reads, and the blocks for each SM. */
/** @type {(made: Marks, at: Layout, meta: block_table.SplitMeta, timed: block_table.Timed, scale: {longest: number, most: number}, paint: Paint) => void} */
function chips(made, at, { sms, size }, timed, { longest, most }, paint) {
  const { em, width, half, narrow } = at,
    { us, blocks } = timed,
    reads = rates(timed),
    fastest = us.indexOf(Math.min(...us));
  ['V1', 'V2'].forEach((id, n) => {
    const y = n * half,
      each = Math.round(blocks[n] / sms),
      time = y + 1.6 * em,
      room = width - 9 * em,
      wide = Math.max(2, (room * us[n]) / longest),
      rate = time + 2 * em,
      asks = Math.max(2, ((room - (narrow ? 0 : 5 * em)) * reads[n]) / most),
      stacks = [0, rate + 4.1 * em, width, half - 9 * em];
    made.text(
      `${id} is`,
      [0, y + em],
      n
        ? `V2: a block for each ${size} tokens of it, and a second kernel`
        : 'V1: a block for each query head of a context',
      { bold: true },
    );
    made.rect(`${id} time`, [0, time, wide, 1.6 * em], {
      ...{
        fill: PALETTE.kernels[n],
        ease: 'both',
        datum: { part: 'time', kernel: id },
        tip: `${id}: ${short(us[n], 4)} µs, recorded`,
      },
    });
    made.text(`${id} takes`, [wide + 0.7 * em, time + 1.15 * em], `${short(us[n], 3)} µs`, {
      ...{ bold: true, size: 1.25 * em, fill: n === fastest ? paint.text : PALETTE.wrong, ease: 'both' },
    });
    made.rect(`${id} rate`, [0, rate, asks, 1.6 * em], {
      ...{ fill: blend(rgb(PALETTE.kernels[n]), rgb(paint.background), 0.5), ease: 'both' },
      datum: { part: 'rate', kernel: id },
      tip: `${id}: K and V that its blocks ask for in a second`,
    });
    made.text(
      `${id} asks`,
      [asks + 0.7 * em, rate + 1.15 * em],
      `${short(reads[n], 3)} TB/s${narrow ? '' : ' asked for'}`,
      { bold: true, ease: 'both' },
    );
    made.text(
      `${id} work`,
      [0, stacks[1] - 0.5 * em],
      `${number(blocks[n])} blocks on ${sms} SMs: ${each ? `about ${each} for each` : 'most have none'}`,
      { bold: true },
    );
    made.add(`${id} sms`, 'stacks', stacks, {
      ...{
        counts: spread(blocks[n], sms),
        unit: stacks[3] / MOST,
        fill: paint.text,
        empty: paint.panel,
        stroke: paint.border,
      },
      ...{ datum: { part: 'sms', kernel: id }, tip: `${id}: ${number(blocks[n])} blocks on ${sms} SMs` },
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
