// Our kernels from the first to the last next to their rivals: explainers/stories/timing/rungs.py. All times are
// recorded.
import { filled } from '../core/follow.js';
import { makeGlide } from '../core/glide.js';
import { handView } from '../core/hand.js';
import { button, element, short, way, widest } from '../core/paint.js';
import { timeOf } from './rungs_end.js';
import { rungsHeight, rungsMarks } from './rungs_marks.js';

const STEP = 800; // ms

/** @type {Picture<timing.RungsMeta>} */
export default function (host, { meta }, context) {
  const { clock } = context,
    { words, rungs, shown } = meta,
    HAND = shown.findIndex(({ phase }) => phase === 'hand'),
    problems = new Map(meta.problems.map(one => [one.id, one])),
    saidOf = new Map(rungs.map(({ id, said }) => [id, said])),
    start = shown[HAND],
    steps = shown.flatMap(({ adds }) => adds);
  let chosen = { problem: start.problem, rival: start.rival },
    wish = chosen.rival, // the reader's, also where the problem has no time of it
    touched = false,
    known = ''; // the change that an answer named
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
  function now(step = clock.step) {
    const of = step === HAND ? null : shown[step],
      problem = problemOf(of?.problem ?? chosen.problem),
      { us } = problem,
      rung = of?.rung ?? fastest(us),
      rival = of?.rival ?? chosen.rival,
      seen = new Set(of?.seen ?? Object.keys(us)),
      { phase } = shown[step],
      stairs = of ? steps : rungs.map(({ id }) => id).filter(id => id in us && !isRival(id)),
      adds = of?.adds ?? [],
      before = adds.length ? stairs[stairs.indexOf(adds[0]) - 1] : '';
    /** Next to the stair before. Under the hand, next to the rival. */
    const factor = (/** @type {string} */ id) => {
      const to = of ? stairs[stairs.indexOf(id) - 1] : rival;
      return to === undefined || to === id ? '' : against(us[id], us[to]);
    };
    return {
      ...{ phase, problem, rung, rival, seen, adds, news: of?.news ?? [], stairs, factor, known },
      ratio: ratioOf(phase, rung, rival, before, us, adds),
    };
  }
  /** The number of a step, its words, and a line below it.
   *  @returns {[string, string, string]} */
  function ratioOf(
    /** @type {string} */ phase,
    /** @type {string} */ rung,
    /** @type {string} */ rival,
    /** @type {string} */ before,
    /** @type {Record<string, number>} */ us,
    /** @type {string[]} */ adds,
  ) {
    const time = timeOf(us[rung]),
      { saves, where } = /** @type {timing.Rung} */ (rungs.find(({ id }) => id === rung));
    if (phase === 'begin')
      return [
        `\u00d7 ${short(us[rung] / us[rival], 3)}`,
        words.begin,
        `${time} \u2192 ${timeOf(us[rival])}, ${words.bits}`,
      ];
    if (rival === 'limit') return [`${Math.round((100 * us[rival]) / us[rung])}%`, words.limit, ''];
    if (phase === 'rung' && before)
      return [
        `\u00d7 ${short(us[before] / us[rung], 3)}`,
        adds.length > 1 ? words.together : meta.saves[saves],
        adds.length < 2 && where ? where : `${timeOf(us[before])} \u2192 ${time}`,
      ];
    const times = us[rung] / us[rival],
      than = saidOf.get(rival) ?? '';
    return [
      `\u00d7 ${short(Math.max(times, 1 / times), 3)}`,
      filled(times < 1 ? words.faster_than : words.long_as, { rival: than }),
      '',
    ];
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
    const { phase, adds } = shown[clock.step],
      ways = new Map(rungs.flatMap(one => (phase === 'rung' && adds.includes(one.id) ? one.ways : [])));
    idea.replaceChildren(
      ...[...ways].flatMap(([stop, link], n) => [n ? ', ' : `${words.idea} `, way(link, () => lead(link), {}, stop)]),
    );
    controls.style.display = clock.step === HAND ? '' : 'none';
    for (const one of [...lengths.children, ...others.children])
      one.setAttribute('aria-pressed', String(one.dataset.problem === problem.id));
    rival.replaceChildren(
      ...rungs
        .filter(({ id }) => id in problem.us)
        .map(({ id, said, short: name, group }) =>
          element('option', { value: id, selected: id === chosen.rival }, group === 'rivals' ? name : said),
        ),
      ...(meta.missing ? [element('option', { disabled: true }, meta.missing)] : []),
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
    wish = to.rival ?? wish;
    const { us } = problemOf(chosen.problem);
    chosen.rival = wish in us ? wish : (Object.keys(us).find(isRival) ?? Object.keys(us)[0]);
    touched = true;
    speak();
    glide.begin(STEP);
    view.draw();
  }
  const rival = element('select', { 'aria-label': 'rival' }),
    chipsOf = (/** @type {string} */ label, /** @type {boolean} */ isOther) =>
      element(
        'span',
        { class: 'choices', role: 'group', 'aria-label': label },
        ...meta.problems
          .filter(({ other }) => other === isOther)
          .map(({ id, tokens, said }) =>
            button(tokens, () => change({ problem: id }), { class: 'chip', 'data-problem': id, title: said }),
          ),
      ),
    lengths = chipsOf(words.tokens, false),
    others = chipsOf(words.other, true),
    idea = element('span', {}),
    from = element('span', { class: 'from' });
  rival.onchange = () => change({ rival: rival.value });
  const controls = element(
    'div',
    { class: 'hands', role: 'group', 'aria-label': 'The staircase' },
    element('label', {}, `${words.of_rival} `, rival),
    element('span', { class: 'group' }, `${words.tokens} `, lengths),
    element('span', { class: 'group' }, `${words.other} `, others),
  );

  // ---- the canvas and the clock ----
  const glide = makeGlide(() => view.draw());
  function arrive(/** @type {string} */ why) {
    if (clock.step !== HAND)
      [chosen, wish, touched] = [{ problem: start.problem, rival: start.rival }, start.rival, false];
    if (why === 'jump') glide.end();
    else glide.begin(STEP);
    speak();
  }
  // An answer's change rises in the first picture.
  function onRight(/** @type {any} */ { detail }) {
    if (!detail?.row || known) return;
    known = detail.row;
    glide.begin(STEP);
    view.draw();
  }
  /** @type {ReturnType<typeof handView>} */
  const view = handView(host, context, {
    frames: meta.frames,
    controls,
    foot: [idea, from],
    heard: {
      step: (/** @type {any} */ { detail }) => arrive(detail.why),
      covers: () => onRight({ detail: clock.point }),
      right: onRight,
    },
    ...{ end: glide.stop, title: 'The staircase', live: true },
    layout: (/** @type {any} */ given) => {
      size = given;
      glide.end();
      font = getComputedStyle(host).getPropertyValue('--st-font').trim() || 'sans-serif';
      const alike = shown.map((_, step) => step).filter(step => (step === HAND) === (clock.step === HAND));
      return Math.max(...alike.map(step => rungsHeight(size, meta, now(step)))); // the controls take room
    },
    marks(/** @type {{paint: Paint}} */ { paint }) {
      return glide.pass(rungsMarks(size, meta, now(), paint, wide));
    },
    label(/** @type {number} */ step) {
      const { problem, seen } = now(),
        times = rungs.filter(({ id }) => seen.has(id) && id in problem.us);
      const said = times.map(({ id, said }) => `${said}: ${timeOf(problem.us[id])}`);
      return [`${meta.frames[step].title}. ${meta.frames[step].sentence}`, ...said].join(' ');
    },
    click(/** @type {Thing} */ { row }) {
      if (clock.step === HAND && row in now().problem.us) change({ rival: row });
      else {
        const step = clock.step ? shown.findIndex(({ adds }) => adds.includes(row)) : -1; // the first step asks
        if (step < 0) return false;
        clock.set(step, 'user');
      }
      return true;
    },
  });
  speak();
  return view;
}
