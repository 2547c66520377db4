// Bars on one scale, under a title and above a note: explainers/story/scene.py Bars.
const TITLE = 1.4, // em: the title
  BAR = 1.4, // em: a bar with its gap, from the least to the most
  NARROW = 1.3, // its least on a phone
  MOST = 1.8,
  TALL = 2.8, // of tall bars
  PIECES = 6, // em: the most of a bar with pieces
  NOTE = 1.4, // em: the line under them
  HEAD = 1.25; // of small text: a line of a head

/** @param {story.Bars} panel */
const headLines = ({ columns, head }) => (columns.length ? 2 : head ? 1 : 0);
/** @param {story.Bars} panel @param {PanelBox} box */
const around = (panel, { em, small }) => (TITLE + (panel.note ? NOTE : 0)) * em + headLines(panel) * HEAD * small;

/** @param {story.Bars} panel */
const most = ({ bars, tall, columns }) =>
  bars.some(({ pieces }) => pieces.length) ? PIECES : tall ? TALL : columns.length ? MOST : BAR;

/** @param {PanelBox} box */
const leastOf = ({ narrow }) => (narrow ? NARROW : BAR);

/** @param {story.Bars} panel @param {PanelBox} box */
export function heights(panel, box) {
  const rows = panel.bars.length * box.em;
  return [around(panel, box) + leastOf(box) * rows, around(panel, box) + most(panel) * rows];
}

/**
 * The left edge and the width of each column between names and bars. A phone has the first one.
 * @param {story.Bars} panel
 * @param {PanelBox} box
 */
function placed({ columns, bars }, { em, x, wide, narrow, lines }) {
  const names = Math.max(...bars.map(({ name }) => wide(name, true))) + 0.6 * em;
  let left = x + names;
  const shown = columns.slice(0, narrow ? 1 : undefined).map(([key, head], n) => {
    const texts = bars.map(bar => bar.cells[n]),
      half = Math.max(...lines(head, wide(head) * 0.6, 2).map(text => wide(text))),
      w = Math.max(half, ...texts.map(text => wide(text))) + 0.9 * em,
      column = { key, head, x: left, w, number: texts.every(text => /^[\d,.\u2013]*$/.test(text)) };
    left += w;
    return column;
  });
  return { shown, left };
}

