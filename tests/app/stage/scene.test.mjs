// Each kind of panel stays in its box, and has a datum and a tip for each of its things.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Marks } from '../../../app/stage/core/kinds.js';
import { wrapped } from '../../../app/stage/core/wrapped.js';
import * as bars from '../../../app/stage/views/scene/bars.js';
import * as blocks from '../../../app/stage/views/scene/blocks.js';
import * as cells from '../../../app/stage/views/scene/cells.js';
import * as chain from '../../../app/stage/views/scene/chain.js';
import * as columns from '../../../app/stage/views/scene/columns.js';
import * as flow from '../../../app/stage/views/scene/flow.js';
import * as lanes from '../../../app/stage/views/scene/lanes.js';
import * as lines from '../../../app/stage/views/scene/lines.js';
import * as listing from '../../../app/stage/views/scene/listing.js';
import * as map from '../../../app/stage/views/scene/map.js';
import * as pages from '../../../app/stage/views/scene/pages.js';
import * as table from '../../../app/stage/views/scene/table.js';
import * as tables from '../../../app/stage/views/scene/tables.js';

const thing = (datum, more) => ({
  datum,
  tip: 'tip',
  now: [],
  since: null,
  go: null,
  ...more,
});
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
      cells: CELLS.map(cell => ({
        note: '',
        comes: '',
        colour: 'read',
        ...cell,
      })),
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
            ...{
              name,
              value: 4 - n,
              steps: [1, 4 - n],
              text: ['1', `${4 - n}`],
              cells: [],
            },
            ...{
              parts: [{ start: 0, end: 1, text: '1', gap: '2' }],
              colour: 'primary',
            },
            ...{ pieces: [0, 3], framed: [1] },
          },
        ),
      ),
      ...{
        columns: [],
        key: '',
        head: '',
        note: 'fewer',
        datum: { note: 1 },
        now: [1],
      },
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
        names: ['GPU 0', 'GPU 1'],
        ...{ tops: ['GPU 0', 'GPU 1'], places: [] },
      },
      states: ['110100', '000001'],
      ...{
        colours: { 0: 'panel', 1: 'now' },
        words: { 0: 'rests', 1: 'works' },
      },
      ...{
        texts: [],
        tips: [],
        gos: [],
        ringed: [-1, 5],
        pairs: [[0, 1, 2, 3], []],
      },
    },
  ],
  [
    map,
    {
      ...{
        part: 'O',
        title: [['no errors'], ['up to 2']],
        column: 'errors',
        columns: 2,
      },
      ...{
        at: [0, 1],
        axes: ['row', 'dim'],
        first: 16,
        lines: 1,
        unit: '',
        blank: 'hidden',
      },
    },
  ],
  [
    chain,
    {
      title: [['Launch 1 of 3: block 0', 'block 0'], ['launch 2']],
      ...{
        heads: [
          ['shared', ''],
          ['registers', 'registers'],
        ],
        ways: [
          [0, 1],
          [1, 2],
        ],
      },
      matrices: [
        [[0, 0, 0], [4, 2], 'Q'],
        [[0, 0, 1], [4, 1], 'LSE'],
        [[1, 0, 0], [4, 4], 'S = Q K', 'S'],
      ].map(([place, size, ...names], n) =>
        thing(
          { tensor: names.at(-1) },
          {
            ...{ place, size, names, axes: ['query', n === 1 ? '' : 'key'], column: 'errors', pale: [0], shown: [] },
            ...{
              windows: n
                ? []
                : [
                    [0, 2, 2, 8, 0],
                    [4, 2, 2, 10, 0],
                  ],
              at: [0, 1],
              notes: ['queries 8 to 9', ''],
            },
            ...{ now: n === 2 ? [1] : [], inputs: [1], loads: [0], flies: n ? [1] : [], sums: ['', 'right'] },
            ...{ note: ', so far', unit: '', blank: 'masked' },
          },
        ),
      ),
    },
  ],
  [
    blocks,
    {
      ...{
        part: 'block',
        title: ['Mask of head 0: 8 queries', 'Mask'],
        size: [8, 8],
      },
      ...{
        block: [4, 4],
        kinds: 'kinds',
        elements: 'elements',
        colours: ['', 'now', 'before'],
      },
      ...{
        hidden: 'pale now',
        row: 1,
        dashed: 5,
        order: [[0, '1st', '1']],
        now: [-1, 0],
      },
      tips: ['skipped', '{row} {col}: {seen} seen, {bytes} bytes', 'full'],
      row_tips: ['row 0', 'row 1'],
      ...{
        gos: { 0: 1, 1: 2 },
        choice: 'at_tile',
        drawing: null,
        drawn_choice: 'drawn',
      },
    },
  ],
  [
    columns,
    {
      ...{
        part: 'key',
        title: [['all scores', 'all'], ['block 0']],
        notes: [['m'], ['m']],
      },
      ...{
        column: 'scores',
        ranges: [
          [0, 8],
          [0, 4],
        ],
        scale: [-1, 2],
        name: 'key',
        noun: ':',
      },
      ...{
        bare: [0],
        levels: [[], [[1, true]]],
        pale: [[2, 6]],
        pale_colour: 'pale now',
      },
      ...{ blanks: [': hidden', ': skipped'], each: 4, colour: 'S', framed: [[1, 3], []], since: 'since', tips: [] },
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
    listing,
    {
      names: ['Faulty', 'Right'],
      rows: [
        { numbers: [1, 1], texts: ['{', '{'], changed: false },
        {
          numbers: [2, 2],
          texts: ['  const int head = h % heads;', `  const int head = h / ${'group'.repeat(40)};`],
          changed: true,
        },
        { numbers: [null, 3], texts: [null, '  __syncthreads();'], changed: true },
      ],
      lit: ['left', 'both'],
    },
  ],
  [
    flow,
    {
      title: ['3 GPUs, each with two buffers', '3 GPUs'],
      places: [0, 1, 2].map(gpu =>
        thing(
          { gpu },
          {
            name: `GPU ${gpu}`,
            value: [['2 pairs', '2'], []],
            note: ['queries 0'],
            foot: ['m', 'l'],
          },
        ),
      ),
      // One goes from each GPU to the next one, and another shares its slot.
      items: [0, 1, 2]
        .map(gpu => {
          const next = (gpu + 1) % 3,
            spots = [[next, 1], gpu ? [next, 0] : []],
            way = [
              [gpu, 0],
              [next, 1],
            ],
            looks = { texts: ['K, V of a GPU', 'K'], colour: 'K', pale: [0], moves: [0] };
          return thing({ gpu, round: 1 }, { ...looks, spots, way });
        })
        .concat(
          thing(
            { output: 1, gpu: 1 },
            {
              texts: ['O'],
              colour: 'O',
              pale: [],
              moves: [],
              way: [],
              spots: [
                [1, 1],
                [1, 1],
              ],
            },
          ),
        ),
      slots: ['', 'second buffer'],
    },
  ],
  [
    lanes,
    {
      groups: [0, 1].map(group => ({
        ...{
          title: 'A run',
          value: '9 µs',
          note: 'of 3 kernels',
          begins: [0, group],
        },
        ...{
          datum: { group },
          tip: 'tip',
          marked: [[2, 4], null],
          said: ['now', ''],
        },
      })),
      rows: [0, 0, 1].map((group, n) => ({
        ...{
          name: `stream ${n}`,
          datum: { row: n },
          tip: 'tip',
          end: ['5%', '6%'],
          ...{ colour: n ? '' : 'K', moments: n === 1 ? ['first', 'second'] : [] },
          group,
          thin: n === 1,
        },
      })),
      spans: [
        {
          row: 0,
          start: 0,
          end: 3,
          texts: ['prefill of all', 'prefill'],
          value: '3 µs',
        },
        { row: 0, start: 2, end: 4, part: 1, texts: ['copy'], since: 1, early: ['soon'], early_tip: 'soon' },
        { row: 1, start: 1, end: 6, hatch: true, now: [1] },
        { row: 2, start: 5, end: 9, texts: ['decode', 'd'] },
      ].map((span, n) => thing({ span: n }, { part: 0, texts: [], value: '', hatch: false, colour: 'K', ...span })),
      gaps: [
        thing(
          { gap: 0 },
          {
            row: 0,
            start: 4,
            end: 7,
            texts: ['3 µs', '3'],
            late: 5,
            colour: 'V',
          },
        ),
        thing({ gap: 1 }, { row: 2, start: 1, end: 5, texts: ['4 µs'], late: null, now: [1] }),
      ],
      links: [{ start: [0, 3], end: [2, 5], text: '2 µs', now: [] }],
      ...{
        length: 10,
        units: [[1, 'µs']],
        note: 'Where the times come from',
        shown: [],
      },
    },
  ],
  [
    pages,
    {
      ...{ title: ['Pool of 5 pages', 'Pool'], size: 4, copies: [[], [[0, 4]]], shown: [] },
      steps: [0, 1].map(step =>
        Array.from({ length: 5 }, (_, n) => ({
          ...{ names: n < 2 ? 'A' : '', colours: n < 2 ? ['#123456'] : [], fill: step + 1 },
          ...{
            first: 4 * n,
            fresh: n ? [] : [0, 1],
            freed: n === 4,
            texts: ['next', ''],
            tip: 'tip',
          },
        })),
      ),
    },
  ],
  [
    tables,
    {
      ...{ title: ['Block tables'], empty: 'No sequence yet.', shown: [] },
      steps: [
        [],
        ['A', 'B'].map(name => ({
          ...{
            name,
            colour: '#123456',
            pages: [7, 3],
            texts: ['20 tokens', '20'],
            tips: ['a', 'b'],
            now: [1],
          },
        })),
      ],
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
    image: () => null,
    tint: () => () => [0, 0, 0],
    ...{ exact: String, number: String, short: String },
    columns: {
      ...{
        since: new Float32Array([0, 0, 0, 0, 1, 1, 1, 1]),
        errors: new Float32Array([0, 0, NaN, 0, 1, -2, NaN, 0]),
        scores: new Float32Array(8),
      },
      ...{
        kinds: new Float32Array([2, 0, 1, 2]),
        elements: new Float32Array(8).fill(3),
      },
      ...{
        seen: new Float32Array([16, 0, 5, 16]),
        bytes: new Float32Array(4).fill(64),
      },
    },
    paint: {
      text: '#000',
      background: '#fff',
      border: '#999',
      panel: '#eee',
      primary: '#06c',
    },
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

const NAMES = new Map(
  Object.entries({
    bars,
    blocks,
    cells,
    chain,
    columns,
    flow,
    lanes,
    lines,
    listing,
    map,
    pages,
    table,
    tables,
  }).map(([name, kind]) => [kind, name]),
);
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
            const apart = x + w <= left + 1 || left + wide <= x + 1 || y + h <= top + 1 || top + high <= y + 1;
            const within = left >= x - 1 && left + wide <= x + w + 1 && top >= y - 1 && top + high <= y + h + 1;
            assert.ok(apart || within, `${a.id} and ${b.id}`);
          }
      }
    });

