// Shared by every view: the clock's bus (an EventTarget on window), one cursor, theme colours and exact numbers.
function bus() {
  return (window.__warpglass ??= Object.assign(new EventTarget(), {
    step: 0, count: 1, playing: false, views: [],
    set(step, why) {
      step = Math.max(0, Math.min(this.count - 1, Math.trunc(step) || 0));
      if (step === this.step && why !== 'jump') return;
      this.step = step;
      this.dispatchEvent(new CustomEvent('step', { detail: { step, why } }));
    },
  }));
}

// Keeps one record per mounted view: the default export runs again at every data or theme change, its cleanup only at unmount.
const instances = new WeakMap();
function mount(parent, { onStep, title }) {
  const B = bus();
  let view = instances.get(parent);
  if (!view) {
    view = { parent, title };
    instances.set(parent, view);
    view.listen = () => view.onStep?.(B.step);
    B.addEventListener('step', view.listen);
    B.views.push(view);
    const sized = parent.querySelector('canvas, .code') ?? parent.host ?? parent;
    view.observer = new ResizeObserver(([entry]) => {  // asking the page for sizes at every step would lay it out anew each time
      view.width = entry.contentRect.width;
      view.height = entry.contentRect.height;
      view.onStep?.(B.step);
    });
    view.observer.observe(sized);
    view.width = sized.clientWidth;
    view.height = sized.clientHeight;
  }
  view.onStep = onStep;
  view.title = title;
  return {
    view, step: B.step,
    unmount() {
      B.removeEventListener('step', view.listen);
      B.views.splice(B.views.indexOf(view), 1);
      view.observer.disconnect();
      instances.delete(parent);
    },
  };
}

function theme(parent) {
  const style = getComputedStyle(parent.host ?? parent);
  const get = name => style.getPropertyValue(name).trim();
  return { text: get('--st-text-color') || '#222', background: get('--st-background-color') || '#fff', panel: get('--st-secondary-background-color') || '#eee',
    border: get('--st-border-color') || '#999', primary: get('--st-primary-color') || '#06c', mono: `${get('--st-code-font') || 'monospace'}, ${get('--st-font') || 'sans-serif'}`, font: get('--st-font') || 'sans-serif' };
}
const COLOURS = { ...PALETTE.tensors, read: PALETTE.marks.load, written: PALETTE.marks.store };  // PALETTE: explainers/palette.py, handed over by components.py

function rgb(colour) {  // any CSS colour -> [r, g, b]
  const context = (rgb.context ??= document.createElement('canvas').getContext('2d', { willReadFrequently: true }));
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}

// The shortest decimal that is this float32 and no other.
function exact(value) {
  if (value === null || value === undefined) return 'none';
  if (typeof value === 'string') return value;
  if (!Number.isFinite(value)) return String(value).replace('Infinity', 'inf');
  for (let digits = 6; digits <= 9; digits++) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === Math.fround(value)) return String(Number(text));
  }
  return String(value);
}
function short(value, digits = 5) {
  if (value === null || value === undefined) return '\u2013';
  if (typeof value === 'string') return value;
  if (!Number.isFinite(value)) return String(value).replace('Infinity', 'inf');
  const size = Math.abs(value);
  return size >= 1e7 || (size && size < 1e-4) ? value.toExponential(Math.min(digits, 4) - 1) : String(Number(value.toPrecision(digits)));
}

// A canvas sized for the screen's pixels; returns its context scaled to CSS pixels.
function prepare(canvas, width, height) {
  const ratio = devicePixelRatio || 1, w = Math.round(width * ratio), h = Math.round(height * ratio);
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.height = height + 'px';
  }
  const g = canvas.getContext('2d');
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  return g;
}

// The tip beside the pointer at `hover` ({x, y} on the canvas, or null), kept inside the view.
function showTip(tip, hover, text, width) {
  tip.hidden = !hover;
  if (!hover) return;
  tip.textContent = text;
  tip.style.left = `${Math.min(hover.x + 14, width - tip.offsetWidth - 4)}px`;
  tip.style.top = `${hover.y + 16}px`;
}

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);  // strings become text, never HTML
  return node;
}

function column(table) {  // the only column of an Arrow table, as a typed array
  return table.getChildAt(0).toArray();
}
