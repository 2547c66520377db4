// The page around the stage, as the stage sees it. Streamlit's page, a notebook or a file is a host.

/**
 * The moment that is shown.
 * @typedef {object} State
 * @property {string} [bundle]  name of the bundle
 * @property {number} [step]    from 0
 * @property {string} [picture] id of the picture
 * @property {string} [tab]     id of the open tab, or ''
 */

/**
 * A key's row in the list of keys. press: the browser's name of the key -> the name of an action.
 * @typedef {{keys: string, does: string, press: Record<string, string>}} KeyRow
 */

/**
 * Keys of the host next to those of the stage.
 * @typedef {object} HostKeys
 * @property {KeyRow[]} [rows]
 * @property {Record<string, (event: KeyboardEvent) => any>} [actions] by name; an action that
 *   returns false leaves the key to the browser
 * @property {() => boolean} [clicking] whether Page Up and Page Down are a clicker's
 * @property {(name: string) => boolean} [blocked] whether this action has to wait, as behind a dialog
 */

/**
 * Only `bundle`, `state` and `onState` are needed. The others are what an app can do and a file
 * cannot.
 * @typedef {object} Host
 * @property {(name: string) => Promise<ArrayBuffer>} bundle the bytes of a bundle
 * @property {State} state    the first moment
 * @property {(state: State) => void} onState hears of every move of the reader
 * @property {HostKeys} [keys]
 * @property {(tab: string, current: () => boolean) => Promise<string | null>} [part] makes a tab
 *   that the bundle leaves out: the name of its bundle, or null if it is no longer wanted
 * @property {(name: string, value: string) => void} [change] another value of a choice
 * @property {(name: string, value: string) => void} [turnTo] the same with all
 *   other choices as they are, and with a way back to this moment
 * @property {(story: string, query?: Record<string, string>) => void} [open] goes to a story
 * @property {() => string} [story] the name of the story that is shown, as `open` takes it
 * @property {(code: any) => (() => void) | null} [sourceOf] what opens the machine code of a pane
 * @property {() => void} [again] asks for this moment anew
 * @property {(path: string) => string} [href] the address of a file to take along
 * @property {(path: string, options?: RequestInit) => Promise<Response>} [request] asks the app
 * @property {() => Promise<any>} [charts] vega-embed
 * @property {(name: string) => string | null} [kept] a value that the page remembers
 * @property {(name: string, value: string) => void} [keep] remembers it
 * @property {(name: string) => string | null} [keptInTab] a value that this tab remembers while it lives
 * @property {(name: string, value: string) => void} [keepInTab] remembers it
 */

const absent = (/** @type {string} */ what) => Promise.reject(new Error(`This page cannot ${what}.`));

/**
 * @param {Host} host
 * @returns {Required<Host>} with a default for everything that the host leaves out
 */
export function complete(host) {
  const remembered = new Map();
  const change = host.change ?? (() => {});
  return {
    keys: {},
    part: () => absent('make this tab'),
    change,
    turnTo: change,
    open() {},
    story: () => '',
    sourceOf: () => null,
    again() {},
    href: path => path,
    request: () => absent('ask the app'),
    charts: () => absent('draw charts'),
    kept: name => remembered.get(name) ?? null,
    keep: (name, value) => remembered.set(name, value),
    keptInTab: name => remembered.get(name) ?? null,
    keepInTab: (name, value) => remembered.set(name, value),
    ...host,
  };
}
