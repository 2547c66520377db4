// The merge of one row: its m, l and O before the step, of the step, and after it.
import { COLOURS, exact, rgb, short, signed, smallText, widest } from '../core/paint.js';
import { wrapped } from '../core/wrapped.js';

export const NAMES = ['before', 'this part', 'after'];
const MEANING = [
  'l and O count e^(score - m) with the m of their own part. Only with one m can two parts be added.',
  'm: the largest score (scale x q . k). l: the sum of e^(score - m).',
  'O: the rows of V, each times e^(score - m), added. At the end, O is divided by l.',
];
const O_NAMES = ['O before', 'O this part', 'O after'];
// The rows of O that have room.
const rowsOf = box => Array.from({ length: box.strips }, (_, n) => n);

// Where the parts of the merge are in its place [x, y, w].
const panelOf = ([x, y, w], n, em) => [x + (n * w) / 3, y, w / 3 - 0.6 * em, 5.5 * em];
const stripOf = ([x, y, w], n, em, shown) => {
  const left = x + 5.4 * em;
  return [left, y + (9 + 1.4 * n) * em, (x + w - left - 0.6 * em) / shown, 1.1 * em];
};

/**
 * The values of a step: the merge itself, or the row as the last merge left it.
 * @param {any[]} frames
 * @param {number} step
 */
export function valuesAt(frames, step) {
  const merged = frames[step].merged,
    last = frames.slice(0, step + 1).findLast(f => f.merged)?.merged,
    kept = value => [value ?? null, null, null],
    output = merged?.output ?? [];
  if (merged && !merged.shares.length) {
    const { m, l } = merged; // the first part is all so far
    const o = [[], merged.own, merged.after, output];
    return { ...merged, m: [null, m[2], m[2]], l: [null, l[2], l[2]], o, merges: true };
  }
  if (merged)
    return { ...merged, o: [merged.before, merged.own, merged.after, output], merges: true };
  return {
    ...{ m: kept(last?.m[2]), l: kept(last?.l[2]), shares: [], o: [last?.after ?? [], [], [], []] },
    merges: false,
  };
}

// Adds the marks. made: Marks. box: of ringLayout. fitted(texts, width): the first text that fits.
export function addMerge(made, paint, { frames, step, place, device, dims, shown }, box, fitted) {
  const { em } = made,
    area = box.merge,
    [x, y, w] = area,
    values = valuesAt(frames, step),
    { m, l, shares, o } = values,
    merges = frames.some(frame => frame.merged?.shares.length),
    title = `Query ${place}: its m, l and O`;
  made.text(
    'merge title',
    [x, y - 0.5 * em],
    fitted(
      [
        ...(merges ? [`${title} on GPU ${device}, merged with each part`] : []),
        ...[`${title} on GPU ${device}`, title],
      ],
      w,
      0.06,
    ),
    { bold: true },
  );
  const said = value => (value === null ? '\u2013' : short(Number(value), 4));
  NAMES.forEach((name, n) => {
    const [left, top, wide, high] = panelOf(area, n, em);
    made.rect(`panel ${n}`, [left, top, wide, high], {
      stroke: n === 2 ? COLOURS.P : paint.border,
      width: n === 2 ? 2 : 1,
    });
    made.text(`panel ${n} name`, [left + 0.5 * em, top + 1.2 * em], name);
    made.text(`m ${n}`, [left + 0.5 * em, top + 2.6 * em], `m ${said(m[n])}`, { mono: true });
    made.text(`l ${n}`, [left + 0.5 * em, top + 3.9 * em], `l ${said(l[n])}`, { mono: true });
    const factor = n < 2 && shares.length ? `\u00d7 ${short(shares[n], 3)}` : '';
    made.text(`factor ${n}`, [left + 0.5 * em, top + 5.1 * em], factor, { mono: true, bold: true });
  });
  const factors = shares.map(
    (share, n) => `${NAMES[n]} \u00d7 e^(${said(m[n])} - ${said(m[2])}) = ${short(share, 3)}`,
  );
  const sum = shares.length
    ? `l = ${said(l[0])} \u00d7 ${short(shares[0], 3)} + ${said(l[1])} \u00d7 ${short(shares[1], 3)} = ${said(l[2])}`
    : '';
  const none = values.merges
    ? 'the first part: nothing to merge'
    : 'these values wait for the merge';
  const [first, second] = sum
    ? [factors[shares[0] < 1 ? 0 : 1], sum]
    : [
        m[0] === null && !values.merges
          ? `the first m and l of query ${place} come with the merge`
          : none,
        '',
      ];
  made.text('merge factor', [x, y + 6.8 * em, w], first, { mono: !!sum });
  made.text('merge sum', [x, y + 8.2 * em, w], fitted([second, second.replaceAll(' ', '')], w), {
    mono: true,
  });
  addMeaning(made, box, paint.font);
  addO(made, paint, { area, o, dims, shown, rows: rowsOf(box) }, fitted);
}

