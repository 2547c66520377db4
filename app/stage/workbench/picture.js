// The run of the edited kernel, on one of the pages that its events allow: a frame with that page.
const FIRST = ['any_kernel', 'source']; // the first of them that the kernel has

/**
 * @param {{element: any}} tools
 * @param {(path: string) => string} href
 */
export function makePicture({ element }, href) {
  const choice = element('select', { 'aria-label': 'Page' }),
    empty = element('p', { class: 'empty' }, 'The picture comes after the first run.'),
    room = element('div', { class: 'room-of-picture' }, empty);
  const node = element(
    'section',
    { class: 'running', 'aria-label': 'The run', hidden: false },
    element('label', {}, 'Shown on ', choice),
    room,
  );
  let shown = '',
    kernel = '',
    frame = null;
  const draw = () => {
    const url = href(`/${choice.value}?kernel=${kernel}&embed=true`);
    if (url === shown) return;
    shown = url;
    if (frame) return frame.contentWindow.location.replace(url); // no way back leads to the text before
    frame = element('iframe', { src: url, title: 'The run of this kernel' });
    room.replaceChildren(frame);
  };
  choice.onchange = draw;
  return {
    node,
    /**
     * @param {string} name of the kernel
     * @param {{path: string, title: string}[]} pages
     */
    show(name, pages) {
      const before = choice.value,
        has = path => pages.some(one => one.path === path);
      choice.replaceChildren(
        ...pages.map(({ path, title }) => element('option', { value: path }, title)),
      );
      choice.value = has(before) ? before : (FIRST.find(has) ?? pages[0].path);
      kernel = name;
      draw();
    },
  };
}
