// The code pane: the .cu itself, the lines that the step executed lit, probe lines dimmed.
export default function ({ data, parentElement }) {
  const pane = parentElement.querySelector('.code');
  const ROW = 20;  // pixels, as in views.css
  let rows, view;
  const draw = step => {
    const lit = data.lit[step] ?? {};
    for (const row of view?.lit ?? []) {
      row.classList.remove('lit');
      row.children[1].textContent = '';
    }
    const numbers = Object.keys(lit).map(Number).sort((a, b) => a - b);
    for (const number of numbers) {
      const row = rows[number - 1];
      row.classList.add('lit');
      row.children[1].textContent = lit[number] > 1 ? `${lit[number].toLocaleString('en')}\u00d7` : '';
    }
    view.lit = numbers.map(number => rows[number - 1]);
    if (!numbers.length) return;
    const top = (numbers[0] - 1) * ROW, bottom = numbers.at(-1) * ROW;
    const target = bottom - top < view.height ? (top + bottom - view.height) / 2 : top - 2 * ROW;
    if (top < view.scrolled || bottom > view.scrolled + view.height) pane.scrollTop = view.scrolled = Math.max(0, target);
  };
  const mounted = mount(parentElement, { onStep: step => rows && draw(step), title: data.file });
  view = mounted.view;
  view.scrolled ??= 0;
  pane.onscroll = () => { view.scrolled = pane.scrollTop; };
  if (view.file !== data.file || view.source !== data.lines.length) {
    view.lit = [];
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
  if (data.height) pane.style.height = `${data.height}px`;
  rows = [...pane.children];
  draw(mounted.step);
  return mounted.unmount;
}
