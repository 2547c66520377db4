// How fast K and V arrive at the blocks, and how the parts of V2 become one, as marks. A plant is memory, a pipe and the
// SMs with their blocks: the stream in the pipe is as wide as the recorded rate. The merge is a table with a last row.
// split_asks.js has the time of one SM.
import { Marks } from '../core/kinds.js';
import { blend, COLOURS, number, PALETTE, rgb, short } from '../core/paint.js';
import { asksLayout, asksMarks } from './split_asks.js';
import { spread } from './split_rule.js';

const LINE = 4; // blocks in a line of an SM's square, and lines

/** @typedef {block_table.Part} Part */
/** @typedef {{id: string, timed: block_table.Timed, kernel: number, late: boolean}} Plant */

/**
 * @param {{width: number, height: number, em: number}} size of the pane
 * @param {{parts: Part[], sms: number, l: number}} of the run, and of the GPU
 */
export function splitLayout({ width: pane, height, em }, { parts, sms, l }) {
  const narrow = pane < 46 * em,
    width = pane - (narrow ? 2 : 0.8 * em), // a gap before the Guide's card
    gap = (narrow ? 0.8 : 2) * em, // between two plants
    half = (width - gap) / 2,
    tall = Math.max(height - 2, (narrow ? 20 : 14) * em),
    plant = (/** @type {number} */ x, /** @type {number} */ wide) =>
      plantLayout([x, 0, wide, tall], em, narrow, sms, wide === width),
    // the merge: a row for each part, and one for all
    head = (height < 20 * em ? 1.8 : 2.2) * em,
    foot = (narrow ? 3.2 : height < 20 * em ? 1.6 : 2) * em,
    pitch = Math.max(1.15 * em, Math.min(4.4 * em, (height - head - foot) / (parts.length + 1.6))),
    max = (narrow ? 2.7 : 6) * em,
    output = max + (narrow ? 3.6 : 6.5) * em,
    wide = narrow ? width - output - 8.2 * em : (width - output - 11.5 * em) / 2, // of O's bars, and of l's
    weight = output + (narrow ? 0 : wide + 1.5 * em),
    sum = weight + (narrow ? 4.2 : 6) * em;
  return {
    ...{
      width,
      em,
      narrow,
      alone: plant(0, width),
      left: plant(0, half),
      right: plant(half + gap, half),
      time: asksLayout(width, tall, em, narrow),
    },
    rows: { y: head, pitch, end: head + parts.length * pitch },
    ...{ columns: { max, output, weight, sum }, wide, unit: wide / l },
    bottom: Math.max(tall, head + (parts.length + 1.6) * pitch + foot),
  };
}

/** A plant's places. alone: it has a line of terms.
 * @type {(rect: number[], em: number, narrow: boolean, sms: number, alone: boolean) => any} */
function plantLayout([x, y, w, h], em, narrow, sms, alone) {
  const small = narrow || h < 22 * em,
    big = (small ? 1.3 : 1.9) * em, // the numbers
    head = y + 0.9 * big,
    label = head + (small ? 1.4 : 1.7) * em,
    terms = label + (alone ? 1.5 * em : 0),
    strip = { y: terms + (alone ? 0.7 : 0.4) * em, h: (small ? 1.8 : 2.4) * em },
    rate = strip.y + strip.h + (small ? 1.5 : 2) * em, // over the pipe
    said = (small ? 1.8 : 2.1) * em, // over the SMs
    pipe = { y: rate + 0.4 * em, h: Math.max(2.2 * em, Math.min(5 * em, 0.2 * (y + h - rate - said))) },
    top = pipe.y + pipe.h + said,
    free = y + h - top,
    high = (/** @type {number} */ many) => free / Math.ceil(sms / many),
    // how far an SM is from a square, if they fill the place, and a cost of a last row that is not full
    off = (/** @type {number} */ many) => Math.abs(Math.log(w / many / high(many))) + (sms % many ? 0.25 : 0),
    columns = Array.from({ length: 32 }, (_, n) => n + 8).reduce((best, many) => (off(many) < off(best) ? many : best));
  return {
    ...{ x, w, em, narrow, alone, big, head, label, terms, strip, rate, pipe, columns, said: top - 0.6 * em },
    sms: [x, top, w, free],
  };
}

/** @typedef {ReturnType<typeof splitLayout>} Layout */

