// The app as the host of its stage (core/host.js).
import { browser, tab } from './storage.js';
import { fetchBundle } from './fetching.js';
import { APP_KEYS } from './keys.js';
import { asLeader } from './room.js';

/** @type {Promise<any> | null} */
let vega = null; // the charts' script, which takes a while: fetched once, and again after a failure
const loadVega = () =>
  (vega ??= import('../vega.js').then(
    () => vegaEmbed, // the script's own global
    error => {
      vega = null;
      throw error;
    },
  ));

/** @param {App} app @returns {import('../core/host.js').HostKeys} */
const keysOf = app => ({
  rows: APP_KEYS,
  actions: {
    guide: () => app.guide.toggle(),
    present: () => app.presents(),
    blank: () => app.present.blank(),
    depth: () => app.depth.toggle(),
    theme: () => app.look.nextTheme(),
    larger: () => app.look.larger(),
    smaller: () => app.look.smaller(),
    usual: () => app.look.usual(),
    keys: () => app.keys.toggle(),
    search: () => app.search.toggle(),
  },
  clicking: () => app.present.on || app.sequences.playing(),
  blocked: name => app.search.open || (app.keys.open && name !== 'keys'),
});

/** @param {App} app @returns {import('../core/host.js').Host} */
export const hostOf = app => ({
  state: {}, // the first moment comes with the first answer
  bundle: name => fetchBundle(app.base, name),
  onState: () => {
    app.address.write();
    if (app.story.path !== 'start') app.sayFrom(app.stage.provenance);
  },
  keys: keysOf(app),
  part: (tab, current) => app.question.part(tab, current),
  change: (name, value) => app.change(name, value),
  turnTo: (name, value) => app.visits.leave(app.story.path, { ...app.question.choices, [name]: value }),
  open: (story, query) => app.visits.leave(story, query),
  story: () => app.story.path,
  sourceOf: code => (app.story.path === 'source' ? null : () => app.visits.leave('source', code.source)),
  again: () => app.question.show(),
  href: path => app.base + path,
  request: (path, options) =>
    fetch(app.base + path, options && { ...options, headers: { ...options.headers, ...asLeader() } }),
  charts: loadVega,
  kept: browser.read,
  keep: browser.write,
  keptInTab: tab.read,
  keepInTab: tab.write,
});
