// The course at a stop: what to look for, a question before the reveal, and by how much the guess
// was off. The run answers; a wrong answer is shown where it can be seen. What was answered stays
// in this browser, and is no score.
import { button, element, number } from '../core/paint.js';
import { isRight, told, worded } from './answers.js';
import { answered as read, keepAnswered as write } from './course.js';
import { tab } from './storage.js';

const CORNERS = ['bottom-left', 'bottom-right', 'top-right', 'top-left']; // of the picture
const OPEN = 'warpglass-guide'; // in sessionStorage: whether who walks the course has the card open
const SHORT = 18; // characters: options of so few stand in two columns

const was = () => tab.read(OPEN); // 'open', 'closed', or null: nobody has said
const keepOpen = yes => tab.write(OPEN, yes ? 'open' : 'closed');

// course: the stops; choose(picture): shows a picture of the stage; visit(stop): to another stop;
// marked(): progress has changed; opened(yes): the card was opened or closed;
// cover(question): hides what answers it, null once it is answered; opener(): the button that
// opens it; lesson: the class that this browser leads or follows (room.js).
export function makeGuide({
  clock,
  news,
  course,
  choose,
  visit,
  marked,
  opened,
  cover,
  opener,
  lesson,
}) {
  const title = element('h2', { tabindex: '-1' }),
    look = element('p', { class: 'look' }),
    ask = element('div', { class: 'ask' }),
    votes = element('div', { class: 'votes', hidden: true });
  const said = element('div', { class: 'answer', role: 'status', 'aria-live': 'polite' });
  const turns = element('div', { class: 'turns' }),
    foot = element('div', { class: 'stops' });
  const close = button('\u00d7', () => show(false, true), {
    'aria-label': 'Close the guide',
    title: 'Close (Esc)',
    class: 'quiet close',
  });
  const move = button(
    '\u21c4',
    () => {
      node.dataset.corner = CORNERS[(CORNERS.indexOf(node.dataset.corner) + 1) % CORNERS.length];
      dock();
    },
    { 'aria-label': 'Move to another corner', title: 'To another corner', class: 'quiet close' },
  );
  const fold = button('What to look for', () => unfold(!node.classList.contains('unfolded')), {
    class: 'quiet fold',
    'aria-expanded': 'false',
  });
  const body = element('div', { class: 'body' }, look, ask, votes, said);
  const node = element(
    'section',
    { class: 'guide', hidden: true, 'aria-label': 'Guide', 'data-corner': CORNERS[0] },
    element('div', { class: 'top' }, title, fold, move, close),
    body,
    turns,
    foot,
  );
  let stop = null,
    questions = [],
    at = 0,
    poll = null,
    led = false,
    given = null; // poll: what the class is asked; led: by this browser; given: its answer

  // Where there is room the picture stands beside the card (stage.css).
  const dock = () => {
    if (node.hidden) delete node.parentElement.dataset.guide;
    else node.parentElement.dataset.guide = node.dataset.corner;
  };
  // The question and all its options come first: where there is no room for both, and in a narrow
  // window, what to look for is folded.
  const fit = () => {
    node.classList.remove('tight');
    node.classList.toggle(
      'tight',
      questions.length > 0 &&
        (narrow.matches || !votes.hidden || body.scrollHeight > body.clientHeight),
    );
  };
  const room = new ResizeObserver(fit),
    narrow = matchMedia('(max-width: 760px)');
  const unfold = yes => {
    node.classList.toggle('unfolded', yes);
    fold.setAttribute('aria-expanded', String(yes));
    if (yes) body.scrollTop = 0;
  };
  const isStop = () => !!stop;
  // The focus returns to the opener. Until it leaves, Space plays and does not press it again.
  const goBack = () => {
    const button = opener();
    if (!button) return;
    button.focus();
    button.dataset.plays = '';
    button.addEventListener('blur', () => delete button.dataset.plays, { once: true });
  };
  const show = (yes, byUser = false) => {
    if (yes && !isStop()) return;
    if (yes === !node.hidden) return;
    node.hidden = !yes;
    if (yes || byUser) keepOpen(yes);
    dock();
    drawVeil();
    opened(yes);
    if (yes) {
      keep({ seen: true });
      room.observe(node.parentElement);
      fit();
      if (byUser) title.focus({ preventScroll: true });
    } else if (byUser) goBack();
  };
  const keep = change => {
    const kept = read(),
      mine = { done: [], ...kept[stop.name], ...change };
    write({ ...kept, [stop.name]: mine });
    marked();
    return mine;
  };
  const drawVeil = () => {
    const question = node.hidden ? null : questions[at],
      done = read()[stop?.name]?.done ?? [];
    cover(question && !done.includes(question.id) ? question : null, isAsked());
  };
  const answered = question => {
    const done = [...new Set([...(read()[stop.name]?.done ?? []), question.id])];
    keep({
      seen: true,
      done,
      all: questions.every(q => done.includes(q.id)) || !!read()[stop.name]?.all,
    });
    drawVeil();
  };

  // ---- a question ----
  const draw = () => {
    const question = questions[at];
    said.replaceChildren();
    said.className = 'answer';
    node.classList.remove('told');
    unfold(false);
    clock.cover({ point: null });
    drawVeil();
    drawVotes();
    if (!question) {
      ask.replaceChildren();
      turns.replaceChildren();
      return;
    }
    ask.replaceChildren(
      element('p', { class: 'of' }, `Question ${at + 1} of ${questions.length}`),
      element('p', { class: 'question' }, question.text),
      control(question),
    );
    drawTurns();
    fit();
  };
  const control = question => {
    if (question.kind === 'options') {
      return element(
        'div',
        {
          class: question.options.every(text => text.length <= SHORT) ? 'options short' : 'options',
          role: 'group',
          'aria-label': 'Answers',
        },
        ...question.options.map((text, n) =>
          button(
            text,
            event => {
              press(event.currentTarget);
              answer(question, n);
            },
            { class: 'option', 'data-option': n, 'aria-pressed': 'false' },
          ),
        ),
      );
    }
    if (question.kind === 'click')
      return element(
        'p',
        { class: 'hint' },
        'Click it in the picture, or reach it with Alt and the arrow keys and press Enter.',
      );
    const input = element('input', {
      type: 'number',
      step: 'any',
      'aria-label': 'Your answer',
      inputmode: 'decimal',
    });
    const form = element(
      'form',
      { class: 'number' },
      input,
      element(
        'span',
        {},
        [question.unit, question.tolerance ? `to within ${number(100 * question.tolerance)} %` : '']
          .filter(Boolean)
          .join(', '),
      ),
      element('button', { type: 'submit' }, 'Answer'),
    );
    form.onsubmit = event => {
      event.preventDefault();
      if (input.value.trim() !== '' && Number.isFinite(input.valueAsNumber))
        answer(question, input.valueAsNumber);
    };
    return form;
  };
  const press = pressed =>
    [...ask.querySelectorAll('.option')].forEach(b =>
      b.setAttribute('aria-pressed', String(b === pressed)),
    );
  const drawTurns = () => {
    const one = (label, to) =>
      button(
        label,
        () => {
          at = to;
          draw();
        },
        { class: 'quiet', 'data-turn': label },
      );
    turns.replaceChildren(
      ...forClass(questions[at]),
      ...(isAsked() ? [] : [button('Show me', () => reveal(questions[at]), { 'data-show': true })]),
      ...(at > 0 ? [one('Previous question', at - 1)] : []),
      ...(at + 1 < questions.length ? [one('Next question', at + 1)] : []),
    );
  };
  const answer = (question, guess) => {
    if (isAsked()) return send(question, guess);
    reveal(question, guess);
  };
  // What the run says, and where it is seen. A right answer leaves the reader where they are.
  const reveal = (question, guess = null) => {
    const right = guess === null ? null : isRight(guess, question);
    said.className = `answer ${right === true ? 'right' : right === false ? 'off' : ''}`;
    said.replaceChildren(
      ...told(question, guess).map(([bold, text]) =>
        element('p', {}, ...(bold ? [element('b', {}, bold), ' '] : []), text),
      ),
    );
    if (question.kind === 'options')
      [...ask.querySelectorAll('.option')].forEach((b, n) =>
        b.classList.toggle('true', n === question.answer),
      );
    if (!right && !isLed()) {
      choose(question.view);
      // who follows a class is led there
      if (clock.count > 1) clock.set(question.step, isPolled() ? 'jump' : 'user');
      clock.cover({ point: question.shows ?? null });
    }
    // what to look for makes room, in a narrow window the question too: the picture shows it now
    node.classList.add('told');
    unfold(false);
    said.scrollIntoView({ block: 'nearest' });
    answered(question);
    const next = turns.querySelector('[data-turn="Next question"]');
    next?.classList.remove('quiet');
  };
  const onPicked = ({ detail }) => {
    const question = questions[at];
    if (!node.hidden && question?.kind === 'click') answer(question, detail.thing);
  };
  clock.addEventListener('picked', onPicked);

  // ---- the class is asked ----
  const isPolled = () =>
    !!poll && poll.story === stop?.story && poll.question === questions[at]?.id;
  const isLed = () =>
    // who leads shows where it is seen
    isPolled() && !!lesson.state().code && !lesson.state().leads && !lesson.state().strayed;
  // answers go to the class, and are shown later
  const isAsked = () => isPolled() && poll.open && !lesson.state().leads;
  const send = (question, guess) => {
    given = guess;
    lesson.answer(question.kind === 'click' ? isRight(guess, question) : guess);
    said.className = 'answer';
    said.replaceChildren(
      element(
        'p',
        {},
        'Your answer is sent, without your name. Until the class is shown what the run says, you can change it.',
      ),
    );
  };
  const forClass = question => {
    if (!lesson.state().leads) return [];
    if (isPolled() && poll.open)
      return [
        button(
          'Show the class what the run says',
          () => {
            lesson.reveal();
            reveal(question);
          },
          { 'data-reveal': true },
        ),
      ];
    return [
      button('Ask the class', () => lesson.ask(stop.story, question), { 'data-ask-class': true }),
    ];
  };
  // What the class has answered, for who leads it: a bar for each answer.
  const drawVotes = () => {
    votes.hidden = !(isPolled() && poll.counts);
    if (votes.hidden) return;
    const question = questions[at],
      most = Math.max(1, ...poll.counts.map(([, n]) => n)),
      { followers } = lesson.state();
    const text = value =>
      question.kind === 'options'
        ? question.options[value]
        : question.kind === 'click'
          ? value
            ? 'What is asked for'
            : 'Something else'
          : worded(question, value);
    const shown = [...poll.counts]
      .sort((a, b) => (question.kind === 'number' ? b[1] - a[1] : 0))
      .slice(0, 12);
    votes.replaceChildren(
      element(
        'p',
        { role: 'status' },
        `${number(poll.answers)} of ${number(followers)} ` +
          `answered.${shown.length < poll.counts.length ? ` The ${shown.length} most frequent answers:` : ''}`,
      ),
      ...shown.map(([value, n]) =>
        element(
          'div',
          { class: 'vote', 'data-value': String(value) },
          element('i', { style: `width:${(100 * n) / most}%` }),
          element('span', {}, text(value)),
          element('b', {}, number(n)),
        ),
      ),
    );
  };
  const stateOf = (leads, now) => JSON.stringify([leads, now?.number, now?.open, now?.question]);
  const onClass = ({ detail: { leads, poll: next } }) => {
    const before = poll,
      same = stateOf(led, poll) === stateOf(leads, next);
    [poll, led] = [next ?? null, leads];
    drawVotes();
    if (same) return;
    if (poll?.number !== before?.number) given = null;
    if (before?.open && !poll && questions[at]) draw(); // the class has ended
    if (stop) takePoll(before, leads);
    if (questions[at]) drawTurns();
    drawVeil();
    fit();
  };
  // The class is asked, or shown what the run says: who follows has the card open at that question.
  const takePoll = (before, leads) => {
    const n = questions.findIndex(q => q.id === poll?.question);
    if (!poll || leads || poll.story !== stop.story || n < 0) return;
    if (!poll.open && before?.number !== poll.number) return; // it was over before one came
    show(true);
    if (at !== n || poll.open) {
      at = n;
      draw();
    }
    if (poll.open)
      said.replaceChildren(element('p', {}, 'The class is asked. Answers have no names.'));
    else {
      reveal(questions[n], given);
    }
  };
  news.addEventListener('class', onClass);

  // ---- opening, closing, going on ----
  const onKey = event => {
    if (event.key !== 'Escape' || node.hidden || event.defaultPrevented || !node.isConnected)
      return;
    show(false, true);
  };
  document.addEventListener('keydown', onKey);

  return {
    node,
    toggle() {
      show(node.hidden, true);
    },
    close() {
      show(false);
      keepOpen(false);
    },
    // Another stop, or none; byRail: the reader came by the rail or the course, and not by a link.
    open(to, byRail) {
      stop = to;
      questions = [];
      drawVeil();
      if (!isStop()) return show(false);
      title.textContent = `${to.number} ${to.title}`;
      look.textContent = to.idea;
      const ways = [
        [course.before(to), 'previous', to => `\u2190 ${to.number} ${to.title}`],
        [course.after(to), 'next', to => `${to.number} ${to.title} \u2192`],
      ].filter(([there]) => there);
      foot.replaceChildren(
        ...ways.map(([there, name, label]) =>
          button(label(there), () => visit(there), { 'data-go': name }),
        ),
      );
      node.classList.remove('told');
      ask.replaceChildren();
      said.replaceChildren();
      turns.replaceChildren();
      // who reads along goes on, also by Back and after a reload; who closed it is left alone
      show(was() === 'open' || (byRail && was() !== 'closed' && !read()[to.name]?.seen));
    },
    // A stage of this story: its questions. The same question stays asked.
    load(stage) {
      const before = questions[at]?.id,
        asked = questionsOf(stop, stage.questions),
        same = JSON.stringify(questions) === JSON.stringify(asked);
      questions = asked;
      if (same) return;
      at = Math.max(
        0,
        questions.findIndex(q => q.id === before),
      );
      draw();
      if (poll?.open) takePoll(null, lesson.state().leads);
    },
    unmount() {
      document.removeEventListener('keydown', onKey);
      news.removeEventListener('class', onClass);
      clock.removeEventListener('picked', onPicked);
      room.disconnect();
    },
  };
}

// A stop's questions, in its order, as far as the page asks them for these choices.
const questionsOf = (stop, questions) =>
  (stop?.questions ?? []).flatMap(id => questions.find(question => question.id === id) ?? []);
