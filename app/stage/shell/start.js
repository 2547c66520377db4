// The start page: a race that moves and is dragged, the course as cards, what attention computes and what a GPU is, the
// ladder of kernels.
import { askUntilDone } from './fetching.js';
import { showBlocks } from '../core/blocks.js';
import { LABELS, PROVENANCE } from '../core/data.js';
import { inMinutes, linkOf, progress } from './course.js';
import { keyList } from './keys.js';
import { amount, button, element, figure, listen, number, svgElement, way } from '../core/paint.js';
import { viewOf } from '../core/views.js';

const PERIOD = 2400; // milliseconds of a step of the race

/** @param {App} app */
export function makeStart(app) {
  const { stage, base, course } = app,
    { clock } = stage;
  const still = matchMedia('(prefers-reduced-motion: reduce)'),
    { stops } = course,
    [firstStop] = stops;
  const host = element('div', { class: 'view', 'data-view': 'race' });
  const sentence = element('p', { class: 'sentence', 'aria-live': 'polite' }), // of the motion
    result = element('span', { class: 'result' }),
    from = element('p', { class: 'from' });
  const toggle = button('Pause', () => play(!playing), {
    'data-action': 'play',
    'aria-pressed': 'true',
  });
  const begin = way(
    linkOf(firstStop),
    () => app.visits.toStop(firstStop),
    { class: 'button first' },
    `Start with 1: ${firstStop.title}`,
  );
  const ladder = element(
    'div',
    { class: 'ladder', 'aria-live': 'polite' },
    element('p', {}, 'The kernels are being run for their bytes ...'),
  );
  const cards = element('div', { class: 'acts' }),
    where = element('div', { class: 'where' });
  const node = element(
    'div',
    { class: 'start', hidden: true },
    element(
      'section',
      { class: 'alive' },
      element(
        'p',
        {},
        `See how attention becomes fast on a GPU: real kernels, ${stops.length} stops, ${inMinutes(course.minutes)}.`,
      ),
      element('h1', {}, 'The same answer, with fewer trips to memory.'),
      sentence,
      element('div', { class: 'moving' }, host),
      element('p', { class: 'go' }, begin, toggle, result),
      from,
    ),
    minute(),
    element('section', {}, element('h2', {}, 'The course'), cards),
    element(
      'section',
      {},
      element('h2', {}, 'Talks'),
      element(
        'p',
        {},
        'A talk shows moments of the course in an order, as a presentation. PageDown and PageUp, or ' +
          'a clicker, lead through them. Its notes have a window of their own.',
      ),
      app.sequences.talks,
    ),
    element(
      'details',
      {},
      element('summary', {}, element('h2', {}, 'For developers: the ladder of kernels, places to run, keys')),
      element(
        'section',
        {},
        element('h2', {}, 'One idea at a time'),
        element(
          'p',
          {},
          'The same attention, written again and again. Each kernel says what it changes. ' +
            'Its build can change, too: compare the sizes in the last line. Here FlashAttention gains little time, ' +
            'because its lanes queue in the banks of shared memory. The stop Banks ends that queue.',
        ),
        ladder,
      ),
      element(
        'section',
        { class: 'columns' },
        element('div', {}, element('h2', {}, 'Where kernels run here'), where),
        element('div', {}, element('h2', {}, 'Keys'), keyList()),
      ),
    ),
  );
  /** @type {{unmount: () => void} | null} */ let view = null;
  /** @type {Content | null} */ let drawn = null;
  /** @type {(() => void) | null} */ let whereEnd = null;
  let playing = false,
    timer = 0,
    shown = false;

  const tick = () => {
    clearTimeout(timer);
    if (!playing || !shown) return;
    if (clock.step >= clock.count - 1) return play(false);
    timer = setTimeout(() => {
      clock.set(clock.step + 1, 'idle');
      tick();
    }, PERIOD);
  };
  const play = (/** @type {boolean} */ yes) => {
    if (yes && clock.step >= clock.count - 1) clock.set(0, 'user');
    playing = yes;
    toggle.textContent = yes ? 'Pause' : clock.step < clock.count - 1 ? 'Play' : 'Again';
    toggle.setAttribute('aria-pressed', String(yes));
    tick();
  };
  const frame = () => drawn?.views[0].meta.frames[clock.step];
  const unfollow = clock.follow(() => {
    if (shown && drawn) sentence.textContent = frame().sentence;
  });
  const unsay = listen(clock, 'said', ({ detail }) => {
    if (!shown || !drawn) return;
    if (detail) play(false); // the race is in the reader's hand
    sentence.textContent = detail || frame().sentence;
  });

  const drawCards = () => {
    const marks = progress();
    const card = (/** @type {Stop} */ stop) =>
      element(
        'li',
        {},
        way(
          linkOf(stop),
          () => app.visits.toStop(stop),
          { 'data-card': stop.name, class: marks[stop.name] ?? '' },
          element('b', {}, stop.number ? `${stop.number} ${stop.title}` : stop.title),
          element('small', {}, inMinutes(stop.minutes)),
          element('span', {}, stop.idea),
          ...(marks[stop.name] === 'done' ? [element('em', {}, 'all questions seen')] : []),
        ),
      );
    cards.replaceChildren(
      element('ol', { class: 'cards' }, ...stops.map(card)),
      ...course.shelves.map(({ name, stops }) =>
        element(
          'section',
          { 'data-shelf': name },
          element('h3', {}, name),
          element('ul', { class: 'cards' }, ...stops.map(card)),
        ),
      ),
    );
  };
  const draw = async (/** @type {Content} */ content) => {
    const { provenance } = content,
      [picture] = content.views,
      { frames } = picture.meta,
      module = await viewOf(picture.kind);
    if (!shown) return;
    drawn = content;
    clock.load(frames);
    view?.unmount();
    view = module.default(host, picture, { ...stage.context(content), change() {} });
    clock.set(still.matches ? clock.count - 1 : 0, 'jump');
    host.dataset.alive = provenance?.label ?? '';
    result.replaceChildren(...resultOf(picture.meta));
    if (provenance) from.replaceChildren(labelled(provenance.label), ` ${provenance.said}`);
    play(!still.matches);
  };

  return {
    node,
    enter() {
      shown = true;
      node.hidden = false;
      drawCards();
      drawLadder();
    },
    leave() {
      shown = false;
      node.hidden = true;
      play(false);
      view?.unmount();
      [view, drawn] = [null, null];
      whereEnd?.();
    },
    // The theme has changed.
    repaint() {
      if (shown && drawn) draw(drawn);
    },
    show(/** @type {Content} */ content) {
      draw(content);
      whereEnd?.();
      whereEnd = showBlocks(where, content.side, stage.context(content));
    },
    unmount() {
      play(false);
      unfollow();
      unsay();
      view?.unmount();
    },
  };

  async function drawLadder() {
    const backend = new URLSearchParams(location.search).get('backend') ?? '';
    if (ladder.dataset.made === `on ${backend}`) return;
    /** @type {Texts} */ const params = backend ? { backend } : {};
    const question = { path: 'start', params, part: 'ladder' },
      wanted = () => shown,
      { bundle, error } = await askUntilDone(base, question, () => {}, wanted);
    if (!shown && !bundle) return;
    if (error) return ladder.replaceChildren(element('p', { class: 'note bad' }, error));
    const [{ rungs, label, about }] = await stage.load(bundle ?? '');
    ladder.dataset.made = `on ${backend}`;
    const most = Math.max(...rungs.map(bytesOf)),
      slowest = Math.max(...rungs.map((/** @type {any} */ r) => r.us ?? 0));
    const rows = rungs.map((/** @type {any} */ r, /** @type {number} */ n) => {
      const before = rungs[n - 1],
        text = n ? r.changed : r.idea,
        bytes = bytesOf(r),
        fewer = before ? compared(bytesOf(before), bytes, 1.05, 'fewer', 'more', '') : '',
        faster = before?.us ? compared(before.us, r.us, 1.02, 'as fast', 'slower', ', no faster') : '';
      return element(
        'li',
        { 'data-rung': r.name, style: `--kernel: ${r.colour}` },
        element('h3', {}, element('i', {}), r.title),
        element('p', {}, `${text[0].toUpperCase()}${text.slice(1)}`),
        bar(bytes / most, `${amount(bytes, UNITS.bytes)} at ${number(r.bytes_tokens)} tokens${fewer}`),
        r.us === null
          ? element('p', { class: 'none' }, 'no time is recorded')
          : bar(r.us / slowest, `${amount(r.us, UNITS.us)} at ${number(r.us_tokens)} tokens${faster}`),
        element(
          'p',
          { class: 'about' },
          r.us === null || r.us_build === r.bytes_build
            ? `Build: ${r.bytes_build}`
            : `Bytes: ${r.bytes_build}. Time: ${r.us_build}`,
        ),
      );
    });
    ladder.replaceChildren(
      element('ol', { class: 'rungs' }, ...rows),
      element(
        'p',
        { class: 'about' },
        labelled(label),
        ` ${about} Upper bar: bytes; lower bar: time; each against the longest.`,
      ),
    );
  }
}

