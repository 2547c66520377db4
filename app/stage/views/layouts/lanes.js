// Where the score tile and the registers of its chosen row are: side by side, or one above the other
// in a narrow pane.

const HEAD = 2.9, // of the tile and of the registers, in sizes of text
  FOOT = 6.4, // under the registers
  ROUND = 3.1; // more for each round of shuffles

// rows, cols: of the tile; lanes: of the row; slots: the most scores of a lane; rounds: of shuffles.
// Returns {grid, list, height}: grid {x, y, unit, high, w, h}, list {x, y, w, name, slot, high, foot}.
export function lanesLayout({ width, height, em }, { rows, cols, lanes, slots, rounds = 0 }) {
  const end = FOOT + ROUND * rounds,
    names = 7.6 * em, // of warps and rows, left of the tile
    beside = width > 44 * em,
    room = beside ? width * 0.65 : width,
    unit = Math.min((room - names - em) / cols, 3 * em);
  const below = beside ? 0.5 : HEAD + 0.7 + end + 1.6 * lanes, // in sizes of text
    tall = height - (HEAD + below) * em,
    high = Math.max(1.15 * em, Math.min(1.4 * unit, tall / rows, 2.2 * em)),
    grid = { x: names, y: HEAD * em, unit, high, w: unit * cols, h: high * rows };
  const x = beside ? grid.x + grid.w + 1.5 * em : 1,
    y = beside ? grid.y : grid.y + grid.h + (HEAD + 0.7) * em,
    w = width - x - 1,
    name = 4 * em,
    slot = Math.min((w - name) / slots, 6.2 * em),
    each = Math.max(1.6 * em, Math.min(4 * em, (height - y - end * em) / lanes)),
    foot = y + each * lanes + 0.8 * em;
  return {
    grid,
    list: { x, y, w, name, slot, high: each, foot },
    height: Math.max(grid.y + grid.h + 0.5 * em, foot + (end - 0.8) * em),
  };
}
