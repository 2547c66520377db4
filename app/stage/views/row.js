// One row of the online softmax: its scores and the running max, each key's weight as it counts now
// and their sum, and O's row.
import { canvasView } from '../core/canvas.js';
import { COLOURS, PALETTE, exact, short, smallText, theme, widest } from '../core/paint.js';

const SHARES = [0.4, 0.32, 0.28]; // of the height: scores, weights, O's row
const LEGEND = [
  [`background:${COLOURS.S}`, 'score'],
  [`background:${COLOURS.P}`, 'weight'],
  [`background:${COLOURS.O}`, 'O'],
  ['height:2px;background:currentColor', 'float64'],
  [`background:${PALETTE.wrong}`, 'wrong, NaN or infinite'],
];

export default function (host, { meta, columns }, context) {
  const {
      frames,
      row,
      ordinary,
      m_name: mName,
      tile_of,
      block_kv,
      total,
      scores_true: scoresTrue,
      o_true: oTrue,
    } = meta,
    { scores, weights, o } = columns;
  const n = scores.length,
    d = oTrue.length,
    blocks = o.length / d;
  const finite = array => [...array].filter(Number.isFinite);
  const frameAt = step => frames[Math.min(step, frames.length - 1)];
  const range = [Math.min(0, ...finite(scores)), Math.max(0, ...finite(scores))];
  // as encoding.py writes NaN and infinity
  const num = value => ({ inf: Infinity, '-inf': -Infinity })[value] ?? Number(value);
  const named = value => (Number.isFinite(value) ? short(value) : exact(value));

  // How much each tile's weights have been rescaled by each step: the product of the later rescale
  // factors, as logged.
  const tiles = Math.max(0, ...tile_of) + 1,
    decay = [],
    maxima = [];
  let now = new Float64Array(tiles).fill(1),
    stair = [];
  for (const frame of frames) {
    if (frame.rescale !== null && frame.tile > 0) {
      now = now.slice();
      for (let t = 0; t < frame.tile; t++) now[t] *= num(frame.rescale);
    }
    decay.push(now);
    if (frame.group === 'max' && frame.m !== null && Number.isFinite(num(frame.m)))
      stair = [...stair, [frame.tile, num(frame.m)]];
    maxima.push(stair);
  }
  const weight = (step, key) => weights[key] * (ordinary ? 1 : decay[step][tile_of[key]]);
  // What it should be, in float64: softmax itself for one max and sum; for an online softmax
  // e^(score - m), with the m as logged.
  const due = (frame, key) =>
    ordinary
      ? Math.exp(scoresTrue[key] - total.m) / total.l
      : Math.exp(scoresTrue[key] - num(frame.m));
  const weightTop = ordinary ? 1 / total.l : Math.max(1, ...finite(weights));
  const spanOfRow = block =>
    Math.max(
      1e-30,
      ...finite(o.slice(block * d, block * d + d)).map(Math.abs),
      ...(block === blocks - 1 ? finite(oTrue).map(Math.abs) : []),
    );
  let accumulators = 1e-30;
  for (let b = 0; b < blocks - 1; b++) accumulators = Math.max(accumulators, spanOfRow(b));
  const labelled = span => (span > 1e-29 ? span : NaN); // of nothing finite there is no scale
  const spans = [accumulators, spanOfRow(blocks - 1)].map(labelled);
  const ends = [...range, 0, weightTop, ...spans.flatMap(span => [-span, span])];
  const labels = ends.filter(Number.isFinite).map(value => short(value, 2));

  let panels, left, w, em, head;
  const layout = size => {
    em = size.em;
    head = Math.round(em * 1.5);
    left = Math.round(
      Math.max(em * 4.2, widest(labels, `${smallText(em)}px ${theme(host).mono}`) + 6),
    );
    w = size.width - left - 3;
    const room = Math.max(3 * em, size.height - 3 * head - 4);
    let y = 0;
    panels = ['score', 'weight', 'o'].map((kind, i) => {
      const panel = {
        kind,
        y: y + head,
        h: Math.floor(room * SHARES[i]),
        count: kind === 'o' ? d : n,
      };
      y += head + panel.h;
      return panel;
    });
    return y + 4;
  };

  const axis = (g, paint, { y, h }, label, note, lo, hi) => {
    g.strokeStyle = paint.border;
    g.lineWidth = 1;
    g.strokeRect(left + 0.5, y + 0.5, w - 1, h - 1);
    g.fillStyle = paint.text;
    g.font = `600 ${em}px ${paint.font}`;
    g.fillText(label, left, y - em * 0.4, w);
    const wide = g.measureText(label).width;
    g.font = `${em}px ${paint.font}`;
    if (wide + g.measureText(note).width + em * 1.5 < w)
      g.fillText(note, left + w - g.measureText(note).width, y - em * 0.4);
    g.font = `${smallText(em)}px ${paint.mono}`;
    g.textAlign = 'right';
    if (Number.isFinite(hi)) g.fillText(short(hi, 2), left - 5, y + em * 0.8);
    if (Number.isFinite(lo) && h > 2.2 * em) g.fillText(short(lo, 2), left - 5, y + h - 1);
    g.textAlign = 'left';
  };
  const bar = (g, x, wide, zero, top) =>
    g.fillRect(x, Math.min(zero, top), Math.max(wide, 0.6), Math.max(Math.abs(top - zero), 0.6));
  const inner = each => each - (each > 3 ? 1 : 0);
  // What is no number fills its place; the panel says what it is, and of how many.
  const lost = (g, paint, panel, what, places) => {
    if (!places.length) return;
    const each = w / panel.count;
    g.fillStyle = PALETTE.wrong;
    for (const [index] of places)
      g.fillRect(left + index * each, panel.y + 1, Math.max(0.6, inner(each)), panel.h - 2);
    const names = new Map();
    for (const [, value] of places) names.set(exact(value), (names.get(exact(value)) ?? 0) + 1);
    const text = `${[...names].map(([name, count]) => `${name} in ${count}`).join(', ')} of ${panel.count} ${what}`;
    g.font = `600 ${em}px ${paint.font}`;
    const wide = Math.min(w - 8, g.measureText(text).width + em);
    g.fillStyle = paint.background;
    g.fillRect(left + 4, panel.y + panel.h / 2 - em * 0.9, wide, em * 1.7);
    g.fillStyle = paint.text;
    g.fillText(text, left + 4 + em / 2, panel.y + panel.h / 2 + em * 0.35, wide - em);
  };

  const draw = (g, { step, at, paint }) => {
    const frame = frameAt(step);
    step = Math.min(step, frames.length - 1);
    drawScores(g, paint, step, frame);
    drawWeights(g, paint, step, frame);
    drawOutput(g, paint, frame);
    const first = frame.tile >= 0 ? tile_of.indexOf(frame.tile) : -1;
    if (first >= 0) {
      // the tile in work
      const last = tile_of.lastIndexOf(frame.tile);
      g.strokeStyle = paint.text;
      g.lineWidth = 2;
      for (const { y, h } of panels.slice(0, 2))
        g.strokeRect(left + (first * w) / n, y, ((last - first + 1) * w) / n, h);
    }
    if (at) {
      const p = panels.find(panel => panel.kind === at.kind);
      g.strokeStyle = paint.primary;
      g.lineWidth = 2;
      g.strokeRect(left + (at.index * w) / p.count, p.y, w / p.count, p.h);
    }
  };
  const here = (frame, key) => frame.tile < 0 || tile_of[key] === frame.tile;
  const drawScores = (g, paint, step, frame) => {
    const panel = panels[0],
      { y, h } = panel,
      each = w / n;
    axis(
      g,
      paint,
      panel,
      `Scores of query ${row}, ${mName}${frame.m === null ? '' : ` = ${named(num(frame.m))}`}`,
      `keys 0 to ${n - 1}, tiles of ${block_kv}`,
      range[0],
      range[1],
    );
    const sy = v => y + h - ((v - range[0]) / (range[1] - range[0] || 1)) * h,
      odd = [];
    for (let key = 0; key < Math.min(n, frame.keys); key++) {
      g.globalAlpha = here(frame, key) ? 1 : 0.45;
      g.fillStyle = COLOURS.S;
      if (Number.isFinite(scores[key]))
        bar(g, left + key * each, inner(each), sy(0), sy(scores[key]));
      else odd.push([key, scores[key]]);
    }
    g.globalAlpha = 1;
    g.fillStyle = paint.border;
    for (let key = block_kv; key < n; key += block_kv) g.fillRect(left + key * each, y, 1, h);
    lost(g, paint, panel, 'scores', odd);
    g.strokeStyle = paint.text;
    g.lineWidth = 2.5;
    g.beginPath();
    for (const [tile, m] of maxima[step]) {
      // the running max, tile by tile
      const first = tile < 0 ? 0 : tile_of.indexOf(tile),
        last = tile < 0 ? n - 1 : tile_of.lastIndexOf(tile),
        at = Math.max(y + 1, Math.min(y + h - 1, sy(m)));
      g.lineTo(left + first * each, at);
      g.lineTo(left + (last + 1) * each, at);
    }
    g.stroke();
    const m = num(frame.m),
      mark = maxima[step].at(-1);
    if (frame.m === null || !mark) return;
    g.setLineDash([5, 4]); // the max that stands, over the whole row
    g.lineWidth = 1.25;
    g.beginPath();
    const level = Math.max(y + 1, Math.min(y + h - 1, sy(m)));
    g.moveTo(left, level);
    g.lineTo(left + w, level);
    g.stroke();
    g.setLineDash([]);
  };
  const drawWeights = (g, paint, step, frame) => {
    const panel = panels[1],
      { y, h } = panel,
      each = w / n;
    const name = ordinary
      ? 'Weights e^(score \u2212 m) / l'
      : 'Weights e^(score \u2212 m), rescaled since';
    axis(
      g,
      paint,
      panel,
      `${name}${frame.l === null ? '' : `; ${ordinary ? 'sum' : 'running sum'} l = ${named(num(frame.l))}`}`,
      '',
      0,
      weightTop,
    );
    const wy = v => y + h - Math.min(1, v / weightTop) * h,
      odd = [],
      judged = ['rescale', 'weights', 'sum', 'output', 'final'].includes(frame.group);
    for (let key = 0; key < Math.min(n, frame.weighed); key++) {
      const v = weight(step, key),
        should = due(frame, key),
        off = !(Math.abs(v - should) <= 1e-3 * Math.max(should, 1e-3));
      if (!Number.isFinite(v)) {
        odd.push([key, v]);
        continue;
      }
      g.globalAlpha = here(frame, key) || (off && judged) ? 1 : 0.6;
      g.fillStyle = off && judged ? PALETTE.wrong : COLOURS.P;
      bar(g, left + key * each, inner(each), y + h, wy(v));
      g.globalAlpha = 1;
      g.fillStyle = paint.text;
      if (Number.isFinite(should))
        g.fillRect(left + key * each, wy(should) - 0.75, Math.max(inner(each), 0.6), 1.5);
    }
    lost(g, paint, panel, 'weights', odd);
  };
  const drawOutput = (g, paint, frame) => {
    const panel = panels[2],
      { y, h } = panel,
      each = w / d,
      done = frame.group === 'final',
      scale = done ? spanOfRow(blocks - 1) : accumulators;
    axis(
      g,
      paint,
      panel,
      done ? 'O: the row, divided by l' : ordinary ? 'O so far' : 'O so far, not yet divided by l',
      `dims 0 to ${d - 1}`,
      -labelled(scale),
      labelled(scale),
    );
    const oy = v => y + h / 2 - (v / scale) * (h / 2),
      odd = [];
    g.fillStyle = paint.border;
    g.fillRect(left, y + h / 2, w, 1);
    for (let dim = 0; dim < d && frame.o >= 0; dim++) {
      const v = o[frame.o * d + dim];
      if (!Number.isFinite(v)) {
        odd.push([dim, v]);
        continue;
      }
      g.fillStyle = done && !(Math.abs(v - oTrue[dim]) <= 1e-3) ? PALETTE.wrong : COLOURS.O;
      bar(g, left + dim * each, inner(each), oy(0), oy(v));
      if (!done) continue;
      g.fillStyle = paint.text;
      g.fillRect(left + dim * each, oy(oTrue[dim]) - 0.75, Math.max(inner(each), 0.6), 1.5);
    }
    lost(g, paint, panel, 'dims', odd);
  };

  const describe = (at, step) => {
    const frame = frameAt(step),
      i = at.index,
      place = Math.min(step, frames.length - 1);
    if (at.kind === 'score')
      return i < frame.keys
        ? `score[${row}, ${i}] = ${exact(scores[i])}`
        : `score[${row}, ${i}] is not computed yet`;
    if (at.kind === 'weight')
      return i < frame.weighed
        ? `weight of key ${i} = ` +
            `${ordinary || decay[place][tile_of[i]] === 1 ? exact(weights[i]) : short(weight(place, i), 7)}, ` +
            `float64${ordinary ? '' : ' for this m'} ${short(due(frame, i), 7)}`
        : `key ${i} has no weight yet`;
    return frame.o < 0
      ? `O[${row}, ${i}] is not begun`
      : `O[${row}, ${i}]${frame.group === 'final' ? '' : ' so far'} = ${exact(o[frame.o * d + i])}` +
          (frame.group === 'final' ? `, float64 ${short(oTrue[i], 9)}` : '');
  };
  const locate = (x, y) => {
    const panel = panels.find(p => y >= p.y && y < p.y + p.h);
    return panel && x >= left && x < left + w
      ? { kind: panel.kind, index: Math.floor(((x - left) / w) * panel.count) }
      : null;
  };
  const label = step => `${frameAt(step).title}. ${frameAt(step).sentence}`;
  return canvasView(host, context, {
    title: `Row ${row}`,
    layout,
    draw,
    locate,
    describe,
    label,
    legend: LEGEND,
  });
}
