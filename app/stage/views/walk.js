// One query head's walk: its block table, the page that an entry leads to, what is read there, the
// scores so far, the output.
import { canvasView } from '../core/canvas.js';
import { COLOURS, exact, number, rgb, short, signed, spanOf } from '../core/paint.js';
import { drawLabel, drawPage, drawTable } from './pages.js';
import { drawWay, wayDown, wayOut } from './ways.js';
import { walkLayout } from './layouts/walk.js';

const LEGEND = [
  [`background:${COLOURS.S}`, 'score'],
  [`background:${COLOURS.P}`, 'weight'],
  [`background:${COLOURS.V}`, 'value added'],
  ['background:var(--wg-line)', 'another sequence'],
];

export default function (host, { meta, columns }, context) {
  const { clock } = context;
  const {
    frames,
    name,
    colour,
    table,
    length,
    size,
    pages,
    others,
    kv_head,
    kv_heads,
    page_bytes,
    item,
    head_dim,
    x: X,
    head,
    partitioned,
  } = meta;
  const chunks = head_dim / X,
    { scores, weights, o } = columns;
  const finite = array => [...array].filter(Number.isFinite);
  const scoreRange = [1.06 * Math.min(0, ...finite(scores)), 1.06 * Math.max(0, ...finite(scores))],
    weightTop = Math.max(1e-30, ...finite(weights));
  const oSpan = spanOf(o),
    fillOf = entry => Math.min(size, length - entry * size);
  const frameAt = step => frames[Math.min(step, frames.length - 1)];

  // What each token has come to by each step: 1 its score is known, 2 its weight, 3 its value has
  // been added.
  const states = [];
  let now = new Uint8Array(length);
  for (const frame of frames) {
    if (frame.tokens) {
      now = now.slice();
      now.fill(
        { walk_k: 1, softmax: 2, walk_v: 3 }[frame.phase],
        frame.tokens[0],
        frame.tokens[1] + 1,
      );
    }
    states.push(now);
  }
  let em,
    width,
    left,
    cells,
    place,
    box,
    shown = 0,
    low = false;

  // The entry whose page is shown large: the one under the cursor, else the step's, else the last
  // one before it.
  const entryShown = (at, step) =>
    at?.token !== undefined
      ? Math.floor(at.token / size)
      : (frameAt(step).logical ??
        frames.slice(0, step).findLast(f => f.logical !== undefined)?.logical ??
        0);

  const layout = pane => {
    const made = walkLayout(pane, { entries: table.length, pages, length });
    ({ em, width } = pane);
    ({ left, cells, place, box, low } = made);
    return made.height;
  };

  const draw = (g, { step: asked, at, paint }) => {
    const step = Math.min(asked, frames.length - 1),
      frame = frames[step],
      state = states[step],
      entry = at?.token !== undefined ? Math.floor(at.token / size) : frame.logical;
    shown = entryShown(at, step);
    const beside = (y, bold, ...lines) => {
      // in the left column, where no arrow goes
      g.fillStyle = paint.text;
      g.font = `600 ${em}px ${paint.font}`;
      g.fillText(bold, 0, y, left - 6);
      g.font = `${em}px ${paint.font}`;
      lines.forEach((line, n) => g.fillText(line, 0, y + (n + 1) * em * 1.25, left - 6));
    };
    beside(em, `Table of ${name}`, 'entry, page');
    drawTable(g, paint, cells, table, {
      colour,
      lit: entry ?? -1,
      visited: n => state[n * size] > 0,
    });
    beside(
      place.top + em,
      'Pool',
      `${pages} pages`,
      ...(place.rows > 1 ? [`of ${size} slots`] : []),
    );
    for (let page = 0; page < pages; page++) {
      const mine = table.indexOf(page),
        other = others[page];
      drawPage(
        g,
        paint,
        place,
        page,
        size,
        mine >= 0
          ? {
              owners: [{ colour }],
              fill: fillOf(mine),
              dim: !state[mine * size] && mine !== shown,
              note: other ? 'shared' : '',
            }
          : { owners: other ? [{ colour: paint.border }] : [], fill: other ?? 0 },
      );
    }
    enlarged(g, paint, 'K', 0, frame, at);
    enlarged(g, paint, 'V', box.half + box.gap, frame, at);
    if (entry !== undefined) {
      // from the table's entry to its page, and from there to the page enlarged
      const [px, py] = place.at(table[shown]),
        to = frame.role === 'v' ? box.half * 1.5 + box.gap : box.half / 2;
      drawWay(
        g,
        wayDown(cells, shown, place, table[shown], cells.bottom + 0.6 * em),
        paint.text,
        em,
      );
      drawWay(
        g,
        wayOut(place, table[shown], [to, box.top], place.bottom + 0.7 * em),
        paint.text,
        em,
      );
      g.lineWidth = 2.5;
      g.strokeRect(px, py, place.w, place.h);
    }
    bars(g, paint, state, frame, at, step);
    if (low && !frame.written) return;
    if (low) g.clearRect(0, box.top - 2, width, box.high + 1.6 * em);
    beside(box.oTop + em, `O, head ${head}`);
    const tone = signed(rgb(paint.background)),
      wide = (width - left) / head_dim;
    for (let d = 0; d < head_dim && frame.written; d++) {
      g.fillStyle = `rgb(${tone(o[d], oSpan).map(Math.round).join(',')})`;
      g.fillRect(left + d * wide, box.oTop, wide + 0.5, box.oHigh);
    }
    if (!frame.written) {
      g.fillStyle = paint.text;
      g.fillText('not written yet', left + 6, box.oTop + 0.95 * em);
    }
    g.strokeStyle = paint.border;
    g.lineWidth = 1;
    g.strokeRect(left + 0.5, box.oTop + 0.5, width - left - 1, box.oHigh - 1);
  };

  // The page as it lies in memory: K as pieces of X numbers by slot, V as dims by slot. Rows follow
  // one another in memory.
  const enlarged = (g, paint, tensor, x, frame, at) => {
    const { half, top, high } = box,
      page = table[shown],
      rows = tensor === 'K' ? chunks : head_dim;
    const cw = half / size,
      ch = high / rows,
      base = (page * kv_heads + kv_head) * page_bytes;
    const reading = frame.role === tensor.toLowerCase() && frame.logical === shown;
    g.globalAlpha = reading ? 1 : 0.3;
    g.fillStyle = COLOURS[tensor];
    g.fillRect(x, top, fillOf(shown) * cw, high);
    g.globalAlpha = 1;
    g.strokeStyle = paint.background;
    g.lineWidth = 0.7;
    g.beginPath();
    for (let s = 1; s < size; s++) {
      g.moveTo(x + s * cw, top);
      g.lineTo(x + s * cw, top + high);
    }
    for (let r = 1; r < rows && ch > 3; r++) {
      g.moveTo(x, top + r * ch);
      g.lineTo(x + half, top + r * ch);
    }
    g.stroke();
    if (reading && tensor === 'K') {
      // where the lanes of the first load read
      g.fillStyle = '#fff';
      g.textAlign = 'center';
      g.font = `${em}px ${paint.mono}`;
      frame.request.forEach((offset, lane) => {
        if (offset === null) return;
        const piece = (offset - base) / 16,
          row = Math.floor(piece / size),
          slot = piece % size;
        if (ch >= em && cw >= 1.5 * em)
          g.fillText(String(lane), x + (slot + 0.5) * cw, top + (row + 0.5) * ch + em * 0.36);
        else
          g.fillRect(
            x + (slot + 0.3) * cw,
            top + (row + 0.25) * ch,
            cw * 0.4,
            Math.max(ch * 0.5, 1),
          );
      });
      g.textAlign = 'left';
    }
    g.strokeStyle = reading ? paint.text : paint.border;
    g.lineWidth = reading ? 2.5 : 1;
    g.strokeRect(x + 0.5, top + 0.5, half - 1, high - 1);
    if (at?.token !== undefined && Math.floor(at.token / size) === shown) {
      g.strokeStyle = paint.text;
      g.lineWidth = 2;
      g.strokeRect(x + (at.token % size) * cw, top, cw, high);
    }
    const shape =
        tensor === 'K'
          ? `[${chunks}, ${size}] \u00d7 16 bytes`
          : `[${head_dim}, ${size}] \u00d7 ${item} bytes`,
      from = `from byte ${number(base)}`;
    drawLabel(
      g,
      paint,
      em,
      `${tensor} of page ${page}`,
      [`${shape}, ${from}`, from],
      x,
      top + high + 1.25 * em,
      half,
    );
  };

  const bars = (g, paint, state, frame, at, step) => {
    const { bars: top, bar, each } = box,
      weighed = state.some(s => s >= 2),
      last = frames.slice(0, step + 1).findLast(f => f.m !== undefined);
    // V2: a later partition's scores beside an earlier one's weights
    const mixed = weighed && state.some(s => s === 1);
    const range = mixed || !weighed ? scoreRange : [0, 1.05 * weightTop],
      y = v => top + bar * (1 - (v - range[0]) / Math.max(range[1] - range[0], 1e-30));
    g.fillStyle = paint.text;
    g.font = `${em}px ${paint.font}`;
    const title = mixed ? 'Scores and weights' : weighed ? 'Weights' : 'Scores';
    const formula = 'e^(score \u2212 m)',
      said = !weighed
        ? ['a bar for each token, by its place in the sequence', 'a bar for each token']
        : partitioned
          ? [`${formula} with the m of its own partition`, formula]
          : [`${formula}, m = ${short(last.m, 4)}, l = ${short(last.l, 4)}`, formula];
    if (!low) drawLabel(g, paint, em, title, said, left, top - 0.6 * em, width - left);
    g.strokeStyle = paint.border;
    g.lineWidth = 1;
    g.textAlign = 'right';
    for (const tick of ticks(range, Math.max(3, Math.floor(bar / (2.2 * em))))) {
      g.fillText(short(tick, 3), left - 6, y(tick) + 0.35 * em);
      g.beginPath();
      g.moveTo(left - 4, y(tick));
      g.lineTo(width, y(tick));
      g.stroke();
    }
    g.textAlign = 'left';
    for (let t = 0; t < length; t++) {
      if (!state[t]) continue;
      const weight = state[t] >= 2,
        from = y(0),
        tip = weight
          ? mixed
            ? y((range[1] * weights[t]) / (1.06 * weightTop))
            : y(weights[t])
          : y(scores[t]);
      g.fillStyle = state[t] === 3 ? COLOURS.V : state[t] === 2 ? COLOURS.P : COLOURS.S;
      g.fillRect(
        left + t * each + (each > 4 ? 0.5 : 0),
        Math.min(tip, from),
        Math.max(each - (each > 4 ? 1 : 0), 0.6),
        Math.max(Math.abs(from - tip), 0.8),
      );
    }
    g.fillStyle = paint.text;
    g.textAlign = 'center';
    const skip = Math.ceil((3.2 * em) / (size * each));
    for (let t = 0, n = 0; t < length; t += size, n++) {
      g.beginPath();
      g.moveTo(left + t * each, top);
      g.lineTo(left + t * each, top + bar + 4);
      g.stroke();
      if (n % skip === 0 && t + size * 0.6 < length)
        g.fillText(String(t), left + t * each, top + bar + 1.2 * em);
    }
    g.textAlign = 'right';
    g.fillText('token', left - 1.2 * em, top + bar + 1.2 * em);
    g.textAlign = 'left';
    g.strokeRect(left + 0.5, top + 0.5, width - left - 1, bar - 1);
    if (frame.tokens) {
      g.strokeStyle = paint.text;
      g.lineWidth = 2;
      g.strokeRect(
        left + frame.tokens[0] * each,
        top,
        (frame.tokens[1] - frame.tokens[0] + 1) * each,
        bar,
      );
    }
    if (at?.token !== undefined) {
      g.strokeStyle = paint.primary;
      g.lineWidth = 2;
      g.strokeRect(left + at.token * each, top, Math.max(each, 1.5), bar);
    }
  };

  const describe = (at, asked) => {
    const step = Math.min(asked, frames.length - 1);
    if (at.dim !== undefined)
      return frames[step].written
        ? `O[${at.dim}] = ${exact(o[at.dim])}`
        : `O[${at.dim}] is not written yet`;
    if (at.other !== undefined) return `page ${at.other} is not of ${name}`;
    const t = at.token,
      entry = Math.floor(t / size),
      slot = t % size,
      base = (table[entry] * kv_heads + kv_head) * page_bytes,
      state = states[step][t];
    return (
      `token ${t} of ${name}: logical block ${entry}, slot ${slot}; page ${table[entry]}, KV head ${kv_head}\n` +
      `K: ${chunks} pieces of 16 bytes at bytes ${number(base + 16 * slot)}, ` +
      `${number(base + 16 * (size + slot))}, ... (${number(16 * size)} apart)\n` +
      `V: ${head_dim} numbers of ${item} bytes at bytes ${number(base + item * slot)}, ` +
      `${number(base + item * (size + slot))}, ... (${number(item * size)} apart)\n` +
      (state
        ? `score ${exact(scores[t])}` + (state > 1 ? `, weight ${exact(weights[t])}` : '')
        : 'score not computed yet')
    );
  };
  const locate = (x, y) => {
    const { half, gap, top, high, bars, bar, oTop, oHigh, each } = box,
      token = (t, part) => (t >= 0 && t < length ? { token: t, part } : null);
    if (y >= bars && y < bars + bar && x >= left)
      return token(Math.floor((x - left) / each), 'bars');
    if (y >= oTop && y < oTop + oHigh && x >= left && (!low || frameAt(clock.step).written))
      return { dim: Math.min(head_dim - 1, Math.floor(((x - left) / (width - left)) * head_dim)) };
    if (y >= top && y < top + high) {
      const [part, from] = x >= half + gap ? ['V', half + gap] : ['K', 0];
      return x >= half && part === 'K'
        ? null
        : token(shown * size + Math.min(size - 1, Math.floor((x - from) / (half / size))), part);
    }
    const entry = cells.find(x, y);
    if (entry >= 0) return token(entry * size, 'table');
    const found = place.find(x, y);
    if (!found) return null;
    const mine = table.indexOf(found.page);
    return mine < 0
      ? { other: found.page }
      : token(
          mine * size + Math.min(fillOf(mine) - 1, Math.floor(found.x / (place.w / size))),
          'pool',
        );
  };
  const label = step => `${frameAt(step).title}. ${frameAt(step).sentence}`;
  return canvasView(host, context, {
    title: `Walk of query head ${head} of ${name}`,
    layout,
    draw,
    locate,
    describe,
    label,
    legend: LEGEND,
  });
}

// Round numbers in a range, about `count` of them.
/** @param {number[]} range
 * @param {number} count */
function ticks([low, high], count) {
  const rough = (high - low) / count,
    power = 10 ** Math.floor(Math.log10(rough)),
    step = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough);
  const found = [];
  for (let n = Math.ceil(low / step); n * step <= high + 1e-9 * step; n++) found.push(n * step);
  return found;
}
