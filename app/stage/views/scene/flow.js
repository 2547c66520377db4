// Places with slots, what is in them, and its ways: explainers/story/scene.py Flow. The places go to
// the right, and each second row runs back, so neighbours are neighbours.
const IN_A_ROW = 4,
  PLACE = 16, // em: the most width of a place
  TITLE = 1.6, // em
  HEAD = 2.9, // em: the name and the note of a place
  SLOT = 1.75, // em
  FOOT = 1.2, // em: the line under its slots
  BETWEEN = 0.9, // em: under a row of places
  LANE = 0.45; // em: between two ways back

/** @param {number} at @param {number} columns */
const spotOf = (at, columns) => {
  const row = Math.floor(at / columns),
    column = at % columns;
  return [row % 2 ? columns - 1 - column : column, row];
};

/** @param {story.Flow} panel @param {PanelBox} box */
function placed({ places, items, slots }, { em, width, narrow }) {
  const columns =
      places.length <= IN_A_ROW && !narrow
        ? places.length
        : Math.min(narrow ? 2 : Infinity, Math.ceil(places.length / 2)),
    rows = Math.ceil(places.length / columns),
    gap = (narrow ? 2 : 2.6) * em,
    foot = !narrow && places.some(place => place.foot.length),
    high = (HEAD + SLOT * slots.length + (foot ? FOOT : 0) + 0.2) * em,
    // The ways back in an even row run under it.
    backs = items.filter(({ way }) => way.length && way[1][0] < way[0][0] && spotOf(way[0][0], columns)[1] % 2 === 0),
    under = backs.length ? (0.7 + LANE * backs.length) * em : 0;
  return {
    ...{ columns, rows, gap, foot, high, backs, under },
    wide: Math.min(PLACE * em, (width - gap) / columns - gap),
    height: TITLE * em + rows * high + (rows - 1) * BETWEEN * em + under,
  };
}

/** @param {story.Flow} panel @param {PanelBox} box */
export function heights(panel, box) {
  const { height } = placed(panel, box);
  return [height, height];
}

