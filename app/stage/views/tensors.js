// Any kernel: every tensor as a matrix of its last two axes, every logged value by its keys; what
// the step reads, writes and logs is framed.
import { canvasView } from '../core/canvas.js';
import { COLOURS, NOT_FINITE, PALETTE, exact, matrixImage, odd, rgb, signed, spanOf, theme } from '../core/paint.js';

const LEAST = 3; // pixels of a matrix, however few its cells
const LEGEND = [
  [`border:3px solid ${COLOURS.read}`, 'read'],
  [`border:3px solid ${COLOURS.written}`, 'written'],
  ['border:3px solid currentColor', 'logged'],
  [
    `background:linear-gradient(90deg,${PALETTE.sign.below},transparent,${PALETTE.sign.above})`,
    'below zero, above zero',
  ],
];

/** @type {Picture<models.TensorsMeta>} */
export default function (host, { meta, columns }, context) {
  const { tensors, values, frames } = meta,
    frameAt = step =>
      frames[Math.min(step, frames.length - 1)] ?? {
        touched: [],
        logged: [],
        title: '',
        sentence: '',
      };
  const { text, background } = theme(host),
    colour = signed(rgb(background)),
    ink = rgb(text);
  const boxes = [
    ...tensors.map((t, n) => tensorBox(t, columns[`tensor_${n}`])),
    ...values.map((v, n) => valueBox(v, n)),
  ];

  function pictureOf(cols, rows, numbers, span) {
    return matrixImage(cols, rows, (y, x) => numbers[y * cols + x], span, colour, ink);
  }

  function tensorBox(tensor, numbers) {
    const { name, rows, cols, row0, col0, row_axis, col_axis } = tensor;
    const image = numbers.length ? pictureOf(cols, rows, numbers, spanOf(numbers)) : null;
    const sizes = row_axis
      ? `${row_axis} ${tensor.of_rows} \u00d7 ${col_axis} ${tensor.of_cols}`
      : `${col_axis} ${tensor.of_cols}`;
    const part = rows < tensor.of_rows || cols < tensor.of_cols ? `, ${rows} \u00d7 ${cols} shown` : '';
    return {
      kind: 'tensor',
      name,
      rows,
      cols,
      row0,
      col0,
      title: name,
      note: [`${sizes}${part}, ${tensor.dtype}`, tensor.slice].filter(Boolean).join('; '),
      image: () => image,
      odd: () => odd(numbers),
      touched: frame => frame.touched.filter(t => t.tensor === name),
      at: (row, col) => `${name}[${row_axis ? `${row0 + row}, ` : ''}${col0 + col}]`,
      value: (row, col) => (numbers.length ? exact(numbers[row * cols + col]) : 'not kept'),
    };
  }

  // Of each cell, what was logged in it and when; a cell shows the last of the steps so far.
  // undefined: nothing yet.
  function valueBox(value, n) {
    const { event, rows, cols, row0, col0, keys } = value;
    const steps = columns[`value_${n}_step`],
      cells = columns[`value_${n}_cell`],
      logged = columns[`value_${n}`],
      span = spanOf(logged);
    let made = null,
      madeAt = -1,
      now = [],
      wrong = '';
    const bring = step => {
      if (madeAt === step) return;
      madeAt = step;
      now = new Array(rows * cols);
      for (let i = 0; i < steps.length && steps[i] <= step; i++) now[cells[i]] = logged[i];
      wrong = odd(now);
      made = pictureOf(cols, rows, now, span);
    };
    const named = [
      value.row_key && `${value.row_key} ${row0} to ${row0 + rows - 1}`,
      value.col_key && `${value.col_key} ${col0} to ${col0 + cols - 1}`,
    ];
    return {
      kind: 'value',
      name: event,
      rows,
      cols,
      row0,
      col0,
      title: `${event}(${keys.join(', ')})`,
      note: [named.filter(Boolean).join(' \u00d7 '), value.slice].filter(Boolean).join('; '),
      image: step => {
        bring(step);
        return made;
      },
      odd: step => {
        bring(step);
        return wrong;
      },
      touched: () => [],
      at(row, col) {
        const keys = [
          value.row_key && `${value.row_key} ${row0 + row}`,
          value.col_key && `${value.col_key} ${col0 + col}`,
        ];
        return `${event}(${keys.filter(Boolean).join(', ')})`;
      },
      value: (row, col) => (now[row * cols + col] === undefined ? 'not logged yet' : exact(now[row * cols + col])),
    };
  }

  for (const box of boxes) box.most = box.odd(Infinity); // the words at the end, for room

  // As large as fits: one bound on all boxes' sides, the most that lets them flow into the pane.
  let size;
  const flow = (most, place) => {
    const { width, em } = size,
      head = 2.7 * em,
      space = 1.2 * em;
    let x = 2,
      y = 0,
      tallest = 0;
    for (const box of boxes) {
      const unit = Math.max(0.4, Math.min((1.5 * most) / box.cols, most / box.rows, 2.2 * em)),
        w = Math.max(box.cols * unit, LEAST),
        h = Math.max(box.rows * unit, LEAST);
      const said = Math.max(box.note.length, 1.2 * box.title.length + (box.most ? box.most.length + 4 : 0)),
        room = Math.max(w, Math.min(0.52 * em * said, 22 * em, width / 2 - space));
      if (x > 2 && x + room > width) [x, y, tallest] = [2, y + tallest + 0.5 * em, 0];
      if (place) Object.assign(box, { unit, w, h, x, y: y + head, room });
      x += room + space;
      tallest = Math.max(tallest, head + h);
    }
    return y + tallest + 4;
  };
  const layout = given => {
    size = given;
    let low = 2.5 * size.em,
      high = Math.max(low, size.width / 1.5, size.height);
    for (let n = 0; n < 20; n++) {
      const middle = (low + high) / 2;
      if (flow(middle, false) <= size.height && 1.5 * middle <= size.width) low = middle;
      else high = middle;
    }
    return flow(low, true);
  };
  const draw = (g, { step, em, at, paint }) => {
    const frame = frameAt(step);
    g.imageSmoothingEnabled = false;
    for (const box of boxes) {
      const logged = box.kind === 'value' && frame.logged.some(l => l.event === box.name),
        wrong = box.odd(step);
      g.fillStyle = paint.text;
      g.font = `600 ${em}px ${paint.mono}`;
      g.fillText(box.title, box.x, box.y - 1.65 * em, box.room);
      const used = g.measureText(box.title).width + 0.7 * em;
      g.font = `${em}px ${paint.font}`;
      g.fillText(cut(g, box.note, box.room), box.x, box.y - 0.45 * em);
      if (wrong) {
        g.fillStyle = PALETTE.wrong;
        g.fillRect(box.x + used, box.y - 2.4 * em, 0.7 * em, 0.7 * em);
        g.fillStyle = paint.text;
        g.fillText(cut(g, wrong, box.room - used - em), box.x + used + em, box.y - 1.65 * em);
      }
      const image = box.image(Math.min(step, frames.length - 1));
      if (image) g.drawImage(image, box.x, box.y, box.w, box.h);
      else if (box.h > 1.5 * em && box.w > 5 * em)
        g.fillText('values not kept', box.x + 4, box.y + 1.1 * em, box.w - 8);
      g.strokeStyle = logged ? paint.text : paint.border;
      g.lineWidth = logged ? 2.5 : 1;
      g.strokeRect(box.x - 0.5, box.y - 0.5, box.w + 1, box.h + 1);
      for (const part of box.touched(frame)) frameTouched(g, box, part);
      if (at && at.box === box.title) {
        g.strokeStyle = paint.primary;
        g.lineWidth = 1.5;
        g.strokeRect(
          box.x + at.col * box.unit,
          box.y + at.row * box.unit,
          Math.max(box.unit, 2),
          Math.max(box.unit, 2),
        );
      }
    }
  };
  const frameTouched = (g, box, { kind, rect, cells }) => {
    if (!rect) return;
    const around = (r0, r1, c0, c1) =>
      g.strokeRect(
        box.x + (c0 - box.col0) * box.unit,
        box.y + (r0 - box.row0) * box.unit,
        Math.max((c1 - c0 + 1) * box.unit, 2),
        Math.max((r1 - r0 + 1) * box.unit, 2),
      );
    g.strokeStyle = kind === 'store' ? COLOURS.written : COLOURS.read;
    g.lineWidth = cells ? 1.5 : 3;
    if (cells) for (const [row, first, last] of cells) around(row, row, first, last);
    else around(...rect);
  };
  const areas = () =>
    boxes.map(({ title: box, x, y, w, h, rows, cols }) => ({
      rect: [x, y, w, h],
      datum: { box },
      grid: {
        ...{ columns: cols, count: rows * cols },
        thing: number => ({ box, row: Math.floor(number / cols), col: number % cols }),
      },
    }));
  const describe = ({ box: title, row, col }) => {
    const box = boxes.find(b => b.title === title);
    return `${box.at(row, col)} = ${box.value(row, col)}`;
  };
  const label = step =>
    [
      `${frameAt(step).title}. ${frameAt(step).sentence}`,
      ...boxes.filter(b => b.odd(step)).map(b => `${b.title} has ${b.odd(step)}.`),
    ].join(' ');
  return canvasView(host, context, {
    title: 'Tensors and values',
    layout,
    draw,
    areas,
    describe,
    label,
    legend: boxes.some(b => b.most) ? [...LEGEND, NOT_FINITE] : LEGEND,
  });
}

// The text, cut where there is no more room.
function cut(g, text, room) {
  if (g.measureText(text).width <= room) return text;
  let end = text.length;
  while (end > 1 && g.measureText(`${text.slice(0, end)}\u2026`).width > room) end--;
  return `${text.slice(0, end)}\u2026`;
}