/**
 * @param {Layout} at
 * @param {object} now
 * @param {block_table.SplitMeta} now.meta
 * @param {string} now.phase whole, waits, asks, cut, parts, merged or hand
 * @param {block_table.Timed | null} now.timed the recorded times in the hand
 * @param {number} now.blocks of the SM in the hand
 * @param {boolean} now.played the hand has moved
 * @param {number} now.flow how far the streams have flowed, in whole lengths
 * @param {Paint} paint
 */
export function splitMarks(at, { meta, phase, timed, blocks, played, flow }, paint) {
  const made = new Marks(at.em),
    { long, asks } = meta;
  if (phase === 'parts' || phase === 'merged') merge(made, at, meta, phase, paint);
  else if (asks && (phase === 'waits' || phase === 'asks'))
    asksMarks(made, at.time, { asks, sms: meta.sms, best: meta.best, phase, blocks, played }, paint);
  else if (long && timed) {
    const hand = phase === 'hand',
      first = { id: 'left', timed: hand ? timed : long, kernel: 0, late: hand };
    // the first one makes room before another comes
    plant(made, phase === 'whole' ? at.alone : at.left, first, meta, flow, paint);
    if (phase === 'cut' || hand)
      plant(made, at.right, { id: 'right', timed: hand ? timed : long, kernel: 1, late: hand }, meta, flow, paint);
  }
  return made.list;
}

const GOES = [0, 0.06], // what leaves is gone before anything else moves
  COMES = [0.15, 0.3],
  FLOWS = [0.25, 1],
  EARLY = [0, 0.15];

/** Memory with K and V, the pipe, and the SMs. */
/** @type {(made: Marks, at: any, now: Plant, meta: block_table.SplitMeta, flow: number, paint: Paint) => void} */
function plant(made, at, { id, timed, kernel, late }, { sms, size, best, longer, more }, flow, paint) {
  const { x, w, em, narrow, alone, big, head, label, terms, strip, pipe, columns, said } = at,
    heads = Math.round(timed.blocks[0] / timed.contexts),
    { contexts, tokens } = timed,
    rate = timed.rate[kernel],
    us = timed.us[kernel],
    slower = late && us === Math.max(...timed.us),
    blocks = timed.blocks[kernel],
    each = Math.round(blocks / sms),
    name = `V${kernel + 1}`,
    fill = PALETTE.kernels[kernel],
    still = id === 'left' && !late,
    comes = { out: GOES, span: still ? EARLY : COMES, ease: 'both' },
    flows = { out: GOES, span: still ? EARLY : FLOWS, ease: 'both' },
    most = Math.max(...[...longer, ...more].map(one => one.contexts * one.tokens)),
    block = kernel ? `${number(Math.min(size, tokens))} tokens` : 'context',
    named = alone
      ? `${name}: PagedAttention’s first kernel`
      : narrow
        ? name
        : `${name}: a block for each head and ${block}`;
  made.text(`${id} name`, [x, head], named, {
    ...{ bold: true, fill, size: (narrow ? 1.2 : alone ? 1.3 : 1.1) * em, ...comes },
  });
  made.text(`${id} takes`, [x + w, head], '', {
    ...{
      value: us,
      format: (/** @type {number} */ now) => `${short(now, 3)} µs`,
      bold: true,
      align: 'right',
      size: big,
    },
    ...{ fill: slower ? PALETTE.wrong : paint.text, ...flows },
    ...{ datum: { part: 'time', kernel: name }, tip: `${name}: ${short(us, 4)} µs, recorded` },
  });
  const of = `${contexts} context${contexts > 1 ? 's' : ''} of ${number(tokens)} tokens`;
  made.text(
    `${id} has`,
    [x, label],
    narrow ? `${contexts} × ${number(tokens)} tokens, ${heads} heads` : `K and V: ${of}, ${heads} heads`,
    { size: narrow || late ? em : 1.1 * em, ...comes },
  );
  if (alone)
    made.text(`${id} terms`, [x, terms, w], 'Context: a request’s tokens. Head: an attention of its own.', {
      ...{ size: (narrow ? 1 : 1.1) * em, ...comes },
    });
  if (late && kernel)
    made.text(`${id} ratio`, narrow ? [x + 2.4 * em, head] : [x + w, label + 0.2 * em], '', {
      ...{ value: us / timed.us[0], format: (/** @type {number} */ now) => `${now.toFixed(2)} × V1`, bold: true },
      ...{ align: narrow ? 'left' : 'right', size: (narrow ? 1.1 : 1.6) * em, ...flows },
      fill: us > timed.us[0] ? PALETTE.wrong : paint.primary,
    });
  made.add(`${id} memory`, 'strip', [x, strip.y, (w * contexts * tokens) / most, strip.h], {
    ...{
      of: {
        contexts,
        parts: kernel ? timed.parts : 1,
        heads,
        letters: `600 ${Math.max(12, 0.9 * em)}px ${paint.font}`,
      },
    },
    ...{ fills: [COLOURS.K, COLOURS.V].map(rgb), gap: kernel ? 2 : 0, enter: { gap: 0, alpha: 0 }, ...comes },
    ...{
      datum: { part: 'memory', kernel: name },
      tip: `${name}: ${of}${kernel ? `, in ${timed.parts} parts each` : ''}`,
    },
  });
  made.add(`${id} stream`, 'stream', [x, pipe.y, w, pipe.h], {
    ...{ share: rate / best, flow, fill: paint.panel, stroke: paint.border, of: { em, fills: [COLOURS.K, COLOURS.V] } },
    ...{ enter: { share: 0 }, ...flows, datum: { part: 'stream', kernel: name } },
    tip: `${name}: ${short(rate, 4)} TB of K and V arrive at its blocks in a second, repeats from L2 too`,
  });
  made.text(`${id} rate`, [x, at.rate], '', {
    ...{
      value: rate,
      format: (/** @type {number} */ now) => `${now.toFixed(2)} TB/s`,
      bold: true,
      size: big,
      ...flows,
    },
  });
  made.text(`${id} arrives`, [x + 4.25 * big, at.rate], narrow && !alone ? 'arrive' : 'arrive at the SMs', {
    ...{ bold: true, size: (narrow ? 1 : 1.1) * em, ...flows },
  });
  made.text(
    `${id} best`,
    [x + w, at.rate],
    alone && !narrow ? `pipe from memory, full: ${best.toFixed(2)} (best recorded)` : `full: ${best.toFixed(2)}`,
    { align: 'right', size: (narrow ? 1 : 1.1) * em, ...flows },
  );
  const product = alone && !kernel ? `${contexts} contexts × ${heads} query heads = ` : '',
    has = each ? `about ${number(each)} ${narrow ? 'in each SM' : 'each'}` : 'most have none',
    grid = narrow
      ? alone
        ? `${number(blocks)} blocks, ${has}`
        : has
      : `${product}${number(blocks)} blocks on ${sms} SMs: ${has}`;
  made.text(`${id} blocks`, [x, said], grid, { bold: true, size: (narrow ? 1 : 1.1) * em, ...comes });
  made.add(`${id} sms`, 'sms', at.sms, {
    ...{ of: { columns }, counts: spread(blocks, sms), fill, stroke: paint.border, empty: paint.panel },
    ...{ enter: { alpha: 0, counts: spread(0, sms) }, out: GOES, span: still ? EARLY : [0.15, 0.6], ease: 'both' },
    datum: { part: 'sms', kernel: name },
    tip: `${name}: ${number(blocks)} blocks on ${sms} SMs, spread evenly (modelled)`,
  });
}

