// The time of one SM, as marks: its blocks ask for keys, wait, and get them through its share of the pipe. V1 asks for
// all keys before it asks for values. A chart below has the rate of all SMs for each number of blocks. The rule is that
// of split_rule.js.
import { blend, COLOURS, number, PALETTE, rgb, short } from '../core/paint.js';
import { asked } from './split_rule.js';

const ASK = PALETTE.kernels[0],
  WAIT = PALETTE.wrong,
  GOES = [0, 0.12]; // what leaves is gone before anything else comes

/** The places, of one block and of many. */
/** @type {(width: number, height: number, em: number, narrow: boolean) => any} */
export function asksLayout(width, height, em, narrow) {
  const x = (narrow ? 4.2 : 5) * em, // the names of the blocks
    w = width - x - 2,
    big = (narrow ? 1.3 : 1.9) * em,
    title = 0.9 * (narrow ? 1.2 : 1.3) * em,
    // one block: a high lane over a high pipe
    foot = (narrow ? 3.4 : 3) * em,
    free = height - title - foot,
    over = title + Math.max(2.4 * em, 0.14 * free),
    fall = Math.max(3 * em, 0.2 * free),
    high = Math.max(2 * em, 0.33 * free),
    // many: their lanes, the pipe, and the chart
    top = title + 0.8 * em,
    pitch = Math.max(1.1 * em, Math.min(2.2 * em, 0.042 * height)),
    pipe = top + 8 * pitch + (narrow ? 1.9 : 2.3) * em,
    wide = Math.max(1.6 * em, Math.min(4 * em, 0.09 * height)),
    chart = pipe + wide + (narrow ? 2.6 : 2.4) * em,
    end = Math.max(chart + 5 * em, height - 1.5 * em);
  return {
    ...{ x, w, em, narrow, big, title, width },
    waits: { lane: over, pitch: high, pipe: over + high + fall, wide: high },
    asks: { lane: top, pitch, pipe, wide },
    chart: { y: chart, end },
  };
}

/**
 * @param {import('../core/kinds.js').Marks} made
 * @param {ReturnType<typeof asksLayout>} at
 * @param {{asks: block_table.Asks, sms: number, best: number, phase: string, blocks: number, played: boolean}} now
 *   blocks: of the hand. played: the hand has moved, so nothing comes late
 * @param {Paint} paint
 */
