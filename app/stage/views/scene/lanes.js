// Time lines on one axis: explainers/story/scene.py Lanes.
const TITLE = 1.55, // em: the title of a group
  TEXT = [1.45, 12], // em: the least and the most height of a row with texts
  PLAIN = [0.9, 2.4], // and without
  PART = 1.15, // em: each further part of a row
  STRIP = 1.35, // em: the lengths of gaps under a row
  SPLIT = 0.25, // em: under a row without gaps
  FOOT = 1.4, // em: the texts of frames under a group
  AXIS = 1.9,
  LINE = 1.25; // em: a line of the note

const number = (/** @type {number} */ value) => value.toLocaleString('en', { maximumFractionDigits: 3 });
/** @param {story.Lanes} panel @param {number} r */
const range = ({ spans, gaps }, r) => {
  const own = spans.filter(({ row }) => row === r),
    parts = 1 + Math.max(0, ...own.map(({ part }) => part)),
    [least, most] = own.some(({ texts }) => texts.length) ? TEXT : PLAIN;
  return {
    ...{ parts, least: least + PART * (parts - 1), most: most + PART * (parts - 1) },
    strip: gaps.some(({ row }) => row === r) ? STRIP : SPLIT,
  };
};

/**
 * The ranges of the rows, the lines of the note, and em of all else.
 * @param {story.Lanes} panel
 * @param {PanelBox} box
 */
function placed(panel, { lines, width }) {
  const rows = panel.rows.map((_, r) => range(panel, r)),
    notes = panel.note ? lines(panel.note, width, 3) : [],
    sum = (/** @type {"least" | "most" | "strip"} */ key) => rows.reduce((all, row) => all + row[key], 0),
    titles = panel.groups.filter(({ title }) => title).length,
    feet = panel.groups.filter(({ said }) => said.length).length,
    fixed = TITLE * titles + (FOOT * feet + sum('strip')) + (panel.units.length ? AXIS : 0) + LINE * notes.length;
  return { rows, notes, fixed, least: sum('least'), most: sum('most') };
}

/** @param {story.Lanes} panel @param {PanelBox} box */
export function heights(panel, box) {
  const { fixed, least, most } = placed(panel, box);
  return [(fixed + least) * box.em, (fixed + most) * box.em];
}

