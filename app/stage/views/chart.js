// A Vega-Lite chart as the picture: as large as the pane, following the clock by its parameter
// `step`. A click goes to the nearest step. meta: {spec, alt, note, at, room, ends, legend}; at:
// where each step stands on the x axis; room: the characters of the longest name at a line's end;
// ends: {value, bounds} of the data `ends`, the lines' names; legend: [[css, text], ...], for a
// pane too narrow for these names.
import { chartView } from '../core/charts.js';
import { legend } from '../core/canvas.js';
import { element, textSize, unfetched } from '../core/paint.js';

const NAMES = 'ends', // so begin the names of the layers that name the lines at their ends
  ON_LINES = 'levels'; // and of those that name parts of lines: a low pane has no room for them

export default function (host, { meta, title }, context) {
  const { clock } = context;
  const sheet = element('div', { class: 'chart', role: 'img', 'aria-label': meta.alt }),
    foot = element('div', { class: 'foot' });
  host.replaceChildren(sheet, foot);
  const record = { title, host, vega: null };
  let made = null,
    left = false,
    drawn = '';
  clock.views.push(record);

  // Where the names stand, one above the other: as high as their lines end, or as far off as the
  // next ones need.
  const spread = () => {
    const { value, bounds } = meta.ends,
      [low, high] = bounds.map(Math.log),
      rows = made.view.data('ends'),
      sorted = [...rows].sort((a, b) => a[value] - b[value]);
    const gap = Math.min(
      (1.35 * textSize() * (high - low)) / Math.max(1, made.view.height() - 4 * textSize()),
      (high - low) / sorted.length,
    );
    const at = sorted.map(row => Math.log(row[value]));
    for (let n = 1; n < at.length; n++) at[n] = Math.max(at[n], at[n - 1] + gap);
    for (let n = at.length - 1; n >= 0; n--) at[n] = Math.min(at[n], n + 1 < at.length ? at[n + 1] - gap : high);
    // without the mark by which Vega knows a row: it would keep the row as it was
    const plain = sorted.map((row, n) => ({ ...Object.fromEntries(Object.entries(row)), beside: Math.exp(at[n]) }));
    made.view.data('ends', plain);
  };
  const fit = () => {
    made.view.width(sheet.clientWidth).height(sheet.clientHeight);
    if (drawn.startsWith('true') && meta.ends) spread();
    return made.view.runAsync();
  };
  const room = () => (meta.room ? Math.ceil(meta.room * textSize() * 0.57) + 24 : 0);
  const draw = async () => {
    const tall = sheet.clientHeight > ((meta.legend?.length ?? 0) * 1.35 + 4) * textSize(),
      named = tall && sheet.clientWidth > 2.4 * room(),
      low = sheet.clientHeight < 20 * textSize(),
      key = `${named} ${low} ${textSize()}`;
    if (!sheet.clientWidth || !sheet.clientHeight) return;
    if (drawn === key) return made && fit();
    drawn = key;
    foot.replaceChildren(
      ...(named || !meta.legend?.length ? [] : [legend(meta.legend)]),
      ...(meta.note ? [element('p', { class: 'said-of' }, meta.note)] : []),
    );
    // names beyond the plot are fitted in too
    const padding = { left: 4, top: 10, right: 4, bottom: 2 };
    const leftOut = [...(named ? [] : [NAMES]), ...(low ? [ON_LINES] : [])],
      layer = meta.spec.layer.filter(l => !leftOut.some(name => l.name?.startsWith(name))),
      config = low ? { axisY: { titleLimit: 9 * textSize() } } : {};
    made?.unmount();
    made = null;
    let next;
    try {
      next = await chartView(
        sheet,
        { ...meta.spec, layer, padding, config: { ...meta.spec.config, ...config } },
        context,
        {
          fill: true,
          press: goTo,
        },
      );
    } catch (error) {
      drawn = '';
      return unfetched(sheet)(error);
    }
    if (left || drawn !== key) return next.unmount();
    made = next;
    record.vega = made.view;
    made.view.addEventListener('click', (event, item) =>
      goTo(
        event.clientX - sheet.querySelector('canvas').getBoundingClientRect().left - made.view.origin()[0],
        item?.datum,
      ),
    );
    fit();
  };
  // The step of what was clicked, or the one whose place on the x axis is nearest.
  const goTo = (x, datum) => {
    if (datum?.step) return clock.set(datum.step - 1, 'user');
    if (!meta.at?.length) return;
    const scale = made.view.scale('x'),
      far = meta.at.map(value => Math.abs(scale(value) - x));
    clock.set(far.indexOf(Math.min(...far)), 'user');
  };
  const observer = new ResizeObserver(() => {
    draw();
  });
  observer.observe(sheet);
  clock.addEventListener('type', draw);
  return {
    unmount() {
      left = true;
      clock.removeEventListener('type', draw);
      observer.disconnect();
      made?.unmount();
      clock.views.splice(clock.views.indexOf(record), 1);
      host.replaceChildren();
    },
  };
}
