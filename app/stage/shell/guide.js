// The card of a stop: its idea, its questions one by one, and at the end what the idea wins. An
// answer that is not right is shown in the picture. What was answered stays in this browser, and is
// no score.
import { button, element, listen, way } from '../core/paint.js';
import { isRight } from './answers.js';
import { makeAsk } from './ask.js';
import { answered as read, inMinutes, keepAnswered as write, progress } from './course.js';

import { tab } from './storage.js';
import { makeVotes } from './votes.js';

const OPEN = 'warpglass-guide'; // in sessionStorage: whether who walks the course has the card open

const MOST = 3; // questions of a stop
/** @type {string[]} */ const NOTHING = [];

const was = () => tab.read(OPEN); // 'open', 'closed', or null: nobody has said
const keepOpen = (/** @type {boolean} */ yes) => tab.write(OPEN, yes ? 'open' : 'closed');

/** @param {App} app */
export function makeGuide(app) {
  const { news, course, stage, room, header, covering, root } = app,
    { clock } = stage;
  const title = element('h2', { tabindex: '-1' }),
    look = element('p', { class: 'look' }),
    turns = element('div', { class: 'turns' }),
    later = element('p', { class: 'later', hidden: true }), // where a question's step is still ahead, or its answer was seen
    opening = element('p', { class: 'opening' }), // title and idea, where the card is under the picture
    end = element('div', { class: 'end', hidden: true }),
    foot = element('div', { class: 'stops' });
  const ask = makeAsk(guess => answer(questions[at], guess)),
    votes = makeVotes({ room, over: () => ask.lock(true) });
  const close = button('\u00d7', () => show(false, true), {
    'aria-label': 'Close the guide',
    title: 'Close (Esc)',
    class: 'quiet close',
  });
  const body = element('div', { class: 'body' }, look, later, ask.node, votes.time, votes.bars, ask.said, turns, end);
  const node = element(
    'section',
    { class: 'guide', hidden: true, 'aria-label': 'Guide' },
    element('div', { class: 'top' }, title, close),
    body,
    foot,
  );
  /** @type {Stop | null} */ let stop = null;
  /** @type {story.Question[]} */ let questions = [];
  /** @type {Poll} */ let poll = null; // the question to the class
  /** @type {any} */ let given = null; // this browser's answer to the class
  /** @type {any} */ let shownPoll = null; // the number of the poll whose answer it has shown
  let at = 0,
    tries = 0, // wrong answers to this question
    walked = false, // the reader has stepped since it was asked
    told = false, // its answer is in the card
    early = false, // its step is still ahead
    passed = false, // the picture has shown its answer
    ended = false, // the way on is offered
    last = 0, // the step before
    showing = false, // the card itself sets the step
    led = false, // by this browser
    folded = false; // the presentation that runs has closed the card

  // ---- the card ----
  // The focus returns to the opener. Until it leaves, Space plays and does not press it again.
  const goBack = () => {
    header.asks.focus();
    header.asks.dataset.plays = '';
    header.asks.addEventListener('blur', () => delete header.asks.dataset.plays, { once: true });
  };
  const show = (/** @type {boolean} */ yes, byUser = false) => {
    if ((yes && !stop) || yes === !node.hidden) return;
    node.hidden = !yes;
    if (yes || byUser) keepOpen(yes);
    node.parentElement.toggleAttribute('data-guide', yes); // the parts beside it make room
    drawCover();
    header.asks.setAttribute('aria-expanded', String(yes));
    if (yes) {
      keep({ seen: true });
      fit();
      if (!byUser) return;
      const { frames } = stage.content,
        summary = frames[questions[at]?.step]?.summary; // of another run, where it differs
      if (frames[clock.step]?.summary !== summary) goTo();
      title.focus({ preventScroll: true });
      node.scrollIntoView({ block: 'nearest' }); // in a small window it is under the picture
    } else if (byUser) goBack();
  };
  const name = () => stop?.name ?? '';
  /** @returns {{done: string[], all?: boolean}} */
  const kept = () => ({ done: [], ...read()[name()] });
  const keep = (/** @type {object} */ change) => {
    write({ ...read(), [name()]: { ...kept(), ...change } });
    header.marks(progress());
  };
  const isDone = (/** @type {story.Question} */ question) => kept().done.includes(question.id);
  // The open question of the card, or null.
  const open = () => {
    const question = node.hidden ? null : questions[at];
    return question && !isDone(question) ? question : null;
  };
  const drawCover = () => {
    const question = open();
    root.classList.toggle('polled', isAsked());
    root.classList.toggle('covered', !!question);
    coverStep();
    clock.cover({ hide: covering.hide, covers: question?.covers ?? [] });
  };
  // The sentence is hidden at the question's own step only. Who steps on reads on.
  const coverStep = () => {
    const question = open(),
      away = clock.step - (question?.step ?? 0);
    root.dataset.veils = (question?.veils ?? []).filter(part => part !== 'sentence' || !away).join(' ');
    covering.cover(question?.hides ?? NOTHING, walked && away > 0);
  };
  const unstep = listen(clock, 'step', ({ detail: { step, why } }) => {
    const onward = step > last && why === 'user' && !showing;
    last = step;
    walked ||= why !== 'jump';
    opening.classList.toggle('known', step > 0);
    if (onward) goAlong();
    if (early !== isEarly()) draw(walked);
    else if (passed !== isPassed()) {
      drawLater();
      drawTurns();
      if (tries && !told) ask.step(passed);
    }
    coverStep();
    showFoot();
  });
  // Who steps past the answer of the open question is asked the next one that this picture still has ahead. An answer
  // in the card stays until then. Its hand may have led past the next question's answer: that one is asked all the same.
  const goAlong = () => {
    const ahead = (/** @type {story.Question} */ one) => isDone(questions[at]) || clock.step <= shownAt(one);
    const next = questions.findIndex((one, n) => n > at && !isDone(one) && ahead(one));
    if (next < 0 || isPolled() || (questions[next].view || stop?.picture) !== stage.picture) return;
    if (isDone(questions[at]) ? clock.step < questions[next].step : clock.step <= shownAt(questions[at])) return;
    if (ask.node.matches(':focus-within')) title.focus({ preventScroll: true });
    at = next;
    draw(clock.step > questions[next].step);
  };

  // ---- a question ----
  // Whether this picture of the course has the open question.
  const isHere = () => {
    const question = questions[at];
    if (!question || !stop?.number || isDone(question) || isPolled()) return false;
    return (question.view || stop.picture) === stage.picture;
  };
  // Its step is still ahead, or the reader has stepped on to its answer.
  const isEarly = () => isHere() && clock.step < questions[at].step;
  const isPassed = () => {
    if (!walked || !isHere() || questions[at].hides?.length || questions[at].covers?.length) return false;
    const { step, shows } = questions[at];
    return shows?.to !== undefined && clock.step > step && clock.step >= shows.to;
  };
  const drawLater = () => {
    const question = questions[at];
    [early, passed] = [isEarly(), isPassed()];
    later.hidden = !early && !passed;
    if (early) later.textContent = `Question ${at + 1} of ${questions.length} comes at step ${question.step + 1}.`;
    else if (passed) later.textContent = `The picture shows the answer at step ${shownAt(question) + 1}.`;
  };
  const draw = (past = false) => {
    const question = questions[at] ?? null;
    tries = 0;
    walked = past;
    clock.cover({ point: null });
    drawLater();
    ask.draw(early ? null : question, at + 1, questions.length);
    told = !!question && isDone(question) && !isVote();
    if (told) ask.tell(question, null, null); // who comes back reads the answer again
    drawCover();
    drawClass();
    drawEnd();
    body.scrollTop = 0;
  };
  const turn = (/** @type {number} */ to) => {
    at = to;
    if (!isLed()) choose(questions[at].view);
    draw();
    goTo();
  };
  const choose = (/** @type {string} */ picture) =>
    stage.choosePicture(picture || stop?.picture || stage.content.pictures?.[0]?.id);
  // The step of an open question.
  const goTo = () => {
    const question = questions[at];
    if (!question || isLed() || clock.count < 2 || isDone(question)) return;
    stage.bar.stop();
    clock.set(question.step, 'jump'); // its covers are there already
  };
  const drawTurns = () => {
    const voting = isVote(),
      question = questions[at];
    turns.replaceChildren(
      ...votes.controls(isPolled() ? poll : null, {
        ask: () => room.ask(stop?.story ?? '', question),
        reveal: () => {
          room.reveal();
          reveal(question);
        },
      }),
    );
    // Before an answer the options are the thing to press, and after it the next question.
    const known = isDone(question);
    /** @type {(turned: string, to: number, label?: string, look?: string) => void} */
    const offer = (turned, to, label = turned, look = 'quiet') => {
      const named = label === turned ? {} : { 'aria-label': `${label}: ${turned.toLowerCase()}` };
      turns.append(button(label, () => turn(to), { class: look, 'data-turn': turned, ...named }));
    };
    if (early) offer('Go to the question', at);
    else if (!voting && !passed)
      turns.append(
        button('Show me', () => (told ? showIn(question) : reveal(question)), {
          'data-show': true,
          class: known ? 'quiet' : '',
        }),
      );
    if (at + 1 < questions.length)
      offer(
        'Next question',
        at + 1,
        known ? undefined : 'Skip',
        known && !questions.every(isDone) ? 'primary' : 'quiet',
      );
    if (at > 0) offer('Previous question', at - 1, 'Back');
  };
  /** @param {story.Question} question @param {any} guess */
  const answer = (question, guess) => {
    if (told && !isVote()) return;
    if (!isPolled() && !tries && !isRight(guess, question)) {
      tries++;
      ask.retry(question, guess, passed);
      return inSight();
    }
    if (!isVote()) return reveal(question, guess);
    if (room.state().leads || poll.locked) return;
    given = guess;
    room.answer(question.kind === 'click' ? isRight(guess, question) : guess);
    ask.note('Your answer is sent, without your name. You can change it until the vote ends.');
  };
  // Where the answer is seen. back: also at a step before this one.
  const showIn = (/** @type {story.Question} */ question, back = true) => {
    const to = shownAt(question);
    stage.bar.stop();
    choose(question.view);
    showing = true;
    // who follows a class is led there
    if (clock.count > 1 && (back || clock.step < to)) clock.set(to, isPolled() ? 'jump' : 'user');
    if (clock.count < 2 || clock.step === to) clock.cover({ point: question.shows ?? null });
    showing = false;
  };
  // What the run says. A right answer leaves the reader where they are.
  /** @param {story.Question} question @param {any} guess */
  const reveal = (question, guess = null) => {
    const right = guess === null ? null : isRight(guess, question);
    if (!right && !isLed()) showIn(question, guess === null || isPolled());
    showing = true; // the picture may go to the step of its hand
    if (right) clock.tell('right', question.shows);
    showing = false;
    tries++;
    told = true;
    ask.lock(true);
    ask.tell(question, guess, right);
    const done = [...new Set([...kept().done, question.id])];
    keep({ seen: true, done, all: kept().all || questions.every(q => done.includes(q.id)) });
    drawLater();
    drawTurns();
    drawCover();
    drawEnd();
    inSight();
  };
  // What was said, and before all the chosen option and the question.
  const inSight = () => {
    for (const part of [ask.said, ask.node.querySelector('[aria-pressed=true]'), ask.node.querySelector('.question')])
      part?.scrollIntoView({ block: 'nearest' });
  };
  const unpick = listen(clock, 'picked', ({ detail }) => {
    const question = questions[at];
    if (!node.hidden && !early && question?.kind === 'click') answer(question, detail.thing);
  });

  // ---- the end of a stop: what its idea wins, and where more of it is ----
  const drawEnd = () => {
    const last = questions.at(-1); // whoever answers it has passed the others
    end.hidden = !stop || !(last ? questions.every(isDone) || (questions[at] === last && isDone(last)) : kept().all);
    end.replaceChildren(...(stop ? endOf(stop, link => app.visits.visit(link)) : []));
    showFoot();
    fit();
  };
  // The options that nobody chose leave the card only where the end has no room beside them.
  const fit = () => {
    node.classList.remove('tight');
    node.classList.toggle('tight', !end.hidden && body.scrollHeight > body.clientHeight + 1);
  };
  // The way on, from when the stop is answered or walked to its end. The rail has the ways to all stops at all times.
  const showFoot = () => {
    ended ||= !end.hidden || (questions.length > 0 && clock.step + 1 >= clock.count);
    foot.hidden = !ended;
    foot.querySelector('[data-go=next]')?.classList.toggle('primary', !end.hidden);
  };
  const drawFoot = () => {
    const to = stop && course.after(stop),
      attributes = { 'data-go': 'next' };
    foot.replaceChildren(
      ...(to ? [button(`${to.number} ${to.title} \u2192`, () => app.visits.toStop(to), attributes)] : []),
    );
  };

  // ---- the class ----
  const isPolled = () => !!poll && poll.story === stop?.story && poll.question === questions[at]?.id;
  const isVote = () => isPolled() && !!poll?.open;
  const isLed = () => {
    const { code, leads, strayed } = room.state();
    return isPolled() && !!code && !leads && !strayed;
  };
  // Answers go to the class, and are shown later.
  const isAsked = () => isVote() && !room.state().leads;
  const drawClass = () => {
    const question = questions[at];
    if (!question) return turns.replaceChildren();
    votes.draw(question, isPolled() ? poll : null);
    ask.lock(told || (isVote() && (!!poll?.locked || room.state().leads)));
    drawTurns();
  };
  /** @type {(leads: boolean, poll: Poll) => string} */
  const stateOf = (leads, poll) =>
    JSON.stringify([leads, poll?.number, poll?.open, poll?.question, poll?.locked, poll?.ends]);
  const unclass = listen(news, 'class', ({ detail: { leads, poll: next } }) => {
    const before = poll,
      same = stateOf(led, poll) === stateOf(leads, next);
    [poll, led] = [next ?? null, leads];
    if (poll?.number !== before?.number) given = null;
    if (same) return votes.draw(questions[at], isPolled() ? poll : null);
    if (before?.open && !poll && questions[at]) draw(); // the class has ended
    if (told && isVote()) draw(); // whoever leads has answered it before
    takePoll(before, leads);
    drawClass();
    drawCover();
  });
  // The class is asked, or is shown the answer: a follower has the card open at that question.
  /** @param {Poll} before @param {boolean} leads */
  const takePoll = (before, leads) => {
    const n = questions.findIndex(({ id }) => id === poll?.question),
      isNew = before?.number !== poll?.number;
    if (!poll || leads || poll.story !== stop?.story || n < 0) return;
    if (!poll.open && isNew) return; // it was over before this browser came
    show(true);
    if (at !== n || (poll.open && isNew)) turn(n);
    if (!poll.open) {
      shownPoll = poll.number;
      reveal(questions[n], given);
    } else if (isNew) ask.note('This question is for the whole class. Answers have no names.');
  };

  const deafen = listen(document, 'keydown', event => {
    if (event.key === 'Escape' && !node.hidden && !event.defaultPrevented && node.isConnected) show(false, true);
  });

  return {
    node,
    opening,
    toggle() {
      show(node.hidden, true);
    },
    close() {
      show(false);
      keepOpen(false);
    },
    // A presentation begins without the card, and ends with the card as it was.
    presented(/** @type {boolean} */ yes) {
      if (yes) [folded] = [!node.hidden, show(false)];
      else if (folded) show(true);
    },
    // Another stop, or none; byRail: the reader came by the rail or the course; byLink: the page opens with it.
    /** @param {Stop | null} to @param {boolean} byRail @param {boolean} byLink */
    open(to, byRail, byLink) {
      [stop, questions, ended] = [to, [], false];
      stage.bar.stop();
      draw();
      if (!stop) return show(false);
      title.textContent = stop.number ? `${stop.number} ${stop.title}` : stop.title;
      title.title = `About ${inMinutes(stop.minutes)}`;
      look.textContent = stop.idea;
      opening.replaceChildren(element('b', {}, title.textContent), element('span', {}, ` ${stop.idea}`));
      drawFoot();
      // who reads along goes on, also by Back and after a reload; who closed it has closed it for the stops seen so far
      const unseen = byRail && !read()[stop.name]?.seen;
      show(unseen || (byRail || byLink ? was() !== 'closed' : was() === 'open'));
    },
    // A stage of this stop: its questions, in the stop's order, as far as the page asks them for these
    // choices. The same question stays asked.
    load(/** @type {Content} */ content) {
      const before = questions[at]?.id,
        own = (stop?.questions ?? []).flatMap(id => content.questions.find(one => one.id === id) ?? []),
        asked = own.length || !stop ? own : content.questions.slice(0, MOST),
        same = JSON.stringify(questions) === JSON.stringify(asked);
      if (same) return;
      questions = asked;
      at = questions.findIndex(({ id }) => id === before);
      if (at < 0) at = questions.findIndex(one => !isDone(one));
      at = Math.max(0, at);
      draw();
      if (poll?.open) takePoll(null, room.state().leads);
      else if (poll && poll.number === shownPoll) takePoll(poll, room.state().leads); // led to the answer's picture
    },
    unmount() {
      for (const end of [votes.unmount, deafen, unclass, unpick, unstep]) end();
    },
  };
}

