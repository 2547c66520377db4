// How the page looks to who reads it: the theme and the size of type, kept in this browser. Both
// hold for everything: text, code, canvases and charts.
import { hub } from './hub.js';
import { type } from './paint.js';

const THEMES = { system: 'as the system', light: 'light', dark: 'dark' },
  SIZES = [100, 125, 150, 200]; // per cent
const THEME = 'warpglass-theme',
  SIZE = 'warpglass-type'; // in localStorage
const PRESENTED = 1.5,
  MOST = 2; // presented, type is larger by this; and never more than so many times the usual
const LARGE = 1.5; // from here on the bars give way to the picture (look.css)

const read = key => {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
};
const write = (key, value) => {
  try {
    localStorage.setItem(key, value);
  } catch {
    /* no storage: it holds until the page is left */
  }
};

// root: the stage; repaint(): what is painted in the colours of before is painted anew.
export function makeLook(root, repaint) {
  let theme = read(THEME) in THEMES ? read(THEME) : 'system',
    size = SIZES.includes(Number(read(SIZE))) ? Number(read(SIZE)) : 100,
    presenting = false;

  const dress = () => {
    if (theme === 'system') delete root.dataset.theme;
    else root.dataset.theme = theme;
    type.scale = presenting
      ? Math.max(size / 100, Math.min(MOST, (PRESENTED * size) / 100))
      : size / 100;
    root.style.setProperty('--scale', type.scale);
    root.classList.toggle('large', type.scale >= LARGE && !presenting);
    hub.dispatchEvent(new CustomEvent('type'));
  };
  const resize = by => {
    size = by ? SIZES[Math.max(0, Math.min(SIZES.length - 1, SIZES.indexOf(size) + by))] : 100;
    write(SIZE, size);
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
      write(THEME, theme);
      dress();
      repaint();
    },
    larger: () => resize(1),
    smaller: () => resize(-1),
    usual: () => resize(0),
    present(yes) {
      presenting = yes;
      dress();
    },
  };
}
