// Questions to the app and the bundles it answers with: fetched once, kept in the window, the
// browser's cache and the server's.
const ME = Math.random().toString(36).slice(2); // who asks: this page, while it lives

const SILENT =
  'The server was not reached: it may have been stopped, or the connection is gone. ' +
  'Start it again, then reload this page.';
const faulty = (/** @type {number} */ status) =>
  `The server answered ${status}. The fault is Warpglass\u2019s, not of the choices. ` +
  'The server\u2019s log names the place.';

/**
 * set: a change of a choice; key: of what is waited for, for a second; again: what has failed is tried anew.
 * @typedef {{path: string, params: Texts, set?: [string, string] | null, carried?: boolean, part?: string,
 *   key?: string, again?: boolean}} Asked
 */

// What /wg/ask answers, or {title, error} where nothing can be read.
/** @param {string} base @param {Asked} asked @returns {Promise<Answer>} */
async function ask(base, { path, params, set, carried, part, key, again }) {
  const query = new URLSearchParams({
    ...params,
    _who: ME,
    ...(set && { _set: set[0], _to: set[1] }),
    ...(carried && { _carried: '1' }),
    ...(part && { _part: part }),
    ...(key && { _key: key }),
    ...(again && { _again: '1' }),
  });
  let response;
  try {
    response = await fetch(`${base}/wg/ask/${path}?${query}`);
  } catch {
    return { title: 'The app does not answer.', error: SILENT };
  }
  try {
    return await response.json();
  } catch {
    return { title: 'Warpglass failed.', error: faulty(response.status) };
  }
}

const wanted = new Map(); // key -> how many parts of this page wait for it

// As ask, until there is a bundle or an error; onWait: meanwhile; current: whether the answer is still
// wanted. What no part of the page wants any more is dropped: it makes nobody wait.
/**
 * @param {string} base
 * @param {Asked} question
 * @param {(answer: Answer) => void} onWait
 * @param {() => boolean} current
 */
export async function askUntilDone(base, question, onWait, current) {
  let key = '',
    refused = {}; // of the change, which the first answer alone speaks of
  try {
    for (;;) {
      const answer = await ask(base, question);
      if (answer.choices) refused = answer.refused = { ...refused, ...answer.refused };
      want(key, -1);
      key = answer.waiting?.key ?? '';
      want(key, 1);
      if (!current() || !answer.waiting) return answer;
      onWait(answer);
      // what was asked is taken: its outcome is asked for
      const { path, part } = question;
      question = { path, part, params: answer.link ?? {}, key };
      await new Promise(done => setTimeout(done, 20));
      if (!current()) return answer;
    }
  } finally {
    if (key && !want(key, -1)) stop(base, key, true);
  }
}
/** @param {string} key @param {number} more */
function want(key, more) {
  if (!key) return 0;
  const left = (wanted.get(key) ?? 0) + more;
  if (left > 0) wanted.set(key, left);
  else wanted.delete(key);
  return left;
}

// The bytes of a bundle. An error's message is a sentence for the reader.
/** @param {string} base @param {string} name */
export async function fetchBundle(base, name) {
  const response = await fetch(`${base}/wg/bundle/${name}`).catch(() => {
    throw new Error(SILENT);
  });
  if (!response.ok) throw new Error(response.status < 500 ? await response.text() : faulty(response.status));
  return response.arrayBuffer();
}

// drop: this page asks for something else now; else it is told that it was stopped.
/** @param {string} base @param {string} key */
export const stop = (base, key, drop = false) =>
  fetch(`${base}/wg/stop?key=${key}&who=${ME}${drop ? '&drop=1' : ''}`, { method: 'POST' }).catch(() => {});
