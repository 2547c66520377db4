// The workbench, whose module with the editor is fetched only here.
import * as paint from '../core/paint.js';

export default function (host, { meta }, context) {
  let made = null,
    left = false;
  import('../workbench.js').then(
    module => {
      if (!left) made = module.default(host, meta, context, paint);
    },
    error => host.replaceChildren(paint.element('p', {}, `The editor is missing. ${error.message}`)),
  );
  return {
    unmount() {
      left = true;
      made?.unmount();
    },
  };
}
