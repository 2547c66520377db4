// A sequence: moments in an order, each a link with a title, a note, planned minutes and how many
// steps it goes on. Kept in this browser, carried in files. What a file says is checked whole
// before any of it is taken, and is only ever shown as text.
import { browser } from './storage.js';

const KEPT = 'warpglass-sequences',
  FORMAT = 'warpglass-sequence',
  VERSION = 1;
export const MOST = {
  bytes: 2 ** 19,
  moments: 200,
  title: 200,
  note: 4000,
  link: 2000,
  minutes: 240,
  steps: 10000,
};

/** @typedef {{link: string, title: string, note: string, minutes: number, steps: number}} Moment */
/** @typedef {{id: string, title: string, moments: Moment[]}} Sequence */

const shown = (/** @type {unknown} */ value) => {
  const text = JSON.stringify(value) ?? 'nothing';
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
};

// 'path?choices&step&picture&tab' as it is kept: a path of ours and a query, so that it can lead
// nowhere else. paths: those there are.
/** @param {unknown} link @param {string[]} paths */
export function linkOf(link, paths) {
  if (typeof link !== 'string' || link.length > MOST.link)
    throw new Error(`a link is ${shown(link)}; it must be a text of at most ${MOST.link} characters.`);
  const cut = link.indexOf('?'),
    path = cut < 0 ? link : link.slice(0, cut),
    query = new URLSearchParams(cut < 0 ? '' : link.slice(cut + 1));
  if (!paths.includes(path))
    throw new Error(
      `a link is ${shown(link)}, which is no page of Warpglass. A link begins with one of ${paths.join(', ')}.`,
    );
  // a link that says nothing would take the choices before along
  if (![...query].length) query.set('step', '1');
  return `${path}?${query}`;
}

/** @param {string} name @param {unknown} value @param {number} most */
function textOf(name, value, most) {
  if (typeof value !== 'string') throw new Error(`${name} is ${shown(value)}; it must be a text.`);
  if (value.length > most) throw new Error(`${name} has ${value.length} characters; at most ${most} are taken.`);
  return value;
}
/** @param {string} name @param {unknown} value @param {number} most */
function numberOf(name, value, most, whole = false) {
  if (typeof value !== 'number' || !(value >= 0) || value > most || (whole && !Number.isInteger(value)))
    throw new Error(`${name} is ${shown(value)}; it must be a ${whole ? 'whole ' : ''}number from 0 to ${most}.`);
  return value;
}

// A sequence as a file or the storage has it -> {title, moments: [{link, title, note, minutes,
// steps}]}. Throws an Error that says, in a sentence, which value is not taken. Moments without
// minutes share what is left of those that the sequence plans.
/** @param {any} given @param {string[]} paths @returns {{title: string, moments: Moment[]}} */
export function checked(given, paths) {
  if (given === null || typeof given !== 'object' || given.format !== FORMAT)
    throw new Error(`its format is ${shown(given?.format)}; it must be "${FORMAT}".`);
  if (given.version !== VERSION)
    throw new Error(`its version is ${shown(given.version)}; this Warpglass reads version ${VERSION}.`);
  const title = textOf('its title', given.title, MOST.title).trim();
  if (!title) throw new Error('its title is empty; it must have one.');
  if (!Array.isArray(given.moments)) throw new Error(`its moments are ${shown(given.moments)}; they must be a list.`);
  if (given.moments.length > MOST.moments)
    throw new Error(`it has ${given.moments.length} moments; at most ${MOST.moments} are taken.`);
  /** @type {any[]} */ const moments = given.moments;
  const known = moments.map(moment => moment?.minutes).filter(Number.isFinite),
    without = given.moments.length - known.length;
  const left =
    numberOf('its minutes', given.minutes ?? without, MOST.minutes * MOST.moments) -
    (given.minutes === undefined ? 0 : known.reduce((sum, one) => sum + one, 0));
  const share = Math.min(MOST.minutes, Number((Math.max(0, left) / Math.max(1, without)).toFixed(2)));
  return {
    title,
    moments: moments.map((moment, n) => {
      try {
        if (moment === null || typeof moment !== 'object')
          throw new Error(`it is ${shown(moment)}; it must have a link.`);
        return {
          link: linkOf(moment.link, paths),
          title: textOf('its title', moment.title ?? '', MOST.title),
          note: textOf('its note', moment.note ?? '', MOST.note),
          minutes: numberOf('its minutes', moment.minutes ?? share, MOST.minutes),
          steps: numberOf('its steps', moment.steps ?? 0, MOST.steps, true),
        };
      } catch (error) {
        throw new Error(`moment ${n + 1}: ${error.message}`, { cause: error });
      }
    }),
  };
}

