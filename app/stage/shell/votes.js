// A question to the class, in the card: the votes and the controls of the leader, and the time left
// for all.
import { button, element, number } from '../core/paint.js';
import { isRight, worded } from './answers.js';

const TIMES = [30, 60, 90]; // seconds of a timer, as in messages.py
const MOST = 12; // shown answers
const TICK = 250; // ms

// room: the class (room.js); over(): the time has just run out.
export function makeVotes({ room, over }) {
  const bars = element('div', { class: 'votes', hidden: true }),
    time = element('p', { class: 'time', role: 'timer', hidden: true });
  let ticking = 0;
  const tick = ends => {
    const left = Math.max(0, Math.ceil((ends - Date.now()) / 1000)),
      text = `${left} s left to vote.`;
    if (time.textContent !== text) time.textContent = text;
    if (left) return;
    clearInterval(ticking);
    over();
  };
  const answerOf = (question, value) =>
    question.kind === 'click'
      ? value
        ? 'The right place'
        : 'Another place'
      : question.kind === 'options'
        ? question.options[value]
        : worded(question, value);
  const isTrue = (question, value) =>
    question.kind === 'click' ? value : isRight(value, question);

  return {
    bars,
    time,
    // poll: of this question, or null.
    draw(question, poll) {
      clearInterval(ticking);
      const ends = poll?.open && !poll.locked ? poll.ends : null;
      time.hidden = !(poll?.open && (poll.locked || ends));
      if (ends) {
        tick(ends);
        ticking = setInterval(() => tick(ends), TICK);
      } else time.textContent = 'The vote is locked.';
      bars.hidden = !poll?.counts;
      if (bars.hidden) return;
      const most = Math.max(1, ...poll.counts.map(([, n]) => n)),
        { followers } = room.state(),
        frequent = question.kind === 'number' ? (a, b) => b[1] - a[1] : () => 0,
        shown = poll.counts.toSorted(frequent).slice(0, MOST),
        cut = shown.length < poll.counts.length ? ` The ${MOST} most frequent answers:` : '';
      bars.replaceChildren(
        element(
          'p',
          { role: 'status' },
          `${number(poll.answers)} of ${number(followers)} answered.${cut}`,
        ),
        ...shown.map(([value, n]) =>
          element(
            'div',
            {
              class: `vote${!poll.open && isTrue(question, value) ? ' true' : ''}`,
              'data-value': String(value),
            },
            element('i', { style: `width:${(100 * n) / most}%` }),
            element('span', {}, answerOf(question, value)),
            element('b', {}, number(n)),
          ),
        ),
      );
    },
    // The buttons of the leader. poll: of this question, or null; ask(), reveal(): by the card.
    controls(poll, { ask, reveal }) {
      if (!room.state().leads) return [];
      if (!poll?.open) return [button('Ask the class', ask, { 'data-ask-class': true })];
      return [
        button('Show the answer', reveal, { 'data-reveal': true }),
        button(poll.locked ? 'Open the vote' : 'Lock the vote', () => room.lock(!poll.locked), {
          'data-lock': true,
        }),
        ...TIMES.map(seconds =>
          button(`${seconds} s`, () => room.timer(seconds), {
            class: 'quiet',
            'data-timer': seconds,
            title: `Lock the vote in ${seconds} seconds`,
          }),
        ),
      ];
    },
    unmount() {
      clearInterval(ticking);
    },
  };
}
