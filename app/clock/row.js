// One row of the online softmax: its scores and the running max, each key's weight as it counts now, and O's row.
const TOP = 24, LEFT = 58, GAPS = 44;

export default function ({ data, parentElement }) {
  const { frames, row, ordinary, tile_of, block_kv } = data.meta;
  const table = parentElement.querySelector('.numbers');
  const scores = column(data.scores), weights = column(data.weights), truth = column(data.weights_true), o = column(data.o), oTrue = column(data.o_true);
  const n = scores.length, d = oTrue.length, HEIGHTS = [150, 110, 100];
  const finite = array => [...array].filter(Number.isFinite);
  const range = [Math.min(0, ...finite(scores)), Math.max(0, ...finite(scores))];
  const blocks = o.length / d;

  // How much each tile's weights have been rescaled by each step: the product of the later rescale factors, as logged.
  const tiles = Math.max(...tile_of) + 1, decay = [];
  let now = new Float64Array(tiles).fill(1);
  for (const frame of frames) {
    if (frame.rescale !== null && frame.tile > 0) {
      now = now.slice();
      for (let t = 0; t < frame.tile; t++) now[t] *= Number(frame.rescale);
    }
    decay.push(now);
  }
  const weight = (step, key) => weights[key] * (ordinary ? 1 : decay[step][tile_of[key]]);
  // What it should be: softmax itself for 01 and 02, e^(score - m) with the m that stands now for an online softmax.
  const due = (frame, key) => (ordinary ? truth[key] : Math.exp(scores[key] - Number(frame.m)));
  const weightTop = ordinary ? Math.max(...finite(truth)) : Math.max(1, ...finite(weights));
  const oSpan = block => Math.max(1e-30, ...finite(o.slice(block * d, block * d + d)).map(Math.abs), ...(block === blocks - 1 ? finite(oTrue).map(Math.abs) : []));
  let accumulators = 1e-30;
  for (let b = 0; b < blocks - 1; b++) accumulators = Math.max(accumulators, oSpan(b));

  let panels, w;
  const axis = (g, paint, x, y, w, h, label, lo, hi) => {
    g.strokeStyle = paint.border;
    g.lineWidth = 1;
    g.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    g.fillStyle = paint.text;
    g.font = `600 13px ${paint.font}`;
    g.textAlign = 'left';
    g.fillText(label, x, y - 8);
    g.font = `11px ${paint.mono}`;
    g.textAlign = 'right';
    g.fillText(short(hi, 2), x - 5, y + 9);
    g.fillText(short(lo, 2), x - 5, y + h - 1);
    g.textAlign = 'left';
  };
  const bar = (g, x, w, zero, top) => g.fillRect(x, Math.min(zero, top), Math.max(w, 0.6), Math.max(Math.abs(top - zero), 0.6));

  const frameAt = step => frames[Math.min(step, frames.length - 1)];
  const layout = width => {
    w = width - LEFT - 4;
    const y1 = TOP + HEIGHTS[0] + GAPS, y2 = y1 + HEIGHTS[1] + GAPS;
    panels = [{ kind: 'score', y: TOP, h: HEIGHTS[0], count: n }, { kind: 'weight', y: y1, h: HEIGHTS[1], count: n }, { kind: 'o', y: y2, h: HEIGHTS[2], count: d }];
    return y2 + HEIGHTS[2] + 22;
  };
  const draw = (g, { step, at, paint }) => {
    const frame = frameAt(step), each = w / n, h = HEIGHTS, [y0, y1, y2] = panels.map(p => p.y);
    const here = key => frame.tile >= 0 && tile_of[key] === frame.tile;

    // scores, and the running max
    axis(g, paint, LEFT, y0, w, h[0], `Scores of query ${row}, and the ${ordinary ? '' : 'running '}max m`, range[0], range[1]);
    const sy = v => y0 + h[0] - ((v - range[0]) / (range[1] - range[0] || 1)) * h[0];
    for (let key = 0; key < Math.min(n, frame.keys); key++) {
      g.globalAlpha = here(key) ? 1 : 0.4;
      g.fillStyle = COLOURS.S;
      if (!Number.isNaN(scores[key])) bar(g, LEFT + key * each, each - (each > 3 ? 1 : 0), sy(0), sy(scores[key]));
    }
    g.globalAlpha = 1;
    if (frame.m !== null && Number.isFinite(Number(frame.m))) {
      const y = sy(Number(frame.m));
      g.strokeStyle = paint.text;
      g.lineWidth = 2;
      g.beginPath(); g.moveTo(LEFT, y); g.lineTo(LEFT + w, y); g.stroke();
      g.fillStyle = paint.text;
      g.font = `12px ${paint.font}`;
      g.fillText(`m = ${short(frame.m)}`, LEFT + 6, y < y0 + 20 ? y + 14 : y - 5);
    }
    // the tile in work
    if (frame.tile >= 0) {
      const first = tile_of.indexOf(frame.tile), last = tile_of.lastIndexOf(frame.tile);
      if (first >= 0) {
        g.strokeStyle = paint.primary;
        g.lineWidth = 2;
        for (const [y, hh] of [[y0, h[0]], [y1, h[1]]]) g.strokeRect(LEFT + first * each, y, (last - first + 1) * each, hh);
      }
    }
    for (let key = block_kv; key < n; key += block_kv) {
      g.fillStyle = paint.border;
      g.fillRect(LEFT + key * each, y0 + h[0], 1, 5);
    }
    // weights as they count now
    axis(g, paint, LEFT, y1, w, h[1], ordinary ? 'Weight of each key: e^(score \u2212 m) / l' : 'Weight of each key now: e^(score \u2212 m), rescaled since', 0, weightTop);
    const wy = v => y1 + h[1] - Math.min(1, v / weightTop) * h[1];
    for (let key = 0; key < Math.min(n, frame.weighed); key++) {
      const v = weight(step, key), should = due(frame, key), off = !(Math.abs(v - should) <= 1e-3 * Math.max(should, 1e-3));
      g.globalAlpha = here(key) ? 1 : 0.6;
      g.fillStyle = off && ['rescale', 'weights', 'sum', 'output', 'final'].includes(frame.group) ? PALETTE.wrong : COLOURS.P;
      bar(g, LEFT + key * each, each - (each > 3 ? 1 : 0), y1 + h[1], wy(Number.isFinite(v) ? v : weightTop));
      g.globalAlpha = 1;
      g.fillStyle = paint.text;
      if (Number.isFinite(should)) g.fillRect(LEFT + key * each, wy(should) - 0.75, Math.max(each - 1, 0.6), 1.5);
    }
    // O's row
    const block = frame.o, done = frame.group === 'final', scale = done ? oSpan(blocks - 1) : accumulators;
    axis(g, paint, LEFT, y2, w, h[2], done ? 'O: the row, divided by l' : ordinary ? 'O so far' : 'O so far, not yet divided by l', -scale, scale);
    const wide = w / d, oy = v => y2 + h[2] / 2 - (v / scale) * (h[2] / 2);
    g.fillStyle = paint.border;
    g.fillRect(LEFT, y2 + h[2] / 2, w, 1);
    for (let dim = 0; dim < d && block >= 0; dim++) {
      const v = o[block * d + dim];
      const off = done && !(Math.abs(v - oTrue[dim]) <= 1e-3);
      g.fillStyle = off ? PALETTE.wrong : COLOURS.V;
      if (Number.isFinite(v)) bar(g, LEFT + dim * wide, wide - (wide > 3 ? 1 : 0), oy(0), oy(v));
      else { g.globalAlpha = 0.35; g.fillRect(LEFT + dim * wide, y2, wide - 1, h[2]); g.globalAlpha = 1; }
      if (done) { g.fillStyle = paint.text; g.fillRect(LEFT + dim * wide, oy(oTrue[dim]) - 0.75, Math.max(wide - 1, 0.6), 1.5); }
    }
    g.fillStyle = paint.text;
    g.font = `12px ${paint.font}`;
    g.globalAlpha = 0.8;
    g.fillText(`keys 0 to ${n - 1}, a tick per tile of ${block_kv}`, LEFT, y0 + h[0] + 18);
    g.fillText('black or white marks: float64', LEFT, y1 + h[1] + 16);
    g.fillText(`dims 0 to ${d - 1} of query ${row}`, LEFT, y2 + h[2] + 16);
    g.globalAlpha = 1;
    if (at) {
      const p = panels.find(panel => panel.kind === at.kind);
      g.strokeStyle = paint.primary;
      g.strokeRect(LEFT + (at.index * w) / p.count, p.y, w / p.count, p.h);
    }
    drawNumbers(frame);
  };

  const total = data.meta.total;
  const drawNumbers = frame => {
    const line = (name, mine, theirs) => element('tr', {}, element('th', {}, name), element('td', {}, mine), element('td', {}, theirs));
    const o0 = frame.o >= 0 ? o[frame.o * d] : null, final = frame.group === 'final';
    table.replaceChildren(element('tr', {}, element('th', {}, ''), element('th', {}, 'this kernel, so far'), element('th', {}, 'ordinary softmax, float64')),
      line('max m', short(frame.m, 7), short(total.m, 7)), line('sum l', short(frame.l, 7), short(total.l, 7)),
      line('rescale factor', frame.group === 'rescale' ? short(frame.rescale, 6) : '\u2013', '\u2013'),
      line(ordinary ? 'O so far, dim 0' : 'O so far, dim 0, not divided by l', final ? '\u2013' : short(o0, 7), '\u2013'),
      line(ordinary ? 'O, dim 0' : 'O / l, dim 0', final ? short(o0, 7) : frame.group === 'output' && !ordinary ? short(o0 / Number(frame.l), 7) : '\u2013', short(oTrue[0], 7)),
      line('largest error of the row', final ? short(data.meta.error, 3) : '\u2013', '\u2013'));
  };
  const describe = (at, step) => {
    const frame = frameAt(step), i = at.index;
    if (at.kind === 'score') return i < frame.keys && !Number.isNaN(scores[i]) ? `score[${row}, ${i}] = ${exact(scores[i])}` : `score[${row}, ${i}] is not computed yet`;
    if (at.kind === 'weight') return i < frame.weighed ? `weight of key ${i} = ${ordinary || decay[step][tile_of[i]] === 1 ? exact(weights[i]) : short(weight(step, i), 7)}, float64 ${short(due(frame, i), 7)}` : `key ${i} has no weight yet`;
    return frame.o < 0 ? `O[${row}, ${i}] is not begun` : `O[${row}, ${i}]${frame.group === 'final' ? '' : ' so far'} = ${exact(o[frame.o * d + i])}` + (frame.group === 'final' ? `, float64 ${short(oTrue[i], 9)}` : '');
  };
  const locate = (x, y) => {
    const panel = panels.find(p => y >= p.y && y < p.y + p.h);
    return panel && x >= LEFT && x < LEFT + w ? { kind: panel.kind, index: Math.floor(((x - LEFT) / w) * panel.count) } : null;
  };
  const label = step => `${frameAt(step).title}. ${frameAt(step).sentence}`;
  return canvasView(parentElement, { title: `Row ${row}`, layout, draw, locate, describe, label }).unmount;
}
