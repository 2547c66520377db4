// Which entries of the search fit a text.

const MOST = 12; // results in sight

/** @typedef {{kind: string, title: string, said: string, link: string, set?: string}} Entry app/web/searching.py */

// How well an entry fits: 0 for not at all. Its title counts more than its sentence.
/** @param {Pick<Entry, 'title' | 'said'>} entry @param {string[]} words @returns {number} */
export function fit({ title, said }, words) {
  const name = title.toLowerCase(),
    text = said.toLowerCase();
  /** @type {number[]} */
  const marks = words.map(word => {
    const at = name.indexOf(word);
    if (at === 0) return name.length === word.length ? 8 : 6;
    if (at > 0) return /\W/.test(name[at - 1]) ? 4 : 3;
    return text.includes(word) ? 1 : 0;
  });
  return marks.every(Boolean) ? marks.reduce((sum, mark) => sum + mark, 0) : 0;
}
// The entries that fit a text, the best first.
/** @param {Entry[]} entries @param {string} text */
export function find(entries, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return entries
    .map(entry => ({ entry, mark: words.length ? fit(entry, words) : 0 }))
    .filter(({ mark }) => mark)
    .sort((a, b) => b.mark - a.mark)
    .slice(0, MOST)
    .map(({ entry }) => entry);
}
