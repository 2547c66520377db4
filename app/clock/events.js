// The scenario's events, the one just played lit; a press goes there.
export default function ({ data, parentElement }) {
  const list = parentElement.querySelector('.events'), B = bus();
  list.replaceChildren(...data.events.map((text, n) => {
    const button = element('button', { type: 'button', class: 'event' }, element('span', { class: 'number' }, String(n)), text);
    button.onclick = () => B.set(n, 'user');
    return button;
  }));
  const draw = step => [...list.children].forEach((button, n) => {
    button.classList.toggle('lit', n === step);
    button.setAttribute('aria-current', n === step ? 'step' : 'false');
  });
  const { step, unmount } = mount(parentElement, { onStep: draw, title: 'Events' });
  draw(step);
  return unmount;
}
