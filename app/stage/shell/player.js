// A sequence that is played by a clicker: PageDown and PageUp go through the steps of a moment and
// to the next one. Going elsewhere by hand is allowed; the next press, or "Back to the talk",
// returns. A reload keeps where one was.
import { askUntilDone } from './fetching.js';
import { makeNotes } from './notes.js';
import { button, element, listen } from '../core/paint.js';
import { minutesOf } from './sequence.js';
import { tab } from './storage.js';
import { valueAt } from '../core/moments.js';
import { viewOf } from '../core/views.js';

const KEPT = 'warpglass-talk'; // in sessionStorage: {ref, at, began, first, arrived}

/** @typedef {import('./sequence.js').Moment} Moment */
/**
 * first: the moment's first step; arrived: its link in full, null until it is there.
 * @typedef {{ref: string, moments: Moment[], at: number, began: number, first: number,
 *   arrived: string | null}} Talk
 */

const minutesAndSeconds = (/** @type {number} */ seconds) =>
  `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, '0')}`;
const split = (/** @type {string} */ link) => {
  const [path, query] = link.split('?');
  return { path, params: Object.fromEntries(new URLSearchParams(query)) };
};
// A link without some of its choices, for a comparison.
/** @param {string} link @param {string[]} names */
function without(link, ...names) {
  const { path, params } = split(link);
  return JSON.stringify([
    path,
    Object.entries(params)
      .filter(([one]) => !names.includes(one))
      .sort(),
  ]);
}
const stepless = (/** @type {string} */ link) => without(link, 'step');
const runOf = (/** @type {string} */ link) => without(link, 'step', 'picture', 'tab');

