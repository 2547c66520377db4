// Any kernel: every tensor as a matrix of its last two axes, every logged value by its keys; what the step reads, writes and logs is framed.
const TALL = 150, WIDE = 230, HEAD = 34, SPACE = 18, LEAST = 3, EDGE = 2;  // pixels

export default function ({ data, parentElement }) {
  const { tensors, values, frames } = data.meta;
  const shared = parentElement.querySelector('.shared'), table = parentElement.querySelector('.bytes');
  const colour = signed(rgb(theme(parentElement).background)), frameAt = step => frames[Math.min(step, frames.length - 1)];
  const number = value => value.toLocaleString('en');
  const boxes = [...tensors.map((t, n) => tensorBox(t, column(data[`tensor_${n}`]))), ...values.map((v, n) => valueBox(v, n))];

  function tensorBox(tensor, numbers) {
    const { name, rows, cols, row0, col0, row_axis, col_axis } = tensor;
    const image = numbers.length ? matrixImage(cols, rows, (y, x) => numbers[y * cols + x], spanOf(numbers), colour) : null;
    const sizes = row_axis ? `${row_axis} ${tensor.of_rows} \u00d7 ${col_axis} ${tensor.of_cols}` : `${col_axis} ${tensor.of_cols}`;
    const part = rows < tensor.of_rows || cols < tensor.of_cols ? `, ${rows} \u00d7 ${cols} shown` : '';
    return { kind: 'tensor', name, rows, cols, row0, col0, title: name, note: `${sizes}${part}, ${tensor.dtype}`, slice: tensor.slice, image: () => image,
      touched: frame => frame.touched.filter(t => t.tensor === name),
      at: (row, col) => `${name}[${tensor.row_axis ? `${row0 + row}, ` : ''}${col0 + col}]`,
      value: (row, col) => (numbers.length ? exact(numbers[row * cols + col]) : 'not kept') };
  }

  // Of each cell, what was logged in it and when; a cell shows the last of the steps so far.
  function valueBox(value, n) {
    const { event, rows, cols, row0, col0, keys } = value;
    const steps = column(data[`value_${n}_step`]), cells = column(data[`value_${n}_cell`]), logged = column(data[`value_${n}`]), span = spanOf(logged);
    let made = null, madeAt = -1, now = new Float32Array(rows * cols);
    const bring = step => {
      if (madeAt === step) return;
      madeAt = step;
      now = new Float32Array(rows * cols).fill(NaN);
      for (let i = 0; i < steps.length && steps[i] <= step; i++) now[cells[i]] = logged[i];
      made = matrixImage(cols, rows, (y, x) => now[y * cols + x], span, colour);
    };
    const named = [value.row_key && `${value.row_key} ${row0} to ${row0 + rows - 1}`, value.col_key && `${value.col_key} ${col0} to ${col0 + cols - 1}`];
    return { kind: 'value', name: event, rows, cols, row0, col0, title: `${event}(${keys.join(', ')})`, note: named.filter(Boolean).join(' \u00d7 '), slice: value.slice,
      image: step => { bring(step); return made; }, touched: () => [],
      at: (row, col) => `${event}(${[value.row_key && `${value.row_key} ${row0 + row}`, value.col_key && `${value.col_key} ${col0 + col}`].filter(Boolean).join(', ')})`,
      value: (row, col) => (Number.isNaN(now[row * cols + col]) ? 'not logged yet' : exact(now[row * cols + col])) };
  }

  const layout = width => {
    let x = EDGE, y = 0, tallest = 0;
    for (const box of boxes) {
      box.unit = Math.max(0.5, Math.min(WIDE / box.cols, TALL / box.rows, 14));
      box.w = Math.max(box.cols * box.unit, LEAST);
      box.h = Math.max(box.rows * box.unit, LEAST);
      const room = Math.max(box.w, WIDE);
      if (x > EDGE && x + room > width) [x, y, tallest] = [EDGE, y + tallest + SPACE, 0];
      [box.x, box.y, box.room] = [x, y + HEAD, room];
      x += room + SPACE;
      tallest = Math.max(tallest, HEAD + box.h);
    }
    return y + tallest + 4;
  };
  const draw = (g, { step, at, paint }) => {
    const frame = frameAt(step);
    g.imageSmoothingEnabled = false;
    for (const box of boxes) {
      const logged = box.kind === 'value' && frame.logged.some(l => l.event === box.name);
      g.fillStyle = paint.text;
      g.font = `600 13px ${paint.mono}`;
      g.fillText(box.title, box.x, box.y - 19, box.room);
      g.font = `11px ${paint.font}`;
      g.fillText([box.note, box.slice].filter(Boolean).join('; '), box.x, box.y - 5, box.room);
      const image = box.image(Math.min(step, frames.length - 1));
      if (image) g.drawImage(image, box.x, box.y, box.w, box.h);
      else if (box.h > 20) g.fillText('values not kept', box.x + 5, box.y + 15, box.w - 10);
      g.strokeStyle = logged ? paint.text : paint.border;
      g.lineWidth = logged ? 2.5 : 1;
      g.strokeRect(box.x - 0.5, box.y - 0.5, box.w + 1, box.h + 1);
      for (const part of box.touched(frame)) frameTouched(g, box, part);
      if (at && at.box === box.title) {
        g.strokeStyle = paint.primary;
        g.lineWidth = 1.5;
        g.strokeRect(box.x + at.col * box.unit, box.y + at.row * box.unit, Math.max(box.unit, 2), Math.max(box.unit, 2));
      }
    }
    tell(frame);
  };
  const frameTouched = (g, box, { kind, rect, cells }) => {
    if (!rect) return;
    const around = (r0, r1, c0, c1) => g.strokeRect(box.x + (c0 - box.col0) * box.unit, box.y + (r0 - box.row0) * box.unit,
      Math.max((c1 - c0 + 1) * box.unit, 2), Math.max((r1 - r0 + 1) * box.unit, 2));
    g.strokeStyle = kind === 'store' ? COLOURS.written : COLOURS.read;
    g.lineWidth = cells ? 1.5 : 3;
    if (cells) for (const [row, first, last] of cells) around(row, row, first, last);
    else around(...rect);
  };
  const tell = frame => {
    const names = [...new Set(frame.touched.map(t => t.tensor))], said = frame.logged.map(l => `${l.event}: ${number(l.count)} logged, ${short(l.low)} to ${short(l.high)}`);
    const sum = (tensor, kind) => frame.touched.filter(t => t.tensor === tensor && t.kind === kind).reduce((all, t) => all + t.bytes, 0);
    shared.replaceChildren(element('div', { class: 'label' }, said.length ? said.join('; ') : 'The step logs no value.'));
    const line = (name, kind) => element('tr', {}, element('th', {}, name), ...names.map(t => element('td', {}, number(sum(t, kind)))));
    table.replaceChildren(element('caption', {}, names.length ? 'Bytes of global memory in this step' : 'The step touches no global memory.'),
      ...(names.length ? [element('tr', {}, element('th', {}, ''), ...names.map(t => element('th', {}, t))), line('read', 'load'), line('written', 'store')] : []));
  };
  const locate = (x, y) => {
    const box = boxes.find(b => x >= b.x && x < b.x + b.w && y >= b.y && y < b.y + b.h);
    return box ? { box: box.title, row: Math.min(box.rows - 1, Math.floor((y - box.y) / box.unit)), col: Math.min(box.cols - 1, Math.floor((x - box.x) / box.unit)) } : null;
  };
  const describe = ({ box: title, row, col }) => {
    const box = boxes.find(b => b.title === title);
    return `${box.at(row, col)} = ${box.value(row, col)}`;
  };
  const label = step => `${frameAt(step).title}. ${frameAt(step).sentence}`;
  return canvasView(parentElement, { title: 'Tensors and values', layout, draw, locate, describe, label }).unmount;
}
