// A mask as blocks of queries by keys; the list of the query block that is walked, and one row's
// scores with the block in work. A mask that is drawn by hand is drawn here: a press shows or hides
// a block of it.
import { canvasView } from '../core/canvas.js';
import {
  COLOURS,
  PALETTE,
  blend,
  element,
  exact,
  number,
  rgb,
  short,
  theme,
  widest,
} from '../core/paint.js';
import { fitting } from './pages.js';
import { largest } from './layouts/largest.js';
import { sparsityLayout } from './layouts/sparsity.js';

const PARTIAL = 1,
  FULL = 2,
  WORD = 16,
  NAMES = ['skipped', 'partial', 'full'];

// 1st, 2nd, 3rd, 4th: a block's turn is not mistaken for its name.
const ordinal = n => {
  const teen = Math.floor((n % 100) / 10) === 1;
  return n + (teen ? 'th' : (['th', 'st', 'nd', 'rd'][n % 10] ?? 'th'));
};

export default function (host, { meta, columns }, context) {
  const { clock, change } = context;
  const {
      frames,
      queries,
      keys,
      block_q,
      block_kv,
      tile,
      row,
      head,
      entries,
      row_bytes,
      elements,
      drawing,
    } = meta,
    { kinds, scores, seen } = columns;
  const rows = Math.ceil(queries / block_q),
    cols = Math.ceil(keys / block_kv),
    words = Math.ceil(keys / WORD);
  const fill = { [PARTIAL]: PALETTE.wavefronts.now, [FULL]: PALETTE.wavefronts.before },
    { background } = theme(host);
  const hidden = blend(rgb(fill[PARTIAL]), rgb(background), 0.28);
  const sees = (query, key) => (seen[query * words + Math.floor(key / WORD)] >> (key % WORD)) & 1,
    kindOf = (r, c) => kinds[r * cols + c];
  const keysOf = c => Math.min(block_kv, keys - c * block_kv),
    rowsOf = r => Math.min(block_q, queries - r * block_q),
    bytesOf = c => keysOf(c) * row_bytes;
  const listed = r =>
    NAMES.map((_, kind) =>
      Array.from({ length: cols }, (_, c) => c).filter(c => kindOf(r, c) === kind),
    );
  const totals = NAMES.map((_, kind) => {
    let blocks = 0,
      bytes = 0;
    for (let r = 0; r < rows; r++)
      for (let c = 0; c < cols; c++)
        if (kindOf(r, c) === kind) {
          blocks++;
          bytes += bytesOf(c);
        }
    return { blocks, bytes };
  });
  const picture = drawMask();
  const finite = scores.filter(Number.isFinite),
    low = Math.min(0, ...finite),
    high = Math.max(0.1, ...finite),
    room = 0.08 * (high - low);
  const frameAt = step => frames[Math.min(step, frames.length - 1)];
  let em, map, list, chart;

  function drawMask() {
    // a pixel for each element, or for each block
    const [width, height] = elements ? [keys, queries] : [cols, rows],
      made = element('canvas', { width, height }),
      g = made.getContext('2d'),
      pixels = g.createImageData(width, height);
    const tone = { [PARTIAL]: rgb(fill[PARTIAL]), [FULL]: rgb(fill[FULL]), hidden: rgb(hidden) };
    for (let y = 0; y < height; y++)
      for (let x = 0; x < width; x++) {
        const kind = elements
          ? kindOf(Math.floor(y / block_q), Math.floor(x / block_kv))
          : kindOf(y, x);
        if (kind)
          pixels.data.set(
            [...tone[kind === PARTIAL && elements && !sees(y, x) ? 'hidden' : kind], 255],
            4 * (y * width + x),
          );
      }
    g.putImageData(pixels, 0, 0);
    return made;
  }

  const layout = pane => {
    const ticks = [low, 0, high].map(tick => short(tick, 3)),
      made = largest(
        pane,
        now => {
          const labels = widest(ticks, `${now.em}px ${theme(host).font}`);
          return sparsityLayout(now, { queries, keys, entries: entries.length, labels });
        },
        laid => laid.chart.w > 17 * laid.em && laid.list.each > 2.4 * laid.em,
      );
    ({ map, list, chart, em } = made);
    return made.height;
  };

  const draw = (g, { step, at, paint }) => {
    const frame = frameAt(step);
    drawGrid(g, paint, frame, at);
    drawList(g, paint, frame, step, at);
    drawScores(g, paint, frame, step, at);
  };
  const text = (g, paint, said, x, y, { bold = false, align = 'left', width = undefined } = {}) => {
    g.fillStyle = paint.text;
    g.font = `${bold ? '600 ' : ''}${em}px ${paint.font}`;
    g.textAlign = align;
    g.fillText(said, x, y, width);
    g.textAlign = 'left';
  };
  const beside = (g, paint, texts, x, y, width) => {
    // the first of them that fits, if one does
    g.font = `${em}px ${paint.font}`;
    text(g, paint, fitting(g, texts, width), x, y);
  };
  const rect = (r0, r1, c0, c1) => [
    map.x + c0 * map.unit,
    map.y + r0 * map.unit,
    (Math.min(keys, c1) - c0) * map.unit,
    (Math.min(queries, r1) - r0) * map.unit,
  ];
  const blockRect = (r, c) =>
    rect(r * block_q, (r + 1) * block_q, c * block_kv, (c + 1) * block_kv);

  const drawGrid = (g, paint, frame, at) => {
    text(g, paint, `Mask of head ${head}`, map.x, em, { bold: true });
    const sizes = [
      `${number(queries)} queries (down) \u00d7 ${number(keys)} keys`,
      `${number(queries)} \u00d7 ${number(keys)}`,
    ];
    beside(g, paint, sizes, map.x + 9 * em, em, map.w - 9 * em);
    // or lines of one element would be left out
    g.imageSmoothingEnabled = map.w * devicePixelRatio < picture.width;
    g.imageSmoothingQuality = 'high';
    g.drawImage(picture, map.x, map.y, map.w, map.h);
    const cw = block_kv * map.unit,
      ch = block_q * map.unit;
    g.strokeStyle = paint.border;
    g.lineWidth = Math.min(cw, ch) > 10 ? 1 : 0.4;
    g.beginPath();
    for (let c = 0; c < cols && cw > 2; c++) {
      g.moveTo(map.x + c * cw, map.y);
      g.lineTo(map.x + c * cw, map.y + map.h);
    }
    for (let r = 0; r < rows && ch > 2; r++) {
      g.moveTo(map.x, map.y + r * ch);
      g.lineTo(map.x + map.w, map.y + r * ch);
    }
    g.stroke();
    g.strokeRect(map.x, map.y, map.w, map.h);
    const skip = (size, least) => Math.max(1, Math.ceil(least / size));
    for (let c = 0; c < cols; c += skip(cw, 2 * em))
      text(
        g,
        paint,
        String(c),
        map.x + Math.min((c + 0.5) * cw, map.w - em / 2),
        map.y - 0.4 * em,
        { align: 'center' },
      );
    for (let r = 0; r < rows; r++)
      if (r === tile || (r % skip(ch, 1.3 * em) === 0 && Math.abs(r - tile) * ch > 1.2 * em))
        text(
          g,
          paint,
          String(r),
          map.x - 0.5 * em,
          map.y + Math.min((r + 0.5) * ch, map.h) + 0.35 * em,
          { align: 'right', bold: r === tile },
        );
    g.strokeStyle = paint.text;
    g.lineWidth = 1.5;
    g.strokeRect(...rect(tile * block_q, (tile + 1) * block_q, 0, keys));
    if (block_q * map.unit > 12) {
      // the row whose scores are shown
      g.setLineDash([3, 3]);
      g.lineWidth = 1;
      const y = map.y + (row + 0.5) * map.unit;
      g.beginPath();
      g.moveTo(map.x, y);
      g.lineTo(map.x + map.w, y);
      g.stroke();
      g.setLineDash([]);
    }
    const asked = clock.covers.some(({ part }) => part === 'entry'); // the order is the list
    if (cw > 2 * em && ch > 1.5 * em && !asked)
      entries.forEach(([column], n) =>
        badge(
          g,
          paint,
          cw > 3 * em ? ordinal(n + 1) : String(n + 1),
          map.x + (column + 0.5) * cw,
          map.y + (tile + 0.5) * ch,
        ),
      );
    if (frame.column >= 0) {
      g.lineWidth = 3.5;
      g.strokeStyle = paint.text;
      g.strokeRect(...blockRect(tile, frame.column));
    }
    if (at?.part === 'block') {
      g.strokeStyle = paint.primary;
      g.lineWidth = 2;
      const b = drawing?.block;
      g.strokeRect(
        ...(drawing
          ? rect(at.cell_row * b, (at.cell_row + 1) * b, at.cell_col * b, (at.cell_col + 1) * b)
          : blockRect(at.row, at.col)),
      );
    }
    if (at?.part === 'row') {
      g.strokeStyle = paint.primary;
      g.lineWidth = 2;
      g.strokeRect(...rect(at.row * block_q, (at.row + 1) * block_q, 0, keys));
    }
  };
  const badge = (g, paint, said, x, y) => {
    const w = (0.9 + 0.55 * said.length) * em;
    g.fillStyle = paint.background;
    g.fillRect(x - w / 2, y - 0.65 * em, w, 1.3 * em);
    text(g, paint, said, x, y + 0.35 * em, { align: 'center' });
  };

  const drawList = (g, paint, frame, step, at) => {
    text(g, paint, `List of query block ${tile}`, list.x, list.title, {
      bold: true,
      width: list.w,
    });
    if (!entries.length)
      return text(g, paint, 'empty: nothing is loaded, its rows are 0', list.x, list.y, {
        width: list.w,
      });
    const partial = entries.filter(([, kind]) => kind === PARTIAL).length,
      inOrder = entries.every(([, kind], n) => (kind === PARTIAL) === n < partial);
    const under = inOrder
      ? [
          [0, partial, 'partial'],
          [partial, entries.length, 'full'],
        ]
      : [[0, entries.length, 'by column']];
    for (const [from, until, said] of under)
      if (until > from)
        text(g, paint, said, list.x + from * list.each, list.y - 0.4 * em, {
          width: Math.max((until - from) * list.each - 2, 0),
        });
    entries.forEach(([column, kind], n) => {
      const x = list.x + n * list.each,
        w = list.each - (list.each > 8 ? 3 : 0.5);
      g.globalAlpha = n < step ? 1 : 0.35;
      g.fillStyle = fill[kind];
      g.fillRect(x, list.y, w, list.h);
      g.globalAlpha = 1;
      if (list.each > 1.9 * em) badge(g, paint, String(column), x + w / 2, list.y + list.h / 2);
      if (n === frame.entry || (at?.part === 'entry' && at.entry === n)) {
        g.strokeStyle = n === frame.entry ? paint.text : paint.primary;
        g.lineWidth = 3;
        g.strokeRect(x, list.y, w, list.h);
      }
    });
  };

  // The keys of the chart: the block's, or all of them before and after the walk.
  const range = frame =>
    frame.column >= 0
      ? [frame.column * block_kv, frame.column * block_kv + keysOf(frame.column)]
      : [0, keys];
  const drawScores = (g, paint, frame, step, at) => {
    const [k0, k1] = range(frame),
      { x, y, w, h } = chart,
      each = w / (k1 - k0),
      Y = v => y + h * (1 - (v - low + room) / (high - low + 2 * room));
    const whole = frame.column < 0,
      done = step >= frames.length - 1;
    text(g, paint, `Scores of row ${row}`, list.x, y - 1.1 * em, { bold: true, width: list.w });
    const of = whole
      ? done
        ? finite.length
          ? ['all that were computed', 'all computed']
          : ['it sees no key', 'none']
        : ['none is computed yet', 'none yet']
      : [`with the keys of block ${frame.column}`, `block ${frame.column}`];
    beside(g, paint, of, list.x + 9.5 * em, y - 1.1 * em, list.w - 9.5 * em);
    g.fillStyle = hidden; // neighbours as one rectangle, or their edges would show
    for (let from = k0, key = k0; key <= k1; key++) {
      if (
        key < k1 &&
        kindOf(tile, Math.floor(key / block_kv)) === PARTIAL &&
        Number.isNaN(scores[key])
      )
        continue;
      if (key > from) g.fillRect(x + (from - k0) * each, y, (key - from) * each, h);
      from = key + 1;
    }
    for (let key = k0; key < k1; key++) {
      const value = scores[key];
      if (!Number.isFinite(value) || (whole && !done)) continue;
      g.fillStyle = COLOURS.S;
      g.fillRect(
        x + (key - k0) * each,
        Math.min(Y(value), Y(0)),
        Math.max(each - (each > 4 ? 1 : 0), 0.6),
        Math.max(1, Math.abs(Y(value) - Y(0))),
      );
    }
    g.strokeStyle = paint.border;
    g.lineWidth = 1;
    g.strokeRect(x, y, w, h);
    for (const tick of finite.length ? new Set([low, 0, high]) : [])
      if (tick === 0 || Math.abs(tick) > 0.12 * (high - low))
        text(g, paint, short(tick, 3), x - 0.4 * em, Y(tick) + 0.35 * em, { align: 'right' });
    g.beginPath();
    g.moveTo(x, Y(0));
    g.lineTo(x + w, Y(0));
    g.stroke();
    const level = (value, dash) => {
      if (!Number.isFinite(Number(value)) || Number(value) > high + room) return;
      g.strokeStyle = paint.text;
      g.lineWidth = 1.5;
      g.setLineDash(dash);
      g.beginPath();
      g.moveTo(x, Y(value));
      g.lineTo(x + w, Y(value));
      g.stroke();
      g.setLineDash([]);
    };
    if (frame.m_before !== frame.m) level(frame.m_before, [3, 4]);
    level(frame.m, []);
    text(g, paint, `key ${k0}`, x, y + h + 1.2 * em);
    text(g, paint, String(k1 - 1), x + w, y + h + 1.2 * em, { align: 'right' });
    const before = (a, b) => (a === b ? short(b, 5) : `${short(a, 5)} \u2192 ${short(b, 5)}`);
    text(g, paint, `max m  ${before(frame.m_before, frame.m)}`, x, y + h + 2.8 * em, {
      bold: true,
      width: w,
    });
    text(g, paint, `sum l  ${before(frame.l_before, frame.l)}`, x, y + h + 4.2 * em, {
      bold: true,
      width: w,
    });
    if (at?.part === 'key' && at.key >= k0 && at.key < k1) {
      g.strokeStyle = paint.primary;
      g.lineWidth = 2;
      g.strokeRect(x + (at.key - k0) * each, y, Math.max(each, 1.5), h);
    }
  };

  const locate = (x, y) => {
    const r = Math.floor((y - map.y) / map.unit),
      c = Math.floor((x - map.x) / map.unit);
    if (r >= 0 && r < queries && x < map.x && x > map.x - 2.4 * em)
      return { part: 'row', row: Math.floor(r / block_q) };
    if (r >= 0 && r < queries && c >= 0 && c < keys) {
      const block = { part: 'block', row: Math.floor(r / block_q), col: Math.floor(c / block_kv) };
      return drawing
        ? {
            ...block,
            cell_row: Math.floor(r / drawing.block),
            cell_col: Math.floor(c / drawing.block),
          }
        : block;
    }
    const n = Math.floor((x - list.x) / list.each);
    if (y >= list.y && y < list.y + list.h && n >= 0 && n < entries.length)
      return { part: 'entry', entry: n };
    const [k0, k1] = range(frameAt(clock.step)),
      key = k0 + Math.floor(((x - chart.x) / chart.w) * (k1 - k0));
    return y >= chart.y && y < chart.y + chart.h && key >= k0 && key < k1
      ? { part: 'key', key }
      : null;
  };
  const seenIn = (r, c) => {
    let count = 0;
    for (let q = r * block_q; q < r * block_q + rowsOf(r); q++)
      for (let k = c * block_kv; k < c * block_kv + keysOf(c); k++) count += sees(q, k);
    return count;
  };
  const drawn = at => !!drawing.drawn[at.cell_row]?.includes(at.cell_col);
  const describe = at => {
    if (at.part === 'row') {
      const [skipped, partial, full] = listed(at.row);
      return (
        `query block ${at.row}: ${partial.length} partial, ${full.length} full, ` +
        `${skipped.length} skipped\n` +
        `${at.row === tile ? 'its list is walked' : 'press to walk its list'}`
      );
    }
    if (at.part === 'entry')
      return `entry ${at.entry + 1}: block ${entries[at.entry][0]}, ${NAMES[entries[at.entry][1]]}`;
    if (at.part === 'key') {
      const value = scores[at.key],
        block = Math.floor(at.key / block_kv),
        kind = kindOf(tile, block);
      const why =
        kind === 0
          ? `block ${block} is skipped`
          : kind === PARTIAL
            ? 'hidden by the mask'
            : 'no score was logged';
      return `key ${at.key}, row ${row}: ${Number.isNaN(value) ? why : `score ${exact(value)}`}`;
    }
    const kind = kindOf(at.row, at.col),
      pairs = rowsOf(at.row) * keysOf(at.col),
      bytes = `${number(bytesOf(at.col))} bytes of K and V`;
    const shown =
      kind === FULL
        ? `all ${number(pairs)} pairs seen`
        : kind === PARTIAL
          ? elements
            ? `${number(seenIn(at.row, at.col))} of ${number(pairs)} pairs seen`
            : 'some pairs seen'
          : 'no pair seen';
    const said =
      `query block ${at.row}, key block ${at.col}: ${NAMES[kind]}, ${shown}\n${bytes} ` +
      `${kind ? 'are loaded' : 'are not loaded'}`;
    return drawing
      ? `${said}\npress to ${drawn(at) ? 'hide' : 'show'} block ${at.cell_col} of row ${at.cell_row} of the mask`
      : said;
  };
  const click = at => {
    if (at.part === 'row' && at.row !== tile) change('at_tile', String(at.row));
    if (at.part === 'entry') clock.set(at.entry + 1, 'user');
    if (at.part !== 'block') return;
    if (drawing) {
      const made = Array.from({ length: drawing.rows }, (_, r) => [...(drawing.drawn[r] ?? [])]),
        now = made[at.cell_row];
      made[at.cell_row] = drawn(at)
        ? now.filter(c => c !== at.cell_col)
        : [...now, at.cell_col].sort((a, b) => a - b);
      change('drawn', made.map(columns => columns.join(',')).join(';'));
    } else if (at.row !== tile) change('at_tile', String(at.row));
    else {
      const n = entries.findIndex(([column]) => column === at.col);
      if (n >= 0) clock.set(n + 1, 'user');
    }
  };

  const amount = kind =>
    `${number(totals[kind].blocks)} ${totals[kind].blocks === 1 ? 'block' : 'blocks'}, ` +
    `${number(totals[kind].bytes)} bytes`;
  const brief = (kind, said) =>
    `${number(totals[kind].blocks)} ${said}, ${number(totals[kind].bytes)} B`;
  const legend = [
    [
      `background:${fill[FULL]}`,
      brief(FULL, totals[FULL].blocks === 1 ? 'full block' : 'full blocks'),
    ],
    [
      `background:linear-gradient(90deg,${fill[PARTIAL]} 50%,${hidden} 50%)`,
      brief(PARTIAL, 'partial (faint: hidden)'),
    ],
    ['border:1px solid var(--wg-line)', brief(0, 'skipped')],
  ];
  const label = step => {
    const all =
      rows * cols <= 144
        ? Array.from(
            { length: rows },
            (_, r) =>
              `query block ${r} meets ${NAMES.slice(1)
                .map((name, n) => `${name} ${listed(r)[n + 1].join(', ') || 'none'}`)
                .join('; ')}`,
          ).join('. ')
        : '';
    return (
      `${frameAt(step).title}. ${frameAt(step).sentence} Mask of ${rows} query blocks and ` +
      `${cols} key blocks: ` +
      `${NAMES.map((name, kind) => `${name} ${amount(kind)}`).join('; ')}. ${all}`
    );
  };
  const inOrder = entries => entries.every(([column], n) => !n || column > entries[n - 1][0]),
    order = entries =>
      `Numbers in blocks: the order of the walk${inOrder(entries) ? '' : ', partial blocks first'}.`;
  const said = () =>
    drawing
      ? 'Press a block to show or hide it, a row\u2019s number to walk its list. ' + order(entries)
      : 'Press a row to walk its list, or one of its blocks to go there. ' + order(entries);
  return canvasView(host, context, {
    title: `Mask of head ${head}`,
    layout,
    draw,
    locate,
    describe,
    label,
    click,
    said,
    legend,
  });
}
