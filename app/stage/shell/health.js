// The server as the lecturer sees it: devices, what waits for them, browsers, classes, memory.
// Asked every two seconds.
import { element, number } from '../core/paint.js';

const EVERY = 2000; // milliseconds
const base = location.pathname.replace(/\/health$/, '');
const main = /** @type {HTMLElement} */ (document.querySelector('main'));
const css = element(
  'style',
  {},
  `:root { color-scheme: light dark; }
body { font: 17px/1.5 system-ui, sans-serif; margin: 2rem; }
h1 { font-size: 1.5rem; }
h2 { font-size: 1.15rem; margin: 1.4rem 0 .3rem; }
table { border-collapse: collapse; }
th, td { text-align: left; padding: .2rem 1.2rem .2rem 0; border-bottom: 1px solid #8886; }
td.number { text-align: right; font-family: monospace; }
.bad { border-left: 4px solid #D55E00; padding-left: .6rem; }`,
);
document.head.append(css);

const mib = (/** @type {number} */ bytes) => `${number(Math.round(bytes / 2 ** 20))} MiB`;
/** @type {(heads: string[], rows: (string | number)[][]) => Element} */
const table = (heads, rows) => {
  const cell = (/** @type {string | number} */ value) =>
    typeof value === 'number' ? element('td', { class: 'number' }, number(value)) : element('td', {}, value);
  const body = rows.map(row => element('tr', {}, ...row.map(cell)));
  const head = element('tr', {}, ...heads.map(name => element('th', {}, name)));
  return element('table', {}, element('thead', {}, head), element('tbody', {}, ...body));
};

/** @param {Record<string, any>} status app/classroom/routes.py */
function draw({ sessions, minutes, web_bytes, worker_bytes, free_bytes, ...status }) {
  /** @type {any[]} */ const devices = status.devices;
  /** @type {any[]} */ const classes = status.classes;
  const out = devices.filter(d => d.out);
  main.replaceChildren(
    element('h1', {}, 'The server'),
    element(
      'p',
      {},
      `Up for ${number(minutes)} minutes. ${number(sessions)} browsers have a page open. ` +
        `Memory: ${mib(web_bytes)} of the server itself, ${mib(worker_bytes)} of its ` +
        `workers; ${mib(free_bytes)} are free.`,
    ),
    element('h2', {}, 'Where kernels run'),
    ...out.map(d => element('p', { class: 'bad' }, `${d.name} is taken out: ${d.out}`)),
    devices.length
      ? table(
          ['device', 'workers', 'running', 'waiting', 'done', 'failed', 'workers that died', 'seconds of compiling'],
          devices.map(d => [
            d.gpu ? `${d.name} (${d.gpu.slice(0, 12)})` : d.name,
            d.alive,
            d.running,
            d.waiting,
            d.done,
            d.failed,
            d.deaths,
            d.compiling,
          ]),
        )
      : element('p', {}, 'Nothing has run yet.'),
    element('h2', {}, 'Classes'),
    classes.length
      ? table(
          ['class', 'who leads is here', 'followers', 'minutes'],
          classes.map((c, n) => [`${n + 1}`, c.leaders ? 'yes' : 'no', c.followers, c.minutes]),
        )
      : element('p', {}, 'None is led.'),
  );
}

async function ask() {
  try {
    const answer = await fetch(`${base}/wg/status`);
    if (!answer.ok) throw new Error(`it said ${answer.status}`);
    draw(await answer.json());
  } catch (error) {
    main.replaceChildren(
      element('h1', {}, 'The server'),
      element(
        'p',
        { class: 'bad' },
        `The server does not answer: ${error.message}. It is asked again every ${EVERY / 1000} seconds.`,
      ),
    );
  }
  setTimeout(ask, EVERY);
}
ask();
