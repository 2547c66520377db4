// The clock: play, pause, speed, scrub, keys. Publishes the step on the bus; writes it to the URL when the user rests.
const SPEEDS = [1, 2, 4, 10, 30];
const KEYS = { ArrowRight: 'next', ArrowLeft: 'previous', Home: 'first', End: 'last', ' ': 'play' };

export default function ({ data, parentElement }) {
  const B = bus(), find = name => parentElement.querySelector(`[data-part=${name}]`);
  let clock = instances.get(parentElement);
  if (!clock) {
    instances.set(parentElement, clock = { run: null, frame: 0, rest: 0 });
    const root = find('root'), range = find('range'), play = find('play'), speed = find('speed');
    for (const s of SPEEDS) speed.append(element('option', s === 4 ? { value: s, selected: '' } : { value: s }, `${s} steps/s`));

    const outer = direction => {
      const marks = clock.outer;
      const next = direction > 0 ? marks.find(m => m > B.step) ?? B.count - 1 : [...marks].reverse().find(m => m < B.step) ?? 0;
      B.set(next, 'user');
    };
    const stop = () => {
      cancelAnimationFrame(clock.frame);
      clock.frame = 0;
      B.playing = false;
      play.textContent = 'Play';
      play.setAttribute('aria-pressed', 'false');
      clock.schedule();
    };
    const start = () => {
      if (B.step >= B.count - 1) B.set(0, 'user');
      B.playing = true;
      play.textContent = 'Pause';
      play.setAttribute('aria-pressed', 'true');
      let due = performance.now() + 1000 / speed.value;
      const tick = now => {
        if (now >= due) {  // one step at most per frame: a late frame delays, it never skips
          due = Math.max(due + 1000 / speed.value, now);
          B.set(B.step + 1, 'play');
          if (B.step >= B.count - 1) return stop();
        }
        clock.frame = requestAnimationFrame(tick);
      };
      clock.frame = requestAnimationFrame(tick);
    };
    clock.stop = stop;
    const actions = { first: () => B.set(0, 'user'), last: () => B.set(B.count - 1, 'user'), next: () => B.set(B.step + 1, 'user'),
      previous: () => B.set(B.step - 1, 'user'), nextTile: () => outer(1), previousTile: () => outer(-1), play: () => (clock.frame ? stop() : start()),
      link: async () => {
        clock.write();
        const button = find('link');
        try { await navigator.clipboard.writeText(location.href); button.textContent = 'Link copied'; }
        catch { button.textContent = 'Copy it from the address bar'; }
        setTimeout(() => { button.textContent = 'Copy link'; }, 2000);
      } };
    root.onclick = event => actions[event.target.closest('[data-action]')?.dataset.action]?.();
    range.oninput = () => B.set(+range.value, 'user');

    clock.onKey = event => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      const target = event.composedPath()[0];
      if (target !== range && target.matches?.('input,textarea,select,[contenteditable=true],[role=combobox],[role=slider],[role=listbox],[role=option],[role=radio]')) return;
      if (event.key === ' ' && target.closest?.('button,a,summary')) return;  // a focused button is pressed
      if (/^[1-9]$/.test(event.key) && B.views[event.key - 1]) {
        const host = B.views[event.key - 1].parent;
        (host.host ?? host).scrollIntoView({ behavior: 'smooth', block: 'center' });
        return;
      }
      let action = KEYS[event.key];
      if (!action) return;
      if (event.shiftKey && action === 'next') action = 'nextTile';
      if (event.shiftKey && action === 'previous') action = 'previousTile';
      event.preventDefault();
      event.stopPropagation();
      actions[action]();
    };
    document.addEventListener('keydown', clock.onKey, true);

    clock.write = () => {
      const url = new URL(location.href);
      if (url.searchParams.get('step') === String(B.step)) return;
      url.searchParams.set('step', B.step);
      history.replaceState(history.state, '', url);
    };
    clock.schedule = () => {
      clearTimeout(clock.rest);
      if (!B.playing) clock.rest = setTimeout(() => { clock.write(); clock.tellVega(); }, 300);
    };
    // Charts outside the window are told when they come into it, not at every step.
    clock.inSight = new Set();
    clock.sight = new IntersectionObserver(entries => {
      for (const entry of entries) clock.inSight[entry.isIntersecting ? 'add' : 'delete'](entry.target);
      if (clock.inSight.size) clock.tellVega();
    });
    clock.watch = () => document.querySelectorAll('[data-testid=stVegaLiteChart]').forEach(chart => clock.sight.observe(chart));
    clock.tellVega = () => {
      const bound = document.querySelector('#warpglass-step');  // it stands on every page; the charts bind to it
      if (!bound) return;
      bound.value = B.step;
      bound.dispatchEvent(new Event('input'));
    };
    clock.onStep = ({ detail: { step } }) => {
      range.value = step;
      const title = clock.titles[step] ?? '';
      find('count').textContent = `${step + 1} / ${B.count}`;
      find('title').textContent = title;
      range.setAttribute('aria-valuetext', `step ${step + 1} of ${B.count}, ${title}`);
      if (clock.inSight.size) clock.tellVega();
      clock.schedule();
    };
    B.addEventListener('step', clock.onStep);
  }
  clock.titles = data.titles;
  clock.outer = data.outer;
  B.count = data.titles.length;
  find('range').max = B.count - 1;
  if (clock.run !== data.run) {
    const first = clock.run === null;
    clock.run = B.run = data.run;
    if (!first) clock.stop();
    B.set(data.step, 'jump');
    clearInterval(clock.late);  // charts embed after the clock: tell them the step until they all listen
    let times = 0;
    clock.late = setInterval(() => { clock.watch(); clock.tellVega(); if (++times >= 20) clearInterval(clock.late); }, 250);
  }
  return () => {
    cancelAnimationFrame(clock.frame);
    clearTimeout(clock.rest);
    clearInterval(clock.late);
    clock.sight.disconnect();
    B.removeEventListener('step', clock.onStep);
    document.removeEventListener('keydown', clock.onKey, true);
    B.playing = false;
    instances.delete(parentElement);
  };
}
