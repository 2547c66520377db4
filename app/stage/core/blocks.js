// What stands in tabs: text, tables, charts, notes, files to take along. Charts follow the clock by
// their parameter `step`.
import { LABELS } from './data.js';
import { chartView } from './charts.js';
import { element, figure, number, unfetched, way } from './paint.js';
import { viewOf } from './views.js';

// Returns what ends the blocks.
/** @param {HTMLElement} host @param {any[]} blocks @param {Context} context */
export function showBlocks(host, blocks, context) {
  /** @type {(() => void)[]} */ const ends = [];
  host.replaceChildren(...blocks.map(block => MAKE[block.kind](block, ends, context)));
  return () => ends.forEach(end => end());
}

/** @type {Record<string, (block: any, ends: (() => void)[], context: Context) => Element>} */
const MAKE = {
  text: ({ text, label, links = [] }, ends, context) =>
    element(
      'p',
      {},
      ...(label ? [element('b', { class: `label ${label}` }, LABELS[label]), ' '] : []),
      text,
      ...links.flatMap((/** @type {any} */ link) => [' ', MAKE.link(link, ends, context)]),
    ),
  heading: ({ text }) => element('h3', {}, text),
  note: ({ text, tone }) => element('p', { class: `note ${tone}`, role: tone === 'bad' ? 'alert' : null }, text),
  download: ({ label, url, file }, _, { href }) =>
    element('p', {}, element('a', { class: 'button', href: href(url), download: file }, label)),
  row: ({ columns }, ends, context) =>
    element(
      'div',
      { class: 'columns' },
      ...columns.map((/** @type {any[]} */ column) =>
        element('div', {}, ...column.map(b => MAKE[b.kind](b, ends, context))),
      ),
    ),
  live: ({ view, meta }, ends, context) => {
    const host = element('div', { class: 'live', 'data-view': view });
    viewOf(view).then(module => {
      if (!host.isConnected) return;
      const made = module.default(host, { meta, columns: {} }, context);
      ends.push(() => made.unmount());
    }, unfetched(host));
    return host;
  },
  link: ({ text, story, query }, ends, context) =>
    way(`${story}?${new URLSearchParams(query)}`, () => context.open(story, query), { class: 'to' }, text),
  // A list of pages, the present one with its ways out.
  cards: ({ title, entries }, ends, context) =>
    element(
      'section',
      { class: 'of-cards', 'aria-label': title },
      element('h3', {}, title),
      element(
        'ol',
        {},
        ...entries.map((/** @type {any} */ { text, story, query, now, note, links, sources }) =>
          element(
            'li',
            { class: now ? 'now' : null },
            way(
              `${story}?${new URLSearchParams(query)}`,
              () => context.open(story, query),
              { 'aria-current': now ? 'true' : null },
              text,
            ),
            ...(now
              ? [
                  element(
                    'p',
                    { class: 'ways' },
                    ...links.map((/** @type {any} */ one) => MAKE.link(one, ends, context)),
                  ),
                ]
              : []),
            ...(now
              ? [
                  element(
                    'small',
                    {},
                    note,
                    ...sources.flatMap((/** @type {string[]} */ [name, href], /** @type {number} */ n) => [
                      n ? ', ' : ' ',
                      element('a', { href, target: '_blank', rel: 'noreferrer' }, name),
                    ]),
                  ),
                ]
              : []),
          ),
        ),
      ),
    ),
  diff: ({ names, parts }) => {
    /** @type {(line: number | null, text: string | null, other: string | null) => Node[]} */
    const half = (line, text, other) => {
      const kind = line === null ? ' none' : text !== other ? ' changed' : '';
      return [
        element('span', { class: 'number' }, line === null ? '' : String(line)),
        element('span', { class: `text${kind}` }, text ?? ''),
      ];
    };
    const whole = parts.map((/** @type {any} */ { same, folded, rows }) => {
      const lines = rows.map((/** @type {any} */ [l, left, r, right]) =>
        element('div', { class: 'line' }, ...half(l, left, right), ...half(r, right, left)),
      );
      if (!same && !folded) return element('div', {}, ...lines);
      const title = folded ?? `${number(rows.length)} lines are the same`;
      return element('details', {}, element('summary', {}, title), ...lines);
    });
    const heads = names.flatMap((/** @type {string} */ name) => [element('span'), element('b', {}, name)]);
    return element(
      'div',
      { class: 'diff', tabindex: '0', role: 'region', 'aria-label': names.join(' beside ') },
      element('div', { class: 'line names' }, ...heads),
      ...whole,
    );
  },
  table: block => (block.differs ? differing(block) : tableOf(block)),
  chart: ({ spec, alt, caption, title }, ends, context) => {
    const place = element('div', { class: 'chart', role: 'img', 'aria-label': alt });
    let ended = false,
      end = () => {};
    ends.push(() => {
      ended = true;
      end();
    });
    chartView(place, spec, context).then(made => {
      if (ended) made.unmount();
      else end = made.unmount;
    }, unfetched(place));
    return element(
      'figure',
      {},
      ...(title ? [element('h3', {}, title)] : []),
      place,
      ...(caption ? [element('figcaption', {}, caption)] : []),
    );
  },
};

/** @param {{columns: string[], kinds: string[], rows: any[][], caption: string, lit: boolean[]}} block */
function tableOf({ columns, kinds, rows, caption, lit }) {
  /** @type {(value: number | string, n: number) => Element} */
  const cell = (value, n) =>
    element('td', { class: kinds[n] }, typeof value === 'number' ? figure(value) : String(value));
  const body = rows.map((row, r) => element('tr', { class: lit[r] ? 'lit' : null }, ...row.map(cell)));
  const heads = columns.map((name, n) =>
    element(name ? 'th' : 'td', { class: kinds[n], scope: name ? 'col' : null }, name),
  );
  const made = element('table', {}, element('thead', {}, element('tr', {}, ...heads)), element('tbody', {}, ...body));
  return element(
    'figure',
    {},
    element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption || 'Table' }, made),
    ...(caption ? [element('figcaption', {}, caption)] : []),
  );
}

// A table with a switch: only the rows that differ, or all.
/** @param {any} block */
function differing(block) {
  const made = tableOf(block),
    all = element('input', { type: 'checkbox', checked: true });
  const rows = [...made.querySelectorAll('tbody tr')],
    left = block.differs.filter((/** @type {boolean} */ differs) => !differs).length;
  all.onchange = () =>
    rows.forEach((row, n) => {
      row.hidden = all.checked && !block.differs[n];
    });
  all.onchange();
  made.prepend(element('label', { class: 'only' }, all, ` differences only (${left} rows are the same)`));
  return made;
}
