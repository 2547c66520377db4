// Words that the glossary knows, in whatever text stands still: a dotted underline, and what the
// word means on hover and focus. Nothing is done while steps pass: texts are looked through once
// the page has rested.
import { TERMS } from '../core/data.js';
import { element, listen } from '../core/paint.js';

const RESTED = 300; // ms without a change
const TEXTS =
  '.narration .sentence, .guide p, .legend > span, figcaption, .note, .drawer > p, .said ' +
  '> p, .idea, .start p, .start li';
// a term is a stop of the keyboard: not within another
const NEVER = 'button, a, label, select, code, [role=img], .term';
// Words that are also everyday ones: not after these; a line of 128 bytes only where lines are
// counted.
/** @type {Record<string, RegExp>} */
const NOT_AFTER = {
  line: /(^|[^\d\s])\s*$/,
  page: /(this|web|every|the) $/i,
  pass: /(to|bars|one|second) $/i,
};

/** @type {Record<string, string>} */
const PLURAL = { s: 's?', h: '(?:es)?', y: 'y?' };
const forms = Object.keys(TERMS).sort((a, b) => b.length - a.length);
const escaped = (/** @type {string} */ text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
const ANY = new RegExp(
  `(?<![\\w-])(${forms.map(term => escaped(term) + (PLURAL[term.slice(-1)] ?? 's?')).join('|')})(?![\\w-])`,
  'gi',
);

/** @param {HTMLElement} root */
export function makeGlossary(root) {
  const tip = element('div', { class: 'meaning', role: 'tooltip', id: 'wg-meaning', hidden: true });
  root.append(tip);
  /** @type {any} */ let shown = null;
  let timer = 0,
    ours = false;

  const show = (/** @type {any} */ term) => {
    if (shown === term) return;
    shown?.removeAttribute('aria-describedby');
    shown = term;
    tip.hidden = !term;
    if (!term) return;
    tip.replaceChildren(element('b', {}, term.dataset.term), ` ${TERMS[term.dataset.term].said}`);
    term.setAttribute('aria-describedby', tip.id);
    const box = term.getBoundingClientRect();
    tip.style.left = `${Math.max(6, Math.min(box.left, innerWidth - tip.offsetWidth - 6))}px`;
    const above = box.top - tip.offsetHeight - 4;
    tip.style.top = `${box.bottom + tip.offsetHeight + 6 < innerHeight ? box.bottom + 4 : Math.max(4, above)}px`;
  };
  const termAt = (/** @type {any} */ { target }) => target.closest?.('.term') ?? null;
  // Not where a text moves under a pointer at rest: the tip would be over an answer.
  let rests = '';
  const placeOf = (/** @type {any} */ { clientX, clientY }) => `${clientX} ${clientY}`;
  root.addEventListener('pointerover', event => {
    if (placeOf(event) !== rests) show(termAt(event));
  });
  for (const type of ['pointermove', 'pointerdown']) root.addEventListener(type, event => (rests = placeOf(event)));
  root.addEventListener('focusin', event => show(termAt(event)));
  root.addEventListener('focusout', event => {
    if (termAt(event)) show(null);
  });
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== 'Escape' || !shown) return;
    show(null);
    event.preventDefault();
  };
  const deafen = listen(document, 'keydown', onKey, true);

  const look = () => {
    ours = true;
    for (const text of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll(TEXTS)))
      if (text.offsetParent && !text.querySelector('.term')) mark(text);
    observer.takeRecords();
    ours = false;
    if (shown && !shown.isConnected) show(null);
  };
  const observer = new MutationObserver(() => {
    if (ours) return;
    if (shown && !shown.isConnected) show(null);
    clearTimeout(timer);
    timer = setTimeout(look, RESTED);
  });
  observer.observe(root, { childList: true, characterData: true, subtree: true });
  timer = setTimeout(look, RESTED);

  return {
    unmount() {
      observer.disconnect();
      clearTimeout(timer);
      deafen();
    },
  };
}

// Marks the first place of each term in a text. A region that is read aloud is not read aloud for
// it again.
/** @param {HTMLElement} host */
function mark(host) {
  const live = host.closest('[aria-live], [role=alert], [role=status]'),
    seen = new Set();
  const found = textsIn(host)
    .filter(text => !text.parentElement?.closest(NEVER))
    .map(text => ({ text, parts: pieces(text.data, seen) }))
    .filter(({ parts }) => parts.length > 1);
  if (!found.length) return;
  const was = live?.getAttribute('aria-live'); // off: by another text of the same region
  const quiet = was !== 'off';
  if (quiet) live?.setAttribute('aria-live', 'off');
  for (const { text, parts } of found) text.replaceWith(...parts);
  if (quiet)
    setTimeout(() => {
      if (typeof was === 'string') live?.setAttribute('aria-live', was);
      else live?.removeAttribute('aria-live');
    }, 100);
}

/** @param {Node} place @returns {Text[]} */
export function textsIn(place) {
  const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
  /** @type {any[]} */ const found = [];
  while (walker.nextNode()) found.push(walker.currentNode);
  return found;
}

/** @param {string} text @param {Set<string>} seen */
function pieces(text, seen) {
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(ANY)) {
    const term = forms.find(one => new RegExp(`^${escaped(one)}(s|es)?$`, 'i').test(match[0])),
      before = text.slice(Math.max(0, match.index - 12), match.index);
    if (!term || seen.has(term) || NOT_AFTER[term]?.test(before)) continue;
    seen.add(term);
    parts.push(
      text.slice(from, match.index),
      element('span', { class: 'term', tabindex: '0', 'data-term': term }, match[0]),
    );
    from = match.index + match[0].length;
  }
  return [...parts, text.slice(from)];
}
