// A class: this browser leads it, or follows who does. A leader's moment (link, step, pin) goes to
// the server, which tells the newest to all; a follower goes there without asking Streamlit
// anything. Who does something by hand is on their own until they catch up. app/classroom/rooms.py
// is the other end.
import { listen } from '../core/paint.js';
import { browser, tab } from './storage.js';

// in sessionStorage: {code, secret}: where this tab is, over a reload
const HERE = 'warpglass-class';
// in localStorage: {code, secret} of the class that this browser led last
const LED = 'warpglass-led';
const PACE = 33; // milliseconds between two messages of a leader
const AGAIN = [300, 600, 1200, 2500, 5000]; // milliseconds until a lost connection is tried anew
const LONGEST = 400; // characters of a question and of an option, as in messages.py
const BY_HAND = ['user', 'play'];

const ME = tab.readJson('warpglass-who') ?? Math.random().toString(36).slice(2);
tab.writeJson('warpglass-who', ME);

// What says to the server who leads a class in this tab.
/** @returns {Texts} */
export function asLeader() {
  const place = tab.readJson(HERE);
  return place?.secret ? { 'x-warpglass-class': `${place.code} ${place.secret}` } : {};
}

/** @typedef {{link: string, step: number | null, pin: {title: string, thing: Thing} | null}} At a moment */

// A question's state with the end of its timer, in milliseconds of this browser's clock.
/** @param {any} poll @returns {Poll} */
const timed = ({ left, ...poll }) => ({
  ...poll,
  ends: left === null ? null : 500 * Math.round((Date.now() + 1000 * left) / 500),
});

