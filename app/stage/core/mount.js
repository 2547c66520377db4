// The stage: clock, picture, state, code and tabs of one bundle. It knows no app. A host (host.js)
// gives it bytes and keeps its state.
//
//   const stage = mount(el, host);   // el.stage is this handle too
//   stage.clock      step, count, views, where(title, thing): what tests ask
//   stage.state      {bundle, step, picture, tab} of the moment
//   stage.open(state), stage.show(content, wanted), stage.clear(), stage.unmount()
import { makeBar } from './bar.js';
import { Clock } from './clock.js';
import { decode } from './decode.js';
import { complete } from './host.js';
import { hearKeys, STEP_KEYS } from './keys.js';
import { Middle } from './middle.js';
import { framesOf, ownClock, picturesOf, sameMoment, stepUpTo, stepWanted } from './moments.js';
import { valueAt } from './moments.js';
import { element } from './paint.js';
import { Tabs } from './tabs.js';

const KEPT = 24; // decoded bundles
const NO_CONTENT = /** @type {Content} */ (/** @type {unknown} */ (null));

/** @param {HTMLElement} el @param {import('./host.js').Host} host */
export function mount(el, host) {
  const stage = new Stage(el, complete(host));
  if (host.state.bundle) stage.open(host.state);
  return stage;
}

export class Stage {
  content = NO_CONTENT; // of the bundle, with its pictures listed
  bundle = '';
  picture = '';
  tab = '';
  // (1 onward or -1 back, held) -> whether it has taken a clicker's press
  /** @type {((direction: number, held: boolean) => boolean) | null} */ clicker = null;
  // picture with a clock of its own, or '' -> its step while another is shown
  /** @type {Record<string, number>} */ steps = {};
  kept = new Map(); // name -> what a bundle holds; the oldest go first

  /** @param {any} el @param {Host} host */
  constructor(el, host) {
    this.el = el;
    this.host = host;
    this.clock = new Clock();
    this.bar = makeBar({ clock: this.clock, onRest: () => this.rested() });
    this.middle = new Middle(this);
    this.tabs = new Tabs(this);
    const { chips, sides, verdict, node } = this.middle;
    this.sub = element('div', { class: 'sub' }, chips, sides, verdict);
    this.room = element('div', { class: 'room' }, this.bar.node, this.sub, node, this.tabs.node, this.tabs.drawer);
    el.classList.add('wg');
    el.replaceChildren(this.room);
    el.stage = this;
    this.deafen = this.hear(host.keys);
  }

  // ---- what is shown ----
  // The content of a bundle, decoded once.
  /** @param {string} name @returns {Promise<any>} */
  async load(name) {
    if (this.kept.has(name)) return this.kept.get(name);
    const content = decode(await this.host.bundle(name));
    this.kept.set(name, content);
    if (this.kept.size > KEPT) this.kept.delete(this.kept.keys().next().value);
    return content;
  }
  // A moment of a bundle that the host has. Step counts from 0.
  /** @param {import('./host.js').State} state */
  async open({ bundle = '', step = 0, picture, tab }) {
    const content = await this.load(bundle);
    this.show(content, { bundle, step: step + 1, picture, tab, fresh: true });
  }
  /**
   * Draws content. Returns a sentence for each thing of the link that is not there.
   * wanted: step (from 1), picture and tab of a link; value: of the choice that the step is; fresh:
   * another story, so nothing of the moment before counts.
   * @param {Content} content
   * @param {{bundle?: string, step?: any, value?: number | null, picture?: string, tab?: string,
   *   fresh?: boolean}} wanted
   */
  show(content, { bundle = '', step, value = null, picture = '', tab = '', fresh = false }) {
    // Another lens begins at its first step.
    const same = this.content?.views[0]?.id === content.views[0]?.id,
      before = this.content && same ? this.frames : [],
      pictures = picturesOf(content),
      missing = [];
    this.content = { ...content, pictures };
    this.bundle = bundle;
    if (fresh) {
      [this.picture, this.tab, this.steps] = [picture, tab, {}];
      missing.push(...absent('picture', picture, pictures), ...absent('tab', tab, content.tabs));
    }
    if (!pictures.some(({ id }) => id === this.picture)) this.picture = pictures[0]?.id ?? '';
    const { clock, frames } = this;
    // The link's step; after a change the same moment, where the new run has it.
    let first = this.ownClock ? 0 : content.step;
    if (step !== null && step !== undefined) {
      const wanted = stepWanted(step, frames.length);
      first = wanted.step;
      if (wanted.missing) missing.push(wanted.missing);
    } else if (!this.ownClock && value !== null) first = stepUpTo(content, frames, value);
    else if (!fresh && before[clock.step]) first = sameMoment(before, clock.step, frames);
    this.loadClock();
    this.middle.draw();
    clock.set(first, 'jump');
    this.tabs.draw();
    return missing;
  }
  loadClock() {
    const { content, clock, bar } = this;
    const none = [{ title: '', sentence: content.summary, tile: 0 }],
      frames = this.frames.length ? this.frames : none;
    clock.load(frames);
    bar.root.hidden = frames.length < 2;
    bar.load(frames, sidesOf(frames));
  }
  // The colours or the content of the page around have changed: all is painted anew.
  redraw() {
    if (!this.content) return;
    this.middle.draw();
    this.clock.set(this.clock.step, 'jump');
    this.tabs.open(this.tab);
  }
  clear() {
    this.bar.stop();
    [this.content, this.bundle, this.tab] = [NO_CONTENT, '', ''];
    this.middle.clear();
    this.tabs.clear();
  }

