// What is seen of a class: a button in the header, the panel that it opens, and a line that says
// where one is.
import { button, element, listen, number, save } from '../core/paint.js';

const LOCAL = ['localhost', '127.0.0.1', '[::1]'];

/** @param {App} app */
export function makeRoomPanel(app) {
  const { news, room, base } = app;
  const titleOf = (/** @type {string} */ link) => {
    const [path] = link.split('?');
    return app.storyOf(path)?.title ?? path;
  };
  const opener = button('Class', () => panel.togglePopover(), {
    class: 'head-button front-entry class-button',
    'aria-expanded': 'false',
    title: 'Lead a class, or follow one',
  });
  const panel = element('div', {
    class: 'class-panel',
    popover: 'auto',
    role: 'dialog',
    'aria-label': 'Class',
  });
  const line = element('div', { class: 'class-line', hidden: true, role: 'status' });
  let drawn = '',
    asks = false,
    sure = false;
  panel.ontoggle = (/** @type {ToggleEvent} */ { newState }) => {
    opener.setAttribute('aria-expanded', String(newState === 'open'));
    tell();
    if (newState !== 'open') return;
    [drawn, sure] = ['', false];
    draw();
    panel.querySelector('input,button')?.focus();
  };

  // ---- the panel ----
  /** @type {(label: string, attributes: object, action: (text: string) => void, text: string) => Element} */
  const form = (label, attributes, action, text) => {
    const input = element('input', {
      type: 'text',
      'aria-label': label,
      spellcheck: 'false',
      autocomplete: 'off',
      ...attributes,
    });
    const made = element(
      'form',
      { class: 'row' },
      element('label', {}, label, input),
      element('button', { type: 'submit' }, text),
    );
    made.onsubmit = (/** @type {Event} */ event) => {
      event.preventDefault();
      if (input.value.trim()) action(input.value.trim());
    };
    return made;
  };
  const open = async (/** @type {string} */ secret) => {
    for (const press of panel.querySelectorAll('button')) press.disabled = true;
    const refused = await room.open(secret);
    if (refused) {
      asks ||= refused.secret;
      outside(refused.secret && !secret ? '' : refused.said, true);
      if (refused.secret) panel.querySelector('input')?.focus();
    }
  };
  // error: why none is led (leading), or followed.
  function outside(error = room.state().said, leading = false) {
    const led = room.led(),
      told = error ? [element('p', { class: 'note bad', role: 'alert' }, error)] : [];
    panel.replaceChildren(
      element('h2', {}, 'Lead a class'),
      element(
        'p',
        {},
        'Followers see your page, choices, step and pinned cell. They can step on their own, and ' + 'catch up again.',
      ),
      asks
        ? form('Room secret of this server', { type: 'password' }, open, 'Lead a class')
        : button('Lead a class', () => open(''), { class: 'first' }),
      ...(leading ? told : []),
      ...(led ? [button(`Lead class ${led.code} again`, () => room.leadAgain())] : []),
      element('h2', {}, 'Follow a class'),
      form('Code', { maxlength: 12, class: 'code-field' }, code => room.join(code), 'Follow'),
      ...(leading ? [] : told),
    );
  }
  function leading(/** @type {string} */ code) {
    const address = `${location.origin}${base}/?class=${code}`;
    const copy = button('Copy the address', async () => {
      try {
        await navigator.clipboard.writeText(address);
        copy.textContent = 'Address copied';
      } catch {
        copy.textContent = 'Copy it from below';
      }
    });
    panel.replaceChildren(
      element('h2', {}, 'You lead a class'),
      element('p', { class: 'room-code', 'aria-label': `Code ${code.split('').join(' ')}` }, code),
      element('img', {
        class: 'qr',
        src: `${base}/wg/qr?to=${encodeURIComponent(address)}`,
        alt: `QR code of ${address}`,
        width: 240,
        height: 240,
      }),
      element('p', { class: 'address' }, address),
      ...(LOCAL.includes(location.hostname)
        ? [
            element(
              'p',
              { class: 'note bad' },
              `Only this machine reaches ${location.hostname}. Open this page by the ` +
                'address that the class will use, and start the server for others with ' +
                '--host 0.0.0.0',
            ),
          ]
        : []),
      element('p', { class: 'count' }),
      element(
        'div',
        { class: 'row' },
        copy,
        element('a', { class: 'button', href: `${base}/health`, target: '_blank', rel: 'noopener' }, 'The server'),
        answers(),
        button(
          'End the class',
          (/** @type {any} */ event) => {
            if (sure) return room.end();
            sure = true;
            event.currentTarget.textContent = 'End it for all';
          },
          { 'data-end': true },
        ),
      ),
    );
  }
  // The votes of all questions so far, as a file without names.
  function answers() {
    const made = button(
      'Answers as CSV',
      async () => {
        try {
          save(await room.answers(), `class_${room.state().code}.csv`);
        } catch (error) {
          made.textContent = error.message;
        }
      },
      { class: 'answers', hidden: true, title: 'A line for each question and answer, no names' },
    );
    return made;
  }
  function draw() {
    const { code, said, leads, followers, asked } = room.state(),
      kind = JSON.stringify([code, leads, code ? '' : said]);
    if (kind !== drawn) {
      drawn = kind;
      if (!code) outside();
      else if (leads) leading(code);
      else
        panel.replaceChildren(
          element('h2', {}, `You follow class ${code}`),
          element('p', {}, 'You can step on your own. “Catch up” leads back to the class.'),
          button('Leave the class', () => room.leave()),
        );
    }
    const count = panel.querySelector('.count');
    if (count) count.textContent = inWords(followers);
    const file = panel.querySelector('.answers');
    if (file) file.hidden = !asked;
  }
  const inWords = (/** @type {number} */ followers) =>
    followers === 1 ? '1 follower.' : `${number(followers)} followers.`;

  // ---- the line, and the button ----
  function tell() {
    const { code, leads, joined, lost, strayed, at, begun, led, said, poll, followers } = room.state();
    opener.classList.toggle('says', !!code);
    opener.textContent = !code ? 'Class' : leads ? `Class ${code}: ${followers}` : `Class ${code}`;
    opener.title = !code
      ? 'Lead a class, or follow one'
      : leads
        ? `You lead class ${code}. ${inWords(followers)}`
        : `You follow class ${code}`;
    const follows = code && joined && !leads,
      where = at && `${titleOf(at.link)}${at.step === null ? '' : `, step ${at.step + 1}`}`;
    let words = said;
    if (lost) words = 'The connection to the class is lost. The page tries again.';
    else if (!said && strayed)
      words = `You are on your own. The class is at ${where}.${poll?.open ? ' It has a question.' : ''}`;
    else if (!said && follows && !led) words = 'The leader of the class is away.';
    else if (!said && follows && !begun) words = 'The class has not begun.';
    line.hidden = !words || (!code && panel.matches(':popover-open')); // the panel says it
    if (line.firstChild?.textContent === words) return;
    line.replaceChildren(element('span', {}, words));
    if (strayed && !lost) line.append(button('Catch up', () => room.catchUp(), { 'data-catch-up': true }));
    if (!code && said) line.append(button('Dismiss', () => (line.hidden = true), { class: 'quiet' }));
  }
  let follows = false;
  const unmount = listen(news, 'class', () => {
    const { joined, leads } = room.state();
    if (joined && !leads && !follows) panel.hidePopover(); // the class is behind it
    follows = joined && !leads;
    tell();
    if (panel.matches(':popover-open')) draw();
  });
  return { opener, panel, line, unmount };
}
