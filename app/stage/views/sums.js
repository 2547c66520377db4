// dQ of a head from two runs: which of its numbers have other bits, and the terms of one of them,
// added in both orders.
import { canvasView } from '../core/canvas.js';
import { COLOURS, element, exact, matrixImage, number, rgb, theme } from '../core/paint.js';

const ORDER = 'Each key tile has one part of this sum. Every addition rounds, so another order gives other last bits.',
  SAME = 'Each key tile has one part of this sum. With so few parts, both orders gave equal bits. Choose more tokens.',
  HELD = 'One block adds all key tiles in the order of its loop, so every run gives equal bits.';
const MOST_BITS = 4; // that one number has different: from here on the full colour

// meta: explainers/stories/backward/frames.py SumsMeta
/** @type {Picture<backward.SumsMeta>} */
export default function (host, { meta, columns }, context) {
  const { n, d, adds, tiles, second, changed } = meta,
    { once, again, bits, terms, forward, back } = columns,
    map = element('div', { class: 'view' }),
    table = element('div', { class: 'sums', tabindex: '0', role: 'region', 'aria-label': 'Sums' });
  host.replaceChildren(element('div', { class: 'sums-pair' }, map, table));
  const { text, background, border } = theme(host),
    [base, ink, full] = [background, text, COLOURS.Q].map(rgb);
  const image = matrixImage(
    d,
    n,
    (y, x) => bits[y * d + x] || undefined,
    MOST_BITS,
    bits => base.map((v, i) => v + (full[i] - v) * Math.min(1, 0.4 + (0.6 * bits) / MOST_BITS)),
    ink,
  );
  let chosen = { query: meta.first[0], dim: meta.first[1] },
    laid;

  const show = () => {
    const at = chosen.query * d + chosen.dim,
      used = [...tiles.keys()].filter(tile => !Number.isNaN(terms[tile * n * d + at])),
      last = used.at(-1) ?? 0,
      names = [
        adds ? 'its part' : 'sum in registers',
        // They are left out if they do not give the bits of the two runs.
        ...(adds && !Number.isNaN(forward[last * n * d + at]) ? ['sum, from the top', 'sum, from below'] : []),
      ],
      rows = used.map(tile => [
        String(tiles[tile]),
        ...[terms, forward, back].slice(0, names.length).map(one => exact(one[tile * n * d + at])),
      ]);
    table.replaceChildren(
      element('h3', {}, `dQ[${chosen.query}, ${chosen.dim}], the chosen number`),
      element('p', {}, changed ? ORDER : adds ? SAME : HELD),
      ...(used.length ? [headed(['key tile', ...names], rows)] : []),
      bitTable(once[at], again[at], second),
    );
  };
  const layout = ({ width, height, em }) => {
    const head = 3 * em,
      unit = Math.max(0.5, Math.min((width - 4) / d, (height - head - 4) / n));
    laid = { box: [2, head, d * unit, n * unit], unit, em };
    return head + n * unit + 4;
  };
  const draw = (g, { at, paint, em, width }) => {
    const [x, y, w, h] = laid.box;
    g.fillStyle = paint.text;
    g.font = `600 ${em}px ${paint.font}`;
    g.fillText(`dQ [${n}, ${d}] in global memory`, x, 1.1 * em, width);
    g.font = `${em}px ${paint.font}`;
    const said = `${number(changed)} of ${number(n * d)} have other bits`;
    g.fillText(said, x, 2.4 * em, width - 4);
    g.imageSmoothingEnabled = false;
    g.drawImage(image, x, y, w, h);
    g.strokeStyle = border;
    g.lineWidth = 1;
    g.strokeRect(x - 0.5, y - 0.5, w + 1, h + 1);
    for (const [cell, thick] of /** @type {[any, number][]} */ ([
      [chosen, 2.5],
      [at, 1],
    ])) {
      if (!cell) continue;
      g.strokeStyle = paint.primary;
      g.lineWidth = thick;
      const size = Math.max(laid.unit, 4);
      g.strokeRect(x + cell.dim * laid.unit, y + cell.query * laid.unit, size, size);
    }
  };
  const thing = number => ({ tensor: 'dQ', query: Math.floor(number / d), dim: number % d });
  const areas = () => [
    {
      rect: laid.box,
      datum: { tensor: 'dQ' },
      grid: { columns: d, count: n * d, thing },
    },
  ];
  const bitsSaid = bits => (bits ? `${bits} bit${bits > 1 ? 's' : ''} differ` : 'equal bits');
  const view = canvasView(map, context, {
    title: 'Sums of dQ',
    layout,
    draw,
    areas,
    describe: ({ query, dim }) =>
      `dQ[${query}, ${dim}] = ${exact(once[query * d + dim])}, ${bitsSaid(bits[query * d + dim])}`,
    label: () => `dQ of two runs: ${number(changed)} of ${number(n * d)} numbers differ.`,
    click(thing) {
      chosen = { query: thing.query, dim: thing.dim };
      show();
      view?.draw();
    },
    legend: [[`background:${COLOURS.Q}`, 'other bits in the second run']],
  });
  show();
  return {
    unmount() {
      view.unmount();
      host.replaceChildren();
    },
  };
}

const cell = (text, more = {}) => element('td', { class: 'number', ...more }, text);
const headed = (names, rows) =>
  element(
    'table',
    {},
    element('thead', {}, element('tr', {}, ...names.map(name => element('th', { scope: 'col' }, name)))),
    element('tbody', {}, ...rows.map(row => element('tr', {}, ...row.map(text => cell(text))))),
  );

// Sign, exponent and fraction of a float32, as 0 and 1.
const bitText = value => new Uint32Array(Float32Array.of(value).buffer)[0].toString(2).padStart(32, '0');

// The number of both runs, bit by bit.
function bitTable(once, again, second) {
  const [a, b] = [bitText(once), bitText(again)];
  const rows = (name, value, bits, other) => [
    element('tr', {}, element('th', { scope: 'row' }, name), cell(exact(value))),
    element(
      'tr',
      {},
      element(
        'td',
        { class: 'bits', colspan: 2 },
        ...[...bits].map((bit, i) => element('span', { class: bit === other[i] ? null : 'other' }, bit)),
      ),
    ),
  ];
  return element(
    'figure',
    {},
    element('table', {}, element('tbody', {}, ...rows('first run', once, a, b), ...rows('second run', again, b, a))),
    element(
      'figcaption',
      {},
      `The kernel ran twice. In the second run, ${second}. ${a === b ? 'Every bit is equal.' : 'The marked bits differ.'}`,
    ),
  );
}
