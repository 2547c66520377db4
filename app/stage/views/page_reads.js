// Who reads which page: kernels at several ratios of heads by pages of the pool, each cell with how
// often a byte of it is read; and the readers of the step's kernel by the same pages. Beside one
// another where there is room, else one under the other.
import { gridArea } from '../core/areas.js';
import { canvasView } from '../core/canvas.js';
import { PALETTE, number, rgb, short, smallText } from '../core/paint.js';
import { fitting } from './pages.js';

const STOPS = PALETTE.magnitude.map(rgb);
const colourAt = share => {
  // [r, g, b] of the palette of magnitude, 0 to 1
  const place = Math.max(0, Math.min(1, share)) * (STOPS.length - 1),
    n = Math.min(STOPS.length - 2, Math.floor(place));
  return STOPS[n].map((v, i) => Math.round(v + (STOPS[n + 1][i] - v) * (place - n)));
};
const ink = ([r, g, b]) => (0.299 * r + 0.587 * g + 0.114 * b > 135 ? '#000' : '#fff');

/** @type {Picture<block_table.PageReadsMeta>} */
export default function (host, { meta, columns }, context) {
  const { frames, rows, holders, colours, absent } = meta,
    pages = holders.length,
    frameAt = step => frames[Math.min(step, frames.length - 1)];
  const firsts = rows.map((_, n) => rows.slice(0, n).reduce((sum, row) => sum + row.readers.length * pages, 0));
  const all = rows.map(row => row.asked.map((asked, page) => (row.distinct[page] ? asked / row.distinct[page] : 0))),
    most = Math.max(1, ...all.flat());
  const of = (row, reader, page) => firsts[row] + reader * pages + page;
  const timesOf = (row, reader, page) => {
    const at = of(row, reader, page);
    return columns.distinct[at] ? columns.asked[at] / columns.distinct[at] : 0;
  };
  const longest = Math.max(...rows.map(row => row.readers.length));
  let em, kernels, readers, small;

  const layout = ({ width, height, em: size }) => {
    em = size;
    small = smallText(em);
    const head = 3.6 * em,
      gap = 2.2 * em,
      side = width > 66 * em;
    const w = side ? (width - gap) / 2 : width,
      named = Math.min(12 * em, 0.4 * w),
      cell = Math.min(4 * em, (w - named) / pages);
    const room = side ? height - head : height - 2 * head - 0.6 * em,
      high = Math.max(1.15 * em, Math.min(3.4 * em, (side ? room : 0.5 * room) / rows.length));
    kernels = { x: 0, y: head, named, cell, high, w };
    const top = side ? head : head + rows.length * high + 0.6 * em + head,
      rest = side ? room : room - rows.length * high;
    readers = {
      x: side ? w + gap : 0,
      y: top,
      named,
      cell,
      high: Math.max(3, Math.min(3.4 * em, rest / longest)),
      w,
    };
    return Math.max(kernels.y + rows.length * kernels.high, readers.y + longest * readers.high) + 2;
  };
  const head = (g, paint, grid, title, note) => {
    g.fillStyle = paint.text;
    g.font = `600 ${em}px ${paint.font}`;
    g.fillText(title, grid.x, grid.y - 2.5 * em);
    const used = g.measureText(`${title}  `).width;
    g.font = `${em}px ${paint.font}`;
    g.fillText(fitting(g, note, grid.w - used), grid.x + used, grid.y - 2.5 * em);
    g.fillText('page', grid.x, grid.y - 0.75 * em);
    g.textAlign = 'center';
    const every = Math.max(1, Math.ceil((2 * em) / grid.cell));
    for (let page = 0; page < pages; page++) {
      const x = grid.x + grid.named + page * grid.cell;
      if (page % every === 0) g.fillText(String(page), x + grid.cell / 2, grid.y - 0.75 * em);
      colours[page].forEach((colour, n) => {
        // whose page it is
        const part = (grid.cell - 2) / colours[page].length;
        g.fillStyle = colour;
        g.fillRect(x + 1 + n * part, grid.y - 0.45 * em, part, 0.35 * em);
      });
      g.fillStyle = paint.text;
    }
    g.textAlign = 'left';
  };
  const cellAt = (g, paint, grid, n, page, times) => {
    const x = grid.x + grid.named + page * grid.cell,
      y = grid.y + n * grid.high,
      space = grid.high > 6 ? 1 : 0,
      colour = colourAt(times / most);
    g.fillStyle = times ? `rgb(${colour})` : paint.panel;
    g.fillRect(x, y, grid.cell - 1, grid.high - space);
    if (!times || grid.high < 1.05 * small) return;
    g.font = `${small}px ${paint.font}`;
    g.fillStyle = ink(colour);
    g.textAlign = 'center';
    g.fillText(
      fitting(g, [short(times, 3), short(times, 1)], grid.cell - 2),
      x + grid.cell / 2 - 0.5,
      y + grid.high / 2 + 0.35 * small,
    );
    g.textAlign = 'left';
  };
  const draw = (g, { step, at, paint }) => {
    const now = frameAt(step).row,
      shown = rows[now];
    head(g, paint, kernels, 'Kernels', [
      'how often a byte of K and V is read, by page',
      'reads of a byte, by page',
      'reads of a byte',
    ]);
    rows.forEach((row, n) => {
      const y = kernels.y + n * kernels.high,
        base = y + kernels.high / 2 + 0.35 * em;
      g.fillStyle = row.colour;
      g.fillRect(kernels.x, y, 0.4 * em, kernels.high - 1);
      g.fillStyle = paint.text;
      g.font = `${n === now ? 600 : 400} ${em}px ${paint.font}`;
      g.fillText(
        fitting(g, [`${row.kernel}  ${row.heads}`, row.heads], kernels.named - 0.9 * em),
        kernels.x + 0.7 * em,
        base,
      );
      all[n].forEach((times, page) => cellAt(g, paint, kernels, n, page, times));
    });
    frame(g, paint.text, kernels, now);
    head(g, paint, readers, 'Readers', [
      `of ${shown.kernel} with ${shown.heads}: how often each reads a byte`,
      `of ${shown.kernel}, ${shown.heads}`,
      shown.heads,
    ]);
    const every = Math.max(1, Math.ceil((1.15 * em) / readers.high));
    shown.readers.forEach((name, n) => {
      g.fillStyle = paint.text;
      g.font = `${em}px ${paint.font}`;
      const base = readers.y + n * readers.high + (every > 1 ? 0.95 * em : readers.high / 2 + 0.35 * em);
      if (n % every === 0)
        g.fillText(
          fitting(
            g,
            [name, name.replace('query head', 'head'), name.replace('query head', '').replace('launch ', '')],
            readers.named - 0.5 * em,
          ),
          readers.x,
          base,
        );
      for (let page = 0; page < pages; page++) cellAt(g, paint, readers, n, page, timesOf(now, n, page));
    });
    if (at?.row !== undefined) frame(g, paint.primary, kernels, at.row, at.page);
    if (at?.reader !== undefined && at.reader < shown.readers.length)
      frame(g, paint.primary, readers, at.reader, at.page);
  };
  const frame = (g, colour, grid, n, page) => {
    // a row, or one cell of it
    g.strokeStyle = colour;
    g.lineWidth = 2;
    const from = page === undefined ? 0 : page,
      wide = page === undefined ? pages : 1;
    g.strokeRect(
      grid.x + grid.named + from * grid.cell - 1,
      grid.y + n * grid.high - 1,
      wide * grid.cell + 1,
      grid.high + 1,
    );
  };

  const areas = ({ step }) => {
    const own = (grid, count, key) =>
      gridArea(
        [grid.x + grid.named, grid.y, pages * grid.cell, count * grid.high],
        pages,
        n => ({ [key]: Math.floor(n / pages), page: n % pages }),
        count * pages,
      );
    const { length } = rows[frameAt(step).row].readers;
    return [own(kernels, rows.length, 'row'), own(readers, length, 'reader')];
  };
  const held = page => (holders[page].length ? `held by ${holders[page].join(', ')}` : 'free');
  const describe = ({ row, reader, page }, step) => {
    const now = row ?? frameAt(step).row,
      shown = rows[now];
    if (!shown) return '';
    if (reader !== undefined) {
      if (reader >= shown.readers.length) return '';
      const at = of(now, reader, page),
        blocks = columns.blocks[at],
        asked = columns.asked[at];
      return (
        `page ${page}, ${held(page)}: ${shown.readers[reader]}\n` +
        (asked
          ? `${number(asked)} bytes asked for, ${number(columns.distinct[at])} distinct, ` +
            `by ${blocks} thread block${blocks === 1 ? '' : 's'}`
          : 'reads nothing of it')
      );
    }
    const { asked, distinct, least, most: top } = shown,
      often = least[page] === top[page] ? `${top[page]}` : `${least[page]} to ${top[page]}`;
    const who = shown.readers.filter((_, n) => columns.asked[of(now, n, page)]).length;
    return (
      `page ${page}, ${held(page)}: ${shown.kernel} with ${shown.heads}\n` +
      (asked[page]
        ? `${number(asked[page])} bytes asked for, ${number(distinct[page])} distinct: ` +
          `each ${often} time${often === '1' ? '' : 's'}, by ${who} ` +
          `reader${who === 1 ? '' : 's'}`
        : 'never read')
    );
  };
  const label = step => {
    const now = frameAt(step),
      read = all[now.row].map((times, page) => (times ? `page ${page}: ${short(times)}` : '')).filter(Boolean);
    return `${now.title}. ${now.sentence} Reads of a byte, by page: ${read.join('; ')}.`;
  };
  const ramp = `background:linear-gradient(90deg,${PALETTE.magnitude.join(',')});width:5em`;
  return canvasView(host, context, {
    title: 'Reads of pages',
    layout,
    draw,
    areas,
    describe,
    label,
    legend: [
      [ramp, `up to ${short(most)} reads of a byte`],
      ['background:var(--st-secondary-background-color)', 'not read'],
      ...absent.map(text => ['', text]),
    ],
  });
}
