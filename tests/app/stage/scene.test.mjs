// Each kind of panel stays in its box, and has a datum and a tip for each of its things.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Marks } from '../../../app/stage/core/kinds.js';
import { wrapped } from '../../../app/stage/core/wrapped.js';
import * as bars from '../../../app/stage/views/scene/bars.js';
import * as cells from '../../../app/stage/views/scene/cells.js';
import * as lines from '../../../app/stage/views/scene/lines.js';
import * as lanes from '../../../app/stage/views/scene/lanes.js';
import * as table from '../../../app/stage/views/scene/table.js';

const thing = (datum, more) => ({ datum, tip: 'tip', now: [], since: null, go: null, ...more });
const CELLS = [
  thing({ tensor: 'q', launch: 0 }, { row: 0, column: 0, value: 8, texts: ['8 bytes', '8'] }),
  thing({ tensor: 'k', launch: 1 }, { row: 1, column: 1, value: 4, texts: ['4'], since: 1 }),
  thing({ tensor: 'k', launch: 2 }, { row: 1, column: 2, texts: ['none'], framed: true, now: [1] }),
];
const PANELS = [
  [
    table,
    {
      rows: ['q', 'k'].map(name => thing({ tensor: name }, { name, note: 'input', lit: true })),
      columns: [0, 0, 1].map(group => ({ name: 'launch', group })),
      groups: [
        ['Separate', 'The idea in a few words'],
        ['Fused', ''],
      ],
      cells: CELLS.map(cell => ({ note: '', comes: '', colour: 'read', ...cell })),
      arrows: [{ row: 1, start: 1, end: 2 }],
    },
  ],
  [
    bars,
    {
      title: ['Bytes of both sides', 'Bytes'],
      bars: ['separate', 'fused'].map((name, n) =>
        thing(
          { total: name },
          {
            ...{ name, value: 4 - n, steps: [1, 4 - n], text: ['1', `${4 - n}`], cells: [] },
            ...{ parts: [{ start: 0, end: 1, text: '1', gap: '2' }], colour: 'primary' },
            ...{ pieces: [0, 3], framed: [1] },
          },
        ),
      ),
      ...{ columns: [], key: '', head: '', note: 'fewer', datum: { note: 1 }, now: [1] },
    },
  ],
  [
    cells,
    {
      ...{
        part: 'threads',
        title: [['a row is a warp', 'rows']],
        columns: 4,
        axes: ['warp', 'lane'],
      },
      states: ['110100', '000001'],
      ...{ colours: { 0: 'panel', 1: 'now' }, words: { 0: 'rests', 1: 'works' } },
      ...{ ringed: [-1, 5], pairs: [[0, 1, 2, 3], []] },
    },
  ],
  [
    lines,
    {
      lines: [
        {
          texts: ['a', 'b'],
          end: ['3 cycles'],
          bold: true,
          datum: {},
          end_datum: { figure: 'cycles' },
        },
        {
          texts: ['the reason of this way is long'],
          end: [],
          datum: { figure: 'why' },
          end_datum: {},
        },
      ],
    },
  ],
  [
    lanes,
    {
      groups: [0, 1].map(group => ({
        ...{ title: 'A run', value: '9 µs', note: 'of 3 kernels', begins: [0, group] },
        ...{ datum: { group }, tip: 'tip', marked: [[2, 4], null], said: ['now', ''] },
      })),
      rows: [0, 0, 1].map((group, n) => ({
        ...{ name: `stream ${n}`, datum: { row: n }, tip: 'tip', end: '5%', group, thin: n === 1 },
      })),
      spans: [
        { row: 0, start: 0, end: 3, texts: ['prefill of all', 'prefill'], value: '3 µs' },
        { row: 0, start: 2, end: 4, part: 1, texts: ['copy'], since: 1 },
        { row: 1, start: 1, end: 6, hatch: true, now: [1] },
        { row: 2, start: 5, end: 9, texts: ['decode', 'd'] },
      ].map((span, n) =>
        thing({ span: n }, { part: 0, texts: [], value: '', hatch: false, colour: 'K', ...span }),
      ),
      gaps: [
        thing({ gap: 0 }, { row: 0, start: 4, end: 7, texts: ['3 µs', '3'], late: 5, colour: 'V' }),
        thing({ gap: 1 }, { row: 2, start: 1, end: 5, texts: ['4 µs'], late: null, now: [1] }),
      ],
      links: [{ start: [0, 3], end: [2, 5], text: '2 µs', now: [] }],
      ...{ length: 10, units: [[1, 'µs']], note: 'Where the times come from', shown: [] },
    },
  ],
];

const boxOf = (width, em) => {
  const wide = text => 0.5 * em * text.length;
  return {
    ...{ x: 0, y: 0, width, em, small: em, narrow: width < 40 * em, wide },
    fit: (texts, room) => texts.find(text => wide(text) <= room) ?? texts.at(-1),
    lines: (text, room, most) => wrapped(text, room, most, wide),
    colour: () => '#123456',
    rgb: () => [1, 2, 3],
    pale: () => '#123456',
    ink: () => '#fff',
    paint: { text: '#000', background: '#fff', border: '#999', panel: '#eee', primary: '#06c' },
  };
};
const drawn = (kind, panel, width, em, step) => {
  const [least, most] = kind.heights(panel, boxOf(width, em)),
    made = new Marks(em),
    height = (least + most) / 2;
  assert.ok(0 < least && least <= most);
  kind.draw(panel, { ...boxOf(width, em), height, step, made, id: 'p' });
  return [made.list, height];
};

const NAMES = new Map([
  [bars, 'bars'],
  [cells, 'cells'],
  [lanes, 'lanes'],
  [lines, 'lines'],
  [table, 'table'],
]);
for (const [width, em] of [
  [390, 13],
  [760, 13],
  [1200, 16],
])
  for (const [kind, panel] of PANELS)
    test(`${NAMES.get(kind)} of ${width} pixels: its things are in the box, and apart or one in the other`, () => {
      for (const step of [0, 1]) {
        const [marks, height] = drawn(kind, panel, width, em, step),
          areas = marks.filter(({ datum }) => datum),
          ids = marks.map(({ id }) => id);
        assert.equal(new Set(ids).size, ids.length);
        for (const { rect, tip } of areas) {
          const [x, y, w, h] = rect;
          assert.ok(x >= 0 && y >= 0 && x + w <= width + 1 && y + h <= height + 1);
        }
        for (const [n, a] of areas.entries())
          for (const b of areas.slice(n + 1)) {
            const [x, y, w, h] = a.rect,
              [left, top, wide, high] = b.rect;
            const apart =
              x + w <= left + 1 || left + wide <= x + 1 || y + h <= top + 1 || top + high <= y + 1;
            const within =
              left >= x - 1 && left + wide <= x + w + 1 && top >= y - 1 && top + high <= y + h + 1;
            assert.ok(apart || within, `${a.id} and ${b.id}`);
          }
      }
    });
