async steps => {
  const hub = window.clock,
    wrong = [],
    root = document.querySelector('.wg'),
    all = s => [...root.querySelectorAll(s)].filter(n => n.getClientRects().length);
  const inside = (box, frame, slack = 1) =>
    box.left >= frame.left - slack &&
    box.top >= frame.top - slack &&
    box.right <= frame.right + slack &&
    box.bottom <= frame.bottom + slack;
  const sized = (box, w, h) => box.width >= w && box.height >= h,
    screen = { left: 0, top: 0, right: innerWidth, bottom: innerHeight },
    scrolls = matchMedia('(max-width: 760px), (max-height: 560px)').matches; // the code is below
  const widest = () =>
    [...root.querySelectorAll('.room > *, .room > * > *')]
      .filter(n => n.getBoundingClientRect().right > innerWidth + 1)
      .map(n => n.className);
  const frames = () =>
    new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 20))));
  for (const step of steps) {
    hub.set(step, 'user');
    if (!measured(step).length) continue;
    await frames(); // what follows a changed size is drawn a frame later
    wrong.push(...measured(step));
  }
  return [...wrong, ...cutWords()];

  // Words that their box cuts at a side, without an ellipsis and without a scrollbar to reach them.
  function cutWords() {
    const found = [],
      texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT),
      range = document.createRange();
    while (texts.nextNode()) {
      const node = texts.currentNode;
      if (!node.data.trim() || !node.parentElement.checkVisibility()) continue;
      if (node.parentElement.closest('option, .code')) continue; // of the browser; measured above
      range.selectNodeContents(node);
      const { left, right, width } = range.getBoundingClientRect();
      if (!width) continue;
      for (let box = node.parentElement; box && box !== root; box = box.parentElement) {
        const style = getComputedStyle(box);
        if (style.textOverflow === 'ellipsis' || style.clipPath !== 'none') break;
        const { left: low, right: high } = box.getBoundingClientRect(),
          slides = ['auto', 'scroll'].includes(style.overflowX),
          reached = slides && (scrolls || style.scrollbarWidth !== 'none'); // by a finger, or by a scrollbar
        if (reached) break;
        if ((slides || style.overflowX !== 'visible') && (right > high + 2 || left < low - 2)) {
          found.push(`"${node.data.trim()}" is cut in .${box.className}`);
          break;
        }
      }
    }
    return found;
  }

  function measured(step) {
    const wrong = [],
      say = text => wrong.push(`step ${step + 1}: ${text}`);
    for (const [what, selector, w, h] of [
      ['clock', '.clock', 200, 24],
      ['sentence', '.narration', 100, 15],
      ['picture', '.picture > .view', 120, 90],
      ['code', '.pane .code', 120, 60],
    ])
      for (const node of all(selector)) {
        if (scrolls && node.querySelector('.checks, .workbench')) continue; // pages longer than a small window
        const box = node.getBoundingClientRect();
        if (!(scrolls && what === 'code') && !inside(box, screen))
          say(`${what} is not in the window: ${JSON.stringify(box)}`);
        else if (!sized(box, w, h)) say(`${what} is ${Math.round(box.width)} x ${Math.round(box.height)}`);
      }
    if (!all('.narration').length) say('no sentence');
    if (!all('.picture > .view').length) say('no picture');
    if (root.querySelector('.codes .code') && !all('.pane .code').length) say('no code');
    if (hub.count > 1 && !all('.clock').length) say('no clock');
    for (const box of all('.narration')) {
      const text = box.querySelector('.sentence').getBoundingClientRect(),
        frame = box.getBoundingClientRect();
      if (!text.height || !inside(text, frame, 2)) say('the sentence is cut');
      if (box.scrollHeight > box.clientHeight + 1) say('the sentence overflows');
    }
    for (const sheet of all('.sheet')) {
      if (sheet.scrollHeight > sheet.clientHeight + 3)
        say(`the picture is ${sheet.scrollHeight} high, its pane ${sheet.clientHeight}`);
      if (sheet.scrollWidth > sheet.clientWidth + 1)
        say(`the picture is ${sheet.scrollWidth} wide, its pane ${sheet.clientWidth}`);
    }
    for (const pane of all('.pane .code')) {
      const frame = pane.getBoundingClientRect(),
        lit = [...pane.querySelectorAll('.row.lit')],
        boxes = lit.map(row => row.getBoundingClientRect());
      if (!lit.length) continue;
      const covers = box =>
        // a line that wraps, higher than its pane
        box.top <= frame.top + 2 && box.bottom >= frame.bottom - 2;
      const seen = boxes.filter(box => inside(box, frame, 2) || covers(box)),
        span = Math.max(...boxes.map(b => b.bottom)) - Math.min(...boxes.map(b => b.top));
      if (!seen.length) say(`no lit line is in sight of ${lit.map(row => row.dataset.place)}`);
      else if (span <= pane.clientHeight - 4 && seen.length < lit.length)
        say(`${lit.length - seen.length} of ${lit.length} lit lines are out of sight`);
      if (pane.scrollWidth > pane.clientWidth + 1) say('a line of code is cut at the side');
    }
    const room = root.querySelector('.room'),
      main = document.querySelector('[data-testid=stMain]');
    for (const [what, node] of [
      ['window', document.scrollingElement],
      ['main', main],
      ['room', room],
    ]) {
      if (node.scrollTop || node.scrollLeft) say(`the ${what} scrolled`);
      if (node.scrollWidth > node.clientWidth + 1)
        say(`the ${what} is wider than the window by ${node.scrollWidth - node.clientWidth}: ${widest()}`);
    }
    if (!scrolls && room.scrollHeight > room.clientHeight + 1)
      say(`the room is higher than the window by ${room.scrollHeight - room.clientHeight}`);
    return wrong;
  }
};