/** Time and memory of both ways at the longest length of the race. @type {(meta: models.RaceMeta) => any[]} */
function resultOf({ times, grown, where }) {
  const found = times.find(({ tokens, causal }) => tokens === grown && !causal),
    three = (/** @type {number} */ value) => figure(Number(value.toPrecision(3)));
  if (!found) return [];
  const [before, now] = found.held.map(bytes => three(bytes / 1e9));
  return [
    element('b', {}, `${three(found.unfused)} \u2192 ${three(found.flash)} ms`),
    element('b', {}, `${before} \u2192 ${now} GB of memory`),
    element('small', {}, `${number(grown)} tokens, ${where}`),
  ];
}
const labelled = (/** @type {string} */ label) =>
  element('b', { class: `label ${label}`, title: PROVENANCE[label] }, LABELS[label]);
const bytesOf = (/** @type {{read: number, written: number}} */ rung) => rung.read + rung.written;
// The share of a value by which it is less than the one before, or more, in words. none: within `least`.
/** @type {(before: number, now: number, least: number, less: string, more: string, none: string) => string} */
const compared = (before, now, least, less, more, none) => {
  const ratio = Math.max(before / now, now / before),
    times = figure(Number(ratio.toPrecision(ratio < 10 ? 2 : 3)));
  return before && now && ratio >= least ? `, ${times} times ${now < before ? less : more}` : none;
};
/** @type {Record<string, [number, string][]>} */
const UNITS = {
  bytes: [
    [2 ** 20, 'MiB'],
    [2 ** 10, 'KiB'],
    [1, 'B'],
  ],
  us: [
    [1000, 'ms'],
    [1, '\u00b5s'],
  ],
};
/** @type {(share: number, text: string) => Element} */
const bar = (share, text) =>
  element(
    'div',
    { class: 'measure' },
    element('i', { style: `width:${Math.max(0.6, 100 * share)}%` }),
    element('span', {}, text),
  );