test('a press on blocks asks for a row, a step or a drawing', () => {
  const [, panel] = PANELS.find(([kind]) => kind === blocks),
    marksOf = more => drawn(blocks, { ...panel, ...more }, 760, 13, 1)[0],
    areaOf = (marks, part) => marks.find(({ datum }) => datum?.part === part),
    plain = marksOf({}),
    area = areaOf(plain, 'block');
  assert.equal(areaOf(plain, 'row').press({ part: 'row', row: 1 }), null);
  assert.deepEqual(areaOf(plain, 'row').press({ part: 'row', row: 0 }), ['at_tile', '0']);
  assert.equal(area.press(area.grid.thing(3)), 2);
  assert.deepEqual(area.press(area.grid.thing(1)), ['at_tile', '0']);
  assert.equal(area.grid.tip(2), '1 0: 5 seen, 64 bytes');
  const byHand = areaOf(marksOf({ drawing: { block: 4, drawn: [[0], [0, 1]] } }), 'block');
  assert.deepEqual(byHand.press(byHand.grid.thing(2)), ['drawn', '0;1']);
  assert.deepEqual(byHand.press(byHand.grid.thing(1)), ['drawn', '0,1;0,1']);
  assert.match(byHand.grid.tip(0), /press to hide block 0 of row 0/);
});

