// What this browser remembers. A browser may forbid to name a storage even: then nothing is kept.

/** @param {'localStorage' | 'sessionStorage'} name for good, or while the tab lives */
function storage(name) {
  const read = (/** @type {string} */ key) => {
    try {
      return window[name].getItem(key);
    } catch {
      return null;
    }
  };
  /** @type {(key: string, text: string | null) => void} */
  const write = (key, text) => {
    try {
      if (text === null) window[name].removeItem(key);
      else window[name].setItem(key, text);
    } catch {
      /* it lasts until the page is left */
    }
  };
  return {
    read,
    write,
    // The value of a key, or null if there is none that can be read.
    /** @param {string} key @returns {any} */
    readJson(key) {
      try {
        return JSON.parse(read(key) ?? 'null');
      } catch {
        return null;
      }
    },
    /** @type {(key: string, value: any) => void} */
    writeJson: (key, value) => write(key, value === null ? null : JSON.stringify(value)),
  };
}

export const browser = storage('localStorage');
export const tab = storage('sessionStorage');
