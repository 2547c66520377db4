// The messages in a list under the editor. A press goes to the line.
const WORDS = { error: 'Error', warning: 'Warning', info: 'Note' };

/**
 * @param {{element: any, button: any}} tools
 * @param {(line: number) => void} goTo
 */
export function makeList({ element, button }, goTo) {
  const node = element('ol', { class: 'messages-of-text', 'aria-label': 'Messages', hidden: true });
  const entry = ({ line, severity, source, message }) =>
    element(
      'li',
      { 'data-severity': severity },
      button(`Line ${line}`, () => goTo(line), { title: `Go to line ${line}` }),
      element('b', {}, `${WORDS[severity]}, ${source}: `),
      message,
    );
  return {
    node,
    /** @param {import('./editor.js').Message[]} messages */
    show(messages) {
      const sorted = [...messages].sort((a, b) => a.line - b.line);
      node.hidden = !messages.length;
      node.replaceChildren(...sorted.map(entry));
    },
  };
}
