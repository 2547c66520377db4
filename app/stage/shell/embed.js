// A page in an iframe of someone's slides: `embed=true` in the link. It stays while stepping and
// from story to story, and Streamlit leaves its own bars out then.
import { element } from '../core/paint.js';

// of the address: of the frame, not of what is shown in it
const FRAME = ['embed', 'embed_options'];
export const embedded = new URLSearchParams(location.search).getAll('embed').includes('true');
// What of an address says how it is framed, as 'embed=true' or ''.
export const framing = () =>
  new URLSearchParams([...new URLSearchParams(location.search)].filter(([name]) => FRAME.includes(name))).toString();
// Choices without it.
/** @param {Texts} params */
export const unframed = params => Object.fromEntries(Object.entries(params).filter(([name]) => !FRAME.includes(name)));

// The link out of the frame; address: of what is shown, as any browser opens it.
/** @param {() => string} address */
export function wayOut(address) {
  const node = element('a', { class: 'out', target: '_blank', rel: 'noopener' }, 'Open in Warpglass');
  const point = () => (node.href = address());
  node.onpointerenter = node.onfocus = node.onclick = point;
  point();
  return node;
}

// What is pasted into a page of slides.
/** @param {string} title of the story @param {string} address */
export function embedCode(title, address) {
  const url = new URL(address);
  url.searchParams.append('embed', 'true');
  const text = (/** @type {string} */ value) =>
    value.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');
  return (
    `<iframe src="${text(url.href)}" title="${text(`Warpglass: ${title}`)}" width="1280" ` +
    'height="720" style="border:0" allow="fullscreen"></iframe>'
  );
}
