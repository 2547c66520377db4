// The code pane: the .cu itself, the lines that the step executed lit, probe lines dimmed.
export default function ({ data, parentElement }) {
  const pane = parentElement.querySelector('.code');
  let rows;
  const draw = step => {
    const lit = data.lit[step] ?? {};
    for (const row of rows ?? []) row.classList.remove('lit');
    pane.querySelectorAll('.count').forEach(node => { node.textContent = ''; });
    const numbers = Object.keys(lit).map(Number).sort((a, b) => a - b);
    for (const number of numbers) {
      const row = rows[number - 1];
      row.classList.add('lit');
      row.children[1].textContent = lit[number] > 1 ? `${lit[number].toLocaleString('en')}\u00d7` : '';
    }
    if (!numbers.length) return;
    const top = rows[numbers[0] - 1].offsetTop, bottom = rows[numbers.at(-1) - 1].offsetTop + 20;
    const target = bottom - top < pane.clientHeight ? (top + bottom - pane.clientHeight) / 2 : top - 40;
    if (top < pane.scrollTop || bottom > pane.scrollTop + pane.clientHeight) pane.scrollTop = target;
  };
  const { view, step, unmount } = mount(parentElement, { onStep: draw, title: data.file });
  if (view.file !== data.file || view.source !== data.lines.length) {
    view.file = data.file;
    view.source = data.lines.length;
    pane.replaceChildren(...data.lines.map((text, i) => {
      const at = text.indexOf('//');
      const code = element('span', { class: 'text' }, at < 0 ? text || ' ' : text.slice(0, at));
      if (at >= 0) code.append(element('span', { class: 'comment' }, text.slice(at)));
      return element('div', { class: data.probes.includes(i + 1) ? 'row probe' : 'row' }, element('span', { class: 'number' }, String(i + 1)), element('span', { class: 'count' }), code);
    }));
    parentElement.querySelector('.file').textContent = data.file;
  }
  rows = [...pane.children];
  draw(step);
  return unmount;
}
