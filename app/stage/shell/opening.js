// The choice of a file of the reader's. The server reads it (app/web/openings.py), and its name there is the value.
import { button, element } from '../core/paint.js';

const SILENT = 'The server was not reached. Start it again, then open the file again.';

/**
 * @param {any} choice with `opens`: the kind of file, `most`: bytes, `file`: the name of the opened one, or ''
 * @param {(value: string) => void} send
 * @param {any} refused says why a file was not taken
 * @param {string} base
 * @returns {Node[]}
 */
export function opener({ name, label, file, accept, most, opens, help }, send, refused, base) {
  const input = element('input', { type: 'file', accept, hidden: true, 'aria-label': label }),
    chip = button(file || 'Open a file', () => input.click(), { class: 'chip', title: help, 'data-name': name }),
    close = button('\u00d7', () => send(''), { class: 'chip', 'aria-label': `Close ${file}`, hidden: !file });
  const say = (/** @type {string} */ text) => {
    refused.textContent = text;
    refused.hidden = !text;
    chip.textContent = file || 'Open a file';
    chip.disabled = false;
  };
  input.onchange = async () => {
    const [chosen] = input.files;
    input.value = ''; // the same file again is a change
    if (!chosen) return;
    if (chosen.size > most) {
      say(`${chosen.name} has ${chosen.size.toLocaleString('en')} bytes. At most ${most / 2 ** 20} MB are read.`);
      return;
    }
    chip.textContent = `Reading ${chosen.name}`;
    chip.disabled = true;
    const { name: kept, error } = await opened(`${base}/wg/open/${opens}`, chosen);
    if (kept) send(kept);
    else say(error);
  };
  return [input, chip, close];
}

/** @param {string} address @param {File} chosen @returns {Promise<{name?: string, error: string}>} */
async function opened(address, chosen) {
  let response;
  try {
    response = await fetch(`${address}?${new URLSearchParams({ file: chosen.name })}`, {
      method: 'POST',
      body: chosen,
    });
  } catch {
    return { error: SILENT };
  }
  try {
    return await response.json();
  } catch {
    return { error: `The server answered ${response.status}. Its log names the place.` };
  }
}
