// How the page looks to who reads it: the theme and the size of type, kept in this browser. Both
// hold for everything: text, code, canvases and charts.
import { type } from '../core/paint.js';
import { browser } from './storage.js';

/** @type {Texts} */
const THEMES = { system: 'as the system', light: 'light', dark: 'dark' },
  SIZES = [100, 125, 150, 200]; // per cent
const THEME = 'warpglass-theme',
  SIZE = 'warpglass-type'; // in localStorage
const PRESENTED = 1.5,
  MOST = 2; // presented, type is larger by this; and never more than so many times the usual
const LARGE = 1.5; // from here on the bars give way to the picture (look.css)

// root: the stage; repaint: what is painted in the colours of before is painted anew.
/** @param {HTMLElement} root @param {Clock} clock @param {() => void} repaint */
export function makeLook(root, clock, repaint) {
  let theme = browser.read(THEME) ?? '',
    size = Number(browser.read(SIZE)),
    presenting = false;
  if (!(theme in THEMES)) theme = 'system';
  if (!SIZES.includes(size)) size = 100;

  const dress = () => {
    if (theme === 'system') delete root.dataset.theme;
    else root.dataset.theme = theme;
    type.scale = presenting ? Math.max(size / 100, Math.min(MOST, (PRESENTED * size) / 100)) : size / 100;
    root.style.setProperty('--scale', String(type.scale));
    root.classList.toggle('large', type.scale >= LARGE && !presenting);
    clock.tell('type');
  };
  const resize = (/** @type {number} */ by) => {
    size = by ? SIZES[Math.max(0, Math.min(SIZES.length - 1, SIZES.indexOf(size) + by))] : 100;
    browser.write(SIZE, String(size));
    dress();
  };
  dress();
  return {
    get theme() {
      return THEMES[theme];
    },
    get size() {
      return size;
    },
    nextTheme() {
      const now = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light',
        other = now === 'dark' ? 'light' : 'dark';
      theme = { system: other, [other]: now, [now]: 'system' }[theme]; // the first press is seen
      browser.write(THEME, theme);
      dress();
      repaint();
    },
    larger: () => resize(1),
    smaller: () => resize(-1),
    usual: () => resize(0),
    present(/** @type {boolean} */ yes) {
      presenting = yes;
      dress();
    },
  };
}
