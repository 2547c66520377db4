// What this browser remembers. A browser may forbid to name a storage even: then nothing is kept.

/** @param {'localStorage' | 'sessionStorage'} name for good, or while the tab lives */
function storage(name) {
  const read = key => {
    try {
      return window[name].getItem(key);
    } catch {
      return null;
    }
  };
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
    readJson(key) {
      try {
        return JSON.parse(read(key));
      } catch {
        return null;
      }
    },
    writeJson: (key, value) => write(key, value === null ? null : JSON.stringify(value)),
  };
}

export const browser = storage('localStorage');
export const tab = storage('sessionStorage');
