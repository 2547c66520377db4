// The middle of the stage: pictures with their code, and the strip of state between them.
import { showBlocks } from './blocks.js';
import { codeView } from './code.js';
import { makeDivider } from './divider.js';
import { linesOf, ownClock } from './moments.js';
import { button, element, unfetched } from './paint.js';
import { stripView } from './strip.js';
import { viewOf } from './views.js';

/** @type {(name: string, label: string, more?: object) => any} */
const group = (name, label, more) => element('div', { class: name, role: 'group', 'aria-label': label, ...more });

export class Middle {
  chips = group('pictures', 'Pictures');
  sides = group('sides', 'Which side is shown');
  verdict = element('p', { class: 'summary', hidden: true });
  picture = element('div', { class: 'picture' });
  strip = group('strip', 'State', { tabindex: '0' });
  codes = element('div', { class: 'codes' });
  node = element('div', { class: 'main' });
  /** @type {(() => void)[]} */ ends = [];

  /** @param {Stage} stage */
  constructor(stage) {
    this.stage = stage;
    this.divider = makeDivider(this.node, this.picture, this.codes, stage.host);
    this.node.append(this.picture, this.strip, this.divider.node, this.codes);
  }

  // Draws the stage's content with its picture.
  draw() {
    const { content, picture } = this.stage,
      { codes, side, summary } = content;
    const views = content.views.filter(view => view.id === picture),
      two = views.length > 1 || codes.length > 1;
    this.end();
    this.drawChips();
    this.node.classList.toggle('two', two);
    this.divider.turn();
    this.sides.hidden = !two;
    this.showSide(this.node.classList.contains('only-b') ? 1 : 0);
    if (views.length < 2 && codes.length > 1) this.followSide(codes);
    this.verdict.hidden = !(summary && content.frames.length); // without frames it is the sentence
    this.verdict.className = `summary ${content.tone}`;
    this.node.classList.toggle('no-code', !codes.length && !side.length);
    this.picture.replaceChildren(...views.map(view => this.drawView(view)));
    this.codes.replaceChildren(...codes.map(code => this.drawCode(code)));
    if (!codes.length && side.length) {
      const host = element('div', { class: 'pane side' });
      this.codes.replaceChildren(host);
      this.ends.push(showBlocks(host, side, this.stage.context()));
    }
    const { state } = ownClock(content, picture) ?? content;
    this.strip.hidden = !state.length;
    this.ends.push(stripView(this.strip, this.stage.clock, state).unmount);
    this.drawSummary();
  }
  // The summary of the stage, or a step's own one.
  drawSummary() {
    const { content, frames, clock } = this.stage;
    const draw = (/** @type {number} */ step) => {
      const text = frames[step]?.summary ?? content.summary;
      if (text !== this.verdict.title) this.verdict.textContent = this.verdict.title = text;
    };
    this.verdict.title = '';
    this.ends.push(clock.follow(draw));
    draw(clock.step);
  }
  drawChips() {
    const { picture, content } = this.stage,
      pictures = content.pictures ?? [];
    this.chips.hidden = pictures.length < 2;
    if (this.chips.hidden) return this.chips.replaceChildren();
    // Where there is room for few controls (shell/depth.css).
    const list = element('select', { class: 'few', 'aria-label': 'Picture' });
    list.onchange = () => {
      this.stage.choosePicture(list.value);
      this.chips.querySelector('select').focus();
    };
    const chips = pictures.map(({ id, title }, n) => {
      list.append(element('option', { value: id, selected: id === picture }, title));
      return button(title, () => this.stage.choosePicture(id), {
        class: 'chip',
        'aria-pressed': String(id === picture),
        title: `Picture ${n + 1} (key ${n + 1})`,
      });
    });
    this.chips.replaceChildren(list, ...chips);
  }
  // A narrow window shows one side of two.
  /** @param {number} side */
  showSide(side) {
    const chips = ['A', 'B'].map((name, n) =>
      button(name, () => this.showSide(n), { class: 'chip', 'aria-pressed': String(n === side) }),
    );
    this.node.classList.toggle('only-b', side === 1);
    this.sides.replaceChildren(...chips);
  }
  // One picture for both sides: a narrow window shows the code that has lines in the step.
  /** @param {story.Code[]} codes */
  followSide(codes) {
    const { frames, clock } = this.stage;
    const follow = (/** @type {number} */ step) => {
      const [a, b] = codes.map(({ lit }) => Object.keys(linesOf(frames[step], lit)).length > 0),
        shown = this.node.classList.contains('only-b');
      if (a !== b && b !== shown) this.showSide(b ? 1 : 0);
    };
    this.ends.push(clock.follow(follow));
  }
  /** @param {story.View} view */
  drawView(view) {
    const host = element('div', {
      class: 'view',
      'data-view': view.kind,
      'data-side': view.side,
    });
    viewOf(view.kind).then(module => {
      if (!host.isConnected) return;
      const made = module.default(host, view, this.stage.context());
      this.ends.push(() => made.unmount());
    }, unfetched(host));
    return host;
  }
  /** @param {story.Code} code */
  drawCode(code) {
    const { frames, host: page } = this.stage;
    const host = element('div', { class: 'pane', 'data-side': code.side });
    queueMicrotask(() => {
      if (!host.isConnected) return;
      const open = page.sourceOf(code);
      this.ends.push(codeView(host, code, frames, this.stage.context(), open).unmount);
    });
    return host;
  }

  end() {
    this.ends.forEach(end => end());
    this.ends = [];
  }
  clear() {
    this.end();
    for (const part of [this.picture, this.codes, this.strip, this.chips, this.sides]) part.replaceChildren();
    this.verdict.hidden = true;
  }
  unmount() {
    this.end();
    this.divider.unmount();
  }
}
