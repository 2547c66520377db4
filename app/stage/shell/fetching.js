// Questions to the app and the bundles it answers with: fetched once, kept in the window, the
// browser's cache and the server's.
const ME = Math.random().toString(36).slice(2); // who asks: this page, while it lives

const SILENT =
  'The server was not reached: it may have been stopped, or the connection is gone. ' +
  'Start it again, then reload this page.';
const faulty = status =>
  `The server answered ${status}. The fault is Warpglass\u2019s, not of the choices. ` +
  'The server\u2019s log names the place.';

// {path, params, set: [name, value], carried, part, key, again} -> what /wg/ask says, or {title,
// error} where it says nothing that can be read; key: of what is waited for, for a second; again:
// what has failed is tried anew.
export async function ask(base, { path, params, set, carried, part, key, again }) {
  const query = new URLSearchParams({ ...params, _who: ME });
  if (set) {
    query.set('_set', set[0]);
    query.set('_to', set[1]);
  }
  if (carried) query.set('_carried', '1');
  if (part) query.set('_part', part);
  if (key) query.set('_key', key);
  if (again) query.set('_again', '1');
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

// As ask, until there is a bundle or an error; onWait({key, seconds, place, running}) meanwhile;
// current(): whether the answer is still wanted. What no part of the page wants any more is
// dropped: it makes nobody wait.
export async function askUntilDone(base, question, onWait, current) {
  let key = '',
    refused = {}; // of the change, which the first answer alone speaks of
  try {
    for (;;) {
      const said = await ask(base, question);
      if (said.choices) refused = said.refused = { ...refused, ...said.refused };
      want(key, -1);
      key = said.waiting?.key ?? '';
      want(key, 1);
      if (!current() || !said.waiting) return said;
      onWait(said);
      // what was asked is taken: its outcome is asked for
      question = { ...question, params: said.link, set: null, carried: false, again: false, key };
      await new Promise(done => setTimeout(done, 20));
      if (!current()) return said;
    }
  } finally {
    if (key && !want(key, -1)) stop(base, key, true);
  }
}
function want(key, more) {
  if (!key) return 0;
  const left = (wanted.get(key) ?? 0) + more;
  if (left > 0) wanted.set(key, left);
  else wanted.delete(key);
  return left;
}

// The bytes of a bundle. An error's message is a sentence for the reader.
export async function fetchBundle(base, name) {
  const response = await fetch(`${base}/wg/bundle/${name}`).catch(() => {
    throw new Error(SILENT);
  });
  if (!response.ok)
    throw new Error(response.status < 500 ? await response.text() : faulty(response.status));
  return response.arrayBuffer();
}

// drop: this page asks for something else now; else it is told that it was stopped.
export const stop = (base, key, drop = false) =>
  fetch(`${base}/wg/stop?key=${key}&who=${ME}${drop ? '&drop=1' : ''}`, { method: 'POST' }).catch(
    () => {},
  );
