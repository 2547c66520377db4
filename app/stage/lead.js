// What stands under the summary, each block in a line: asked for when the picture is there, so that
// it delays nothing.
import { showBlocks } from './blocks.js';
import { askUntilDone, load } from './bundles.js';
import { element } from './paint.js';

// Returns {node, show}. show({path, part, params, context}): a part of the story, or nothing where
// `part` is empty.
export function makeLead(base) {
  const node = element('div', { class: 'lead', hidden: true, role: 'group', 'aria-label': 'Why' });
  let turn = 0,
    end = null;
  async function show({ path, part, params, context } = {}) {
    const mine = ++turn,
      current = () => mine === turn;
    end?.();
    end = null;
    node.hidden = !part;
    node.replaceChildren(
      ...(part ? [element('p', { role: 'status' }, 'Why: being made ...')] : []),
    );
    if (!part) return;
    let blocks;
    try {
      const said = await askUntilDone(base, { path, params, part }, () => {}, current);
      if (current())
        blocks = said.error ? [{ kind: 'text', text: said.error }] : await load(base, said.bundle);
    } catch (error) {
      blocks = [{ kind: 'text', text: error.message }];
    }
    if (current()) end = showBlocks(node, blocks, base, context);
  }
  return { node, show };
}