/** What the blocks leave, a row each, and what the second kernel makes of it, in the last row. */
/** @type {(made: Marks, at: Layout, meta: block_table.SplitMeta, phase: string, paint: Paint) => void} */
function merge(made, at, { parts, m, l, v1_l }, phase, paint) {
  const { em, narrow, width, rows, columns, unit, wide } = at,
    merged = phase === 'merged',
    tall = rows.pitch - Math.max(3, 0.12 * rows.pitch),
    all = { y: rows.end + 0.35 * rows.pitch, h: Math.min(1.15 * rows.pitch, tall + 1.2 * em) },
    light = blend(rgb(COLOURS.P), rgb(paint.background), 0.3),
    pale = blend(rgb(COLOURS.O), rgb(paint.background), 0.3),
    outputs = parts.map(part => part.output.map(one => one * part.weight)),
    added = parts[0].output.map((_, dim) => outputs.reduce((sum, one) => sum + (one[dim] ?? 0), 0)),
    most = Math.max(1e-30, ...[...parts.flatMap(part => part.output), ...added].map(Math.abs)),
    size = Math.min(1.25 * em, Math.max(em, 0.5 * tall)), // of the numbers
    baseline = (/** @type {number} */ y, /** @type {number} */ h) => y + h / 2 + 0.35 * size,
    names = [
      ['max', narrow ? 'max' : 'own max m'],
      ...(narrow ? [] : [['output', merged ? 'own output O × factor' : 'own output O, not divided']]),
      ...(merged ? [['weight', 'factor']] : []),
      ['sum', merged ? 'own sum × factor' : 'own sum l'],
    ];
  for (const [column, name] of names)
    made.text(`${column} is ${name}`, [columns[/** @type {'max'} */ (column)], 1.3 * em], name, {
      ...{ bold: true, out: GOES, span: COMES, fill: column === 'weight' ? PALETTE.wrong : paint.text },
      size: (narrow ? 1 : 1.1) * em,
    });
  /** @type {(id: string, values: number[], place: number[], span: number[], tip?: string, fill?: string) => void} */
  const bars = (id, values, [y, h], span, tip = '', fill = COLOURS.O) => {
    if (narrow) return;
    const pitch = wide / values.length,
      zero = y + h / 2;
    made.add(`${id} zero`, 'line', [columns.output, zero, wide, 0], { stroke: paint.border, out: GOES });
    values.forEach((value, dim) => {
      const high = Math.max(1, (Math.abs(value) / most) * (h / 2));
      made.rect(`${id} ${dim}`, [columns.output + dim * pitch, value < 0 ? zero : zero - high, pitch - 2, high], {
        ...{
          fill,
          out: GOES,
          ease: 'both',
          span,
          tip: `${tip}dim ${dim}: ${short(value, 3)}, not divided by l`,
        },
        enter: { rect: [columns.output + dim * pitch, zero, pitch - 2, 0] },
      });
    });
  };
  made.rect('all', [1, all.y, width - 2, all.h], {
    ...{ fill: merged ? paint.panel : undefined, stroke: merged ? paint.text : paint.border, width: merged ? 2 : 1 },
    ...{ dash: merged ? undefined : [5, 4], out: GOES },
  });
  made.text(
    `all is ${merged}`,
    [0.6 * em, baseline(all.y, all.h)],
    merged ? 'all' : narrow ? 'waits for all' : 'second kernel: waits for all blocks',
    {
      ...{ bold: true, out: GOES, span: COMES, size },
    },
  );
  let left = columns.sum;
  parts.forEach((part, n) => {
    const y = rows.y + n * rows.pitch,
      own = part.l * part.weight,
      now = merged ? own : part.l,
      turn = 0.03 * n,
      tip = `block ${n}: ${short(part.l, 3)} × ${short(part.weight, 3)} = ${short(own, 3)} of l`,
      thing = { datum: { part: 'weight', share: n }, tip },
      line = baseline(y, tall);
    made.text(`block ${n}`, [0.4 * em, line], narrow ? `${n}` : `block ${n}`, {
      ...{ out: GOES, size, span: COMES, datum: { part: 'block', block: n } },
      tip: `block ${n}: tokens ${part.first} to ${part.end - 1}`,
    });
    made.text(`own ${n}`, [columns.max, line], part.m.toFixed(2), {
      ...{ datum: { part: 'own', partition: n }, out: GOES, size, span: [0.2, 0.5] },
    });
    const said = merged ? [0.1 + turn, 0.3 + turn] : [0.3, 0.6];
    if (merged) bars(`output ${n} was`, part.output, [y, tall], COMES, `block ${n} before, `, pale);
    bars(`output ${n}`, merged ? outputs[n] : part.output, [y, tall], said, `block ${n}, `);
    if (merged)
      made.text(`weight ${n}`, [columns.weight, line], `× ${part.weight.toFixed(3)}`, {
        ...{ bold: true, fill: PALETTE.wrong, size, datum: { part: 'weight', partition: n } },
        ...{ span: [turn, 0.1 + turn], out: GOES },
      });
    made.rect(`sum ${n} was`, [columns.sum, y, part.l * unit, tall], { fill: light, out: GOES });
    made.rect(`sum ${n}`, [columns.sum, y, now * unit, tall], {
      ...{ fill: COLOURS.P, out: GOES, ease: 'both', span: merged ? [0.1 + turn, 0.35 + turn] : [0.3, 0.8] },
      ...{ enter: { rect: [columns.sum, y, 0, tall] }, ...thing },
    });
    made.text(`sum ${n} is ${merged}`, [columns.sum + part.l * unit + 0.5 * em, line], now.toFixed(2), {
      ...{ bold: true, out: GOES, size, span: merged ? [0.3 + turn, 0.4 + turn] : [0.6, 0.8] },
    });
    if (!merged) return;
    const pad = 0.2 * all.h;
    made.rect(`share ${n}`, [left, all.y + pad, Math.max(0.5, own * unit - 1), all.h - 2 * pad], {
      ...{ fill: COLOURS.P, ease: 'both', span: [0.4 + turn, 0.7 + turn], out: GOES, ...thing },
      enter: { rect: [columns.sum, y, own * unit, tall], alpha: 0 },
    });
    left += own * unit;
  });
  if (!merged) return;
  const late = { bold: true, out: GOES, size, span: [0.9, 1] },
    line = baseline(all.y, all.h);
  made.text('all max', [columns.max, line], m.toFixed(2), late);
  bars('added', added, [all.y + 3, all.h - 6], [0.7, 0.95], 'added, ');
  made.text('all sum', [left + 0.5 * em, line], l.toFixed(2), late);
  const same = short(v1_l, 4) === short(l, 4) ? ', as in V1' : '',
    ends = narrow
      ? ['factor: e^(own m − largest m)', `output: added O ÷ ${short(l, 3)}`]
      : [`factor = e^(own m − largest m). Output = added O ÷ ${short(l, 4)}${same}`];
  ends.forEach((text, n) =>
    made.text(`end ${n}`, [0, all.y + all.h + (1.5 + 1.4 * n) * em], text, {
      ...{ bold: true, span: [0.9, 1], datum: { part: 'weight', line: n }, out: GOES },
    }),
  );
}