// Returns among others notes: the button of their window, and slide: the title over the stage.
/** @param {App} app */
export function makePlayer(app) {
  const { stage, news, base } = app,
    { clock } = stage,
    now = () => app.address.now();
  const place = element('b', { class: 'place' }),
    title = element('span', { class: 'name' }),
    time = element('output', { 'aria-live': 'off' });
  const slide = element('p', { class: 'slide', hidden: true }); // the title over a presented moment
  const back = button('Back to the talk', () => go(talk.at), { class: 'back', hidden: true });
  const said = element('p', { class: 'told', role: 'status' });
  // The notes have a window of their own: the class sees this page.
  const openNotes = () => {
    app.present.keep();
    said.textContent = notes.open()
      ? ''
      : 'The browser did not open a window. Allow this site to open windows, then press again.';
    draw();
  };
  const notesTitle = { title: 'The notes, in a window for the speaker\u2019s screen' };
  // in the line of present mode
  const apart = button('Notes', openNotes, { ...notesTitle, class: 'leave', hidden: true });
  const node = element(
    'section',
    { class: 'player', hidden: true, 'aria-label': 'The talk' },
    element(
      'div',
      { class: 'controls' },
      button('Previous', () => move(-1), { title: 'The step or the moment before (PageUp)' }),
      button('Next', () => move(1), { title: 'The next step or moment (PageDown)' }),
      place,
      title,
      back,
      said,
      time,
      button('Notes', openNotes, notesTitle),
      button('Stop', stop, { title: 'End the talk' }),
    ),
  );
  const notes = makeNotes(direction => {
    if (playing) move(direction);
  });
  let talk = /** @type {Talk} */ ({}), // while it plays
    playing = false,
    turn = 0,
    timer = 0;

  const moment = () => talk.moments[talk.at];
  const last = () => Math.min(clock.count - 1, talk.first + moment().steps);
  const away = () => !!talk.arrived && runOf(now()) !== runOf(talk.arrived);
  function keep() {
    const { moments, ...kept } = talk;
    tab.writeJson(KEPT, playing ? kept : null);
  }

  // ---- going ----
  // atEnd: at the last of the moment's steps, where one comes back from the moment after it.
  async function go(/** @type {number} */ to, atEnd = false) {
    const mine = ++turn,
      link = inFull(to);
    [talk.at, talk.arrived] = [to, null];
    draw();
    app.depth.arrive({ depth: 'guided' }); // no code, until the speaker asks for it
    await app.visits.visit(link);
    if (mine !== turn || !playing) return;
    [talk.first, talk.arrived] = [clock.step, now()];
    if (atEnd && moment().steps) clock.set(last(), 'user');
    draw();
    keep();
    ahead();
  }
  // A moment's link. Where only the step is another than in the moment before, all that was arrived
  // at says: such a step is no question to the server.
  function inFull(/** @type {number} */ to) {
    const { link } = talk.moments[to],
      { step } = split(link).params;
    if (!talk.arrived || !step || stepless(link) !== stepless(moment().link)) return link;
    const { path, params } = split(talk.arrived);
    return `${path}?${new URLSearchParams({ ...params, step })}`;
  }
  /** @param {number} direction @returns {any} */
  function move(direction) {
    if (away()) return go(talk.at);
    const step = clock.step + direction,
      inside = talk.arrived && (direction > 0 ? step <= last() : step >= talk.first);
    if (inside) return clock.set(direction > 0 ? Math.max(step, talk.first) : Math.min(step, last()), 'user');
    const to = talk.at + direction;
    if (to >= 0 && to < talk.moments.length) return go(to, direction < 0);
  }
  // What the next moment will need, and no more: its stage, its pictures' modules and the tab that
  // it opens.
  async function ahead() {
    const mine = turn,
      current = () => mine === turn && playing,
      following = talk.moments[talk.at + 1];
    if (!following) return;
    const { path, params } = split(following.link),
      { backend } = split(now()).params;
    const fetched = async (/** @type {Texts} */ asked, part = '') => {
      const answer = await askUntilDone(base, { path, params: asked, part }, () => {}, current);
      // why there is none is told when one is there
      if (!current() || !answer.bundle) return null;
      return { link: answer.link, content: await stage.load(answer.bundle) };
    };
    try {
      const found = await fetched({ ...(backend && { backend }), ...params });
      if (!found) return;
      /** @type {Content} */ const content = found.content;
      for (const { kind } of content.views) {
        viewOf(kind);
        if (kind === 'chart') stage.host.charts();
      }
      const wanted = content.tabs.find(one => one.id === params.tab);
      if (!wanted || wanted.blocks) return;
      const choices = { ...found.link };
      if (content.step_choice && params.step)
        choices[content.step_choice] = String(valueAt(content, Number(params.step) - 1));
      await fetched(choices, wanted.id);
    } catch {
      /* told when one is there */
    }
  }

  // ---- the bar ----
  function draw() {
    node.hidden = apart.hidden = slide.hidden = !playing;
    app.root.classList.toggle('talking', playing);
    if (!playing) return;
    const { title: name, note } = moment(),
      following = talk.moments[talk.at + 1];
    title.textContent = title.title = name;
    slide.replaceChildren(element('small', {}, `${talk.at + 1} of ${talk.moments.length}`), ` ${name}`);
    follow();
    tick();
    notes.show({
      place: place.textContent,
      title: name,
      note: note || 'This moment has no note.',
      next: following ? `Next: ${following.title}` : 'This is the last moment.',
    });
  }
  // What changes with the step.
  function follow() {
    if (!playing) return;
    const gone = away(),
      steps = talk.arrived && !gone ? last() - talk.first : 0;
    const step = Math.max(0, Math.min(steps, clock.step - talk.first)),
      among = steps ? `, step ${step + 1} of ${steps + 1}` : '',
      at = `${talk.at + 1} of ${talk.moments.length}${among}`;
    if (place.textContent !== at) {
      place.textContent = at;
      notes.show({ place: at });
    }
    back.hidden = !gone;
  }
  function tick() {
    const before = minutesOf(talk.moments.slice(0, talk.at)),
      plan = [before, before + moment().minutes, minutesOf(talk.moments)],
      [from, to, all] = plan.map(minutes => minutesAndSeconds(60 * minutes)),
      now = minutesAndSeconds((Date.now() - talk.began) / 1000);
    time.textContent = `${now}, planned ${from} to ${to} of ${all}`;
    notes.show({ time: time.textContent });
  }

  // While a sequence plays the clicker is its own.
  stage.clicker = (direction, held) => {
    if (playing && !held) move(direction);
    return playing;
  };
  const ends = [clock.follow(follow), listen(news, 'moment', follow)];

  function begin(/** @type {Talk} */ given) {
    [talk, playing] = [given, true];
    said.textContent = '';
    clearInterval(timer);
    timer = setInterval(tick, 1000);
  }
  function stop() {
    turn++;
    playing = false;
    clearInterval(timer);
    notes.close();
    keep();
    draw();
  }
  return {
    node,
    slide,
    notes: apart,
    stop,
    playing: () => playing,
    // at: the moment to begin with.
    /** @param {import('./sequence.js').Sequence} sequence */
    play({ id, moments }, at = 0) {
      begin({ ref: id, moments, at, began: Date.now(), first: 0, arrived: null });
      return go(at);
    },
    // After a reload. find: gives the sequence, or nothing where it is gone.
    /** @param {(ref: string) => Promise<{moments: Moment[]} | undefined>} find */
    async resume(find) {
      const kept = tab.readJson(KEPT);
      const moments = kept && (await find(kept.ref))?.moments;
      if (!moments || playing) return;
      begin({ ...kept, moments, at: Math.min(kept.at, moments.length - 1) });
      draw();
      ahead();
    },
    unmount() {
      clearInterval(timer);
      notes.unmount();
      stage.clicker = null;
      ends.forEach(end => end());
    },
  };
}
