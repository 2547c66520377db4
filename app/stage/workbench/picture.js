// The run of the edited kernel, on one of the pages that its events allow: a frame with that page.
// One of our kernels can take its place there, at the same step.
const FIRST = ['any_kernel', 'source']; // the first of them that the kernel has

/**
 * A page that can show the text. others: our kernels on it, with the same problem.
 * @typedef {{path: string, title: string, others: string[]}} PageOf
 */

/**
 * @param {{element: any, button: any}} tools
 * @param {(path: string) => string} href
 */
export function makePicture({ element, button }, href) {
  const choice = element('select', { 'aria-label': 'Page' }),
    other = element('select', { 'aria-label': 'Kernel of Warpglass' }),
    empty = element('p', { class: 'empty' }, 'Press Check. Your kernel runs, and its picture appears here.'),
    room = element('div', { class: 'room-of-picture' }, empty);
  let pages = [],
    kernel = '',
    ours = false, // whether our kernel is shown, and not the text
    frame = null;
  const switched = button('Show it', () => turn(!ours), { 'aria-pressed': 'false' });
  const choices = element(
    'div',
    { class: 'tools', hidden: true }, // until a run
    element('label', {}, 'Shown on ', choice),
    element('label', { class: 'of-ours' }, 'Compare with ', other, ' ', switched),
  );
  const node = element('section', { class: 'running', 'aria-label': 'The run', hidden: false }, choices, room);
  // What the frame's page says of its choices and step, if it is the chosen page.
  const now = () => {
    const { pathname = '', search = '' } = frame?.contentWindow.location ?? {};
    return new URLSearchParams(pathname.endsWith(`/${choice.value}`) ? search : '');
  };
  const draw = () => {
    const query = now();
    query.set('kernel', ours ? other.value : kernel);
    query.set('embed', 'true');
    const url = href(`/${choice.value}?${query}`);
    if (frame) return frame.contentWindow.location.replace(url); // no way back leads to the text before
    frame = element('iframe', { src: url, title: 'The run of this kernel' });
    room.replaceChildren(frame);
  };
  function turn(to) {
    ours = to;
    switched.textContent = ours ? 'Show this text' : 'Show it';
    switched.setAttribute('aria-pressed', String(ours));
    draw();
  }
  // The kernels of the chosen page.
  const list = () => {
    const { others } = pages.find(one => one.path === choice.value),
      before = other.value;
    other.replaceChildren(...others.map(name => element('option', { value: name }, name)));
    if (others.includes(before)) other.value = before;
    other.parentElement.hidden = !others.length;
    if (ours && !others.length) turn(false);
  };
  choice.onchange = () => {
    list();
    draw();
  };
  other.onchange = () => turn(true);
  return {
    node,
    /**
     * @param {string} name of the kernel
     * @param {PageOf[]} shown
     */
    show(name, shown) {
      const before = choice.value,
        has = path => shown.some(one => one.path === path);
      if (name === kernel && frame) return; // the same text again
      [pages, kernel, ours] = [shown, name, false];
      choice.replaceChildren(...pages.map(({ path, title }) => element('option', { value: path }, title)));
      choices.hidden = false;
      choice.value = has(before) ? before : (FIRST.find(has) ?? pages[0].path);
      list();
      turn(false);
    },
  };
}
