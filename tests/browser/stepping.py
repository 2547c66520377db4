"""What every browser test does with a story: press keys, read the step, the sentence and the lit lines, and point at
what a view draws."""


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
    page.wait_for_timeout(60)


def step_of(page):
    return int(page.locator("#warpglass-clock").input_value())


def sentence(page):
    return page.locator(".sentence").inner_text()


def lit(where):
    """FILE:LINE of the lit lines of a page, or of one code pane, sorted."""
    return sorted(row.get_attribute("data-place") for row in where.locator(".row.lit").all())


def point_at(page, view, **what):
    """The middle, on the page, of what the view of that title draws; scrolled into sight. what: as `locate` of the view
    says it, such as tensor="Q", query=3, dim=5."""
    ask = "([view, what]) => window.__warpglass.where(view, what)"
    for _ in range(2):
        found = page.evaluate(ask, [view, what])
        assert found, f"{view} draws no {what}"
        if 0 < found["y"] < page.viewport_size["height"]:
            return found["x"], found["y"]
        page.evaluate(
            "y => document.querySelector('[data-testid=stMain]').scrollBy(0, y - innerHeight / 2)", found["y"]
        )
        page.wait_for_timeout(200)
    raise AssertionError(f"{what} of {view} cannot be scrolled into sight: {found}")


def tip(page):
    """What the tip at the cursor says."""
    return page.locator(".tip:not([hidden])").inner_text()


def hover(page, view, **what):
    """What the tip says with the pointer there."""
    page.mouse.move(*point_at(page, view, **what))
    return tip(page)
