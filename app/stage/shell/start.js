// The start page: a run that moves, what attention computes and what a GPU is, the ladder of
// kernels, the rail as cards.
import { askUntilDone } from './fetching.js';
import { showBlocks } from '../core/blocks.js';
import { LABELS, PROVENANCE } from '../core/data.js';
import { inMinutes, linkOf, progress } from './course.js';
import { keyList } from './keys.js';
import { amount, button, element, figure, way } from '../core/paint.js';
import { viewOf } from '../core/views.js';

const PACE = 2,
  HELD = 1600; // steps a second; milliseconds that the last step stays

// course: the stops; visit(stop): goes there; talks: a list of those that come with the app.
export function makeStart({ stage, base, course, visit, talks }) {
  const { clock } = stage;
  const still = matchMedia('(prefers-reduced-motion: reduce)'),
    { stops } = course,
    [firstStop] = stops;
  const host = element('div', { class: 'view', 'data-view': 'matrices' });
  const sentence = element('p', { class: 'sentence' }),
    from = element('p', { class: 'from' }),
    headline = element('p', { class: 'headline' });
  const toggle = button('Pause', () => play(!playing), {
    'data-action': 'play',
    'aria-pressed': 'true',
  });
  const begin = way(
    linkOf(firstStop),
    () => visit(firstStop),
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
        'div',
        { class: 'words' },
        element('h1', {}, 'Watch real attention kernels run, one step at a time'),
        element(
          'p',
          {},
          'Warpglass compiles CUDA kernels, runs them, and shows each step: every tile, ' +
            'every running max, every address, every byte. Every number comes from a run of ' +
            'the kernel next to it, and says where it ran.',
        ),
        element('p', { class: 'go' }, begin),
        headline,
        element('div', { class: 'now' }, toggle, sentence),
        from,
      ),
      element('div', { class: 'moving' }, host),
    ),
    minute(),
    element(
      'section',
      {},
      element('h2', {}, 'One idea at a time'),
      element(
        'p',
        {},
        'The same attention, written again and again. Each kernel changes one thing of the kernel before.',
      ),
      ladder,
    ),
    element(
      'section',
      {},
      element('h2', {}, 'The course'),
      element(
        'p',
        {},
        `The course has ${stops.length} stops and takes about ${inMinutes(course.minutes)}. ` +
          'Each stop has one idea: predict it, and the run answers. ' +
          'In a hurry, take the stops with a star.',
      ),
      cards,
    ),
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
      talks,
    ),
    element(
      'section',
      { class: 'columns' },
      element('div', {}, element('h2', {}, 'Where kernels run here'), where),
      element('div', {}, element('h2', {}, 'Keys'), keyList()),
    ),
  );
  let view = null,
    drawn = null,
    frames = [],
    playing = false,
    timer = 0,
    shown = false,
    whereEnd = null,
    live = false,
    asked = false;

  const tick = () => {
    clearTimeout(timer);
    if (!playing || !shown) return;
    const last = clock.step >= clock.count - 1;
    timer = setTimeout(
      () => {
        clock.set(last ? 0 : clock.step + 1, 'idle');
        tick();
      },
      last ? HELD : 1000 / PACE,
    );
  };
  const play = yes => {
    playing = yes;
    clock.pace = yes ? PACE : 0;
    toggle.textContent = yes ? 'Pause' : 'Play';
    toggle.setAttribute('aria-pressed', String(yes));
    tick();
  };
  const onStep = ({ detail: { step } }) => {
    if (shown && frames.length) sentence.textContent = frames[step]?.sentence ?? '';
  };
  clock.addEventListener('step', onStep);

  const drawCards = () => {
    const marks = progress();
    const card = stop =>
      element(
        'li',
        {},
        way(
          linkOf(stop),
          () => visit(stop),
          { 'data-card': stop.name, class: marks[stop.name] ?? '' },
          element('b', {}, `${stop.number} ${stop.title}`),
          ...(stop.essential ? [element('i', { title: 'Essential' }, '\u2605')] : []),
          element('small', {}, inMinutes(stop.minutes)),
          element('span', {}, stop.idea),
          ...(marks[stop.name] === 'done' ? [element('em', {}, 'all questions seen')] : []),
        ),
      );
    cards.replaceChildren(
      ...course.acts.map(act =>
        element(
          'section',
          { 'data-act': act.name },
          element('h3', {}, act.name, element('small', {}, inMinutes(act.minutes))),
          element('ol', { class: 'cards' }, ...act.stops.map(card)),
        ),
      ),
    );
  };
  const draw = async (made, ours) => {
    const [picture] = made.views,
      module = await viewOf(picture.kind);
    if (!shown || (live && !ours)) return;
    [live, drawn] = [ours, made];
    frames = made.frames;
    clock.load(frames);
    view?.unmount();
    const meta = picture.meta.frames ? picture.meta : { ...picture.meta, frames };
    view = module.default(host, { ...picture, meta }, { ...stage.context(made), change() {} });
    clock.set(0, 'jump');
    headline.textContent = made.headline;
    const { label, said } = made.provenance;
    from.replaceChildren(
      element('b', { class: `label ${label}`, title: PROVENANCE[label] }, LABELS[label]),
      ` ${said}`,
    );
    host.dataset.alive = label;
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
      shown = live = asked = false;
      node.hidden = true;
      play(false);
      view?.unmount();
      view = null;
      [frames, drawn] = [[], null];
      whereEnd?.();
    },
    // The theme has changed.
    repaint() {
      if (shown && drawn) draw(drawn, live);
    },
    // Until the run is there: a recording of one, if there is any.
    async meanwhile() {
      if (frames.length || asked) return;
      asked = true;
      const said = await askUntilDone(
        base,
        { path: 'start', params: { backend: 'recorded' } },
        () => {},
        () => shown && !live,
      );
      if (said.bundle && shown && !live) draw(await stage.load(said.bundle), false);
    },
    show(made) {
      draw(made, true);
      whereEnd?.();
      whereEnd = showBlocks(where, made.side, stage.context(made));
    },
    unmount() {
      play(false);
      clock.removeEventListener('step', onStep);
      view?.unmount();
    },
  };

  async function drawLadder() {
    const backend = new URLSearchParams(location.search).get('backend') ?? '';
    if (ladder.dataset.made === `on ${backend}`) return;
    const said = await askUntilDone(
      base,
      { path: 'start', params: backend ? { backend } : {}, part: 'ladder' },
      () => {},
      () => shown,
    );
    if (!shown && !said.bundle) return;
    if (said.error) return ladder.replaceChildren(element('p', { class: 'note bad' }, said.error));
    const [{ rungs, label, about }] = await stage.load(said.bundle);
    ladder.dataset.made = `on ${backend}`;
    const builds = r =>
      r.us === null || r.us_build === r.bytes_build
        ? `Build: ${r.bytes_build}`
        : `Bytes: ${r.bytes_build}. Time: ${r.us_build}`;
    const bytes = rungs.map(r => r.read + r.written),
      most = Math.max(...bytes),
      slowest = Math.max(...rungs.map(r => r.us ?? 0));
    const against = (now, before, word) =>
      before && now && before / now >= 1.05
        ? `, ${times(before / now)} ${word}`
        : before && now && now / before >= 1.05
          ? `, ${times(now / before)} more`
          : '';
    ladder.replaceChildren(
      element(
        'ol',
        { class: 'rungs' },
        ...rungs.map((r, n) =>
          element(
            'li',
            { 'data-rung': r.name, style: `--kernel: ${r.colour}` },
            element('h3', {}, element('i', {}), r.title),
            element('p', {}, `${sentenceCase(n ? r.changed : r.idea)}`),
            bar(
              bytes[n] / most,
              `${amount(bytes[n], UNITS.bytes)}${against(bytes[n], bytes[n - 1], 'fewer')}`,
            ),
            r.us === null
              ? element('p', { class: 'none' }, 'no time is recorded')
              : bar(
                  r.us / slowest,
                  `${amount(r.us, UNITS.us)}${n && rungs[n - 1].us ? faster(rungs[n - 1].us, r.us) : ''}`,
                ),
            element('p', { class: 'about' }, builds(r)),
          ),
        ),
      ),
      element(
        'p',
        { class: 'about' },
        element('b', { class: `label ${label}`, title: PROVENANCE[label] }, LABELS[label]),
        ` ${about} Upper bar: bytes; lower bar: time; each against the longest.`,
      ),
    );
  }
}

