// One query head's walk: its block table, the page that an entry leads to, what is read there, the scores so far, the output.
export default function ({ data, parentElement }) {
  const { frames, name, colour, table, length, size, pages, others, kv_head, kv_heads, page_bytes, item, head_dim, x: X, head, partitioned } = data.meta;
  const B = bus(), chunks = head_dim / X, number = value => value.toLocaleString('en');
  const scores = column(data.scores), weights = column(data.weights), o = column(data.o);
  const finite = array => [...array].filter(Number.isFinite);
  const scoreRange = [Math.min(0, ...finite(scores)), Math.max(0, ...finite(scores))], weightTop = Math.max(1e-30, ...finite(weights));
  const oSpan = spanOf(o), colourOf = background => signed(rgb(background));
  const fillOf = entry => Math.min(size, length - entry * size);

  // What each token has come to by each step: 1 its score is known, 2 its weight, 3 its value has been added.
  const states = [];
  let now = new Uint8Array(length);
  for (const frame of frames) {
    if (frame.tokens) {
      now = now.slice();
      now.fill({ walk_k: 1, softmax: 2, walk_v: 3 }[frame.phase], frame.tokens[0], frame.tokens[1] + 1);
    }
    states.push(now);
  }
  let width, cells, place, layout, paint;
  const tables = Math.max(1, table.length);

  // The entry whose page is shown large: the one under the cursor, else the step's, else the last one before it.
  const entryShown = (at, step) => (at?.token !== undefined ? Math.floor(at.token / size)
    : frames[step].logical ?? [...frames.slice(0, step)].reverse().find(f => f.logical !== undefined)?.logical ?? 0);
  const arrange = wide => {
    width = wide;
    const w = Math.max(27, Math.min(44, width / tables)), tableBottom = 22 + Math.ceil(table.length / Math.max(1, Math.floor(width / w))) * 37 - 5;
    place = placePages(pages, width, tableBottom + 42);
    const half = (width - 24) / 2, pageTop = place.bottom + 46, pageHeight = 190;
    const barsTop = pageTop + pageHeight + 40, barsHeight = 92, oTop = barsTop + barsHeight + 40;
    layout = { half, pageTop, pageHeight, barsTop, barsHeight, oTop, shown: 0, each: width / length };
    return oTop + 22;
  };
  const draw = (g, { step: clockStep, at, paint: colours }) => {
    const step = Math.min(clockStep, frames.length - 1), frame = frames[step], state = states[step];
    const entry = at?.token !== undefined ? Math.floor(at.token / size) : frame.logical;
    const shown = layout.shown = entryShown(at, step);
    paint = colours;
    const label = (text, x, y, note = '', most) => {
      g.fillStyle = paint.text;
      g.font = `600 13px ${paint.font}`;
      g.fillText(text, x, y);
      const used = g.measureText(text).width;
      g.font = `12px ${paint.font}`;
      if (x + used + 8 + g.measureText(note).width <= (most ?? width)) g.fillText(note, x + used + 8, y);  // where there is room
    };

    label(`Block table of ${name}`, 0, 13, 'logical block above, page below');
    cells = drawTable(g, paint, table, 0, 22, width, { colour, lit: entry ?? -1, visited: n => state[n * size] > 0 });
    label('Pool', 0, place.at(0)[1] - 8, `${pages} pages of ${size} slots; the pages of other sequences are grey`);
    for (let page = 0; page < pages; page++) {
      const mine = table.indexOf(page), other = others[page];
      drawPage(g, paint, place, page, size, mine >= 0 ? { owners: [{ colour }], fill: fillOf(mine), dim: !state[mine * size] && mine !== shown, note: other ? 'shared' : '' }
        : { owners: other ? [{ colour: paint.border }] : [], fill: other ?? 0 });
    }
    const page = table[shown], [px, py] = place.at(page), [cx, cy] = cells.at(shown);
    if (entry !== undefined) {  // from the table's entry to its page, and from there to the page enlarged
      g.strokeStyle = paint.text;
      g.lineWidth = 2.5;
      g.strokeRect(px, py, place.w, place.h);
      g.lineWidth = 1.5;
      g.beginPath();
      g.moveTo(cx + cells.w / 2 - 1, cy + cells.h);
      g.lineTo(px + place.w / 2, py);
      g.moveTo(px + place.w / 2, py + place.h);
      g.lineTo(px + place.w / 2, place.bottom + 10);
      g.lineTo(frame.role === 'v' ? layout.half * 1.5 + 24 : layout.half / 2, place.bottom + 28);
      g.stroke();
    }

    enlarged(g, 'K', 0, frame, label, at);
    enlarged(g, 'V', layout.half + 24, frame, label, at);
    bars(g, state, frame, label, at, step);
    label(`O of query head ${head}`, 0, layout.oTop - 8, frame.written ? `${head_dim} numbers: blue below zero, orange above` : 'not written yet');
    for (let d = 0; d < head_dim && frame.written; d++) {
      g.fillStyle = `rgb(${colourOf(paint.background)(o[d], oSpan).map(Math.round).join(',')})`;
      g.fillRect((d * width) / head_dim, layout.oTop, width / head_dim + 0.5, 18);
    }
    g.strokeStyle = paint.border;
    g.lineWidth = 1;
    g.strokeRect(0.5, layout.oTop + 0.5, width - 1, 17);
  };

  // The page as it lies in memory: K as pieces of X numbers by slot, V as dims by slot. Rows follow one another in memory.
  const enlarged = (g, tensor, left, frame, label, at) => {
    const { half, pageTop, pageHeight, shown } = layout, page = table[shown], rows = tensor === 'K' ? chunks : head_dim;
    const cw = half / size, ch = pageHeight / rows, filled = fillOf(shown), base = (page * kv_heads + kv_head) * page_bytes;
    const reading = frame.role === tensor.toLowerCase() && frame.logical === shown;
    label(`${tensor} of page ${page}`, left, pageTop - 8, tensor === 'K' ? `[${chunks}, ${size}] × 16 bytes, from byte ${number(base)}` : `[${head_dim}, ${size}] × ${item} bytes, from byte ${number(base)}`, left + half);
    g.globalAlpha = reading ? 0.85 : 0.3;
    g.fillStyle = tensor === 'K' ? COLOURS.K : COLOURS.V;
    g.fillRect(left, pageTop, filled * cw, pageHeight);
    g.globalAlpha = 1;
    g.strokeStyle = paint.background;
    g.lineWidth = 0.7;
    g.beginPath();
    for (let s = 1; s < size; s++) { g.moveTo(left + s * cw, pageTop); g.lineTo(left + s * cw, pageTop + pageHeight); }
    for (let r = 1; r < rows && ch > 3; r++) { g.moveTo(left, pageTop + r * ch); g.lineTo(left + half, pageTop + r * ch); }
    g.stroke();
    g.strokeStyle = reading ? paint.text : paint.border;
    g.lineWidth = reading ? 2.5 : 1;
    g.strokeRect(left + 0.5, pageTop + 0.5, half - 1, pageHeight - 1);
    if (reading && tensor === 'K') {  // the lanes of the first load, where each reads
      g.fillStyle = '#000';
      g.font = `9px ${paint.mono}`;
      g.textAlign = 'center';
      frame.request.forEach((offset, lane) => {
        if (offset === null) return;
        const piece = (offset - base) / 16, row = Math.floor(piece / size), slot = piece % size;
        if (ch >= 8 && cw >= 12) g.fillText(String(lane), left + (slot + 0.5) * cw, pageTop + (row + 0.5) * ch + 3);
        else g.fillRect(left + slot * cw + 1, pageTop + row * ch + 1, cw - 2, Math.max(ch - 2, 1));
      });
      g.textAlign = 'left';
    }
    if (at?.token !== undefined && Math.floor(at.token / size) === shown) {
      g.strokeStyle = paint.text;
      g.lineWidth = 2;
      g.strokeRect(left + (at.token % size) * cw, pageTop, cw, pageHeight);
    }
  };

  const bars = (g, state, frame, label, at, step) => {
    const { barsTop, barsHeight, each } = layout, weighed = state.some(s => s >= 2);
    const m = [...frames.slice(0, step + 1)].reverse().find(f => f.m !== undefined);
    const mixed = weighed && state.some(s => s === 1);  // V2: a later partition's scores beside an earlier one's weights
    label(mixed ? 'Weights, and scores (purple)' : weighed ? 'Weights' : 'Scores', 0, barsTop - 8, weighed ? (partitioned ? 'e^(score - m) with the m of its own partition; green once its value is added' : `e^(score - m) of each token; m = ${short(m.m, 4)}, l = ${short(m.l, 4)}; green once its value is added`) : 'one bar per token, by its place in the sequence; lines part logical blocks');
    const [lo, hi] = scoreRange, y = v => barsTop + barsHeight * (1 - (v - lo) / Math.max(hi - lo, 1e-30)), zero = y(0);
    for (let t = 0; t < length; t++) {
      if (!state[t]) continue;
      const weight = state[t] >= 2, top = weight ? barsTop + barsHeight * (1 - weights[t] / weightTop) : y(scores[t]), from = weight ? barsTop + barsHeight : zero;
      g.fillStyle = state[t] === 3 ? COLOURS.V : state[t] === 2 ? COLOURS.P : COLOURS.S;
      g.fillRect(t * each + (each > 4 ? 0.5 : 0), Math.min(top, from), Math.max(each - (each > 4 ? 1 : 0), 0.6), Math.max(Math.abs(from - top), 0.8));
    }
    g.strokeStyle = paint.border;
    g.lineWidth = 1;
    g.beginPath();
    for (let t = size; t < length; t += size) { g.moveTo(t * each, barsTop); g.lineTo(t * each, barsTop + barsHeight); }
    g.stroke();
    g.strokeRect(0.5, barsTop + 0.5, width - 1, barsHeight - 1);
    if (frame.tokens) {
      g.strokeStyle = paint.text;
      g.lineWidth = 2;
      g.strokeRect(frame.tokens[0] * each, barsTop, (frame.tokens[1] - frame.tokens[0] + 1) * each, barsHeight);
    }
    if (at?.token !== undefined) {
      g.strokeStyle = paint.primary;
      g.lineWidth = 2;
      g.strokeRect(at.token * each, barsTop, Math.max(each, 1.5), barsHeight);
    }
  };

  const describe = (at, clockStep) => {
    const step = Math.min(clockStep, frames.length - 1);
    if (at.dim !== undefined) return frames[step].written ? `O[${at.dim}] = ${exact(o[at.dim])}` : `O[${at.dim}] is not written yet`;
    if (at.other !== undefined) return `page ${at.other} is not of ${name}`;
    const t = at.token, entry = Math.floor(t / size), slot = t % size, base = (table[entry] * kv_heads + kv_head) * page_bytes, state = states[step][t];
    return `token ${t} of ${name}: logical block ${entry}, slot ${slot}; page ${table[entry]}, KV head ${kv_head}\n`
      + `K: ${chunks} pieces of 16 bytes at bytes ${number(base + 16 * slot)}, ${number(base + 16 * (size + slot))}, ... (${number(16 * size)} apart)\n`
      + `V: ${head_dim} numbers of ${item} bytes at bytes ${number(base + item * slot)}, ${number(base + item * (size + slot))}, ... (${number(item * size)} apart)\n`
      + (state ? `score ${exact(scores[t])}` + (state > 1 ? `, weight ${exact(weights[t])}` : '') : 'score not computed yet');
  };
  const locate = (x, y) => {
    const { half, pageTop, pageHeight, barsTop, barsHeight, oTop, shown, each } = layout, token = (t, part) => (t < length ? { token: t, part } : null);
    if (y >= barsTop && y < barsTop + barsHeight) return token(Math.floor(x / each), 'bars');
    if (y >= oTop && y < oTop + 18) return { dim: Math.min(head_dim - 1, Math.floor((x / width) * head_dim)) };
    if (y >= pageTop && y < pageTop + pageHeight) {
      const [part, from] = x >= half + 24 ? ['V', half + 24] : ['K', 0];
      return x >= half && part === 'K' ? null : token(shown * size + Math.min(size - 1, Math.floor((x - from) / (half / size))), part);
    }
    const entry = cells.find(x, y);
    if (entry >= 0) return token(entry * size, 'table');
    const found = place.find(x, y);
    if (!found) return null;
    const mine = table.indexOf(found.page);
    return mine < 0 ? { other: found.page } : token(mine * size + Math.min(fillOf(mine) - 1, Math.floor(found.x / (place.w / size))), 'pool');
  };
  const label = step => `${frames[Math.min(step, frames.length - 1)].title}. ${frames[Math.min(step, frames.length - 1)].sentence}`;
  return canvasView(parentElement, { title: `Walk of query head ${head} of ${name}`, layout: arrange, draw, locate, describe, label }).unmount;
}
