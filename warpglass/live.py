"""Live: a story as a widget of anywidget, which is an extra. Python sets its step, and reads what the reader pins."""

import anywidget
import traitlets

# The frame is the one of Story, without rights. It and the widget send each other messages (app/web/one_file.py).
SCRIPT = """
export default {
  render({ model, el }) {
    const frame = document.createElement('iframe');
    frame.title = 'Warpglass';
    frame.sandbox = 'allow-scripts';
    frame.srcdoc = model.get('html');
    frame.style = 'width: 100%; height: 720px; border: 1px solid #8886';
    let told = 0; // the step that the frame has told last
    const send = () => {
      if (model.get('step') !== told) frame.contentWindow?.postMessage({ step: model.get('step') }, '*');
    };
    const hear = ({ source, data }) => {
      if (source !== frame.contentWindow || typeof data?.warpglass !== 'string') return;
      const { step, pinned } = JSON.parse(data.warpglass), first = !told;
      told = step ?? told;
      if (first) return send(); // the page shows its own first step
      if (step) model.set('step', step);
      if (pinned) model.set('pinned', pinned);
      model.save_changes();
    };
    addEventListener('message', hear);
    model.on('change:step', send);
    el.append(frame);
    return () => {
      removeEventListener('message', hear);
      model.off('change:step', send);
    };
  },
};
"""


class Live(anywidget.AnyWidget):
    """A story that steps in a notebook with a kernel.

    html: the page, as one file.
    step: from 1. Python and the reader both set it.
    pinned: what the reader has clicked in a picture, or empty: title of the picture, thing with its coordinates.
    """

    _esm = SCRIPT
    html = traitlets.Unicode().tag(sync=True)
    step = traitlets.Int(1, min=1).tag(sync=True)
    pinned = traitlets.Dict().tag(sync=True)
