// The code pane: the .cu and its headers that the steps run through, one under the other; the step's lines lit, probe lines dimmed.
const ROW = 20;  // pixels, as in views.css

// A source line as a row: number, count, code and comment apart; its data-place is "FILE:LINE".
function codeRow(text, name, number, dim) {
  const at = text.indexOf('//'), code = element('span', { class: 'text' }, at < 0 ? text || ' ' : text.slice(0, at));
  if (at >= 0) code.append(element('span', { class: 'comment' }, text.slice(at)));
  return element('div', { class: dim ? 'row probe' : 'row', 'data-place': `${name}:${number}` },
    element('span', { class: 'number' }, String(number)), element('span', { class: 'count' }), code);
}

export default function ({ data, parentElement }) {
  const pane = parentElement.querySelector('.code'), { files } = data;
  let view, rows;
  const draw = step => {
    const lit = data.lit[step] ?? {};
    for (const row of view.lit ?? []) {
      row.classList.remove('lit');
      row.children[1].textContent = '';
    }
    const numbers = Object.keys(lit).map(place => rows.get(place)).filter(row => row !== undefined).sort((a, b) => a - b);
    const at = new Map(Object.entries(lit).map(([place, count]) => [rows.get(place), count]));
    for (const number of numbers) {
      const row = pane.children[number];
      row.classList.add('lit');
      row.children[1].textContent = at.get(number) > 1 ? `${at.get(number).toLocaleString('en')}\u00d7` : '';
    }
    view.lit = numbers.map(number => pane.children[number]);
    if (!numbers.length) return;
    const fits = Math.max(1, Math.floor(view.height / ROW) - 1);  // of lines far apart, as in a .cu and its header, those that stand closest
    const seen = numbers.map((first, n) => numbers.slice(n).filter(number => number < first + fits));
    const shown = seen.reduce((best, part) => (part.length > best.length ? part : best));
    const top = shown[0] * ROW, bottom = (shown.at(-1) + 1) * ROW;
    if (top < view.scrolled || bottom > view.scrolled + view.height) pane.scrollTop = view.scrolled = Math.max(0, (top + bottom - view.height) / 2);
  };
  const mounted = mount(parentElement, { onStep: step => rows && draw(step), title: files[0].name });
  view = mounted.view;
  view.scrolled ??= 0;
  pane.onscroll = () => { view.scrolled = pane.scrollTop; };
  const source = JSON.stringify(files);
  rows = new Map();  // "FILE:LINE" -> the row's number in the pane
  let count = 0;
  files.forEach(({ name, lines }, n) => {
    if (n) count++;  // the headers' own heading
    lines.forEach((_, i) => rows.set(`${name}:${i + 1}`, count++));
  });
  if (data.height) pane.style.height = `${data.height}px`;
  if (view.source !== source) {
    view.source = source;
    view.lit = [];
    pane.replaceChildren(...files.flatMap(({ name, lines, probes }, n) => {
      const dim = new Set(probes), made = lines.map((text, i) => codeRow(text, name, i + 1, dim.has(i + 1)));
      return n ? [element('div', { class: 'row heading' }, element('span', { class: 'number' }), element('span', { class: 'count' }), name), ...made] : made;
    }));
    parentElement.querySelector('.file').textContent = files.map(file => file.name).join(' + ');
    const ever = [...new Set(data.lit.flatMap(Object.keys))].map(place => rows.get(place) ?? 0);
    pane.scrollTop = view.scrolled = ever.length ? Math.max(0, Math.min(...ever) - 4) * ROW : 0;  // past what is said above the code
  }
  draw(mounted.step);
  return mounted.unmount;
}
