// The ledger of a fused kernel next to its separate launches: which bytes of which tensor each launch
// reads from memory and writes to it. A tensor that a step moves comes from its name (memory) or
// from its launch (the chip).
import { canvasView } from '../core/canvas.js';
import { blend, COLOURS, number, rgb, smallText } from '../core/paint.js';
import { fusionLayout } from './layouts/fusion.js';

const ARROW = { load: '↓', store: '↑' };
const KEPT = { never: 'on the chip', once: 'not read again' };

export default function (host, { meta }, context) {
  const { tensors, launches, kernels, totals, frames } = meta,
    sides = launches.map(one => one.side),
    most = Math.max(...frames.map(f => f.bytes));
  const of = (n, tensor) => frames.filter(f => f.kind && f.launch === n && f.tensor === tensor);
  const colourOf = kind => (kind === 'load' ? COLOURS.read : COLOURS.written);
  let box, em, small;

  const layout = size => {
    ({ em } = size);
    small = smallText(em);
    box = fusionLayout(size, tensors, sides);
    return Math.ceil(box.height);
  };
  const rowAt = tensor => box.top + tensor * box.row;
  const firstOf = side => sides.indexOf(side);
  const wideOf = side => sides.filter(s => s === side).length * box.w;

  // ---- drawing ----
  const marks = ({ step, paint, width }) => {
    const list = [],
      text = (id, x, y, said, more = {}) =>
        list.push({ id, kind: 'text', rect: [x, y, 0, small], text: said, ...more }),
      rect = (id, at, more) => list.push({ id, kind: 'rect', rect: at, ...more });
    heads(text, rect, step, paint);
    tensors.forEach((tensor, t) => {
      const y = rowAt(t) + box.row / 2 + 0.36 * small,
        now = frames[step].tensor === t;
      list.push({
        id: `name ${t}`,
        kind: 'text',
        rect: [0, y, box.label, small],
        text: tensor.name,
        bold: now,
      });
      if (box.shapes)
        text(`shape ${t}`, 0, 0, tensor.shape, {
          rect: [box.shapeX, y, box.label - box.shapeX, small],
          alpha: 0.7,
        });
      launches.forEach((_, n) => cell(list, text, rect, { step, paint, t, n }));
      rect(`line ${t}`, [0, rowAt(t) + box.row, width, 0.5], { fill: paint.border });
    });
    sums(text, rect, step, paint);
    return list;
  };
  const heads = (text, rect, step, paint) => {
    kernels.forEach((_, side) => {
      const count = sides.filter(s => s === side).length,
        x = box.x[firstOf(side)],
        said = `${side ? 'Fused' : 'Separate'}: ${count} launch${count > 1 ? 'es' : ''}`;
      text(`side ${side}`, x, box.names + 1.1 * em, said, {
        bold: true,
        rect: [x, 1.1 * em, wideOf(side), small],
      });
    });
    launches.forEach(({ entry }, n) => {
      const now = frames[step].launch === n;
      rect(`chip ${n}`, [box.x[n] + 1, box.heads, box.w - 3, 1.5 * em], {
        fill: now ? paint.primary : paint.panel,
        stroke: paint.border,
      });
      text(`entry ${n}`, 0, 0, entry, {
        rect: [box.x[n] + box.w / 2, box.heads + 1.08 * em, box.w - 8, small],
        align: 'center',
        fill: now ? '#fff' : paint.text,
        bold: now,
      });
    });
  };
  const cell = (list, text, rect, { step, paint, t, n }) => {
    const moves = of(n, t),
      x = box.x[n],
      high = box.row - 3;
    if (!moves.length) {
      if (!tensors[t].kept || !launches[n].side) return;
      const shown = step >= frames.findIndex(f => f.launch === n),
        now = frames[step].launch === n && frames[step].tensor === t;
      list.push({
        ...{
          id: `kept ${t} ${n}`,
          kind: 'hatch',
          rect: [x + 2, rowAt(t) + 2, box.w - 5, high - 1],
        },
        ...{ stroke: paint.border, gap: 7, alpha: shown ? 1 : 0.35 },
      });
      const middle = [x + box.w / 2, rowAt(t) + box.row / 2 + 0.36 * small, box.w - 8, small];
      plate(rect, `kept plate ${t} ${n}`, middle, paint, KEPT[tensors[t].kept].length);
      text(`kept text ${t} ${n}`, 0, 0, KEPT[tensors[t].kept], {
        ...{ rect: middle, align: 'center', bold: true, alpha: shown ? 1 : 0.35 },
      });
      if (now) mark(rect, n, t, paint);
      return;
    }
    moves.forEach((move, part) => {
      const at = frames.indexOf(move),
        done = at <= step,
        each = high / moves.length,
        y = rowAt(t) + 2 + part * each,
        beside = box.w > 11 * em, // the number is next to its bar, or over it
        bar = [
          x + 2,
          beside ? y : y + each - 4,
          Math.max(2, ((box.w - (beside ? 7 * em : 5)) * move.bytes) / most),
          beside ? each - 1 : 3,
        ],
        colour = colourOf(move.kind),
        [, , wide, thick] = bar;
      const from =
        move.kind === 'load'
          ? [0, bar[1], Math.min(wide, box.label), thick]
          : [x + 2, box.heads, wide, thick];
      rect(`bar ${at}`, bar, {
        fill: blend(rgb(colour), rgb(paint.background), done ? 0.8 : 0.18),
      });
      if (at === step) {
        rect(`packet ${at}`, bar, { fill: colour, enter: { rect: from }, ease: 'both' });
        mark(rect, n, t, paint);
      }
      text(`amount ${at}`, 0, 0, `${ARROW[move.kind]} ${number(move.bytes)}`, {
        rect: [
          beside ? x + wide + 6 : x + 4,
          y + each / 2 + (beside ? 0.36 : 0.28) * small,
          box.w - 6,
          small,
        ],
        ...{ alpha: done ? 1 : 0.6, bold: at === step },
      });
    });
  };
  // The cell of the step.
  const mark = (rect, n, t, paint) =>
    rect('now', [box.x[n] + 0.5, rowAt(t) + 1, box.w - 2, box.row - 1], {
      ...{ stroke: paint.text, width: 2 },
    });
  // A ground for text over slanted lines.
  const plate = (rect, id, place, paint, letters) => {
    const [x, y, most_, size] = place;
    const wide = Math.min(most_, letters * 0.55 * size + 4);
    rect(id, [x - wide / 2, y - 0.95 * size, wide, 1.25 * size], { fill: paint.background });
  };
  const sums = (text, rect, step, paint) => {
    const last = frames.length - 1,
      so_far = frames[step].so_far,
      top = Math.max(...totals);
    text('sums', 0, box.sums + 1.1 * em, step === last ? 'all bytes' : 'bytes so far', {
      rect: [0, box.sums + 1.1 * em, box.label, small],
    });
    const x = box.x[0],
      wide = box.x.at(-1) + box.w - x - 11 * em;
    [0, 1].forEach(side => {
      const y = box.sums + 0.2 * em + side * box.bar,
        full = (Math.max(wide, 20) * totals[side]) / top,
        now = (Math.max(wide, 20) * so_far[side]) / top;
      rect(`sum edge ${side}`, [x, y, full, box.bar - 0.4 * em], { stroke: paint.border });
      rect(`sum ${side}`, [x, y, now, box.bar - 0.4 * em], {
        fill: blend(rgb(paint.primary), rgb(paint.background), side ? 0.9 : 0.55),
      });
      text(`sum text ${side}`, x + full + 0.4 * em, y + box.bar / 2 + 0.1 * em, '', {
        ...{ text: `${side ? 'fused' : 'separate'} ${number(so_far[side])}`, bold: true },
      });
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
    const side = Math.floor((y - box.sums) / box.bar);
    return y >= box.sums && x >= box.x[0] && (side === 0 || side === 1) ? { total: side } : null;
  };
  const describe = ({ tensor, launch, total }) => {
    if (total !== undefined)
      return `${kernels[total]}: ${number(totals[total])} bytes read and written`;
    const t = tensors.findIndex(one => one.name === tensor);
    if (launch === undefined)
      return `${tensor} ${tensors[t].shape}: ${number(tensors[t].bytes)} bytes in memory`;
    const moves = of(launch, t).map(
      m => `${m.kind === 'load' ? 'reads' : 'writes'} ${number(m.bytes)} bytes of ${tensor}`,
    );
    return `${launches[launch].entry}: ${moves.join(', ') || `${tensor} is not moved`}`;
  };
  const label = step => `${frames[step].title}. ${frames[step].sentence}`;
  const legend = [
    [`background:${COLOURS.read}`, '↓ bytes that threads request (caches answer some)'],
    [`background:${COLOURS.written}`, '↑ bytes that they write'],
    ['', 'row: a tensor, column: a launch'],
  ];
  return canvasView(host, context, {
    title: 'Ledger',
    layout,
    marks,
    locate,
    describe,
    label,
    legend,
  });
}
