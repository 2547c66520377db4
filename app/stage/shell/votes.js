// A question to the class, in the card: the votes and the controls of the leader, and the time left
// for all.
import { button, element, number } from '../core/paint.js';
import { isRight, worded } from './answers.js';

const TIMES = [30, 60, 90]; // seconds of a timer, as in messages.py
const MOST = 12; // shown answers
const TICK = 250; // ms

// over: the time has just run out.
/** @param {{room: Room, over: () => void}} given */
export function makeVotes({ room, over }) {
  const bars = element('div', { class: 'votes', hidden: true }),
    time = element('p', { class: 'time', role: 'timer', hidden: true });
  let ticking = 0;
  const tick = (/** @type {number} */ ends) => {
    const left = Math.max(0, Math.ceil((ends - Date.now()) / 1000)),
      text = `${left} s left to vote.`;
    if (time.textContent !== text) time.textContent = text;
    if (left) return;
    clearInterval(ticking);
    over();
  };
  /** @type {(question: story.Question, value: any) => string} */
  const answerOf = (question, value) => {
    if (question.kind === 'click') return value ? 'The right place' : 'Another place';
    return question.kind === 'options' ? question.options[value] : worded(question, value);
  };

  return {
    bars,
    time,
    // poll: of this question, or null.
    /** @param {story.Question} question @param {Poll} poll */
    draw(question, poll) {
      clearInterval(ticking);
      /** @type {[any, number][]} */ const counts = poll?.counts ?? [];
      const isTrue = (/** @type {any} */ value) => (question.kind === 'click' ? value : isRight(value, question));
      const ends = poll?.open && !poll.locked ? poll.ends : null;
      time.hidden = !(poll?.open && (poll.locked || ends));
      if (ends) {
        tick(ends);
        ticking = setInterval(() => tick(ends), TICK);
      } else time.textContent = 'The vote is locked.';
      bars.hidden = !poll?.counts;
      if (bars.hidden) return;
      const most = Math.max(1, ...counts.map(([, n]) => n)),
        { followers } = room.state(),
        ordered = question.kind === 'number' ? counts.toSorted((a, b) => b[1] - a[1]) : counts,
        shown = ordered.slice(0, MOST),
        cut = shown.length < counts.length ? ` The ${MOST} most frequent answers:` : '';
      bars.replaceChildren(
        element('p', { role: 'status' }, `${number(poll.answers)} of ${number(followers)} answered.${cut}`),
        ...shown.map(([value, n]) =>
          element(
            'div',
            {
              class: `vote${!poll.open && isTrue(value) ? ' true' : ''}`,
              'data-value': String(value),
            },
            element('i', { style: `width:${(100 * n) / most}%` }),
            element('span', {}, answerOf(question, value)),
            element('b', {}, number(n)),
          ),
        ),
      );
    },
    // The buttons of the leader. poll: of this question, or null; ask, reveal: by the card.
    /** @param {Poll} poll @param {{ask: () => void, reveal: () => void}} card */
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
