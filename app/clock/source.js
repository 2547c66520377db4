// CUDA, PTX and SASS side by side: hover a line and what belongs to it lights up in the other panes; a click keeps it and brings it into view.
export default function ({ data, parentElement }) {
  const panes = [...parentElement.querySelectorAll('.code')], state = parentElement.querySelector('[data-part=state]');
  const build = data.build, ROW = 20;
  let held = null, lit = [];
  if (parentElement.host?.dataset.build !== build || !panes[0].children.length) {
    if (parentElement.host) parentElement.host.dataset.build = build;
    ['cuda', 'ptx', 'sass'].forEach((name, p) => {
      let entry = null;
      const nodes = [];
      data[name].text.forEach((text, i) => {
        const source = data[name].source[i], at = text.indexOf('//');
        if (data[name].entry && data[name].entry[i] !== entry && name === 'sass') {
          entry = data[name].entry[i];
          nodes.push(element('div', { class: 'row entry' }, element('span', { class: 'number' }), element('span', { class: 'text' }, entry)));
        }
        const code = element('span', { class: 'text' }, at < 0 ? text || ' ' : text.slice(0, at));
        if (at >= 0) code.append(element('span', { class: 'comment' }, text.slice(at)));
        nodes.push(element('div', { class: data[name].dim?.[i] ? 'row probe' : 'row', ...(source ? { 'data-source': source } : {}) },
          element('span', { class: 'number' }, source && name !== 'cuda' ? String(source) : name === 'cuda' ? String(i + 1) : ''), code));
      });
      panes[p].replaceChildren(...nodes);
      panes[p].scrollTop = 0;
    });
  }
  const show = (source, from) => {
    for (const row of lit) row.classList.remove('lit');
    lit = source ? panes.flatMap(pane => [...pane.querySelectorAll(`[data-source="${source}"]`)]) : [];
    for (const row of lit) row.classList.add('lit');
    const count = p => lit.filter(row => row.parentElement === panes[p]).length;
    state.textContent = source ? `line ${source}: ${count(1)} PTX instruction${count(1) === 1 ? '' : 's'}, ${count(2)} SASS instruction${count(2) === 1 ? '' : 's'}`
      + (held ? ' (held; click it again to let go)' : '') : 'Hover a line to see what became of it; click to hold it.';
    if (!source) return;
    for (const pane of panes) {
      const first = lit.find(row => row.parentElement === pane);
      if (!first || pane === from) continue;
      const top = first.offsetTop - pane.offsetTop;
      if (top < pane.scrollTop || top > pane.scrollTop + pane.clientHeight - ROW) pane.scrollTop = Math.max(0, top - pane.clientHeight / 3);
    }
  };
  for (const pane of panes) {
    const sourceOf = event => event.target.closest?.('[data-source]')?.dataset.source;
    pane.onmouseover = event => { if (!held) show(sourceOf(event), pane); };
    pane.onmouseleave = () => { if (!held) show(null); };
    pane.onclick = event => {
      const source = sourceOf(event);
      held = source && held !== source ? source : null;
      show(held ?? source, pane);
    };
    pane.onkeydown = event => {  // the keyboard's way: up and down hold the next line that has instructions
      if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return;
      const sources = [...new Set([...panes[1].querySelectorAll('[data-source]'), ...panes[2].querySelectorAll('[data-source]')].map(row => +row.dataset.source))].sort((a, b) => a - b);
      const next = event.key === 'ArrowDown' ? sources.find(s => s > (held ?? 0)) : sources.reverse().find(s => s < (held ?? Infinity));
      if (next === undefined) return;
      event.preventDefault();
      held = String(next);
      show(held, null);
    };
  }
  show(null);
}
