// Runs before each page: an error where the stage draws or writes what is no value. NaN is a value of builds that
// are broken on purpose and of the bugs in the gallery, and a word of the texts that describe them.
{
  const NONE = /\b(?:undefined|null)\b|\[object \w+\]|\bNaN\b/g;
  const check = (text, place) => {
    const faulty = location.search.includes('what_if=') || location.pathname.endsWith('/gallery'),
      broken = faulty || place?.closest('.toolbar, .search, .sequences, .codes');
    const [word] = (String(text).match(NONE) ?? []).filter(found => !broken || found !== 'NaN');
    if (!word) return;
    setTimeout(() => {
      throw new Error(`The stage shows "${word}" in "${String(text).slice(0, 300)}".`);
    });
  };
  const { prototype } = CanvasRenderingContext2D,
    { fillText } = prototype;
  prototype.fillText = function (text, ...place) {
    check(text);
    fillText.call(this, text, ...place);
  };
  const ATTRIBUTES = ['title', 'aria-label', 'aria-valuetext', 'alt', 'placeholder'];
  const checkAll = node => {
    const place = node.closest ? node : node.parentElement;
    check(node.textContent, place);
    for (const name of ATTRIBUTES)
      for (const one of [node, ...(node.querySelectorAll?.(`[${name}]`) ?? [])])
        check(one.getAttribute?.(name) ?? '', place);
  };
  new MutationObserver(records => {
    for (const { type, target, attributeName, addedNodes } of records) {
      const place = target.nodeType === Node.TEXT_NODE ? target.parentElement : target;
      if (!place?.closest?.('.wg')) continue;
      if (type === 'attributes') check(target.getAttribute(attributeName), place);
      else if (type === 'characterData') check(target.data, place);
      else addedNodes.forEach(checkAll);
    }
  }).observe(document, {
    subtree: true,
    childList: true,
    characterData: true,
    attributeFilter: ATTRIBUTES,
  });
}
