// Attention over several GPUs: what each GPU holds, what is on its way, and how the parts of one row
// become one. Keys have the colour of the GPU that they started on.
import { canvasView } from '../core/canvas.js';
import { Marks } from '../core/kinds.js';
import {
  COLOURS,
  PALETTE,
  blend,
  exact,
  rgb,
  short,
  signed,
  theme,
  widest,
} from '../core/paint.js';

const colourOf = part => PALETTE.sequences[part % PALETTE.sequences.length];
// Black or white, whichever is clearer on a colour.
const inkOn = colour => {
  const [r, g, b] = rgb(colour).map(v => (v / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? '#000' : '#fff';
};
const NAMES = ['before', 'this step', 'after'];
const LEGEND = [
  [`background:${colourOf(0)}`, 'K and V that started on GPU 0'],
  [`background:${COLOURS.S}`, 'products of the step'],
  [`background:${COLOURS.P}`, 'm and l of one query'],
];

export default function (host, { meta }, context) {
  const { frames, pieces, size, device, place, heads, bytes } = meta,
    gpus = pieces.length,
    count = Math.max(...pieces.flat()) + 1,
    ownerOf = piece => pieces.findIndex(own => own.includes(piece)),
    frameAt = step => frames[Math.min(step, frames.length - 1)];
  let em, width, columns, boxW, boxH, gap, side, mapY, mapX, panelX, panelW, panelY;

  const layout = pane => {
    ({ em, width } = pane);
    gap = 1.6 * em;
    columns = gpus;
    while (columns > 1 && (width - gap) / columns - gap < 6.5 * em)
      columns = Math.ceil(columns / 2);
    boxW = (width - gap) / columns - gap;
    boxH = (width < 34 * em ? 6.1 : 6.6) * em;
    const rows = Math.ceil(gpus / columns);
    mapY = 1.4 * em + rows * (boxH + 1.9 * em) + 1.8 * em;
    const narrow = width < 34 * em || heads,
      free = pane.height - mapY - 2.2 * em;
    side = heads
      ? 0
      : Math.max(6 * em, Math.min(narrow ? 6.8 * em : 0.4 * width, Math.max(9 * em, free)));
    mapX = 2.2 * em;
    panelX = narrow ? 0.4 * em : mapX + side + 2.4 * em;
    panelW = width - panelX - 0.4 * em;
    panelY = narrow && !heads ? mapY + side + 3.4 * em : mapY;
    return Math.max(mapY + side + 2 * em, panelY + 11.5 * em);
  };
  const boxOf = gpu => [
    gap + (gpu % columns) * (boxW + gap),
    1.4 * em + Math.floor(gpu / columns) * (boxH + 1.9 * em),
  ];
  const fitted = (texts, wide) =>
    texts.find(text => widest([text], `${em}px ${theme(host).font}`) <= wide) ?? '';
  const ranges = own => {
    const found = [];
    for (const piece of own)
      if (found.length && found.at(-1)[1] === piece * size) found.at(-1)[1] += size;
      else found.push([piece * size, (piece + 1) * size]);
    return found.map(([first, end]) => `${first}\u2013${end - 1}`).join(', ');
  };

  const addGpu = (made, paint, frame, gpu) => {
    const [x, y] = boxOf(gpu),
      { part, share, pairs } = frame.devices[gpu],
      inner = boxW - em,
      works = share > 0,
      own = heads ? `head group ${gpu}` : `queries ${ranges(pieces[gpu])}`;
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
    made.text(
      `rows ${gpu}`,
      [x + 0.5 * em, y + 2.5 * em],
      fitted([own, own.replace('queries ', 'Q '), heads ? '' : 'Q'], inner),
    );
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
          stroke: paint.border,
          gap: 0.6 * em,
        },
      );
    if (!works)
      made.text(`waits ${gpu}`, [x + boxW / 2, y + 5.9 * em], fitted(['waits'], inner), {
        align: 'center',
      });
    return pairs;
  };
  const addMoves = (made, paint, frame) => {
    for (const [source, target, part] of frame.moves) {
      const [x0, y0] = boxOf(source),
        [x1, y1] = boxOf(target),
        from = [x0 + boxW / 2, y0 + boxH],
        next = y0 === y1 && x1 > x0 && !heads,
        lane = y0 + boxH + (next ? 0.7 : 1.25) * em,
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
    const cell = side / count;
    made.text(
      'map title',
      [mapX, mapY - 0.5 * em],
      fitted(['queries (down) and keys met so far', 'queries and keys'], side + 2 * em),
      {},
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
    for (let piece = 0; piece < count; piece++) {
      const owner = ownerOf(piece);
      if (cell >= 0.9 * em)
        made.text(
          `row ${piece}`,
          [mapX - 0.4 * em, mapY + (piece + 0.5) * cell + 0.35 * em],
          String(owner),
          {
            align: 'right',
          },
        );
    }
    const row = Math.floor(place / size);
    made.rect('followed', [mapX, mapY + row * cell, side, cell - 1], {
      stroke: COLOURS.P,
      width: 2,
    });
    made.text(
      'map note',
      [mapX, mapY + side + 1.2 * em],
      fitted(['left: the GPU of these queries', 'left: GPU'], side),
    );
  };
  const addMerge = (made, paint, frame, step) => {
    // During the products of a step, the row still has the values of its last merge.
    const merged = frame.merged,
      last = [...frames.slice(0, step + 1)].reverse().find(f => f.merged)?.merged,
      title = `query ${place} on GPU ${device}`;
    made.text(
      'merge title',
      [panelX, panelY - 0.5 * em],
      fitted([`m, l and O of ${title}`, title], panelW),
      {
        bold: true,
      },
    );
    const third = panelW / 3;
    NAMES.forEach((name, n) => {
      const x = panelX + n * third;
      made.rect(`panel ${n}`, [x, panelY, third - 0.6 * em, 6.2 * em], {
        stroke: n === 2 ? COLOURS.P : paint.border,
        width: n === 2 ? 2 : 1,
      });
      made.text(`panel ${n} name`, [x + 0.5 * em, panelY + 1.2 * em], name);
      const value = key => {
        const v = merged ? merged[key][n] : n === 0 ? last?.[key][2] : null;
        return v === null || v === undefined ? '\u2013' : short(Number(v), 4);
      };
      made.text(`m ${n}`, [x + 0.5 * em, panelY + 2.7 * em], `m ${value('m')}`, { mono: true });
      made.text(`l ${n}`, [x + 0.5 * em, panelY + 4 * em], `l ${value('l')}`, { mono: true });
      const factor = n < 2 && merged?.shares.length ? `\u00d7 ${short(merged.shares[n], 3)}` : '';
      made.text(`factor ${n}`, [x + 0.5 * em, panelY + 5.5 * em], factor, {
        mono: true,
        bold: true,
      });
    });
    if (!last)
      made.text(
        'nothing',
        [panelX + 0.5 * em, panelY + 5.5 * em],
        fitted(['no part is merged so far', 'none'], third - em),
      );
    const before = (merged ? merged.before : last?.after) ?? [],
      after = merged?.after ?? [];
    const strip = (id, values, y, text) => {
      made.text(`o ${id}`, [panelX, y + 0.9 * em], text);
      const left = panelX + widest(['O before'], `${em}px ${theme(host).font}`) + 0.8 * em,
        each = (panelX + panelW - left - 0.6 * em) / 16,
        span = Math.max(1e-9, ...[...before, ...after].map(Math.abs)),
        colour = signed(rgb(paint.background));
      for (let n = 0; n < 16; n++) {
        const has = n < values.length;
        made.rect(`o ${id} ${n}`, [left + n * each, y, each - 1, 1.2 * em], {
          ...(has && { fill: `rgb(${colour(values[n], span).join(',')})` }),
          stroke: paint.border,
        });
      }
    };
    strip('before', before, panelY + 7.1 * em, 'O before');
    strip('after', after, panelY + 8.8 * em, 'O after');
  };

  const marks = ({ step, paint }) => {
    const made = new Marks(em),
      frame = frameAt(step);
    for (let gpu = 0; gpu < gpus; gpu++) addGpu(made, paint, frame, gpu);
    addMoves(made, paint, frame);
    if (!heads) addMap(made, paint, frame, step);
    addMerge(made, paint, frame, step);
    return made.list;
  };
  const locate = (x, y) => {
    for (let gpu = 0; gpu < gpus; gpu++) {
      const [bx, by] = boxOf(gpu);
      if (x >= bx && x < bx + boxW && y >= by && y < by + boxH) return { gpu };
    }
    const cell = side / count,
      row = Math.floor((y - mapY) / cell),
      key = Math.floor((x - mapX) / cell);
    return side && row >= 0 && row < count && key >= 0 && key < count ? { row, key } : null;
  };
  const describe = (at, step) => {
    const frame = frameAt(step);
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
