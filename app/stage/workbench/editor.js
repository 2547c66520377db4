// The editor: CodeMirror with CUDA, and messages at their lines.
import {
  autocompletion,
  bracketMatching,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
  defaultKeymap,
  drawSelection,
  EditorState,
  EditorView,
  foldGutter,
  foldKeymap,
  gutterLineClass,
  GutterMarker,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSelectionMatches,
  history,
  historyKeymap,
  indentOnInput,
  indentWithTab,
  keymap,
  lineNumbers,
  lintGutter,
  lintKeymap,
  nextDiagnostic,
  RangeSet,
  searchKeymap,
  setDiagnostics,
} from '../vendor/codemirror.mjs';
import { cuda } from './language.js';
import { markedLines, toggled } from './marks.js';

const WATCHED = new (class extends GutterMarker {
  elementClass = 'watched-line';
})();
const watchedLines = gutterLineClass.compute(['doc'], ({ doc }) =>
  RangeSet.of(
    [...markedLines(doc.toString())].map(line => WATCHED.range(doc.line(line).from)),
    true,
  ),
);

/**
 * A message as the server sends it. Column 0 stands for the whole line.
 * @typedef {{line: number, column: number, severity: 'error' | 'warning' | 'info', source: string,
 *   message: string}} Message
 */

/**
 * @param {object} given
 * @param {HTMLElement} given.parent
 * @param {string} given.text
 * @param {(text: string) => void} given.changed hears of every edit of the reader
 * @param {() => void} given.check the reader asks for the whole check
 * @param {(said: string) => void} given.watched hears what a press on a line's number did
 */
export function makeEditor({ parent, text, changed, check, watched }) {
  // Marks the line at a place of the text, or takes its mark away.
  function watch(view, at) {
    const { doc } = view.state,
      { changes, said } = toggled(doc.toString(), doc.lineAt(at).number);
    if (changes) view.dispatch({ changes });
    watched(said);
    return true;
  }
  const own = keymap.of([
    { key: 'Mod-Enter', run: () => (check(), true) },
    { key: 'F8', run: nextDiagnostic },
    { key: 'F9', run: view => watch(view, view.state.selection.main.head) },
  ]);
  const stateOf = doc =>
    EditorState.create({
      doc,
      extensions: [
        own,
        lintGutter(),
        lineNumbers({
          domEventHandlers: {
            mousedown: (view, { from }, event) => /** @type {MouseEvent} */ (event).button === 0 && watch(view, from),
          },
        }),
        watchedLines,
        highlightActiveLineGutter(),
        foldGutter(),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        closeBrackets(),
        autocompletion(),
        highlightActiveLine(),
        highlightSelectionMatches(),
        cuda,
        keymap.of([
          ...closeBracketsKeymap,
          ...defaultKeymap,
          ...searchKeymap,
          ...historyKeymap,
          ...foldKeymap,
          ...completionKeymap,
          ...lintKeymap,
          indentWithTab, // Escape, then Tab, leaves
        ]),
        EditorView.contentAttributes.of({
          'aria-label': 'Kernel',
          spellcheck: 'false',
          tabindex: '0',
        }),
        EditorView.updateListener.of(update => {
          if (update.docChanged) changed(update.state.doc.toString());
        }),
      ],
    });
  const view = new EditorView({ state: stateOf(text), parent });
  view.contentDOM.setAttribute('data-editor', '');
  return {
    view,
    get text() {
      return view.state.doc.toString();
    },
    // Another text in place of this one, with its own undo history, at its first place to write.
    open(other) {
      view.setState(stateOf(other));
      const at = other.indexOf('// TODO');
      if (at < 0) return;
      const effects = EditorView.scrollIntoView(at, { y: 'center' });
      view.dispatch({ selection: { anchor: at }, effects });
    },
    // Another text as one edit, which the reader can undo.
    change(other) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: other } });
      view.focus();
    },
    /** @param {Message[]} messages */
    mark(messages) {
      view.dispatch(
        setDiagnostics(
          view.state,
          messages.map(one => placed(view.state, one)),
        ),
      );
    },
    // The caret goes to a line.
    goTo(line) {
      const { from } = lineOf(view.state, line);
      view.dispatch({
        selection: { anchor: from },
        effects: EditorView.scrollIntoView(from, { y: 'center' }),
      });
      view.focus();
    },
    next: () => nextDiagnostic(view),
    unmount: () => view.destroy(),
  };
}

const lineOf = ({ doc }, line) => doc.line(Math.max(1, Math.min(doc.lines, line)));

// A message as the editor marks it: from its column to the end of the word, or the text of the line.
function placed(state, { line, column, severity, source, message }) {
  const { from, to, text } = lineOf(state, line),
    start = Math.min(text.length, column ? column - 1 : text.search(/\S|$/)),
    word = column ? (/^\w+/.exec(text.slice(start))?.[0].length ?? 1) : text.length;
  return {
    from: from + start,
    to: Math.min(to, from + start + word),
    severity,
    source,
    message,
  };
}