/** @type {(count: number, what: string) => string} */
const many = (count, what) => `${count} ${what}${count === 1 ? '' : 's'}`;
export const lengthOf = (/** @type {Moment[]} */ moments) =>
  `${many(moments.length, 'moment')}, ${many(minutesOf(moments), 'minute')}`;

export const minutesOf = (/** @type {Moment[]} */ moments) =>
  Number(moments.reduce((sum, { minutes }) => sum + minutes, 0).toFixed(2));

// As a file has it.
export const written = (/** @type {Omit<Sequence, 'id'>} */ { title, moments }) => ({
  format: FORMAT,
  version: VERSION,
  title,
  minutes: minutesOf(moments),
  moments: moments.map(({ steps, ...moment }) => (steps ? { ...moment, steps } : moment)),
});

// The sequence that a file holds. Throws an Error that says why there is none.
/** @param {Pick<File, 'name' | 'size' | 'text'>} file @param {string[]} paths */
export async function readFile(file, paths) {
  const bytes = (/** @type {number} */ n) => n.toLocaleString('en');
  try {
    if (file.size > MOST.bytes)
      throw new Error(`it has ${bytes(file.size)} bytes; at most ${bytes(MOST.bytes)} are read.`);
    return checked(JSON.parse(await file.text()), paths);
  } catch (error) {
    const json = error instanceof SyntaxError,
      why = json ? `it is no JSON (${error.message}). Choose a file that Warpglass exported.` : error.message;
    throw new Error(`${file.name} was not imported: ${why}`, { cause: error });
  }
}

// The sequences of this browser. paths: of the pages there are. all(): [{id, title, moments}]. put
// and remove give '' or, in a sentence, why nothing is kept; what could not be kept lasts until the
// page is closed.
/** @param {string[]} paths */
export function makeStore(paths) {
  /** @type {Sequence[] | null} */ let here = null; // what this page knows and the storage does not
  // What the storage holds, as it is: [it, the sequence, or null where it is one of another version
  // of Warpglass].
  /** @returns {[any, Sequence | null][]} */
  const held = () => {
    const found = browser.readJson(KEPT);
    return (Array.isArray(found) ? found : []).map(one => {
      try {
        return [one, { id: String(one.id), ...checked(one, paths) }];
      } catch {
        return [one, null];
      }
    });
  };
  const all = () => here ?? held().flatMap(([, sequence]) => sequence ?? []);
  const keep = (/** @type {Sequence[]} */ list) => {
    try {
      const others = held().flatMap(([one, sequence]) => (sequence ? [] : [one])); // for their version
      localStorage.setItem(KEPT, JSON.stringify([...list.map(one => ({ id: one.id, ...written(one) })), ...others]));
      here = null;
      return '';
    } catch (error) {
      here = list;
      const why =
        error.name === 'QuotaExceededError'
          ? 'This browser\u2019s storage for this site is full'
          : 'This browser forbids this site to keep anything';
      return `${why}: the sequence lasts until this page is closed. Export it as a file.`;
    }
  };
  return {
    all,
    put(/** @type {Sequence} */ sequence) {
      const list = all(),
        known = list.some(one => one.id === sequence.id);
      return keep(known ? list.map(one => (one.id === sequence.id ? sequence : one)) : [...list, sequence]);
    },
    remove: (/** @type {string} */ id) => keep(all().filter(one => one.id !== id)),
    // A new one; its title is made one that no other has.
    /** @param {string} title @param {Moment[]} moments @returns {Sequence} */
    create(title, moments = []) {
      const taken = new Set(all().map(one => one.title));
      let free = title;
      for (let n = 2; taken.has(free); n++) free = `${title} (${n})`;
      return { id: Math.random().toString(36).slice(2), title: free, moments };
    },
  };
}
