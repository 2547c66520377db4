// The one base of the dense views: a canvas with its size, theme, cursor (hover, pin, keys), tip
// and text alternative.
//
//   canvasView(host, context, {
//     title: what tests call the view
//     layout({width, height, em}) -> height it needs, or nothing if it fits: CSS pixels of the
//       pane, and the size of text. Called when any of them changes, and before the first draw.
//       What is higher than the pane scrolls in it.
//     draw(g, {step, width, height, em, at, paint}): paints on a clean canvas. `at` is the thing
//       under the cursor, or the pinned one.
//     marks({step, width, height, em, at, paint}) -> the marks of the step (tween.js), in place of
//       draw: these move from step to step
//     over(g, {step, at, paint}): what is drawn over the marks, such as the cursor
//     kinds: how marks of the view's own kinds are drawn (kinds.js)
//     ms(step): how long the way to a step takes
//     areas({step, ...}) -> the areas of things of a view that draws (areas.js). A mark with a datum is
//       one, too. The thing at a point is the topmost area there, such as {tensor: 'Q', query: 3}.
//     describe(thing, step) -> text: its coordinate and exact value, for the tip and the pin.
//       Without it, the tip of the area.
//     label(step) -> text: the alternative for a reader who cannot see the canvas
//     click(thing, step): a click on it; false: it pins the thing, or releases it, as without click.
//     said(step) -> text under the picture, in place of the pinned thing
//     legend: [[css, text], ...] under the picture
//   }) -> {draw, unmount}
//
// Keys, while the canvas has the focus: Alt with an arrow moves the cursor to the next thing that
// way and has its tip announced, Enter clicks it. A test finds a thing by
// document.querySelector(".wg").stage.clock.where(title, {tensor: 'Q', query: 3, dim: 5})
import { rectsOf, thingAt, tipOf } from './areas.js';
import { canvasCovers, matches, outer } from './covers.js';
import { calm } from './follow.js';
import { paintMarks } from './kinds.js';
import { element, textSize, theme } from './paint.js';
import { MOVES } from './points.js';
import { Motion } from './tween.js';

