() => {
  const text = (s, of = document) => of.querySelector(s)?.textContent ?? '';
  return {
    step: window.clock.step,
    counter: text('.wg .clock output'),
    title: text('.wg .clock .title'),
    sentences: [...document.querySelectorAll('.wg .narration')].map(n => text('.sentence', n)),
    wrong: [...document.querySelectorAll('.wg .narration')].map(n => text('.flag', n)),
    lit: [...document.querySelectorAll('.wg .codes .code')].map(pane =>
      [...pane.querySelectorAll('.row.lit')].map(row => row.dataset.place).sort(),
    ),
    counts: [...document.querySelectorAll('.wg .codes .row.lit')].map(row => [row.dataset.place, text('.count', row)]),
    labels: [...document.querySelectorAll('.wg .sheet canvas')].map(c => c.getAttribute('aria-label')),
    state: [...document.querySelectorAll('.wg .strip .state')].map(s => [text('.name', s), text('.value', s)]),
  };
};
