// The marked lines of a text: the table [watch] of its opening comment (kernels/core/watch.py).
// A mark's key is a part of the text of one line. Its value names a loop, or the value to log there.
const HEAD = /^\s*\/\*[^]*?\*\//;
const TABLE = /^[ \t]*\[watch\][ \t]*$/m;
const ENTRY = /^[ \t]*("(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*=/;
const ASSIGNED = /([A-Za-z_]\w*)\s*((?:\[[^;=]*\])?)\s*(?:[-+*/]|<<|>>)?=(?!=)/;

const keyOf = said => {
  if (said[0] === "'") return said.slice(1, -1);
  try {
    return JSON.parse(said); // TOML's escapes of a line are JSON's
  } catch {
    return null;
  }
};
const quoted = text => (/["\\]/.test(text) && !text.includes("'") ? `'${text}'` : JSON.stringify(text));
const lineAt = (text, at) => text.slice(0, at).split('\n').length;

// The table in the text: its entries, each {from, to, key, said}, and the place for a new one.
function tableOf(text) {
  const head = HEAD.exec(text)?.[0] ?? '',
    found = TABLE.exec(head);
  if (!found) return { head, from: -1, end: head.length - 2, entries: [] };
  const entries = [];
  let at = found.index + found[0].length + 1,
    end = at;
  for (const line of head.slice(at).split('\n')) {
    if (/^\s*\[|\*\//.test(line)) break;
    const key = ENTRY.exec(line);
    if (key) entries.push({ from: at, to: at + line.length + 1, key: keyOf(key[1]), said: line.trim() });
    at += line.length + 1;
    if (line.trim()) end = at;
  }
  return { head, from: found.index, end, entries };
}

/**
 * The numbers of the marked lines.
 * @param {string} text
 */
export function markedLines(text) {
  const { head, entries } = tableOf(text);
  const places = entries.map(({ key }) => (key ? text.indexOf(key, head.length) : -1));
  return new Set(places.filter(at => at >= 0).map(at => lineAt(text, at)));
}

/**
 * The edit that marks a line or takes its mark away, and a sentence about it. Without an edit, the reason.
 * @param {string} text
 * @param {number} line
 * @returns {{changes?: {from: number, to?: number, insert?: string}, said: string}}
 */
export function toggled(text, line) {
  const { head, from, end, entries } = tableOf(text),
    lines = text.split('\n');
  if (!/^\s*family\s*=/m.test(head))
    return { said: 'A mark needs the opening comment. Press “Write the opening comment” first.' };
  if (line <= lineAt(text, head.length)) return { said: 'Only a line of the code can be marked.' };
  const places = entries.map(({ key }) => (key ? text.indexOf(key, head.length) : -1)),
    own = entries.find((_, n) => places[n] >= 0 && lineAt(text, places[n]) === line);
  if (own) {
    const last = entries.length === 1;
    return {
      changes: { from: last ? from - (head[from - 2] === '\n' ? 1 : 0) : own.from, to: own.to },
      said: `Line ${line} is no longer watched.`,
    };
  }
  const key = keyFor(text, head, lines, line),
    value = valueFor(lines[line - 1], entries);
  if (!value) return { said: `Line ${line} sets no value. Mark an assignment, or the “for” of a loop.` };
  if (!key) return { said: `Line ${line} has no text of its own. Add a comment to it, then mark it.` };
  const entry = `${quoted(key)} = "${value}"\n`;
  const insert = from < 0 ? `${head.at(-3) === '\n' ? '' : '\n'}\n[watch]\n${entry}` : entry;
  const what = /\bfor\s*\(/.test(key) ? 'Each pass of the loop is a step.' : 'Step to see its value.';
  const at = line + insert.split('\n').length - 1;
  return {
    changes: { from: end, insert },
    said: `Line ${at} is watched as ${value}. ${what} The table [watch] has its name.`,
  };
}

// A part of the line that the code has only once: without its comment, if that is enough.
function keyFor(text, head, lines, line) {
  const whole = lines[line - 1],
    code = text.slice(head.length),
    once = part => code.split(part).length === 2;
  const parts = [codeOf(whole), whole.trim(), whole.trimEnd()];
  return parts.find(part => part && !part.includes('*/') && once(part)) ?? '';
}

const codeOf = line => line.replace(/\/[/*].*$/, '').trim();

// The name of a loop, or the value that the line sets: a variable, or an element under its array's name.
function valueFor(whole, entries) {
  const code = codeOf(whole);
  if (/\bfor\s*\(/.test(code)) {
    const inner = entries.some(({ said }) => /= *"tile/.test(said));
    return inner ? loopName(code) : 'tile';
  }
  const found = ASSIGNED.exec(code);
  if (!found || /^\s*(if|while|return|#)/.test(code)) return '';
  const [, name, index] = found;
  return index ? `${name} = ${name}${index}` : name;
}

const loopName = code => `${/([A-Za-z_]\w*)\s*=(?!=)/.exec(code)?.[1] ?? 'inner'}_pass`;
