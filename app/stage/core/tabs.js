// The tabs under the picture, and the drawer with the open one. A tab that the bundle leaves out is
// made when it is opened; if it is made for a step, it is made anew where the reader rests.
import { showBlocks } from './blocks.js';
import { button, element } from './paint.js';

export const DEEP_TABS = new Set(['builds', 'data']); // those that Guided leaves out

export class Tabs {
  node = element('div', { class: 'tabs' });
  drawer = element('div', { class: 'drawer', hidden: true, role: 'region', tabindex: '0' });
  opened = 0; // how many tabs were opened: only the last one may draw
  madeAt = 0; // the step of the clock then
  /** @type {(() => void) | null} */ end = null;

  /** @param {Stage} stage */
  constructor(stage) {
    this.stage = stage;
  }

  draw() {
    const { tabs } = this.stage.content,
      { tab } = this.stage;
    const first = tabs.find(({ id }) => !DEEP_TABS.has(id));
    const few = button('Details', () => this.open(tab || (first?.id ?? '')), {
      class: 'few', // the open tab hides it, and shows the titles (depth.css)
      hidden: !first,
    });
    this.node.replaceChildren(
      few,
      ...tabs.map(({ id, title }) =>
        button(title, () => this.open(id === this.stage.tab ? '' : id), {
          'aria-expanded': String(id === tab),
          'data-tab': id,
          class: DEEP_TABS.has(id) ? 'deep' : null,
        }),
      ),
    );
    this.node.hidden = !tabs.length;
    this.open(tabs.some(({ id }) => id === tab) ? tab : '');
  }
  /** @param {string} id */
  async open(id) {
    const nth = ++this.opened,
      { stage } = this;
    this.close();
    this.madeAt = stage.clock.step;
    stage.tab = id;
    for (const chip of this.node.children) chip.setAttribute('aria-expanded', String(chip.dataset.tab === id));
    stage.moved();
    if (!id) return;
    this.node.classList.add('unfolded');
    const tab = stage.content.tabs.find(tab => tab.id === id);
    this.drawer.hidden = false;
    this.drawer.setAttribute('aria-label', tab?.title);
    stage.room.classList.add('with-drawer');
    const current = () => nth === this.opened;
    const blocks = tab?.blocks ?? (await this.make(id, current));
    if (!blocks || !current()) return;
    this.end = showBlocks(this.drawer, blocks, stage.context());
    stage.el.dataset.tab = id;
    this.drawer.scrollIntoView({ block: 'nearest' });
  }
  /** @param {string} id @param {() => boolean} current @returns {Promise<any>} */
  async make(id, current) {
    this.drawer.replaceChildren(element('p', { role: 'status' }, 'Being made ...'));
    try {
      const bundle = await this.stage.host.part(id, current);
      return bundle && current() ? await this.stage.load(bundle) : null;
    } catch (error) {
      const note = element('p', { class: 'note bad', role: 'alert' }, error.message);
      if (current()) this.drawer.replaceChildren(note);
      return null;
    }
  }
  // The clock has come to rest.
  rested() {
    const { content, tab, clock } = this.stage;
    if (!tab || !content?.step_choice || this.madeAt === clock.step) return;
    if (!content.tabs.find(({ id }) => id === tab)?.blocks) this.open(tab);
  }
  close() {
    this.end?.();
    this.end = null;
    this.drawer.hidden = true;
    this.drawer.replaceChildren();
    this.stage.room.classList.remove('with-drawer');
  }
  clear() {
    this.opened++;
    this.close();
    this.node.replaceChildren();
  }
}
