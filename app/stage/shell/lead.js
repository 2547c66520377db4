// What stands under the summary, each block in a line: asked for when the picture is there, so that
// it delays nothing.
import { showBlocks } from '../core/blocks.js';
import { askUntilDone } from './fetching.js';
import { element } from '../core/paint.js';

// show: a part of the story, or nothing where `part` is empty.
/** @param {App} app */
export function makeLead({ stage, base }) {
  const node = element('div', { class: 'lead', hidden: true, role: 'group', 'aria-label': 'Why' });
  let turn = 0;
  /** @type {(() => void) | null} */ let end = null;
  /** @param {{path?: string, part?: string, params?: Texts}} [wanted] */
  async function show({ path = '', part, params = {} } = {}) {
    const mine = ++turn,
      current = () => mine === turn;
    end?.();
    end = null;
    node.hidden = true;
    node.replaceChildren();
    node.ariaBusy = String(!!part);
    if (!part) return;
    /** @type {any[]} */ let blocks = [];
    try {
      const { error, bundle } = await askUntilDone(base, { path, params, part }, () => {}, current);
      if (current()) blocks = error ? [{ kind: 'text', text: error }] : await stage.load(bundle ?? '');
    } catch (error) {
      blocks = [{ kind: 'text', text: error.message }];
    }
    if (!current()) return;
    node.ariaBusy = 'false';
    node.hidden = false;
    end = showBlocks(node, blocks, stage.context());
  }
  return { node, show };
}
