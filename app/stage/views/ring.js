// Attention over several GPUs: what each GPU holds, what is on its way, how the parts of one row become
// one, and which GPUs wait. Keys have the colour of the GPU that they started on.
import { canvasView } from '../core/canvas.js';
import { Marks } from '../core/kinds.js';
import { COLOURS, PALETTE, blend, exact, rgb, smallText, theme, widest } from '../core/paint.js';
import { ringLayout } from './layouts/ring.js';
import { addMerge, describeMerge, locateMerge } from './ring_merge.js';
import { addOrders, describeOrder, locateOrders } from './ring_orders.js';

const PARTS = [...PALETTE.sequences, PALETTE.axis],
  colourOf = part => PARTS[part % PARTS.length];
// Black or white, whichever is clearer on a colour.
const inkOn = colour => {
  const [r, g, b] = rgb(colour).map(v => (v / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? '#000' : '#fff';
};
const HATCH = 'background:repeating-linear-gradient(135deg,currentColor 0 1px,transparent 1px 5px)';
const LEGEND = [
  [
    `background:linear-gradient(90deg,${colourOf(0)} 50%,${colourOf(1)} 50%)`,
    'K and V, in the colour of their first GPU',
  ],
  [`background:${COLOURS.S}`, 'pairs: a query times a key'],
  [`border:1px solid currentColor;${HATCH}`, 'waits'],
  [`border:2px solid ${COLOURS.P}`, 'the followed query'],
];

export default function (host, { meta }, context) {
  const {
      frames,
      pieces,
      size,
      device,
      place,
      heads,
      bytes,
      label: held,
      masked,
      dims,
      orders,
    } = meta,
    gpus = pieces.length,
    count = Math.max(...pieces.flat()) + 1,
    ownerOf = piece => pieces.findIndex(own => own.includes(piece)),
    frameAt = step => frames[Math.min(step, frames.length - 1)];
  let em, width, box;

  const layout = pane => {
    ({ em, width } = pane);
    box = ringLayout(pane, { gpus, orders: orders.length }, heads);
    return box.height;
  };
  const boxOf = gpu => [
    box.gap + (gpu % box.columns) * (box.boxW + box.gap),
    box.top + Math.floor(gpu / box.columns) * box.across,
  ];
  const fitted = (texts, wide) =>
    texts.find(text => widest([text], `${em}px ${theme(host).font}`) <= wide) ?? '';
  const ranges = own => {
    const last = piece => (piece + 1) * size - 1;
    return own.map(piece => `${piece * size}\u2013${last(piece)}`).join(', ');
  };

  // The queries of each GPU and their size of text, all in the longest form that fits.
  const ownNames = wide => {
    if (heads)
      return [pieces.map((_, gpu) => fitted([`head group ${gpu}`, `heads ${gpu}`], wide)), em];
    const forms = ['queries ', 'Q ', ''].map(what => pieces.map(own => what + ranges(own))),
      fits = form => form.every(text => fitted([text], wide)),
      form = forms.find(fits);
    return form ? [form, em] : [forms[2], smallText(em)];
  };
  const addGpu = (made, paint, frame, gpu, [own, small]) => {
    const { boxW, boxH } = box,
      [x, y] = boxOf(gpu),
      { part, share, pairs } = frame.devices[gpu],
      inner = boxW - em,
      works = share > 0;
    made.rect(`gpu ${gpu}`, [x + 0.5, y + 0.5, boxW, boxH], {
      stroke: works ? paint.text : paint.border,
      width: works ? 2 : 1,
    });
    made.text(`name ${gpu}`, [x + 0.5 * em, y + 1.2 * em], `GPU ${gpu}`, { bold: true });
    made.text(
      `pairs ${gpu}`,
      [x + boxW - 0.5 * em, y + 1.2 * em],
      fitted([`${pairs.toLocaleString('en')} pairs`, pairs.toLocaleString('en')], boxW - 4.5 * em),
      { align: 'right' },
    );
    made.text(`rows ${gpu}`, [x + 0.5 * em, y + 2.5 * em, inner], own, { size: small });
    // K and V of a part: their mark moves with the part from box to box
    made.rect(`kv ${part}`, [x + 0.5 * em, y + 3 * em, inner, 1.5 * em], {
      fill: colourOf(part),
      ease: 'both',
    });
    made.text(
      `kv text ${gpu} ${part}`,
      [x + boxW / 2, y + 4.1 * em],
      fitted(
        [heads ? 'K, V of its heads' : `K, V of GPU ${part}`, `K, V ${part}`, String(part)],
        inner - 0.4 * em,
      ),
      { align: 'center', fill: inkOn(colourOf(part)), bold: true },
    );
    made.rect(`bar ${gpu}`, [x + 0.5 * em, y + 5.1 * em, inner, 0.9 * em], { fill: paint.panel });
    made.rect(`work ${gpu}`, [x + 0.5 * em, y + 5.1 * em, inner * share, 0.9 * em], {
      fill: COLOURS.S,
      ease: 'both',
    });
    if (share < 1)
      made.add(
        `idle ${gpu}`,
        'hatch',
        [x + 0.5 * em + inner * share, y + 5.1 * em, inner * (1 - share), 0.9 * em],
        {
          ...{ stroke: paint.text, width: 1, gap: 0.5 * em },
        },
      );
    if (!works) plate(made, paint, gpu, x + boxW / 2, y + 5.55 * em);
    if (!works)
      made.text(`waits ${gpu}`, [x + boxW / 2, y + 5.9 * em], fitted(['waits'], inner), {
        align: 'center',
      });
  };
  // A ground for the word over slanted lines.
  const plate = (made, paint, gpu, x, y) =>
    made.rect(`waits plate ${gpu}`, [x - 1.8 * em, y - 0.45 * em, 3.6 * em, 0.9 * em], {
      fill: paint.background,
    });
  const addMoves = (made, paint, frame) => {
    const { boxW, boxH } = box;
    for (const [source, target, part] of frame.moves) {
      const [x0, y0] = boxOf(source),
        [x1, y1] = boxOf(target),
        from = [x0 + boxW / 2, y0 + boxH],
        next = y0 === y1 && x1 > x0 && !heads,
        lane = y0 + boxH + (next ? 0.65 : 1.6) * em,
        to = [x1 + boxW / 2 - (next ? 0 : 0.8 * em), y1 + boxH],
        across = y0 !== y1, // to another row of GPUs: only its start, and where it goes
        points = across
          ? [from, [from[0], lane + 0.4 * em]]
          : [from, [from[0], lane], [to[0], lane], to];
      if (next) ((points[0] = [from[0] + 0.8 * em, from[1]]), (points[1] = [points[0][0], lane]));
      made.add(`way ${source} ${target}`, 'way', null, {
        points,
        stroke: colourOf(part),
        head: 0.4 * em,
        grown: 1,
        enter: { grown: 0 },
        span: [0, 0.6],
      });
      const middle = across ? from[0] - 2 * em : (points[1][0] + to[0]) / 2;
      if (across) made.text(`to ${source}`, [from[0] + 0.6 * em, lane + 0.4 * em], `to ${target}`);
      made.rect(`copy ${part}`, [middle - em, lane - 0.45 * em, 2 * em, 0.9 * em], {
        fill: colourOf(part),
        enter: { rect: [from[0] - em, from[1] - em, 2 * em, 0.9 * em] },
        ease: 'both',
      });
    }
  };
  // Which queries have met which keys. A cell has the colour of its keys' first GPU.
  const addMap = (made, paint, frame, step) => {
    const { side } = box,
      [mapX, mapY] = box.map,
      cell = side / count;
    made.text(
      'map title',
      [mapX, mapY - 0.5 * em],
      fitted(['Queries (down) and keys met so far', 'Queries, keys met', 'Q and K'], side + em),
      { bold: true },
    );
    made.rect('map', [mapX, mapY, side, side], { fill: paint.panel });
    const before = frames.slice(0, step + 1).filter(f => f.kind === 'products');
    for (const one of before)
      for (const [gpu, { cells, part }] of one.devices.entries())
        for (const [row, key] of cells) {
          const now = one.step === frame.step;
          made.rect(
            `cell ${row} ${key} ${gpu}`,
            [mapX + key * cell, mapY + row * cell, cell - 1, cell - 1],
            {
              fill: now ? colourOf(part) : blend(rgb(colourOf(part)), rgb(paint.background), 0.35),
            },
          );
        }
    for (let piece = 0; piece < count; piece++)
      if (cell >= 0.9 * em)
        made.text(
          `row ${piece}`,
          [mapX - 0.4 * em, mapY + (piece + 0.5) * cell + 0.35 * em],
          String(ownerOf(piece)),
          { align: 'right' },
        );
    const row = Math.floor(place / size);
    made.rect('followed', [mapX, mapY + row * cell, side, cell - 1], {
      stroke: COLOURS.P,
      width: 2,
    });
    made.text(
      'map note',
      [mapX - 1.4 * em, mapY + side + 1.2 * em],
      fitted(
        [
          'Left: the GPU of the queries. Pale: earlier steps',
          'Left: the GPU of the queries',
          'Left: GPU',
        ],
        side + 3 * em,
      ),
    );
    if (masked)
      made.text(
        'masked',
        [mapX + side - 0.5 * em, mapY + 1.2 * em],
        fitted(['hidden by the mask', 'masked'], 0.6 * side),
        { align: 'right', alpha: 0.7 },
      );
  };

  const marks = ({ step, paint }) => {
    const made = new Marks(em),
      frame = frameAt(step);
    const [own, small] = ownNames(box.boxW - em),
      area = box.merge;
    made.text(
      'held',
      [box.gap, 1.1 * em],
      fitted([held[0].toUpperCase() + held.slice(1), held.split(': ')[1], ''], width - box.gap),
    );
    for (let gpu = 0; gpu < gpus; gpu++) addGpu(made, paint, frame, gpu, [own[gpu], small]);
    addMoves(made, paint, frame);
    if (!heads) addMap(made, paint, frame, step);
    addMerge(made, paint, { frames, step, place, device, dims }, area, fitted);
    addOrders(made, paint, { orders, now: frame.step }, box, fitted);
    return made.list;
  };
  const locate = (x, y) => {
    for (let gpu = 0; gpu < gpus; gpu++) {
      const [bx, by] = boxOf(gpu);
      if (x >= bx && x < bx + box.boxW && y >= by && y < by + box.boxH) return { gpu };
    }
    const { side } = box,
      [mapX, mapY] = box.map,
      cell = side / count,
      row = Math.floor((y - mapY) / cell),
      key = Math.floor((x - mapX) / cell);
    if (side && row >= 0 && row < count && key >= 0 && key < count) return { row, key };
    return locateMerge(x, y, box.merge, em) ?? locateOrders(x, y, orders, box, em);
  };
  const describe = (at, step) => {
    const frame = frameAt(step);
    if ('order' in at) return describeOrder(at, orders);
    if ('merge' in at || 'o' in at) return describeMerge(at, frames, step);
    if ('gpu' in at) {
      const { part, pairs } = frame.devices[at.gpu];
      const sent = frame.moves.filter(([source]) => source === at.gpu).length * bytes;
      return (
        `GPU ${at.gpu}: ${heads ? 'its own heads' : `queries ${ranges(pieces[at.gpu])}`}\n` +
        `K and V of GPU ${part}, ${exact(pairs)} pairs, ${exact(sent)} bytes sent`
      );
    }
    const met = frames
      .slice(0, step + 1)
      .find(f => f.devices.some(d => d.cells.some(([r, k]) => r === at.row && k === at.key)));
    return (
      `queries ${ranges([at.row])} (GPU ${ownerOf(at.row)}), ` +
      `keys ${ranges([at.key])} (first on GPU ${ownerOf(at.key)}): ` +
      (met ? `met in step ${met.step}` : 'not met so far')
    );
  };
  const label = step => `${frameAt(step).title}. ${frameAt(step).sentence}`;
  return canvasView(host, context, {
    title: 'GPUs',
    layout,
    marks,
    ms: () => 280,
    locate,
    describe,
    label,
    legend: LEGEND,
  });
}
