// Questions to the server about the text: the newest counts.
const PAUSE = 700; // ms without an edit, after which the text is checked
const ME = Math.random().toString(36).slice(2);
const SILENT = 'The server was not reached. Start it again, then press Check.';

/**
 * @typedef {{diagnostics: import('./editor.js').Message[], ok: boolean, said: string,
 *   kernel: string, pages: import('./picture.js').PageOf[], proposal?: string, error?: string,
 *   cases?: import('./exercises.js').Case[]}} Answer
 */

/**
 * @param {object} given
 * @param {(path: string, options: RequestInit) => Promise<Response>} given.request
 * @param {() => string} given.text
 * @param {() => string} given.exercise whose answer a whole check grades, or ''
 * @param {(whole: boolean) => void} given.began
 * @param {(answer: Answer) => void} given.answered
 */
export function makeAsking({ request, text, exercise, began, answered }) {
  let turn = 0,
    soon = 0;
  async function ask(whole) {
    clearTimeout(soon);
    const nth = ++turn;
    began(whole);
    const asked = whole && exercise() ? `&exercise=${exercise()}` : whole ? '&whole=1' : '';
    const answer = await answerOf(request(`/wg/workbench/check?who=${ME}${asked}`, { method: 'POST', body: text() }));
    if (nth === turn) answered(answer);
  }
  // The table of two texts (versions.js). It stops no check.
  const compare = async body =>
    (await request(`/wg/workbench/versions?who=${ME}v`, { method: 'POST', body: JSON.stringify(body) })).json();
  // An answer on its way is of the text before.
  const forget = () => {
    turn++;
    clearTimeout(soon);
  };
  return {
    ask,
    compare,
    forget,
    // After a pause in typing.
    later() {
      forget();
      soon = window.setTimeout(() => ask(false), PAUSE);
    },
  };
}

const none = error => ({ diagnostics: [], ok: false, said: '', kernel: '', pages: [], error });
async function answerOf(asked) {
  let response;
  try {
    response = await asked;
  } catch {
    return none(SILENT);
  }
  try {
    const said = await response.json();
    return said.error ? none(said.error) : said;
  } catch {
    return none(`The server answered ${response.status}. Its log names the place.`);
  }
}
