// One request of global memory: the 128-byte lines it touches, each of four sectors; the bytes
// asked for in the colour of their lane. One request also shows its lanes above, each with a line
// to its bytes. Of several layouts each has a panel, and all are on the one clock.
import { canvasView } from '../core/canvas.js';
import { PALETTE, blend, number, rgb, short } from '../core/paint.js';
import { lanesSaid } from './wavefronts.js';

const LINE = 128,
  SECTOR = 32,
  LEAST = 4; // bytes; pixels of a row

/** @type {Picture<coalescing.SectorsMeta>} */
export default function (host, { title, meta: { sides, frames, chosen } }, context) {
  const ramp = PALETTE.magnitude.map(rgb),
    at3 = t => Math.min(2, Math.floor(t * 3));
  const laneColours = Array.from({ length: 32 }, (_, lane) =>
    blend(ramp[at3(lane / 31) + 1], ramp[at3(lane / 31)], (lane / 31) * 3 - at3(lane / 31)),
  );
  const units = (request, size) =>
    [
      ...new Set(
        request.offsets.flatMap(o => (o < 0 ? [] : [Math.floor(o / size), Math.floor((o + request.bytes - 1) / size)])),
      ),
    ].sort((a, b) => a - b);
  const touched = sides.map(({ requests }) =>
    requests.map(request => ({
      lines: units(request, LINE),
      sectors: new Set(units(request, SECTOR)),
    })),
  );
  const tallest = touched.map(all => Math.max(1, ...all.map(t => t.lines.length)));
  const placeOf = step => Math.min(step, frames.length - 1),
    many = sides.length > 1;
  let em,
    panes,
    lanes = null, // {y, h} of the row of lanes
    now = 0;

  // Panels fill columns from top to bottom; as many columns as make the rows tallest.
  const layout = ({ width, height, em: size }) => {
    em = size;
    // The lines from the lanes to their bytes take a third, if the picture is large enough.
    const way = many || height < 18 * em ? 0 : Math.min(0.34 * height, 12 * em);
    lanes = way ? { y: 1.6 * em, h: 1.5 * em } : null;
    const top = Math.round((way ? lanes.y + lanes.h + way : 0) + 1.5 * em),
      head = many ? Math.round(1.7 * em) : Math.round(0.3 * em),
      gap = Math.round(1.1 * em);
    let best = null;
    for (let columns = 1; columns <= (many ? 3 : 1); columns++) {
      const each = (width - gap * (columns - 1)) / columns;
      if (columns > 1 && each < 13 * em) break;
      const total = tallest.reduce((sum, n) => sum + n + 2, 0),
        share = Math.max(total / columns, ...tallest.map(n => n + 2));
      const cut = [[]];
      let filled = 0;
      tallest.forEach((n, side) => {
        if (cut.at(-1).length && filled + n + 2 > share * 1.05 && cut.length < columns) {
          cut.push([]);
          filled = 0;
        }
        cut.at(-1).push(side);
        filled += n + 2;
      });
      const row = Math.min(
        ...cut.map(
          list => (height - top - 4 - list.length * head) / list.reduce((sum, side) => sum + tallest[side], 0),
        ),
      );
      if (!best || row > best.row + 0.5) best = { row, cut, each };
    }
    const row = Math.max(LEAST, Math.min(2.2 * em, best.row)),
      gutter = best.each > 22 * em ? Math.round(4.6 * em) : 0;
    panes = [];
    let deepest = 0;
    best.cut.forEach((list, column) => {
      let y = top;
      for (const side of list) {
        panes[side] = {
          x: column * (best.each + gap) + gutter,
          y: y + head,
          unit: (best.each - gutter - 2) / LINE,
          row,
          gutter,
          first: y === top,
          room: height - top - head - 4,
        };
        y += head + tallest[side] * row;
      }
      deepest = Math.max(deepest, y);
    });
    return deepest + 4;
  };

  // One request has the pane to itself; several keep their rows, so that nothing moves.
  const rowOf = side =>
    many ? panes[side].row : Math.max(LEAST, Math.min(11 * em, panes[side].room / touched[side][now].lines.length));

  const draw = (g, { step, at, paint }) => {
    now = placeOf(step);
    g.textBaseline = 'middle';
    g.font = `${em}px ${paint.font}`;
    sides.forEach((side, n) => drawSide(g, side, n, at, paint));
  };
  const drawSide = (g, side, n, at, paint) => {
    const request = side.requests[now],
      { lines, sectors } = touched[n][now],
      { x, y, unit, gutter, first } = panes[n],
      row = rowOf(n);
    const inset = Math.min(1, row / 8),
      pad = Math.min(3, row / 6),
      box = (place, s) => [x + s * SECTOR * unit + 1, y + place * row + inset, SECTOR * unit - 2, row - 2 * inset];
    g.fillStyle = paint.text;
    if (many) {
      g.textAlign = 'left';
      const use = short((100 * request.used) / (request.sectors * SECTOR), 3),
        room = 128 * unit + gutter;
      g.font = `600 ${em}px ${paint.font}`;
      const texts = [
        `${side.name}: ${request.sectors} sectors, ${use} % used`,
        `${side.name}: ${request.sectors}, ${use} %`,
        `${side.name}: ${request.sectors}`,
      ];
      const said = texts.find(t => g.measureText(t).width < room) ?? texts[2];
      g.fillText(said, x - gutter, y - 0.75 * em);
      if (side.name === chosen) {
        g.fillStyle = paint.primary;
        g.fillRect(x - gutter, y - 0.25 * em, g.measureText(said).width, Math.max(2, em / 7));
      }
      g.font = `${em}px ${paint.font}`;
    }
    if (lanes) drawWarp(g, request, lines, panes[n], row, at, paint);
    if (first) drawNames(g, panes[n], paint);
    g.textAlign = 'right';
    let free = -Infinity;
    lines.forEach((line, place) => {
      const middle = y + (place + 0.5) * row;
      g.fillStyle = paint.text;
      if (gutter && middle >= free) {
        g.fillText(number(line * LINE), x - 6, middle);
        free = middle + 1.15 * em;
      }
      g.fillStyle = paint.panel;
      for (let s = 0; s < 4; s++) if (sectors.has(line * 4 + s)) g.fillRect(...box(place, s));
    });
    request.offsets.forEach((offset, lane) => {
      const place = offset < 0 ? -1 : lines.indexOf(Math.floor(offset / LINE));
      if (place < 0) return;
      const left = x + (offset % LINE) * unit,
        width = Math.max(1, request.bytes * unit);
      g.fillStyle = laneColours[lane];
      g.fillRect(
        left + Math.min(0.5, width / 8),
        y + place * row + inset + pad,
        width - Math.min(1, width / 4),
        row - 2 * (inset + pad),
      );
    });
    if (lanes) drawThrough(g, request, lines, panes[n], row);
    if (row >= 1.3 * em) drawLanes(g, request, lines, panes[n], row, paint);
    lines.forEach((line, place) => {
      for (let s = 0; s < 4; s++) {
        const on = sectors.has(line * 4 + s);
        g.strokeStyle = on ? PALETTE.wavefronts.moved : paint.border;
        g.lineWidth = on ? Math.max(1, Math.min(2, row / 6)) : 1;
        g.strokeRect(...box(place, s));
      }
    });
    if (!at || at.side !== n || !lines.includes(Math.floor(at.byte / LINE))) return;
    g.strokeStyle = paint.primary;
    g.lineWidth = 2;
    g.strokeRect(
      x + (at.byte % LINE) * unit,
      y + lines.indexOf(Math.floor(at.byte / LINE)) * row + 1,
      Math.max(unit, 2),
      row - 2,
    );
  };
  // The line of a lane goes on through free bytes of the rows above its own.
  const drawThrough = (g, request, lines, { x, y, unit }, row) =>
    request.offsets.forEach((offset, lane) => {
      const place = offset < 0 ? 0 : lines.indexOf(Math.floor(offset / LINE)),
        byte = offset % LINE;
      if (place < 1 || lines.slice(0, place).some(l => sharers(request, l * LINE + byte).length)) return;
      const to = x + (byte + request.bytes / 2) * unit;
      g.beginPath();
      g.moveTo(to, y);
      g.lineTo(to, y + place * row);
      [g.strokeStyle, g.lineWidth] = [laneColours[lane], 2.5];
      g.stroke();
    });
  // The names of the four columns, over the lines of the lanes.
  const drawNames = (g, { x, y, unit, gutter }, paint) => {
    const wide = SECTOR * unit;
    g.textAlign = 'center';
    for (let s = 0; s < 4; s++) {
      const said = wide > 5 * em ? `sector ${s}` : String(s),
        half = g.measureText(said).width / 2 + 3,
        middle = x + (s + 0.5) * wide;
      g.fillStyle = paint.background;
      g.fillRect(middle - half, y - 1.5 * em, 2 * half, 1.25 * em);
      g.fillStyle = paint.text;
      g.fillText(said, middle, y - 0.85 * em);
    }
    g.textAlign = 'right';
    if (gutter) g.fillText('from byte', x - 6, y - 0.85 * em);
  };
  // The lanes as 32 boxes as wide as their four bytes would be, and a line from each to its bytes.
  const drawWarp = (g, request, lines, { x, y, unit }, row, at, paint) => {
    const wide = (LINE * unit) / 32,
      every = [1, 2, 4, 8].find(n => n * wide > 1.9 * em) ?? 16,
      lit = at ? sharers(request, at.byte) : [];
    request.offsets.forEach((offset, lane) => {
      if (offset < 0) return;
      const place = lines.indexOf(Math.floor(offset / LINE)),
        to = x + ((offset % LINE) + request.bytes / 2) * unit;
      g.beginPath();
      g.moveTo(x + (lane + 0.5) * wide, lanes.y + lanes.h);
      g.lineTo(to, y - 1.6 * em);
      g.lineTo(to, y + place * row);
      [g.strokeStyle, g.lineWidth] = [paint.border, 3.6]; // dark lanes on a dark page
      g.stroke();
      g.strokeStyle = lit.includes(lane) ? paint.primary : laneColours[lane];
      g.lineWidth = lit.includes(lane) ? 2.5 : 1.2;
      g.stroke();
    });
    g.textAlign = 'left';
    g.fillStyle = paint.text;
    g.fillText(`the 32 lanes of a warp`, x, lanes.y - 0.8 * em);
    for (let lane = 0; lane < 32; lane++) {
      g.fillStyle = request.offsets[lane] < 0 ? paint.panel : laneColours[lane];
      g.fillRect(x + lane * wide + 0.5, lanes.y, wide - 1, lanes.h);
      if (lane % every) continue;
      g.textAlign = 'center';
      g.fillStyle = lane < 16 ? '#fff' : '#000';
      if (request.offsets[lane] < 0) g.fillStyle = paint.text;
      g.fillText(String(lane), x + (lane + 0.5) * wide, lanes.y + lanes.h / 2);
    }
  };
  // In the bytes the lane that asks for them; of several the first and the last, beside the bytes
  // if there is room.
  const drawLanes = (g, request, lines, { x, y, unit }, row, paint) => {
    const starts = [...new Set(request.offsets.filter(o => o >= 0))].sort((a, b) => a - b),
      own = request.bytes * unit,
      every = [1, 2, 4, 8].find(n => n * own > 1.9 * em) ?? 16;
    starts.forEach((offset, n) => {
      const lanes = sharers(request, offset),
        brief = lanesSaid(lanes, true),
        text = /^\d+$|lanes/.test(brief) ? brief : `lanes ${brief}`;
      const left = x + (offset % LINE) * unit,
        middle = y + (lines.indexOf(Math.floor(offset / LINE)) + 0.5) * row;
      const end =
        // bytes up to the next that are asked for, or the sector's end
        Math.min((Math.floor(offset / SECTOR) + 1) * SECTOR, starts[n + 1] ?? Infinity) - offset;
      const wide = g.measureText(text).width + 6,
        beside = by => starts[n + by] === offset + by * request.bytes,
        dense = beside(1) || (offset % LINE > 0 && beside(-1)),
        inside = (dense ? every : 1) * own >= wide;
      const least = Math.min(em, (em * (own - 3)) / (wide - 6)); // two digits in a narrow one
      if (!dense && !inside && /^\d+$/.test(text) && least >= 9) {
        [g.font, g.textAlign] = [`${least}px ${paint.font}`, 'center'];
        g.fillStyle = lanes[0] < 16 ? '#fff' : '#000';
        g.fillText(text, left + own / 2, middle);
        g.font = `${em}px ${paint.font}`;
        return;
      }
      if (dense && lanes[0] % every) return;
      if (!inside && (end - request.bytes) * unit < wide) return;
      g.textAlign = inside ? 'center' : 'left';
      g.fillStyle = inside ? (lanes[0] < 16 ? '#fff' : '#000') : paint.text;
      g.fillText(text, inside ? left + own / 2 : left + own + 4, middle);
    });
  };
  const sharers = (request, byte) =>
    request.offsets.flatMap((o, lane) => (o >= 0 && o <= byte && byte < o + request.bytes ? [lane] : []));

  const areas = ({ step }) => {
    now = placeOf(step);
    return panes.map(({ x, y, unit }, side) => {
      const { lines } = touched[side][now];
      return {
        rect: [x, y, LINE * unit, lines.length * rowOf(side)],
        datum: { side },
        grid: {
          ...{ columns: LINE, count: lines.length * LINE },
          thing: number => ({
            side,
            byte: lines[Math.floor(number / LINE)] * LINE + (number % LINE),
          }),
        },
      };
    });
  };
  const describe = ({ side, byte }, step) => {
    const request = sides[side].requests[placeOf(step)],
      sector = Math.floor(byte / SECTOR),
      lanes = sharers(request, byte);
    const said = lanes.length
      ? `asked for by ${lanesSaid(lanes)}`
      : touched[side][placeOf(step)].sectors.has(sector)
        ? 'moved, not used'
        : 'not moved';
    return `${sides[side].name ? `${sides[side].name}: ` : ''}byte ${number(byte)}, sector ${number(sector)}: ${said}`;
  };
  const label = step => frames[placeOf(step)].sentence;
  const legend = [
    [`border:2px solid ${PALETTE.wavefronts.moved}`, 'a sector that is moved'],
    [`background:linear-gradient(90deg,${PALETTE.magnitude.join(',')})`, 'bytes asked for, by lane 0 to 31'],
  ];
  return canvasView(host, context, {
    title: title ?? 'Sectors',
    layout,
    draw,
    areas,
    describe,
    label,
    legend,
  });
}