export function canvasView(host, { clock }, view) {
  const canvas = element('canvas', { role: 'img', tabindex: '0' }),
    tip = element('div', { class: 'tip', hidden: true });
  const pin = element('div', { class: 'pin', 'aria-live': 'polite' }),
    heard = element('div', { class: 'unseen', 'aria-live': 'polite' });
  pin.classList.toggle('words', !!view.said);
  const sheet = element('div', { class: 'sheet' }, canvas, tip),
    foot = element('div', { class: 'foot' }, pin, heard);
  if (view.legend) foot.prepend(legend(view.legend));
  host.replaceChildren(sheet, foot);
  const paint = theme(host);
  let areas = [], // the marks of the step that have a datum
    laid = '',
    size = { width: 0, height: 0, em: 13 },
    tall = 0,
    hover = null,
    pinned = null,
    pointed = null,
    drawn = -1, // the step whose marks are there; -1: none in this layout
    origin = -1; // the step before it, where it moves from
  const same = (a, b) => a && b && JSON.stringify(a.thing) === JSON.stringify(b.thing);
  const describe = view.describe ?? (thing => tipOf(areas, thing));
  // The rectangles of the things that match any of some. A thing in a larger one that matches has none of its own.
  const placesOf = wanted => outer(rectsOf(areas, wanted));
  const covers = canvasCovers(clock, placesOf);

  const clean = () => {
    const g = covers.letters(prepare(canvas, size.width, tall));
    g.textBaseline = 'alphabetic';
    g.textAlign = 'left';
    return g;
  };
  const now = step => {
    const at = (hover ?? pinned)?.thing ?? null;
    return { ...size, height: tall, step, at, paint };
  };
  const motion = new Motion({
    paint(marks) {
      const g = clean();
      paintMarks(g, marks, paint, view.kinds);
      view.over?.(g, now(clock.step));
      covers.draw(g, now(clock.step));
    },
    time: () => clock.time,
    still: calm,
    pace: () => clock.pace,
  });
  // To the next step or to the one before it moves; a jump is a cut.
  const move = step => {
    const before = drawn,
      marks = view.marks(now(step)).filter(mark => !mark.hint || !clock.covers.length);
    areas = [...(view.areas?.(now(step)) ?? []), ...marks.filter(mark => mark.datum)];
    [drawn, origin] = [step, before === step ? origin : before];
    if (view.live)
      motion.show(marks); // the view moves them itself
    else if (before === step && least === 1) motion.change(marks);
    else if (before >= 0 && Math.abs(step - before) === 1)
      motion.go(marks, { ms: view.ms?.(step), back: step < before });
    else motion.show(marks);
  };

  const draw = (why = '') => {
    if (!size.width || !size.height) return;
    if (why === 'jump') drawn = -1;
    const key = `${size.width} ${size.height} ${size.em}`;
    if (laid !== key) {
      laid = key;
      tall = Math.max(size.height, Math.ceil(view.layout(size) ?? 0));
      if (motion.running && drawn === clock.step) motion.from = view.marks(now(origin));
      else drawn = -1; // what moves goes on in another layout
    }
    const step = clock.step;
    if (view.marks) move(step);
    else {
      areas = view.areas?.(now(step)) ?? [];
      const g = clean();
      view.draw(g, now(step));
      covers.draw(g, now(step));
    }
    canvas.setAttribute('aria-label', view.label(step));
    const tell = thing => (covers.covered(thing) ? '?' : describe(thing, step)),
      text = hover?.thing && tell(hover.thing);
    showTip(text ? hover : null, text);
    pin.textContent = view.said
      ? view.said(step)
      : pinned && !pinned.pointed
        ? `Pinned: ${tell(pinned.thing).replaceAll('\n', '; ')}`
        : '';
  };
  const showTip = (where, text) => {
    tip.hidden = !where;
    if (!where) return;
    tip.textContent = text;
    tip.style.left = `${Math.max(0, Math.min(where.x + 14, size.width - tip.offsetWidth - 4))}px`;
    const below = where.y + 16,
      seen = sheet.scrollTop + sheet.clientHeight;
    tip.style.top = `${below + tip.offsetHeight > seen ? Math.max(0, where.y - tip.offsetHeight - 10) : below}px`;
  };
  const point = (x, y) => {
    const thing = thingAt(areas, x, y);
    return thing && { x, y, thing };
  };
  const press = at => {
    if (!at?.thing || !describe(at.thing, clock.step)) return; // a text is no thing to point at
    clock.tell('picked', { title: view.title, thing: at.thing }); // a question may ask for it
    if (!view.click || view.click(at.thing, clock.step) === false) {
      pinned = same(pinned, at) ? null : at;
      clock.tell('pinned', pinned && { title: view.title, thing: pinned.thing }); // for a class
    }
    draw();
  };
  // A cell is pinned from elsewhere, in the view of that title, or none is: {title, thing}.
  const pinTold = () => {
    pinned = clock.pin?.title === view.title ? { x: size.width / 2, y: tall / 2, thing: clock.pin.thing } : null;
  };
  const onPin = () => {
    pinTold();
    draw();
  };
  if (!view.click) {
    clock.addEventListener('pin', onPin);
    pinTold();
  }
  const fromEvent = event => {
    const box = canvas.getBoundingClientRect();
    return point(event.clientX - box.left, event.clientY - box.top);
  };
  // From where the cursor is, over the pixels that way, to the first other thing.
  const reach = ([dx, dy]) => {
    const from = hover ?? pinned ?? { x: size.width / 2, y: tall / 2, thing: null };
    for (let x = from.x + dx, y = from.y + dy; x >= 0 && y >= 0 && x < size.width && y < tall; x += dx, y += dy) {
      const next = point(x, y);
      if (next && !same(next, from)) return next;
    }
    return from.thing ? from : null;
  };

  canvas.onpointermove = event => {
    hover = fromEvent(event);
    draw();
  };
  canvas.onpointerleave = () => {
    hover = null;
    draw();
  };
  canvas.onclick = event => press(fromEvent(event));
  canvas.onblur = () => {
    hover = null;
    draw();
  };
  canvas.onkeydown = event => {
    if (event.key === 'Enter') press(hover);
    else if (event.altKey && MOVES[event.key]) hover = reach(MOVES[event.key]);
    else return;
    event.preventDefault();
    event.stopPropagation();
    draw();
    heard.textContent = tip.hidden ? '' : tip.textContent.replaceAll('\n', '; ');
  };
  // Where a thing is drawn: the middle, or its nearest point to it; null if it is not.
  const find = what => {
    draw();
    const found = placesOf([what])
      .flatMap(({ x, y, w, h }) =>
        [
          [x + 0.5, y + 0.5],
          [x + w / 2, y + h / 2],
          [x + w - 0.5, y + h - 0.5],
        ].map(([x, y]) => ({ x, y, thing: thingAt(areas, x, y) })),
      )
      .filter(({ thing }) => thing && matches(thing, what));
    if (!found.length) return null;
    const middle = axis => (found[0][axis] + found.at(-1)[axis]) / 2,
      far = ({ x, y }) => Math.hypot(x - middle('x'), y - middle('y'));
    return found.reduce((best, point) => (far(point) < far(best) ? point : best));
  };
  const where = what => {
    const place = find(what),
      box = canvas.getBoundingClientRect();
    return place && { x: box.left + place.x, y: box.top + place.y };
  };
  // Show me points at a thing: it is chosen as by a click, or pinned.
  const onPoint = () => {
    if (!size.width || clock.point === pointed) return;
    const place = clock.point && find(clock.point);
    if (pointed && pinned?.pointed) pinned = null;
    pointed = clock.point;
    if (place && view.click) view.click(place.thing, clock.step);
    else if (place) pinned = { ...place, pointed: true, step: clock.step };
    draw();
  };
  clock.addEventListener('covers', onPoint);

  const record = { title: view.title, host, where, draw };
  clock.views.push(record);
  // Asking the page for sizes at every step would lay it out anew each time.
  const fit = () => {
    size = {
      width: Math.floor(sheet.clientWidth),
      height: Math.floor(sheet.clientHeight),
      em: textSize(),
    };
    draw();
    onPoint();
  };
  const observer = new ResizeObserver(fit);
  observer.observe(sheet);
  clock.addEventListener('type', fit);
  const onPrint = () => motion.finish();
  addEventListener('beforeprint', onPrint);
  const onStep = ({ detail }) => {
    if (pinned?.pointed && pinned.step !== clock.step) pinned = null; // it belongs to its step
    draw(detail.why);
    if (!hover?.thing || placesOf([hover.thing]).length) return;
    hover = null; // its thing is no longer drawn
    draw();
  };
  clock.addEventListener('step', onStep);
  fit();
  return {
    draw,
    unmount() {
      motion.stop();
      removeEventListener('beforeprint', onPrint);
      clock.removeEventListener('step', onStep);
      clock.removeEventListener('pin', onPin);
      clock.removeEventListener('covers', onPoint);
      clock.removeEventListener('type', fit);
      observer.disconnect();
      clock.views.splice(clock.views.indexOf(record), 1);
      host.replaceChildren();
    },
  };
}

// While `work` is done, which takes no time of the browser's own, every canvas has so many pixels
// for each of CSS, as an image wants.
export function sharp(clock, pixels, work) {
  const drawAll = () => clock.views.forEach(view => view.draw?.());
  least = pixels;
  try {
    drawAll();
    work();
  } finally {
    least = 1;
    drawAll();
  }
}
let least = 1;

// A canvas sized for the screen's pixels; returns its context scaled to CSS pixels.
function prepare(canvas, width, height) {
  const ratio = Math.max(least, devicePixelRatio || 1),
    w = Math.round(width * ratio),
    h = Math.round(height * ratio);
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = width + 'px';
    canvas.style.height = height + 'px';
  }
  const g = canvas.getContext('2d');
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  return g;
}

// [[css, text], ...]: a small box of that style before each text; css alone '' for none.
export function legend(entries) {
  return element(
    'div',
    { class: 'legend' },
    ...entries.map(([css, text]) => element('span', {}, ...(css ? [element('i', { style: css })] : []), text)),
  );
}
