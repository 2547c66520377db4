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
window.fonts = new Map();
for (const name of ['fillText', 'strokeText']) {
  const real = CanvasRenderingContext2D.prototype[name];
  CanvasRenderingContext2D.prototype[name] = function (text, ...rest) {
    const size = parseFloat(/([\d.]+)px/.exec(this.font)?.[1] ?? 0);
    if (this.canvas.closest?.('.wg .view') && String(text).trim() && !(fonts.get('size') <= size)) {
      fonts.set('size', size);
      fonts.set('text', text);
    }
    return real.call(this, text, ...rest);
  };
}
