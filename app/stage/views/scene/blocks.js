// A matrix in blocks, each of a kind: explainers/story/scene.py Blocks.
const HEAD = 2.8, // em: the title and the numbers of the columns
  LEFT = 2.4, // em: the numbers of the rows
  LEAST = 13, // em: the least height of the matrix
  WORD = 16; // elements in a number of the column

/** @param {story.Blocks} panel @param {PanelBox} box */
export function heights({ size: [rows, columns] }, { em, width }) {
  const most = ((width - LEFT * em) * rows) / columns;
  return [HEAD * em + Math.min(LEAST * em, most), HEAD * em + Math.max(most, 1)];
}

// The colours of the elements, or of the blocks if the elements are left out.
/** @param {story.Blocks} panel @param {PanelBox} box @param {number[]} counts */
function imageOf(panel, { image, rgb, columns: data }, counts) {
  const { size, block, colours, hidden } = panel,
    [kinds, seen] = [data[panel.kinds], data[panel.elements]],
    [height, width] = seen?.length ? size : counts,
    words = Math.ceil(size[1] / WORD),
    ink = [...colours, hidden].map(name => (name ? rgb(name) : [])),
    tone = (/** @type {number} */ at) => {
      const [y, x] = [Math.floor(at / width), at % width];
      if (!seen?.length) return kinds[at] || undefined;
      const kind = kinds[Math.floor(y / block[0]) * counts[1] + Math.floor(x / block[1])],
        sees = (seen[y * words + Math.floor(x / WORD)] >> (x % WORD)) & 1;
      return kind ? (sees ? kind : colours.length) : undefined;
    };
  return image(panel, 'blocks', width, height, tone, kind => ink[kind]);
}

/** @param {story.Blocks} panel @param {PanelBox} box */
export function draw(panel, box) {
  const { em, small, made, step, paint, wide, fit, x, y, width, height, id } = box,
    { title, size, block, row, dashed, order, now } = panel,
    unit = Math.min((width - LEFT * em) / size[1], (height - HEAD * em) / size[0]),
    counts = size.map((elements, axis) => Math.ceil(elements / block[axis])),
    [left, top, w, h] = [x + LEFT * em, y + HEAD * em, size[1] * unit, size[0] * unit],
    [high, broad] = block.map(elements => elements * unit),
    at = (/** @type {number} */ r, /** @type {number} */ c, tall = 1, wider = 1) => [
      ...[left + c * broad, top + r * high],
      ...[Math.min(w - c * broad, wider * broad), Math.min(h - r * high, tall * high)],
    ],
    middle = (/** @type {number} */ from, /** @type {number} */ whole, /** @type {number} */ end) =>
      Math.min(from + whole / 2, end - 0.3 * small);
  made.text(`${id} title`, [x, y + em, width], fit(title, width, true), { bold: true });
  made.add(`${id} image`, 'image', [left, top, w, h], { image: imageOf(panel, box, counts) });
  if (Math.min(high, broad) > 2)
    made.add(`${id} lines`, 'grid', [left, top, counts[1] * broad, counts[0] * high], {
      ...{ columns: counts[1], rows: counts[0], stroke: paint.border },
      width: Math.min(high, broad) > 10 ? 1 : 0.4,
    });
  made.rect(`${id} edge`, [left, top, w, h], { stroke: paint.border });
  /** @type {(whole: number, least: number) => number} */
  const skip = (whole, least) => Math.max(1, Math.ceil(least / whole));
  for (let c = 0; c < counts[1]; c += skip(broad, 2 * em))
    made.text(`${id} column ${c}`, [middle(left + c * broad, broad, left + w), top - 0.4 * em], `${c}`, {
      align: 'center',
    });
  for (let r = 0; r < counts[0]; r++) {
    const shown = r % skip(high, 1.3 * em) === 0 && Math.abs(r - row) * high > 1.2 * em;
    if (r === row || shown)
      made.text(`${id} row ${r}`, [left - 0.5 * em, Math.min(top + (r + 0.5) * high, top + h) + 0.35 * small], `${r}`, {
        align: 'right',
        bold: r === row,
      });
  }
  made.rect(`${id} walked`, at(row, 0, 1, counts[1]), { stroke: paint.text, width: 1.5 });
  if (high > 12)
    made.add(`${id} dashed`, 'line', [left, top + (dashed + 0.5) * unit, w, 0], {
      ...{ stroke: paint.text, width: 1, dash: [3, 3] },
    });
  for (const [column, ...texts] of order) {
    const text = texts.find(one => wide(one) + 0.6 * em < broad - 4),
      [bx, by, bw, bh] = at(row, column);
    if (!text || high < 1.5 * em) continue;
    const [mx, my, half] = [bx + bw / 2, by + bh / 2, wide(text) / 2 + 0.3 * em];
    made.rect(`${id} badge ${column}`, [mx - half, my - 0.65 * em, 2 * half, 1.3 * em], {
      ...{ fill: paint.background, hint: true },
    });
    made.text(`${id} order ${column}`, [mx, my + 0.36 * small], text, {
      ...{ align: 'center', hint: true },
    });
  }
  if (now[step] >= 0) made.rect(`${id} now`, at(row, now[step]), { stroke: paint.text, width: 3.5 });
  areas(panel, box, { left, top, unit, counts, high });
}

