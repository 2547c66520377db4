// Where a text is kept: in the browser, in a link.
const KEPT = 'warpglass-workbench', // the text
  BEFORE = 'warpglass-workbench-before', // the text that a link has replaced
  FILE = 'warpglass-workbench-file', // the name of its file, also for the code pane (core/code.js)
  NAMELESS = 'kernel.cu';
const SHORT = 6000; // characters of a link that mail and chat programs keep whole
const MARK = '#text=';

/** @param {{kept: (name: string) => string | null, keep: (name: string, value: string) => void}} page */
export const makeKeeping = ({ kept, keep }) => ({
  read: () => kept(KEPT),
  write: text => keep(KEPT, text),
  file: () => kept(FILE) ?? NAMELESS,
  setFile: (name = NAMELESS) => keep(FILE, name),
  before: () => kept(BEFORE),
  setAside: text => keep(BEFORE, text),
});

const through = (bytes, stream) => new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer();

/**
 * The part of an address that holds a text, or '' if it is too long for a link.
 * @param {string} text
 */
export async function packed(text) {
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream('deflate-raw'));
  const binary = Array.from(new Uint8Array(bytes), one => String.fromCharCode(one)).join('');
  const said = btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
  return said.length > SHORT ? '' : MARK + said;
}

/**
 * The text of an address, or null if it holds none.
 * @param {string} hash
 */
export async function unpacked(hash) {
  if (!hash.startsWith(MARK) || hash.length > 2 * SHORT) return null;
  try {
    const binary = atob(hash.slice(MARK.length).replaceAll('-', '+').replaceAll('_', '/'));
    const bytes = Uint8Array.from(binary, one => one.charCodeAt(0));
    return new TextDecoder('utf-8', { fatal: true }).decode(
      await through(bytes, new DecompressionStream('deflate-raw')),
    );
  } catch {
    return null;
  }
}
