// A KV cache after each event: block tables, the pool of pages with reference counts, the free
// list, and the slots that are wasted.
import { canvasView } from '../core/canvas.js';
import { element, number } from '../core/paint.js';
import { placePages, placeTable } from './layouts/pages.js';
import {
  drawLabel,
  drawPool,
  drawTable,
  drawUsage,
  fitting,
  outlinePage,
  runButtons,
  tellSlot,
} from './pages.js';

/** @type {Picture<block_table.PoolMeta>} */
export default function (host, { meta }, context) {
  const { clock } = context;
  const { frames, size, page_bytes, kv_heads } = meta,
    count = frames[0].free.length;
  const most = Math.max(1, ...frames.flatMap(f => f.sequences.map(s => s.table.length))),
    rows = Math.max(1, ...frames.map(f => f.sequences.length));
  const widest = Math.max(1, ...frames.map(f => Math.max(f.usage.held, f.usage.reserved))),
    frameAt = step => frames[Math.min(step, frames.length - 1)];
  let em,
    width,
    left,
    high,
    place,
    tables = [],
    low = false;

  const layout = pane => {
    // rows that hold every step: nothing moves from one to the next
    ({ em, width } = pane);
    left = Math.round(Math.min(7 * em, width * 0.22));
    const one = placeTable(most, { left, top: 0, width: width - left, em });
    high = one.bottom + 0.5 * em;
    low = pane.height < 30 * em; // then the strip alone says what is used
    const top = 1.5 * em + rows * high + 2.4 * em,
      below = low ? 1.6 * em : 1.8 * em + 2 * 1.9 * em;
    place = placePages(count, {
      left: 0.4 * em,
      top,
      width: width - 0.4 * em,
      height: Math.max(2 * em, pane.height - top - below),
      em,
      high: 5 * em,
    });
    return place.bottom + below + 2;
  };
  const draw = (g, { step, at, paint }) => {
    const frame = frameAt(step);
    const label = (name, y, note) => drawLabel(g, paint, em, name, [note], 0, y, width);
    label('Block tables', em, 'entry above, page below');
    tables = frame.sequences.map((s, n) => {
      const top = 1.5 * em + n * high,
        cells = placeTable(s.table.length, { left, top, width: width - left, em });
      g.fillStyle = s.colour;
      g.fillRect(0, top, 0.45 * em, 2.5 * em);
      g.fillStyle = paint.text;
      g.font = `600 ${em * 1.08}px ${paint.font}`;
      g.fillText(s.name, 0.9 * em, top + 1.05 * em, left - 1.2 * em);
      g.font = `${em}px ${paint.font}`;
      g.fillText(
        fitting(
          g,
          [`${s.length} token${s.length === 1 ? '' : 's'}`, String(s.length)],
          left - 1.2 * em,
        ),
        0.9 * em,
        top + 2.3 * em,
      );
      drawTable(g, paint, cells, s.table, {
        colour: s.colour,
        lit: at?.sequence === n ? at.entry : -1,
      });
      return cells;
    });
    if (!frame.sequences.length) g.fillText('No sequence yet.', 0.9 * em, 1.5 * em + 1.2 * em);
    label('Pool', place.top - 1.1 * em, `${count} pages of ${size} slots`);
    drawPool(g, paint, place, frame, count, size, frame.copied ? [frame.copied] : []);
    if (at?.page !== undefined) outlinePage(g, paint, place, at.page);
    g.font = `${em}px ${paint.font}`;
    g.fillStyle = paint.text;
    const free = frame.free.join(', '),
      y = place.bottom + 1.35 * em;
    g.fillText(
      fitting(
        g,
        [
          `Free list, next first: ${free || 'empty'}`,
          `Free list, next first: ${frame.free.slice(0, 8).join(', ')}, ...`,
        ],
        width,
      ),
      0,
      y,
    );
    if (low) return;
    drawUsage(g, paint, em, place.bottom + 1.9 * em, width, widest, frame.usage);
  };

  const describe = (at, step) => {
    const frame = frameAt(step);
    if (at.entry !== undefined) {
      const s = frame.sequences[at.sequence],
        first = at.entry * size;
      return s && at.entry < s.table.length
        ? `entry ${at.entry} of ${s.name}: tokens ${first} to ` +
            `${Math.min(first + size, s.length) - 1} lie in page ${s.table[at.entry]}`
        : '';
    }
    const where =
      kv_heads && frame.pages[at.page]
        ? `\nKV head 0: K from byte ${number(at.page * kv_heads * page_bytes + 16 * at.slot)}`
        : '';
    return tellSlot(frame, at, size) + where;
  };
  const locate = (x, y) => {
    const sequence = tables.findIndex(t => t.find(x, y) >= 0);
    if (sequence >= 0) {
      const entry = tables[sequence].find(x, y);
      return { sequence, entry, page: frameAt(clock.step).sequences[sequence].table[entry] };
    }
    const found = place.find(x, y);
    return (
      found && {
        page: found.page,
        slot: Math.min(size - 1, Math.floor(found.x / (place.w / size))),
      }
    );
  };
  const label = step => {
    const frame = frameAt(step);
    return (
      `${frame.title}. ${frame.sentence} ` +
      `${frame.sequences.map(s => `${s.name}: pages ${s.table.join(', ')}`).join('; ')}.`
    );
  };

  const inner = element('div', { class: 'view' }),
    run = runButtons(frameAt, context);
  host.replaceChildren(inner, element('div', {}, ...run.nodes));
  const view = canvasView(inner, context, {
    title: 'KV cache',
    layout,
    draw,
    locate,
    describe,
    label,
    said: step => frameAt(step).waste,
  });
  return {
    unmount() {
      run.end();
      view.unmount();
    },
  };
}