const sentenceCase = text => `${text[0].toUpperCase()}${text.slice(1)}`;
const times = ratio => `${figure(Number(ratio.toPrecision(ratio < 10 ? 2 : 3)))} times`;
const faster = (before, now) =>
  before / now >= 1.02
    ? `, ${times(before / now)} as fast`
    : now / before >= 1.02
      ? `, ${times(now / before)} slower`
      : ', no faster';
/** @type {Record<string, [number, string][]>} */
const UNITS = {
  bytes: [
    [2 ** 20, 'MiB'],
    [2 ** 10, 'KiB'],
    [1, 'B'],
  ],
  us: [
    [1000, 'ms'],
    [1, 'us'],
  ],
};
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
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg'),
    text = (x, y, said, size = 13, anchor = 'middle') =>
      add('text', { x, y, 'font-size': size, 'text-anchor': anchor, fill: 'currentColor' }, said);
  const add = (tag, attributes, said) => {
    const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (said) made.textContent = said;
    svg.append(made);
  };
  const box = (x, y, w, h, cls) => add('rect', { x, y, width: w, height: h, rx: 5, class: cls });
  svg.setAttribute('viewBox', '0 0 520 190');
  svg.setAttribute('role', 'img');
  svg.setAttribute(
    'aria-label',
    'Three SMs with warps, registers and shared memory each, above the L2 cache, above global memory',
  );
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
