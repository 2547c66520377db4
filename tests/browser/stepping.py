"""What every browser test does with a story: press keys, read the step, the sentence, the lit lines and the strip, and
point at what a view draws."""

from pathlib import Path
from urllib.parse import parse_qsl, urlsplit


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
    page.wait_for_timeout(30)


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


READ = (Path(__file__).parent / "read.js").read_text()


def read(page):
    """All that the stage says at this step, in one question: step, counter, title, sentences, wrong, lit (for each code
    pane), counts, labels of canvases, state ([name, value])."""
    return page.evaluate(READ)


def sentence(page):
    return page.evaluate("document.querySelector('.wg .sentence').textContent")


def lit(page):
    """FILE:LINE of the lit lines, sorted."""
    return sorted(place for pane in read(page)["lit"] for place in pane)


def point_at(page, view, /, **what):
    """The middle, on the page, of what the view of that title draws. what: as `locate` of the view says it, such as
    tensor="Q", query=3, dim=5."""
    found = page.evaluate("([view, what]) => window.clock.where(view, what)", [view, what])
    assert found, f"{view} draws no {what}"
    assert 0 < found["y"] < page.viewport_size["height"] and 0 < found["x"] < page.viewport_size["width"], found
    return found["x"], found["y"]


def tip(page):
    """What the tip at the cursor says."""
    return page.locator(".tip:not([hidden])").inner_text()


def hover(page, view, /, **what):
    """What the tip says with the pointer there. A page that still moves its drawing is pointed at again."""
    for _ in range(20):
        at = point_at(page, view, **what)
        page.mouse.move(*at)
        page.wait_for_timeout(50)
        if page.locator(".tip:not([hidden])").count() and at == point_at(page, view, **what):
            break
    return tip(page)


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