  // ---- what a view is given ----
  /** @returns {Context} */
  context(content = this.content) {
    return { ...this.host, clock: this.clock, stage: content };
  }

  // ---- where the reader goes ----
  get frames() {
    return framesOf(this.content, this.picture);
  }
  get ownClock() {
    return !!ownClock(this.content, this.picture);
  }
  // Of the shown picture's figures. A picture with a clock of its own may name its own source, for each step or for all.
  get provenance() {
    const { content, picture } = this, // null before the first answer
      own = content && ownClock(content, picture);
    return content && (own?.provenances?.[this.clock.step] ?? own?.provenance ?? content.provenance);
  }
  // The step of the clock that the pictures share.
  get sharedStep() {
    return this.ownClock ? (this.steps[''] ?? this.content.step) : this.clock.step;
  }
  // The value of the choice that the step is.
  get value() {
    return valueAt(this.content, this.sharedStep);
  }
  get state() {
    return { bundle: this.bundle, step: this.clock.step, picture: this.picture, tab: this.tab };
  }
  /** @param {string | undefined} id */
  choosePicture(id) {
    if (!id || id === this.picture || !this.content.pictures?.some(one => one.id === id))
      return !!id && id === this.picture;
    const before = this.frames,
      clockName = () => (this.ownClock ? this.picture : '');
    this.steps[clockName()] = this.clock.step;
    this.picture = id;
    if (this.frames !== before) this.loadClock();
    this.middle.draw();
    this.clock.set(this.steps[clockName()] ?? (this.ownClock ? 0 : this.content.step), 'jump');
    this.moved();
    return true;
  }
  rested() {
    this.moved();
    this.tabs.rested();
  }
  moved() {
    this.host.onState(this.state);
  }

  /** @param {import('./host.js').HostKeys} keys */
  hear({ rows = [], actions = {}, clicking, blocked }) {
    const { bar } = this;
    /** @type {(direction: number, event: KeyboardEvent) => boolean | undefined} */
    const press = (direction, { repeat }) => this.clicker?.(direction, repeat);
    return hearKeys({
      root: this.el,
      rows: [...STEP_KEYS, ...rows],
      actions: {
        ...bar.actions,
        onward: event => press(1, event) || bar.actions.next(),
        back: event => press(-1, event) || bar.actions.previous(),
        picture: ({ key }) => !!this.content && this.choosePicture(this.content.pictures?.[key - 1]?.id),
        ...actions,
      },
      clicking,
      blocked,
    });
  }
  unmount() {
    this.deafen();
    this.middle.unmount();
    this.tabs.clear();
    this.bar.unmount();
    delete this.el.stage;
    this.el.replaceChildren();
  }
}

// For each side its sentences in the order of the steps.
const sidesOf = (/** @type {Frame[]} */ frames) =>
  frames[0].sentences?.map((_, side) =>
    frames.map(frame => ({
      ...frame,
      sentence: frame.sentences?.[side] ?? '',
      details: '',
      wrong: false,
    })),
  ) ?? [frames];

/** @type {(name: string, wanted: string, known: {id: string}[]) => string[]} */
const absent = (name, wanted, known) => {
  const ids = known.map(({ id }) => id);
  if (!wanted || ids.includes(wanted)) return [];
  return [`${name} is ${wanted}. Here it can be ${ids.join(', ') || 'left out'}.`];
};