export function asksMarks(made, at, { asks, sms, best, phase, blocks: most, played }, paint) {
  const { x, w, em, narrow, title, width } = at,
    alone = phase === 'waits',
    blocks = alone ? 1 : most,
    { lane, pitch, pipe, wide } = at[phase],
    { slot, period, full } = asked(blocks, asks, sms, best),
    axis = (narrow ? 2 : 3) * asks.cycles, // cycles in the picture
    place = (/** @type {number} */ cycle) => x + (w * Math.max(0, Math.min(axis, cycle))) / axis,
    // alone, each thing comes at its time
    when = (/** @type {number} */ cycle) => Math.max(0, Math.min(0.92, 0.12 + (0.8 * cycle) / axis)),
    turn = (/** @type {number} */ from, /** @type {number} */ to) =>
      alone ? { span: [when(from), Math.max(when(to), when(from) + 0.02)], ease: 'line', out: GOES } : {},
    // many lanes, one after the other, once the first one is at its place
    comes = (/** @type {number} */ block) =>
      alone || played
        ? { ease: 'both' }
        : { ease: 'both', span: [0.35 + 0.05 * block, 0.55 + 0.05 * block], out: GOES },
    glides = { ease: 'both', span: alone ? [0, 0.1] : [0, played ? 1 : 0.35] },
    gap = pitch > 3 * em ? 0 : Math.max(2, 0.14 * pitch),
    h = pitch - gap;
  const of = blocks === 1 ? 'one block' : `${blocks} blocks`,
    first = narrow
      ? `One SM, ${of} of V1: all K, then V`
      : `One SM with ${of} of V1: first all K, then V in the same way`;
  made.text('sm is', [narrow ? 0 : x, title, width - (narrow ? 0 : x) - 4 * em], first, {
    ...{ bold: true, size: (narrow ? 1.05 : 1.2) * em },
  });
  made.text('time is', [x + w, title], 'time →', { align: 'right', size: (narrow ? 1 : 1.1) * em });
  for (let block = 0; block < (alone ? 1 : asks.most); block++) {
    const y = lane + block * pitch,
      there = block < blocks;
    made.rect(`lane ${block}`, [x, y, w, h], {
      ...{
        fill: there ? paint.panel : paint.background,
        stroke: paint.border,
        width: 1,
        ...(block ? comes(block) : glides),
      },
      ...{ datum: { part: 'lane', lane: block }, tip: there ? `block ${block + 1}` : '' },
    });
    made.text(`lane ${block} is`, [x - 0.6 * em, y + h / 2 + 0.35 * em], `block ${block + 1}`, {
      ...{ align: 'right', bold: there, fill: there ? paint.text : blend(rgb(paint.text), rgb(paint.background), 0.5) },
      ...{ size: Math.max(12, Math.min(em, 0.8 * pitch)), ...(block ? comes(block) : glides) },
    });
  }
  made.rect('pipe', [x, pipe, w, wide], { fill: paint.panel, ...glides });
  made.rect('pipe over', [x, pipe, w, 2], { fill: paint.text, ...glides });
  made.rect('pipe under', [x, pipe + wide - 2, w, 2], { fill: paint.text, ...glides });
  made.text('pipe is', [x - 0.6 * em, pipe + wide / 2 + 0.35 * em], 'pipe', {
    ...{ align: 'right', bold: true, ...glides },
  });

  for (let block = 0; block < blocks; block++) {
    const y = lane + block * pitch;
    for (let n = block ? 0 : 1; block * slot + (n - 1) * period < axis; n++) {
      const end = block * slot + n * period,
        [before, begin] = [end - period, end - slot],
        of = `${phase} ${block} ${n}`,
        got = [place(begin), y, Math.max(1, place(end) - place(begin) - 1), h],
        said = `block ${block + 1}: about ${number(Number(asks.bytes.toPrecision(1)))} bytes of K`;
      made.rect(`wait ${of}`, [place(before), y + 0.34 * h, place(begin) - place(before), 0.32 * h], {
        ...{ fill: WAIT, ...comes(block), ...turn(before, begin) },
        enter: alone ? { rect: [place(before), y + 0.34 * h, 0, 0.32 * h] } : { alpha: 0 },
      });
      if (before >= 0)
        made.rect(`ask ${of}`, [place(before), y, Math.max(3, 0.06 * h), h], {
          ...{ fill: ASK, ...comes(block), ...turn(before, before) },
        });
      if (begin >= axis) continue;
      if (alone)
        made.add(`fall ${n}`, 'line', [(place(begin) + place(end)) / 2, y + h, 0, pipe - y - h], {
          ...{ stroke: paint.border, dash: [4, 4], width: 1.5, span: [when(end), when(end) + 0.05], out: GOES },
        });
      const keys = { fill: COLOURS.K, tip: said, ...comes(block) };
      made.rect(`got ${of}`, got, { ...keys, ...turn(begin, end), datum: { part: 'got', lane: block } });
      made.rect(`in pipe ${of}`, [got[0], pipe + 3, got[2], wide - 6], {
        ...{ ...keys, datum: { part: 'pipe', lane: block } },
        ...(alone ? { enter: { rect: got, alpha: 0 }, span: [when(end), when(end) + 0.07], out: GOES } : {}),
      });
    }
  }
  if (alone) names();
  else chart(made, at, { asks, sms, best, blocks, comes: comes(3) }, paint);

  /** What the first lane and its pipe show. */
  function names() {
    const bold = { bold: true, size: (narrow ? 1 : 1.15) * em, out: GOES },
      begin = asks.cycles - slot;
    made.text('waits', [(place(0) + place(begin)) / 2, lane - 0.6 * em], `waits ${asks.cycles.toFixed(0)} cycles`, {
      ...{ ...bold, align: 'center', fill: WAIT, span: [when(0), when(0) + 0.1] },
    });
    made.text('asks', [place(0), lane + h + 1.3 * em], 'asks', { ...bold, fill: ASK, span: [when(0), when(0) + 0.05] });
    made.text(
      'gets',
      [place(asks.cycles) + 0.2 * em, lane + h + 1.3 * em],
      narrow ? 'gets keys (K)' : 'gets bytes of keys (K)',
      {
        ...{ ...bold, span: [when(asks.cycles), when(asks.cycles) + 0.05] },
      },
    );
    for (let n = 0; n * asks.cycles < axis; n++)
      made.text(
        `empty ${n}`,
        [(place(n * asks.cycles) + place(n * asks.cycles + begin)) / 2, pipe + wide / 2 + 0.35 * em],
        'empty',
        { ...{ ...bold, align: 'center', fill: WAIT, span: [when(n * asks.cycles + begin), 0.95] } },
      );
    const [few, all] = [asks.bytes, full].map(bytes => number(Number(bytes.toPrecision(2)))),
      lines = [`On their way: about ${few} bytes.`, `The pipe of an SM holds about ${all}.`],
      size = (narrow ? 1.05 : 1.3) * em;
    (narrow ? lines : [lines.join(' ')]).forEach((line, n) =>
      made.text(`on their way ${n}`, [x, pipe + wide + 1.6 * em + 1.4 * n * size], line, {
        ...{ bold: true, size, span: [0.9, 1], out: GOES },
      }),
    );
  }
}

