// Before a page begins: what shifts, and how large the text on canvases is (the least since
// fonts.clear()).
window.shifts = [];
new PerformanceObserver(list => {
  for (const e of list.getEntries())
    shifts.push({
      value: e.value,
      from: e.sources.map(s => `${s.node?.nodeName ?? '?'}.${s.node?.className ?? ''}`),
    });
}).observe({ type: 'layout-shift', buffered: true });
// All that a stop can show in the rail: a reader has seen its questions.
window.tick = link => {
  if (!link.querySelector('.mark')) link.insertAdjacentHTML('beforeend', '<span class="mark done"></span>');
};
window.fonts = new Map();
window.cut = new Map(); // text -> how many pixels of it are outside its canvas, since cut.clear()
function outside(g, text, x, y, most) {
  const { width: own, actualBoundingBoxAscent: up, actualBoundingBoxDescent: down } = g.measureText(text),
    width = Math.min(own, most ?? own),
    left = x - { center: width / 2, right: width, end: width }[g.textAlign] || x,
    to = g.getTransform();
  const far = [left, left + width].flatMap(px =>
    [y - up, y + down].flatMap(py => {
      const at = to.transformPoint({ x: px, y: py });
      return [-at.x, -at.y, at.x - g.canvas.width, at.y - g.canvas.height];
    }),
  );
  return Math.max(...far) / devicePixelRatio;
}
for (const name of ['fillText', 'strokeText']) {
  const real = CanvasRenderingContext2D.prototype[name];
  CanvasRenderingContext2D.prototype[name] = function (text, ...rest) {
    const size = parseFloat(/([\d.]+)px/.exec(this.font)?.[1] ?? 0);
    if (this.canvas.closest?.('.wg .view') && String(text).trim() && !(fonts.get('size') <= size)) {
      fonts.set('size', size);
      fonts.set('text', text);
    }
    if (this.canvas.closest?.('.wg .view') && String(text).trim()) {
      const pixels = outside(this, String(text), ...rest);
      if (pixels > 3) cut.set(text, Math.round(pixels));
    }
    return real.call(this, text, ...rest);
  };
}
