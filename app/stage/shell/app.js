// The app around the stage: header, toolbar, messages, guide, talks, class. Streamlit says which
// story; everything else is asked of the app's own routes.

import { mount } from '../core/mount.js';
import { element, theme, type } from '../core/paint.js';
import { Address } from './address.js';
import { Chosen } from './chosen.js';
import { Covering } from './covering.js';
import { answered, Course, keepAnswered, progress } from './course.js';
import { makeDepth } from './depth.js';
import { embedded } from './embed.js';
import { makeFrame } from './frame.js';
import { makeGlossary } from './glossary.js';
import { makeBelow } from './below.js';
import { makeGuide } from './guide.js';
import { makeHeader } from './header.js';
import { hostOf } from './host.js';
import { makeKeyDialog } from './keys.js';
import { makeLead } from './lead.js';
import { makeLook } from './look.js';
import { makeMessages } from './messages.js';
import { makePresent } from './present.js';
import { Question } from './question.js';
import { makeRoom } from './room.js';
import { makeRoomPanel } from './room_panel.js';
import { Saving } from './saving.js';
import { makeSearch } from './search.js';
import { makeSequences } from './sequences.js';
import { makeStart } from './start.js';
import { makeToolbar } from './toolbar.js';
import { Visits } from './visits.js';

const PACE = { guided: 1 / 2, everything: 4 }; // steps a second
const LABELS = 1.17; // of pictures, for a reader who is guided (paint.js)
const mounted = new WeakMap();
const NO_STORY = /** @type {Lens} */ (/** @type {unknown} */ (undefined)); // before the first, or of no path

/** @param {{data: any, parentElement: HTMLElement}} component */
export default function ({ data, parentElement }) {
  const root = /** @type {HTMLElement} */ (parentElement.querySelector('[data-part=root]'));
  let app = mounted.get(root);
  if (!app) mounted.set(root, (app = new App(root, data)));
  app.here();
  return () => {
    app.unmount();
    mounted.delete(root);
  };
}

export class App {
  story = NO_STORY; // of the rail
  /** @type {Stop | null} */ stop = null; // of the course, if the story has one
  /** @type {Texts} */ link = {}; // the choices that are shown
  chosen = new Chosen();
  news = new EventTarget(); // moment (a link), class (its state), hand (the reader went elsewhere)
  painted = ''; // the colours of what is painted

  // base: the app's path below the host; rail: the stories, and stops: the course, as page.py hands
  // them over.
  /** @param {HTMLElement} root @param {{base: string, rail: Lens[], stops: Stop[]}} given */
  constructor(root, { base, rail, stops }) {
    this.root = root;
    this.base = base;
    this.rail = rail;
    this.course = new Course(stops);
    this.address = new Address(this);
    this.depth = makeDepth(root, () => this.deepened());
    this.question = new Question(this);
    this.stage = mount(root, hostOf(this));
    this.covering = new Covering(root);
    this.frame = makeFrame(root);
    this.saving = new Saving(this);

    this.look = makeLook(root, this.stage.clock, () => this.repaint());
    this.room = makeRoom(this);
    this.lesson = makeRoomPanel(this);
    this.sequences = makeSequences(this);
    this.search = makeSearch(this);
    this.header = makeHeader(this);
    this.toolbar = makeToolbar(this);
    this.guide = makeGuide(this);
    this.below = makeBelow(this.guide.node);
    this.start = makeStart(this);
    this.messages = makeMessages();
    this.vacant = element('div', { class: 'vacant', hidden: true }); // while there is no picture
    this.present = makePresent(this);
    this.lead = makeLead(this);
    this.keys = makeKeyDialog(root);
    this.layOut();
    this.visits = new Visits(this);
    this.stage.clock.addEventListener('answered', event => this.mark(event));
    this.glossary = makeGlossary(root);
    this.room.begin();
  }
  /** @returns {MenuEntry[]} */
  menu() {
    const { look } = this,
      { bar } = this.stage;
    /** @type {(label: string, title: string, onClick: () => any) => MenuEntry} */
    const size = (label, title, onClick) => ({ label, title, stays: true, onClick });
    return [
      {
        label: 'Present',
        title: 'Only picture, sentence and code, in large type (p)',
        front: true,
        onClick: () => this.presents(),
      },
      {
        label: 'Sequence',
        title: 'Talks: moments in an order, with notes, played by clicker',
        onClick: () => this.sequences.button.click(),
      },
      {
        label: 'Class',
        title: 'Lead a class, or follow one',
        onClick: () => this.lesson.opener.click(),
      },
      {
        label: () => (this.depth.deep ? 'Show less' : 'Show everything'),
        title: 'Guided: few controls and plain words. Everything: all controls (d)',
        onClick: () => this.depth.toggle(),
      },
      {
        label: 'Copy link',
        title: 'Copy a link to these choices and this step',
        stays: true,
        onClick: () => this.saving.copiesLink(),
      },
      {
        label: () => `Theme: ${look.theme}`,
        title: 'Like the system, light or dark (t)',
        stays: true,
        onClick: () => look.nextTheme(),
      },
      {
        label: () => `Type ${look.size} %`,
        row: [
          size('A\u2212', 'Smaller type (-)', () => look.smaller()),
          size('A', 'Type of the usual size (0)', () => look.usual()),
          size('A+', 'Larger type (+)', () => look.larger()),
        ],
      },
      {
        label: () => `Speed: ${bar.speed}`,
        row: [
          size('\u2212', 'Slower (s)', () => bar.actions.slower()),
          size('+', 'Faster (f)', () => bar.actions.faster()),
        ],
      },
      {
        label: 'Search',
        title: 'Pages, terms, kernels and settings (/)',
        onClick: () => this.search.toggle(),
      },
      { label: 'Keys', title: 'All keys (?)', onClick: () => this.keys.toggle() },
    ];
  }
  // The app's parts around those of the stage.
  layOut() {
    const { root, stage, header, lesson, sequences } = this,
      { paper } = this.saving,
      middle = stage.middle.node;
    stage.room.prepend(header.node, lesson.panel, lesson.line, this.toolbar.node, this.messages.node, paper.head);
    stage.bar.root.append(this.depth.opener);
    stage.bar.node.before(this.guide.opening);
    stage.bar.node.before(sequences.slide);
    stage.bar.node.after(this.present.node);
    this.present.node.lastChild.before(sequences.notes);
    stage.sub.append(header.idea, this.lead.node);
    middle.append(this.guide.node, this.below.node, this.vacant);
    middle.after(paper.foot);
    stage.room.append(this.start.node, sequences.bar, sequences.panel);
    root.classList.toggle('embedded', embedded);
    header.marks(progress());
  }