/** The modelled rate of all SMs for each number of blocks, with the recorded ones as dots. */
/** @type {(made: import('../core/kinds.js').Marks, at: any, now: any, paint: Paint) => void} */
function chart(made, { x, w, em, narrow, big, asks: own, chart: at }, { asks, sms, best, blocks, comes }, paint) {
  const high = at.end - at.y,
    pitch = w / asks.most,
    { share, rate } = asked(blocks, asks, sms, best),
    roof = at.y;
  made.text('share', [x + w, own.pipe - 0.5 * em], '', {
    ...{ value: 100 * share, format: (/** @type {number} */ now) => `${now.toFixed(0)}% full`, bold: true },
    ...{ align: 'right', size: 0.85 * big, fill: share < 1 ? WAIT : paint.primary, ...comes },
  });
  made.text(
    'chart is',
    [x, roof - 0.6 * em],
    narrow ? `${sms} SMs: bars modelled, dots recorded` : `All ${sms} SMs: columns modelled, dots recorded`,
    {
      ...{ bold: true, ...comes },
    },
  );
  made.add('roof', 'line', [x, roof, w, 0], {
    ...{ stroke: paint.text, dash: [5, 4], width: 1.5, ...comes },
  });
  made.text('roof is', [x - 0.6 * em, roof + 0.35 * em], `${best.toFixed(2)}${narrow ? '' : ' TB/s'}`, {
    ...{ align: 'right', ...comes },
  });
  for (let n = 1; n <= asks.most; n++) {
    const of = asked(n, asks, sms, best),
      top = at.end - of.share * high,
      now = n === blocks;
    made.rect(`column ${n}`, [x + (n - 0.82) * pitch, top, 0.64 * pitch, at.end - top], {
      ...{ fill: now ? paint.primary : blend(rgb(paint.text), rgb(paint.background), 0.16), ...comes },
      ...{ datum: { part: 'column', blocks: n }, tip: `${n} blocks: ${short(of.rate, 3)} TB/s, modelled` },
    });
    made.text(`column ${n} is`, [x + (n - 0.5) * pitch, at.end + 1.2 * em], `${n}`, {
      ...{ align: 'center', bold: now, ...comes },
    });
  }
  made.text('columns are', [x - 0.6 * em, at.end + 1.2 * em], 'blocks', {
    ...{ align: 'right', bold: true, ...comes },
  });
  made.text('rate', [x + (blocks - 0.5) * pitch, at.end - share * high - 0.5 * em], '', {
    ...{ value: rate, format: (/** @type {number} */ now) => `${now.toFixed(2)}${narrow ? '' : ' TB/s'}` },
    ...{ bold: true, align: 'center', size: narrow ? em : 1.2 * em, ...comes },
  });
  asks.seen.forEach((/** @type {number[]} */ [each, tb], /** @type {number} */ n) => {
    const near = Math.round(each) === blocks,
      r = (near ? 0.42 : 0.34) * em,
      [cx, cy] = [x + (each - 0.5) * pitch, at.end - (tb / best) * high];
    made.add(`ring ${n}`, 'dot', [cx - r - 1.5, cy - r - 1.5, 2 * r + 3, 2 * r + 3], {
      fill: paint.background,
      ...comes,
    });
    made.add(`seen ${n}`, 'dot', [cx - r, cy - r, 2 * r, 2 * r], {
      ...{ fill: paint.text, ...comes, datum: { part: 'seen', blocks: Math.round(each) } },
      tip: `recorded, about ${short(each, 2)} blocks of V1 for each SM: ${short(tb, 3)} TB/s`,
    });
    if (near)
      made.text('recorded', [x + (blocks - 0.5) * pitch, cy + 1.6 * em], tb.toFixed(2), {
        ...{ bold: true, align: 'center', fill: paint.background, size: narrow ? em : 1.1 * em, ...comes },
      });
  });
}
