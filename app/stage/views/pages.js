// Pages of a KV cache on a canvas, of the walk: how a box with its slots is drawn.
// colour: of its first `fill` slots, the ones with a token; light: how full it is; note: a text with room.
function drawPage(g, paint, place, page, size, { colour, fill, note, light }) {
  const [x, y] = place.at(page),
    { w, h, em } = place,
    { head, high: tall, wide: cell } = slotsOf(place, size),
    top = y + head;
  g.globalAlpha = light;
  g.fillStyle = colour;
  g.fillRect(x, top, fill * cell, tall);
  g.globalAlpha = 1;
  g.strokeStyle = paint.border;
  g.lineWidth = 1;
  if (cell >= 3.5) {
    g.beginPath();
    for (let s = 1; s < size; s++) {
      g.moveTo(x + s * cell, top);
      g.lineTo(x + s * cell, top + tall);
    }
    g.stroke();
  }
  g.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
  g.fillStyle = paint.text;
  g.font = `600 ${em}px ${paint.mono}`;
  g.textAlign = 'left';
  g.fillText(String(page), x + 4, y + em);
  const used = g.measureText(String(page)).width;
  g.font = `${em}px ${paint.font}`;
  g.textAlign = 'right';
  g.fillText(fitting(g, [note], w - used - 14), x + w - 4, y + em);
  g.textAlign = 'left';
}

// Where the slots of a page are in its box: their top, and the width of one.
export function slotsOf({ w, h, em }, size) {
  const head = Math.min(h * 0.6, em * 1.25);
  return { head, high: h - head, wide: w / size };
}

// Kinds of mark (kinds.js) for what this module draws.
export const PAGE_KINDS = {
  page: (g, { page, place, size, ...more }, paint) => drawPage(g, paint, place, page, size, more),
  // Its name in bold, and after it the longest of the notes for which there is room.
  label(g, { rect: [x, y, width, em], name, notes }, paint) {
    g.textAlign = 'left';
    g.fillStyle = paint.text;
    g.font = `600 ${em}px ${paint.font}`;
    g.fillText(name, x, y);
    const used = g.measureText(name + '  ').width;
    g.font = `${em}px ${paint.font}`;
    g.fillText(fitting(g, notes, width - used), x + used, y);
  },
};

// The longest of these texts that fits, or ''.
const fitting = (g, texts, width) => texts.find(text => g.measureText(text).width <= width) ?? '';