/** @param {story.Lanes} panel @param {PanelBox} box */
export function draw(panel, box) {
  const { em, small, made, step, paint, wide, pale, ink, colour, x: left, id } = box,
    { groups, rows, spans, gaps, links, length, units } = panel,
    { rows: ranges, notes, fixed, least, most } = placed(panel, box),
    share = Math.max(0, Math.min(1, (box.height / em - fixed - least) / Math.max(0.1, most - least))),
    widestOf = (/** @type {string[]} */ texts) => Math.max(0, ...texts.map(text => wide(text))),
    mark = rows.some(({ colour: own }) => own) ? 0.8 * em : 0,
    label = Math.min(0.26 * box.width, mark + widestOf(rows.map(({ name }) => name)) + 0.9 * em),
    texts = rows.map(({ end }) => [end].flat()),
    beside = Math.min(0.3 * box.width, widestOf(texts.flat()) + 0.5 * em),
    after = texts.flat().some(Boolean) ? beside : 1,
    from = left + label,
    room = Math.max(40, box.width - label - after),
    ofStep = /** @type {<T>(list: T[]) => T} */ (list => list[Math.min(step, list.length - 1)]),
    beginOf = (/** @type {number} */ g) => ofStep(groups[g].begins),
    inside = (/** @type {number} */ g, /** @type {number} */ time) => Math.max(0, Math.min(length, time - beginOf(g))),
    at = (/** @type {number} */ r, /** @type {number} */ time) => from + (inside(rows[r].group, time) / length) * room,
    seen = (/** @type {story.Span | story.Gap} */ { row, start, end }) =>
      end >= beginOf(rows[row].group) && start <= beginOf(rows[row].group) + length,
    isNow = (/** @type {story.Span | story.Gap} */ { now }) => now.includes(step),
    lineAt = (/** @type {number} */ y, /** @type {number} */ high) => y + high / 2 + 0.36 * small;

  // ---- groups and rows ----
  let y = box.y;
  const places = /** @type {{y: number, h: number, strip: number, parts: number}[]} */ ([]),
    frames = /** @type {[number, number[]][]} */ ([]); // of the groups
  groups.forEach((group, g) => {
    const { title, value, note, datum, tip } = group,
      name = `${id} group ${g}`,
      own = rows.flatMap((row, r) => (row.group === g ? [r] : []));
    if (title) {
      const line = y + 1.15 * em;
      let x = left;
      /** @type {(key: string, text: string, more: Record<string, any>) => void} */
      const add = (key, text, more) => {
        const size = wide(text, more.bold);
        if (text && x + size <= left + box.width) made.text(`${name} ${key}`, [x, line], text, more);
        x += size + 0.6 * em;
      };
      made.text(name, [x, line, box.width], title, { bold: true });
      x += wide(title, true) + 0.6 * em;
      add('value', value, { hint: true, bold: true });
      add('note', note, { hint: true, alpha: 0.75 });
      y += TITLE * em;
    }
    const top = y;
    for (const r of own) {
      const { least: low, most: high, strip, parts } = ranges[r];
      places[r] = { y, h: (low + share * (high - low)) * em, strip: strip * em, parts };
      y += places[r].h + places[r].strip;
    }
    const whole = [from, top, room, y - top],
      marked = ofStep(group.marked);
    if (Object.keys(datum).length) made.add(`${name} area`, 'area', whole, { datum, tip });
    if (marked) {
      const [start, end] = marked.map(time => at(own[0], time)),
        frame = [start - 1, top + 0.5, end - start + 2, y - top - 1];
      made.rect(`${name} band`, frame, { fill: pale('primary', 0.16), ease: 'both' });
      frames.push([g, frame]);
      const text = ofStep(group.said) ?? '',
        middle = Math.max(from + wide(text) / 2, Math.min((start + end) / 2, from + room - wide(text) / 2));
      if (text) made.text(`${name} said`, [middle, y + em], text, { align: 'center', hint: true });
    }
    if (group.said.length) y += FOOT * em;
  });
  rows.forEach((row, r) => {
    const place = places[r],
      name = `${id} row ${r}`;
    if (row.colour) made.rect(`${name} mark`, [left, place.y + 2, 0.45 * em, place.h - 4], { fill: row.colour });
    const words = label - mark - 0.5 * em,
      end = ofStep(texts[r]);
    made.text(`${name} name`, [left + mark, lineAt(place.y, place.h), words], row.name);
    if (end)
      made.text(`${name} end`, [left + box.width, lineAt(place.y, place.h), after], end, {
        align: 'right',
      });
    made.rect(`${name} frame`, [from + 0.5, place.y + 1.5, room - 1, place.h - 3], {
      stroke: paint.border,
    });
    const { datum, tip } = row;
    if (!Object.keys(datum).length) return;
    made.add(`${name} area`, 'area', [from, place.y, room, place.h], { datum, tip });
    if (row.end) made.add(`${name} end area`, 'area', [from + room, place.y, after, place.h], { datum, tip });
  });

  // ---- gaps: the shade of a late part, a bracket, and a length ----
  const ends = rows.map(() => 0); // of the last length of each row
  gaps.forEach((gap, n) => {
    const place = places[gap.row],
      x = at(gap.row, gap.start),
      w = at(gap.row, gap.end) - x,
      foot = place.y + place.h + 3,
      name = `${id} gap ${n}`,
      shown = { datum: gap.datum, tip: gap.tip, go: gap.go },
      bold = isNow(gap);
    if (!seen(gap)) return;
    if (gap.late !== null)
      made.rect(`${name} late`, [x, place.y + 3, at(gap.row, Math.min(gap.late, gap.end)) - x, place.h - 6], {
        fill: pale(gap.colour, 0.4),
        hint: true,
      });
    const corners = [foot - 4, foot, foot, foot - 4].map((py, k) => [k < 2 ? x : x + w, py]);
    made.add(name, 'way', null, {
      ...{ points: corners, stroke: paint.text, width: bold ? 3 : 1.5, head: 0 },
    });
    made.add(`${name} area`, 'area', [x, place.y, Math.max(1, w), place.h], shown);
    for (const text of gap.texts) {
      const size = wide(text, bold),
        start = Math.max(from + 2, Math.min(x + w / 2 - size / 2, from + room - size - 2));
      if (start < ends[gap.row] + 4) continue;
      made.text(`${name} length`, [start, foot + 2 + 0.9 * small], text, { bold });
      made.add(`${name} text`, 'area', [start, foot, size, place.strip - 3], shown);
      ends[gap.row] = start + size;
      break;
    }
  });

  // ---- spans ----
  const partOf = (/** @type {story.Span} */ { row, part }) => {
    const { y: top, h, parts } = places[row],
      each = (h - 6) / parts;
    if (!rows[row].thin) return [top + 3 + part * each, each - (parts > 1 ? 2 : 0)];
    const thick = Math.min(0.4 * h, 1.6 * em);
    return [top + (h - thick) / 2, thick];
  };
  const nexts = new Map(), // of a span: the start of the next one in its part of the row
    later = new Map(), // 'row part' -> that start
    until = new Map(), // 'row part' -> the last painted pixel
    nows = rows.map(() => 0); // the framed spans of each row
  for (const span of spans.toSorted((a, b) => b.start - a.start)) {
    nexts.set(span, later.get(`${span.row} ${span.part}`) ?? Infinity);
    later.set(`${span.row} ${span.part}`, span.start);
  }
  spans.forEach((span, n) => {
    if (!seen(span)) return;
    const [top, high] = partOf(span),
      x = at(span.row, span.start),
      stop = at(span.row, span.end),
      key = `${span.row} ${span.part}`;
    if (stop < (until.get(key) ?? -1)) return;
    const bar = [x, top, Math.max(2, stop - x - 0.5), high],
      name = `${id} span ${n}`,
      now = isNow(span),
      made_yet = span.since === null || span.since <= step,
      shown = made_yet || !span.early ? span : { texts: span.early, tip: span.early_tip },
      depth = now ? 0.95 : made_yet ? 0.8 : 0.3;
    until.set(key, x + 1);
    made.rect(name, bar, {
      fill: span.hatch ? paint.background : pale(span.colour, depth),
      ...(span.hatch && { stroke: paint.border }),
    });
    if (span.hatch)
      made.add(`${name} lines`, 'hatch', bar, {
        ...{ stroke: depth > 0.5 ? paint.text : paint.border, gap: 8, width: 1 },
      });
    if (now) made.rect(`${id} now ${span.row} ${nows[span.row]++}`, bar, { stroke: paint.primary, width: 3 });
    if (!rows[span.row].moments.length)
      made.add(`${name} area`, 'area', bar, { datum: span.datum, tip: shown.tip, go: span.go });
    if (high < 0.9 * small) return;
    // Its first text is in it, or behind it if nothing follows. Else one is in it, or behind it.
    const next = nexts.get(span),
      [inner, behind] = [stop - x - 5, Math.min(from + room, at(span.row, next)) - stop - 7],
      { texts } = shown,
      first = next < Infinity ? inner : Math.max(inner, behind),
      found =
        texts.slice(0, 1).find(text => wide(text, true) <= first) ??
        texts.find(text => wide(text, true) <= inner) ??
        texts.find(text => wide(text, true) <= behind);
    if (!found) return;
    const size = wide(found, true),
      within = size <= inner,
      start = within ? x + 3 : stop + 4,
      fill = within && !span.hatch ? ink(span.colour, depth) : paint.text,
      line = lineAt(top, high);
    if (within && span.hatch)
      made.rect(`${name} plate`, [start - 1, line - small, size + 2, 1.3 * small], {
        fill: paint.background,
      });
    made.text(`${name} text`, [start, line], found, { fill, bold: true });
    if (span.value && size + wide(` ${span.value}`, true) <= (within ? inner : behind))
      made.text(`${name} value`, [start + size, line], ` ${span.value}`, {
        ...{ fill, bold: true, hint: true },
      });
  });

  // ---- over them: the moments of rows, frames, arrows, the axis and the note ----
  rows.forEach(({ datum, moments }, r) => {
    const place = places[r],
      isIt = (/** @type {Thing} */ thing) => Object.entries(datum).every(([key, value]) => thing[key] === value);
    if (!moments.length) return;
    made.add(`${id} row ${r} moments`, 'area', [from, place.y, room, place.h], {
      datum,
      grid: {
        ...{ columns: moments.length, count: moments.length, tip: (/** @type {number} */ n) => moments[n] },
        thing: (/** @type {number} */ n) => ({ ...datum, step: n + 1 }),
        go: (/** @type {Thing} */ thing) => (isIt(thing) && thing.step ? thing.step : null),
      },
    });
  });
  for (const [g, frame] of frames)
    made.rect(`${id} frame ${g}`, frame, { stroke: paint.text, width: 1.5, ease: 'both' });
  links.forEach(({ start, end, text, now }, n) => {
    if (now.length && !now.includes(step)) return;
    // Between two groups, from edge to edge.
    const apart = rows[start[0]].group !== rows[end[0]].group,
      [out, to] = start[0] === end[0] ? [0.06, 0.06] : apart ? [1, 0] : [0.5, 0.5],
      points = [
        [...start, out],
        [...end, to],
      ].map(([r, time, share]) => [at(r, time), places[r].y + share * places[r].h]);
    if (Math.abs(points[1][0] - points[0][0]) < 4 && start[0] === end[0]) return;
    made.add(`${id} link ${n}`, 'way', null, {
      ...{ points, stroke: paint.text, width: 2, head: 0.4 * em, hint: true },
    });
    const middle = (points[0][0] + points[1][0]) / 2,
      size = wide(text, true) + 6,
      [, top] = points[0];
    if (!text || start[0] !== end[0] || places[end[0]].h < 5 * small || size > Math.abs(points[1][0] - points[0][0]))
      return;
    made.rect(`${id} link plate ${n}`, [middle - size / 2, top + 4, size, 1.3 * small], {
      ...{ fill: paint.background, hint: true },
    });
    made.text(`${id} link text ${n}`, [middle, top + 4 + small], text, {
      ...{ align: 'center', bold: true, hint: true },
    });
  });
  if (units.length) {
    const rough = (length * 6 * em) / room,
      power = 10 ** Math.floor(Math.log10(rough)),
      every = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough) ?? rough,
      [amount, unit] = units.findLast(([least]) => every >= least) ?? units[0],
      begins = new Set(groups.map((_, g) => beginOf(g))),
      begin = begins.size === 1 ? beginOf(0) : 0;
    for (let n = Math.ceil(begin / every); n * every <= begin + length; n++) {
      const x = from + ((n * every - begin) / length) * room,
        text = `${number((n * every) / amount)} ${unit}`,
        middle = Math.min(x, from + room - wide(text) / 2);
      made.rect(`${id} tick ${n}`, [x, y, 1, 4], { fill: colour('text') });
      made.text(`${id} at ${n}`, [middle, y + 1.2 * em], text, { align: 'center' });
    }
    y += AXIS * em;
  }
  notes.forEach((text, n) => made.text(`${id} note ${n}`, [left, y + (0.9 + n * LINE) * em], text));
}
