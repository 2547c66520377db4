// Our kernels from the first to the last next to their rivals: explainers/stories/timing/rungs.py. All times are
// recorded.
import { filled } from '../core/follow.js';
import { handView } from '../core/hand.js';
import { button, element, short, way, widest } from '../core/paint.js';
import { rungsHeight, rungsMarks, timeOf } from './rungs_marks.js';

/** @type {Picture<timing.RungsMeta>} */
export default function (host, { meta }, context) {
  const { clock } = context,
    { words, rungs, shown } = meta,
    HAND = shown.findIndex(({ phase }) => phase === 'hand'),
    PAIRS = ['begin', 'rung'],
    problems = new Map(meta.problems.map(one => [one.id, one])),
    saidOf = new Map(rungs.map(({ id, said }) => [id, said])),
    start = shown[HAND],
    steps = [shown[0], ...shown.filter(({ phase }) => phase === 'rung')].map(({ rung }) => rung),
    LAST = ['sdpa_flash float16', 'sdpa_cudnn float16']; // next to the limit
  let chosen = { problem: start.problem, rival: start.rival },
    touched = false;
  /** @type {any} */ let size = null;
  let font = '';
  const wide = (/** @type {string} */ text, /** @type {boolean} */ bold, /** @type {number} */ px) =>
    widest([text], `${bold ? '600 ' : ''}${px}px ${font}`);

  // ---- values ----
  const problemOf = (/** @type {string} */ id) => /** @type {timing.TimedProblem} */ (problems.get(id));
  /** A time next to another one, in words. */
  function against(/** @type {number} */ time, /** @type {number} */ other) {
    if (Math.abs(time / other - 1) < 0.005) return '';
    return filled(time < other ? words.before : words.slow, { times: short(Math.max(time / other, other / time), 3) });
  }
  /** A row next to another one, as a number and its words. */
  function ratioOf(/** @type {string} */ id, /** @type {string} */ other, /** @type {Record<string, number>} */ us) {
    const times = us[id] / us[other],
      does = times < 1 ? words.faster_than : words.long_as;
    return [short(Math.max(times, 1 / times), 3), does, saidOf.get(other) ?? ''];
  }
  function now(step = clock.step) {
    const of = step === HAND ? null : shown[step],
      problem = problemOf(of?.problem ?? chosen.problem),
      { us } = problem,
      rung = of?.rung ?? fastest(us),
      rival = of?.rival ?? chosen.rival,
      seen = new Set(of?.seen ?? Object.keys(us)),
      ladder = [...seen].filter(id => !isRival(id)),
      phase = shown[step].phase,
      before = PAIRS.includes(phase) ? ladder[ladder.indexOf(rung) - 1] : undefined,
      rows = before ? [before, rung, rival] : phase === 'limit' ? [...LAST, rung, rival] : [rung, rival];
    /** Next to the row before. Under the hand, next to the rival. */
    const factor = (/** @type {string} */ id) => {
      const to = of ? ladder[ladder.indexOf(id) - 1] : rival;
      return to === undefined || to === id ? '' : against(us[id], us[to]);
    };
    const versus = before && against(us[rung], us[rival]);
    return {
      ...{ phase, problem, rung, rival, seen, factor, drawn: PAIRS.includes(phase) },
      ...{ bars: [...new Set(rows)].filter(id => id in us), ladder: steps },
      ratio:
        phase === 'limit'
          ? [`${Math.round((100 * us[rival]) / us[rung])}%`, words.limit, timeOf(us[rival])]
          : ratioOf(rung, before ?? rival, us),
      versus: versus ? filled(words.ours, { times: versus }) : '',
    };
  }
  const isRival = (/** @type {string} */ id) => rungs.find(one => one.id === id)?.group === 'rivals';
  /** Our fastest row. */
  const fastest = (/** @type {Record<string, number>} */ us) =>
    Object.keys(us)
      .filter(id => !isRival(id))
      .reduce((best, id) => (us[id] < us[best] ? id : best));

  // ---- words ----
  function sentence() {
    if (clock.step !== HAND || !touched) return '';
    const { us } = problemOf(chosen.problem),
      best = fastest(us),
      [mine, other] = [us[best], us[chosen.rival]],
      times = short(Math.max(mine / other, other / mine), 3),
      values = { rival: saidOf.get(chosen.rival) ?? '', times };
    return filled(
      Math.abs(mine / other - 1) < 0.005 ? words.equal : mine < other ? words.faster : words.slower,
      values,
    );
  }
  function speak() {
    clock.tell('said', sentence());
    const problem = now().problem;
    from.textContent = problem.said;
    const { stop = '', link = '' } = rungs.find(({ id }) => id === now().rung) ?? {};
    idea.replaceChildren(
      ...(link && shown[clock.step].phase === 'rung' ? [`${words.idea} `, way(link, () => lead(link), {}, stop)] : []),
    );
    controls.toggleAttribute('inert', clock.step !== HAND);
    for (const one of lengths.children) one.setAttribute('aria-pressed', String(one.dataset.problem === problem.id));
    rival.replaceChildren(
      ...rungs
        .filter(({ id }) => id in problem.us)
        .map(({ id, said }) => element('option', { value: id, selected: id === chosen.rival }, said)),
    );
    rival.value = chosen.rival;
  }

  // ---- hands ----
  function lead(/** @type {string} */ link) {
    const [story, query] = link.split('?');
    context.open(story, Object.fromEntries(new URLSearchParams(query)));
  }
  function change(/** @type {Partial<typeof chosen>} */ to) {
    chosen = { ...chosen, ...to };
    const { us } = problemOf(chosen.problem);
    if (!(chosen.rival in us)) chosen.rival = Object.keys(us).find(isRival) ?? Object.keys(us)[0];
    touched = true;
    speak();
    view.draw();
  }
  const rival = element('select', { 'aria-label': 'rival' }),
    lengths = element(
      'span',
      { class: 'choices', role: 'group', 'aria-label': 'tokens' },
      ...meta.problems.map(({ id, tokens, said }) =>
        button(tokens, () => change({ problem: id }), { class: 'chip', 'data-problem': id, title: said }),
      ),
    ),
    idea = element('span', {}),
    from = element('span', { class: 'from' });
  rival.onchange = () => change({ rival: rival.value });
  const controls = element(
    'div',
    { class: 'hands', role: 'group', 'aria-label': 'The ladder' },
    element('label', {}, `${words.of_rival} `, rival),
    element('span', { class: 'group' }, `${words.tokens} `, lengths),
  );

  // ---- the canvas and the clock ----
  function arrive() {
    if (clock.step !== HAND) [chosen, touched] = [{ problem: start.problem, rival: start.rival }, false];
    speak();
  }
  const view = handView(host, context, {
    frames: meta.frames,
    controls,
    foot: [idea, from],
    heard: { step: arrive },
    title: 'The ladder',
    layout: (/** @type {any} */ given) => {
      size = given;
      font = getComputedStyle(host).getPropertyValue('--st-font').trim() || 'sans-serif';
      return Math.max(...shown.map((_, step) => rungsHeight(size, meta, now(step))));
    },
    marks(/** @type {{paint: Paint}} */ { paint }) {
      return rungsMarks(size, meta, now(), paint, wide);
    },
    label(/** @type {number} */ step) {
      const { problem, seen } = now(),
        times = rungs.filter(({ id }) => seen.has(id) && id in problem.us);
      const said = times.map(({ id, said }) => `${said}: ${timeOf(problem.us[id])}`);
      return [`${meta.frames[step].title}. ${meta.frames[step].sentence}`, ...said].join(' ');
    },
    click(/** @type {Thing} */ { row, stop }) {
      const end = meta.ends.find(one => one.stop === stop);
      if (end) lead(end.link);
      else if (clock.step === HAND && row in now().problem.us) change({ rival: row });
      else {
        const step = shown.findIndex(one => one.rung === row);
        if (step < 0) return false;
        clock.set(step, 'user');
      }
      return true;
    },
  });
  speak();
  return view;
}
