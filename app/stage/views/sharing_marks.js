// The picture of shared KV heads, as marks. A column of memory is one KV head, so fewer KV heads leave room for others.
import { Marks } from '../core/kinds.js';
import { amount, blend, COLOURS, number, PALETTE, rgb } from '../core/paint.js';
import { bytesOf } from './sharing_rule.js';

/** @type {[number, string][]} */
const UNITS = [
  [2 ** 40, 'TiB'],
  [2 ** 30, 'GiB'],
  [2 ** 20, 'MiB'],
  [1, 'bytes'],
];

/** @param {{width: number, height: number, em: number}} size of the pane @param {number} heads */
export function sharingLayout({ width, height, em }, heads) {
  const narrow = width < 40 * em,
    query = { y: 1.6 * em, h: 1.9 * em },
    meters = 8 * em, // the title of memory, and two bars with theirs
    links = Math.max(3.5 * em, Math.min(7 * em, 0.16 * height)),
    memory = { y: query.y + query.h + links, h: 0 };
  memory.h = Math.max(6 * em, height - memory.y - meters);
  return {
    ...{ width, em, narrow, query, memory, pitch: (width - 1) / heads },
    title: memory.y + memory.h + 1.1 * em,
    meter: memory.y + memory.h + 2 * em,
    bottom: memory.y + memory.h + meters,
  };
}

/**
 * @param {ReturnType<typeof sharingLayout>} at
 * @param {object} now
 * @param {block_table.SharingMeta} now.meta
 * @param {number} now.kv
 * @param {boolean} now.reads whether the bytes asked for are shown
 * @param {number | null} now.head the query head under the pointer
 * @param {Paint} paint
 */
export function sharingMarks(at, { meta, kv, reads, head }, paint) {
  const made = new Marks(at.em),
    { em, width, pitch, query, memory, narrow } = at,
    { heads, tokens } = meta,
    { held, asked, group } = bytesOf(meta, kv),
    most = bytesOf(meta, heads).held,
    requests = heads / kv,
    size = Math.min(em, Math.max(12, 0.55 * pitch)),
    labelled = pitch > 1.5 * em;
  made.text(
    'query is',
    [0, 0.95 * em],
    narrow ? `${heads} query heads` : `${heads} query heads of a request. Each walks the K and V of its KV head`,
    {
      bold: true,
    },
  );
  for (let n = 0; n < heads; n++) {
    const mine = Math.floor(n / group),
      lit = head === null || Math.floor(head / group) === mine;
    made.add(`link ${n}`, 'way', null, {
      points: [
        [(n + 0.5) * pitch, query.y + query.h],
        [(mine + 0.5) * pitch, memory.y - 2],
      ],
      ...{ stroke: head !== null && lit ? COLOURS.Q : blend(rgb(COLOURS.Q), rgb(paint.text), 0.6) },
      ...{ alpha: lit ? 1 : 0.15, width: head !== null && lit ? 2.5 : 1.4, head: 4, ease: 'both' },
    });
    made.rect(`query ${n}`, [n * pitch, query.y, pitch - 2, query.h], {
      ...{ fill: COLOURS.Q, datum: { head: n }, tip: `query head ${n} reads KV head ${mine}` },
    });
    if (labelled)
      made.text(`query ${n} is`, [(n + 0.5) * pitch - 1, query.y + query.h / 2 + 0.35 * size], `${n}`, {
        ...{ align: 'center', fill: '#fff', bold: true, size },
      });
  }
  const unit = amount(most / heads, UNITS, 3),
    title = narrow
      ? `Memory, ${amount(most, UNITS, 3)}: ${requests === 1 ? 'one request' : `${requests} requests`}`
      : `Memory, ${amount(most, UNITS, 3)}: room for ${requests === 1 ? 'one request' : `${requests} requests`} of ${number(tokens)} tokens. A column is one KV head, ${unit}`;
  for (let request = 0; request < requests; request++)
    for (let n = 0; n < kv; n++) {
      const x = (request * kv + n) * pitch,
        id = `kv ${request} ${n}`,
        readers = group === 1 ? `query head ${n}` : `query heads ${n * group} to ${(n + 1) * group - 1}`,
        tip = request ? `KV head ${n} of another request` : `KV head ${n}: K and V, read by ${readers}`,
        halves = request ? ['other'] : ['K', 'V'];
      halves.forEach((cache, half) => {
        const rect = [x, memory.y + (half * memory.h) / halves.length, pitch - 2, memory.h / halves.length - 1];
        const others = PALETTE.sequences[request % PALETTE.sequences.length];
        made.rect(`${id} ${cache}`, rect, {
          fill: request ? blend(rgb(others), rgb(paint.background), 0.35) : COLOURS[cache],
          alpha: !request && head !== null && Math.floor(head / group) !== n ? 0.35 : 1,
          ...{ datum: { request, store: n, cache }, tip, ease: 'both' },
          enter: { rect: [rect[0], rect[1] + (request ? memory.h : 0), rect[2], 0], alpha: 0 },
          span: request ? [0.45, 1] : [0, 0.6],
        });
        if (!request && (labelled || !n))
          made.text(`${id} ${cache} is`, [x + pitch / 2 - 1, rect[1] + rect[3] / 2 + 0.35 * size], cache, {
            ...{ align: 'center', fill: '#fff', bold: true, size: Math.min(size, 0.8 * pitch) },
          });
      });
    }
  const wide = kv * pitch;
  for (let request = 1; request < requests && wide > 2.2 * em; request++) {
    const text = wide > 6.5 * em ? `request ${request + 1}` : `${request + 1}`;
    made.text(
      `request ${request} of ${requests}`,
      [(request + 0.5) * wide - 1, memory.y + memory.h / 2 + 0.35 * em],
      text,
      {
        ...{ align: 'center', bold: true, span: [0.8, 1], out: [0, 0.2] },
      },
    );
  }
  made.text('memory is', [0, at.title], title, { bold: true });
  // ---- what is saved, and what is not ----
  const bars = [
    { id: 'held', said: 'One request holds', bytes: held, fill: COLOURS.K, shown: true },
    {
      ...{ id: 'asked', said: `Its query heads ask for${narrow ? '' : ', for each new token'}`, bytes: asked },
      ...{ fill: COLOURS.Q, shown: reads },
    },
  ];
  bars.forEach(({ id, said, bytes, fill, shown }, n) => {
    if (!shown) return;
    const top = at.meter + n * 3.1 * em,
      text =
        amount(bytes, UNITS, 3) + (id === 'asked' && group > 1 ? (narrow ? '' : `: each byte ${group} times`) : ''),
      room = width - (narrow ? 6 : 14) * em;
    made.text(`${id} is`, [0, top + 0.9 * em], said, { bold: true });
    made.rect(`${id} of`, [0, top + 1.3 * em, room, 1.3 * em], { fill: paint.panel });
    made.rect(`${id} bar`, [0, top + 1.3 * em, Math.max(2, (room * bytes) / most), 1.3 * em], {
      ...{ fill, ease: 'both', datum: { part: 'size', size: id }, tip: `${said}: ${number(bytes)} bytes` },
    });
    made.text(`${id} has`, [room + 0.7 * em, top + 2.4 * em], text, {
      ...{ bold: true, size: 1.2 * em },
    });
  });
  return made.list;
}