// The numbers of the rows, and the blocks: those of a drawing, if it can be changed.
/**
 * @param {story.Blocks} panel
 * @param {PanelBox} box
 * @param {{left: number, top: number, unit: number, counts: number[], high: number}} laid
 */
function areas(panel, { made, em, id, number, columns: data }, { left, top, unit, counts, high }) {
  const { part, row, drawing, choice, gos, size, block, drawn_choice } = panel,
    whole = drawing ? [drawing.block, drawing.block] : block,
    cells = whole.map((elements, axis) => Math.ceil(size[axis] / elements));
  made.add(`${id} rows`, 'area', [left - LEFT * em, top, LEFT * em, counts[0] * high], {
    datum: { part: 'row' },
    press: (/** @type {any} */ { row: to }) => (to === row ? null : [choice, `${to}`]),
    grid: {
      ...{ columns: 1, count: counts[0] },
      thing: (/** @type {number} */ r) => ({ part: 'row', row: r }),
      tip: (/** @type {number} */ r) => panel.row_tips[r],
    },
  });
  /** @type {(cell: number) => Record<string, any>} */
  const placeOf = cell => {
      const [r, c] = [Math.floor(cell / cells[1]), cell % cells[1]],
        place = {
          ...{ part, row: Math.floor((r * whole[0]) / block[0]) },
          col: Math.floor((c * whole[1]) / block[1]),
        };
      return drawing ? { ...place, cell_row: r, cell_col: c } : place;
    },
    isDrawn = (/** @type {Thing} */ { cell_row, cell_col }) => !!drawing?.drawn[cell_row]?.includes(cell_col);
  made.add(`${id} blocks`, 'area', [left, top, cells[1] * whole[1] * unit, cells[0] * whole[0] * unit], {
    datum: { part },
    press(/** @type {Record<string, any>} */ thing) {
      if (!drawing) return thing.row === row ? gos[thing.col] : [choice, `${thing.row}`];
      const rows = Array.from({ length: cells[0] }, (_, r) => [...(drawing.drawn[r] ?? [])]),
        { cell_row: r, cell_col: c } = thing;
      rows[r] = isDrawn(thing) ? rows[r].filter(one => one !== c) : [...rows[r], c];
      return [drawn_choice, rows.map(one => one.sort((a, b) => a - b).join(',')).join(';')];
    },
    grid: {
      ...{ columns: cells[1], count: cells[0] * cells[1] },
      thing: placeOf,
      tip(/** @type {number} */ cell) {
        const place = placeOf(cell),
          at = place.row * counts[1] + place.col,
          said = panel.tips[data[panel.kinds][at]].replace(/\{(\w+)\}/g, (_, name) =>
            number(place[name] ?? data[name][at]),
          );
        return drawing
          ? `${said}\npress to ${isDrawn(place) ? 'hide' : 'show'} block ${place.cell_col} of row ${place.cell_row} of the mask`
          : said;
      },
    },
  });
}
