// Figures of motion on the page that is shown, in milliseconds: {step, work, gaps, first, settled}.
// step: our work at a step, of the whole stage; work: of a later frame of its motion. Both are the
// least of five runs: another process may have had the processor in the others. gaps: between two
// frames while steps play at the speed; first, settled: from a key press to its first frame and to
// the end of its motion.
async speed => {
  const { clock } = document.querySelector('.wg').stage,
    wait = ms => new Promise(done => setTimeout(done, ms)),
    painted = () =>
      new Promise(done =>
        requestAnimationFrame(() => {
          const channel = new MessageChannel();
          channel.port1.onmessage = done;
          channel.port2.postMessage(0);
        }),
      );
  const REPEATS = 5,
    step = [],
    work = [],
    gaps = [],
    first = [],
    settled = [];
  let moving = false;
  const timed = act => {
    const began = performance.now();
    act();
    return performance.now() - began;
  };
  let time = 1e6,
    waiting = null;
  clock.time = {
    now: () => time,
    request(tick) {
      waiting = tick;
      return 1;
    },
    cancel() {
      waiting = null;
    },
  };
  for (let n = 1; n < clock.count; n++) {
    const runs = [];
    for (let run = 0; run < REPEATS; run++) {
      time += 1000;
      clock.set(n - 1, 'jump');
      await painted();
      const took = [timed(() => clock.set(n, 'user'))];
      for (let frame = 0; frame < 8 && waiting; frame++) {
        const tick = waiting;
        [waiting, time] = [null, time + 33];
        took.push(timed(tick));
      }
      runs.push(took);
    }
    const least = frame => Math.min(...runs.map(took => took[frame] ?? Infinity));
    step.push(least(0));
    for (let frame = 1; frame < runs[0].length; frame++) work.push(least(frame));
  }

  clock.time = {
    now: () => performance.now(),
    request(tick) {
      moving = true;
      return requestAnimationFrame(() => {
        moving = false; // until the tick asks again
        tick();
      });
    },
    cancel(id) {
      moving = false;
      cancelAnimationFrame(id);
    },
  };
  const press = key =>
    document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, composed: true }));

  press('Home');
  await wait(300);
  for (let n = 1; n < clock.count; n++) {
    const began = performance.now();
    press('ArrowRight');
    await painted();
    first.push(performance.now() - began);
    while (moving) await painted();
    settled.push(performance.now() - began);
    await wait(150);
  }

  press('Home');
  const list = document.querySelector('.wg [aria-label=Speed]');
  list.value = String(speed);
  list.dispatchEvent(new Event('change', { bubbles: true }));
  await wait(300);
  press(' ');
  let last = 0;
  await new Promise(done => {
    const beat = now => {
      if (last) gaps.push(now - last);
      last = now;
      if (clock.step < clock.count - 1 && clock.playing) requestAnimationFrame(beat);
      else done();
    };
    requestAnimationFrame(beat);
  });
  return { step, work, gaps, first, settled, played: clock.step === clock.count - 1 };
};
