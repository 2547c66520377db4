// The tile as it lies in shared memory, rows of 32 banks: the words that the access wants, by when
// they are served; what padding leaves free; and arrows from the bank in which a lane's word would
// lie without padding or swizzle to the one in which it lies.
import { canvasView } from '../core/canvas.js';
import { BANKS, LEGEND, bankNumbers, colours, heading, lanesSaid, parts } from './wavefronts.js';

const LEAST = 3; // pixels of a row

/** @type {Picture<bank_conflicts.BanksMeta, bank_conflicts.BankFrame>} */
export default function (host, { meta: { sides, frames } }, context) {
  const frameAt = step => frames[Math.min(step, frames.length - 1)];
  const free = sides.map(side =>
    side.free.flatMap(([first, end]) => Array.from({ length: end - first }, (_, n) => first + n)),
  );
  const isFree = free.map(words => new Set(words)),
    padded = free.some(words => words.length);
  const rowsOf = sides.map(side => Math.ceil(side.words / BANKS));
  const wanted = sides.map(side => new Set(side.accesses.flatMap(a => a.cells.map(c => Math.floor(c[3] / BANKS))))); // rows
  const byWord = sides.map(side =>
    side.accesses.map(access => {
      const found = new Map();
      for (const [lane, , wavefront, word] of access.cells)
        found.set(word, { wavefront, lanes: [...(found.get(word)?.lanes ?? []), lane] });
      return found;
    }),
  );
  const firstOf = access => {
    const found = new Map();
    for (const [lane, bank, , word] of access.cells)
      if (!(found.get(lane)?.word <= word)) found.set(lane, { bank, word });
    return found;
  };
  const moves =
    sides.length < 2
      ? []
      : sides[0].accesses.map((before, n) => {
          // [row, bank before, bank now, its wavefront] of each lane's first word
          const from = firstOf(before),
            to = firstOf(sides[1].accesses[n]),
            seen = new Map();
          for (const [lane, { bank, word }] of to)
            if (from.has(lane) && from.get(lane).bank !== bank) {
              const move = [Math.floor(word / BANKS), from.get(lane).bank, bank, byWord[1][n].get(word).wavefront];
              seen.set(move.join(), move);
            }
          return [...seen.values()];
        });
  let em, top, gutter, panes;

  const layout = ({ width, height, em: size }) => {
    em = size;
    top = Math.round(2.8 * em);
    gutter = Math.round((width > 26 * em ? 4 : 0.2) * em);
    const room = height - top - 3 - 1.4 * em,
      whole = room / Math.max(...rowsOf, 1) >= 0.55 * em;
    let tallest = 1,
      cut = false;
    panes = parts(sides.length, width - 2, Math.round(0.9 * em)).map(({ x, width: w }, n) => {
      const rows = whole ? everyRow(n) : rowsNear(n, room / LEAST),
        hidden = rowsOf[n] - rows.length;
      tallest = Math.max(tallest, rows.length);
      cut ||= hidden > 0;
      return {
        x: x + gutter,
        cell: (w - gutter) / BANKS,
        rows,
        hidden,
        place: new Map(rows.map((row, place) => [row, place])),
      };
    });
    const tall = Math.max(LEAST, Math.min(2 * em, (room + (cut ? 0 : 1.4 * em)) / tallest));
    panes.forEach(pane => {
      pane.tall = tall;
    });
    return top + tallest * tall + 3 + (cut ? 1.4 * em : 0);
  };
  const everyRow = n => Array.from({ length: rowsOf[n] }, (_, row) => row);
  // Of a large tile the rows from the first to the last that any access wants, and one more; or
  // only these, if they are too many.
  const rowsNear = (n, most) => {
    const last = Math.max(...wanted[n]) + 1,
      near = everyRow(n).slice(Math.max(0, Math.min(...wanted[n]) - 1), last + 1);
    return near.length <= most ? near : everyRow(n).filter(row => wanted[n].has(row));
  };
  const box = (pane, word) => {
    const place = pane.place.get(Math.floor(word / BANKS));
    return place === undefined
      ? null
      : [pane.x + (word % BANKS) * pane.cell, top + place * pane.tall, pane.cell, pane.tall];
  };

  const draw = (g, { step, at, paint }) => {
    const frame = frameAt(step),
      colour = colours(paint);
    g.textBaseline = 'middle';
    g.font = `${em}px ${paint.font}`;
    const lit = at ? byWord[at.side][frame.access].get(at.word)?.lanes : null;
    sides.forEach((side, n) => {
      const pane = panes[n],
        access = side.accesses[frame.access],
        { tall, cell } = pane;
      heading(g, side, access, frame, pane.x, 0.8 * em, cell * BANKS, em, paint);
      if (gutter > em) {
        g.textAlign = 'right';
        g.fillText('bank', pane.x - 6, top - 0.65 * em);
      }
      bankNumbers(g, pane.x, top - 0.65 * em, cell, em);
      drawTile(g, paint, side, n);
      const rows = new Map(); // row -> lanes
      for (const [word, { wavefront, lanes }] of byWord[n][frame.access]) {
        const where = box(pane, word),
          row = Math.floor(word / BANKS);
        if (!where) continue;
        rows.set(row, [...(rows.get(row) ?? []), ...lanes]);
        const inset = Math.min(0.7, tall / 6);
        g.fillStyle = colour(wavefront, frame.wavefront);
        g.fillRect(where[0] + inset, where[1] + inset, cell - 2 * inset, tall - 2 * inset);
        if (cell < 1.6 * em || tall < 0.95 * em) continue;
        g.textAlign = 'center';
        g.fillStyle = wavefront === frame.wavefront ? '#000' : paint.text;
        g.fillText(lanes.length > 1 ? `${Math.min(...lanes)}+` : lanes[0], where[0] + cell / 2, where[1] + tall / 2);
      }
      if (n) drawMoves(g, paint, pane, moves[frame.access], Math.min(frame.wavefront, access.wavefronts));
      drawLanes(g, paint, pane, rows);
      g.textAlign = 'left';
      if (pane.hidden)
        g.fillText(
          `and ${pane.hidden} more row${pane.hidden > 1 ? 's' : ''} of the tile`,
          pane.x,
          top + pane.rows.length * tall + 0.8 * em,
        );
      if (!at) return;
      g.strokeStyle = paint.primary;
      g.lineWidth = 2;
      const same = [...byWord[n][frame.access]].filter(([word, { lanes }]) =>
        n === at.side ? word === at.word : lit?.some(lane => lanes.includes(lane)),
      );
      for (const [word] of same.length || n !== at.side ? same : [[at.word]])
        if (box(pane, word)) g.strokeRect(...box(pane, word));
    });
  };
  const drawTile = (g, paint, side, n) => {
    const { x, cell, tall, rows } = panes[n],
      width = cell * BANKS;
    rows.forEach((row, place) => {
      const words = Math.min(BANKS, side.words - row * BANKS);
      g.fillStyle = paint.panel;
      g.fillRect(x, top + place * tall, words * cell, tall);
    });
    for (const word of free[n]) {
      // framed, and crossed by a stroke: nothing uses it
      const where = box(panes[n], word);
      if (!where) continue;
      g.fillStyle = paint.text;
      g.fillRect(...where);
      g.fillStyle = paint.background;
      g.fillRect(where[0] + 1, where[1] + 1, cell - 2, tall - 2);
      g.strokeStyle = paint.text;
      g.lineWidth = 1;
      g.beginPath();
      g.moveTo(where[0], where[1] + tall);
      g.lineTo(where[0] + cell, where[1]);
      g.stroke();
    }
    g.lineWidth = 1;
    g.strokeStyle = paint.border;
    g.globalAlpha = 0.5;
    g.beginPath();
    for (let i = 0; i <= BANKS; i += cell < 4 ? 4 : 1) {
      g.moveTo(x + i * cell, top);
      g.lineTo(x + i * cell, top + rows.length * tall);
    }
    for (let i = 0; i <= rows.length; i += tall < 5 ? Math.max(1, rows.length) : 1) {
      g.moveTo(x, top + i * tall);
      g.lineTo(x + width, top + i * tall);
    }
    g.stroke();
    g.globalAlpha = 1;
  };
  // Of what is served now, or of all that was; up to the free words before it, if there are any.
  const drawMoves = (g, paint, pane, made, now) => {
    const { cell, tall } = pane,
      head = Math.max(2, Math.min(cell * 0.8, tall * 0.4, em / 2.5));
    g.strokeStyle = g.fillStyle = paint.text;
    g.lineWidth = Math.max(1, Math.min(2, tall / 9));
    const some = made.filter(move => move[3] === now),
      shown = some.length ? some : made;
    for (const [row, from, to] of shown) {
      const where = box(pane, row * BANKS + to),
        way = Math.sign(to - from);
      if (!where) continue;
      let end = to;
      while (end !== from && isFree[1].has(row * BANKS + end - way)) end -= way;
      const y = where[1] + tall / 2,
        x0 = pane.x + (from + 0.5) * cell,
        x1 = pane.x + (end + (way > 0 ? 0 : 1)) * cell;
      if ((x1 - x0) * way < head) continue;
      g.globalAlpha = some.length ? 0.85 : 0.5;
      g.beginPath();
      g.moveTo(x0, y);
      g.lineTo(x1 - way * head, y);
      g.stroke();
      g.beginPath();
      g.moveTo(x1, y);
      g.lineTo(x1 - way * head, y - head);
      g.lineTo(x1 - way * head, y + head);
      g.fill();
      g.globalAlpha = 1;
    }
  };
  const drawLanes = (g, paint, pane, rows) => {
    // beside each row its lanes, where there is room
    if (gutter < em) return;
    g.textAlign = 'right';
    g.fillStyle = paint.text;
    let free = -Infinity;
    for (const [row, lanes] of [...rows].sort((a, b) => a[0] - b[0])) {
      const y = top + (pane.place.get(row) + 0.5) * pane.tall,
        text = lanesSaid(lanes, true);
      if (y < free) continue;
      g.fillText(free < 0 && text.length < 3 ? `lane ${text}` : text, pane.x - 6, y);
      free = y + 1.15 * em;
    }
  };

  const areas = () =>
    panes.map(({ x, cell, rows, tall }, side) => ({
      rect: [x, top, BANKS * cell, rows.length * tall],
      datum: { side },
      grid: {
        ...{ columns: BANKS, count: rows.length * BANKS },
        thing(number) {
          const bank = number % BANKS,
            word = rows[Math.floor(number / BANKS)] * BANKS + bank;
          return word < sides[side].words ? { side, word, bank } : null;
        },
      },
    }));
  const describe = ({ side, word }, step) => {
    const access = frameAt(step).access,
      found = byWord[side][access].get(word),
      { name } = sides[side];
    const where = `${name ? `${name}: ` : ''}word ${word} (bytes ${word * 4} to ${word * 4 + 3}), bank ${word % BANKS}`;
    if (found) return `${where}\nwanted by ${lanesSaid(found.lanes)}, served in wavefront ${found.wavefront + 1}`;
    return `${where}\n${isFree[side].has(word) ? 'left free: no lane ever touches it' : 'not wanted by this access'}`;
  };
  const label = step => `${frameAt(step).title}: ${frameAt(step).sentence}`;
  const legend = [
    ...LEGEND,
    ...(padded
      ? [
          [
            'background:linear-gradient(to top right, transparent 45%, currentColor 45% ' +
              '55%, transparent 55%);border:1px solid currentColor',
            'left free',
          ],
        ]
      : []),
    ...(moves.some(m => m.length) ? [['', `\u2192 from its bank with ${sides[0].name}`]] : []),
  ];
  return canvasView(host, context, {
    title: 'The tile in memory',
    layout,
    draw,
    areas,
    describe,
    label,
    legend,
  });
}
