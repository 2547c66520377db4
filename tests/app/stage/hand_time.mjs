// A time of motions that passes only when a test says so.
export function handTime() {
  let time = 0,
    waiting = null;
  return {
    now: () => time,
    request(tick) {
      waiting = tick;
      return 1;
    },
    cancel() {
      waiting = null;
    },
    advance(ms) {
      time += ms;
      const tick = waiting;
      waiting = null;
      tick?.();
    },
  };
}
