"""What every browser test does with a story: press keys, read the step, the sentence, the lit lines and the strip, and
point at what a view draws."""

import time
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit


def press(page, *keys):
    """Presses keys, and waits for a frame with what they changed."""
    for key in keys:
        page.keyboard.press(key)
    page.evaluate("() => new Promise(requestAnimationFrame)")


def settled(page):
    """What follows a changed size has been drawn."""
    page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50))))"
    )


def step_of(page):
    """From 0, as frames are counted."""
    return page.evaluate("window.clock.step")


def count(page):
    return page.evaluate("window.clock.count")


def go_to(page, step):
    page.evaluate("step => window.clock.set(step, 'user')", step)


READ = (Path(__file__).parent / "read.js").read_text().rstrip().rstrip(";")


def read(page):
    """All that the stage says at this step, in one question: step, counter, title, sentences, wrong, lit (for each code
    pane), counts, labels of canvases, state ([name, value])."""
    return page.evaluate(READ)


def walked(page, steps):
    """What `read` finds at each of so many steps, gone to by the clock, in one question."""
    walk = f"steps => Array.from({{ length: steps }}, (_, n) => {{ window.clock.set(n, 'user'); return ({READ})(); }})"
    return page.evaluate(walk, steps)


def sentence(page):
    return page.evaluate("document.querySelector('.wg .sentence').textContent")


def lit(page):
    """FILE:LINE of the lit lines, sorted."""
    return sorted(place for pane in read(page)["lit"] for place in pane)


def point_at(page, view, /, **what):
    """The middle, on the page, of what the view of that title draws. what: its datum, such as
    tensor="Q", query=3, dim=5."""
    found = page.evaluate("([view, what]) => window.clock.where(view, what)", [view, what])
    assert found, f"{view} draws no {what}"
    assert 0 < found["y"] < page.viewport_size["height"] and 0 < found["x"] < page.viewport_size["width"], found
    return found["x"], found["y"]


def tip(page):
    return page.locator(".tip:not([hidden])").inner_text()


# The pointer over what a view draws, in one question: a page that still moves its drawing would miss a real one.
HOVER = """([view, what]) => {
  const at = window.clock.where(view, what), on = at && document.elementFromPoint(at.x, at.y);
  if (!on?.closest('.view')) throw new Error(`${view} shows no ${JSON.stringify(what)} at ${JSON.stringify(at)}`);
  on.dispatchEvent(new PointerEvent('pointermove', { clientX: at.x, clientY: at.y, bubbles: true }));
  return [...document.querySelectorAll('.tip:not([hidden])')].map(tip => tip.innerText); }"""


def hover(page, view, /, **what):
    (said,) = page.evaluate(HOVER, [view, what])
    return said


class Requests:
    """What a page asks of any server, from now on. asked: addresses, and the length of each message to Streamlit."""

    def __init__(self, page):
        self.page, self.asked, self._open, self._last = page, [], set(), time.monotonic()
        page.on("request", self._begin)
        page.on("requestfinished", self._end)
        page.on("requestfailed", self._end)
        page.on("websocket", lambda socket: socket.on("framesent", lambda sent: self.asked.append(len(sent))))

    def _begin(self, request):
        self._last = time.monotonic()
        self._open.add(request)
        self.asked.append(request.url)

    def _end(self, request):
        self._last = time.monotonic()
        self._open.discard(request)

    def rest(self, seconds=0.5):
        """Waits until the page, and each page in a frame of it, has asked nothing for so long: Streamlit's own late
        requests are over. Forgets what was asked before."""
        until = time.monotonic() + 60
        while self._open or time.monotonic() - self._last < seconds:
            assert time.monotonic() < until, f"the page does not rest: {self._open or self.asked[-3:]}"
            self.page.wait_for_timeout(20)
        self.asked.clear()


# Timers of a page run ten times as fast.
HURRIED = "(wait => { window.setTimeout = (act, ms, ...given) => wait(act, ms / 10, ...given); })(setTimeout)"


def asked(page):
    """The choices of the address, without what is the browser's own."""
    return {n: v for n, v in parse_qsl(urlsplit(page.url).query) if n not in ("step", "picture", "tab", "depth")}


def address(page):
    return dict(parse_qsl(urlsplit(page.url).query))


def choose(page, name, value):
    """Another value of a choice of the toolbar: a chip, a list, a field, wherever it stands; waits for its stage."""
    from browser.conftest import shown

    before = page.evaluate("document.querySelector('.wg').dataset.shown").split(" ")[1]
    chip = page.locator(f'.wg .toolbar [data-choice="{name}={value}"]')
    control = page.locator(f'.wg .toolbar [data-name="{name}"]')
    behind = page.evaluate(
        "n => !!document.querySelector(`.wg .more [data-name='${n}'], .wg .more [data-choice^='${n}=']`)", name
    )
    if behind and page.locator(".wg .more").is_hidden():
        page.get_by_role("button", name="More", exact=True).click()
    if chip.count():
        if chip.get_attribute("role") == "option":  # of a chip that opens a list
            control.click()
        chip.click()
    elif control.get_attribute("type") == "checkbox":
        control.click()
    else:
        control.fill(value)
        control.press("Enter")
    bundle = shown(page, other=before)
    if behind:
        page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    return bundle


def rail(page, path):
    """Goes to a page by More pages in the rail, with what was chosen, and waits until it is shown."""
    from browser.conftest import shown

    page.locator(f'.wg header a[data-story="{path}"]').dispatch_event("click")
    shown(page, path)


def asked_now(page):
    """Goes to the step of the card's question, if that is still ahead."""
    to = page.locator('.wg .guide [data-turn="Go to the question"]')
    if to.count():
        to.click()
