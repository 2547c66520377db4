// The one clock of a mounted stage: the step, the number of steps, and the parts that follow them.
// Events: step {step, why}, type (the size of text has changed), picked and pinned (a thing in a
// view), pin (a cell is pinned from elsewhere), covers (a question covers or points at other things), right (an
// answer is right: what its question shows).
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
  /** @type {Drawn[]} */ views = []; // each picture
  /** @type {{title: string, thing: Thing} | null} */ pin = null; // the cell that the leader of a class has pinned
  /** @type {(text: string) => string} */ hide = text => text; // with "?" for what answers the open question
  /** @type {Thing[]} */ covers = []; // the things of a picture that answer it
  /** @type {Thing | null} */ point = null; // the thing that Show me points at

  // why: user, play, jump (also where the step stays), lead or idle.
  /** @param {number} wanted @param {string} why */
  set(wanted, why) {
    const step = Math.max(0, Math.min(this.count - 1, Math.trunc(wanted) || 0));
    if (step === this.step && why !== 'jump') return;
    const pointed = this.point && step !== this.step; // it points at a thing of one step
    this.step = step;
    this.tell('step', { step, why });
    if (pointed) this.cover({ point: null });
  }
  // The frames of a stage. The step stays until `set` is called.
  /** @param {Frame[]} frames */
  load(frames) {
    this.titles = frames.map(frame => frame.title ?? '');
    this.count = Math.max(1, frames.length);
    this.from = frames[0]?.before ? 0 : 1;
    this.outer = [...frames.keys()].filter(
      n => !n || frames[n].tile !== frames[n - 1].tile || frames[n].block !== frames[n - 1].block,
    );
    if (this.step >= this.count) this.step = this.count - 1;
  }
  // The numbers of the step and of the last one, for people.
  get number() {
    return this.step + this.from;
  }
  get last() {
    return this.count - 1 + this.from;
  }
  // Calls listener at every step; returns what ends that.
  /** @param {(step: number) => void} listener */
  follow(listener) {
    const heard = (/** @type {any} */ event) => listener(event.detail.step);
    this.addEventListener('step', heard);
    return () => this.removeEventListener('step', heard);
  }
  /** @param {string} name @param {any} detail */
  tell(name, detail = null) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
  /** @param {Partial<Pick<Clock, 'hide' | 'covers' | 'point'>>} change */
  cover(change) {
    Object.assign(this, change);
    this.tell('covers');
    for (const view of this.views) view.draw?.();
  }
  // Where a view with that start of its title draws a thing: its middle on the page, or null.
  /** @param {string} title @param {Thing} thing */
  where(title, thing) {
    return this.views.find(view => view.title.startsWith(title))?.where?.(thing) ?? null;
  }
}
