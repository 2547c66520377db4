// A picture that is data: lines of panels, from explainers/story/scene.py. Each kind of panel places
// its things in a box: heights({...}) -> [least, most] pixels, draw(panel, box) adds marks. The
// canvas finds a thing by the datum of its mark, so a panel has no hit test of its own.
import { canvasView } from '../core/canvas.js';
import { matches } from '../core/covers.js';
import { Marks } from '../core/kinds.js';
import {
  blend,
  button,
  COLOURS,
  element,
  exact,
  matrixImage,
  number,
  PALETTE,
  rgb,
  short,
  signed,
  smallText,
  spanOf,
  theme,
  widest,
} from '../core/paint.js';
import { wrapped } from '../core/wrapped.js';
import * as bars from './scene/bars.js';
import * as blocks from './scene/blocks.js';
import * as cells from './scene/cells.js';
import * as chain from './scene/chain.js';
import * as columns from './scene/columns.js';
import * as flow from './scene/flow.js';
import * as lanes from './scene/lanes.js';
import * as lines from './scene/lines.js';
import * as listing from './scene/listing.js';
import * as map from './scene/map.js';
import * as pages from './scene/pages.js';
import * as table from './scene/table.js';
import * as tables from './scene/tables.js';

/** @type {Record<string, PanelKind>} */
const PANELS = { bars, blocks, cells, chain, columns, flow, lanes, lines, listing, map, pages, table, tables };
const NARROW = 40, // em: a pane of a phone
  GAP = 2, // em between panels of a line
  UNDER = 0.4, // em between lines
  DECADES = 6; // of a map, below its largest number. What is smaller has no colour.

// The colours of Thing.colour apart from the theme's, and the shares of those nearer to the background.
/** @type {Record<string, string>} */
const INKS = { wrong: PALETTE.wrong, before: PALETTE.wavefronts.before, ...COLOURS, now: PALETTE.wavefronts.now },
  PALE = 0.45,
  DIM = 0.42;
/** @type {(name: string, paint: Paint) => string} */
const inked = (name, paint) => {
  const near = (/** @type {string} */ ink, /** @type {number} */ share) =>
    blend(rgb(ink), rgb(paint.background), share);
  if (name.startsWith('pale ')) return near(inked(name.slice(5), paint), PALE);
  return name === 'dim'
    ? near(paint.text, DIM)
    : (/** @type {Record<string, string>} */ (paint)[name] ?? INKS[name] ?? name);
};
// The marks of a legend that are no plain colours.
/** @type {Record<string, string>} */
const MARKS = {
  ring: 'border:2px solid var(--st-primary-color)',
  sign: `background:linear-gradient(90deg,${PALETTE.sign.below},transparent,${PALETTE.sign.above})`,
  hatch:
    'border:1px solid currentColor;background:repeating-linear-gradient(135deg,currentColor 0 1px,transparent 1px 4px)',
};

/** @typedef {{width: number, height: number, em: number}} Pane */
/** @typedef {any} Panel a panel of any kind: its module knows its type */
/** @typedef {{boxes: {panel: Panel, id: string, box: any}[], height: number}} Placed */

