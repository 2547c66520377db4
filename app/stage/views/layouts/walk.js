// Where the parts of the walk through a block table stand: the table, the pool, one page enlarged,
// the bars of scores and weights, and O.
import { placePages, placeTable } from './pages.js';

// shape: entries of the table, pages of the pool, length in tokens. Returns {left, cells, place,
// box, low, height}; low: little room, as on a phone, where O is drawn in the place of the page and
// the bars have no title.
export function walkLayout({ width, height, em }, { entries, pages, length }) {
  const left = Math.round(Math.min(7 * em, width * 0.17)),
    cells = placeTable(entries, { left, top: 1, width: width - left, em }),
    low = height < 30 * em;
  const poolTop = cells.bottom + 1.5 * em,
    above = 1.7 * em,
    title = low ? 0.6 * em : 2.4 * em,
    under = low ? 0 : 2.6 * em;
  const fixed = poolTop + above + 1.5 * em + title + 1.5 * em + under,
    rest = Math.max(0, height - fixed),
    least = low ? 2.2 * em : 3.4 * em;
  const place = placePages(pages, {
    left,
    top: poolTop,
    width: width - left,
    height: Math.max(2 * em, low ? rest - 2 * least : rest * 0.4),
    em,
  });
  const free = Math.max(0, rest - (place.bottom - poolTop)),
    high = Math.max(least, Math.min(15 * em, free * 0.52)),
    bar = Math.max(least, Math.min(13 * em, free - high));
  const top = place.bottom + above,
    bars = top + high + 1.5 * em + title,
    oHigh = 1.2 * em,
    end = bars + bar + 1.5 * em;
  const box = {
    gap: 2 * em,
    top,
    high,
    bars,
    bar,
    oTop: low ? top + (high - oHigh) / 2 : end + 0.4 * em,
    oHigh,
    half: (width - 2 * em) / 2,
    each: (width - left) / length,
  };
  return { left, cells, place, box, low, height: end + under };
}
