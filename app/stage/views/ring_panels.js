// Next to a ring: the same rounds in another order, and the bars of its first and last picture.
import { blend, COLOURS, number, rgb, smallText, widest } from '../core/paint.js';
import { wrapped } from '../core/wrapped.js';

const FILL = {
  memory: COLOURS.V,
  products: COLOURS.S,
  copies: COLOURS.K,
  time: COLOURS.S,
};

/**
 * The pairs of each GPU, round after round, as far as a step: a block of lines for each order, and the sum of
 * its busiest GPUs.
 */
export function addWork(made, paint, { orders, round, narrow }, [x, y, w]) {
  const { em } = made,
    most = Math.max(...orders.map(order => order.ends.at(-1))),
    label = 3.6 * em,
    scale = (w - label - 0.4 * em) / most,
    line = 1.1 * em;
  let top = y;
  const sumOf = ({ ends }) => {
    const each = ends.slice(0, round + 1).map((end, n) => number(end - (n ? ends[n - 1] : 0)));
    return each.length > 1 ? `${each.join(' + ')} = ${number(ends[round])}` : each[0];
  };
  if (narrow) {
    orders.forEach((order, at) =>
      made.text(
        `work sum ${at}`,
        [x, y + 1.4 * em * at, w],
        `${order.name}: ${sumOf(order)} pairs`,
      ),
    );
    return;
  }
  orders.forEach((order, at) => {
    const { name, own, pairs, ends } = order;
    made.text(
      `work name ${at}`,
      [x, top, w],
      `${name[0].toUpperCase()}${name.slice(1)} order${own ? ' (this run)' : ''}`,
      { bold: true },
    );
    pairs[0].forEach((_, gpu) => {
      const base = top + 0.5 * em + gpu * line;
      made.text(`work gpu ${at} ${gpu}`, [x, base + 0.85 * em], `GPU ${gpu}`, {
        size: smallText(em),
      });
      for (let n = 0; n <= round; n++) {
        const from = n ? ends[n - 1] : 0,
          left = x + label + from * scale,
          wide = (ends[n] - from) * scale,
          works = pairs[n][gpu] * scale;
        if (works)
          made.rect(`work ${at} ${gpu} ${n}`, [left, base, Math.max(1, works - 1), line - 2], {
            fill: blend(rgb(COLOURS.S), rgb(paint.background), n === round ? 1 : 0.5),
          });
        if (wide - works > 1)
          made.add(
            `idle ${at} ${gpu} ${n}`,
            'hatch',
            [left + works, base, wide - works - 1, line - 2],
            { stroke: paint.text, gap: 0.45 * em, width: 1, alpha: n === round ? 0.8 : 0.4 },
          );
      }
    });
    top += (1.5 + pairs[0].length * 1.1) * em;
    made.text(`work sum ${at}`, [x, top, w], `${sumOf(order)} pairs`, { mono: true });
    top += 1.9 * em;
  });
  if (round === orders[0].pairs.length - 1) {
    const [own, other] = orders.map(order => order.ends.at(-1));
    made.text(
      'work gain',
      [x, top, w],
      `${number(other)} / ${number(own)} = ${(other / own).toFixed(2)} (computed, not measured)`,
      { bold: true },
    );
  } else made.text('work gain', [x, top, w], 'Hatched: waits for the busiest GPU');
}

/** The owner of each piece of the text in some orders: a row of cells for each [name, pieces of each GPU]. */
export function addOwners(made, paint, orders, count, { x, y, w }, [colourOf, inkOn]) {
  const { em } = made,
    font = `${em}px ${paint.font}`,
    names = orders.map(([name]) => `${name[0].toUpperCase()}${name.slice(1)} order`),
    from = x + widest(names, font) + 0.8 * em,
    cell = Math.min(7 * em, (x + w - from) / count);
  made.text('owners', [x, y, w], `Who has which of the ${count} pieces of the text`, {
    bold: true,
  });
  orders.forEach(([, pieces], at) => {
    const top = y + (0.9 + 2.1 * at) * em;
    made.text(`owners ${at}`, [x, top + 1.25 * em], names[at]);
    for (let piece = 0; piece < count; piece++) {
      const gpu = pieces.findIndex(own => own.includes(piece)),
        left = from + piece * cell;
      made.rect(`owner ${at} ${piece}`, [left, top, cell - 2, 1.8 * em], { fill: colourOf(gpu) });
      const said = [`GPU ${gpu}`, String(gpu)].find(text => widest([text], font) < cell - 4) ?? '';
      made.text(`owner text ${at} ${piece}`, [left + cell / 2, top + 1.25 * em], said, {
        ...{ align: 'center', fill: inkOn(colourOf(gpu)) },
      });
    }
  });
}

/** Groups of bars, side by side or one below the other. bar: their height in em. Returns the end of the longest. */
export function addFigures(made, paint, figures, { x, y, w, narrow, bar = 1.5 }) {
  const { em } = made,
    size = smallText(em),
    each = narrow ? w : (w - 2 * em) / figures.length;
  let top = y,
    end = y;
  figures.forEach(({ title, bars, limit, notes }, at) => {
    const left = narrow ? x : x + at * (each + 2 * em),
      font = `${em}px ${paint.font}`,
      label = widest(
        bars.map(bar => bar.name),
        font,
      ),
      ends = widest(
        bars.map(bar => bar.text),
        font,
      ),
      inside = ends > 0.4 * each, // long texts are in or after their bars
      most = Math.max(...bars.map(bar => bar.value), limit[0] ?? 0),
      room = each - label - 0.8 * em - (inside ? 0 : ends + 0.8 * em),
      scale = room / most,
      from = left + label + 0.8 * em;
    if (!narrow) top = y;
    made.text(`figure ${at}`, [left, top, each], title, { bold: true });
    top += 0.9 * em;
    const first = top;
    bars.forEach(({ name, value, text, kind }, n) => {
      made.text(`figure name ${at} ${n}`, [left, top + (bar / 2 + 0.36) * em], name);
      made.rect(`figure bar ${at} ${n}`, [from, top, Math.max(2, value * scale), bar * em], {
        fill: blend(rgb(FILL[kind]), rgb(paint.background), inside ? 0.45 : 0.85),
      });
      made.text(
        `figure text ${at} ${n}`,
        [inside ? from + 0.4 * em : from + value * scale + 0.4 * em, top + (bar / 2 + 0.36) * em],
        text,
        { bold: true },
      );
      top += (bar + 0.4) * em;
    });
    if (limit.length) {
      const line = from + limit[0] * scale;
      made.add(`limit ${at}`, 'line', [line, first - 0.2 * em, 0, top - first + 0.3 * em], {
        ...{ stroke: paint.text, width: 2, dash: [4, 3] },
      });
      made.text(`limit text ${at}`, [line, top + 0.9 * em], limit[1], { align: 'center' });
      top += 1.3 * em;
    }
    top += 0.5 * em;
    const shown = narrow && figures.length > 1 ? notes.slice(1, at + 1) : notes; // little room
    shown
      .flatMap(note => wrapped(note, each, 5, text => widest([text], `${size}px ${paint.font}`)))
      .forEach((line, n) => {
        made.text(`figure note ${at} ${n}`, [left, top + size, each], line, { size });
        top += 1.35 * size;
      });
    top += 1.6 * em;
    end = Math.max(end, top);
  });
  return end;
}
