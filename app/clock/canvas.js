// The one base of the dense views: a canvas with its size, theme, cursor (hover, pin, keys), tip and text alternative.
//
//   canvasView(parentElement, {
//     title,                         what digits and tests call the view
//     layout(width) -> height,       in CSS pixels; called when the width changes, and before the first draw
//     draw(g, {step, width, at, paint}),   paints on a clean canvas; `at` is the thing under the cursor, or the pinned one
//     locate(x, y) -> thing | null,  what lies there: a plain object, such as {tensor: 'Q', query: 3, dim: 5}
//     describe(thing, step) -> text, its coordinate and exact value, for the tip and the pin
//     label(step) -> text,           the text alternative: what a reader who cannot see the canvas is told
//     click(thing, step),            what a click does; without it a click pins the thing, or lets go of it
//   }) -> {draw, unmount, where}
//
// Keys, while the canvas has the focus: Alt with an arrow moves the cursor to the next thing that way, Enter clicks it.
// A test finds a thing by window.__warpglass.where(title, {tensor: 'Q', query: 3, dim: 5}): its middle on the page.
const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function canvasView(parent, view) {
  const canvas = parent.querySelector('canvas'), tip = parent.querySelector('.tip'), pin = parent.querySelector('.pin');
  const B = bus(), paint = theme(parent);
  let mounted, laid = null, height = 0, hover = null, pinned = null;
  const same = (a, b) => a && b && JSON.stringify(a.thing) === JSON.stringify(b.thing);
  const width = () => mounted.view.width || 600;

  const draw = () => {
    if (!mounted) return;
    if (laid !== width()) height = view.layout(laid = width());
    const step = B.step, at = (hover ?? pinned)?.thing ?? null;
    const g = prepare(canvas, laid, height);
    g.textBaseline = 'alphabetic';
    g.textAlign = 'left';
    view.draw(g, { step, width: laid, at, paint });
    canvas.setAttribute('aria-label', view.label(step));
    const text = hover?.thing && view.describe(hover.thing, step);
    showTip(tip, text ? hover : null, text, laid);
    if (pin) pin.textContent = pinned ? `Pinned: ${view.describe(pinned.thing, step).replaceAll('\n', '; ')}` : '';
  };
  const point = (x, y) => {
    const thing = view.locate(x, y);
    return thing && { x, y, thing };
  };
  const press = at => {
    if (!at?.thing) return;
    if (view.click) view.click(at.thing, B.step);
    else pinned = same(pinned, at) ? null : at;
    draw();
  };
  const fromEvent = event => {
    const box = canvas.getBoundingClientRect();
    return point(event.clientX - box.left, event.clientY - box.top);
  };
  // From where the cursor is, over the pixels that way, to the first other thing.
  const move = ([dx, dy]) => {
    const from = hover ?? pinned ?? { x: laid / 2, y: height / 2, thing: null };
    for (let x = from.x + dx, y = from.y + dy; x >= 0 && y >= 0 && x < laid && y < height; x += dx, y += dy) {
      const next = point(x, y);
      if (next && !same(next, from)) return next;
    }
    return from.thing ? from : null;
  };

  canvas.tabIndex = 0;
  canvas.onpointermove = event => { hover = fromEvent(event); draw(); };
  canvas.onpointerleave = () => { hover = null; draw(); };
  canvas.onclick = event => press(fromEvent(event));
  canvas.onblur = () => { hover = null; draw(); };
  canvas.onkeydown = event => {
    if (event.key === 'Enter') press(hover);
    else if (event.altKey && MOVES[event.key]) hover = move(MOVES[event.key]);
    else return;
    event.preventDefault();
    event.stopPropagation();
    draw();
  };

  mounted = mount(parent, { onStep: draw, title: view.title });
  // Where what `what` says is drawn, on the page: the middle, or the point of it that is nearest there; null if it is not.
  mounted.view.where = what => {
    draw();
    const keys = Object.keys(what), found = [];
    for (let y = 0.5; y < height; y++) for (let x = 0.5; x < laid; x++) {
      const thing = view.locate(x, y);
      if (thing && keys.every(key => thing[key] === what[key])) found.push([x, y]);
    }
    if (!found.length) return null;
    const middle = n => (found[0][n] + found.at(-1)[n]) / 2, far = ([x, y]) => Math.hypot(x - middle(0), y - middle(1));
    const [x, y] = found.reduce((best, point) => (far(point) < far(best) ? point : best)), box = canvas.getBoundingClientRect();
    return { x: box.left + x, y: box.top + y };
  };
  B.where ??= (title, what) => B.views.find(v => v.title === title || v.title.startsWith(title))?.where?.(what) ?? null;
  draw();
  return { draw, unmount: mounted.unmount };
}

// ---- what several views draw ----

// A colour between two, [r, g, b] each; share 1 is all of the first.
function blend(a, b, share) {
  return `rgb(${a.map((v, i) => Math.round(v * share + b[i] * (1 - share))).join(',')})`;
}

// value -> [r, g, b]: the background at zero, the palette's colours of sign at -span and +span.
function signed(background) {
  const low = rgb(PALETTE.sign.below), high = rgb(PALETTE.sign.above);
  return (value, span) => {
    const t = Math.min(1, Math.abs(value) / span) ** 0.7, end = value < 0 ? low : high;
    return background.map((v, i) => v + (end[i] - v) * t);
  };
}

// A matrix as a small canvas, a pixel per element, by sign; what is NaN or absent stays transparent.
function matrixImage(width, height, valueAt, span, colour) {
  const small = element('canvas', { width, height }), g = small.getContext('2d'), pixels = g.createImageData(width, height);
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
    const value = valueAt(y, x);
    if (value === undefined || Number.isNaN(value)) continue;
    pixels.data.set([...colour(value, span), 255], 4 * (y * width + x));
  }
  g.putImageData(pixels, 0, 0);
  return small;
}

// The largest finite |value|, never 0.
function spanOf(values) {
  let most = 1e-30;
  for (const value of values) if (Number.isFinite(value)) most = Math.max(most, Math.abs(value));
  return most;
}

// The rows of a table; a press on a row calls onPress with its number. `marked` lights row n.
function pressRows(table, heads, rows, onPress) {
  const cells = texts => texts.map((text, i) => element(i ? 'td' : 'th', {}, String(text)));
  const made = rows.map((texts, n) => {
    const row = element('tr', { 'data-row': n }, ...cells(texts));
    row.onclick = () => onPress(n);
    return row;
  });
  table.replaceChildren(element('tr', {}, ...heads.map(text => element('th', {}, text))), ...made);
  return lit => made.forEach((row, n) => row.classList.toggle('lit', n === lit));
}
