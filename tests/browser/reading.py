"""What a reader sees of a stop at each step, as a script of its own: which text answers a question before it is asked,
and how much there is to read and to press.

    python tests/browser/reading.py leaks [STOP ...]    each text that gives an answer away
    python tests/browser/reading.py lists [STOP ...]    words and controls in sight at the opening, steps and minutes
"""

import re
import shutil
import sys
from pathlib import Path
from urllib.parse import urlencode

ROOT = Path(__file__).parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

SEEN = (Path(__file__).parent / "seen.js").read_text()
LEAST = 13  # a smaller number without a unit can be anywhere
NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?![\w]|[.,]\d)")
HIDDEN = ["narration", "(hidden)"]
PAINTED = "() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 25)))"


def link_of(stop):
    return f"{stop.story}?" + urlencode(
        {"stop": stop.name, **stop.choices, **({"picture": stop.picture} if stop.picture else {})}
    )


def questions_of(page, stop):
    """The questions of the very stage that the page shows, in the stop's order, with their answers."""
    asked = page.evaluate("document.querySelector('.wg').stage.content.questions")
    found = {question["id"]: question for question in asked}
    return [found[id] for id in stop.questions if id in found]


def plain(text):
    return " ".join(text.lower().replace("\u2009", " ").split()).strip(" .")


def keys_of(text):
    """What says an option or a number: a number of three digits alone, else with its word; without a number, itself."""
    text = plain(text)
    number = NUMBER.match(text)
    if not number:
        return [re.compile(rf"(?<!\w){re.escape(text)}(?!\w)")]
    digits = number[0].replace(",", "")
    after = [] if len(digits.strip("0.")) > 2 else text[number.end() :].split()[:1]
    unit = "".join(rf" {re.escape(word.rstrip('s:,'))}" for word in after)
    known = unit or float(digits) >= LEAST
    end = unit or r"(?!\w|\.\d)"
    return [re.compile(rf"(?<![\w.]){re.escape(digits)}{end}")] if known else []


def says(text, keys):
    if re.fullmatch(r"[\d.]{1,2}", text):  # as of an axis
        return False
    bare = re.sub(r"(?<=\d),(?=\d{3})", "", plain(text))
    return any(key.search(bare) for key in keys)


def is_near(text, question):
    """Whether a text has the number that a question asks for, rounded to at least three digits."""
    answer = float(question["answer"])
    for found in NUMBER.findall(text):
        digits = found.replace(",", "")
        least = len(digits.replace(".", "").lstrip("0"))
        if least >= 3 and f"{answer:.{least}g}" == f"{float(digits):.{least}g}":
            return True
    return False


def gives(seen, question):
    """The texts that give the answer away. An option that stands next to all others is no hint."""
    if question["kind"] == "click":
        return []
    if question["kind"] == "number":
        unit = question["unit"].split()[:1]
        answer = float(question["answer"])
        said = f"{answer:.10g} {unit[0] if unit else ''}"
        return [one for one in seen if says(one[1], keys_of(said)) or (answer % 1 and is_near(one[1], question))]
    right = question["options"][question["answer"]]
    others = [text for n, text in enumerate(question["options"]) if n != question["answer"]]
    found = [one for one in seen if says(one[1], keys_of(right))]
    shown = [text for text in others if any(says(one[1], keys_of(text)) for one in seen)]
    return [] if len(shown) == len(others) else found


def at(page, step):
    page.evaluate("step => window.clock.set(step, 'jump')", step)
    page.evaluate(PAINTED)
    return page.evaluate("window.seen()")


def leaks(page, stop):
    """[(question, depth, step, part, text)] of each text that answers a question at a step up to its own, while this
    question or one before it is open. A narration is HIDDEN at a step of no question.
    The page shows the stop in Guided with its card open."""
    questions = questions_of(page, stop)
    found: dict[tuple[str, str, str, str], int] = {}  # -> its first step
    for n, question in enumerate(questions):
        for depth in ("guided", "everything"):
            for step in range(min(question["step"], page.evaluate("window.clock.count") - 1) + 1):
                seen = at(page, step)
                if step != question["step"] and HIDDEN in seen:
                    found.setdefault((question["id"], depth, *HIDDEN), step + 1)
                for other in questions[n:]:
                    if step <= other["step"]:
                        for part, text in gives(seen, other):
                            found.setdefault((other["id"], depth, part, text), step + 1)
            page.keyboard.press("d")
            page.evaluate(PAINTED)
        page.locator(".wg .guide [data-show]").click()
        if n + 1 < len(questions):
            page.locator('.wg .guide [data-turn="Next question"]').click()
    return [(id, depth, step, part, text) for (id, depth, part, text), step in found.items()]


WORDS = """() => {
  const root = document.querySelector('.wg'), texts = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (parent.closest('header, .code, .toolbar, option, title, desc, .clock, .tabs') || !node.data.trim()) continue;
    if (!parent.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (box.width && box.top < innerHeight && box.bottom > 0 && box.left < innerWidth) texts.push(node.data);
  }
  return texts.join(' '); }"""


CONTROLS = """() => [...document.querySelectorAll('.wg :is(a, button, input, select, summary, [role=separator])')]
  .filter(node => node.checkVisibility({ visibilityProperty: true }) && !node.closest('nav'))
  .map(node => node.closest('.guide') ? 'card' : node.closest('header') ? 'header' : 'stop')"""


def count_words(text):
    return len(re.findall(r"[^\W\d_]{2,}", text))


def listed(page, stop):
    """What there is to read and to press at the opening of a stop."""
    painted = [text for part, text in page.evaluate("window.seen()") if part.endswith("canvas")]
    places = page.evaluate(CONTROLS)
    return {
        "stop": stop.title,
        "words": count_words(page.evaluate(WORDS)),
        "in the picture": count_words(" ".join(painted)),
        "controls": places.count("stop"),
        "of the card": places.count("card"),
        "of the header": places.count("header"),
        "steps": page.evaluate("window.clock.count"),
        "questions": len(stop.questions),
        "minutes": stop.minutes,
    }


def opened(visit, stop, **options):
    """The stop by its link in Guided, with its card open."""
    size = {"width": 1280, "height": 720}
    ready = SEEN + ";try { sessionStorage.setItem('warpglass-guide', 'open') } catch {};"
    page = visit(f"/{link_of(stop)}", viewport=size, depth="guided", script=ready, reduced_motion="reduce", **options)
    page.wait_for_function("window.clock?.views.length")
    page.evaluate(PAINTED)
    return page


def main(what, names):
    from browser.conftest import FLAGS, REMEMBERED, Server, context_of, shown
    from playwright.sync_api import sync_playwright

    from app.course import stops

    server = Server()
    with sync_playwright() as playwright:
        path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)

        def visit(path, depth, script, **options):
            page = context_of(browser, REMEMBERED % depth + script, **options).new_page()
            page.goto(server.url + path)
            shown(page)
            return page

        for stop in stops():
            if stop.questions and (not names or stop.name in names):
                page = opened(visit, stop)
                if what == "lists":
                    print(*(f"{name} {value}" for name, value in listed(page, stop).items()), sep=", ", flush=True)
                else:
                    print(*(f"{stop.name}: {leak}" for leak in leaks(page, stop)), sep="\n", flush=True)
                page.context.close()
        browser.close()
    server.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