/** @param {story.Flow} panel @param {PanelBox} box */
export function draw(panel, box) {
  const { em, small, made, step, paint, fit, colour, pale, ink, id } = box,
    { title, places, items, slots } = panel,
    { columns, gap, foot, high, backs, wide } = placed(panel, box),
    left = box.x + (box.width - columns * (wide + gap) + gap) / 2,
    top = box.y + TITLE * em,
    cornerOf = (/** @type {number} */ at) => {
      const [column, row] = spotOf(at, columns);
      return [left + column * (wide + gap), top + row * (high + BETWEEN * em)];
    },
    slotOf = (/** @type {number[]} */ [at, slot]) => {
      const [x, y] = cornerOf(at);
      return [x + 0.5 * em, y + (HEAD + slot * SLOT) * em, wide - em, 1.5 * em];
    },
    key = (/** @type {story.Item} */ { datum }) => `${id} ${Object.entries(datum).join(' ')}`,
    here = items.filter(item => item.spots[step]?.length),
    together = (/** @type {number[]} */ [at, slot]) =>
      here.filter(({ spots }) => spots[step][0] === at && spots[step][1] === slot);
  made.text(`${id} title`, [box.x, box.y + em, box.width], fit(title, box.width));

  places.forEach((place, n) => {
    const [x, y] = cornerOf(n),
      now = place.now.includes(step),
      name = `${id} place ${n}`,
      text = fit(place.value[step] ?? [], wide - em - box.wide(`${place.name} `, true), now);
    made.rect(name, [x, y, wide, high], {
      ...{ stroke: now ? paint.text : paint.border, width: now ? 2 : 1 },
    });
    made.text(`${name} name`, [x + 0.5 * em, y + 1.2 * em], place.name, { bold: true });
    made.text(`${name} value`, [x + wide - 0.5 * em, y + 1.2 * em], text, {
      ...{ align: 'right', bold: now },
    });
    made.text(`${name} note`, [x + 0.5 * em, y + 2.4 * em, wide - em], fit(place.note, wide - em));
    if (foot) made.text(`${name} foot`, [x + 0.5 * em, y + high - 0.5 * em, wide - em], place.foot[step] ?? '');
    made.add(`${name} area`, 'area', [x, y, wide, high], { datum: place.datum, tip: place.tip });
    slots.forEach((slot, k) => {
      const [sx, sy, sw, sh] = slotOf([n, k]);
      if (together([n, k]).length) return;
      made.rect(`${name} slot ${k}`, [sx, sy, sw, sh], { stroke: paint.border, dash: [3, 3] });
      made.text(`${name} slot text ${k}`, [sx + sw / 2, sy + 1.1 * em, sw - 4], slot, {
        ...{ align: 'center', alpha: 0.7 },
      });
    });
  });

  // From slot to slot: to the next place, to the next row, or back to an earlier place.
  const wayOf = (/** @type {story.Item} */ item) => {
    const [from, to] = item.way,
      [a, b] = [slotOf(from), slotOf(to)],
      [[column, row], [toColumn, toRow]] = [spotOf(from[0], columns), spotOf(to[0], columns)],
      side = row % 2 ? -1 : 1, // to the left in each second row
      out = side > 0 ? a[0] + a[2] + 0.5 * em : a[0] - 0.5 * em,
      [ya, yb] = [a[1] + 0.75 * em, b[1] + 0.75 * em],
      start = [out - side * 0.4 * em, ya],
      turn = out + side * 0.5 * gap;
    if (row === toRow && toColumn - column === side) {
      const end = side > 0 ? b[0] - 1 : b[0] + b[2] + 1;
      return [start, [turn, ya], [turn, yb], [end, yb]];
    }
    if (toRow === row + 1) {
      const end = side > 0 ? b[0] + b[2] + 1 : b[0] - 1;
      return [start, [turn, ya], [turn, yb], [end, yb]];
    }
    const margin = b[0] - 0.5 * em - 0.5 * gap,
      end = [b[0] - 1, yb];
    if (side < 0) return [start, [margin, ya], [margin, yb], end];
    const lane = cornerOf(from[0])[1] + high + (0.5 + LANE * backs.indexOf(item)) * em;
    return [start, [turn, ya], [turn, lane], [margin, lane], [margin, yb], end];
  };
  for (const item of items)
    if (item.moves.includes(step))
      made.add(`${key(item)} way`, 'way', [], {
        ...{ points: wayOf(item), width: 3, head: 0.42 * em },
        stroke: here.includes(item) ? colour(item.colour) : paint.border,
        ...{ grown: 1, enter: { grown: 0 }, span: [0, 0.6] },
      });
  for (const item of here) {
    const [x, y, w, h] = slotOf(item.spots[step]),
      same = together(item.spots[step]),
      each = w / same.length,
      rect = [x + same.indexOf(item) * each, y, each - (same.length > 1 ? 1 : 0), h],
      dim = item.pale.includes(step),
      name = key(item),
      enter = item.way.length ? { enter: { rect: slotOf(item.way[0]) } } : {};
    made.rect(name, rect, { fill: pale(item.colour, dim ? 0.4 : 1), ease: 'both', ...enter });
    if (dim) made.rect(`${name} edge`, rect, { stroke: colour(item.colour), width: 1.5, dash: [4, 3] });
    made.text(
      `${name} text`,
      [rect[0] + each / 2, y + 0.5 * h + 0.36 * small, each - 4],
      fit(item.texts, each - 4, true),
      { align: 'center', bold: !dim, fill: ink(item.colour, dim ? 0.4 : 1) },
    );
    made.add(`${name} area`, 'area', rect, { datum: item.datum, tip: item.tip });
  }
}
