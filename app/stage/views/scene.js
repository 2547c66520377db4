// A picture that is data: lines of panels, from explainers/story/scene.py. Each kind of panel places
// its things in a box: heights({...}) -> [least, most] pixels, draw(panel, box) adds marks. The
// canvas finds a thing by the datum of its mark, so a panel has no hit test of its own.
import { canvasView } from '../core/canvas.js';
import { Marks } from '../core/kinds.js';
import { blend, COLOURS, rgb, smallText, theme, widest } from '../core/paint.js';
import { wrapped } from '../core/wrapped.js';
import * as bars from './scene/bars.js';
import * as table from './scene/table.js';

/** @type {Record<string, PanelKind>} */
const PANELS = { bars, table };
const NARROW = 40, // em: a pane of a phone
  GAP = 2, // em between panels of a line
  UNDER = 0.4; // em between lines

/** @type {Picture<story.Scene>} */
export default function (host, { meta, title }, context) {
  const { clock } = context;
  /** @type {{panel: any, box: any}[]} */ let boxes = [];
  /** @type {any[]} */ let goes = []; // marks that lead to a step
  /** @type {{width: number, height: number, em: number}} */ let size;

  // What a panel needs to place its things: a box with the theme, the size of text and its measures.
  const boxOf = (/** @type {{width: number, em: number}} */ { width, em }) => {
    const paint = theme(host),
      small = smallText(em),
      wide = (/** @type {string} */ text, bold = false, px = small) =>
        widest([text], `${bold ? '600 ' : ''}${px}px ${paint.font}`),
      colour = (/** @type {string} */ name) =>
        /** @type {Texts} */ (paint)[name] ?? /** @type {Texts} */ (COLOURS)[name] ?? name;
    return {
      ...{ em, small, width, paint, narrow: width < NARROW * em, wide, colour },
      // The first text that fits, or the last one.
      /** @type {PanelBox['fit']} */
      fit: (texts, room, bold = false) =>
        texts.find(text => wide(text, bold) <= room) ?? texts.at(-1) ?? '',
      /** @type {PanelBox['lines']} */
      lines: (text, room, most) => wrapped(text, room, most, wide),
      /** @type {PanelBox['pale']} */
      pale: (name, share) => blend(rgb(colour(name)), rgb(paint.background), share),
    };
  };

  // The lines have their least height, and share the rest of the pane up to their most.
  const layout = (/** @type {typeof size} */ pane) => {
    size = pane;
    const base = boxOf(pane),
      whole = /** @type {PanelBox} */ (/** @type {unknown} */ (base)), // without a place yet
      lines = meta.lines.flatMap(line => (base.narrow ? line.map(panel => [panel]) : [line]));
    const rows = lines.map(line => {
      const width = (pane.width - (line.length - 1) * GAP * pane.em) / line.length,
        needs = line.map(panel => PANELS[panel.kind].heights(panel, { ...whole, width }));
      return {
        ...{ line, width },
        least: Math.max(...needs.map(([least]) => least)),
        most: Math.max(...needs.map(([, most]) => most)),
      };
    });
    const gaps = (rows.length - 1) * UNDER * pane.em,
      sum = (/** @type {'least' | 'most'} */ key) => rows.reduce((all, row) => all + row[key], 0),
      spare = Math.max(0, pane.height - gaps - sum('least')),
      share = Math.min(1, spare / Math.max(1, sum('most') - sum('least')));
    let y = 0;
    boxes = rows.flatMap(({ line, width, least, most }) => {
      const h = least + share * (most - least),
        top = y;
      y += h + UNDER * pane.em;
      return line.map((panel, n) => ({
        panel,
        box: { ...base, x: n * (width + GAP * pane.em), y: top, width, height: h },
      }));
    });
    return Math.ceil(y - UNDER * pane.em);
  };
  const marks = (/** @type {{step: number, paint: Paint}} */ { step, paint }) => {
    const made = new Marks(smallText(size.em));
    boxes.forEach(({ panel, box }, n) =>
      PANELS[panel.kind].draw(panel, { ...box, paint, step, made, id: `${n}` }),
    );
    goes = made.list.filter(({ go }) => go !== null && go !== undefined);
    return made.list;
  };
  const { colour } = boxOf({ width: 0, em: 13 }),
    legend = meta.legend.map(([name, text]) => [name && `background:${colour(name)}`, text]);
  return canvasView(host, context, {
    ...{ title, layout, marks, legend },
    label: (/** @type {number} */ step) => {
      const { title, sentence } = meta.frames[step] ?? {};
      return [title, sentence].filter(Boolean).join('. ');
    },
    click: (/** @type {Thing} */ thing) => {
      const mark = goes.find(({ datum }) => JSON.stringify(datum) === JSON.stringify(thing));
      if (!mark) return false;
      clock.set(mark.go, 'user');
    },
  });
}
