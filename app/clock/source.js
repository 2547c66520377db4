// CUDA, PTX and SASS side by side: hover a line and what belongs to it lights up in the other panes; a click keeps it and brings it into view.
const ROW = 20;  // pixels, as in views.css

export default function ({ data, parentElement }) {
  const panes = [...parentElement.querySelectorAll('.code')], state = parentElement.querySelector('[data-part=state]');
  const { build, files, held: places } = data;
  let held = null, lit = [];
  // A line of a pane: what it belongs to, "FILE:LINE", is its data-source.
  const line = (text, number, source, dim) => {
    const at = text.indexOf('//'), code = element('span', { class: 'text' }, at < 0 ? text || ' ' : text.slice(0, at));
    if (at >= 0) code.append(element('span', { class: 'comment' }, text.slice(at)));
    return element('div', { class: dim ? 'row probe' : 'row', ...(source ? { 'data-source': source } : {}) }, element('span', { class: 'number' }, number), code);
  };
  const heading = text => element('div', { class: 'row entry' }, element('span', { class: 'number' }), element('span', { class: 'text' }, text));
  const cuda = () => {
    const known = new Set(places);
    return files.flatMap(({ name, lines, probes }, n) => [...(n ? [heading(name)] : []), ...lines.map((text, i) => {
      const place = `${name}:${i + 1}`;
      return line(text, String(i + 1), known.has(place) ? place : '', probes.includes(i + 1));
    })]);
  };
  const machine = ({ text, source, entry }, named) => text.flatMap((one, i) => {
    const made = line(one, source[i].split(':').at(-1), source[i]);
    return named && entry[i] !== entry[i - 1] ? [heading(entry[i]), made] : [made];
  });
  if (parentElement.host?.dataset.build !== build || !panes[0].children.length) {
    if (parentElement.host) parentElement.host.dataset.build = build;
    [cuda(), machine(data.ptx, false), machine(data.sass, true)].forEach((rows, p) => {
      panes[p].replaceChildren(...rows);
      panes[p].scrollTop = p ? 0 : Math.max(0, rows.findIndex(row => row.dataset.source) - 4) * ROW;  // past what is said above the code
    });
  }
  const show = (source, from) => {
    for (const row of lit) row.classList.remove('lit');
    lit = source ? panes.flatMap(pane => [...pane.querySelectorAll(`[data-source="${source}"]`)]) : [];
    for (const row of lit) row.classList.add('lit');
    const at = place => { const [file, number] = place.split(':'); return file === files[0].name ? `line ${number}` : `${file} line ${number}`; };
    const count = p => lit.filter(row => row.parentElement === panes[p]).length;
    state.textContent = source ? `${at(source)}: ${count(1)} PTX instruction${count(1) === 1 ? '' : 's'}, ${count(2)} SASS instruction${count(2) === 1 ? '' : 's'}`
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
      const rows = [...panes[0].querySelectorAll('[data-source]')].map(row => row.dataset.source), now = rows.indexOf(held);
      const next = event.key === 'ArrowDown' ? rows[now + 1] : rows[(now < 0 ? rows.length : now) - 1];
      if (next === undefined) return;
      event.preventDefault();
      held = next;
      show(held, null);
    };
  }
  show(null);
}
