// The seven checks, a summary to keep and the papers. Answers stay in this browser.
import { makeOptions } from '../core/options.js';
import { button, element, save, way } from '../core/paint.js';

const KEPT = 'warpglass-checks'; // check -> the place of the chosen option

export default function (host, { meta }, { clock, kept, keep, open }) {
  const { checks, stops, papers } = meta,
    byName = new Map(stops.map(stop => [stop.name, stop]));
  const chosen = read(kept(KEPT)),
    result = element('p', { class: 'result', role: 'status' });
  const leadTo = ({ name, number, title, story, query }) =>
    way(
      `${story}?${new URLSearchParams(query)}`,
      () => open(story, query),
      { 'data-stop': name },
      number ? `${number} ${title}` : title,
    );
  const choose = (check, n) => {
    chosen[check.id] = n;
    keep(KEPT, JSON.stringify(chosen));
    draw();
    const ids = checks.map(({ id }) => id),
      done = ids.filter(id => id in chosen);
    clock.dispatchEvent(new CustomEvent('answered', { detail: { done, all: done.length === ids.length } }));
  };
  const cards = checks.map(check => new Card(check, leadTo(byName.get(check.stop)), choose));
  const draw = () => {
    for (const card of cards) card.draw(chosen[card.check.id]);
    const answered = checks.filter(({ id }) => id in chosen),
      right = answered.filter(({ id, answer }) => chosen[id] === answer).length;
    result.textContent = answered.length
      ? `${right} of ${answered.length} are right.` +
        (answered.length < checks.length ? ` ${checks.length - answered.length} are open.` : '')
      : 'Your answers stay in this browser. No server counts them.';
    again.hidden = !answered.length;
  };
  const again = button('Start again', () => {
    for (const id of Object.keys(chosen)) delete chosen[id];
    keep(KEPT, '{}');
    draw();
  });
  host.replaceChildren(
    element(
      'div',
      { class: 'checks', tabindex: '0', role: 'region', 'aria-label': 'The checks' },
      element('div', { class: 'score' }, result, again),
      element('ol', { class: 'asked' }, ...cards.map(({ node }) => node)),
      summary(stops, papers, leadTo),
      reading(papers),
    ),
  );
  draw();
  return { unmount() {} };
}

const read = text => {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
};

class Card {
  constructor(check, link, choose) {
    this.check = check;
    this.choose = choose;
    this.options = element('div');
    this.said = element('p', { class: 'reply', role: 'status' });
    this.node = element(
      'li',
      { 'data-check': check.id },
      element('p', { class: 'question' }, check.text),
      this.options,
      this.said,
      element('p', { class: 'back' }, 'The stop: ', link),
    );
    this.ask();
  }
  // n: the place of the kept answer, or undefined
  draw(n) {
    const { answer, reasons, why } = this.check;
    if (n === undefined) {
      if (this.node.dataset.state !== 'open') this.ask();
      return;
    }
    this.node.dataset.state = n === answer ? 'right' : 'wrong';
    if (n !== answer) this.shown.cross(n, reasons[n] ?? '');
    this.shown.tick(answer);
    this.said.textContent = `${n === answer ? 'Right.' : 'The right answer has a tick.'} ${why}`;
  }
  ask() {
    const { options, answer, reasons } = this.check;
    let tries = 0;
    this.node.dataset.state = 'open';
    this.said.textContent = '';
    this.shown = makeOptions(options, n => {
      if (n !== answer) this.shown.cross(n, reasons[n] ?? '');
      if (this.node.dataset.state !== 'open') return; // who has the answer looks at the others
      if (n === answer || tries++) this.choose(this.check, n);
      else this.said.textContent = 'Try once more.';
    });
    this.options.replaceChildren(this.shown.node);
  }
}

const gainOf = ({ wins, source }) => (source ? `${wins} (${source}.)` : wins);
const shelvesOf = stops => [...new Set(stops.map(({ shelf }) => shelf))];

// The idea of each stop and its gain. It is closed at first, because it answers the checks.
function summary(stops, papers, leadTo) {
  return element(
    'details',
    { class: 'summary-to-keep' },
    element('summary', {}, 'A summary to keep'),
    element(
      'p',
      {},
      button('Save as text', () =>
        save(new Blob([asText(stops, papers)], { type: 'text/markdown' }), 'warpglass-course.md'),
      ),
      button('Print', () => print()),
    ),
    ...shelvesOf(stops).flatMap(shelf => [
      element('h3', {}, shelf || 'The course'),
      element(
        'ul',
        {},
        ...stops
          .filter(stop => stop.shelf === shelf)
          .map(stop => element('li', {}, leadTo(stop), `: ${stop.idea} ${gainOf(stop)}`)),
      ),
    ]),
  );
}

function reading(papers) {
  const links = papers.map(({ label, link }) =>
    element('li', {}, element('a', { href: link, target: '_blank', rel: 'noreferrer' }, label)),
  );
  return element('section', {}, element('h3', {}, 'Further reading'), element('ul', {}, ...links));
}

// The summary in Markdown.
export function asText(stops, papers) {
  const lines = shelvesOf(stops).flatMap(shelf => [
    `## ${shelf || 'The course'}`,
    '',
    ...stops
      .filter(stop => stop.shelf === shelf)
      .map(stop =>
        `${stop.number ? `${stop.number}.` : '-'} **${stop.title}.** ${stop.idea} ${gainOf(stop)}`.trimEnd(),
      ),
    '',
  ]);
  const read = papers.map(({ label, link }) => `- [${label}](${link})`);
  return [
    '# Warpglass: the idea of each stop, and what it wins',
    '',
    ...lines,
    '## Further reading',
    '',
    ...read,
    '',
  ].join('\n');
}
