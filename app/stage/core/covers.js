// What an open question covers: its words become "?", and so do its things in a picture. A thing
// that Show me points at has a frame.

/**
 * Whether a thing of a view is the wanted one. A wanted pair is a range: its first and last value.
 * @param {Record<string, any>} thing
 * @param {Record<string, any>} wanted
 */
export function matches(thing, wanted) {
  return Object.entries(wanted).every(([key, due]) =>
    Array.isArray(due) ? thing[key] >= due[0] && thing[key] <= due[1] : thing[key] === due,
  );
}

const MORE = 4; // pixels on each side of a thing: its frame and its shadow give it away, too

const LETTER = /[\p{L}\p{N}_]/u;
const START = '(?<![\\p{L}\\p{N}_]|\\d[.,])', // a number is whole: 13 is no part of 1.13 and 13,000
  END = '(?![\\p{L}\\p{N}_]|[.,]\\d)';

/**
 * text -> the text with "?" for each of the words. Words of three letters match in any case.
 * @param {readonly string[]} words
 * @returns {(text: string) => string}
 */
export function hiding(words) {
  const whole = word =>
    (LETTER.test(word[0]) ? START : '') +
    word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(/\s+/g, '\\s+') +
    (LETTER.test(word.at(-1)) ? END : '');
  const made = (some, flags) => {
    const longestFirst = some.toSorted((a, b) => b.length - a.length);
    return some.length ? [new RegExp(longestFirst.map(whole).join('|'), flags)] : [];
  };
  const said = words.filter(Boolean),
    found = [
      ...made(
        said.filter(word => word.length > 2),
        'giu',
      ),
      ...made(
        said.filter(word => word.length <= 2),
        'gu',
      ),
    ];
  return text => found.reduce((kept, one) => kept.replace(one, '?'), text);
}

/**
 * The rectangles that are in no larger one.
 * @param {{x: number, y: number, w: number, h: number}[]} rects
 */
export function outer(rects) {
  const holds = (a, b) =>
    a.w * a.h > b.w * b.h && a.x <= b.x && a.y <= b.y && a.x + a.w >= b.x + b.w && a.y + a.h >= b.y + b.h;
  return rects.filter(rect => !rects.some(other => holds(other, rect)));
}

/**
 * Rectangles in groups: those of one group touch.
 * @param {{x: number, y: number, w: number, h: number}[]} rects
 */
export function touching(rects) {
  const near = (a, b) => a.x <= b.x + b.w + 2 && b.x <= a.x + a.w + 2 && a.y <= b.y + b.h + 2 && b.y <= a.y + a.h + 2;
  return rects.reduce((groups, rect) => {
    const mine = groups.filter(group => group.some(one => near(one, rect)));
    return [...groups.filter(group => !mine.includes(group)), [...mine.flat(), rect]];
  }, []);
}

/**
 * The smallest rectangle around some.
 * @param {{x: number, y: number, w: number, h: number}[]} rects
 */
export function around(rects) {
  if (!rects.length) return null;
  const x = Math.min(...rects.map(r => r.x)),
    y = Math.min(...rects.map(r => r.y));
  return {
    x,
    y,
    w: Math.max(...rects.map(r => r.x + r.w)) - x,
    h: Math.max(...rects.map(r => r.y + r.h)) - y,
  };
}

/**
 * Covers for one canvas. draw(): after the view has drawn; letters(g): its texts go through the
 * question; covered(thing): nothing is told of it.
 * @param {import('./clock.js').Clock} clock
 * @param {(wanted: Record<string, any>[]) => {x: number, y: number, w: number, h: number}[]} placesOf
 */
export function canvasCovers(clock, placesOf) {
  const kept = new Map(); // 'covers' or 'points' -> {key, rects}
  const placed = (name, wanted, { width, height, step }) => {
    const key = JSON.stringify([wanted, width, height, step]);
    if (kept.get(name)?.key !== key) kept.set(name, { key, rects: placesOf(wanted) });
    return kept.get(name).rects;
  };
  return {
    // A covered clause at the end of a text is left out.
    letters(g) {
      g.fillText = (text, ...where) =>
        Object.getPrototypeOf(g).fillText.call(g, clock.hide(String(text)).replace(/, \?$/, ''), ...where);
      return g;
    },
    covered: thing => clock.covers.some(one => matches(thing, one)),
    draw(g, size) {
      const { panel, text, primary, border, font } = size.paint;
      g.save();
      const covers = placed('covers', clock.covers, size);
      g.fillStyle = panel;
      for (const { x, y, w, h } of covers) {
        const more = Math.min(MORE, w / 4, h / 4);
        g.fillRect(x - more, y - more, w + 2 * more, h + 2 * more);
      }
      for (const { x, y, w, h } of covers) {
        g.strokeStyle = border;
        g.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
        const letter = Math.min(size.em * 1.3, h, 1.6 * w);
        if (letter < 6) continue;
        g.font = `600 ${letter}px ${font}`;
        [g.fillStyle, g.textAlign, g.textBaseline] = [text, 'center', 'middle'];
        g.fillText('?', x + w / 2, y + h / 2 + letter / 20);
      }
      [g.strokeStyle, g.lineWidth] = [primary, 3];
      for (const group of touching(placed('points', clock.point ? [clock.point] : [], size))) {
        const box = around(group),
          [left, top] = [Math.max(1.5, box.x - 2), Math.max(1.5, box.y - 2)],
          right = Math.min(size.width - 1.5, box.x + box.w + 2),
          bottom = Math.min(size.height - 1.5, box.y + box.h + 2);
        g.strokeRect(left, top, right - left, bottom - top); // whole, also at the edge of the picture
      }
      g.restore();
    },
  };
}
