// A pipeline of 20,000 made-up bars, half of them in sight, dragged to and fro: [ms from frame to
// frame, ms of work for each move].
async () => {
  const draw = (await import('/views/pipeline.js')).default,
    { Clock } = await import('/core/clock.js'),
    ROWS = 10,
    BARS = 20000 / ROWS,
    columns = {};
  for (const name of ['start', 'end', 'row', 'event', 'tile']) columns[name] = new Float32Array(ROWS * BARS);
  for (let n = 0; n < ROWS * BARS; n++) {
    const bar = n % BARS,
      row = Math.floor(n / BARS),
      start = 50 * bar + row;
    Object.entries({
      start,
      end: start + 20 + (n % 30),
      row,
      event: n % 3,
      tile: bar,
    }).forEach(([name, v]) => {
      columns[name][n] = v;
    });
  }
  const rows = Array.from({ length: ROWS }, (_, n) => ({
    name: `warp ${n}`,
    kernel: 'made_up',
    flight: false,
  }));
  const events = ['S', 'P', 'O'].map(kind => ({ kind, title: kind }));
  const frames = [{ title: 'half', sentence: '', span: [0, 25 * BARS], copied: [] }];
  draw(
    document.querySelector('.view'),
    {
      meta: { rows, events, mhz: 1755, frames, row_of: {} },
      columns,
    },
    { clock: new Clock() },
  );
  const canvas = document.querySelector('canvas'),
    box = canvas.getBoundingClientRect(),
    y = box.top + 40,
    seen = [],
    worked = [];
  const fire = (type, x) =>
    canvas.dispatchEvent(
      new PointerEvent(type, {
        clientX: x,
        clientY: y,
        buttons: 1,
        bubbles: true,
      }),
    );
  const frame = () => new Promise(done => requestAnimationFrame(done));
  for (let n = 0; n < 30; n++) await frame();
  fire('pointerdown', box.left + box.width / 2);
  for (let n = 0; n < 120; n++) {
    const begin = performance.now();
    fire('pointermove', box.left + box.width / 2 + 300 * Math.sin(n / 10));
    worked.push(performance.now() - begin);
    seen.push(await frame());
  }
  return [seen.slice(1).map((t, n) => t - seen[n]), worked];
};