/** @type {Picture<story.Scene>} */
export default function (host, { meta, title, columns: data }, context) {
  const { clock, change } = context,
    images = new Map();
  let sets = /** @type {Map<string, Placed>} */ (new Map()), // the places of each set of panels
    goes = /** @type {any[]} */ ([]), // marks that lead to a step, and grids with a press of their own
    size = /** @type {Pane} */ ({ width: 0, height: 0, em: 1 });

  // A matrix of a panel as an image, made once: by its colours, or by powers of ten below and above 0.
  /** @type {PanelBox['image']} */
  const image = (panel, key, columns, rows, valueAt, colourOf) => {
    const { background, text } = theme(host),
      name = `${panels.indexOf(panel)} ${key} ${background}`;
    if (images.has(name)) return images.get(name);
    const paper = rgb(background),
      ends = [rgb(PALETTE.sign.below), rgb(PALETTE.sign.above)],
      byPower = (/** @type {number} */ value, /** @type {number} */ span) => {
        const power = value ? 1 + Math.log10(Math.abs(value) / span) / DECADES : 0,
          share = Math.max(0, Math.min(1, power)) ** 2;
        return paper.map((v, i) => v + (ends[value < 0 ? 0 : 1][i] - v) * share);
      };
    const [at, tint, span] = [
      (/** @type {number} */ y, /** @type {number} */ x) => valueAt(y * columns + x),
      colourOf ?? byPower,
      colourOf ? 1 : spanOf(data[panel.column]),
    ];
    images.set(name, matrixImage(columns, rows, at, span, tint, rgb(text)));
    return images.get(name);
  };

  // What a panel needs to place its things: a box with the theme, the size of text and its measures.
  const boxOf = (/** @type {Pane} */ { width, em }) => {
    const paint = theme(host),
      small = smallText(em),
      wide = (/** @type {string} */ text, bold = false, px = small) =>
        widest([text], `${bold ? '600 ' : ''}${px}px ${paint.font}`);
    /** @type {Omit<PanelBox, 'id' | 'step' | 'made' | 'x' | 'y' | 'height'>} */
    const box = {
      ...{ em, small, width, paint, narrow: width < NARROW * em, wide, columns: data, image },
      ...{ exact, number, short },
      /** The first text that fits, or the last one. */
      fit: (texts, room, bold = false) => texts.find(text => wide(text, bold) <= room) ?? texts.at(-1) ?? '',
      lines: (text, room, most) => wrapped(text, room, most, wide),
      colour: name => inked(name, paint),
      rgb: name => rgb(inked(name, paint)),
      /** The colour of a number of some, by its sign and its size next to the largest one. */
      tint: values => {
        let of;
        return value => {
          of ??= [signed(rgb(paint.background)), spanOf(values)];
          return of[0](value, of[1]);
        };
      },
      pale: (name, share) => blend(rgb(inked(name, paint)), rgb(paint.background), share),
      /** Black or white, for a text on a pale colour. */
      ink: (name, share) => {
        const back = rgb(paint.background),
          [red, green, blue] = rgb(inked(name, paint)).map((value, n) => share * value + (1 - share) * back[n]);
        return 0.3 * red + 0.59 * green + 0.11 * blue > 120 ? '#000' : '#fff';
      },
    };
    return box;
  };

  // The panels of a step, by the name of their set.
  const panels = /** @type {Panel[]} */ (meta.lines.flat()),
    isHere = (/** @type {Panel} */ panel, /** @type {number} */ step) =>
      !panel.shown?.length || panel.shown.includes(step),
    setOf = meta.frames.map((_, step) => panels.map(panel => Number(isHere(panel, step))).join('')); // of each step
  // The lines of a step have their least height, and share the rest of the pane up to their most.
  /** @type {(pane: Pane, step: number) => Placed} */
  const placed = (pane, step) => {
    const base = boxOf(pane),
      here = /** @type {Panel[][]} */ (meta.lines)
        .map(line => line.filter(panel => isHere(panel, step) && !(base.narrow && panel.roomy)))
        .filter(one => one[0]),
      lines = here.flatMap(line => (base.narrow ? line.map(panel => [panel]) : [line]));
    const rows = lines.map(line => {
      const room = pane.width - (line.length - 1) * GAP * pane.em,
        shares = line.reduce((sum, panel) => sum + panel.share, 0),
        widths = line.map(panel => (room * panel.share) / shares),
        needs = line.map((panel, n) =>
          PANELS[panel.kind].heights(panel, /** @type {any} */ ({ ...base, width: widths[n] })),
        );
      return {
        ...{ line, widths },
        least: Math.max(...needs.map(([least]) => least)),
        most: Math.max(...needs.map(([, most]) => most)),
      };
    });
    const gaps = (rows.length - 1) * UNDER * pane.em,
      sum = (/** @type {'least' | 'most'} */ key) => rows.reduce((all, row) => all + row[key], 0),
      spare = Math.max(0, pane.height - gaps - sum('least')),
      share = Math.min(1, spare / Math.max(1, sum('most') - sum('least')));
    let y = 0;
    const boxes = rows.flatMap(({ line, widths, least, most }) => {
      const h = least + share * (most - least),
        top = y;
      let x = 0;
      y += h + UNDER * pane.em;
      return line.map((panel, n) => {
        const box = { ...base, x, y: top, width: widths[n], height: h };
        x += widths[n] + GAP * pane.em;
        return { panel, id: `${panels.indexOf(panel)}`, box };
      });
    });
    return { boxes, height: Math.ceil(y - UNDER * pane.em - 0.01) };
  };
  const layout = (/** @type {Pane} */ pane) => {
    size = pane;
    const last = new Map(setOf.map((set, step) => [set, step]));
    sets = new Map([...last].map(([set, step]) => [set, placed(pane, step)]));
    return Math.max(...[...sets.values()].map(({ height }) => height));
  };
  const marks = (/** @type {{step: number, paint: Paint}} */ { step, paint }) => {
    const made = new Marks(smallText(size.em)),
      { boxes } = /** @type {Placed} */ (sets.get(setOf[step]));
    for (const { panel, box, id } of boxes) PANELS[panel.kind].draw(panel, { ...box, paint, step, made, id });
    fly(made, boxes, meta.flights[step] ?? []);
    (meta.ways[step] ?? []).forEach((ends, n) => lead(made, step, n, ends));
    goes = made.list.filter(({ go, grid, press }) => press || (go ?? grid?.go ?? null) !== null);
    return made.list;
  };
  // An arrow from thing to thing, down through the gaps beside the narrower one.
  /** @type {(made: Marks, step: number, n: number, ends: Thing[]) => void} */
  const lead = (made, step, n, ends) => {
    const same = (/** @type {Thing} */ one, /** @type {Thing} */ other) => matches(one, other) && matches(other, one),
      rectOf = (/** @type {Thing} */ datum) => made.list.find(mark => mark.datum && same(mark.datum, datum))?.rect,
      [a, b] = ends.map(rectOf);
    if (!a || !b) return;
    const gap = 0.4 * size.em,
      [from, to] = [a, b].map(([x, , w]) => x + w / 2),
      low = a[1] + a[3],
      wide = b[2] > 0.6 * size.width, // a panel: the arrow ends above its title
      side = (wide ? a : b)[0] - gap;
    made.add(`way ${step} ${n}`, 'way', null, {
      points: [
        ...[
          [from, low],
          [from, low + gap],
          [side, low + gap],
        ],
        ...(wide
          ? [[side, b[1] - 1.4 * smallText(size.em)]]
          : [
              [side, b[1] - gap],
              [to, b[1] - gap],
              [to, b[1]],
            ]),
      ],
      ...{ stroke: theme(host).text, head: 0.4 * size.em, ease: 'both', grown: 1, enter: { grown: 0 } },
      ...{ span: [0.4 * n, 0.5 + 0.4 * n], out: [0, 0.15], hint: true },
    });
  };
  // Numbers on their way from a cell of one grid to a cell of another.
  /** @type {(made: Marks, boxes: Placed['boxes'], flights: story.Scene['flights'][number]) => void} */
  const fly = (made, boxes, flights) => {
    if (!flights.length) return;
    const grids = Object.fromEntries(boxes.map(({ panel, box }) => [panel.part, { panel, box }])),
      spotOf = (/** @type {string} */ part, /** @type {number} */ number) =>
        cells.spot(grids[part].panel, grids[part].box, number);
    made.add('flights', 'flights', null, {
      points: flights.map(([, , part, number]) => spotOf(part, number).slice(0, 2)),
      size: spotOf(flights[0][2], 0).slice(2),
      enter: { points: flights.map(([part, number]) => spotOf(part, number).slice(0, 2)) },
      ...{ ease: 'both', passing: true },
    });
  };
  const legend = meta.legend.map(([colour, text]) => [
    MARKS[colour] ?? (colour && `background:${inked(colour, theme(host))};outline:1px solid #8886`),
    text,
  ]);
  const noteOf = (/** @type {number} */ step) => (Array.isArray(meta.note) ? (meta.note[step] ?? '') : meta.note);
  const inner = meta.turns.length ? element('div', { class: 'view' }) : host,
    turns = meta.turns.map(([choice, value, text, works]) => ({
      node: button(text, () => context.turnTo(choice, value)),
      works,
    }));
  if (turns.length) host.replaceChildren(inner, element('div', {}, ...turns.map(({ node }) => node)));
  const unfollow = clock.follow(step => {
    for (const { node, works } of turns) node.disabled = !works[step];
  });
  for (const { node, works } of turns) node.disabled = !works[clock.step];
  const view = canvasView(inner, context, {
    ...{ title, layout, marks, legend, said: meta.note.length ? noteOf : undefined },
    label: (/** @type {number} */ step) => {
      const { title, sentence } = meta.frames[step] ?? {};
      return [[title, sentence].filter(Boolean).join('. '), noteOf(step)].join(' ').trim();
    },
    click: (/** @type {Thing} */ thing) => {
      const mark = goes.find(({ datum, grid, press }) => {
        if (press) return datum.part === thing.part;
        return grid ? grid.go(thing) !== null : JSON.stringify(datum) === JSON.stringify(thing);
      });
      const to = (mark?.press ?? mark?.grid?.go)?.(thing) ?? mark?.go; // a step, [choice, value] or nothing
      if (to === undefined || to === null) return false;
      if (Array.isArray(to)) change(to[0], to[1]);
      else clock.set(to, 'user');
    },
  });
  return {
    ...view,
    unmount() {
      unfollow();
      view.unmount();
    },
  };
}
