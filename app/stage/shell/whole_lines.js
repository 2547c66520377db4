// The card after an answer: no half line is at the top of the scrolled body. An option or the rest of a line goes
// out of sight.
/** @param {HTMLElement} body */
export const startAtLine = body => {
  body.style.paddingBottom = '';
  const asked = body.querySelector('.question')?.getBoundingClientRect(),
    own = body.getBoundingClientRect().top,
    top = asked && asked.top < own + 1 ? asked.bottom : own, // the question stays in sight
    said = body.querySelector('.answer')?.getBoundingClientRect();
  if (said?.height && said.top < top) {
    body.scrollTop -= top - said.top; // the answer is read from its first line
    return;
  }
  const cut = [...body.querySelectorAll('p:not(.question), .option, h3')].find(part => {
    const box = part.getBoundingClientRect();
    return box.top < top - 1 && box.bottom > top + 1;
  });
  if (!body.scrollTop || !cut) return;
  const box = cut.getBoundingClientRect(),
    line = cut.matches('.option') ? box.height + 4 : parseFloat(getComputedStyle(cut).lineHeight),
    rest = Math.min(box.bottom - top + 4, line - ((top - box.top) % line)),
    wanted = body.scrollTop + rest,
    missing = wanted - (body.scrollHeight - body.clientHeight);
  if (missing > 0) body.style.paddingBottom = `${Math.ceil(missing)}px`;
  body.scrollTop = wanted;
};
