"""What every browser test does with a story: press keys, and read the step, the sentence and the lit lines."""


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
    page.wait_for_timeout(60)


def step_of(page):
    return int(page.locator("#warpglass-clock").input_value())


def sentence(page):
    return page.locator(".sentence").inner_text()


def lit(page):
    """The numbers of the lit lines."""
    return [int(text) for text in page.locator(".code .lit .number").all_inner_texts()]
