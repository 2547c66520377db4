// Lines of a text for a canvas. It needs no document, so layouts and their tests can use it.

/**
 * The lines of a text of words.
 * @param {string} text
 * @param {number} width
 * @param {number} most lines
 * @param {(text: string) => number} measure
 * @returns {string[]}
 */
export function wrapped(text, width, most, measure) {
  const lines = [''];
  for (const word of text.split(' ')) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (measure(longer) <= width || !lines.at(-1) || lines.length === most) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}