test('a map tells the error so far and the one before the step, and nothing of a hidden number', () => {
  const [, panel] = PANELS.find(([kind]) => kind === map),
    { grid } = drawn(map, panel, 760, 13, 1)[0].find(({ datum }) => datum);
  assert.deepEqual(grid.thing(1), { part: 'O', row: 16, dim: 1 });
  assert.equal(grid.tip(1), 'O of row 16, dim 1\nso far 2 below float64\nbefore this step no error');
  assert.equal(grid.tip(2), 'O of row 17, dim 0: hidden');
});

test('a span tells its texts and its tip from its step on, and its early ones before', () => {
  const [, panel] = PANELS.find(([kind]) => kind === lanes),
    seen = [0, 1].map(step => {
      const [marks] = drawn(lanes, panel, 1200, 16, step);
      return [marks.find(({ datum }) => datum?.span === 1).tip, marks.some(({ text }) => text === 'copy')];
    });
  assert.deepEqual(seen, [
    ['soon', false],
    ['tip', true],
  ]);
});

test('a bar has no height and no value before its step', () => {
  const [, panel] = PANELS.find(([kind]) => kind === columns),
    seen = [0, 1].map(step => {
      const all = { ...panel, ranges: [[0, 8]], bare: [] },
        [marks] = drawn(columns, all, 760, 13, step),
        { grid } = marks.find(({ datum }) => datum);
      return [marks.some(({ id }) => / bar 5$/.test(id)), grid.tip(5).endsWith(': skipped')];
    });
  assert.deepEqual(seen, [
    [false, true],
    [true, false],
  ]);
});

test('a chain tells each number with its place, and nothing of one that is not there', () => {
  const [, panel] = PANELS.find(([kind]) => kind === chain),
    grids = [0, 1].map(step => drawn(chain, panel, 760, 13, step)[0].find(({ datum }) => datum?.tensor === 'Q').grid);
  assert.deepEqual(grids[1].thing(3), { tensor: 'Q', query: 11, key: 1 });
  assert.equal(grids[1].tip(1), 'Q[10, 1], so far = -2');
  assert.equal(grids[1].tip(2), 'Q[11, 0], so far: masked');
  assert.equal(grids[0].tip(0), 'Q[8, 0], so far: not on the SM now');
});
