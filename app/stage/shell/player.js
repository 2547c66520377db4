// A sequence that is played by a clicker: PageDown and PageUp go through the steps of a moment and
// to the next one. Going elsewhere by hand is allowed; the next press, or "Back to the talk",
// returns. A reload keeps where one was.
import { askUntilDone } from './fetching.js';
import { makeNotes } from './notes.js';
import { button, element } from '../core/paint.js';
import { minutesOf } from './sequence.js';
import { tab } from './storage.js';
import { viewOf } from '../core/views.js';

const KEPT = 'warpglass-talk'; // in sessionStorage: {ref, at, began, first, arrived}

const minutesAndSeconds = seconds =>
  `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, '0')}`;
const split = link => {
  const [path, query] = link.split('?');
  return { path, params: Object.fromEntries(new URLSearchParams(query)) };
};
// What a link says but the step; which run it shows: all but the browser's own.
function stepless(link) {
  const {
    path,
    params: { step, ...rest },
  } = split(link);
  return JSON.stringify([path, Object.entries(rest).sort()]);
}
function runOf(link) {
  const {
    path,
    params: { picture, tab, ...rest },
  } = split(link);
  return stepless(`${path}?${new URLSearchParams(rest)}`);
}

// now(): the link of what is shown; visit(link): goes there, and is done when it is shown. Returns
// opens(): the window of the notes does. Returns {node, notes, playing, play, resume, stop, unmount};
// notes: the button of their window.
export function makePlayer({ stage, news, base, now, visit, opens }) {
  const { clock } = stage;
  const place = element('b', { class: 'place' }),
    title = element('span', { class: 'name' }),
    time = element('output', { 'aria-live': 'off' });
  const back = button('Back to the talk', () => go(talk.at), { class: 'back', hidden: true });
  const said = element('p', { class: 'told', role: 'status' });
  // The notes have a window of their own: the class sees this page.
  const notesButton = more =>
    button(
      'Notes',
      () => {
        opens();
        said.textContent = notes.open()
          ? ''
          : 'The browser did not open a window. Allow this site to open windows, then press again.';
        draw();
      },
      { title: 'The notes, in a window for the speaker\u2019s screen', ...more },
    );
  const apart = notesButton({ class: 'leave', hidden: true }); // in the line of present mode
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
      notesButton(),
      button('Stop', stop, { title: 'End the talk' }),
    ),
  );
  const notes = makeNotes({
    move: direction => {
      if (talk) move(direction);
    },
  });
  let talk = null,
    turn = 0,
    // talk: {ref, moments, at, began, first, arrived}; first: the moment's first step;
    // arrived: its link in full, null until it is there
    timer = 0;

  const moment = () => talk.moments[talk.at];
  const last = () => Math.min(clock.count - 1, talk.first + moment().steps);
  const away = () => !!talk.arrived && runOf(now()) !== runOf(talk.arrived);
  function keep() {
    if (!talk) return tab.write(KEPT, null);
    const { ref, at, began, first, arrived } = talk;
    tab.writeJson(KEPT, { ref, at, began, first, arrived });
  }

  // ---- going ----
  // atEnd: at the last of the moment's steps, where one comes back from the moment after it.
  async function go(to, atEnd = false) {
    const mine = ++turn,
      link = inFull(to);
    [talk.at, talk.arrived] = [to, null];
    draw();
    await visit(link);
    if (mine !== turn || !talk) return;
    [talk.first, talk.arrived] = [clock.step, now()];
    if (atEnd && moment().steps) clock.set(last(), 'user');
    draw();
    keep();
    ahead();
  }
  // A moment's link. Where only the step is another than in the moment before, all that was arrived
  // at says: such a step is no question to the server.
  function inFull(to) {
    const { link } = talk.moments[to],
      { step } = split(link).params;
    if (!talk.arrived || !step || stepless(link) !== stepless(moment().link)) return link;
    const { path, params } = split(talk.arrived);
    return `${path}?${new URLSearchParams({ ...params, step })}`;
  }
  function move(direction) {
    if (away()) return go(talk.at);
    const step = clock.step + direction,
      inside = talk.arrived && (direction > 0 ? step <= last() : step >= talk.first);
    if (inside)
      return clock.set(direction > 0 ? Math.max(step, talk.first) : Math.min(step, last()), 'user');
    const to = talk.at + direction;
    if (to >= 0 && to < talk.moments.length) return go(to, direction < 0);
  }
  // What the next moment will need, and no more: its stage, its pictures' modules and the tab that
  // it opens.
  async function ahead() {
    const mine = turn,
      current = () => mine === turn && !!talk,
      following = talk.moments[talk.at + 1];
    if (!following) return;
    const { path, params } = split(following.link),
      { backend } = split(now()).params;
    const made = async (asked, part) => {
      const said = await askUntilDone(base, { path, params: asked, part }, () => {}, current);
      // why there is none is told when one is there
      return current() && said.bundle ? { said, content: await stage.load(said.bundle) } : null;
    };
    try {
      const found = await made({ ...(backend && { backend }), ...params }),
        { views = [], tabs = [], step_choice, step_values } = found?.content ?? {};
      for (const { kind } of views) {
        viewOf(kind);
        if (kind === 'chart') stage.host.charts();
      }
      const wanted = tabs.find(one => one.id === params.tab);
      if (wanted && !wanted.blocks)
        await made(
          {
            ...found.said.link,
            ...(step_choice &&
              params.step && {
                [step_choice]: String(
                  step_values?.[Number(params.step) - 1] ?? Number(params.step) - 1,
                ),
              }),
          },
          wanted.id,
        );
    } catch {
      /* told when one is there */
    }
  }

  // ---- the bar ----
  function draw() {
    node.hidden = apart.hidden = !talk;
    if (!talk) return;
    const { title: name, note } = moment(),
      following = talk.moments[talk.at + 1];
    title.textContent = title.title = name;
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
    if (!talk) return;
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
      [from, to, all] = [before, before + moment().minutes, minutesOf(talk.moments)].map(m =>
        minutesAndSeconds(60 * m),
      );
    time.textContent = `${minutesAndSeconds((Date.now() - talk.began) / 1000)}, planned ${from} to ${to} of ${all}`;
    notes.show({ time: time.textContent });
  }

  // While a sequence plays the clicker is its own.
  stage.clicker = (direction, held) => {
    if (talk && !held) move(direction);
    return !!talk;
  };
  clock.addEventListener('step', follow);
  news.addEventListener('moment', follow);

  function begin(given) {
    talk = given;
    said.textContent = '';
    clearInterval(timer);
    timer = setInterval(tick, 1000);
  }
  function stop() {
    turn++;
    talk = null;
    clearInterval(timer);
    notes.close();
    keep();
    draw();
  }
  return {
    node,
    notes: apart,
    stop,
    playing: () => !!talk,
    // ref: what `resume` finds it by; {title, moments}; at: the moment to begin with.
    play(ref, { moments }, at = 0) {
      begin({ ref, moments, at, began: Date.now(), first: 0, arrived: null });
      return go(at);
    },
    // After a reload: find(ref) gives the sequence, or nothing where it is gone.
    async resume(find) {
      const kept = tab.readJson(KEPT);
      const moments = kept && (await find(kept.ref))?.moments;
      if (!moments || talk) return;
      begin({ ...kept, moments, at: Math.min(kept.at, moments.length - 1) });
      draw();
      ahead();
    },
    unmount() {
      clearInterval(timer);
      notes.unmount();
      stage.clicker = null;
      clock.removeEventListener('step', follow);
      news.removeEventListener('moment', follow);
    },
  };
}
