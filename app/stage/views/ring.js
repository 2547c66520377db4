// Attention over several GPUs: what each GPU holds, what is on its way to the next one, which queries
// have met which keys, and how the parts of one row become one. Keys have the colour of the GPU that
// they started on.
import { canvasView } from '../core/canvas.js';
import { Marks } from '../core/kinds.js';
import { blend, COLOURS, exact, PALETTE, rgb, smallText, theme, widest } from '../core/paint.js';
import { placeInRing, ringLayout } from './layouts/ring.js';
import { addMerge, describeMerge, locateMerge } from './ring_merge.js';
import { addFigures, addOwners, addWork } from './ring_panels.js';

const PARTS = [...PALETTE.sequences, PALETTE.axis],
  colourOf = part => PARTS[part % PARTS.length];
// Black or white, whichever is clearer on a colour.
const inkOn = colour => {
  const [r, g, b] = rgb(colour).map(v => (v / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? '#000' : '#fff';
};
const isOpening = frame => frame.kind === 'figures';
const two = (a, b) => `background:linear-gradient(90deg,${a} 50%,${b} 50%)`;
const LEGEND = [
  [two(colourOf(0), colourOf(1)), 'K and V, in the colour of their first GPU'],
  [`background:${COLOURS.P};height:3px`, 'the followed query'],
  ['border:1.5px dashed currentColor', 'second buffer. Pale there: for the next round'],
  ['', 'pale in a map: an earlier round'],
];
// The lower left half of a cell: a query meets no later key.
const KINDS = {
  half(g, { rect: [x, y, w, h], fill }) {
    g.fillStyle = fill;
    g.beginPath();
    g.moveTo(x, y);
    g.lineTo(x + w, y + h);
    g.lineTo(x, y + h);
    g.fill();
  },
};

/** @type {Picture<ring.RingMeta>} */
export default function (host, { meta }, context) {
  const {
      frames,
      pieces,
      size,
      device,
      place,
      heads,
      bytes,
      gpus: named,
      label: held,
      masked,
      dims,
      shown,
      orders,
      other,
    } = meta,
    gpus = pieces.length,
    count = Math.max(...pieces.flat()) + 1,
    ownerOf = piece => pieces.findIndex(own => own.includes(piece)),
    frameAt = step => frames[Math.min(step, frames.length - 1)];
  let em, width, height, box;

  const layout = pane => {
    ({ em, width, height } = pane);
    box = ringLayout(pane, gpus, heads, !!other);
    return box.height;
  };
  const boxOf = gpu => {
    const [column, row] = placeInRing(gpu, box.columns),
      all = box.columns * (box.boxW + box.gap) - box.gap;
    return [(width - all) / 2 + column * (box.boxW + box.gap), box.top + row * box.across];
  };
  const fitted = (texts, wide, more = 0) =>
    texts.find(text => (1 + more) * widest([text], `${em}px ${theme(host).font}`) <= wide) ?? '';
  const ranges = own => {
    const last = piece => (piece + 1) * size - 1;
    return own.map(piece => `${piece * size}\u2013${last(piece)}`).join(', ');
  };

  // ---- the GPUs ----
  // The place of K and V in a GPU. slot: 0 in use, 1 arriving.
  const slotOf = (gpu, slot) => {
    const [x, y] = boxOf(gpu);
    return [x + 0.5 * em, y + (2.9 + slot * 1.75) * em, box.boxW - em, 1.5 * em];
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
  // The parts of the keys that a GPU has met up to a step.
  const met = (gpu, step) => {
    const done = frames.slice(0, step + 1).filter(f => f.kind === 'merge');
    return done.filter(f => f.devices[gpu].pairs).length;
  };
  const addGpu = (made, paint, step, gpu, [own, small]) => {
    const frame = frameAt(step),
      { boxW, boxH } = box,
      [x, y] = boxOf(gpu),
      { pairs } = frame.devices[gpu],
      inner = boxW - em,
      works = pairs > 0;
    made.rect(`gpu ${gpu}`, [x + 0.5, y + 0.5, boxW, boxH], {
      stroke: works ? paint.text : paint.border,
      width: works ? 2 : 1,
    });
    made.text(`name ${gpu}`, [x + 0.5 * em, y + 1.2 * em], `GPU ${gpu}`, { bold: true });
    const said =
      frame.kind === 'figures'
        ? ''
        : works
          ? exact(pairs).replace(/\B(?=(\d{3})+$)/, ',')
          : 'waits';
    made.text(
      `pairs ${gpu}`,
      [x + boxW - 0.5 * em, y + 1.2 * em],
      works && said ? fitted([`${said} pairs`, said], boxW - 4.5 * em) : said,
      { align: 'right', bold: !works },
    );
    made.text(`rows ${gpu}`, [x + 0.5 * em, y + 2.4 * em, inner], own, { size: small });
    if (box.narrow) return;
    const parts = met(gpu, step);
    made.text(
      `sums ${gpu}`,
      [x + 0.5 * em, y + 7.15 * em, inner],
      parts ? `m, l, O of ${parts} part${parts > 1 ? 's' : ''}` : 'm, l, O: none so far',
      { alpha: parts ? 1 : 0.7 },
    );
  };
  // K and V in a slot. The mark of a part keeps its id from its arrival to its use.
  const addSlot = (made, paint, { gpu, slot, part, id, said, pale, from }) => {
    const at = slotOf(gpu, slot),
      [x, y, w] = at,
      fill = pale ? blend(rgb(colourOf(part)), rgb(paint.background), 0.4) : colourOf(part);
    made.rect(id, at, { fill, ease: 'both', ...(from && { enter: { rect: from } }) });
    if (pale) made.rect(`${id} edge`, at, { stroke: colourOf(part), width: 1.5, dash: [4, 3] });
    made.text(`${id} text ${gpu}`, [x + w / 2, y + 1.1 * em, w - 4], fitted(said, w - 4, 0.04), {
      ...{ align: 'center', bold: !pale, fill: pale ? paint.text : inkOn(colourOf(part)) },
    });
  };
  const addSlots = (made, paint, frame) => {
    const hides = pairs => (pairs ? '' : ', hidden');
    frame.devices.forEach(({ part, pairs }, gpu) => {
      const own = [
        `K, V of GPU ${part}${hides(pairs)}`,
        `K, V ${part}${hides(pairs)}`,
        `K, V ${part}`,
      ];
      addSlot(made, paint, {
        ...{ gpu, slot: 0, part, pale: !pairs, id: `kv ${part} ${frame.step}`, from: null },
        said: heads ? ['K, V of its heads', 'K, V'] : [...own, String(part)],
      });
      if (heads || gpus < 2) return;
      const coming = !isOpening(frame) && frame.moves.find(([, target]) => target === gpu);
      if (!coming) {
        const at = slotOf(gpu, 1);
        made.rect(`free ${gpu}`, at, { stroke: paint.border, dash: [3, 3] });
        made.text(`free text ${gpu}`, [at[0] + at[2] / 2, at[1] + 1.1 * em], 'second buffer', {
          ...{ align: 'center', alpha: 0.7 },
        });
        return;
      }
      const [source, , next] = coming,
        now =
          frame.kind === 'products' ? ': arrives' : frame.kind === 'merge' ? ': next round' : '';
      addSlot(made, paint, {
        ...{ gpu, slot: 1, part: next, pale: true, id: `kv ${next} ${frame.step + 1}` },
        said: [`K, V of GPU ${next}${now}`, `K, V ${next}${now}`, `K, V ${next}`],
        from: slotOf(source, 0),
      });
    });
  };
  // The way of a copy: from K and V in use to the free buffer of the next GPU.
  const wayOf = (source, target) => {
    const [from, to] = [slotOf(source, 0), slotOf(target, 1)],
      [column, row] = placeInRing(source, box.columns),
      [toColumn, toRow] = placeInRing(target, box.columns),
      back = row % 2 === 1, // this row runs to the left
      half = 0.5 * box.gap,
      out = back ? from[0] - 0.5 * em : from[0] + from[2] + 0.5 * em,
      y0 = from[1] + 0.75 * em,
      y1 = to[1] + 0.75 * em,
      side = back ? -1 : 1;
    const start = [out - side * 0.4 * em, y0];
    if (row === toRow && toColumn - column === side) {
      const end = back ? to[0] + to[2] + 1 : to[0] - 1,
        middle = out + side * half;
      return [start, [middle, y0], [middle, y1], [end, y1]];
    }
    if (toRow === row + 1) {
      const edge = out + side * half, // to the row below
        end = back ? to[0] - 1 : to[0] + to[2] + 1;
      return [start, [edge, y0], [edge, y1], [end, y1]];
    }
    const margin = to[0] - 0.5 * em - half, // back to the first GPU
      end = [to[0] - 1, y1];
    if (back) return [start, [margin, y0], [margin, y1], end];
    const lane = boxOf(source)[1] + box.boxH + 0.9 * em;
    return [start, [out + half, y0], [out + half, lane], [margin, lane], [margin, y1], end];
  };
  const gatherWay = (source, target) => {
    const ends = [source, target].map(gpu => {
        const [x, y] = boxOf(gpu);
        return [x + box.boxW / 2, y + box.boxH];
      }),
      lane = ends[0][1] + (0.5 + 0.35 * source) * em;
    return [
      ends[0],
      [ends[0][0], lane],
      [ends[1][0] - 0.9 * em * (source - gpus / 2), lane],
    ].concat([[ends[1][0] - 0.9 * em * (source - gpus / 2), ends[1][1] + 1]]);
  };
  const addMoves = (made, paint, frame) => {
    const copies = frame.kind === 'products';
    for (const [source, target, part] of frame.moves)
      made.add(`way ${source} ${target}`, 'way', null, {
        points: heads ? gatherWay(source, target) : wayOf(source, target),
        stroke: copies ? colourOf(part) : blend(rgb(colourOf(part)), rgb(paint.background), 0.45),
        ...(isOpening(frame) && { stroke: paint.border }),
        ...{ width: 3, head: 0.42 * em, grown: 1, enter: { grown: 0 }, span: [0, 0.6] },
      });
  };

  // ---- which queries have met which keys ----
  // The rounds of an order up to a step. A cell has the colour of its keys' first GPU.
  const ownRounds = step =>
    frames
      .slice(0, step + 1)
      .filter(f => f.kind === 'products')
      .map(f => f.devices);
  const addCells = (made, paint, name, devices, [mapX, mapY, wide], owners) => {
    const cell = wide / count,
      each = Math.min(em, 0.9 * cell),
      small = cell < 0.75 * em;
    made.rect(`${name} map`, [mapX, mapY, wide, wide], { fill: paint.panel });
    devices.forEach((one, round) =>
      one.forEach(({ cells, part }, gpu) =>
        cells.forEach(([row, key]) =>
          made.add(
            `${name} cell ${row} ${key} ${gpu}`,
            masked && row === key ? 'half' : 'rect',
            [mapX + key * cell, mapY + row * cell, cell - 1, cell - 1],
            {
              fill:
                round === devices.length - 1
                  ? colourOf(part)
                  : blend(rgb(colourOf(part)), rgb(paint.background), 0.4),
            },
          ),
        ),
      ),
    );
    for (let piece = 0; piece < count && !small; piece++) {
      const owner = String(owners.findIndex(own => own.includes(piece))),
        middle = (piece + 0.5) * cell;
      made.text(`${name} row ${piece}`, [mapX - 0.4 * em, mapY + middle + 0.35 * each], owner, {
        ...{ align: 'right', size: each },
      });
      made.text(`${name} column ${piece}`, [mapX + middle, mapY - 0.3 * em], owner, {
        ...{ align: 'center', size: each },
      });
    }
    if (!small)
      made.text(`${name} of gpu`, [mapX - 2.2 * em, mapY - 0.3 * em], 'GPU', { alpha: 0.7 });
  };
  const addMap = (made, paint, step) => {
    const { side } = box,
      [mapX, mapY] = box.map,
      order = orders[0]?.name,
      forms = ['Queries (down), keys (right)', 'Q down, K right'];
    made.text(
      'map title',
      [mapX - 2.2 * em, mapY - 1.6 * em],
      fitted(
        order ? forms.map(text => `${text}, ${order}`).concat(order) : forms,
        side + 2.4 * em,
        0.06,
      ),
      { bold: true },
    );
    addCells(made, paint, 'own', ownRounds(step), [mapX, mapY, side], pieces);
    const line = mapY + ((place + 0.5) / size) * (side / count);
    if (frameAt(step).kind === 'merge')
      made.add('followed', 'line', [mapX, line, side, 0], { stroke: COLOURS.P, width: 2.5 });
    if (!masked) return;
    [['later keys: masked', 'masked'], [`a cell: ${size} x ${size}`]].forEach((texts, n) =>
      made.text(
        `masked ${n}`,
        [mapX + side - 0.5 * em, mapY + (1.2 + 1.3 * n) * em],
        fitted(texts, 0.6 * side),
        {
          ...{ align: 'right', alpha: 0.7 },
        },
      ),
    );
  };
  // The same rounds in the other order, next to the map.
  const addOther = (made, paint, frame) => {
    const [x, y, side] = box.other;
    made.text(
      'other title',
      [x - 2.2 * em, y - 1.6 * em],
      fitted([`The same in ${other.name} order`, other.name], side + 2.4 * em, 0.06),
      {
        bold: true,
      },
    );
    addCells(
      made,
      paint,
      'other',
      other.devices.slice(0, frame.step + 1),
      [x, y, side],
      other.pieces,
    );
    addWork(made, paint, { orders, round: frame.step, narrow: box.narrow }, box.work);
  };

  const marks = ({ step, paint }) => {
    const made = new Marks(em),
      frame = frameAt(step);
    if (frame.kind === 'gain') {
      const at = {
        x: 0.4 * em,
        y: 1.4 * em,
        w: width - 0.8 * em,
        narrow: box.narrow,
        bar: frame.figures.length > 1 ? 1.6 : 2.6,
      };
      const y = addFigures(made, paint, frame.figures, at);
      if (other && !box.narrow && y + 17 * em < height)
        addWork(made, paint, { orders, round: frame.step, narrow: false }, [at.x, y, at.w]);
      return made.list;
    }
    const [own, small] = ownNames(box.boxW - em);
    made.text(
      'held',
      [0.3 * em, 1.1 * em],
      fitted([...(box.narrow ? [] : [named ? `${named}. ${held}` : held]), named], width - em),
    );
    for (let gpu = 0; gpu < gpus; gpu++) addGpu(made, paint, step, gpu, [own[gpu], small]);
    addMoves(made, paint, frame);
    addSlots(made, paint, frame);
    if (isOpening(frame)) {
      const at = { x: 0.4 * em, y: box.low, w: width - 0.8 * em, narrow: box.narrow },
        y = addFigures(made, paint, frame.figures, at),
        all = other && [
          [orders[0].name, pieces],
          [other.name, other.pieces],
        ];
      if (all && !box.narrow) addOwners(made, paint, all, count, { ...at, y }, [colourOf, inkOn]);
      return made.list;
    }
    const merges = frame.kind === 'merge' || !other;
    if (!heads && !(box.narrow && merges)) addMap(made, paint, step);
    if (merges) addMerge(made, paint, { frames, step, place, device, dims, shown }, box, fitted);
    else addOther(made, paint, frame);
    return made.list;
  };
  const locate = (x, y) => {
    if (frameAt(context.clock.step).kind === 'gain') return null;
    for (let gpu = 0; gpu < gpus; gpu++) {
      const [bx, by] = boxOf(gpu);
      if (x >= bx && x < bx + box.boxW && y >= by && y < by + box.boxH) return { gpu };
    }
    const { side } = box,
      [mapX, mapY] = box.map,
      cell = side / count,
      row = Math.floor((y - mapY) / cell),
      key = Math.floor((x - mapX) / cell);
    if (frameAt(context.clock.step).figures.length) return null;
    if (side && row >= 0 && row < count && key >= 0 && key < count) return { row, key };
    return locateMerge(x, y, box, em, shown);
  };
  const describe = (at, step) => {
    const frame = frameAt(step);
    if ('merge' in at || 'o' in at) return describeMerge(at, frames, step);
    if ('gpu' in at) {
      const { part, pairs } = frame.devices[at.gpu];
      const sent = frame.moves.filter(([source]) => source === at.gpu).length * bytes;
      return (
        `GPU ${at.gpu}: ${heads ? 'its own heads' : `queries ${ranges(pieces[at.gpu])}`}\n` +
        `K and V of GPU ${part}, ${exact(pairs)} pairs, ${exact(sent)} bytes sent`
      );
    }
    const found = frames
      .slice(0, step + 1)
      .find(f => f.devices.some(d => d.cells.some(([r, k]) => r === at.row && k === at.key)));
    return (
      `queries ${ranges([at.row])} (GPU ${ownerOf(at.row)}), ` +
      `keys ${ranges([at.key])} (first on GPU ${ownerOf(at.key)}): ` +
      (found ? `met in round ${found.step + 1}` : 'not met so far')
    );
  };
  const label = step => `${frameAt(step).title}. ${frameAt(step).sentence}`;
  return canvasView(host, context, {
    ...{ title: 'GPUs', layout, marks, ms: () => 280, locate, describe, label, legend: LEGEND },
    kinds: KINDS,
  });
}
