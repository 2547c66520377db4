// The one clock of a mounted stage: the step, the number of steps, and the parts that follow them.
// Events: step {step, why}, type (the size of text has changed), picked and pinned (a thing in a
// view), pin (a cell is pinned from elsewhere), covers (a question covers or points at other things).
import { browserTime } from './tween.js';

export class Clock extends EventTarget {
  step = 0;
  count = 1;
  from = 1; // the number of the first step; 0 for what is before it
  playing = false;
  pace = 0; // steps a second while they play
  time = browserTime; // of what moves between two steps
  titles = ['']; // of each step
  outer = [0]; // the steps at which a tile or a block begins
  views = []; // {title, host, draw, where, vega} of each picture
  pin = null; // the cell that the leader of a class has pinned: {title of the view, thing}
  hide = text => text; // a text of the page, with "?" for what answers the open question
  covers = []; // the things of a picture that answer it
  point = null; // the thing that Show me points at

  // why: user, play, jump (also where the step stays), lead or idle.
  set(wanted, why) {
    const step = Math.max(0, Math.min(this.count - 1, Math.trunc(wanted) || 0));
    if (step === this.step && why !== 'jump') return;
    const pointed = this.point && step !== this.step; // it points at a thing of one step
    this.step = step;
    this.tell('step', { step, why });
    if (pointed) this.cover({ point: null });
  }
  // The frames of a stage: [{title, tile, block}]. The step stays until `set` is called.
  load(frames) {
    this.titles = frames.map(frame => frame.title ?? '');
    this.count = Math.max(1, frames.length);
    this.from = frames[0]?.before ? 0 : 1;
    this.outer = outerSteps(frames);
    if (this.step >= this.count) this.step = this.count - 1;
  }
  // The numbers of the step and of the last one, for people.
  get number() {
    return this.step + this.from;
  }
  get last() {
    return this.count - 1 + this.from;
  }
  // Calls listener(step) at every step; returns what ends that.
  follow(listener) {
    const heard = event => listener(event.detail.step);
    this.addEventListener('step', heard);
    return () => this.removeEventListener('step', heard);
  }
  tell(name, detail = null) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
  // hide, covers and point: as above.
  cover(change) {
    Object.assign(this, change);
    this.tell('covers');
    for (const view of this.views) view.draw?.();
  }
  // Where a view of that title (or one that begins so) draws a thing: its middle on the page, or
  // null.
  where(title, thing) {
    const view = this.views.find(one => one.title === title || one.title.startsWith(title));
    return view?.where(thing) ?? null;
  }
}

// The steps at which another tile or block begins, and the first.
export function outerSteps(frames) {
  const begins = (frame, before) => frame.tile !== before.tile || frame.block !== before.block;
  return frames.map((_, n) => n).filter(n => n === 0 || begins(frames[n], frames[n - 1]));
}