  // ---- what the parts ask of each other ----
  storyOf(/** @type {string} */ path) {
    return this.rail.find(story => story.path === path) ?? NO_STORY;
  }
  // Streamlit calls again when the theme changes, and so does our own switch.
  here() {
    this.repaint();
    this.visits.here();
  }
  // Another depth: other controls, and a pace to read at.
  deepened() {
    const { stage, depth, toolbar } = this;
    stage.bar.pace(depth.deep ? PACE.everything : PACE.guided);
    type.labels = depth.deep ? 1 : LABELS;
    stage.clock.tell('type');
    stage.clock.tell('probes');
    toolbar.redraw();
    this.address.write();
  }
  repaint() {
    const now = JSON.stringify(theme(this.root));
    if (this.painted && this.painted !== now) {
      if (this.stage.content) this.stage.redraw();
      else this.start.repaint();
    }
    this.painted = now;
  }
  /** @param {string} name @param {string} value */
  change(name, value) {
    this.byHand();
    this.address.write(); // the way back leads to this moment
    this.question.show({ set: [name, value] });
  }
  // To what the search has found. A setting is shown in the toolbar.
  /** @param {{link: string, set?: string}} place */
  async goTo({ link, set }) {
    const [path, query] = link.split('?'),
      { toolbar } = this;
    if (set && toolbar.has(set)) {
      if (!this.depth.deep) this.depth.toggle();
    } else await this.visits.leave(path, Object.fromEntries(new URLSearchParams(query)));
    if (set) toolbar.reveal(set);
  }
  // A page that asks by itself has been answered. event: with {done: [ids], all}
  /** @param {any} event */
  mark({ detail }) {
    if (!this.stop) return;
    keepAnswered({ ...answered(), [this.stop.name]: { seen: true, ...detail } });
    this.header.marks(progress());
  }
  presents() {
    return this.present.toggle();
  }
  // A follower of a class goes elsewhere.
  byHand() {
    this.news.dispatchEvent(new Event('hand'));
  }
  sayFrom(/** @type {story.Provenance | null} */ provenance) {
    this.header.provenance(provenance);
    this.present.provenance(provenance?.label ?? '');
  }
  // Another story: nothing of the one before stays in sight.
  vacate() {
    this.stage.clear();
    this.toolbar.node.inert = true;
    this.lead.show();
    this.header.headline('');
    this.toolbar.about();
    this.sayFrom(null);
    this.messages.clear();
    this.vacant.hidden = false;
    delete this.root.dataset.shown;
    this.root.classList.remove('stale');
  }
  unmount() {
    for (const part of [
      this.visits,
      this.guide,
      this.below,
      this.glossary,
      this.covering,
      this.frame,
      this.keys,
      this.search,
      this.saving.paper,
      this.present,
      this.start,
      this.toolbar,
      this.sequences,
      this.lesson,
      this.room,
      this.header,
      this.stage,
    ])
      part.unmount();
  }
}
