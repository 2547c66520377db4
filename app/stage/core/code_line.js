/**
 * The first line of code, from 1: the line after the front matter, which is a comment at the top.
 * @param {string[]} lines
 */
export function codeLine(lines) {
  if (!lines[0]?.startsWith('/*')) return 1;
  const end = lines.findIndex(line => line.trim() === '*/');
  return Math.min(lines.length, end + 2);
}
