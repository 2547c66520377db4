// The SMs of a GPU as a map, for a grid whose blocks all run in one turn: what matters is how many SMs have a block.

// The squares of so many SMs in a box: {at(sm) -> [x, y, side, side], columns, rect: of all}.
export function mapLayout({ x, y, w, h }, count) {
  let columns = Math.max(1, Math.ceil(Math.sqrt((count * w) / Math.max(1, h))));
  while (Math.ceil(count / columns) * (w / columns) > h && columns < count) columns++;
  const side = w / columns;
  return {
    at: sm => [x + (sm % columns) * side, y + Math.floor(sm / columns) * side, side - 2, side - 2],
    columns,
    rect: [x, y, w, Math.ceil(count / columns) * side],
  };
}

// held: SM -> {colour, ink, text} of the SMs with a block.
export function drawMap(g, place, count, held, { paint, em }) {
  for (let sm = 0; sm < count; sm++) {
    const [x, y, w, h] = place.at(sm),
      own = held.get(sm);
    g.fillStyle = own?.colour ?? paint.panel;
    g.fillRect(x, y, w, h);
    g.strokeStyle = paint.border;
    g.lineWidth = 1;
    g.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    if (!own?.text || w < 1.6 * em) continue;
    g.fillStyle = own.ink;
    g.textAlign = 'center';
    g.fillText(own.text, x + w / 2, y + h / 2 + 0.35 * em, w - 2);
    g.textAlign = 'left';
  }
}
