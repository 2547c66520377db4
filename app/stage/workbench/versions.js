// The versions that ran in this tab, and two of them side by side.
const KEPT = 'warpglass-workbench-versions',
  MOST = 20, // versions
  MOST_TEXT = 600_000; // characters of all texts. A browser keeps some millions for a tab
const WORDS = { '': '', better: '▲ better', worse: '▼ worse' };

/**
 * A text that ran. changed: its first line that differs from the version before it.
 * @typedef {{number: number, time: string, ok: boolean, said: string, changed: string, text: string}} Version
 * A fact of both versions, as the server sends it (kernels/watching/comparison.py).
 * @typedef {{what: string, before: string, after: string, where: string, judged: '' | 'better' | 'worse',
 *   differs: boolean}} Row
 * @typedef {{names: string[], rows: Row[], reasons: string[][], notes: string[], difference: string[],
 *   markdown: string, error?: string}} Comparison
 */

/**
 * @param {{element: any, button: any}} tools
 * @param {{keptInTab: (name: string) => string | null, keepInTab: (name: string, value: string) => void}} page
 * @param {object} given
 * @param {(body: object) => Promise<Comparison>} given.compare
 * @param {(text: string) => void} given.open puts a version's text into the editor
 * @param {(shown: boolean) => void} given.turned hears whether the versions are shown
 */
export function makeVersions({ element, button }, { keptInTab, keepInTab }, { compare, open, turned }) {
  /** @type {Version[]} */
  let all = JSON.parse(keptInTab(KEPT) ?? '[]'); // the last run is the last
  let turn = 0;
  const known = new Map(); // the numbers of two versions -> their comparison
  const before = element('select', { 'aria-label': 'Earlier version' }),
    after = element('select', { 'aria-label': 'Later version' }),
    said = element('p', { class: 'said-of-versions', role: 'status' }),
    result = element('div', { class: 'result', tabindex: '0', role: 'region', 'aria-label': 'Both versions' });
  const copy = button('Copy as Markdown', () => navigator.clipboard?.writeText(copied).then(() => say('Copied.')), {
    title: 'The table for a pull request',
    hidden: true,
  });
  let copied = '';
  /** @param {HTMLSelectElement} select */
  const chosen = select => all.find(one => one.number === Number(select.value)) ?? all[0];
  /** @type {(select: HTMLSelectElement, which: string) => HTMLElement} */
  const edit = (select, which) =>
    button(`Edit ${which}`, () => open(chosen(select).text), { title: `Puts the ${which} version into the editor` });
  const node = element(
    'section',
    { class: 'running versions', 'aria-label': 'Versions', hidden: true },
    element('div', { class: 'tools' }, before, edit(before, 'earlier')),
    element('div', { class: 'tools' }, after, edit(after, 'later'), copy),
    said,
    result,
  );
  const shown = button('Versions', () => show(node.hidden), {
    'aria-pressed': 'false',
    title: 'Shows two versions of this text side by side',
    hidden: true,
  });
  const say = (/** @type {string} */ text) => (said.textContent = text);
  const forget = () => {
    copied = '';
    copy.hidden = true;
    result.replaceChildren();
  };
  const titleOf = (/** @type {Version} */ { number }) => `Version ${number}`;

  function list() {
    const options = () =>
      [...all]
        .reverse()
        .map(one =>
          element(
            'option',
            { value: one.number, title: one.said },
            `${titleOf(one)}, ${one.time}, ${one.ok ? 'ok' : 'not ok'}${one.changed && `: ${one.changed}`}`,
          ),
        );
    for (const select of [before, after]) {
      const value = select.value;
      select.replaceChildren(...options());
      if (all.some(one => one.number === Number(value))) select.value = value;
    }
    shown.textContent = `Versions (${all.length})`;
    shown.hidden = all.length < 2;
  }
  /** @param {boolean} on */
  function show(on) {
    node.hidden = !on;
    shown.setAttribute('aria-pressed', String(on));
    turned(on);
    if (!on) return;
    [before.value, after.value] = all.slice(-2).map(one => String(one.number));
    ask();
  }
  async function ask() {
    forget();
    const one = chosen(before),
      other = chosen(after),
      nth = ++turn;
    if (one === other) return say('Choose two versions.');
    const key = `${one.number} ${other.number}`;
    say('Both versions are running.');
    const answer =
      known.get(key) ??
      (await compare({ texts: [one.text, other.text], titles: [titleOf(one), titleOf(other)] }).catch(() => null));
    if (nth !== turn) return;
    if (!answer || answer.error) return say(answer?.error ?? 'The server was not reached. Choose a version again.');
    known.set(key, answer);
    say('');
    copied = answer.markdown;
    copy.hidden = false;
    result.replaceChildren(...drawn(element, answer));
    if (matchMedia('(max-width: 899px)').matches) node.scrollIntoView({ block: 'start' }); // it is below the editor
  }
  before.onchange = after.onchange = ask;
  list();
  return {
    node,
    button: shown,
    // Hidden while an exercise is open.
    /** @param {boolean} on */
    offer(on) {
      if (!on && !node.hidden) show(false);
      shown.hidden = !on || all.length < 2;
    },
    /**
     * A text that ran just now.
     * @param {string} text
     * @param {{ok: boolean, said: string}} answer
     */
    add(text, { ok, said: sentence }) {
      const last = all.at(-1),
        same = all.find(one => one.text === text),
        number = same?.number ?? Math.max(0, ...all.map(one => one.number)) + 1,
        changed = same?.changed ?? changedLine(last?.text, text),
        time = new Date().toLocaleTimeString();
      all = [...all.filter(one => one !== same), { number, time, ok, said: sentence, changed, text }].slice(-MOST);
      while (all.length > 2 && all.reduce((sum, one) => sum + one.text.length, 0) > MOST_TEXT) all.shift();
      keepInTab(KEPT, JSON.stringify(all));
      list();
    },
  };
}

