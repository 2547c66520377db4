// A picture that is data: lines of panels, from explainers/story/scene.py. Each kind of panel places
// its things in a box: heights({...}) -> [least, most] pixels, draw(panel, box) adds marks. The
// canvas finds a thing by the datum of its mark, so a panel has no hit test of its own.
import { canvasView } from '../core/canvas.js';
import { Marks } from '../core/kinds.js';
import { blend, COLOURS, rgb, smallText, theme, widest } from '../core/paint.js';
import { wrapped } from '../core/wrapped.js';
import * as bars from './scene/bars.js';
import * as table from './scene/table.js';

const PANELS = { bars, table };
const NARROW = 40, // em: a pane of a phone
  GAP = 2, // em between panels of a line
  UNDER = 0.4; // em between lines

/**
 * @param {any} host
 * @param {any} view meta: a Scene of explainers/story/scene.py
 * @param {any} context
 */
export default function (host, { meta, title }, context) {
  const { clock } = context;
  let boxes = [],
    goes = [], // marks that lead to a step
    size;

  // What a panel needs to place its things: a box with the theme, the size of text and its measures.
  const boxOf = ({ width, em }) => {
    const paint = theme(host),
      small = smallText(em),
      wide = (text, bold = false, px = small) =>
        widest([text], `${bold ? '600 ' : ''}${px}px ${paint.font}`);
    return {
      ...{ em, small, width, paint, narrow: width < NARROW * em, wide },
      /** The first text that fits, or the last one. */
      fit: (texts, room, bold = false) =>
        texts.find(text => wide(text, bold) <= room) ?? texts.at(-1) ?? '',
      lines: (text, room, most) => wrapped(text, room, most, wide),
      colour: name => paint[name] ?? COLOURS[name] ?? name,
      pale: (name, share) =>
        blend(rgb(paint[name] ?? COLOURS[name] ?? name), rgb(paint.background), share),
    };
  };

  // The lines have their least height, and share the rest of the pane up to their most.
  const layout = pane => {
    size = pane;
    const base = boxOf(pane),
      lines = meta.lines.flatMap(line => (base.narrow ? line.map(panel => [panel]) : [line]));
    const rows = lines.map(line => {
      const width = (pane.width - (line.length - 1) * GAP * pane.em) / line.length,
        needs = line.map(panel => PANELS[panel.kind].heights(panel, { ...base, width }));
      return {
        ...{ line, width },
        least: Math.max(...needs.map(([least]) => least)),
        most: Math.max(...needs.map(([, most]) => most)),
      };
    });
    const gaps = (rows.length - 1) * UNDER * pane.em,
      sum = key => rows.reduce((all, row) => all + row[key], 0),
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
  const marks = ({ step, paint }) => {
    const made = new Marks(smallText(size.em));
    boxes.forEach(({ panel, box }, n) =>
      PANELS[panel.kind].draw(panel, { ...box, paint, step, made, id: `${n}` }),
    );
    goes = made.list.filter(({ go }) => go !== null && go !== undefined);
    return made.list;
  };
  const legend = meta.legend.map(([colour, text]) => [
    colour && `background:${boxOf({ width: 0, em: 13 }).colour(colour)}`,
    text,
  ]);
  return canvasView(host, context, {
    ...{ title, layout, marks, legend },
    label: step => {
      const { title, sentence } = meta.frames[step] ?? {};
      return [title, sentence].filter(Boolean).join('. ');
    },
    click: thing => {
      const mark = goes.find(({ datum }) => JSON.stringify(datum) === JSON.stringify(thing));
      if (!mark) return false;
      clock.set(mark.go, 'user');
    },
  });
}
