// From story to story. Streamlit is not asked and does not hear of the way back: another story is
// no rerun.
import { listen } from '../core/paint.js';
import { embedded } from './embed.js';

/** @type {(a: Texts, b: Texts) => boolean} */
const sameChoices = (a, b) => Object.keys({ ...a, ...b }).every(name => a[name] === b[name]);

export class Visits {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    const onBack = (/** @type {Event} */ event) => {
      event.stopImmediatePropagation();
      this.open(app.address.path);
    };
    this.unmount = listen(window, 'popstate', onBack, true);
  }

  // The story of the address, which may be open already.
  here() {
    const { app } = this;
    if (app.story?.path !== app.address.path) this.open(app.address.path);
  }
  // byRail: by the rail or a link of ours; carried: the choices come from another story, so nothing
  // is said of those that do not apply here.
  open(/** @type {string} */ path, byRail = false, carried = false) {
    const { app } = this,
      starting = path === 'start',
      story = app.storyOf(path),
      stop = app.course.at(story, app.address.params),
      first = !app.story && !embedded;
    if (app.story !== story || app.stop !== stop) app.vacate();
    [app.story, app.stop] = [story, stop];
    app.frame.title(starting ? '' : (stop?.title ?? story.title));
    app.root.dataset.form = stop ? 'stop' : 'page';
    app.header.mark(path, stop);
    app.depth.arrive(app.address.params);
    app.guide.open(stop?.questions.length ? stop : null, byRail, first && !app.depth.deep);
    app.stage.room.classList.toggle('at-start', starting);
    app.stage.bar.node.hidden = starting;
    if (starting) {
      app.present.leave();
      app.start.enter();
    } else if (!app.start.node.hidden) app.start.leave();
    if (starting && app.address.params.nopage) this.lost(app.address.params.nopage);
    const { params } = app.address,
      own = params.stop === stop?.name ? stop?.choices : {}; // a link may name the stop alone
    return app.question.show({ params: { ...own, ...params }, carried, fresh: true });
  }
  // There is no page of that name. For an address, the server has led to the start page (server.py). A site without a
  // server has no Workbench.
  async lost(/** @type {string} */ name) {
    const { app } = this,
      { story } = app,
      found = await (await fetch(`${app.base}/wg/near?${new URLSearchParams({ name })}`)).json();
    if (app.story === story) app.messages.lost(found, link => app.goTo({ link }));
  }
  // By the rail all that was chosen goes along, as far as it applies there. A link of ours (given)
  // says exactly what it means. replace: no way back leads to what is left. Done when the story is
  // shown or refused.
  leave(/** @type {string} */ path, /** @type {Texts} */ given = {}, { replace = false, byRail = true } = {}) {
    const { app } = this,
      exact = Object.keys(given).length > 0;
    if (!replace) app.byHand();
    if (!exact && app.story?.path === path) return app.address.tell();
    const story = app.storyOf(path);
    if (!story) return this.lost(path);
    const along = app.chosen.along(story);
    // all that the start page asks
    const where = along.filter(([name]) => name === 'backend' && name in story.begin),
      carried = path === 'start' ? where : along,
      query = exact ? [...where, ...Object.entries(given)] : carried;
    return this.go(path, query, { replace, byRail, carried: !exact });
  }
  // To a stop of the course: its own choices count, and all others go along.
  /** @param {Stop} stop */
  toStop(stop) {
    const { app } = this,
      { story, name, choices, picture } = stop;
    if (app.stop === stop) return app.address.tell();
    app.byHand();
    const along = app.chosen.along(app.storyOf(story)).filter(([other]) => !(other in choices)),
      own = { ...choices, stop: name, ...(picture ? { picture } : {}) };
    return this.go(story, [...along, ...Object.entries(own)], { byRail: true, carried: true });
  }
  /**
   * @param {string} path
   * @param {[string, string][]} query
   * @param {{replace?: boolean, byRail: boolean, carried: boolean}} way
   */
  go(path, query, { replace = false, byRail, carried }) {
    if (!replace) this.app.address.write(); // the way back leads to this step
    this.app.address.go(path, query, replace);
    return this.open(path, byRail, carried);
  }
  // Goes to a moment's link. replace: no way back leads to the moment before.
  visit(/** @type {string} */ link, replace = false) {
    const { app } = this,
      [path, query] = link.split('?'),
      given = Object.fromEntries(new URLSearchParams(query)),
      { step, ...rest } = given;
    const here = Object.fromEntries(new URLSearchParams(app.address.now().split('?')[1]));
    delete here.step;
    if (!given.stop) delete here.stop; // links of talks and older links name none
    const shown = path === app.story.path && app.stage.content && !app.question.asking;
    if (!shown || !sameChoices(rest, here)) return this.leave(path, given, { replace, byRail: false });
    if (step) app.stage.clock.set(Number(step) - 1, 'jump'); // the same run, another step
    app.address.tell();
  }
}
