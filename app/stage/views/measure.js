// Measuring on this machine's GPU: the request, its progress, and a button to end it.
// What is measured is shown by the stage, which is asked for anew while points come in. meta:
// {what, gpu, about, measured, kernels: [{name, title, fields, on}], gpus: [id, name] of each where
// there are several}.
import { button, element } from '../core/paint.js';

const PAUSE = 700,
  ANEW = 2500,
  // ms between two questions; at least between two stages for who began it, and for others
  SELDOM = 15000;
const begun = new Set(); // the requests of this page
const kept = {}; // what -> the form as it was left: the stage is made anew while it stands there

export default function (host, { meta }, context) {
  const { request, again } = context;
  const mine = (kept[meta.what] ??= {
    kernels: (meta.kernels ?? []).filter(k => k.on).map(k => k.name),
    field: '',
    values: '',
    set: '',
    peers: true,
    warm: false,
    gpu: meta.gpus?.[0]?.[0] ?? '',
  });
  const said = element('p', { class: 'note info', role: 'status', hidden: true }),
    wrong = element('p', { class: 'note bad', role: 'alert', hidden: true });
  const go = button(meta.what === 'sweep' ? 'Run the sweep' : 'Measure on this GPU (about a minute)', begin, {
    class: 'go',
  });
  const end = button('Stop', () => post('/stop'), { hidden: true }),
    forget = button('Clear what was measured', drop, { hidden: !meta.measured });
  let timer = 0,
    version = null,
    shown = performance.now(),
    left = false;

  const label = (text, control, help) =>
    element('label', { class: 'control', title: help ?? null }, element('span', {}, text), control);
  const box = (text, on, change) => {
    const made = element('input', { type: 'checkbox' });
    made.checked = on;
    made.onchange = () => change(made.checked);
    return element('label', { class: 'control' }, made, element('span', {}, text));
  };
  const text = (name, attributes) => {
    const made = element('input', {
      type: 'text',
      value: mine[name],
      spellcheck: 'false',
      ...attributes,
    });
    made.oninput = () => {
      mine[name] = made.value;
    };
    return made;
  };
  // What every chosen kernel can be swept over, with values to begin with.
  const fields = () => {
    const chosen = meta.kernels.filter(k => mine.kernels.includes(k.name));
    return Object.entries(chosen[0]?.fields ?? {}).filter(([name]) => chosen.every(k => name in k.fields));
  };
  const form = element('div', { class: 'asked-gpu' });
  const draw = () => {
    if (meta.what !== 'sweep')
      return form.replaceChildren(element('p', {}, meta.about), element('div', { class: 'row' }, go, end, forget));
    const there = fields();
    if (!there.some(([name]) => name === mine.field)) [mine.field, mine.values] = there[0] ?? ['', ''];
    const kernels = meta.kernels.map(k =>
      box(k.name, mine.kernels.includes(k.name), on => {
        mine.kernels = meta.kernels
          .map(o => o.name)
          .filter(name => (name === k.name ? on : mine.kernels.includes(name)));
        draw();
      }),
    );
    const field = element(
      'select',
      {},
      ...there.map(([name]) => element('option', { value: name, selected: name === mine.field }, name)),
    );
    field.onchange = () => {
      mine.field = field.value;
      mine.values = Object.fromEntries(there)[field.value];
      draw();
    };
    const gpu = element(
      'select',
      {},
      ...(meta.gpus ?? []).map(([id, name]) =>
        element('option', { value: id, selected: id === mine.gpu }, `${name}, ${id}`),
      ),
    );
    gpu.onchange = () => {
      mine.gpu = gpu.value;
    };
    const several = gpu.options.length ? [label('GPU', gpu, 'what was measured on another is dropped')] : [];
    go.disabled = !mine.kernels.length;
    form.replaceChildren(
      element('p', {}, several.length ? meta.about : `${meta.about} On ${meta.gpu}.`),
      element('fieldset', {}, element('legend', {}, 'Kernels'), ...kernels),
      element(
        'div',
        { class: 'row' },
        ...several,
        label('Sweep', field, 'a size, a field of the problem or a constant'),
        label('Values', text('values', { size: 34 })),
        label(
          'Set',
          text('set', { size: 30, placeholder: 'seq_len=1024, head_dim=64' }),
          'fields and constants that hold for every point',
        ),
        box("With torch's attention", mine.peers, on => {
          mine.peers = on;
        }),
        box('Warm L2', mine.warm, on => {
          mine.warm = on;
        }),
      ),
      element('div', { class: 'row' }, go, end, forget),
    );
  };

  async function post(path, body) {
    const response = await request(`/wg/measure${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: body && JSON.stringify(body),
    });
    const said = await response.json();
    tell(said);
    return !said.error;
  }
  async function begin() {
    if (await post('', { ...mine, what: meta.what })) begun.add(meta.what);
  }
  async function drop() {
    if (await post(`/forget?what=${meta.what}`)) again();
  }
  async function look() {
    clearTimeout(timer);
    try {
      const response = await request('/wg/measure');
      tell(await response.json());
    } catch {
      // the server was not reached just now
      if (!left) timer = setTimeout(look, ANEW);
    }
  }
  function tell(now) {
    if (left) return;
    wrong.hidden = !now.error;
    wrong.textContent = now.error ?? '';
    if (now.running === undefined) return; // it was refused
    const ours = now.what === meta.what;
    go.hidden = now.running;
    end.hidden = !(now.running && ours);
    said.hidden = !now.running;
    said.textContent =
      `${now.done} of ${now.of} points${now.now ? `, now ${now.now}` : ''}; ` +
      `${Math.round(now.seconds)} s so far.${ours ? '' : ' Another page asked for it.'}`;
    if (
      version !== null &&
      now.version !== version &&
      (!now.running || performance.now() - shown > (begun.has(meta.what) ? ANEW : SELDOM))
    ) {
      shown = performance.now();
      version = now.version;
      return again(); // the stage with what is measured by now; this form is then made anew
    }
    version ??= now.version;
    clearTimeout(timer);
    if (now.running) timer = setTimeout(look, PAUSE);
  }

  draw();
  host.replaceChildren(form, said, wrong);
  look();
  return {
    unmount() {
      left = true;
      clearTimeout(timer);
      host.replaceChildren();
    },
  };
}
