// The stops of the course: which of them a moment belongs to, and the ways between them.
import { browser } from './storage.js';

const KEPT = 'warpglass-stops'; // in localStorage: stop -> {seen, done: [ids of questions], all}

/**
 * @typedef {object} Stop
 * @property {string} name in a link
 * @property {number} number from 1
 * @property {string} title
 * @property {string} act
 * @property {number} minutes
 * @property {boolean} essential
 * @property {string} story the path of its page
 * @property {Record<string, string>} choices of its page
 * @property {string} picture that comes first, or ''
 * @property {string} idea
 * @property {string[]} questions ids of the page's questions, in order
 * @property {string} wins the gain, as a sentence
 * @property {string} small the reason for a small gain, or ''
 * @property {string} source the origin of the numbers in both, or ''
 * @property {{label: string, link: string} | null} deeper
 * @property {{label: string, link: string} | null} paper
 */

// What was answered at the stops, as this browser keeps it.
export const answered = () => browser.readJson(KEPT) ?? {};
export const keepAnswered = kept => browser.writeJson(KEPT, kept);

// The marks of the rail: stop -> 'seen' or 'done' (every question was answered or shown).
export const progress = () =>
  Object.fromEntries(
    Object.entries(answered()).map(([name, { all }]) => [name, all ? 'done' : 'seen']),
  );

export class Course {
  /** @param {Stop[]} stops in their order */
  constructor(stops) {
    this.stops = stops;
    this.acts = [...new Set(stops.map(({ act }) => act))].map(name => {
      const own = stops.filter(({ act }) => act === name);
      return { name, stops: own, minutes: minutesOf(own) };
    });
  }
  get minutes() {
    return minutesOf(this.stops);
  }

  /**
   * The stop of a moment: the named one, or the stop with the most of its choices, or the first stop
   * of its page. Null for a page without a stop.
   * @param {{path: string, begin: Record<string, string>}} story
   * @param {Record<string, string>} params of the moment's link
   */
  at({ path, begin }, params) {
    const here = this.stops.filter(({ story }) => story === path),
      chosen = { ...begin, ...params };
    const fits = here
      .filter(({ choices }) =>
        Object.entries(choices).every(([name, text]) => chosen[name] === text),
      )
      .sort((a, b) => Object.keys(b.choices).length - Object.keys(a.choices).length);
    return here.find(({ name }) => name === params.stop) ?? fits[0] ?? here[0] ?? null;
  }
  /** @param {Stop} stop */
  before(stop) {
    return this.stops[this.stops.indexOf(stop) - 1] ?? null;
  }
  /** @param {Stop} stop */
  after(stop) {
    return this.stops[this.stops.indexOf(stop) + 1] ?? null;
  }
}

// The link of a stop.
export const linkOf = ({ story, choices, name, picture }) =>
  `${story}?${new URLSearchParams({ stop: name, ...choices, ...(picture ? { picture } : {}) })}`;

const minutesOf = stops => stops.reduce((sum, { minutes }) => sum + minutes, 0);
export const inMinutes = n => (n === 1 ? '1 minute' : `${n} minutes`);
