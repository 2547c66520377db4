// Lanes by banks of one access, on each side: the cells served in this wavefront, before it and
// after it; shared words marked; above them how many words each bank is wanted for.
import { canvasView } from '../core/canvas.js';
import { PALETTE } from '../core/paint.js';
import { BANKS, LEGEND, bankNumbers, colours, heading, lanesSaid, parts } from './wavefronts.js';

const LANES = 32;

/** @type {Picture<bank_conflicts.BanksMeta, bank_conflicts.BankFrame>} */
export default function (host, { meta: { sides, frames } }, context) {
  const frameAt = step => frames[Math.min(step, frames.length - 1)];
  const accessOf = (side, step) => sides[side].accesses[frameAt(step).access];
  let em, top, bars, gutter, tall, panes;

  const layout = ({ width, height, em: size }) => {
    em = size;
    bars = height > 17 * em ? Math.round(2.6 * em) : 0;
    top = Math.round(1.5 * em + bars + (bars ? 0.6 * em : 0) + 1.3 * em);
    gutter = Math.round(3.4 * em);
    panes = parts(sides.length, width - gutter - 2, Math.round(1.2 * em)).map(({ x, width: w }) => ({
      x: gutter + x,
      cell: w / BANKS,
    }));
    tall = Math.max(2.5, (height - top - 3) / LANES);
    return top + LANES * tall + 3;
  };

  const draw = (g, { step, at, paint }) => {
    const frame = frameAt(step),
      colour = colours(paint);
    g.textBaseline = 'middle';
    g.font = `${em}px ${paint.font}`;
    g.fillStyle = paint.text;
    g.textAlign = 'right';
    g.fillText('bank', gutter - 6, top - 0.7 * em);
    const every = [1, 2, 4, 8, 16].find(n => n * tall > 1.15 * em) ?? 16;
    for (let lane = 0; lane < LANES; lane += every)
      g.fillText(lane ? lane : 'lane 0', gutter - 6, top + (lane + 0.5) * tall);
    sides.forEach((side, n) => {
      const access = side.accesses[frame.access],
        { x: left, cell } = panes[n];
      heading(g, side, access, frame, left, 0.8 * em, cell * BANKS, em, paint);
      if (bars) drawLoads(g, paint, frame, access, left, cell);
      g.fillStyle = paint.text;
      bankNumbers(g, left, top - 0.7 * em, cell, em);
      drawGrid(g, paint, left, cell);
      for (const [lane, bank, wavefront, , sharers] of access.cells) {
        const x = left + bank * cell,
          y = top + lane * tall,
          inset = Math.min(1, tall / 6);
        g.fillStyle = colour(wavefront, frame.wavefront);
        g.fillRect(x + inset, y + inset, cell - 2 * inset, tall - 2 * inset);
        if (sharers > 1) {
          // a broadcast: a dot in the middle, whatever the colour
          g.fillStyle = wavefront === frame.wavefront ? '#000' : paint.text;
          g.beginPath();
          g.arc(x + cell / 2, y + tall / 2, Math.max(0.8, Math.min(em / 5, tall / 4, cell / 4)), 0, 7);
          g.fill();
        }
      }
      if (!at) return;
      g.strokeStyle = paint.primary;
      g.lineWidth = 2;
      for (const [lane, bank] of access.cells)
        if (lane === at.lane && (n !== at.side || bank === at.bank))
          g.strokeRect(left + bank * cell, top + lane * tall, cell, tall);
    });
  };
  const drawGrid = (g, paint, left, cell) => {
    g.strokeStyle = paint.border;
    g.lineWidth = 1;
    g.globalAlpha = 0.5;
    g.beginPath();
    for (let i = 0; i <= BANKS; i++) {
      g.moveTo(left + i * cell, top);
      g.lineTo(left + i * cell, top + LANES * tall);
    }
    for (let i = 0; i <= LANES; i += tall < 4 ? 8 : 1) {
      g.moveTo(left, top + i * tall);
      g.lineTo(left + BANKS * cell, top + i * tall);
    }
    g.stroke();
    g.globalAlpha = 1;
  };
  const drawLoads = (g, paint, frame, access, left, cell) => {
    // how many different words this pass wants of each bank
    const [start, end] = access.parts.find(([from, to]) => from <= frame.wavefront && frame.wavefront < to) ??
      access.parts.at(-1) ?? [0, 1];
    const words = Array.from({ length: BANKS }, () => new Set());
    for (const [, bank, wavefront, word] of access.cells)
      if (start <= wavefront && wavefront < end) words[bank].add(word);
    const most = Math.max(1, ...words.map(w => w.size)),
      foot = 1.6 * em + bars;
    g.textAlign = 'left';
    let free = -Infinity;
    words.forEach(({ size }, bank) => {
      if (!size) return;
      const h = Math.max(2, ((bars - 1.1 * em) * size) / most),
        x = left + bank * cell;
      g.fillStyle = size > 1 ? PALETTE.wavefronts.conflict : PALETTE.wavefronts.before;
      g.fillRect(x + 0.5, foot - h, cell - 1, h);
      if (size < 2 || x < free) return;
      const said = bank === words.findIndex(w => w.size === most) && most > 1 ? `${size} words` : String(size);
      g.fillStyle = paint.text;
      g.fillText(said, x, foot - h - 0.6 * em);
      free = x + g.measureText(said).width + 4;
    });
  };

  const areas = ({ step }) =>
    panes.flatMap(({ x: left, cell }, side) =>
      accessOf(side, step).cells.map(([lane, bank]) => ({
        rect: [left + bank * cell, top + lane * tall, cell, tall],
        datum: { side, lane, bank },
      })),
    );
  const cellAt = ({ side, lane, bank }, step) => accessOf(side, step).cells.find(c => c[0] === lane && c[1] === bank);
  const describe = (at, step) => {
    const found = cellAt(at, step),
      { name } = sides[at.side],
      title = name ? `${name}: ` : '';
    if (!found) return `${title}lane ${at.lane} does not touch bank ${at.bank}`;
    const [, , wavefront, word] = found,
      sharers = accessOf(at.side, step)
        .cells.filter(c => c[3] === word)
        .map(c => c[0]);
    return (
      `${title}lane ${at.lane}, bank ${at.bank}: word ${word} (bytes ${word * 4} to ` +
      `${word * 4 + 3})\nserved in wavefront ` +
      `${wavefront + 1}${sharers.length > 1 ? `, shared by ${lanesSaid(sharers)}` : ''}`
    );
  };
  const label = step => `${frameAt(step).title}: ${frameAt(step).sentence}`;
  return canvasView(host, context, {
    title: 'Lanes and banks',
    layout,
    draw,
    areas,
    describe,
    label,
    legend: [...LEGEND, ['', '\u2022 one word, several lanes']],
  });
}
