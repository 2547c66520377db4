// One query head's walk: its block table, the page that an entry leads to, what is read there, the
// scores so far, the output.
import { gridArea } from '../core/areas.js';
import { canvasView } from '../core/canvas.js';
import { COLOURS, exact, spanOf, theme } from '../core/paint.js';
import { walkLayout } from './layouts/walk.js';
import { PAGE_KINDS } from './pages.js';
import { walkMarks, walkTime } from './walk_marks.js';

const LEGEND = [
  [`background:${COLOURS.S}`, 'score'],
  [`background:${COLOURS.P}`, 'weight'],
  [`background:${COLOURS.V}`, 'value added'],
  ['background:var(--wg-line)', 'another sequence'],
];

export default function (host, { meta, columns }, context) {
  const { frames, name, table, length, size, tips, head, head_dim, pages } = meta,
    { scores, weights, o } = columns;
  const finite = array => [...array].filter(Number.isFinite);
  const fillOf = entry => Math.min(size, length - entry * size);
  const frameAt = step => frames[Math.min(step, frames.length - 1)];
  const states = statesOf(frames, length);
  const walk = {
    ...meta,
    ...columns,
    states,
    fillOf,
    frameAt,
    entryShown,
    another: theme(host).border,
    oSpan: spanOf(o),
    scoreRange: [1.06 * Math.min(0, ...finite(scores)), 1.06 * Math.max(0, ...finite(scores))],
    weightTop: Math.max(1e-30, ...finite(weights)),
  };
  let laid,
    shown = 0; // the entry whose page is shown large

  // That under the cursor, else the step's, else the last one before it.
  function entryShown(at, step) {
    if (at?.token !== undefined) return Math.floor(at.token / size);
    const before = frames.slice(0, step).findLast(f => f.logical !== undefined);
    return frameAt(step).logical ?? before?.logical ?? 0;
  }
  const layout = pane => {
    const { em, width } = pane;
    laid = { em, width, ...walkLayout(pane, { entries: table.length, pages, length }) };
    return laid.height;
  };
  const marks = ({ step: asked, at, paint }) => {
    const step = Math.min(asked, frames.length - 1);
    shown = entryShown(at, step);
    return walkMarks(walk, laid, { step, at, paint });
  };
  // The token under the cursor.
  const over = (g, { step, at, paint }) => {
    if (at?.token === undefined) return;
    const { left, box, low } = laid,
      { half, gap, top, high, bars, bar, each } = box;
    g.lineWidth = 2;
    g.strokeStyle = paint.text;
    if (!low || !frameAt(step).written)
      for (const x of [0, half + gap]) g.strokeRect(x + ((at.token % size) * half) / size, top, half / size, high);
    g.strokeStyle = paint.primary;
    g.strokeRect(left + at.token * each, bars, Math.max(each, 1.5), bar);
  };

  const describe = (at, asked) => {
    const step = Math.min(asked, frames.length - 1);
    if (at.dim !== undefined)
      return frames[step].written ? `O[${at.dim}] = ${exact(o[at.dim])}` : `O[${at.dim}] is not written yet`;
    if (at.other !== undefined) return `page ${at.other} is not of ${name}`;
    const state = states[step][at.token],
      weight = state > 1 ? `, weight ${exact(weights[at.token])}` : '';
    return `${tips[at.token]}\n${state ? `score ${exact(scores[at.token])}${weight}` : 'score not computed yet'}`;
  };
  const areas = ({ step }) => {
    const { left, width, cells, place, low } = laid,
      { half, gap, top, high, bars, bar, oTop, oHigh } = laid.box,
      token = (t, part) => (t < length ? { token: t, part } : null),
      written = frameAt(step).written,
      /** @type {import('../core/areas.js').Area[]} */
      found = table.map((_, entry) => ({
        rect: [...cells.at(entry), cells.w - 3, cells.h],
        datum: token(entry * size, 'table'),
      }));
    for (let page = 0; page < pages; page++) {
      const rect = [...place.at(page), place.w, place.h],
        mine = table.indexOf(page),
        slotOf = slot => token(mine * size + Math.min(fillOf(mine) - 1, slot), 'pool');
      found.push(mine < 0 ? { rect, datum: { other: page } } : gridArea(rect, size, slotOf));
    }
    if (!low || !written)
      for (const [part, x] of [
        ['K', 0],
        ['V', half + gap],
      ])
        found.push(gridArea([x, top, half, high], size, slot => token(shown * size + slot, part)));
    found.push(gridArea([left, bars, width - left, bar], length, t => token(t, 'bars')));
    if (!low || written) found.push(gridArea([left, oTop, width - left, oHigh], head_dim, dim => ({ dim })));
    return found;
  };
  const label = step => `${frameAt(step).title}. ${frameAt(step).sentence}`;
  return canvasView(host, context, {
    title: `Walk of query head ${head} of ${name}`,
    layout,
    marks,
    over,
    kinds: PAGE_KINDS,
    ms: step => walkTime(frameAt(step)),
    areas,
    describe,
    label,
    legend: [[`background:${meta.colour}`, `pages of ${name}`], ...LEGEND],
  });
}

// What each token has come to by each step: 1 its score is known, 2 its weight, 3 its value has been
// added.
function statesOf(frames, length) {
  const known = { walk_k: 1, softmax: 2, walk_v: 3 },
    states = [];
  let now = new Uint8Array(length);
  for (const { tokens, phase } of frames) {
    if (tokens) {
      now = now.slice();
      now.fill(known[phase], tokens[0], tokens[1] + 1);
    }
    states.push(now);
  }
  return states;
}
