// The one stage: header, toolbar, bar, picture, state, code, tabs. Streamlit says which story;
// everything else is asked of the app's own routes, and the address holds every choice, the step,
// the picture and the tab.
import { showBlocks } from './blocks.js';
import { askUntilDone, load, stop } from './bundles.js';
import { makeClock } from './clock.js';
import { codeView } from './code.js';
import { PROVENANCE } from './data.js';
import { makeDivider } from './divider.js';
import { embedCode, embedded, framing, unframed, wayOut } from './embed.js';
import { makeGlossary } from './glossary.js';
import { makeGuide, progress } from './guide.js';
import { makeHeader } from './header.js';
import { hub } from './hub.js';
import { drawMoment, makePrint, savePng } from './image.js';
import { makeKeys } from './keys.js';
import { makeLead } from './lead.js';
import { makeLook } from './look.js';
import { makeMessages } from './messages.js';
import { button, element, theme, unfetched } from './paint.js';
import { makePresent } from './present.js';
import { makeRoom } from './room.js';
import { makeRoomPanel } from './room_panel.js';
import { makeSequences } from './sequences.js';
import { makeStart } from './start.js';
import { stripView } from './strip.js';
import { makeToolbar } from './toolbar.js';

const mounted = new WeakMap();
// choices that mean something else in another story
const OWN = ['view', 'line', 'layout', 'arch', 'build'];

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector('[data-part=root]');
  let app = mounted.get(root);
  if (!app) mounted.set(root, (app = makeApp(root, data)));
  app.here();
  return () => {
    app.unmount();
    mounted.delete(root);
  };
}

