// The words that answer an open question, as "?" wherever the page shows them. A sentence with such
// a word is hidden whole. What a part writes meanwhile is covered before the browser paints it.
// Who has stepped past the question reads on.
import { hiding } from '../core/covers.js';
import { textsIn } from './glossary.js';

const STEP = '.narration > [role=status], .clock .title, .clock input'; // what a step says
const REST = '.strip, .sub, .tabs, .drawer, .pane.side, .picture';
const SENTENCES = '.narration .said-short, .narration .sentence, .clock .title, .sub .summary, .strip .name';
const ATTRIBUTES = ['title', 'aria-label', 'aria-valuetext'];
const MOST = 2000; // remembered texts

export class Covering {
  /** @type {(text: string) => string} */ hide = text => text;
  texts = new Map(); // text node -> [its text, the covered one]
  names = new Map(); // element -> {attribute: [its text, the covered one]}
  said = new Map(); // covered text -> the text, for nodes that the glossary has split
  /** @type {readonly string[]} */ words = [];
  where = '';

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.observer = new MutationObserver(records => this.changed(records));
  }

  // words: [] uncovers all; past: the steps say what they say.
  /** @param {readonly string[]} words */
  cover(words, past = false) {
    const where = past ? REST : `${STEP}, ${REST}`;
    if (words === this.words && where === this.where) return;
    this.uncover();
    [this.words, this.where] = [words, where];
    this.hide = hiding(words);
    if (!words.length) return;
    for (const place of this.whole()) this.visit(place);
    this.hideSentences();
    this.observer.observe(this.root, {
      subtree: true,
      childList: true,
      characterData: true,
      attributeFilter: ATTRIBUTES,
    });
  }
  unmount() {
    this.observer.disconnect();
  }
  uncover() {
    this.observer.disconnect();
    for (const [node, [text, covered]] of this.texts) if (node.data === covered) node.data = text;
    if (this.said.size)
      for (const node of this.whole().flatMap(textsIn))
        if (this.said.has(node.data)) node.data = this.said.get(node.data);
    for (const [node, found] of this.names)
      for (const [name, [text, covered]] of Object.entries(found))
        if (node.getAttribute(name) === covered) node.setAttribute(name, text);
    this.texts.clear();
    this.said.clear();
    this.names.clear();
    this.hideSentences();
  }

  // The places with covered texts, without the glossary's marks: a word is in one text node.
  whole() {
    const places = [...this.root.querySelectorAll(this.where)];
    for (const place of places) {
      for (const term of place.querySelectorAll('.term')) term.replaceWith(term.textContent);
      place.normalize();
    }
    return places;
  }

  /** @param {MutationRecord[]} records */
  changed(records) {
    for (const { type, target, attributeName } of /** @type {any[]} */ (records)) {
      const node = target.nodeType === Node.TEXT_NODE ? target.parentElement : target;
      if (!node?.closest(this.where)) continue;
      if (type === 'attributes') this.name(target, attributeName);
      else this.visit(target);
    }
    this.hideSentences();
    if (this.texts.size > MOST) for (const node of this.texts.keys()) if (!node.isConnected) this.texts.delete(node);
  }
  // A sentence with a "?" in it reads as a broken one (stage.css).
  hideSentences() {
    for (const place of this.root.querySelectorAll(SENTENCES)) {
      const texts = [place.textContent, ...textsIn(place).map(node => node.data)],
        asked = texts.some(text => this.said.has(text)); // the glossary may have split it
      place.toggleAttribute('data-asked', asked);
    }
  }
  /** @param {any} node a text or an element */
  visit(node) {
    if (node.nodeType === Node.TEXT_NODE) {
      const covered = this.hide(node.data);
      if (covered === node.data) return;
      this.texts.set(node, [node.data, covered]);
      this.said.set(covered, node.data);
      node.data = covered;
      return;
    }
    for (const name of ATTRIBUTES) this.name(node, name);
    for (const child of node.childNodes)
      if ([Node.TEXT_NODE, Node.ELEMENT_NODE].includes(child.nodeType)) this.visit(child);
  }
  /** @param {Element} node @param {string} name */
  name(node, name) {
    const text = node.getAttribute(name),
      covered = text && this.hide(text);
    if (!covered || covered === text) return;
    this.names.set(node, { ...this.names.get(node), [name]: [text, covered] });
    node.setAttribute(name, covered);
  }
}
