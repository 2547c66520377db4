// The code pane: the .cu and the headers of the steps, one under the other. The lines of the step are
// lit. A step without lines keeps those of the step before it in sight. Probe lines are dimmed or
// hidden.
import { codeLine, linesOf } from './moments.js';
import { button, element, listen, number } from './paint.js';

const KEPT = 'warpglass-probes', // whether probe lines are hidden
  FILE = 'warpglass-workbench-file', // the name of the Workbench's text (workbench/keeping.js)
  DEEP = /^ {17,}(?=\S)/, // arguments under those of a line before: a narrow pane would wrap them one by one
  SHALLOW = ' '.repeat(8),
  DRAFT = /^draft_[0-9a-f]{40}(?=\.cu$|$)/; // the server's name of this text

// A source line as a row: number, count, code and comment apart; its data-place is "FILE:LINE".
/** @param {string} text @param {string} name @param {number} line @param {boolean} dim */
function codeRow(text, name, line, dim) {
  const near = text.replace(DEEP, SHALLOW),
    at = near.indexOf('//'),
    code = element('span', { class: 'text' }, at < 0 ? near || ' ' : near.slice(0, at));
  if (at >= 0) code.append(element('span', { class: 'comment' }, near.slice(at)));
  return element(
    'div',
    { class: dim ? 'row probe' : 'row', 'data-place': `${name}:${line}` },
    element('span', { class: 'number' }, String(line)),
    code,
    element('span', { class: 'count' }),
  );
}

// openSource: goes to the machine code of these lines. null: the host cannot.
/**
 * @type {(host: HTMLElement, code: story.Code, frames: Frame[], context: Context,
 *   openSource: (() => void) | null) => {unmount: () => void}}
 */
export function codeView(host, code, frames, { clock, kept, keep }, openSource) {
  const { files } = code,
    own = (kept(FILE) ?? 'kernel.cu').replace(/\.\w+$/, ''),
    shown = (/** @type {string} */ name) => name.replace(DRAFT, () => own);
  const pane = element('div', {
    class: 'code',
    tabindex: '0',
    role: 'region',
    'aria-label': `Source of ${shown(code.kernel)}`,
  });
  const hide = element('input', { type: 'checkbox', 'data-probes': true }),
    named = element('span', { title: files.map(file => shown(file.name)).join(' + ') }),
    counts = element('span', { class: 'counts' }, 'n\u00d7: accesses or values in this step'),
    head = element('div', { class: 'file' }, named, counts, element('label', {}, hide, 'hide probes'));
  if (openSource) {
    const title = 'Machine code of these lines, on the page Source';
    head.append(button('machine code \u2192', openSource, { title }));
  }
  const rows = new Map(); // "FILE:LINE" -> its row
  pane.append(
    ...files.flatMap(({ name, lines, probes }, n) => {
      const dim = new Set(probes),
        made = lines.map((text, i) => codeRow(text, name, i + 1, dim.has(i + 1)));
      made.forEach(row => rows.set(row.dataset.place, row));
      const margin = element('span', { class: 'number' });
      return n ? [element('div', { class: 'row heading' }, margin, name), ...made] : made;
    }),
  );
  host.replaceChildren(head, pane);
  pane.onscroll = () => {
    from = pane.scrollTop;
  };
  hide.onchange = () => {
    keep(KEPT, hide.checked ? 'hidden' : 'shown');
    clock.tell('probes'); // every pane of the stage hides them
  };

  let tops = new Map(),
    seen = { height: 0, line: 0 },
    /** @type {any[]} */ lit = [],
    from = 0; // from: how far it is scrolled; to ask that at a step lays the page out
  const unlight = () => {
    for (const row of lit) {
      row.classList.remove('lit');
      row.lastChild.textContent = '';
    }
    lit = [];
  };
  const measure = () => {
    // where every line stands; lines wrap, so it is asked once for each width and not at each step
    unlight(); // or those that wrap for their count alone would push down all below them
    tops = new Map(
      [...rows].map(([place, row]) => [
        row,
        [row.offsetTop, row.offsetHeight, shown(place.slice(0, place.lastIndexOf(':')))],
      ]),
    );
    seen = { height: pane.clientHeight, line: parseFloat(getComputedStyle(pane).lineHeight) };
  };
  /** @type {(step: number) => [any, number][]} */
  const rowsOf = step =>
    Object.entries(linesOf(frames[step], code.lit)).flatMap(([place, count]) =>
      rows.has(place) ? [[rows.get(place), count]] : [],
    );
  // The rows to see at a step without lines: of the last step that has some, or where the code starts.
  const nearest = (/** @type {number} */ step) => {
    for (let n = Math.min(step, frames.length - 1); n >= 0; n--) {
      const found = rowsOf(n).map(([row]) => row);
      if (found.length) return found;
    }
    return [rows.get(`${files[0].name}:${codeLine(files[0].lines)}`)];
  };
  const draw = (/** @type {number} */ step, always = false) => {
    unlight();
    const now = rowsOf(step);
    for (const [row, count] of now) {
      row.classList.add('lit');
      row.lastChild.textContent = count > 1 ? `${number(count)}\u00d7` : '';
      row.lastChild.title = `${number(count)} accesses or values that threads logged on this line in this step`;
    }
    lit = now.map(([row]) => row);
    counts.hidden = now.every(([, count]) => count <= 1);
    const places = (lit.length ? lit : nearest(step))
      .map(row => tops.get(row))
      .filter(Boolean)
      .sort((a, b) => a[0] - b[0]);
    if (!places.length || !seen.height) return;
    // Of lines far apart, as in a .cu and its header, those that stand closest.
    const parts = places.map(([top], n) => places.slice(n).filter(([t, h]) => t + h < top + seen.height));
    const shown = parts.reduce((best, part) => (part.length > best.length ? part : best)),
      [first, , file] = shown[0] ?? places[0];
    named.textContent = file;
    const end = shown.length ? shown.at(-1)[0] + shown.at(-1)[1] : first + 20;
    const room = lit.length || step ? seen.height - (end - first) : 0, // else its first line, at the top
      // with its count a lit line may wrap once more
      grown = Math.min(room, seen.line * lit.length);
    if (always || first < from || end + grown > from + seen.height)
      pane.scrollTop = from = Math.max(0, first - (room - grown) / 2);
  };
  const changed = () => {
    const hidden = kept(KEPT) === 'hidden' || !!host.closest('[data-depth=guided]');
    hide.checked = hidden;
    pane.classList.toggle('without-probes', hidden);
    measure();
    draw(clock.step, true);
  };
  const observer = new ResizeObserver(changed);
  observer.observe(pane);
  const ends = [listen(clock, 'probes', changed), clock.follow(draw)];
  return {
    unmount() {
      ends.forEach(end => end());
      observer.disconnect();
      host.replaceChildren();
    },
  };
}