// The first numbers of O: before, of this part, after, and divided by l at the end.
function addO(made, paint, { area, o, dims, shown, rows }, fitted) {
  const { em } = made,
    [x, y, w] = area,
    span = Math.max(1e-9, ...o.slice(0, 3).flat().map(Math.abs)),
    colour = signed(rgb(paint.background));
  rows.forEach((part, n) => {
    const [left, top, each, high] = stripOf(area, n, em, shown);
    made.text(`o ${part}`, [x, top + 0.95 * em], O_NAMES[part]);
    for (let dim = 0; dim < shown; dim++)
      made.rect(`o ${part} ${dim}`, [left + dim * each, top, each - 1, high], {
        ...(dim < o[part].length && {
          fill: `rgb(${colour(o[part][dim], span).join(',')})`,
        }),
        stroke: paint.border,
      });
  });
  const of = `${shown} of the ${dims} numbers of its O, in fp32`;
  made.text(
    'o note',
    [x, y + (9.9 + 1.4 * rows.length) * em],
    fitted([`${of}. Blue below 0, orange above`, of], w),
  );
}

// What m, l and O are, if there is room: under the merge, or next to the map on a phone.
function addMeaning(made, { words: [x, y, w], height, narrow }, font) {
  const { em } = made,
    size = smallText(em),
    measure = text => widest([text], `${size}px ${font}`),
    most = Math.floor((height + (narrow ? 0 : 0.5 * em) - y) / (1.35 * size)),
    lines = [];
  for (const text of MEANING) {
    const more = wrapped(text, w, 4, measure);
    if (lines.length + more.length > most) break; // no sentence is cut
    lines.push(...more);
  }
  lines.forEach((line, n) =>
    made.text(`meaning ${n}`, [x, y + 0.9 * size + n * 1.35 * size, w], line, { size }),
  );
}

// The thing of the merge at a point: {merge: 0 to 2} or {o: 0 to 2, dim}.
export function locateMerge(x, y, box, em, shown) {
  const area = box.merge;
  for (let n = 0; n < 3; n++) {
    const [left, top, wide, high] = panelOf(area, n, em);
    if (x >= left && x < left + wide && y >= top && y < top + high) return { merge: n };
  }
  for (const [n, part] of rowsOf(box).entries()) {
    const [left, top, each, high] = stripOf(area, n, em, shown),
      dim = Math.floor((x - left) / each);
    if (y >= top && y < top + high && dim >= 0 && dim < shown) return { o: part, dim };
  }
  return null;
}

export function describeMerge({ merge, o: part, dim }, frames, step) {
  const { m, l, shares, o } = valuesAt(frames, step);
  if (part !== undefined) {
    const value = o[part][dim];
    const none = value === undefined,
      from = part === 1 && !none ? ' (derived from O before and after)' : '';
    return `${O_NAMES[part]}, dim ${dim}: ${none ? 'no value in this step' : exact(value)}${from}`;
  }
  if (m[merge] === null) return `${NAMES[merge]}: no value in this step`;
  const factor = merge < 2 && shares.length ? `, factor ${exact(shares[merge])}` : '';
  return `${NAMES[merge]}: m ${exact(Number(m[merge]))}, l ${exact(Number(l[merge]))}${factor}`;
}
