// One sentence per step, with its numbers; a mark where a what-if build is wrong.
export default function ({ data, parentElement }) {
  const text = parentElement.querySelector('.sentence'), flag = parentElement.querySelector('.flag'), box = parentElement.querySelector('.narration');
  const draw = step => {
    const frame = data.frames[step] ?? data.frames[0];
    text.textContent = frame.sentence;
    box.classList.toggle('wrong', !!frame.wrong);
    flag.textContent = frame.wrong ? 'Wrong here. ' : '';
  };
  // The longest sentence, unseen, holds the height: the page below must not move from step to step.
  const said = data.frames.map(frame => (frame.wrong ? 'Wrong here. ' : '') + frame.sentence);
  parentElement.querySelector('.longest').textContent = said.reduce((a, b) => (b.length > a.length ? b : a), '');
  const { step, unmount } = mount(parentElement, { onStep: draw, title: 'Sentence' });
  draw(step);
  return unmount;
}
