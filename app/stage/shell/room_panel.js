// What is seen of a class: a button in the header, the panel that it opens, and a line that says
// where one is.
import { button, element, number, save } from '../core/paint.js';

const LOCAL = ['localhost', '127.0.0.1', '[::1]'];

// room: room.js; base: of the app's address; titleOf(path): a story's title. Returns {opener,
// panel, line}.
export function makeRoomPanel({ news, room, base, titleOf }) {
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
  panel.ontoggle = ({ newState }) => {
    opener.setAttribute('aria-expanded', String(newState === 'open'));
    tell();
    if (newState !== 'open') return;
    [drawn, sure] = ['', false];
    draw();
    panel.querySelector('input,button')?.focus();
  };

  // ---- the panel ----
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
    made.onsubmit = event => {
      event.preventDefault();
      if (input.value.trim()) action(input.value.trim());
    };
    return made;
  };
  const open = async secret => {
    panel.querySelectorAll('button').forEach(b => {
      b.disabled = true;
    });
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
        'Followers see your page, choices, step and pinned cell. They can step on their own, and ' +
          'catch up again.',
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
  function leading({ code }) {
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
        element(
          'a',
          { class: 'button', href: `${base}/health`, target: '_blank', rel: 'noopener' },
          'The server',
        ),
        answers(),
        button(
          'End the class',
          event => {
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
  function following({ code }) {
    panel.replaceChildren(
      element('h2', {}, `You follow class ${code}`),
      element('p', {}, 'You can step on your own. “Catch up” leads back to the class.'),
      button('Leave the class', () => room.leave()),
    );
  }
  function draw() {
    const now = room.state(),
      kind = !now.code
        ? `out ${now.said}`
        : now.leads
          ? `leads ${now.code}`
          : `follows ${now.code}`;
    if (kind !== drawn) {
      drawn = kind;
      if (!now.code) outside();
      else if (now.leads) leading(now);
      else following(now);
    }
    const count = panel.querySelector('.count');
    if (count) count.textContent = followers(now);
    const file = panel.querySelector('.answers');
    if (file) file.hidden = !now.asked;
  }
  const followers = ({ followers: n }) => (n === 1 ? '1 follower.' : `${number(n)} followers.`);

  // ---- the line, and the button ----
  function tell() {
    const {
      code,
      leads,
      joined,
      lost,
      strayed,
      at,
      begun,
      led,
      said,
      followers: n,
      poll,
    } = room.state();
    opener.classList.toggle('says', !!code);
    opener.textContent = !code ? 'Class' : leads ? `Class ${code}: ${n}` : `Class ${code}`;
    opener.title = !code
      ? 'Lead a class, or follow one'
      : leads
        ? `You lead class ${code}. ${followers({ followers: n })}`
        : `You follow class ${code}`;
    const [path] = at?.link.split('?') ?? [],
      where = at ? `${titleOf(path)}${at.step === null ? '' : `, step ${at.step + 1}`}` : '';
    const words = lost
      ? 'The connection to the class is lost. The page tries again.'
      : said
        ? said
        : strayed
          ? `You are on your own. The class is at ${where}.${poll?.open ? ' It has a question.' : ''}`
          : code && joined && !leads && !led
            ? 'The leader of the class is away.'
            : code && joined && !leads && !begun
              ? 'The class has not begun.'
              : '';
    line.hidden = !words || (!code && panel.matches(':popover-open')); // the panel says it
    if (line.firstChild?.textContent === words) return;
    line.replaceChildren(
      element('span', {}, words),
      ...(strayed && !lost
        ? [button('Catch up', () => room.catchUp(), { 'data-catch-up': true })]
        : []),
      ...(!code && said
        ? [
            button(
              'Dismiss',
              () => {
                line.hidden = true;
              },
              { class: 'quiet' },
            ),
          ]
        : []),
    );
  }
  let follows = false;
  const onClass = () => {
    const { joined, leads } = room.state();
    if (joined && !leads && !follows) panel.hidePopover(); // the class is behind it
    follows = joined && !leads;
    tell();
    if (panel.matches(':popover-open')) draw();
  };
  news.addEventListener('class', onClass);
  return {
    opener,
    panel,
    line,
    unmount() {
      news.removeEventListener('class', onClass);
    },
  };
}
