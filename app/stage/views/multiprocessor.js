// The warps of an SM, its blocks, registers and shared memory, filled with blocks as far as each
// allows; then with as many as all do.
import { canvasView } from '../core/canvas.js';
import { PALETTE, number, rgb, blend } from '../core/paint.js';

const BLOCK = PALETTE.wavefronts.before,
  LIMIT = PALETTE.wavefronts.now;

// Black or white, whichever can be read on a colour.
function onTop(colour) {
  const [r, g, b] = rgb(colour).map(v => (v / 255) ** 2.2),
    light = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return light > 0.18 ? '#000' : '#fff';
}

/** @type {Picture<occupancy.MultiprocessorMeta, occupancy.ResourceFrame>} */
export default function (host, { meta }, context) {
  const { clock } = context;
  const { launches, frames, gpu } = meta,
    several = launches.filter(launch => !launch.what_if).length,
    frameAt = step => frames[Math.min(step, frames.length - 1)];
  let rows, em, width;

  const layout = size => {
    ({ em, width } = size);
    const top = 2 * em,
      each = (size.height - top) / 4;
    rows = [0, 1, 2, 3].map(n => ({
      y: top + n * each,
      bar: { y: top + n * each + 1.5 * em, h: Math.min(each - 2.6 * em, 5.5 * em) },
    }));
    if (each < 4.2 * em) {
      rows.forEach((row, n) => {
        row.y = top + n * 4.2 * em;
        row.bar = { y: row.y + 1.5 * em, h: 1.6 * em };
      });
      return top + 4 * 4.2 * em;
    }
  };
  // How many blocks of a launch stand in a resource's bar now.
  const held = (launch, frame, n) =>
    frame.shown > launch.resources.length
      ? launch.blocks
      : n < frame.shown
        ? launch.resources[n].blocks
        : 0;
  const draw = (g, { step, at, paint }) => {
    const frame = frameAt(step),
      launch = launches[frame.launch],
      together = frame.shown > launch.resources.length;
    const fills = [0.95, 0.72].map(share => blend(rgb(BLOCK), rgb(paint.background), share));
    g.fillStyle = paint.text;
    g.font = `600 ${em}px ${paint.font}`;
    g.fillText(
      `One SM of ${gpu}${launch.what_if ? `, ${launch.what_if}` : ''}` +
        (several > 1 ? `; launch ${frame.launch + 1} of ${several}: ${launch.entry}` : ''),
      0,
      em,
      width,
    );
    launch.resources.forEach((resource, n) => {
      const { y, bar } = rows[n],
        count = held(launch, frame, n),
        share = Math.min(1, resource.each / resource.of),
        known = n < frame.shown;
      const taken = Math.min(resource.of, count * resource.each),
        now = n === frame.shown - 1 || (together && resource.limit);
      g.fillStyle = paint.text;
      g.font = `${now ? 600 : 400} ${em}px ${paint.font}`;
      const fits = `${number(resource.blocks)} block${resource.blocks === 1 ? '' : 's'}`;
      const said = !known
        ? `: one block needs ${number(resource.each)} of ${number(resource.of)}`
        : together
          ? `: ${number(taken)} of ${number(resource.of)} ` +
            `${resource.unit}${resource.limit ? ', a limit' : `; ${fits} would fit`}`
          : ` allow${resource.name === 'shared memory' ? 's' : ''} ${fits}`;
      g.fillText(
        `${resource.name[0].toUpperCase()}${resource.name.slice(1)}${said}`,
        0,
        y + em,
        width,
      );
      g.fillStyle = paint.panel;
      g.fillRect(0, bar.y, width, bar.h);
      for (let block = 0; block < count; block++) {
        g.fillStyle = fills[block % 2];
        const [bx, bw] = [block * share * width, share * width];
        g.fillRect(bx, bar.y, Math.max(bw - (bw > 4 ? 1.5 : 0.3), 0.5), bar.h);
        if (resource.unit === 'warps' && bw / resource.each > 3)
          warps(g, paint, bx, bw, bar, resource.each);
        if (bw > 2 * em) {
          g.fillStyle = onTop(fills[block % 2]);
          g.font = `600 ${em}px ${paint.font}`;
          g.fillText(String(block), bx + 0.3 * em, bar.y + bar.h / 2 + 0.35 * em);
        }
      }
      if (!known) {
        // one block, to predict from: how many more fit is what the step counts
        g.fillStyle = blend(rgb(BLOCK), rgb(paint.background), 0.45);
        g.fillRect(0, bar.y, Math.max(1, share * width), bar.h);
      }
      if (known && !count && resource.each > resource.of) {
        g.fillStyle = PALETTE.wrong;
        g.fillRect(0, bar.y, width, bar.h);
      }
      g.strokeStyle = together && resource.limit ? LIMIT : known && now ? paint.text : paint.border;
      g.lineWidth = together && resource.limit ? 4 : known && now ? 2 : 1;
      g.strokeRect(0.5, bar.y - 0.5, width - 1, bar.h + 1);
      const left = resource.of - taken;
      if (known && left > 0 && (left / resource.of) * width > 7 * em) {
        g.fillStyle = paint.text;
        g.font = `${em}px ${paint.font}`;
        g.textAlign = 'right';
        g.fillText(`${number(left)} left`, width - 0.4 * em, bar.y + bar.h / 2 + 0.35 * em);
        g.textAlign = 'left';
      }
      if (at && at.resource === n && at.block !== undefined) {
        g.strokeStyle = paint.primary;
        g.lineWidth = 2.5;
        g.strokeRect(at.block * share * width, bar.y, share * width, bar.h);
      }
    });
  };
  const warps = (g, paint, bx, bw, bar, count) => {
    // a block's warps as its slots
    g.strokeStyle = paint.background;
    g.lineWidth = 0.6;
    g.beginPath();
    for (let w = 1; w < count; w++) {
      g.moveTo(bx + (w * bw) / count, bar.y);
      g.lineTo(bx + (w * bw) / count, bar.y + bar.h);
    }
    g.stroke();
  };
  const locate = (px, py) => {
    const frame = frameAt(clock.step),
      launch = launches[frame.launch],
      n = rows.findIndex(({ bar }) => py >= bar.y && py < bar.y + bar.h);
    if (n < 0 || px < 0 || px >= width) return null;
    const resource = launch.resources[n],
      block = Math.floor(px / ((resource.each / resource.of) * width));
    const taken = block < held(launch, frame, n),
      what = launch.what_if ? { what_if: true } : {}; // a question covers the whole of its bars
    if (!taken && !launch.what_if) return null;
    return taken ? { resource: n, block, ...what } : { resource: n, ...what };
  };
  const describe = ({ resource: n, block }, step) => {
    const resource = launches[frameAt(step).launch].resources[n];
    if (block === undefined) return `${resource.name}: left`;
    return `block ${block}: ${number(resource.each)} of ${number(resource.of)} ${resource.unit}`;
  };
  const label = step => `${frameAt(step).title}. ${frameAt(step).sentence}`;
  return canvasView(host, context, {
    title: 'One SM',
    layout,
    draw,
    locate,
    describe,
    label,
    legend: [
      [`background:${BLOCK}`, 'a block, with its number'],
      [`border:3px solid ${LIMIT}`, 'the limit'],
    ],
  });
}