// The first line of a text that differs from the text before.
/** @param {string | undefined} before @param {string} text */
function changedLine(before, text) {
  if (before === undefined) return '';
  const [old, lines] = [before.split('\n'), text.split('\n')],
    at = lines.findIndex((line, n) => line !== old[n]);
  return at < 0 ? `line ${lines.length}` : `line ${at + 1}, ${lines[at].trim().slice(0, 60)}`;
}

/** @type {(element: any, found: Comparison) => Element[]} */
function drawn(element, { names, rows, reasons, notes, difference }) {
  const cell = (/** @type {string} */ tag, /** @type {string} */ text, more = {}) => element(tag, more, text);
  const table = element(
    'table',
    {},
    element(
      'thead',
      {},
      element('tr', {}, cell('td', ''), ...names.map(name => cell('th', name, { scope: 'col' })), cell('td', '')),
    ),
    element(
      'tbody',
      {},
      ...rows.map(({ what, before, after, where, judged, differs }) =>
        element(
          'tr',
          { 'data-differs': differs },
          element('th', { scope: 'row' }, what, ...(where ? [element('small', {}, where)] : [])),
          cell('td', before),
          cell('td', after),
          cell('td', WORDS[judged], { 'data-judged': judged }),
        ),
      ),
    ),
  );
  const faults = reasons.flatMap((own, n) =>
    own.length ? [element('h3', {}, names[n]), element('ul', {}, ...own.map(reason => element('li', {}, reason)))] : [],
  );
  /** @type {Record<string, string>} */
  const sign = { '+': 'added', '-': 'removed', '@': 'hunk' };
  const lines = difference.slice(2).map(line => element('span', { class: sign[line[0]] ?? '' }, `${line}\n`));
  return [
    table,
    ...faults,
    ...notes.map(note => element('p', { class: 'hints' }, note)),
    element('pre', { 'aria-label': 'The changed lines' }, ...lines),
  ];
}