// The step at which a question's answer is seen.
const shownAt = (/** @type {story.Question} */ { step, shows }) => shows?.to ?? step;

// The end of a stop: what its idea wins. What else differs, a link to go deeper and the paper open with a press.
// follow: goes to a moment.
/** @param {Stop} stop @param {(link: string) => void} follow @returns {Node[]} */
function endOf({ wins, small, source, deeper, paper }, follow) {
  const gain = [
    element('h3', {}, 'Why it matters'),
    element('p', { class: 'wins' }, wins),
    ...(source ? [element('p', { class: 'origin' }, `${source}.`)] : []),
  ];
  const links = element('p', { class: 'further' });
  if (deeper) links.append(way(deeper.link, () => follow(deeper.link), {}, `Go deeper: ${deeper.label}`));
  if (paper) {
    const link = { href: paper.link, target: '_blank', rel: 'noopener' };
    links.append(element('a', link, `Source: ${paper.label}`));
  }
  const more = element('details', {}, element('summary', {}, small ? 'What else differs, and sources' : 'Sources'));
  if (small) more.append(element('p', {}, small));
  more.append(links);
  more.ontoggle = () => more.scrollIntoView({ block: 'nearest' });
  return [...(wins ? gain : []), ...(small || links.children.length ? [more] : [])];
}
