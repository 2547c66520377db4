// The orders of a ring one above the other: a line for each GPU, as long as its pairs, and hatched
// where it waits for the busiest GPU of the round. Under them the recorded products and copies.
import { canvasView } from '../core/canvas.js';
import { Marks } from '../core/kinds.js';
import { blend, COLOURS, exact, number, rgb, theme, widest } from '../core/paint.js';
import { ordersLayout } from './layouts/ring_orders.js';

const HATCH = 'background:repeating-linear-gradient(135deg,currentColor 0 1px,transparent 1px 5px)';
const LEGEND = [
  [`background:${COLOURS.S}`, 'works: one unit of time for each pair of a query and a key'],
  [`border:1px solid currentColor;${HATCH}`, 'waits for the busiest GPU of the round'],
  [`background:${COLOURS.K}`, 'copies. Each number of tokens has its own scale'],
];
const percent = share => `${Math.round(100 * share)} %`;
const nameOf = ({ name, own }) =>
  name === 'this'
    ? 'This run'
    : `${name[0].toUpperCase()}${name.slice(1)} order${own ? ' (this run)' : ''}`;
const endOf = order => `ends after ${number(order.ends.at(-1))} pairs`;

/** @type {Picture<ring.OrdersMeta, ring.RingFrame>} */
export default function (host, { meta }, context) {
  const { orders, rounds, hiding, frames } = meta,
    gpus = orders[0].waits.length,
    most = Math.max(...orders.map(order => order.ends.at(-1)));
  const asked = () => context.clock.covers.length > 0;
  let em, width, box;

  const layout = pane => {
    ({ em, width } = pane);
    box = ordersLayout(pane, { gpus, orders: orders.length, lengths: hiding?.lengths.length ?? 0 });
    return box.height;
  };
  const fitted = (texts, wide) =>
    texts.find(text => 1.06 * widest([text], `${em}px ${theme(host).font}`) <= wide) ??
    texts.at(-1);
  // The rectangle of a GPU in a round of an order.
  const placeOf = (at, gpu, round) => {
    const { pairs, ends } = orders[at],
      scale = box.bars.w / most,
      from = round ? ends[round - 1] : 0,
      y = box.tops[at] + box.name + gpu * box.line;
    return {
      ...{ x: box.bars.x + from * scale, y, high: box.line - 2 },
      ...{ works: pairs[round][gpu] * scale, wide: (ends[round] - from) * scale },
    };
  };

  const addOrder = (made, paint, at, now) => {
    const order = orders[at],
      top = box.tops[at];
    made.text(
      `order ${at}`,
      [0, top + 1.1 * em, box.bars.x + box.bars.w],
      `${nameOf(order)}: ${endOf(order)}`,
      {
        bold: true,
      },
    );
    made.text(`waits ${at}`, [width - 0.3 * em, top + 1.1 * em], 'waits', { align: 'right' });
    for (let gpu = 0; gpu < gpus; gpu++) {
      order.pairs.forEach((_, round) => {
        const { x, y, high, works, wide } = placeOf(at, gpu, round),
          done = round <= now;
        if (works)
          made.rect(`works ${at} ${gpu} ${round}`, [x, y, Math.max(1, works - 1), high], {
            fill: blend(rgb(COLOURS.S), rgb(paint.background), done ? 1 : 0.3),
          });
        if (wide - works > 1)
          made.add(`idle ${at} ${gpu} ${round}`, 'hatch', [x + works, y, wide - works - 1, high], {
            ...{ stroke: paint.text, gap: 0.5 * em, width: 1, alpha: done ? 0.75 : 0.3 },
          });
      });
      const base = top + box.name + (gpu + 0.5) * box.line + 0.3 * em,
        size = Math.min(em, box.line);
      made.text(`gpu ${at} ${gpu}`, [0, base], `GPU ${gpu}`, { size });
      made.text(`wait ${at} ${gpu}`, [width - 0.3 * em, base], percent(order.waits[gpu]), {
        ...{ size, align: 'right' },
      });
    }
    const { x, y, wide } = placeOf(at, 0, now);
    made.rect(`now ${at}`, [x - 1, y - 2, wide + 1, gpus * box.line + 2], {
      ...{ stroke: paint.text, width: 1.5, ease: 'both' },
    });
    made.text(`round ${at}`, [x + wide / 2, y + gpus * box.line + 1 * em], `round ${now + 1}`, {
      align: 'center',
    });
  };
  const addHiding = made => {
    const top = box.hiding;
    made.text(
      'hiding title',
      [0, top + 1.1 * em, width],
      fitted(
        [
          `Copies run during the products. Time of each, ${hiding.said}`,
          `Copies and products, ${hiding.said}`,
        ],
        width,
      ),
      { bold: true },
    );
    hiding.lengths.forEach(({ tokens: length, us }, n) => {
      const y = top + box.name + n * 2.6 * em,
        { x, w } = box.bars,
        room = w - 3 * em;
      made.text(`length ${n}`, [0, y + 0.85 * em], number(length));
      made.text(`length of ${n}`, [0, y + 2 * em], 'tokens');
      us.forEach((value, kind) => {
        const line = y + kind * 1.15 * em,
          wide = Math.max(2, (0.72 * room * value) / us[0]),
          said = `${kind ? 'copies' : 'products'} ${(value / 1000).toPrecision(3)} ms`;
        made.rect(`time ${n} ${kind}`, [x, line, wide, 1 * em], {
          fill: kind ? COLOURS.K : COLOURS.S,
        });
        made.text(
          `time text ${n} ${kind}`,
          [x + wide + 0.4 * em, line + 0.85 * em],
          kind ? `${said} (${percent(value / us[0])})` : said,
        );
      });
    });
    const y = top + box.name + hiding.lengths.length * 2.6 * em,
      equal = `equal at about ${number(hiding.equal)} tokens on each GPU (computed)`,
      longest = hiding.lengths.at(-1).tokens,
      whole = Object.entries(hiding.orders).map(
        ([name, us]) => `${name} ${(us / 1000).toPrecision(3)} ms`,
      );
    made.text(
      'rule',
      [0, y + 1 * em, width],
      fitted(
        [
          `Twice the tokens: twice the bytes, four times the products. So on ${hiding.place}, both are ${equal}.`,
          `On ${hiding.place}, both are ${equal}.`,
        ],
        width,
      ),
    );
    if (whole.length > 1)
      made.text(
        'whole',
        [0, y + 2.4 * em, width],
        fitted(
          [
            `The whole ring, recorded on ${hiding.place}, ${number(longest)} tokens, causal mask: ${whole.join(', ')}.`,
            `Recorded on ${hiding.place}, ${number(longest)} tokens: ${whole.join(', ')}`,
            `Recorded, ${number(longest)} tokens: ${whole.join(', ')}`,
          ],
          width,
        ),
      );
  };
  const marks = ({ step, paint }) => {
    const made = new Marks(em),
      now = rounds[Math.min(step, rounds.length - 1)];
    orders.forEach((_, at) => addOrder(made, paint, at, now));
    if (hiding && !asked()) addHiding(made);
    return made.list;
  };

  // {order: its name} at its name, {order, gpu, step} at a bar, or without a step next to its bars.
  const locate = (px, py) => {
    for (const [at, { name, ends }] of orders.entries()) {
      const top = box.tops[at];
      if (py >= top && py < top + box.name) return { order: name };
      const gpu = Math.floor((py - top - box.name) / box.line);
      if (gpu < 0 || gpu >= gpus) continue;
      const step = ends.findIndex((_, n) => {
        const { x, wide } = placeOf(at, gpu, n);
        return px >= x && px < x + wide;
      });
      return { order: name, gpu, ...(step >= 0 && { step }) };
    }
    return null;
  };
  const describe = ({ order: name, gpu, step }) => {
    const order = orders.find(one => one.name === name),
      { pairs, ends, waits } = order;
    if (gpu === undefined) return `${nameOf(order)} ${endOf(order)} of its busiest GPUs`;
    const idle = `waits in the whole run: ${percent(waits[gpu])}`;
    if (step === undefined) return `${nameOf(order)}, GPU ${gpu}, ${idle}`;
    const mine = pairs[step][gpu],
      all = ends[step] - (step ? ends[step - 1] : 0),
      rest = mine < all ? `waits for ${exact(all - mine)}` : 'does not wait';
    return `${nameOf(order)}, GPU ${gpu}, round ${step + 1}: ${exact(mine)} pairs, ${rest}\n${idle}`;
  };
  const label = step =>
    `${frames[step].title}. ${orders.map(order => `${nameOf(order)} ${endOf(order)}`).join('. ')}`;
  return canvasView(host, context, {
    ...{ title: 'Work', layout, marks, ms: () => 280, locate, describe, label, legend: LEGEND },
  });
}
