// Two texts of code side by side, with the lines that differ: explainers/story/scene.py Listing.
const LINE = 1.4, // of small text
  WIDE = 0.62, // of the size: a letter of the code's font
  HEAD = 1.5, // of small text: the names
  NEAR = 2; // lines around each change that are always there
const SIGNS = ['\u2212', '+'],
  LIT = ['left', 'right'];

/** @typedef {{row: story.Pair, sides: number[], parts: string[][], count: number}} Shown */

/**
 * The places of both sides.
 * @param {PanelBox} box
 */
const columns = ({ small, width, narrow }) => {
  const gap = narrow ? 0 : small,
    half = narrow ? width : (width - gap) / 2,
    edge = 2.6 * small; // for the numbers
  return { gap, half, edge, letters: Math.max(8, Math.floor((half - edge) / (WIDE * small))) };
};

/**
 * A line in parts that fit. The further ones have a larger indent.
 * @param {string} text
 * @param {number} letters
 */
function cut(text, letters) {
  const indent = ' '.repeat(text.length - text.trimStart().length + 2),
    parts = /** @type {string[]} */ ([]);
  let rest = text;
  while (rest.length > letters) {
    const space = rest.lastIndexOf(' ', letters),
      end = space > indent.length ? space : letters;
    parts.push(rest.slice(0, end));
    rest = indent + rest.slice(end).trimStart();
  }
  return [...parts, rest];
}

/**
 * The rows up to `reach` lines from a change. On a phone, both versions of a changed row follow each other.
 * @param {story.Listing} panel
 * @param {PanelBox} box
 * @param {number} reach
 * @returns {Shown[]}
 */
function shown({ rows }, box, reach) {
  const { letters } = columns(box),
    changes = rows.flatMap(({ changed }, n) => (changed ? [n] : []));
  /** @type {(row: story.Pair, sides: number[]) => Shown} */
  const made = (row, sides) => {
    const parts = sides.map(side => cut(row.texts[side] ?? '', letters));
    return { row, sides, parts, count: Math.max(...parts.map(part => part.length)) };
  };
  return rows
    .filter((_, n) => changes.some(change => Math.abs(n - change) <= reach))
    .flatMap(row => {
      if (!box.narrow) return [made(row, [0, 1])];
      const sides = row.changed ? [0, 1].filter(side => row.texts[side] !== null) : [0];
      return sides.map(side => made(row, [side]));
    });
}

/** @type {(lines: Shown[], small: number) => number} */
const heightOf = (lines, small) => (HEAD + LINE * lines.reduce((sum, { count }) => sum + count, 0)) * small;

/** @param {story.Listing} panel @param {PanelBox} box */
export function heights(panel, box) {
  return [NEAR, box.narrow ? NEAR : panel.rows.length].map(reach => heightOf(shown(panel, box, reach), box.small));
}

/** @param {story.Listing} panel @param {PanelBox} box */
export function draw(panel, box) {
  const { small, made, step, x, narrow, id, pale, width } = box,
    { gap, half, edge } = columns(box),
    lit = panel.lit[step] ?? '';
  let reach = narrow ? NEAR : panel.rows.length;
  while (reach > NEAR && heightOf(shown(panel, box, reach), small) > box.height) reach--;
  (narrow ? [panel.names.join(', ')] : panel.names).forEach((name, side) =>
    made.text(`${id} name ${side}`, [x + side * (half + gap), box.y + small, half], name, { bold: true }),
  );
  made.rect(`${id} rule`, [x, box.y + (HEAD - 0.2) * small, width, 0.5], { fill: box.paint.border });
  let top = box.y + HEAD * small;
  shown(panel, box, reach).forEach(({ row, sides, parts, count }, n) => {
    sides.forEach((side, place) => {
      const left = x + place * (half + gap),
        text = row.texts[side],
        number = row.numbers[side],
        high = count * LINE * small,
        bold = row.changed && (lit === 'both' || lit === LIT[side]);
      if (bold)
        made.rect(`${id} lit ${n} ${side}`, [left, top, half, high], {
          fill: pale(side ? 'primary' : 'wrong', text === null ? 0.1 : 0.22),
        });
      if (text === null || number === null) return;
      made.text(`${id} number ${n} ${side}`, [left + 1.7 * small, top + small], `${number}`, {
        ...{ mono: true, align: 'right', alpha: 0.75 },
      });
      made.text(`${id} sign ${n} ${side}`, [left + 1.85 * small, top + small], row.changed ? SIGNS[side] : '', {
        ...{ mono: true, bold: true },
      });
      parts[place].forEach((part, k) =>
        made.text(`${id} text ${n} ${side} ${k}`, [left + edge, top + (k * LINE + 1) * small], part, {
          ...{ mono: true, bold },
        }),
      );
      made.add(`${id} area ${n} ${side}`, 'area', [left, top, half, high], {
        datum: { side: panel.names[side], line: number },
        tip: `line ${number}: ${text.trim()}`,
      });
    });
    top += count * LINE * small;
  });
}
