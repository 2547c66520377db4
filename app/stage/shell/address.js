// The address: it holds the story, the stop, every choice, the step, the picture and the tab.
import { withoutDepth } from './depth.js';
import { framing, unframed } from './embed.js';

export class Address {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
  }

  // The story that the address names.
  get path() {
    const { base, rail } = this.app,
      at = location.pathname.replace(/\/$/, '');
    return (rail.find((/** @type {Lens} */ { path }) => at === `${base}/${path}`) ?? { path: 'start' }).path;
  }
  // Its choices, step, picture and tab.
  get params() {
    return withoutDepth(unframed(Object.fromEntries(new URLSearchParams(location.search))));
  }

  // The moment that is shown, as a link: 'path?choices&step&picture&tab'.
  now() {
    const { story, stop, stage, question } = this.app,
      { content, clock } = stage;
    if (!content) return `${story.path}?${new URLSearchParams(this.params)}`;
    const query = new URLSearchParams(stop ? { stop: stop.name } : {});
    for (const [name, text] of Object.entries(question.choices)) query.set(name, text);
    if (clock.count > 1) query.set('step', String(clock.step + 1));
    // this choice counts from 0, and the step says the same
    if (clock.count > 1 && !stage.ownClock) query.delete(content.step_choice);
    if ((content.pictures?.length ?? 0) > 1) query.set('picture', stage.picture);
    if (stage.tab) query.set('tab', stage.tab);
    return `${story.path}?${query}`;
  }
  // The moment, as any browser opens it.
  whole() {
    const { story, depth } = this.app;
    const [path, query] = story ? this.now().split('?') : ['start', ''];
    return `${location.origin}${this.to(path)}?${[query, depth.asked].filter(Boolean).join('&')}`;
  }
  /** @param {string} path */
  to(path) {
    return `${this.app.base}/${path === 'start' ? '' : path}`;
  }

  // Another story. replace: no way back leads to what is left.
  /** @param {string} path @param {[string, string][]} query @param {boolean} replace */
  go(path, query, replace) {
    const given = Object.fromEntries(query);
    if (given.depth) this.app.depth.arrive(given);
    const choices = new URLSearchParams(withoutDepth(given)).toString();
    const url = `${this.to(path)}?${this.framed(choices)}`;
    history[replace ? 'replaceState' : 'pushState']({}, '', url);
  }
  // Choices with what the address says besides: the frame and the depth.
  framed(query = '') {
    return [query, this.app.depth.asked, framing()].filter(Boolean).join('&');
  }
  // A way back to what the address says.
  hold() {
    history.pushState({}, '', location.href);
  }
  // The moment goes into the address; the class and the talk hear of it.
  write() {
    const { story, stage, question } = this.app;
    if (!stage?.content || question.asking) return;
    if (!location.pathname.endsWith(story.path === 'start' ? '/' : `/${story.path}`)) return;
    const { pathname, search, hash } = location, // a page may read the hash, and then takes it away
      url = `${pathname}?${this.framed(this.now().split('?')[1])}${hash}`;
    if (url !== pathname + search + hash) history.replaceState(history.state, '', url);
    this.tell();
  }
  tell() {
    this.app.news.dispatchEvent(new CustomEvent('moment', { detail: this.now() }));
  }
}