/** @param {story.Bars} panel @param {PanelBox} box */
export function draw(panel, box) {
  const { em, small, made, step, paint, wide, fit, lines, pale, ink, colour, x, y, width, id } = box,
    { bars, title, note, datum, now, head, key } = panel,
    textOf = (/** @type {story.Bar} */ bar) => (Array.isArray(bar.text) ? bar.text : [bar.text]),
    { shown, left } = placed(panel, box),
    longest = Math.max(...bars.map(bar => bar.value)) || 1,
    ends = Math.max(...bars.flatMap(textOf).map(text => wide(text, true))) + 0.6 * em,
    scale = Math.max(20, x + width - left - ends) / longest,
    top = y + TITLE * em + headLines(panel) * HEAD * small,
    row = Math.min(
      Math.max(MOST, most(panel)) * em,
      Math.max(leastOf(box) * em, (box.height - around(panel, box)) / bars.length),
    ),
    high = row - 0.25 * em;
  made.text(`${id} title`, [x, y + em, width], fit(title, width, true), { bold: true });
  /** @type {(name: string, text: string, at: number, room: number, align: string) => void} */
  const headed = (name, text, at, room, align) =>
    lines(text, room, 2).forEach((line, k, all) =>
      made.text(`${name} ${k}`, [at, top - (all.length - k - 0.6) * HEAD * small, room], line, {
        align,
      }),
    );
  shown.forEach(({ head: text, x: at, w, number }, n) =>
    headed(`${id} head ${n}`, text, number ? at + w - 0.9 * em : at, w - 0.9 * em, number ? 'right' : 'left'),
  );
  if (head) headed(`${id} head`, head, left, x + width - left, 'left');
  bars.forEach((bar, n) => {
    const upper = top + n * row,
      line = upper + 0.5 * high + 0.36 * small,
      name = `${id} ${n}`,
      isNow = bar.now.includes(step),
      fill = (/** @type {number} */ share) => pale(bar.colour, share * (bar.strong || isNow ? 0.9 : 0.5)),
      text = textOf(bar)[step] ?? textOf(bar)[0],
      length = (bar.steps[step] ?? bar.value) * scale,
      pieces = bar.pieces[step] ?? 0;
    made.add(`${name} area`, 'area', [x, upper, width, row], {
      ...{ datum: bar.datum, tip: bar.tip, go: bar.go },
    });
    made.text(`${name} name`, [x, line], bar.name, { bold: isNow });
    shown.forEach(({ key: figure, x: at, w, number }, k) => {
      const right = number ? at + w - 0.9 * em : at;
      made.text(`${name} cell ${k}`, [right, line], bar.cells[k], {
        ...{ align: number ? 'right' : 'left', bold: isNow },
      });
      made.add(`${name} cell area ${k}`, 'area', [at, upper, w, row], {
        ...{ datum: { ...bar.datum, figure }, tip: bar.tip, go: bar.go },
      });
    });
    made.rect(`${name} edge`, [left, upper, bar.value * scale, high], { stroke: paint.border });
    made.rect(`${name} bar`, [left, upper, length, high], {
      ...{ fill: fill(bar.parts.length || pieces ? 0.25 : 1), ease: 'both' },
    });
    for (let k = 0; k < pieces; k++) {
      const size = length / pieces,
        at = left + k * size,
        share = k % 2 ? 0.72 : 0.95;
      made.rect(`${name} piece ${k}`, [at, upper, size - (size > 4 ? 1.5 : 0.3), high], {
        fill: pale(bar.colour, share),
      });
      if (size > 2 * em)
        made.text(`${name} number ${k}`, [at + 0.3 * em, line], `${k}`, {
          ...{ fill: ink(bar.colour, share), bold: true },
        });
    }
    if (bar.framed.includes(step))
      made.rect(`${name} frame`, [left, upper, bar.value * scale, high], {
        ...{ stroke: colour('now'), width: 4 },
      });
    bar.parts.forEach((part, k) => {
      const next = bar.parts[k + 1]?.start ?? bar.value,
        piece = (
          /** @type {string} */ what,
          /** @type {number} */ from,
          /** @type {number} */ to,
          /** @type {string[]} */ texts,
          /** @type {string} */ ink,
        ) => {
          const said = texts.find(one => (to - from) * scale > 1.1 * wide(one));
          if (said)
            made.text(`${name} ${what} ${k}`, [left + ((from + to) / 2) * scale, line], said, {
              ...{ align: 'center', fill: ink, hint: true },
            });
        };
      made.rect(`${name} part ${k}`, [left + part.start * scale, upper, (part.end - part.start) * scale, high], {
        fill: fill(1),
      });
      piece('runs', part.start, part.end, [part.text], bar.strong ? paint.background : paint.text);
      piece('gap', part.end, next, [`gap ${part.gap}`, part.gap], paint.text);
    });
    made.text(`${name} text`, [left + bar.value * scale + 0.4 * em, line], text, { bold: true });
    if (key)
      made.add(`${name} bar area`, 'area', [left, upper, x + width - left, row], {
        ...{ datum: { ...bar.datum, figure: key }, tip: bar.tip, go: bar.go },
      });
  });
  const under = top + bars.length * row;
  if (note) {
    made.text(`${id} note`, [x, under + 0.9 * em, width], note);
    made.add(`${id} note area`, 'area', [x, under, width, NOTE * em], { datum, tip: note });
  }
  if (now.includes(step)) made.rect(`${id} now`, [x - 3, y, width + 2, under - y], { stroke: paint.text, width: 2 });
}
