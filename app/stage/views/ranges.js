// Decoding over a work list: all pages end to end and where they are cut; the followed block's ring
// of stages and its warps; the scores of the followed sequence; and how the results of its pieces
// become one.
import { gridArea } from '../core/areas.js';
import { canvasView } from '../core/canvas.js';
import { COLOURS, exact, short, smallText, theme, widest } from '../core/paint.js';
import { drawLabel, fitting } from './pages.js';
import { drawWay } from './ways.js';
import { rangesLayout } from './layouts/ranges.js';

export default function (host, { meta, columns }, context) {
  const {
      frames,
      names,
      colours,
      sequence,
      head,
      kv_head,
      length,
      size,
      lists,
      units,
      stages,
      stage_pages,
      warps,
      merged,
    } = meta,
    { scores, o } = columns;
  const frameAt = step => frames[Math.min(step, frames.length - 1)],
    last = frames.length - 1,
    name = names[sequence];
  const tiles = units.flatMap(unit => unit.tiles),
    brought = units.flatMap(unit => unit.pages.map(page => ({ ...page, list: unit.list })));
  const tileOf = token => tiles.find(tile => token >= tile.first && token < tile.end),
    unitOf = token => units.find(unit => token >= unit.tokens[0] && token < unit.tokens[1]);
  const finite = [...scores].filter(Number.isFinite),
    low = 1.06 * Math.min(0, ...finite),
    high = 1.06 * Math.max(0, ...finite);
  const mergedAt = frames.findIndex(frame => frame.written),
    whole = units.length === 1;
  // Of each list, whose cells are followed, and the range that has a cell.
  const strips = lists.map(list =>
    list.cells.map((cell, n) => {
      const [unit, range] = list.units.find(([, , from, count]) => n >= from && n < from + count);
      return {
        seq: cell[0],
        entry: cell[1],
        page: cell[2],
        unit,
        range,
        holders: list.sharers[unit],
        mine: list.sharers[unit].includes(sequence),
      };
    }),
  );
  const sinceOf = (list, entry) => brought.find(page => page.list === list && page.entry === entry)?.since ?? Infinity;
  let em, small, width, rows, ring, bars, parts;

  const layout = pane => {
    ({ em, width } = pane);
    small = smallText(em);
    const ends = [low, 0, high].map(value => short(value / 1.06, 3)),
      made = rangesLayout(pane, {
        lists: strips.map(strip => strip.length),
        stages,
        length,
        units: units.length,
        labels: widest(ends, `${small}px ${theme(host).font}`),
      });
    ({ rows, ring, bars, parts } = made);
    return made.height;
  };

  const title = (g, paint, bold, notes, y) => drawLabel(g, paint, em, bold, notes, 0, y, width);
  const box = (g, colour, x, y, w, h, wide = 2) => {
    g.strokeStyle = colour;
    g.lineWidth = wide;
    g.strokeRect(x + wide / 2, y + wide / 2, w - wide, h - wide);
  };
  const text = (g, paint, said, x, y, { bold = false, align = 'center', tiny = false, wide = Infinity } = {}) => {
    g.fillStyle = paint.text;
    g.font = `${bold ? 600 : 400} ${tiny ? small : em}px ${paint.font}`;
    g.textAlign = align;
    g.fillText(Array.isArray(said) ? fitting(g, said, wide) : said, x, y);
    g.textAlign = 'left';
  };

  const drawStrip = (g, paint, list, step, at) => {
    const strip = strips[list],
      { y, each, h } = rows[list],
      frame = frameAt(step),
      now = units[frame.unit];
    const several = lists.length > 1,
      pages = `${strip.length} page${strip.length > 1 ? 's' : ''}`;
    const cut = `${lists[list].ranges} range${lists[list].ranges > 1 ? 's' : ''}`;
    title(
      g,
      paint,
      lists[list].shared ? 'Shared prefix' : several ? 'Own pages' : 'Work list',
      [`${pages} in a list, cut into ${cut}, KV head ${kv_head}`, `${pages}, ${cut}`, cut],
      y - 1.35 * em,
    );
    strip.forEach((cell, n) => {
      const x = n * each,
        there = cell.mine && step >= sinceOf(list, cell.entry),
        lit = now?.list === list && frame.phase === 'prefetch_tile' && cell.mine && frame.entry === cell.entry;
      g.globalAlpha = there ? 0.75 : cell.mine ? 0.3 : 0.12;
      cell.holders.forEach((holder, i) => {
        g.fillStyle = colours[holder];
        g.fillRect(x, y + (h * i) / cell.holders.length, each - 2, h / cell.holders.length);
      });
      g.globalAlpha = 1;
      box(g, lit ? paint.text : paint.border, x, y, each - 2, h, lit ? 3 : 1);
      text(g, paint, [String(cell.page)], x + each / 2 - 1, y + h / 2 + 0.36 * em, {
        bold: there,
        wide: each - 4,
      });
      if (!n || strip[n - 1].seq !== cell.seq) {
        const run = strip.filter(other => other.seq === cell.seq).length;
        text(g, paint, [cell.holders.map(i => names[i]).join(', '), names[cell.seq]], x, y - 0.25 * em, {
          align: 'left',
          tiny: true,
          wide: run * each - 4,
        });
      }
    });
    for (let range = 0; range < lists[list].ranges; range++) {
      // a bracket under each range, and what it is called
      const mine = strip
        .map((cell, n) => [cell.range, n])
        .filter(([r]) => r === range)
        .map(([, n]) => n);
      if (!mine.length) continue;
      const x = mine[0] * each,
        w = (mine.at(-1) + 1) * each - 2 - x,
        busy = now?.list === list && now.range === range && !frame.merged,
        under = y + h + 0.25 * em;
      g.strokeStyle = busy ? paint.text : paint.border;
      g.lineWidth = busy ? 2.5 : 1.5;
      g.beginPath();
      g.moveTo(x, under - 2);
      g.lineTo(x, under + 2);
      g.lineTo(x + w, under + 2);
      g.lineTo(x + w, under - 2);
      g.stroke();
      text(g, paint, [`range ${range}`, String(range)], x + w / 2, under + 1.05 * em, {
        bold: busy,
        tiny: true,
        wide: w,
      });
    }
    if (at?.list === list && at.cell !== undefined) box(g, paint.primary, at.cell * each, y, each - 2, h);
  };

  // The block that is followed: its stages with the pages that have come or are on their way, and
  // its warps with m and l.
  const drawRing = (g, paint, step, at) => {
    const frame = frameAt(step),
      unit = units[frame.unit],
      busy = unit && !frame.merged;
    const where = unit
      ? `${lists[unit.list].shared ? 'prefix range' : 'range'} ${unit.range}, block ${unit.block}`
      : 'no block yet';
    title(
      g,
      paint,
      'In shared memory',
      busy
        ? [`${where}: stages of ${stage_pages} page${stage_pages > 1 ? 's' : ''}, asked for ahead`, where]
        : [frame.merged ? 'all ranges are done' : where],
      ring.y - 0.45 * em,
    );
    for (let stage = 0; stage < stages; stage++) {
      const x = stage * ring.w,
        w = ring.w - 6,
        each = w / stage_pages,
        here = busy ? unit.pages.filter(page => page.stage === stage && page.since <= step) : [];
      const round = Math.max(-1, ...here.map(page => page.since)),
        shown = here.filter(page => here.every(other => other.slot !== page.slot || other.since <= page.since));
      for (let slot = 0; slot < stage_pages; slot++) {
        const page = shown.find(one => one.slot === slot),
          left = x + slot * each;
        if (page) {
          g.globalAlpha = 0.55;
          g.fillStyle = COLOURS.K;
          g.fillRect(left, ring.y, each - 2, ring.h / 2);
          g.fillStyle = COLOURS.V;
          g.fillRect(left, ring.y + ring.h / 2, each - 2, ring.h / 2);
          g.globalAlpha = 1;
          text(g, paint, [String(page.page)], left + each / 2 - 1, ring.y + ring.h / 2 + 0.36 * em, {
            bold: page.since === round && step === page.since,
            wide: each - 4,
          });
        } else if (!slot)
          text(g, paint, [`stage ${stage}`, String(stage)], left + 4, ring.y + ring.h / 2 + 0.36 * em, {
            align: 'left',
            tiny: true,
            wide: each - 8,
          });
        box(
          g,
          page && page.since === step ? paint.text : paint.border,
          left,
          ring.y,
          each - 2,
          ring.h,
          page && page.since === step ? 2.5 : 1,
        );
      }
      if (at?.stage === stage) box(g, paint.primary, x, ring.y, w, ring.h);
    }
    const w = width / warps;
    for (let warp = 0; warp < warps; warp++) {
      const done = busy ? unit.tiles.filter(tile => tile.warp === warp && tile.since <= step) : [],
        tile = done.at(-1),
        x = warp * w,
        now = frame.phase === 'scores' && frame.warp === warp;
      if (now) {
        g.globalAlpha = 0.22;
        g.fillStyle = COLOURS.S;
        g.fillRect(x, ring.warps, w - 6, 2.5 * em);
        g.globalAlpha = 1;
      }
      box(g, now ? paint.text : paint.border, x, ring.warps, w - 6, 2.5 * em, now ? 2.5 : 1);
      const span = tile && `${tile.first}\u2013${tile.end - 1}`;
      text(
        g,
        paint,
        tile ? [`warp ${warp}: tokens ${span}`, `warp ${warp}: ${span}`, `warp ${warp}`] : [`warp ${warp}`],
        x + 5,
        ring.warps + 1.02 * em,
        { align: 'left', tiny: true, bold: now, wide: w - 14 },
      );
      if (tile)
        text(
          g,
          paint,
          [
            `m ${short(tile.m, 4)}, l ${short(tile.l, 4)}`,
            `m ${short(tile.m, 3)}, l ${short(tile.l, 3)}`,
            `${short(tile.m, 2)}, ${short(tile.l, 2)}`,
          ],
          x + 5,
          ring.warps + 2.1 * em,
          { align: 'left', tiny: true, wide: w - 14 },
        );
      if (at?.warp === warp) box(g, paint.primary, x, ring.warps, w - 6, 2.5 * em);
    }
  };

  const drawBars = (g, paint, step, at) => {
    const { x, y, h, each } = bars,
      Y = value => y + h * (1 - (value - low) / Math.max(high - low, 1e-30)),
      frame = frameAt(step);
    title(
      g,
      paint,
      `Scores of ${name}, head ${head}`,
      [`a bar for each of ${length} tokens, lines between ranges`, `${length} tokens`],
      y - 0.45 * em,
    );
    g.font = `${small}px ${paint.font}`;
    for (const value of [Math.max(...finite, 0), 0, Math.min(...finite, 0)].filter(
      (v, n, all) => all.findIndex(other => Math.abs(Y(other) - Y(v)) < small) === n,
    )) {
      g.fillStyle = paint.text;
      g.textAlign = 'right';
      g.fillText(short(value, 3), x - 5, Y(value) + 0.36 * small);
      g.textAlign = 'left';
      g.strokeStyle = paint.border;
      g.lineWidth = 1;
      g.beginPath();
      g.moveTo(x, Y(value));
      g.lineTo(width, Y(value));
      g.stroke();
    }
    for (const tile of tiles) {
      if (tile.since > step) continue;
      for (let token = tile.first; token < tile.end; token++) {
        const value = scores[token];
        if (!Number.isFinite(value)) continue;
        g.fillStyle = COLOURS.S;
        g.fillRect(
          x + token * each + (each > 4 ? 0.5 : 0),
          Math.min(Y(value), Y(0)),
          Math.max(each - (each > 4 ? 1 : 0), 0.6),
          Math.max(1, Math.abs(Y(value) - Y(0))),
        );
      }
    }
    g.strokeStyle = paint.text;
    g.lineWidth = 1.5;
    for (const unit of units.filter(one => one.tokens[0])) {
      g.setLineDash([4, 3]);
      g.beginPath();
      g.moveTo(x + unit.tokens[0] * each, y);
      g.lineTo(x + unit.tokens[0] * each, y + h);
      g.stroke();
      g.setLineDash([]);
    }
    g.strokeStyle = paint.border;
    g.lineWidth = 1;
    g.strokeRect(x + 0.5, y + 0.5, width - x - 1, h - 1);
    if (frame.tokens)
      box(g, paint.text, x + frame.tokens[0] * each, y, (frame.tokens[1] - frame.tokens[0] + 1) * each, h);
    if (at?.token !== undefined) box(g, paint.primary, x + at.token * each, y, Math.max(each, 3), h);
  };

  // Each piece's m and l under its tokens, by their weights into one.
  const drawParts = (g, paint, step, at) => {
    const { y, h, w, gap, all } = parts,
      done = step >= mergedAt,
      merging = frameAt(step).merged;
    units.forEach((unit, n) => {
      if (whole) return;
      const x = n * (w + gap),
        there = unit.since <= step,
        now = unit.since === step;
      if (there) {
        g.globalAlpha = 0.25;
        g.fillStyle = COLOURS.P;
        g.fillRect(x, y, w, h);
        g.globalAlpha = 1;
      }
      box(g, now || merging ? paint.text : paint.border, x, y, w, h, now || merging ? 2.5 : 1);
      text(
        g,
        paint,
        [
          `partition ${unit.partition}, ${lists[unit.list].shared ? 'prefix ' : ''}range ${unit.range}`,
          `partition ${unit.partition}`,
          `part ${unit.partition}`,
          String(unit.partition),
        ],
        x + 5,
        y + em,
        { align: 'left', tiny: true, bold: now, wide: w - 8 },
      );
      const under = (said, line) =>
        text(g, paint, said, x + 5, y + (1 + 1.1 * line) * em, {
          align: 'left',
          tiny: true,
          wide: w - 8,
        });
      if (there)
        under(
          [
            `m ${short(unit.m, 4)}, l ${short(unit.l, 4)}`,
            `m ${short(unit.m, 3)}, l ${short(unit.l, 3)}`,
            `l ${short(unit.l, 3)}`,
            short(unit.l, 2),
          ],
          1,
        );
      if (done)
        under(
          [`l \u00d7 ${short(unit.weight, 4)} = ${short(unit.l * unit.weight, 4)}`, `\u00d7 ${short(unit.weight, 3)}`],
          2,
        );
      if (at?.part === n) box(g, paint.primary, x, y, w, h);
    });
    const x = whole ? 0 : width - all,
      wide = whole ? width : all;
    if (!whole) {
      g.save(); // an arrow to the right, which drawWay draws downwards
      g.translate(x - 0.35 * em, y + h / 2);
      g.rotate(-Math.PI / 2);
      drawWay(
        g,
        [
          [0, -1.3 * em],
          [0, 0],
        ],
        merging ? paint.text : paint.border,
        em,
      );
      g.restore();
    }
    if (done) {
      g.globalAlpha = 0.25;
      g.fillStyle = COLOURS.O;
      g.fillRect(x, y, wide, h);
      g.globalAlpha = 1;
    }
    box(g, merging ? paint.text : paint.border, x, y, wide, h, merging ? 2.5 : 1);
    text(
      g,
      paint,
      whole
        ? [`All of ${name} is one piece: nothing is merged`, `All of ${name}`]
        : [`All of ${name}, head ${head}`, `All of ${name}`, name],
      x + 5,
      y + em,
      { align: 'left', tiny: true, bold: true, wide: wide - 8 },
    );
    const under = (said, line) =>
      text(g, paint, said, x + 5, y + (1 + 1.1 * line) * em, {
        align: 'left',
        tiny: true,
        wide: wide - 8,
      });
    under(
      done
        ? [`m ${short(merged.m, 4)}, l ${short(merged.l, 4)}`, `l ${short(merged.l, 3)}`]
        : ['not written yet', 'not yet'],
      1,
    );
    if (done && !whole) under([`O[0] = ${short(o[0], 4)}`, short(o[0], 3)], 2);
    if (at?.part === 'all') box(g, paint.primary, x, y, wide, h);
  };

  const draw = (g, { step: asked, at, paint }) => {
    const step = Math.min(asked, last);
    lists.forEach((_, list) => drawStrip(g, paint, list, step, at));
    drawRing(g, paint, step, at);
    drawBars(g, paint, step, at);
    drawParts(g, paint, step, at);
  };

  const areas = () => {
    const all = { rect: [width - parts.all, parts.y, parts.all, parts.h], datum: { part: 'all' } },
      each = parts.w + parts.gap;
    if (whole) all.rect = [0, parts.y, width, parts.h];
    return [
      ...rows.map(({ y, h, each: cell }, list) =>
        gridArea([0, y, strips[list].length * cell, h], strips[list].length, n => ({
          list,
          cell: n,
        })),
      ),
      gridArea([0, ring.y, stages * ring.w, ring.h], stages, stage => ({ stage })),
      gridArea([0, ring.warps, width, 2.5 * em], warps, warp => ({ warp })),
      gridArea([bars.x, bars.y, length * bars.each, bars.h], length, token => ({ token })),
      ...(whole ? [] : units.map((_, n) => n)).map(part => ({
        rect: [part * each, parts.y, each, parts.h],
        datum: { part },
      })),
      all,
    ];
  };
  const describe = (at, asked) => {
    const step = Math.min(asked, last),
      unit = units[frameAt(step).unit];
    if (at.cell !== undefined) {
      const cell = strips[at.list]?.[at.cell];
      if (!cell) return '';
      const since = cell.mine ? sinceOf(at.list, cell.entry) : Infinity,
        who = cell.holders.map(n => names[n]).join(', ');
      return (
        `page ${cell.page}: entry ${cell.entry} of ${who}'s block ` +
        `table${cell.holders.length > 1 ? 's' : ''}\nunit ${cell.unit} of the work list, ` +
        `range ${cell.range}` +
        (since <= step
          ? `\nbrought in step ${since + 1}`
          : cell.mine
            ? '\nnot brought yet'
            : `\nnot of ${name}, which is followed`)
      );
    }
    if (at.stage !== undefined) {
      const here =
        unit && !frameAt(step).merged ? unit.pages.filter(page => page.stage === at.stage && page.since <= step) : [];
      return (
        `stage ${at.stage} of ${stages}: ` +
        (here.length
          ? here.map(page => `page ${page.page} (entry ${page.entry})`).join(', ')
          : `no page of ${name} here`)
      );
    }
    if (at.warp !== undefined) {
      const tile =
        unit && !frameAt(step).merged && unit.tiles.filter(one => one.warp === at.warp && one.since <= step).at(-1);
      return tile
        ? `warp ${at.warp}: tokens ${tile.first} to ${tile.end - 1} last\nm = ${exact(tile.m)}, l = ${exact(tile.l)}`
        : `warp ${at.warp}: no tokens of ${name} yet`;
    }
    if (at.token !== undefined) {
      const tile = tileOf(at.token),
        of = unitOf(at.token),
        entry = Math.floor(at.token / size);
      const known = tile && tile.since <= step && Number.isFinite(scores[at.token]);
      return (
        `token ${at.token} of ${name}: entry ${entry}, slot ${at.token % size}; range ` +
        `${of?.range}, partition ${of?.partition}\n` +
        (known ? `score ${exact(scores[at.token])}, by warp ${tile.warp}` : 'score not computed yet')
      );
    }
    if (at.part === 'all')
      return step >= mergedAt
        ? `${name}, head ${head}: m = ${exact(merged.m)}, l = ${exact(merged.l)}\nO[0] = ${exact(o[0])}`
        : 'not written yet';
    const part = units[at.part];
    if (!part) return '';
    return (
      `partition ${part.partition}: tokens ${part.tokens[0]} to ${part.tokens[1] - 1}, range ${part.range}\n` +
      (part.since <= step
        ? `m = ${exact(part.m)}, l = ${exact(part.l)}` +
          (step >= mergedAt ? `, weight e^(m\u1d62 \u2212 m) = ${exact(part.weight)}` : '')
        : 'not done yet')
    );
  };
  const label = step =>
    `${frameAt(step).title}. ${frameAt(step).sentence} Pages brought so far: ${
      brought
        .filter(page => page.since <= step)
        .map(page => page.page)
        .join(', ') || 'none'
    }.`;
  const LEGEND = [
    [`background:${COLOURS.K}`, 'K'],
    [`background:${COLOURS.V}`, 'V'],
    [`background:${COLOURS.S}`, 'score'],
    [`background:${COLOURS.P};opacity:.4`, 'partial result'],
    [`background:${COLOURS.O};opacity:.4`, 'output'],
  ];
  return canvasView(host, context, {
    title: `Ranges of ${name}, query head ${head}`,
    layout,
    draw,
    areas,
    describe,
    label,
    legend: LEGEND,
  });
}
