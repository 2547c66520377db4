// V1 and V2 on one axis of tokens: how far each block has come through K and V, and below what the
// second kernel combines. What a block of V2 leaves flies into the second kernel.
import { gridArea } from '../core/areas.js';
import { canvasView } from '../core/canvas.js';
import { Marks } from '../core/kinds.js';
import { COLOURS, exact, short, theme, widest } from '../core/paint.js';
import { PAGE_KINDS } from './pages.js';

const LEGEND = [
  [`background:${COLOURS.K}`, 'K read'],
  [`background:${COLOURS.V}`, 'V read'],
  [`background:${COLOURS.P}`, 'max m and sum l of a block'],
  [`background:${COLOURS.O}`, 'its output'],
];
const SAID = {
  combine: ({ l, m }) => `Second kernel: l = \u03a3 l\u1d62 e^(m\u1d62 \u2212 m) = ${short(l, 5)}, m = ${short(m, 4)}`,
  write: () => 'Second kernel: O = \u03a3 O\u1d62 e^(m\u1d62 \u2212 m) / l',
  done: () => 'Second kernel: O is written',
};
const FLIES = { combine: COLOURS.P, write: COLOURS.O }; // what comes from each block then

/** @type {Picture<block_table.PartitionsMeta>} */
export default function (host, { meta }, context) {
  const { frames, length, parts, v1, v2, name, head, multiprocessors } = meta,
    frameAt = step => frames[Math.min(step, frames.length - 1)];
  let em, width, left, scale, bar, y1, y2, y3, y4;

  const layout = pane => {
    ({ em, width } = pane);
    left = 2 * em;
    scale = (width - left - 2) / length;
    const fixed = 16.4 * em; // texts, the ways to the second kernel, and the SMs
    bar = Math.max(0.9 * em, Math.min(4 * em, (pane.height - fixed) / 4));
    y1 = 1.5 * em;
    y2 = y1 + 2 * bar + 3.9 * em;
    y3 = y2 + 2 * bar + 4.8 * em;
    y4 = y3 + 2.8 * em;
    return y4 + 3 * em;
  };
  // The first of the texts that fits, or ''.
  const fitted = (texts, wide) => texts.find(text => widest([text], `${em}px ${theme(host).font}`) <= wide) ?? '';
  const boxOf = one => {
    const x = left + one.first * scale;
    return { x, w: (one.end - one.first) * scale - (one.end < length ? 3 : 0) };
  };

  // texts: under the lane, the first that fits; below: in a second line.
  const addLane = (marks, paint, id, y, one, texts, below = '') => {
    const { x, w } = boxOf(one);
    for (const [n, key, colour] of [
      [0, 'k', COLOURS.K],
      [1, 'v', COLOURS.V],
    ]) {
      const top = y + n * bar,
        read = Math.max(0, Math.min(w, (one[key] - one.first) * scale));
      marks.rect(`${id} ${key}`, [x, top, w, bar - 2], { fill: paint.panel });
      marks.rect(`${id} ${key} read`, [x, top, read, bar - 2], { fill: colour, ease: 'both' });
      marks.rect(`${id} ${key} edge`, [x + 0.5, top + 0.5, w - 1, bar - 3], {
        stroke: paint.border,
      });
    }
    if (one.phase !== 'done') marks.rect(`${id} busy`, [x, y - 1, w, 2 * bar], { stroke: paint.text, width: 2 });
    if (one.state) marks.rect(`${id} m and l`, [x, y + 2 * bar - 1, w, 4], { fill: COLOURS.P });
    const kind = one.state ? 'result' : 'tokens';
    const base = y + 2 * bar + 1.1 * em,
      inside = fitted(texts, w),
      shown = inside || fitted(texts, w + em),
      wide = shown !== inside, // a narrow last lane: its words end with it
      place = wide ? { align: 'right' } : {};
    marks.text(`${id} ${kind}`, [wide ? x + w : x, base], shown, place);
    if (below) marks.text(`${id} below`, [wide ? x + w : x, base + 1.2 * em], fitted([below], w + em), place);
  };
  // The SMs with work for this query head, of all of the GPU.
  const addSms = (marks, paint, frame) => {
    const said = widest(['V2: 88 of 888 SMs'], `${em}px ${theme(host).font}`) + 6 + em,
      each = (width - said - 2) / multiprocessors,
      shares = [
        ['V1', [frame.v1]],
        ['V2', frame.v2],
      ];
    for (const [row, [name, lanes]] of shares.entries()) {
      const y = y4 + 1.5 * em * row,
        second = name === 'V2' && frame.reduce !== null && frame.reduce !== 'done',
        busy = second ? 1 : lanes.filter(one => one.phase !== 'done').length;
      marks.text(`sms ${name}`, [6, y + 0.9 * em], `${name}: ${busy} of ${multiprocessors} SMs`);
      for (let sm = 0; sm < multiprocessors; sm++)
        marks.rect(`sm ${name} ${sm}`, [said + sm * each, y, Math.max(1, each - 1.5), em], {
          fill: sm < busy ? paint.text : paint.panel,
          stroke: sm < busy ? paint.text : paint.border, // narrow cells are all edge
        });
    }
  };
  const addAxis = (marks, paint, y) => {
    for (const [n, key] of ['K', 'V'].entries())
      marks.text(`${key} at ${y}`, [0.5 * em, y + (n + 0.5) * bar + 0.3 * em], key, {
        bold: true,
        mono: true,
        fill: paint.text,
      });
  };
  // The second kernel, and what it takes from every block.
  const addSecond = (marks, paint, frame) => {
    const { reduce } = frame,
      working = reduce !== null && reduce !== 'done',
      stroke = working ? paint.text : paint.border,
      from = y2 + 2 * bar + 2.7 * em;
    if (reduce !== null)
      frame.v2.forEach((one, n) => {
        const { x, w } = boxOf(one),
          middle = x + w / 2,
          room = w / 2 + (n ? boxOf(frame.v2[n - 1]).w / 2 : 0) - em, // up to the arrow before
          weight = fitted([`\u00d7 ${short(parts[n].weight, 3)}`], room);
        marks.add(`way ${n}`, 'way', null, {
          points: [
            [middle, from],
            [middle, y3],
          ],
          stroke,
          head: 0.4 * em,
          grown: 1,
          enter: { grown: 0 },
          span: [0, 0.4],
        });
        marks.text(`weight ${n}`, [middle - 0.6 * em, (from + y3) / 2 + 0.3 * em], weight, {
          align: 'right',
        });
        if (working)
          marks.rect(`${reduce} ${n}`, [middle - em, y3 + 0.4 * em, 2 * em, em], {
            fill: FLIES[reduce],
            enter: { rect: [x, y2 + (reduce === 'write' ? bar : 0), w, bar - 2] },
            passing: true,
            ease: 'both',
            span: [0.1, 1],
          });
      });
    marks.rect('second', [left + 0.5, y3 + 0.5, width - left - 3, 1.8 * em], {
      stroke,
      width: working ? 2 : 1,
      ...(reduce === null && { dash: [4, 4] }),
    });
    const said = SAID[reduce]?.(v2),
      texts = said ? [said, 'Second kernel'] : ['The second kernel waits for all partitions', 'Second kernel: waits'];
    marks.text(`second ${reduce}`, [(left + width) / 2, y3 + 1.25 * em], fitted(texts, width - left - 12), {
      align: 'center',
    });
  };
  const marks = ({ step, paint }) => {
    const made = new Marks(em),
      frame = frameAt(step),
      blocks = frame.v2.length,
      label = (id, y, note) => made.add(`label ${id}`, 'label', [0, y, width, em], { name: id, notes: [note] });
    label('V1', em, `one block for query head ${head} of ${name}: tokens 0 to ${length - 1}`);
    addAxis(made, paint, y1);
    const all = `m = ${short(v1.m, 4)}, l = ${short(v1.l, 4)}`;
    addLane(made, paint, 'V1', y1, frame.v1, frame.v1.state ? [all] : ['']);
    label(
      'V2',
      y2 - 0.5 * em,
      `${blocks} block${blocks > 1 ? 's' : ''} for query head ${head} of ${name}: one for each partition`,
    );
    addAxis(made, paint, y2);
    frame.v2.forEach((one, n) => {
      const m = `m ${short(parts[n].m, 3)}`,
        tokens = `${one.first} to ${one.end - 1}`,
        before = [`tokens ${tokens}`, tokens, String(one.first)],
        l = one.state ? `l ${short(parts[n].l, 3)}` : '';
      addLane(made, paint, `V2 ${n}`, y2, one, one.state ? [m] : before, l);
    });
    addSecond(made, paint, frame);
    addSms(made, paint, frame);
    return made.list;
  };
  const over = (g, { at, paint }) => {
    if (!at || at.part) return;
    g.strokeStyle = paint.primary;
    g.lineWidth = 2;
    const top = at.partition === null ? y1 : y2,
      x = left + (at.token + 0.5) * scale;
    g.beginPath();
    g.moveTo(x, top - 2);
    g.lineTo(x, top + 2 * bar);
    g.stroke();
  };
  const areas = () => {
    const whole = frameAt(0).v2,
      parted = token => whole.findIndex(one => token >= one.first && token < one.end),
      wide = length * scale;
    return [
      gridArea([left, y1, wide, 2 * bar], length, token => ({ token, partition: null })),
      gridArea([left, y2, wide, 2 * bar], length, token => ({ token, partition: parted(token) })),
      { rect: [0, y4 - 0.3 * em, width, 3.2 * em], datum: { part: 'sms' } },
    ];
  };
  const describe = ({ token, partition, part }, step) => {
    if (part) return 'SMs with a block of this query head';
    const frame = frameAt(step),
      one = partition === null ? frame.v1 : frame.v2[partition],
      numbers = partition === null ? v1 : parts[partition];
    const known = one.state ? `\nm = ${exact(numbers.m)}, l = ${exact(numbers.l)}` : '',
      weight =
        partition !== null && frame.reduce !== null ? `, weight e^(m\u1d62 \u2212 m) = ${exact(numbers.weight)}` : '';
    return (
      `token ${token}, ${partition === null ? 'V1' : `partition ${partition}`}: K ` +
      `${token < one.k ? 'read' : 'not yet'}, V ` +
      `${token < one.v ? 'read' : 'not yet'}${known}${weight}`
    );
  };
  const label = step => `${frameAt(step).title}. ${frameAt(step).sentence}`;
  return canvasView(host, context, {
    title: 'V1 and V2',
    layout,
    marks,
    over,
    kinds: PAGE_KINDS,
    ms: () => 260,
    areas,
    describe,
    label,
    legend: LEGEND,
  });
}