function makeApp(root, { base, rail }) {
  const storyOf = path => rail.find(s => s.path === path);
  const chosen = new Map(); // what was chosen, in any story, the newest last: name -> value
  let story = null,
    link = {},
    stage = null,
    ends = [],
    tabEnd = null,
    turn = 0,
    picture = '',
    tab = '',
    madeAt = 0,
    steps = {},
    opening = 0; // opening: how many tabs were opened

  // ---- the parts ----
  root.replaceChildren();
  const look = makeLook(root, () => repaint()),
    presents = () => story.path !== 'start' && present.toggle();
  const room = makeRoom({
      base,
      now,
      visit: link => visit(link, true),
      shown: () => !asking() && !!root.dataset.shown,
    }),
    lesson = makeRoomPanel({ room, base, titleOf: path => storyOf(path)?.title ?? path });
  const sequences = makeSequences({ base, rail, now, visit, begins: () => guide.close() });
  const header = makeHeader({
    rail,
    open: path => leave(path),
    guide: () => guide.toggle(),
    beside: [sequences.button, lesson.opener],
    entries: [
      {
        label: 'Present',
        title: 'Picture, sentence and code alone, in large type (p)',
        front: true,
        onClick: presents,
      },
      {
        label: 'Sequence',
        title: 'Talks: moments in an order, with notes, played by clicker',
        onClick: () => sequences.button.click(),
      },
      {
        label: 'Class',
        title: 'Lead a class, or follow one',
        onClick: () => lesson.opener.click(),
      },
      {
        label: () => `Theme: ${look.theme}`,
        title: 'As the system, light or dark (t)',
        stays: true,
        onClick: () => look.nextTheme(),
      },
      {
        label: () => `Type ${look.size} %`,
        row: [
          {
            label: 'A\u2212',
            title: 'Smaller type (-)',
            stays: true,
            onClick: () => look.smaller(),
          },
          {
            label: 'A',
            title: 'Type of the usual size (0)',
            stays: true,
            onClick: () => look.usual(),
          },
          { label: 'A+', title: 'Larger type (+)', stays: true, onClick: () => look.larger() },
        ],
      },
      { label: 'Keys', title: 'All keys (?)', onClick: () => keys.dialog() },
    ],
  });
  const toolbar = makeToolbar({
    change: (name, value) => {
      byHand();
      show({ set: [name, value] });
    },
    copyLink,
    shares: [
      {
        label: 'Copy embed code',
        title: 'An iframe of this moment, for slides',
        stays: true,
        onClick: async () =>
          (await copy(embedCode(story.title, address())))
            ? 'Embed code copied'
            : 'This browser lets nothing be copied here',
      },
      {
        label: 'Save as PNG',
        title: 'An image of what stands on the stage',
        stays: true,
        onClick: savePicture,
      },
      { label: 'Print', title: 'This moment on one page', onClick: () => print() },
    ],
  });
  const clock = makeClock({ onRest: rested });
  const guide = makeGuide({
    rail,
    lesson: room,
    choose: id => choosePicture(id || stage.pictures[0]?.id),
    go: path => leave(path),
    marked: () => header.marks(progress()),
    opened: header.guideOpen,
    veil: (parts, byClass) => {
      root.dataset.veils = parts.join(' ');
      root.classList.toggle('polled', byClass);
    },
    opener: () => header.asks,
  });
  const start = makeStart({ base, rail, go: path => leave(path), talks: sequences.talks });
  const messages = makeMessages(),
    // in the picture's place while there is none
    vacant = element('div', { class: 'vacant', hidden: true });
  const present = makePresent({
    root,
    changed: yes => look.present(yes),
    stop: () => clock.stop(),
    way: embedded && wayOut(address),
  });
  const pictures = element('div', { class: 'pictures', role: 'group', 'aria-label': 'Pictures' });
  const picture0 = element('div', { class: 'picture' }),
    strip = element('div', { class: 'strip', role: 'group', tabindex: '0', 'aria-label': 'State' });
  const code0 = element('div', { class: 'codes' }),
    main = element('div', { class: 'main' }),
    divider = makeDivider(main, picture0, code0);
  main.append(picture0, strip, divider.node, code0, guide.node, vacant);
  const paper = makePrint({ above: () => headOf(), below: () => footOf(), main });
  const tabs = element('div', { class: 'tabs' }),
    drawer = element('div', { class: 'drawer', hidden: true, role: 'region', tabindex: '0' });
  const verdict = element('p', { class: 'summary', hidden: true }),
    sides = element('div', { class: 'sides', role: 'group', 'aria-label': 'Which side is shown' });
  const lead = makeLead(base);
  const sub = element('div', { class: 'sub' }, pictures, sides, verdict, header.idea, lead.node);
  const frame = element(
    'div',
    { class: 'room' },
    header.node,
    lesson.panel,
    lesson.line,
    toolbar.node,
    messages.node,
    paper.head,
    clock.node,
    present.node,
    sub,
    main,
    paper.foot,
    tabs,
    drawer,
    start.node,
    sequences.bar,
    sequences.panel,
  );
  root.prepend(frame); // what stands over all of it, such as the list of keys, is there already
  root.classList.toggle('embedded', embedded);
  header.marks(progress());
  const glossary = makeGlossary(root);
  const keys = makeKeys({
    root,
    clicking: () => present.on || sequences.playing(),
    actions: {
      ...clock.actions,
      onward: ({ repeat }) => hub.onward?.(1, repeat) || clock.actions.next(),
      back: ({ repeat }) => hub.onward?.(-1, repeat) || clock.actions.previous(),
      picture: event => !!stage && choosePicture(stage.pictures[event.key - 1]?.id),
      guide: () => guide.toggle(),
      present: presents,
      blank: () => present.blank(),
      theme: () => look.nextTheme(),
      larger: () => look.larger(),
      smaller: () => look.smaller(),
      usual: () => look.usual(),
    },
  });

  // Streamlit calls again when the theme changes, and so does the switch of our own: what is
  // painted must be painted anew.
  let painted = '';
  function repaint() {
    const now = JSON.stringify(theme(root));
    if (painted && painted !== now && !stage) start.repaint();
    if (painted && painted !== now && stage) {
      mount();
      hub.set(hub.step, 'jump');
      openTab(tab);
    }
    painted = now;
  }

  // ---- going to a story ---- The address says which it is. Streamlit is not asked, and does not
  // hear of the way back: a story change is no rerun.
  const storyHere = () =>
    (
      rail.find(s => location.pathname.replace(/\/$/, '') === `${base}/${s.path}`) ??
      storyOf('start')
    ).path;
  const onBack = event => {
    event.stopImmediatePropagation();
    open(storyHere());
  };
  addEventListener('popstate', onBack, true);
  // Streamlit's call: the story of the address, which may be there already.
  function here() {
    repaint();
    if (story?.path !== storyHere()) open(storyHere());
  }
  // byRail: by the rail or a link of ours; carried: the choices come from another story, and what
  // does not apply here is not told.
  function open(path, byRail = false, carried = false) {
    if (story?.path !== path) vacate();
    story = storyOf(path);
    document.title = story.title;
    header.mark(path);
    guide.open(story, byRail);
    const starting = path === 'start';
    frame.classList.toggle('at-start', starting);
    clock.node.hidden = starting;
    if (starting) present.leave();
    if (starting) start.enter();
    else if (!start.node.hidden) start.leave();
    return show({
      params: unframed(Object.fromEntries(new URLSearchParams(location.search))),
      carried,
      fresh: true,
    });
  }
  function sayFrom(provenance) {
    header.provenance(provenance, PROVENANCE);
    present.provenance(provenance?.label ?? '');
  }
  // Another story: nothing of the one before stays in sight.
  function vacate() {
    clock.stop();
    ends.forEach(end => end());
    [ends, stage, tab] = [[], null, ''];
    closeTab();
    for (const part of [picture0, code0, strip, pictures, sides, tabs]) part.replaceChildren();
    verdict.hidden = toolbar.node.inert = true;
    lead.show();
    header.headline('');
    sayFrom(null);
    messages.clear();
    vacant.hidden = false;
    delete root.dataset.shown;
    root.classList.remove('stale');
  }
  // By the rail all that was chosen goes along, as far as it applies there. A link of ours (given)
  // says exactly what it means. replace: no way back leads to what is left. Done when the story is
  // shown, or is refused.
  function leave(path, given = {}, { replace = false, byRail = true } = {}) {
    const exact = Object.keys(given).length > 0;
    if (!replace) byHand();
    if (!exact && story?.path === path) return tellMoment();
    const along = [...chosen]
      .map(([key, value]) => [key.replace(`${path} `, ''), value])
      .filter(([name]) => !name.includes(' '));
    const { begin } = storyOf(path),
      // all that the start page asks
      where = along.filter(([name]) => name === 'backend' && name in begin);
    const query = exact ? [...where, ...Object.entries(given)] : path === 'start' ? where : along;
    const to = `${base}/${path === 'start' ? '' : path}?${framed(new URLSearchParams(query))}`;
    if (!replace) writeAddress(); // the way back leads to this step
    history[replace ? 'replaceState' : 'pushState']({}, '', to);
    return open(path, byRail, !exact);
  }

  // ---- asking and showing ----
  // The choices that are shown now; one of them may be the step itself.
  const choices = () =>
    stage?.step_choice in link
      ? {
          ...link,
          [stage.step_choice]: String(valueOf(clockOf() ? (steps[''] ?? stage.step) : hub.step)),
        }
      : link;
  const valueOf = step => stage.step_values?.[step] ?? step; // of the choice that the step is
  // params: choices (those shown now, if none are given); set: a change; fresh: another story, so
  // the address's step counts.
  async function show({
    params = choices(),
    set = null,
    carried = false,
    fresh = false,
    again = false,
    retry = false,
  }) {
    const mine = ++turn,
      current = () => mine === turn,
      before = link;
    const asked = { path: story.path, params, set, carried, again: retry };
    if (!again) messages.anew();
    if (!stage)
      vacant.replaceChildren(element('p', { role: 'status' }, `${story.title} is being made.`));
    if (fresh) [picture, tab] = [params.picture ?? '', params.tab ?? ''];
    root.classList.add('asking');
    main.setAttribute('aria-busy', 'true');
    let counted = false; // the change is, among what was chosen
    const heard = answer => {
      if (!answer.choices) return;
      take(answer);
      if (!counted && set && !(set[0] in (answer.refused ?? {}))) choose(set[0], before);
      else if (!counted && fresh && !carried) chooseAddress();
      counted = true;
    };
    const said = await askUntilDone(
      base,
      asked,
      waiting => {
        if (current()) {
          heard(waiting);
          wait(waiting.waiting);
        }
      },
      current,
    );
    if (!current()) return;
    heard(said);
    if (!said.choices && !stage) toolbar.load([], {}); // those of the story before
    const anew = more =>
      show({
        params: { ...params, ...said.link },
        set: said.choices ? null : set,
        carried: carried && !said.choices,
        fresh,
        ...more,
      });
    if (said.error)
      return refuse(
        said.title,
        said.error,
        said.title === 'This cannot run.' ? null : () => anew({ retry: true }),
      );
    let made;
    try {
      made = await load(base, said.bundle);
    } catch (error) {
      if (!current()) return;
      if (again) return refuse('The picture could not be fetched.', error.message, () => anew({}));
      return anew({ again: true }); // it was pruned between answer and fetch
    }
    if (current()) draw(made, said, fresh ? params.step : null, fresh);
  }
  // ---- what was chosen ----
  const keyOf = name => (OWN.includes(name) ? `${story.path} ${name}` : name);
  function note(name) {
    chosen.delete(keyOf(name)); // the newest stands last
    chosen.set(keyOf(name), link[name]);
  }
  // A change: its choice, also where it goes back to where the story begins; what it moved of the
  // choices made before; all that it moved, where it stands for several (a preset).
  function choose(name, before) {
    const moved = Object.keys(link).filter(n => link[n] !== before[n]);
    for (const n of moved) if (!(name in link) || chosen.has(keyOf(n))) note(n);
    if (name in link) note(name);
  }
  // A link from elsewhere: what differs from where the story begins, and what was chosen before.
  function chooseAddress() {
    for (const [name, value] of Object.entries(link))
      if (chosen.has(keyOf(name)) || story.begin[name] !== value) note(name);
  }
  function take(said) {
    link = said.link;
    toolbar.node.inert = false;
    toolbar.load([...said.choices, ...(stage?.late ?? [])], said.refused ?? {});
    header.headline(said.headline);
    messages.tell(said.told ?? []);
    messages.offer(said.offer, set => show({ set }));
    if (Object.keys(said.refused ?? {}).length)
      toolbar.open(
        Object.keys(said.refused).some(name =>
          said.choices.find(
            c => c.name === name && ['place', 'problem', 'build', 'run'].includes(c.group),
          ),
        ),
      );
  }
  function wait({ key, seconds, place, running }) {
    if (story.path === 'start') return start.meanwhile();
    if (seconds < 1) return;
    const ahead = place ? `${place} ${place === 1 ? 'goes' : 'go'} before it` : 'it is the next';
    const said = running
      ? `is running: ${Math.round(seconds)} s so far.`
      : `waits for a free worker: ${ahead}; ${Math.round(seconds)} s so far.`;
    report(
      element(
        'p',
        { class: 'note info', role: 'status' },
        `${story.title} ${said} `,
        button('Stop', () => stop(base, key)),
      ),
    );
  }
  // The picture's own message: in its place while there is none, else above it.
  function report(node) {
    if (stage || story.path === 'start') messages.show(node);
    else vacant.replaceChildren(node);
  }
  // what is shown is not what was asked for last
  const asking = () => root.classList.contains('asking');
  function settled() {
    root.classList.remove('asking');
    main.removeAttribute('aria-busy');
  }
  function refuse(title, text, again) {
    const kept = stage ? 'What is shown is of the choices before. ' : '';
    report(
      element(
        'p',
        { class: 'note bad', role: 'alert' },
        element('b', {}, title),
        ` ${text} ${kept}`,
        ...(again ? [button('Run again', again)] : []),
      ),
    );
    settled();
    root.classList.add('stale');
  }
  function tellMissing(name, asked, there) {
    // of the address's own: what a link asks for and is not there
    if (asked && !there.some(one => one.id === asked))
      messages.tell([
        `${name} is ${asked}; here it can be ${there.map(one => one.id).join(', ') || 'left out'}.`,
      ]);
  }

  function draw(made, said, wanted, fresh) {
    settled();
    root.classList.remove('stale');
    messages.show(null);
    vacant.hidden = true;
    if (story.path === 'start') {
      sayFrom(made.provenance);
      start.show(made);
      root.dataset.shown = `start ${said.bundle}`;
      return tellMoment();
    }
    // another lens begins at its first step
    const before = stage?.views[0]?.id === made.views[0]?.id && stage ? framesNow() : [];
    stage = { ...prepared(made), refused: said.refused ?? {} };
    if (fresh) tellMissing('picture', picture, stage.pictures);
    if (fresh) tellMissing('tab', tab, stage.tabs);
    if (!stage.pictures.some(p => p.id === picture)) picture = stage.pictures[0]?.id ?? '';
    if (fresh) steps = {};
    const step = nextStep(before, framesNow(), wanted, fresh);
    link = { ...link, ...Object.fromEntries(stage.late.map(c => [c.name, c.value])) };
    toolbar.load([...said.choices, ...stage.late], said.refused ?? {});
    messages.tell(stage.told);
    header.headline(stage.headline || said.headline);
    sayFrom(stage.provenance);
    messages.warn(stage.provenance?.warnings ?? []);
    loadClock();
    mount();
    hub.set(step, 'jump');
    drawTabs();
    lead.show({ path: story.path, part: stage.lead, params: choices(), context: context() });
    guide.load(stage);
    writeAddress();
    root.dataset.shown = `${story.path} ${said.bundle}`; // tests wait for it
  }
  // The step to begin with: the link's; after a change the same moment, where the new run has it.
  function nextStep(before, frames, wanted, fresh) {
    const last = Math.max(0, frames.length - 1);
    if (wanted !== null && wanted !== undefined) {
      const asked = Number(wanted);
      if (Number.isInteger(asked) && asked >= 1 && asked <= last + 1) return asked - 1;
      messages.tell([`step is ${wanted}; here it can be 1 to ${last + 1}.`]);
      return Math.min(last, Math.max(0, Math.trunc(asked) - 1 || 0));
    }
    if (!clockOf() && stage.step_choice in link)
      return Math.max(
        0,
        frames.findLastIndex((_, n) => valueOf(n) <= (Number(link[stage.step_choice]) || 0)),
      );
    if (fresh || !before[hub.step]) return clockOf() ? 0 : stage.step;
    const key = f => `${f.tile} ${f.phase ?? f.title}`,
      now = before[hub.step],
      nth = before.slice(0, hub.step).filter(f => key(f) === key(now)).length;
    const same = frames
      .map((f, n) => [key(f), n])
      .filter(([k]) => k === key(now))
      .map(([, n]) => n);
    return same[Math.min(nth, same.length - 1)] ?? Math.min(hub.step, last);
  }

  // ---- the middle ---- A picture may have a clock of its own (meta.clock): its frames, and its
  // strip (meta.state). The others share the stage's.
  const clockOf = () => stage.views.find(v => v.id === picture && v.meta.clock)?.meta ?? null;
  const framesNow = () => clockOf()?.frames ?? stage.frames;
  function loadClock() {
    const frames = framesNow().length
      ? framesNow()
      : [{ title: '', sentence: stage.summary, tile: 0 }];
    hub.load(frames);
    clock.node.querySelector('.clock').hidden = frames.length < 2;
    clock.load(
      frames,
      frames[0].sentences
        ? frames[0].sentences.map((_, side) => frames.map(f => ({ sentence: f.sentences[side] })))
        : [frames],
    );
  }
  // What a view is given beside its own data.
  const change = (name, value) => {
    byHand();
    show({ set: [name, value] });
  };
  const turnTo = (name, value) => {
    // a change after which the browser's way back leads to this moment
    writeAddress();
    history.pushState({}, '', location.href);
    change(name, value);
  };
  const context = () => ({ base, stage, change, turnTo, open: leave, again: () => show({}) });
  function mount() {
    ends.forEach(end => end());
    ends = [];
    pictures.replaceChildren(
      ...(stage.pictures.length > 1
        ? stage.pictures.map((p, n) =>
            button(p.title, () => choosePicture(p.id), {
              class: 'chip',
              'aria-pressed': String(p.id === picture),
              title: `Picture ${n + 1} (key ${n + 1})`,
            }),
          )
        : []),
    );
    pictures.hidden = stage.pictures.length < 2;
    const views = stage.views.filter(v => v.id === picture),
      two = views.length > 1 || stage.codes.length > 1;
    main.classList.toggle('two', two);
    divider.turn();
    sides.hidden = !two;
    showSide(main.classList.contains('only-b') ? 1 : 0);
    // without frames the summary is the sentence
    verdict.hidden = !(stage.summary && stage.frames.length);
    header.idea.hidden = !verdict.hidden;
    verdict.textContent = verdict.title = stage.summary;
    verdict.className = `summary ${stage.tone}`;
    main.classList.toggle('no-code', !stage.codes.length && !stage.side.length);
    picture0.replaceChildren(
      ...views.map(view => {
        const host = element('div', {
          class: 'view',
          'data-view': view.kind,
          'data-side': view.side,
        });
        import(`./views/${view.kind}.js`).then(module => {
          if (!host.isConnected) return;
          const meta = view.meta.frames ? view.meta : { ...view.meta, frames: stage.frames };
          const made = module.default(host, { ...view, meta }, context());
          ends.push(() => made.unmount());
        }, unfetched(host));
        return host;
      }),
    );
    code0.replaceChildren(
      ...stage.codes.map(code => {
        const host = element('div', { class: 'pane', 'data-side': code.side });
        queueMicrotask(() => {
          if (host.isConnected)
            ends.push(
              codeView(
                host,
                code,
                framesNow(),
                story.path === 'source' ? null : () => leave('source', code.source),
              ).unmount,
            );
        });
        return host;
      }),
    );
    if (!stage.codes.length && stage.side.length) {
      const host = element('div', { class: 'pane side' });
      code0.replaceChildren(host);
      ends.push(showBlocks(host, stage.side, base, context()));
    }
    const state = clockOf() ? clockOf().state : stage.state;
    strip.hidden = !state.length;
    const made = stripView(strip, state);
    ends.push(made.unmount);
  }
  // A narrow window shows one side of two.
  function showSide(side) {
    main.classList.toggle('only-b', side === 1);
    sides.replaceChildren(
      ...['A', 'B'].map((name, n) =>
        button(name, () => showSide(n), { class: 'chip', 'aria-pressed': String(n === side) }),
      ),
    );
  }
  function choosePicture(id) {
    if (!id || id === picture || !stage.pictures.some(p => p.id === id))
      return !!id && id === picture;
    steps[clockOf() ? picture : ''] = hub.step;
    const before = framesNow();
    picture = id;
    if (framesNow() !== before) loadClock();
    mount();
    hub.set(steps[clockOf() ? picture : ''] ?? (clockOf() ? 0 : stage.step), 'jump');
    writeAddress();
    return true;
  }

  // ---- the tabs ----
  function drawTabs() {
    const known = stage.tabs.map(t => t.id);
    tabs.replaceChildren(
      ...stage.tabs.map(t =>
        button(t.title, () => openTab(t.id === tab ? '' : t.id), {
          'aria-expanded': String(t.id === tab),
          'data-tab': t.id,
        }),
      ),
    );
    tabs.hidden = !known.length;
    openTab(known.includes(tab) ? tab : '');
  }
  // A tab that is made for a step is made anew where one rests.
  function rested() {
    writeAddress();
    if (
      tab &&
      stage?.step_choice &&
      madeAt !== hub.step &&
      !stage.tabs.find(t => t.id === tab)?.blocks
    )
      openTab(tab);
  }
  function closeTab() {
    tabEnd?.();
    tabEnd = null;
    drawer.hidden = true;
    drawer.replaceChildren();
    frame.classList.remove('with-drawer');
  }
  async function openTab(id) {
    const mine = turn,
      nth = ++opening,
      current = () => mine === turn && nth === opening;
    madeAt = hub.step;
    tab = id;
    closeTab();
    [...tabs.children].forEach(b => b.setAttribute('aria-expanded', String(b.dataset.tab === id)));
    writeAddress();
    if (!id) return;
    drawer.hidden = false;
    frame.classList.add('with-drawer');
    const found = stage.tabs.find(t => t.id === id);
    drawer.setAttribute('aria-label', found.title);
    let blocks = found.blocks;
    if (!blocks) {
      drawer.replaceChildren(element('p', { role: 'status' }, 'Being made ...'));
      const said = await askUntilDone(
        base,
        { path: story.path, params: choices(), part: id },
        () => {},
        current,
      );
      if (!current()) return;
      const failed = text => {
        if (current())
          drawer.replaceChildren(element('p', { class: 'note bad', role: 'alert' }, text));
      };
      if (said.error) return failed(said.error);
      try {
        blocks = await load(base, said.bundle);
      } catch (error) {
        return failed(error.message);
      }
      if (!current()) return;
    }
    tabEnd = showBlocks(drawer, blocks, base, context());
    root.dataset.tab = id;
  }

  // ---- the address ---- The moment that is shown, as a link: 'path?choices&step&picture&tab'.
  // Whoever follows it hears 'moment' on the hub, and may `visit` one.
  function now() {
    const query = new URLSearchParams(
      stage ? choices() : unframed(Object.fromEntries(new URLSearchParams(location.search))),
    );
    if (stage && hub.count > 1) query.set('step', hub.step + 1);
    // which counts from 0, and which the step says
    if (stage && hub.count > 1 && !clockOf()) query.delete(stage.step_choice);
    if (stage?.pictures.length > 1) query.set('picture', picture);
    if (stage && tab) query.set('tab', tab);
    return `${story.path}?${query}`;
  }
  // replace: no way back leads to the moment before.
  function visit(link, replace = false) {
    const [path, query] = link.split('?'),
      given = Object.fromEntries(new URLSearchParams(query)),
      { step, ...rest } = given;
    const here = Object.fromEntries(new URLSearchParams(now().split('?')[1]));
    delete here.step;
    if (path !== story.path || !stage || asking() || !sameChoices(rest, here))
      return leave(path, given, { replace, byRail: false });
    if (step) hub.set(step - 1, 'jump'); // the same run, another step
    tellMoment();
  }
  // who follows a class goes a way of their own
  const byHand = () => hub.dispatchEvent(new Event('hand'));
  const tellMoment = () => hub.dispatchEvent(new CustomEvent('moment', { detail: now() }));
  function writeAddress() {
    if (
      !stage ||
      asking() ||
      !location.pathname.endsWith(story.path === 'start' ? '/' : `/${story.path}`)
    )
      return;
    const url = `${location.pathname}?${framed(now().split('?')[1])}`;
    if (url !== location.pathname + location.search) history.replaceState(history.state, '', url);
    tellMoment();
  }
  // Of what is shown, as any browser opens it.
  function address() {
    const [path, query] = story ? now().split('?') : ['start', ''];
    return `${location.origin}${base}/${path === 'start' ? '' : path}?${query}`;
  }
  // What stands over and under a moment that is taken along; what a question veils is not among it.
  const veiled = part => (root.dataset.veils ?? '').includes(part);
  const headOf = () => [
    {
      text: `${story?.title ?? ''}: ${stage?.pictures.find(p => p.id === picture)?.title ?? ''}`,
      size: 20,
      bold: true,
    },
    { text: veiled('headline') ? '' : header.idea.textContent, size: 13 },
    { text: stage?.frames.length && !veiled('headline') ? stage.summary : '', size: 13 },
  ];
  const footOf = () => [
    {
      text: [
        hub.count > 1
          ? `Step ${hub.step + 1} of ${hub.count}${veiled('sentence') ? '' : `: ${hub.titles[hub.step]}`}.`
          : '',
        stage?.provenance?.said,
      ]
        .filter(Boolean)
        .join(' '),
      size: 13,
    },
    { text: address(), size: 13 },
  ];
  async function savePicture() {
    if (!stage || root.matches('.asking, .stale')) return 'Wait until it is shown';
    try {
      await savePng(
        await drawMoment(root, [clock.sentences, main], headOf(), footOf()),
        `warpglass-${story.path}-${hub.step + 1}.png`,
      );
      return 'Saved';
    } catch (error) {
      return error.message;
    }
  }
  const framed = query => [query, framing()].filter(part => String(part)).join('&');
  function copyLink() {
    writeAddress();
    return copy(location.href);
  }

  room.begin();
  return {
    here,
    unmount() {
      removeEventListener('popstate', onBack, true);
      ends.forEach(end => end());
      for (const part of [
        clock,
        guide,
        glossary,
        keys,
        paper,
        present,
        start,
        toolbar,
        divider,
        sequences,
        lesson,
        room,
        header,
      ])
        part.unmount();
    },
  };
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

const sameChoices = (a, b) => Object.keys({ ...a, ...b }).every(name => a[name] === b[name]);

// The stage with its pictures listed: views of one id stand side by side.
function prepared(made) {
  const pictures = [...new Map(made.views.map(v => [v.id, { id: v.id, title: v.title }])).values()];
  return { ...made, pictures };
}
