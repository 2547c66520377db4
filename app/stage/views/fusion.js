// The ledger of a fused kernel next to its separate launches: which bytes of which tensor each launch
// reads from memory and writes to it. Both sides move at once, tensor by tensor. A tensor that a step
// moves comes from its name (memory) or from its launch (the chip).
import { canvasView } from '../core/canvas.js';
import { Marks } from '../core/kinds.js';
import { blend, COLOURS, number, rgb, smallText, theme, widest } from '../core/paint.js';
import { wrapped } from '../core/wrapped.js';
import { fusionLayout } from './layouts/fusion.js';

const ARROW = { load: '↓', store: '↑' },
  VERB = { load: 'reads', store: 'writes' },
  SIDES = ['separate', 'fused'];
const percent = share => `${Math.round(100 * share)} %`;

/** @type {Picture<fusion.FusionMeta>} */
export default function (host, { meta }, context) {
  const { tensors, launches, moves, kernels, ideas, place, totals, time, frames } = meta,
    sides = launches.map(one => one.side),
    most = Math.max(...moves.map(move => move.bytes));
  const of = (n, tensor) => moves.filter(move => move.column === n && move.tensor === tensor);
  const colourOf = kind => (kind === 'load' ? COLOURS.read : COLOURS.written);
  const asked = () => context.clock.covers.length > 0; // no mark may give a covered row away
  let box, em, small, font;

  const layout = size => {
    ({ em } = size);
    [small, font] = [smallText(em), theme(host).font];
    const linesOf = (side, room) => wrapped(ideas[side], room, 4, wide).length;
    box = fusionLayout(size, tensors, sides, linesOf, [2, ...(time ? [time.us.length] : [])]);
    return Math.ceil(box.height);
  };
  const rowAt = tensor => box.top + tensor * box.row;
  const wideOf = side => sides.filter(one => one === side).length * box.w;
  const wide = (text, size = small) => widest([text], `${size}px ${font}`);

  // ---- drawing ----
  const marks = ({ step, paint, width }) => {
    const made = new Marks(small);
    tensors.forEach((tensor, t) => {
      if (tensor.kept && !asked())
        made.rect(`saved ${t}`, [0, rowAt(t) + 1, width, box.row - 2], {
          fill: blend(rgb(paint.primary), rgb(paint.background), 0.13),
        });
      const y = rowAt(t) + box.row / 2 + 0.36 * small,
        bold = frames[step].tensor === t || (!!tensor.kept && !asked());
      made.text(`name ${t}`, [0.2 * em, y, box.label], tensor.name, { bold });
      const after = 0.8 * em + wide(tensor.name) * (bold ? 1.08 : 1);
      if (!box.narrow)
        made.text(`part ${t}`, [after, y, box.label - after], tensor.part, { alpha: 0.75 });
      if (tensor.passed.length) pass(made, t, paint);
      launches.forEach((_, n) => cell(made, { step, paint, t, n }));
      made.rect(`line ${t}`, [0, rowAt(t) + box.row, width, 0.5], { fill: paint.border });
    });
    heads(made, step, paint);
    bytes(made, step, paint);
    if (time) times(made, step, paint);
    return made.list;
  };
  const heads = (made, step, paint) => {
    kernels.forEach((_, side) => {
      const count = sides.filter(one => one === side).length,
        x = box.x[sides.indexOf(side)],
        said = `${side ? 'Fused' : 'Separate'}: ${count} launch${count > 1 ? 'es' : ''}`;
      made.text(`side ${side}`, [x, 1.1 * em, wideOf(side)], said, { bold: true, size: em });
      if (box.lines)
        wrapped(ideas[side], wideOf(side) - 0.6 * em, box.lines, wide).forEach((line, n) =>
          made.text(`idea ${side} ${n}`, [x, (2.2 * em + n * box.line) | 0, wideOf(side)], line),
        );
    });
    launches.forEach(({ entry }, n) => {
      const now = frames[step].cells.includes(n);
      made.rect(`chip ${n}`, [box.x[n] + 1, box.heads + 0.3 * em, box.w - 3, 1.4 * em], {
        fill: now ? paint.primary : paint.panel,
        stroke: paint.border,
      });
      made.text(`entry ${n}`, [box.x[n] + box.w / 2, box.heads + 1.3 * em, box.w - 8], entry, {
        align: 'center',
        fill: now ? paint.background : paint.text,
        bold: now,
      });
    });
  };
  // Where the bar of a move is. In a narrow column its number is over it.
  const barOf = (move, part, parts) => {
    const beside = box.w > 11 * em,
      high = (box.row - 4) / parts,
      room = box.w - (beside ? 7.4 * em : 5); // for the number and an arrow
    return [
      box.x[move.column] + 2,
      rowAt(move.tensor) + 2 + part * high + (box.row > 2.4 * em ? 0.4 * em : 1),
      Math.max(2, (room * move.bytes) / most),
      high - (box.row > 2.4 * em ? 0.8 * em : 2),
    ];
  };
  // From the launch that writes a tensor to the launch that reads it back.
  const pass = (made, t, paint) => {
    const [writer, reader] = tensors[t].passed,
      [move] = of(writer, t),
      [x, y, w, h] = barOf(move, 0, 1),
      from = x + w + 0.9 * em + wide(`↑ ${number(move.bytes)}`),
      to = box.x[reader] - 2,
      middle = y + h / 2;
    if (to - from < 1.2 * em) return;
    const points = [
      [from, middle],
      [to, middle],
    ];
    made.add(`pass ${t}`, 'way', null, { points, stroke: paint.text, width: 1.5, head: 0.35 * em });
  };
  const cell = (made, { step, paint, t, n }) => {
    const own = of(n, t),
      { kept } = tensors[t],
      now = frames[step].tensor === t && frames[step].cells.includes(n);
    if (!own.length && kept && launches[n].side) stays(made, t, n, paint);
    own.forEach((move, part) => {
      const bar = barOf(move, part, own.length),
        [x, y, w, h] = bar,
        beside = box.w > 11 * em,
        done = move.step <= step,
        again = kept === 'once' && launches[n].side && !asked() ? 'not read again' : '',
        said = `${ARROW[move.kind]} ${number(move.bytes)}`,
        room = box.w - 8 - (beside ? w : 0),
        middle = y + h / 2 + (again && beside ? -0.2 : 0.36) * small,
        id = `${n} ${t} ${part}`;
      made.rect(`bar ${id}`, bar, {
        fill: blend(
          rgb(colourOf(move.kind)),
          rgb(paint.background),
          (done ? 0.85 : 0.4) * (beside ? 1 : 0.5),
        ),
      });
      if (move.step === step && beside)
        made.rect(`packet ${id}`, bar, {
          fill: colourOf(move.kind),
          enter: {
            rect: [move.kind === 'load' ? 0 : x, move.kind === 'load' ? y : box.heads, w, h],
          },
          ease: 'both',
        });
      made.text(`amount ${id}`, [beside ? x + w + 0.4 * em : x + 3, middle, room], said, {
        alpha: done ? 1 : 0.75,
        bold: move.step === step,
      });
      if (again && beside)
        made.text(`again ${id}`, [x + w + 0.4 * em, middle + 1.15 * small, room], again, {
          bold: true,
        });
    });
    if (now)
      made.rect(`now ${n}`, [box.x[n] + 0.5, rowAt(t) + 1, box.w - 2, box.row - 1], {
        ...{ stroke: paint.text, width: 2 },
      });
  };
  // The fused kernel has the tensor on the chip: no byte of it moves.
  const stays = (made, t, n, paint) => {
    const y = rowAt(t);
    made.rect(`kept ${t}`, [box.x[n] + 2, y + 2.5, box.w - 5, box.row - 4], {
      ...{ fill: paint.background, stroke: paint.primary, width: 2 },
    });
    const said = [`stays ${place}: 0 bytes`, `${place}: 0`, place];
    made.text(
      `kept text ${t}`,
      [box.x[n] + box.w / 2, y + box.row / 2 + 0.36 * small, box.w - 10],
      said.find(text => wide(text) * 1.06 < box.w - 10) ?? place,
      { align: 'center', bold: true },
    );
  };
  // Bars under a title. texts: at their ends, of which longest are the longest. note: the line under them.
  const group = (
    made,
    paint,
    name,
    at,
    { title, names, values, now = values, parts = [], pieces = [], texts, longest = texts, note },
  ) => {
    const { x, y, w } = box.sums[at],
      left = x + Math.max(...names.map(text => wide(text))) + 0.6 * em,
      ends = 1.08 * Math.max(...longest.map(text => wide(text))) + 0.6 * em,
      room = Math.max(20, x + w - left - ends);
    made.text(`${name} title`, [x, y + 1 * em, w], title, { bold: true });
    values.forEach((value, n) => {
      const top = y + box.title + n * box.bar,
        full = (room * value) / Math.max(...values),
        high = box.bar - 0.25 * em,
        line = top + 0.5 * high + 0.36 * small,
        fused = n === values.length - 1;
      made.text(`${name} name ${n}`, [x, line], names[n]);
      made.rect(`${name} edge ${n}`, [left, top, full, high], { stroke: paint.border });
      const fill = share =>
        blend(rgb(paint.primary), rgb(paint.background), share * (fused ? 0.9 : 0.5));
      made.rect(`${name} bar ${n}`, [left, top, (full * now[n]) / value, high], {
        fill: fill(parts[n]?.length ? 0.25 : 1),
        ease: 'both',
      });
      const scale = full / value;
      (parts[n] ?? []).forEach(([from, to], part, all) => {
        const next = part + 1 < all.length ? all[part + 1][0] : value,
          piece = (id, start, end, said, ink) => {
            const room = (end - start) * scale;
            if (room > 1.1 * wide(said))
              made.text(
                `${name} ${id} ${n} ${part}`,
                [left + (start + end) * scale * 0.5, line],
                said,
                {
                  ...{ align: 'center', fill: ink },
                },
              );
          };
        made.rect(
          `${name} part ${n} ${part}`,
          [left + from * scale, top, (to - from) * scale, high],
          {
            fill: fill(1),
          },
        );
        if (asked()) return;
        const [runs, gap] = pieces[n][part];
        piece('runs', from, to, runs, fused ? paint.background : paint.text);
        piece(
          'gap',
          to,
          next,
          (next - to) * scale > 1.1 * wide(`gap ${gap}`) ? `gap ${gap}` : gap,
          paint.text,
        );
      });
      made.text(`${name} text ${n}`, [left + full + 0.4 * em, line], texts[n], { bold: true });
    });
    made.text(`${name} note`, [x, y + box.title + values.length * box.bar + 0.9 * em, w], note);
  };
  const bytes = (made, step, paint) => {
    const { so_far: now } = frames[step],
      [before, after] = totals;
    group(made, paint, 'bytes', 0, {
      title: 'Bytes read and written so far',
      ...{ names: SIDES, values: totals, now },
      longest: totals.map(n => `${number(n)} of ${number(n)}`),
      texts: now.map((n, side) => (asked() ? '' : `${number(n)} of ${number(totals[side])}`)),
      note:
        asked() || after >= before
          ? ''
          : `In all, fused ${number(before - after)} fewer (${percent(1 - after / before)}).`,
    });
  };
  const times = (made, step, paint) => {
    const { x, y, w } = box.sums[1],
      full = `Time in a CUDA graph, recorded on ${time.said}`;
    group(made, paint, 'time', 1, {
      title:
        [
          full,
          `In a CUDA graph, ${time.said.split('with ').at(-1).split(',')[0]} (recorded, ${time.said.split(', 20')[0]})`,
          full.split(', 20')[0],
        ].find(text => 1.08 * wide(text) < w) ?? 'Time (recorded)',
      ...{ names: time.names, values: time.us, parts: time.spans, pieces: time.pieces },
      texts: time.texts,
      note: asked() ? '' : time.note,
    });
    if (frames[step].timed)
      made.rect('now time', [x - 3, y, w + 2, box.title + time.us.length * box.bar], {
        ...{ stroke: paint.text, width: 2 },
      });
  };

  // ---- the cursor ----
  const locate = (x, y) => {
    const t = Math.floor((y - box.top) / box.row),
      n = box.x.findIndex(left => x >= left && x < left + box.w);
    if (t >= 0 && t < tensors.length) {
      if (x < box.label) return { tensor: tensors[t].name };
      return n < 0 ? null : { tensor: tensors[t].name, launch: n };
    }
    for (const [at, sum] of box.sums.entries()) {
      const n = Math.floor((y - sum.y - box.title) / box.bar),
        count = at ? time.us.length : 2;
      if (x < sum.x || x >= sum.x + sum.w || n < 0) continue;
      if (n < count) return { [at ? 'time' : 'total']: n };
      if (at && n === count && y < box.height) return { note: 1 };
    }
    return null;
  };
  const describe = at => {
    if (at.total !== undefined)
      return `${kernels[at.total]}: ${number(totals[at.total])} bytes read and written`;
    if (at.note) return time.note;
    if (at.time !== undefined)
      return (
        `${time.names[at.time]}: ${time.texts[at.time]}\n` +
        `in a CUDA graph, sustained, recorded on ${time.said}`
      );
    const t = tensors.findIndex(one => one.name === at.tensor),
      { name, shape, part } = tensors[t];
    if (at.launch === undefined)
      return `${name} ${shape}, ${part}: ${number(tensors[t].bytes)} bytes in memory`;
    const said = of(at.launch, t).map(
      m =>
        `${VERB[m.kind]} ${number(m.bytes)} bytes of ${name}\n` +
        `in ${number(m.sectors)} sectors of 32 B. All accesses together: ${number(m.requested)} B`,
    );
    return `${launches[at.launch].entry}: ${said.join('\n') || `${name} is not moved`}`;
  };
  const label = step => `${frames[step].title}. ${frames[step].sentence}`;
  const legend = [
    [`background:${COLOURS.read}`, '↓ bytes read, from the L2 cache or device memory'],
    [`background:${COLOURS.written}`, '↑ bytes written'],
    ['', 'a byte read twice by one launch counts once. Pale: a later step'],
    ...(time
      ? [
          [
            '',
            'time: dark, a kernel runs. Pale: the gap before the next launch, at the end of the next graph. ' +
              'torch.compile: only its total was measured',
          ],
        ]
      : []),
  ];
  return canvasView(host, context, {
    ...{ title: 'Ledger', layout, marks, locate, describe, label, legend },
  });
}