/** @type {import('../core/kinds.js').Kinds} */
export const SPLIT_KINDS = {
  // K over V of some contexts. Each is in parts with so many pixels between them, or in its heads where there is room.
  strip(g, { rect: [x, y, w, h], of: { contexts, parts, heads, letters }, fills, gap }) {
    const whole = w / contexts,
      apart = Math.min(5, 0.2 * whole),
      cuts = parts === 1 && (whole - apart) / heads > 4 ? heads : parts,
      each = (whole - apart) / cuts,
      between = cuts === parts ? Math.min(gap, 0.4 * each) : 1;
    fills.forEach((/** @type {number[]} */ fill, /** @type {number} */ row) => {
      g.fillStyle = `rgb(${fill.map(Math.round).join(',')})`;
      for (let n = 0; n < contexts; n++)
        for (let cut = 0; cut < cuts; cut++)
          g.fillRect(x + n * whole + cut * each, y + (row * h) / 2, Math.max(0.5, each - between), h / 2 - 1);
    });
    g.font = letters;
    g.fillStyle = '#fff';
    if (cuts === 1 && each > 14)
      ['K', 'V'].forEach((text, row) => g.fillText(text, x + 4, y + (row * h) / 2 + 0.36 * h));
  },
  // A pipe with a stream of K and V that is as wide as its share. flow: how far it came, in lengths of a piece.
  stream(g, { rect: [x, y, w, h], share, flow, fill, stroke, of: { em, fills } }) {
    g.fillStyle = fill;
    g.fillRect(x, y, w, h);
    const [wide, long] = [1.5 * em, 2 * em],
      end = w * Math.min(1, share);
    g.save();
    g.beginPath();
    g.rect(x, y, end, h);
    g.clip();
    for (let n = 0; n * wide < end; n++) {
      g.fillStyle = fills[n % 2];
      const at = ((n % 2) / 2 + flow) % 1;
      for (let k = -1; (k + at) * long < h; k++) g.fillRect(x + n * wide, y + (k + at) * long, wide - 2, long - 2);
    }
    g.restore();
    g.strokeStyle = stroke;
    g.lineWidth = 1.5;
    g.beginPath();
    for (const edge of [x + 0.75, x + w - 0.75]) {
      g.moveTo(edge, y);
      g.lineTo(edge, y + h);
    }
    g.stroke();
  },
  // A square for each SM, with a dot for each of its blocks.
  sms(g, { rect: [x, y, w, h], of: { columns }, counts, fill, stroke, empty }) {
    const cell = [w / columns, h / Math.ceil(counts.length / columns)],
      side = cell.map(one => one - Math.max(1.5, 0.07 * Math.min(...cell))),
      dot = side.map(one => (one - 2) / LINE),
      drawn = dot.map(one => Math.max(1, one - (one > 5 ? 1 : 0.5)));
    g.lineWidth = 1;
    g.strokeStyle = stroke;
    counts.forEach((/** @type {number} */ count, /** @type {number} */ n) => {
      const left = x + (n % columns) * cell[0],
        top = y + Math.floor(n / columns) * cell[1];
      g.fillStyle = empty;
      g.fillRect(left, top, ...side);
      if (cell[0] > 9) g.strokeRect(left + 0.5, top + 0.5, side[0] - 1, side[1] - 1);
      g.fillStyle = fill;
      for (let block = 0; block < Math.min(count, LINE * LINE); block++)
        g.fillRect(left + 1 + (block % LINE) * dot[0], top + 1 + Math.floor(block / LINE) * dot[1], ...drawn);
    });
  },
};
