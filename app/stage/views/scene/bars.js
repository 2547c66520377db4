// Bars on one scale, under a title and above a note: explainers/story/scene.py Bars.
const TITLE = 1.4, // em: the title
  BAR = 1.4, // em: a bar with its gap
  NOTE = 1.4; // em: the line under them

export function heights({ bars }, { em }) {
  const high = (TITLE + bars.length * BAR + NOTE) * em;
  return [high, high];
}

export function draw(panel, box) {
  const { em, small, made, step, paint, wide, fit, pale, x, y, width, id } = box,
    { bars, title, note, datum, now } = panel,
    textOf = bar => (Array.isArray(bar.text) ? bar.text : [bar.text]),
    most = Math.max(...bars.map(bar => bar.value)),
    left = x + Math.max(...bars.map(({ name }) => wide(name))) + 0.6 * em,
    ends = Math.max(...bars.flatMap(textOf).map(text => wide(text, true))) + 0.6 * em,
    scale = Math.max(20, x + width - left - ends) / most,
    high = (BAR - 0.25) * em;
  made.text(`${id} title`, [x, y + em, width], fit(title, width, true), { bold: true });
  bars.forEach((bar, n) => {
    const top = y + (TITLE + n * BAR) * em,
      line = top + 0.5 * high + 0.36 * small,
      name = `${id} ${n}`,
      fill = share => pale(bar.colour, share * (bar.strong ? 0.9 : 0.5));
    made.text(`${name} name`, [x, line], bar.name);
    made.rect(`${name} edge`, [left, top, bar.value * scale, high], { stroke: paint.border });
    made.rect(`${name} bar`, [left, top, (bar.steps[step] ?? bar.value) * scale, high], {
      ...{ fill: fill(bar.parts.length ? 0.25 : 1), ease: 'both' },
    });
    bar.parts.forEach((part, k) => {
      const next = bar.parts[k + 1]?.start ?? bar.value,
        piece = (key, from, to, texts, ink) => {
          const text = texts.find(one => (to - from) * scale > 1.1 * wide(one));
          if (text)
            made.text(`${name} ${key} ${k}`, [left + ((from + to) / 2) * scale, line], text, {
              ...{ align: 'center', fill: ink, hint: true },
            });
        };
      made.rect(
        `${name} part ${k}`,
        [left + part.start * scale, top, (part.end - part.start) * scale, high],
        { fill: fill(1) },
      );
      piece('runs', part.start, part.end, [part.text], bar.strong ? paint.background : paint.text);
      piece('gap', part.end, next, [`gap ${part.gap}`, part.gap], paint.text);
    });
    const text = textOf(bar)[step] ?? textOf(bar)[0];
    made.text(`${name} text`, [left + bar.value * scale + 0.4 * em, line], text, { bold: true });
    made.add(`${name} area`, 'area', [x, top, width, BAR * em], {
      ...{ datum: bar.datum, tip: bar.tip, go: bar.go },
    });
  });
  const under = y + (TITLE + bars.length * BAR) * em;
  if (note) {
    made.text(`${id} note`, [x, under + 0.9 * em, width], note);
    made.add(`${id} note area`, 'area', [x, under, width, NOTE * em], { datum, tip: note });
  }
  if (now.includes(step))
    made.rect(`${id} now`, [x - 3, y, width + 2, under - y], { stroke: paint.text, width: 2 });
}
