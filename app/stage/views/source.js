// CUDA, PTX and SASS side by side: hover a line and what belongs to it lights up in the other
// panes, press it to hold that. Search in all three, a tint for each source line, branches that
// lead to their labels, and the registers that are live at each instruction.
import { button, element, number } from '../core/paint.js';

/** @type {Picture<source.SourceMeta>} */
export default function (host, { meta }) {
  const { files, ptx, sass, registers, most_live: most, stalls } = meta,
    own = files[0].name;
  const find = element('input', {
    type: 'text',
    placeholder: 'Search',
    'aria-label': 'Search in CUDA, PTX and SASS',
    spellcheck: 'false',
    title: 'Enter: next match. Shift+Enter: the one before',
  });
  const found = element('output', { 'aria-live': 'polite' }),
    tint = element('input', { type: 'checkbox' });
  const state = element('p', { class: 'source-state', role: 'status' });
  const told = Object.entries(most)
    .map(([entry, n]) => `${Object.keys(most).length > 1 ? `${entry} ` : ''}${n} of ${registers[entry]}`)
    .join(', ');
  const tools = element(
    'div',
    { class: 'source-tools' },
    find,
    found,
    element('label', {}, tint, ' colour by line'),
    element('span', { class: 'live-most' }, `most registers live: ${told}`),
    state,
  );
  const titles = [
    ['CUDA', files.map(f => f.name).join(' + ')],
    ['PTX', `${number(ptx.text.length)} lines`],
    ['SASS', `${number(sass.text.length)} instructions: address, live registers`],
  ];
  const panes = titles.map(([name]) =>
    element('div', {
      class: `code ${name.toLowerCase()}`,
      tabindex: '0',
      role: 'region',
      'aria-label': name,
    }),
  );
  host.replaceChildren(
    tools,
    element(
      'div',
      { class: 'source-panes' },
      ...panes.map((pane, n) =>
        element(
          'div',
          { class: 'pane' },
          element('div', { class: 'file' }, element('span', {}, `${titles[n][0]}: ${titles[n][1]}`)),
          pane,
        ),
      ),
    ),
  );

  // ---- rows ----
  const bySource = new Map(),
    byLabel = [null, new Map(), new Map()],
    all = []; // place -> its rows; of PTX and SASS: label -> its row
  const sampled = Object.keys(stalls).length > 0;
  panes[0].classList.toggle('sampled', sampled);
  // The samples of a line: its share of all, and under the code its stall reasons.
  const shareOf = found =>
    element(
      'span',
      found
        ? { class: 'share', style: `--share:${Math.round(100 * found.share)}%`, title: found.tip }
        : { class: 'share' },
      found ? percent(found.share) : '',
    );
  const percent = share => (share < 0.01 ? '<1%' : `${Math.round(100 * share)}%`);
  const row = (pane, number, text, source, more = {}) => {
    const at = pane === 0 ? text.indexOf('//') : -1,
      code = element('span', { class: 'text' }, at < 0 ? text || ' ' : text.slice(0, at));
    if (at >= 0) code.append(element('span', { class: 'comment' }, text.slice(at)));
    const made = element(
      'div',
      {
        class: more.dim ? 'row probe' : 'row',
        ...(source ? { 'data-source': source } : {}),
        ...(more.target ? { 'data-target': more.target } : {}),
      },
      element('span', { class: 'number' }, number),
      ...(more.live === undefined ? [] : [liveBar(more.live, more.entry)]),
      ...(pane === 0 && sampled ? [shareOf(more.stalls)] : []),
      code,
      ...(more.stalls?.reasons
        ? [element('span', { class: 'reasons', title: more.stalls.tip }, more.stalls.reasons)]
        : []),
    );
    made.pane = pane;
    made.said = text.toLowerCase();
    all.push(made);
    if (source) bySource.set(source, [...(bySource.get(source) ?? []), made]);
    return made;
  };
  const liveBar = (live, entry) =>
    element(
      'span',
      {
        class: live === most[entry] ? 'live most' : 'live',
        style: `--live:${Math.round((100 * live) / Math.max(1, registers[entry]))}%`,
        title: `${live} registers are live here`,
      },
      String(live),
    );
  const heading = text =>
    element(
      'div',
      { class: 'row heading' },
      element('span', { class: 'number' }),
      element('span', { class: 'text' }, text),
    );
  const hex = address => address.toString(16).padStart(4, '0');
  const labelRow = (pane, name, from) => {
    const made = element(
      'div',
      { class: 'row mark', 'data-label': name },
      element('span', { class: 'number' }),
      element('span', { class: 'text' }, `${name}:${from ? `  from ${from}` : ''}`),
    );
    made.pane = pane;
    made.said = name.toLowerCase();
    all.push(made);
    byLabel[pane].set(name, made);
    return made;
  };
  const comesFrom = new Map(); // label of SASS -> the addresses that branch to it
  sass.target.forEach((target, n) => {
    if (target) comesFrom.set(target, [...(comesFrom.get(target) ?? []), hex(sass.address[n])]);
  });
  const held = new Set(meta.held);
  panes[0].append(
    ...files.flatMap(({ name, lines, probes }, f) => [
      ...(f ? [heading(name)] : []),
      ...lines.map((text, i) =>
        row(0, String(i + 1), text, held.has(`${name}:${i + 1}`) ? `${name}:${i + 1}` : '', {
          dim: probes.includes(i + 1),
          stalls: stalls[`${name}:${i + 1}`],
        }),
      ),
    ]),
  );
  panes[1].append(
    ...ptx.text.map((text, n) => {
      const made = row(1, ptx.source[n].split(':').at(-1), text, ptx.source[n], {
        target: ptx.target[n],
      });
      for (const label of ptx.labels[n]) {
        made.dataset.label = label;
        made.classList.add('mark');
        byLabel[1].set(label, made);
      }
      return made;
    }),
  );
  panes[2].append(
    ...sass.text.flatMap((text, n) => [
      ...(sass.entry[n] !== sass.entry[n - 1] ? [heading(sass.entry[n])] : []),
      ...sass.labels[n].map(label => labelRow(2, label, (comesFrom.get(label) ?? []).join(', '))),
      row(2, hex(sass.address[n]), text, sass.source[n], {
        target: sass.target[n],
        live: sass.live[n],
        entry: sass.entry[n],
      }),
    ]),
  );
  // A branch's label leads there.
  for (const made of all)
    if (made.dataset.target && byLabel[made.pane].has(made.dataset.target)) {
      const code = made.lastChild,
        text = code.textContent,
        at = text.indexOf(made.dataset.target);
      code.replaceChildren(
        text.slice(0, at),
        button(
          made.dataset.target,
          event => {
            event.stopPropagation();
            goTo(made);
          },
          { class: 'jump', title: 'Go to this label' },
        ),
        text.slice(at + made.dataset.target.length),
      );
    }
  function goTo(made) {
    const label = byLabel[made.pane].get(made.dataset.target);
    bring(label);
    label.classList.remove('arrived');
    requestAnimationFrame(() => label.classList.add('arrived'));
  }

  // ---- what is lit ----
  let kept = null,
    lit = [],
    aims = [];
  const bring = made => {
    const pane = panes[made.pane],
      top = made.offsetTop;
    if (top < pane.scrollTop || top + made.offsetHeight > pane.scrollTop + pane.clientHeight)
      pane.scrollTop = Math.max(0, top - pane.clientHeight / 3);
  };
  const show = (source, from) => {
    for (const made of lit) made.classList.remove('lit');
    lit = bySource.get(source) ?? [];
    for (const made of lit) made.classList.add('lit');
    const times = pane => lit.filter(made => made.pane === pane).length,
      plural = n => `${number(n)} ${n === 1 ? 'instruction' : 'instructions'}`;
    const at = place => {
      const [file, line] = place.split(':');
      return file === own ? `Line ${line}` : `${file} line ${line}`;
    };
    const peak = lit
      .filter(made => made.pane === 2)
      .reduce((most, made) => Math.max(most, Number(made.children[1].textContent)), 0);
    state.textContent = source
      ? `${at(source)}: ${plural(times(1))} of PTX, ${plural(times(2))} of ` +
        `SASS${peak ? `, up to ${peak} live registers` : ''}${kept ? ' (kept: press it again to let go)' : ''}`
      : 'Hover a line to see its instructions. Press it to keep them lit.';
    if (!source) return;
    panes.forEach((_, n) => {
      const first = lit.find(made => made.pane === n);
      if (first && n !== from) bring(first);
    });
  };
  const aim = made => {
    // a branch and its label
    for (const one of aims) one.classList.remove('aim');
    const of = made?.dataset.target ? byLabel[made.pane].get(made.dataset.target) : null;
    const back = made?.dataset.label
      ? all.filter(one => one.pane === made.pane && one.dataset.target === made.dataset.label)
      : [];
    aims = of ? [made, of] : back.length ? [made, ...back] : [];
    for (const one of aims) one.classList.add('aim');
  };
  panes.forEach((pane, n) => {
    const rowOf = event => event.target.closest?.('.row');
    pane.onmouseover = event => {
      aim(rowOf(event));
      if (!kept) show(rowOf(event)?.dataset.source, n);
    };
    pane.onmouseleave = () => {
      aim(null);
      if (!kept) show(null);
    };
    pane.onclick = event => {
      const source = rowOf(event)?.dataset.source;
      kept = source && kept !== source ? source : null;
      show(kept ?? source, n);
    };
    pane.onkeydown = event => {
      // up and down hold the next line that has instructions
      if ((event.key !== 'ArrowDown' && event.key !== 'ArrowUp') || event.target !== pane) return;
      const lines = [...panes[0].querySelectorAll('[data-source]')].map(made => made.dataset.source),
        now = lines.indexOf(kept);
      const next = event.key === 'ArrowDown' ? lines[now + 1] : lines[(now < 0 ? lines.length : now) - 1];
      if (next === undefined) return;
      event.preventDefault();
      kept = next;
      show(kept, -1);
    };
  });

  // ---- search ----
  let hits = [],
    hit = -1;
  const search = () => {
    for (const made of hits) made.classList.remove('hit', 'now');
    const text = find.value.trim().toLowerCase();
    hits = text ? all.filter(made => made.said.includes(text)) : [];
    for (const made of hits) made.classList.add('hit');
    hit = -1;
    const parts = ['CUDA', 'PTX', 'SASS']
      .map((name, n) => [name, hits.filter(made => made.pane === n).length])
      .filter(([, n]) => n)
      .map(([name, n]) => `${n} in ${name}`);
    found.textContent = !text
      ? ''
      : hits.length
        ? `${number(hits.length)} ${hits.length === 1 ? 'match' : 'matches'}: ${parts.join(', ')}`
        : 'no match';
  };
  find.oninput = search;
  find.onkeydown = event => {
    if (event.key !== 'Enter' || !hits.length) return;
    event.preventDefault();
    hits[hit]?.classList.remove('now');
    hit = (event.shiftKey ? Math.max(hit, 0) - 1 + hits.length : hit + 1) % hits.length;
    hits[hit].classList.add('now');
    bring(hits[hit]);
    found.textContent = `${number(hit + 1)} of ${number(hits.length)}`;
  };

  // ---- a tint for each line: neighbours differ most ----
  tint.onchange = () => {
    host.classList.toggle('tinted', tint.checked);
    [...bySource.entries()].forEach(([, rows], n) =>
      rows.forEach(made => made.style.setProperty('--hue', Math.round(n * 137.5) % 360)),
    );
  };
  const [hottest] = Object.entries(stalls).sort(([, a], [, b]) => b.share - a.share);
  const first = (hottest && bySource.get(hottest[0])?.[0]) ?? [...panes[0].children].find(made => made.dataset.source);
  show(null);
  requestAnimationFrame(() => {
    if (first) panes[0].scrollTop = Math.max(0, first.offsetTop - 60);
  }); // past what is said above the code
  return {
    unmount() {
      host.replaceChildren();
    },
  };
}
