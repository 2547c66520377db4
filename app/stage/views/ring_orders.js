// The orders of a ring one above the other: a line for each GPU, as long as its pairs, and hatched
// where it waits for the busiest GPU of the step.
import { blend, COLOURS, exact, number, rgb } from '../core/paint.js';

const LABEL = 1.4, // em: the number of a GPU
  SHARE = 3; // em: the share of the time that it waits

export const percent = share => `${Math.round(100 * share)} %`;
const nameOf = ({ name, own }) =>
  name === 'this' ? 'this run' : `${name} order${own ? ' (this run)' : ''}`;

const endOf = order => `busiest GPUs ${number(order.ends.at(-1))} pairs`;

// The rectangle of a GPU in a step of an order. area: [x, y, w].
function placeOf([x, y, w], box, em, orders, at, gpu, step) {
  const { pairs, ends } = orders[at],
    most = Math.max(...orders.map(order => order.ends.at(-1))),
    scale = (w - (LABEL + SHARE) * em) / most,
    from = step ? ends[step - 1] : 0,
    top = y + at * box.named + box.name + gpu * box.line;
  return {
    ...{ x: x + LABEL * em + from * scale, y: top, high: box.line - 1 },
    ...{ works: pairs[step][gpu] * scale, wide: (ends[step] - from) * scale },
  };
}

// Adds the marks. now: the step of the ring.
export function addOrders(made, paint, { orders, now }, box, fitted) {
  const { em } = made,
    [x, y, w] = box.orders,
    size = Math.min(em, box.line);
  made.text(
    'orders title',
    [x, y - 0.1 * em],
    fitted(
      ['Pairs and idle share of each GPU, if copies hide', 'Pairs and idle share', 'Idle share'],
      w - 4 * em,
    ),
    { bold: true },
  );
  made.text('waits title', [x + w, y - 0.1 * em], 'waits', { align: 'right' });
  orders.forEach((order, at) => {
    const gpus = order.waits.length,
      top = y + at * box.named,
      ends = endOf(order);
    made.text(
      `order ${at}`,
      [x, top + 1.1 * em],
      fitted([`${nameOf(order)}: ${ends}`, `${order.name}: ${ends}`, nameOf(order)], w),
      { bold: order.own && orders.length > 1 },
    );
    for (let gpu = 0; gpu < gpus; gpu++) {
      order.pairs.forEach((_, step) => {
        const {
            x: left,
            y: line,
            high,
            works,
            wide,
          } = placeOf(box.orders, box, em, orders, at, gpu, step),
          done = step <= now;
        if (works)
          made.rect(`order ${at} ${gpu} ${step}`, [left, line, Math.max(1, works - 1), high], {
            fill: blend(rgb(COLOURS.S), rgb(paint.background), done ? 1 : 0.3),
          });
        if (wide - works > 1)
          made.add(
            `order idle ${at} ${gpu} ${step}`,
            'hatch',
            [left + works, line, wide - works - 1, high],
            {
              ...{ stroke: paint.text, gap: 0.5 * em, width: 1, alpha: done ? 0.75 : 0.3 },
            },
          );
      });
      if (size < 0.7 * em) continue;
      const base = top + box.name + gpu * box.line + 0.5 * box.line + 0.36 * size;
      made.text(`order gpu ${at} ${gpu}`, [x, base], String(gpu), { size });
      made.text(`order wait ${at} ${gpu}`, [x + w, base], percent(order.waits[gpu]), {
        ...{ size, align: 'right' },
      });
    }
    const { x: left, y: line, wide } = placeOf(box.orders, box, em, orders, at, 0, now);
    made.rect(`order now ${at}`, [left - 1, line - 1.5, wide + 1, gpus * box.line + 2], {
      ...{ stroke: paint.text, ease: 'both' },
    });
  });
}

// The thing of the orders at a point: {order: its name} at its name, {order, gpu, step} at a bar,
// or without a step next to its bars.
export function locateOrders(px, py, orders, box, em) {
  const [left, , w] = box.orders;
  if (px < left || px >= left + w) return null;
  for (const [at, { name, waits, ends }] of orders.entries()) {
    const top = box.orders[1] + at * box.named + 0.3 * em;
    if (py >= top && py < top + box.name - 0.3 * em) return { order: name };
    for (let gpu = 0; gpu < waits.length; gpu++) {
      const { y } = placeOf(box.orders, box, em, orders, at, gpu, 0);
      if (py < y || py >= y + box.line) continue;
      const step = ends.findIndex((_, n) => {
        const { x, wide } = placeOf(box.orders, box, em, orders, at, gpu, n);
        return px >= x && px < x + wide;
      });
      return { order: name, gpu, ...(step >= 0 && { step }) };
    }
  }
  return null;
}

export function describeOrder({ order: name, gpu, step }, orders) {
  const order = orders.find(one => one.name === name),
    { pairs, ends, waits } = order;
  if (gpu === undefined) return `${nameOf(order)}: ${endOf(order)} over all steps`;
  const idle = `idle in all steps: ${percent(waits[gpu])}`;
  if (step === undefined) return `${nameOf(order)}, GPU ${gpu}, ${idle}`;
  const mine = pairs[step][gpu],
    most = ends[step] - (step ? ends[step - 1] : 0),
    rest = mine < most ? `waits for ${exact(most - mine)}` : 'does not wait';
  return `${nameOf(order)}, GPU ${gpu}, step ${step}: ${exact(mine)} pairs, ${rest}\n${idle}`;
}