// Whatever changes is told by 'class' of the news. Steps are counted from 0 here, from 1 in links.
/** @param {App} app */
export function makeRoom(app) {
  const { base, news } = app,
    { clock } = app.stage;
  /** @type {WebSocket | null} */ let socket = null;
  /** @type {{code: string, secret?: string} | null} */ let place = null;
  /** @type {At | null} */ let told = null; // of the leader
  /** @type {At['pin']} */ let pin = null;
  /** @type {object[]} */ let unsent = []; // what could not be said while the connection was lost
  let tries = 0,
    timer = 0,
    sending = 0,
    applied = '',
    settled = '',
    strayed = false,
    pinnedAt = '';
  let state = {
    code: '',
    leads: false,
    joined: false,
    lost: false,
    followers: 0,
    led: false,
    poll: /** @type {Poll} */ (null),
    asked: 0,
    said: '',
    strayed: false,
    at: /** @type {At | null} */ (null), // where the class is, for who is on their own
    begun: false,
  };
  const change = (/** @type {Partial<typeof state>} */ more) => {
    const before = JSON.stringify(state);
    state = { ...state, ...more, strayed, at: strayed ? told : null };
    if (JSON.stringify(state) === before) return; // most messages are steps
    news.dispatchEvent(new CustomEvent('class', { detail: state }));
  };
  // The link of the moment, without its step.
  const linkNow = () => {
    const [path, query] = app.address.now().split('?'),
      choices = new URLSearchParams(query);
    choices.delete('step');
    choices.sort();
    return `${path}?${choices}`;
  };

  // ---- the connection ----
  function connect() {
    clearTimeout(timer);
    const { code = '', secret } = place ?? {};
    const mine = new WebSocket(`${location.origin.replace(/^http/, 'ws')}${base}/wg/room/${encodeURIComponent(code)}`);
    socket = mine;
    mine.onopen = () => mine.send(JSON.stringify({ who: ME, secret }));
    mine.onmessage = ({ data }) => {
      if (socket === mine) hear(JSON.parse(data));
    };
    mine.onclose = () => {
      if (socket !== mine || !place) return;
      change({ lost: true });
      timer = setTimeout(connect, AGAIN[Math.min(tries++, AGAIN.length - 1)] * (0.7 + 0.6 * Math.random()));
    };
  }
  function hear(/** @type {any} */ said) {
    if (said.error) return said.gone || !state.joined ? forget(said.error) : change({ said: said.error });
    if (said.ended) return forget(said.ended);
    if (said.refused) return refuse(said.refused);
    const first = !state.joined || state.lost,
      { followers = 0, led = true, at, asked = 0 } = said,
      poll = said.poll && timed(said.poll);
    tries = 0;
    if (poll?.number !== state.poll?.number) unsent = unsent.filter(message => !('answer' in message)); // it was for another question
    change({
      joined: true,
      lost: false,
      poll,
      asked,
      followers,
      led: !!place?.secret || led,
      begun: !!at,
    });
    if (first) unsent.splice(0).forEach(say);
    if (place?.secret) {
      if (first) lead(); // what is shown here counts, also after the server was away
    } else if (at) follow(at);
  }
  function forget(/** @type {string} */ text) {
    const was = socket;
    [socket, place, told, applied, settled, strayed] = [null, null, null, '', '', false];
    clearTimeout(timer);
    was?.close();
    [unsent, clock.pin] = [[], null];
    tab.writeJson(HERE, null);
    change({
      code: '',
      leads: false,
      joined: false,
      lost: false,
      poll: null,
      begun: false,
      said: text,
    });
  }
  const ready = () => socket?.readyState === 1 && state.joined && !state.lost;
  const say = (/** @type {object} */ message) => {
    if (ready()) socket?.send(JSON.stringify(message));
    else unsent.push(message);
  };
  function refuse(/** @type {string} */ text) {
    change({ said: text });
    setTimeout(() => change({ said: '' }), 8000);
  }

  // ---- leading ----
  function lead() {
    if (!place?.secret || sending) return;
    sending = setTimeout(() => {
      sending = 0;
      if (app.question.asking || !app.root.dataset.shown) return; // told when it is there
      const link = linkNow();
      if (link !== pinnedAt) [pin, pinnedAt] = [null, link]; // it was of another picture
      if (place?.secret && ready()) say({ at: { link, step: clock.count > 1 ? clock.step : null, pin } });
    }, PACE);
  }

  // ---- following ----
  function follow(/** @type {At} */ at) {
    told = at;
    if (strayed) return change({});
    if (at.link !== applied) {
      applied = at.link;
      settled = '';
      app.visits.visit(at.step === null ? at.link : `${at.link}&step=${at.step + 1}`, true);
    } else if (settled) put();
  }
  // The step and the pinned cell, where the leader's run is shown.
  function put() {
    if (typeof told?.step === 'number') clock.set(told.step, 'lead');
    point(told?.pin ?? null);
  }
  function onMoment() {
    if (place?.secret) return lead();
    if (!place || strayed || !applied) return;
    const link = linkNow();
    if (settled && link !== settled) return stray();
    if (settled) return;
    settled = link;
    put();
  }
  function stray() {
    strayed = true;
    point(null);
    change({});
  }
  // Pins what the leader pinned, where it is shown.
  function point(/** @type {At['pin']} */ at) {
    clock.pin = at;
    clock.tell('pin');
  }
  const ends = [
    listen(news, 'moment', onMoment),
    listen(news, 'hand', () => {
      if (place && !place.secret && told && !strayed) stray();
    }),
    listen(clock, 'step', ({ detail: { why } }) => {
      if (place?.secret) return lead();
      if (place && told && !strayed && settled && BY_HAND.includes(why)) stray();
    }),
    listen(clock, 'pinned', ({ detail }) => {
      [pin, pinnedAt] = [detail, linkNow()];
      lead();
    }),
  ];

  function enter(/** @type {string} */ code, secret = '') {
    socket?.close();
    place = { code: code.trim().toUpperCase(), ...(secret && { secret }) };
    [told, applied, settled, strayed, tries] = [null, '', '', false, 0];
    tab.writeJson(HERE, place);
    if (secret) browser.writeJson(LED, place);
    change({ code: place.code, leads: !!secret, joined: false, lost: false, said: '' });
    connect();
  }

  return {
    state: () => state,
    led: () => browser.readJson(LED),
    // Opens a room and leads it; secret: the server's room secret. Null, or {said, secret}: why
    // not, and whether the secret is wanting.
    async open(/** @type {string} */ secret) {
      try {
        const body = JSON.stringify({ secret }),
          answer = await fetch(`${base}/wg/rooms`, { method: 'POST', body }),
          made = await answer.json();
        if (made.error) return { said: made.error, secret: answer.status === 403 };
        enter(made.code, made.secret);
      } catch {
        return { said: 'The server was not reached.', secret: false };
      }
      return null;
    },
    join: (/** @type {string} */ code) => enter(code),
    leadAgain: () => {
      const before = browser.readJson(LED);
      if (before) enter(before.code, before.secret);
    },
    leave: () => forget(''),
    end() {
      say({ end: true });
      browser.writeJson(LED, null);
    },
    catchUp() {
      strayed = false;
      applied = '';
      change({});
      if (told) follow(told);
    },
    ask(/** @type {string} */ story, /** @type {story.Question} */ question) {
      const { id, kind, options } = question,
        texts = options.map(option => option.slice(0, LONGEST)),
        text = question.text.slice(0, LONGEST);
      say({ ask: { story, question: id, kind, options: options.length, text, texts } });
    },
    // No more votes, or votes again.
    lock: (/** @type {boolean} */ yes) => say({ lock: yes }),
    // The vote is locked after so many seconds.
    timer: (/** @type {number} */ seconds) => say({ timer: seconds }),
    // The answers of the class so far, as a file.
    async answers() {
      const found = await fetch(`${base}/wg/answers.csv`, { headers: asLeader() });
      if (!found.ok) throw new Error('The answers could not be fetched. Press again.');
      return found.blob();
    },
    reveal: () => say({ reveal: true }),
    answer: (/** @type {any} */ value) => say({ answer: value }),
    // A link that says class=CODE leads into it; a tab that was in a class is so again.
    begin() {
      const query = new URLSearchParams(location.search),
        code = query.get('class'),
        before = tab.readJson(HERE);
      if (code) {
        query.delete('class');
        history.replaceState(history.state, '', `${location.pathname}${query.size ? `?${query}` : ''}`);
        if (before?.code !== code.toUpperCase()) return enter(code);
      }
      if (before) enter(before.code, before.secret);
    },
    unmount() {
      ends.forEach(end => end());
      place = null;
      clearTimeout(timer);
      clearTimeout(sending);
      socket?.close();
    },
  };
}
