// A question to the app: what is chosen goes out, choices and the name of a bundle come back, and the
// stage shows it. The newest question counts.
import { button, element } from '../core/paint.js';
import { askUntilDone, stop } from './fetching.js';

// A stop's own choices are the defaults of its page there.
/** @type {(story: Lens, stop: Stop | null) => Lens} */
const begun = (story, stop) => ({ ...story, begin: { ...story.begin, ...stop?.choices } });
const BEHIND = ['place', 'problem', 'build', 'run']; // groups of choices under "More"

export class Question {
  turn = 0;

  /** @param {App} app */
  constructor(app) {
    this.app = app;
  }

  // Whether the last question has no answer yet.
  get asking() {
    return this.app.root.classList.contains('asking');
  }
  // The choices of the moment; one of them may be the step itself.
  get choices() {
    const { link, stage } = this.app,
      name = stage.content?.step_choice;
    return name in link ? { ...link, [name]: String(stage.value) } : link;
  }

  // params: choices; set: a change of one, [name, value]; carried: they come from another story;
  // fresh: another story, so the address's step counts; again: the bundle was gone; retry: what has
  // failed is made anew.
  /**
   * @param {{params?: Texts, set?: [string, string] | null, carried?: boolean, fresh?: boolean,
   *   again?: boolean, retry?: boolean}} question
   * @returns {Promise<void>}
   */
  async show({ params = this.choices, set = null, carried = false, fresh = false, again = false, retry = false } = {}) {
    const { app } = this,
      { story, stage, link: before } = app,
      nth = ++this.turn,
      current = () => nth === this.turn;
    this.begin(again);
    let counted = false; // the change is among what was chosen
    const hear = (/** @type {Answer} */ answer) => {
      if (!answer.choices) return;
      this.take(answer);
      if (counted) return;
      counted = true;
      if (set && !(set[0] in (answer.refused ?? {}))) app.chosen.change(story, set[0], before, app.link);
      else if (fresh && !carried) app.chosen.arrive(begun(story, params.stop ? app.stop : null), app.link); // a link names its stop
    };
    const onWait = (/** @type {Answer} */ answer) => {
      if (!current()) return;
      hear(answer);
      if (answer.waiting) this.wait(answer.waiting);
    };
    const asked = { path: story.path, params, set, carried, again: retry },
      answer = await askUntilDone(app.base, asked, onWait, current);
    if (!current()) return;
    hear(answer);
    if (!answer.choices && !stage.content) app.toolbar.load([], {}); // those of the story before
    const anew = (/** @type {{again?: boolean, retry?: boolean}} */ more) =>
      this.show({
        params: { ...params, ...answer.link },
        set: answer.choices ? null : set,
        carried: carried && !answer.choices,
        fresh,
        ...more,
      });
    if (answer.error) {
      const cannot = answer.title === 'This cannot run.';
      const { offer } = answer,
        way = cannot
          ? offer && button(offer.label, () => this.app.change(offer.set[0], offer.set[1]))
          : button('Run again', () => anew({ retry: true }));
      return this.refuse(answer.title ?? '', answer.error, way);
    }
    let content;
    try {
      content = await stage.load(answer.bundle ?? '');
    } catch (error) {
      if (!current()) return;
      if (!again) return anew({ again: true }); // it was pruned between answer and fetch
      const way = button('Run again', () => anew({}));
      return this.refuse('The picture could not be fetched.', error.message, way);
    }
    if (!current()) return;
    if (set && !(set[0] in (answer.refused ?? {}))) app.address.hold();
    this.draw(content, answer, params, fresh);
  }
  begin(/** @type {boolean} */ again) {
    const { root, stage, story, messages, vacant } = this.app;
    if (!again) messages.anew();
    if (!stage.content) vacant.replaceChildren(element('p', { role: 'status' }, `${story.title} is being made.`));
    root.classList.add('asking');
    stage.middle.node.setAttribute('aria-busy', 'true');
  }
  settle() {
    const { root, stage } = this.app;
    root.classList.remove('asking');
    stage.middle.node.removeAttribute('aria-busy');
  }

  // A part of the story that its bundle leaves out: the name of its bundle, or null if it is no
  // longer wanted.
  /** @param {string} part @param {() => boolean} current */
  async part(part, current) {
    const { base, story } = this.app,
      { turn } = this,
      wanted = () => current() && turn === this.turn;
    const question = { path: story.path, params: this.choices, part };
    const { error, bundle } = await askUntilDone(base, question, () => {}, wanted);
    if (!wanted()) return null;
    if (error) throw new Error(error);
    return bundle ?? null;
  }

