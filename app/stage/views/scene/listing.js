// Two texts of code side by side, with the lines that differ: explainers/story/scene.py Listing.
const LINE = 1.4, // of small text
  WIDE = 0.62, // of the size: a letter of the code's font
  HEAD = 1.5; // of small text: the names

/**
 * The size of the code, and its lines: on a phone one text with both versions of each changed line.
 * @param {story.Listing} panel
 * @param {PanelBox} box
 */
function placed({ rows }, { small, width, narrow }) {
  const gap = small,
    half = narrow ? width : (width - gap) / 2,
    edge = 2.6 * small, // the numbers
    letters = Math.max(8, Math.floor((half - edge) / (WIDE * small)));
  /** @type {(text: string | null) => string[]} */
  const cut = text => {
    if (text === null) return [''];
    const indent = ' '.repeat(text.length - text.trimStart().length + 2),
      parts = [];
    let rest = text;
    while (rest.length > letters) {
      const space = rest.lastIndexOf(' ', letters),
        end = space > indent.length ? space : letters;
      parts.push(rest.slice(0, end));
      rest = indent + rest.slice(end).trimStart();
    }
    return [...parts, rest];
  };
  /** @type {(row: story.Pair, side: number) => any} */
  const one = (row, side) => ({ row, sides: [side], parts: [cut(row.texts[side])] });
  const lines = narrow
    ? rows.flatMap(row =>
        row.changed ? [0, 1].filter(n => row.texts[n] !== null).map(n => one(row, n)) : [one(row, 0)],
      )
    : rows.map(row => ({ row, sides: [0, 1], parts: row.texts.map(cut) }));
  return {
    gap,
    half,
    edge,
    lines: lines.map(line => ({ ...line, count: Math.max(...line.parts.map(p => p.length)) })),
  };
}

/** @param {story.Listing} panel @param {PanelBox} box */
export function heights(panel, box) {
  const count = placed(panel, box).lines.reduce((sum, line) => sum + line.count, 0),
    high = (HEAD + LINE * count) * box.small;
  return [high, high];
}

/** @param {story.Listing} panel @param {PanelBox} box */
export function draw(panel, box) {
  const { small, made, step, x, narrow, id, pale, width } = box,
    { gap, half, edge, lines } = placed(panel, box),
    lit = panel.lit[step] ?? '';
  (narrow ? [panel.names.join(', ')] : panel.names).forEach((name, side) =>
    made.text(`${id} name ${side}`, [x + side * (half + gap), box.y + small, half], name, { bold: true }),
  );
  let top = box.y + HEAD * small;
  lines.forEach(({ row, sides, parts, count }, n) => {
    sides.forEach((/** @type {number} */ side, /** @type {number} */ place) => {
      const left = x + place * (half + gap),
        text = row.texts[side],
        shown = row.changed && (lit === 'both' || lit === ['left', 'right'][side]);
      if (shown)
        made.rect(`${id} lit ${n} ${side}`, [left, top, half, count * LINE * small], {
          fill: pale(side ? 'primary' : 'wrong', text === null ? 0.1 : 0.22),
        });
      if (text === null) return;
      const sign = row.changed ? ['\u2212', '+'][side] : '';
      made.text(`${id} number ${n} ${side}`, [left + 1.7 * small, top + small], `${row.numbers[side]}`, {
        ...{ mono: true, align: 'right', alpha: 0.65 },
      });
      made.text(`${id} sign ${n} ${side}`, [left + 1.85 * small, top + small], sign, { mono: true, bold: true });
      parts[place].forEach((/** @type {string} */ part, /** @type {number} */ k) =>
        made.text(`${id} text ${n} ${side} ${k}`, [left + edge, top + (k * LINE + 1) * small], part, {
          ...{ mono: true, bold: shown },
        }),
      );
      const datum = { side: panel.names[side], line: row.numbers[side] };
      made.add(`${id} area ${n} ${side}`, 'area', [left, top, half, count * LINE * small], {
        ...{ datum, tip: `line ${row.numbers[side]}: ${text.trim()}` },
      });
    });
    top += count * LINE * small;
  });
  made.rect(`${id} rule`, [x, box.y + (HEAD - 0.2) * small, width, 0.5], { fill: box.paint.border });
}
