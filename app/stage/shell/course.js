// The stops of the course: which of them a moment belongs to, and the ways between them.
import { browser } from './storage.js';

const KEPT = 'warpglass-stops'; // in localStorage: stop -> {seen, done: [ids of questions], all}

/** @typedef {Omit<course.Stop, 'gain'> & {source: string}} Stop source: of the numbers in wins and small */

// What was answered at the stops, as this browser keeps it.
/** @returns {Record<string, {seen?: boolean, done?: string[], all?: boolean}>} */
export const answered = () => browser.readJson(KEPT) ?? {};
/** @param {object} kept */
export const keepAnswered = kept => browser.writeJson(KEPT, kept);

// The marks of the rail: stop -> 'seen' or 'done' (every question was answered or shown).
/** @returns {Texts} */
export const progress = () =>
  Object.fromEntries(Object.entries(answered()).map(([name, { all }]) => [name, all ? 'done' : 'seen']));

export class Course {
  /** @param {Stop[]} all in their order, then those of each shelf */
  constructor(all) {
    this.all = all;
    this.stops = all.filter(({ shelf }) => !shelf);
    this.minutes = this.stops.reduce((sum, { minutes }) => sum + minutes, 0);
    this.shelves = [...new Set(all.map(({ shelf }) => shelf))]
      .filter(Boolean)
      .map(name => ({ name, stops: all.filter(({ shelf }) => shelf === name) }));
  }

  // The stop of a moment: the named one, or the first one of its page with the most of its choices and the fewest
  // others. Null for a page without a stop. params: of the moment's link.
  /** @param {Pick<Lens, 'path' | 'begin'>} story @param {Texts} params */
  at({ path, begin }, params) {
    const here = this.all.filter(({ story }) => story === path),
      chosen = { ...begin, ...params };
    const fit = (/** @type {Stop} */ { choices }) =>
      Object.entries(choices).reduce((sum, [name, text]) => sum + (chosen[name] === text ? 1 : -1), 0);
    const [best] = here.map(stop => ({ stop, fit: fit(stop) })).sort((a, b) => b.fit - a.fit);
    return here.find(({ name }) => name === params.stop) ?? best?.stop ?? null;
  }
  /** @param {Stop} stop */
  after(stop) {
    return stop.shelf ? null : (this.stops[stop.number] ?? null);
  }
}

// The link of a stop.
/** @param {Stop} stop */
export const linkOf = ({ story, choices, name, picture }) =>
  `${story}?${new URLSearchParams({ stop: name, ...choices, ...(picture ? { picture } : {}) })}`;

export const inMinutes = (/** @type {number} */ n) => (n === 1 ? '1 minute' : `${n} minutes`);