// What attention computes, and what a GPU is: text, a formula and a drawing of the memories.
function minute() {
  const formula = element(
    'p',
    {
      class: 'formula',
      'aria-label':
        'S equals Q times K transposed over the square root of d. P equals softmax of ' +
        'each row of S. O equals P times V.',
    },
    'S = Q K\u1d40 / \u221ad        P = softmax(S)        O = P V',
  );
  return element(
    'section',
    { class: 'columns minute' },
    element(
      'div',
      {},
      element('h2', {}, 'What attention computes'),
      formula,
      element(
        'p',
        {},
        'Every token has a query, a key and a value: a row of Q, of K and of V, d ' +
          'numbers each. A query\u2019s scores are its products with all keys; softmax ' +
          'makes them weights that add up to 1; the output row is the weighted sum of the ' +
          'values.',
      ),
      element(
        'p',
        {},
        'For n tokens there are n \u00d7 n scores: at 16,384 tokens 268 million for each ' +
          'head, a gigabyte in fp32. Q, K, V and O are a few megabytes. How to get from ' +
          'the one to the other without ever keeping the scores is what the course is ' +
          'about.',
      ),
    ),
    element(
      'div',
      {},
      element('h2', {}, 'What a GPU is'),
      drawing(),
      element(
        'p',
        {},
        'About a hundred SMs (streaming multiprocessors). A kernel\u2019s grid is cut into ' +
          'thread blocks. Each block runs on one SM, its threads in warps of 32 that go in ' +
          'step. A block shares a small fast memory. All blocks share a large slow one. ' +
          'Arithmetic is plenty: mostly a kernel waits for bytes.',
      ),
    ),
  );
}

function drawing() {
  const svg = svgElement('svg', {
    viewBox: '0 0 520 190',
    role: 'img',
    'aria-label': 'Three SMs with warps, registers and shared memory each, above the L2 cache, above global memory',
  });
  /** @type {(x: number, y: number, words: string) => void} */
  const text = (x, y, words) => {
    const place = { x, y, 'font-size': 13, 'text-anchor': 'middle', fill: 'currentColor' };
    svg.appendChild(svgElement('text', place)).textContent = words;
  };
  /** @type {(x: number, y: number, width: number, height: number, name: string) => void} */
  const box = (x, y, width, height, name) =>
    svg.append(svgElement('rect', { x, y, width, height, rx: 5, class: name }));
  for (let n = 0; n < 3; n++) {
    const x = 4 + n * 174;
    box(x, 4, 164, 106, 'sm');
    text(x + 82, 20, n < 2 ? `SM ${n}` : 'and so on');
    for (let w = 0; w < 8; w++) box(x + 10 + w * 18.3, 27, 15.5, 14, 'warp');
    text(x + 82, 57, 'warps, each with registers');
    box(x + 10, 66, 144, 34, 'shared');
    text(x + 82, 88, 'shared memory');
  }
  box(4, 118, 512, 26, 'l2');
  text(260, 136, 'L2 cache');
  box(4, 152, 512, 34, 'global');
  text(260, 174, 'global memory: Q, K, V and O lie here');
  return svg;
}