  // The choices as the app has taken them.
  /** @param {Answer} answer */
  take({ link = {}, choices = [], refused = {}, headline = '', told = [], offer, error }) {
    const { app } = this,
      { toolbar, messages } = app;
    app.link = link;
    toolbar.node.inert = false;
    toolbar.load([...choices, ...(app.stage.content?.late ?? [])], refused);
    app.header.headline(headline);
    messages.tell(told);
    messages.offer(error ? null : offer, set => this.show({ set })); // else in its refusal
    const behind = choices.filter(({ group }) => BEHIND.includes(group)).map(({ name }) => name);
    if (Object.keys(refused).length) toolbar.open(Object.keys(refused).some(name => behind.includes(name)));
  }
  /** @param {web.Waiting} waiting */
  wait({ key, seconds, place, running, why }) {
    const { base, story } = this.app;
    if (seconds < 1) return;
    const ahead = place ? `${place} ${place === 1 ? 'goes' : 'go'} before it` : 'it is the next',
      time = `${Math.round(seconds)} s so far.`;
    const waits = `waits for a free worker: ${why || ahead}; ${time}`,
      makes = story.runs ? `is running: ${time}` : `reads recorded figures: ${time}`,
      text = `${story.title} ${running ? makes : waits} `,
      end = button('Stop', () => stop(base, key));
    this.report(element('p', { class: 'note info', role: 'status' }, text, end));
  }
  // The picture's own message: in its place while there is none, else above it.
  report(/** @type {Node} */ node) {
    const { stage, story, messages, vacant } = this.app;
    if (stage.content || story.path === 'start') messages.show(node);
    else vacant.replaceChildren(node);
  }
  // way: a button that leads on, or nothing.
  /** @param {string} title @param {string} text @param {Node | null | undefined} way */
  refuse(title, text, way) {
    const kept = this.app.stage.content ? 'The page still shows the choices before. ' : '',
      head = element('b', {}, title);
    const note = element('p', { class: 'note bad', role: 'alert' }, head, ` ${text} ${kept}`);
    if (way) note.append(way);
    this.report(note);
    this.settle();
    this.app.root.classList.add('stale');
  }

  /** @param {any} content @param {Answer} answer @param {Texts} params @param {boolean} fresh */
  draw(content, answer, { step, picture, tab, stop: named }, fresh) {
    const { app } = this,
      { stage, story, messages, toolbar, header } = app;
    this.settle();
    app.root.classList.remove('stale');
    messages.show(null);
    app.vacant.hidden = true;
    app.sayFrom(content.provenance);
    if (story.path === 'start') app.start.show(content);
    else {
      const refused = answer.refused ?? {},
        name = content.step_choice,
        value = name in app.link ? Number(app.link[name]) || 0 : null;
      for (const late of content.late) app.link = { ...app.link, [late.name]: late.value };
      toolbar.load([...(answer.choices ?? []), ...content.late], refused);
      header.headline(content.headline || answer.headline);
      toolbar.about(content.provenance?.problem ?? answer.problem, content.provenance ?? {});
      messages.warn(content.provenance?.warnings ?? []);
      /** @type {story.View[]} */ const views = content.views;
      const wanted = {
        bundle: answer.bundle,
        step: fresh ? step : null,
        value,
        // the stop's, if these choices have it; a link's step counts the page's own steps, unless it names the stop
        picture: picture ?? views.find(({ id, meta }) => id === app.stop?.picture && (named || !meta.clock))?.id,
        tab,
        fresh,
      };
      messages.tell(stage.show({ ...content, refused }, wanted));
      app.sayFrom(stage.provenance);
      messages.tell(content.told);
      const { offer } = content; // it knows more than the server's
      if (offer) messages.offer(offer, changes => this.show({ params: { ...this.choices, ...changes }, fresh: true }));
      header.idea.hidden = !stage.middle.verdict.hidden;
      app.depth.offer(content.codes.length > 0);
      app.lead.show({ path: story.path, part: content.lead, params: this.choices });
      app.guide.load(stage.content);
      app.address.write();
    }
    app.root.dataset.shown = `${story.path} ${answer.bundle}`; // tests wait for it
    if (story.path === 'start') app.address.tell();
  }
}
