// Runs before each page: window.seen() gives every text that a reader sees in the stage, [[part, text]]. A text on a
// canvas is seen until it is cleared or something opaque is painted over it, as the patch of an open question.
{
  const texts = new Map(); // canvas -> [{x, y, text}] in its own pixels, in the order of painting
  const { prototype } = CanvasRenderingContext2D,
    { fillText, fillRect, clearRect } = prototype;
  const on = canvas => texts.get(canvas) ?? texts.set(canvas, []).get(canvas);
  const middleOf = (g, text, x, y) => {
    const wide = g.measureText(text).width,
      left = { center: x - wide / 2, right: x - wide, end: x - wide }[g.textAlign] ?? x;
    return g.getTransform().transformPoint(new DOMPoint(left + wide / 2, y));
  };
  const wipe = (g, x, y, w, h) => {
    const matrix = g.getTransform(),
      a = matrix.transformPoint(new DOMPoint(x, y)),
      b = matrix.transformPoint(new DOMPoint(x + w, y + h));
    const under = one => one.x >= a.x && one.x <= b.x && one.y >= a.y && one.y <= b.y;
    texts.set(
      g.canvas,
      on(g.canvas).filter(one => !under(one)),
    );
  };
  prototype.fillText = function (text, x, y, ...more) {
    fillText.call(this, text, x, y, ...more);
    const { x: left, y: top } = middleOf(this, text, x, y);
    if (this.globalAlpha > 0.05) on(this.canvas).push({ x: left, y: top, text: String(text) });
  };
  prototype.fillRect = function (...box) {
    fillRect.apply(this, box);
    if (this.globalAlpha === 1 && /^#[\da-f]{6}$/.test(this.fillStyle)) wipe(this, ...box);
  };
  prototype.clearRect = function (...box) {
    clearRect.apply(this, box);
    wipe(this, ...box);
  };

  const shows = node => node.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const painted = canvas => {
    const box = canvas.getBoundingClientRect(),
      ratio = canvas.width / box.width,
      patches = [...canvas.closest('.view, figure, .picture').querySelectorAll('.patch')].map(one =>
        one.getBoundingClientRect(),
      );
    const under = ({ x, y }) =>
      patches.some(p => {
        const [left, top] = [box.left + x / ratio, box.top + y / ratio];
        return left >= p.left && left <= p.right && top >= p.top && top <= p.bottom;
      });
    return on(canvas)
      .filter(one => !under(one))
      .map(({ text }) => text);
  };
  const PARTS =
    '.opening, .narration, .clock .title, .clock output, .sub, .strip, .picture, .tabs, .drawer, .pane.side';
  window.seen = () => {
    const root = document.querySelector('.wg'),
      blurred = (root.dataset.veils ?? '').includes('picture'),
      found = [];
    for (const node of root.querySelectorAll(PARTS)) {
      if (!shows(node) || (blurred && node.matches('.picture'))) continue;
      const part = node.className.split(' ')[0],
        lists = new Set([...node.querySelectorAll('select')].map(list => list.innerText));
      const [said] = node.matches('.narration') ? node.children : [];
      if (said?.textContent.trim() && !said.innerText.trim()) found.push([part, '(hidden)']);
      for (const line of node.innerText.split('\n'))
        if (line.trim() && !lists.has(line)) found.push([part, line.trim()]);
      for (const one of node.querySelectorAll('svg text')) if (shows(one)) found.push([part, one.textContent]);
      for (const canvas of node.querySelectorAll('canvas'))
        if (shows(canvas)) found.push(...painted(canvas).map(text => [`${part} canvas`, text]));
    }
    return found.filter(([, text]) => text.trim());
  };
}
