"""What a story shows beside its first picture: its other pictures and views, with the guide open, with a tab open.
Clock, sentence, picture and lit code stay in the window while one steps."""

import re

import pytest
from browser.conftest import SIZE, context_of, shown
from browser.stepping import count
from browser.test_stage import MEASURE, settled

TIGHT = {"laptop": SIZE, "phone": {"width": 390, "height": 844}}
STEPS = 9  # of each picture that are looked at: the first, the last, and evenly between
PICTURES = [
    "tiling",
    "online_softmax",
    "registers",
    "block_table?view=walk",
    "block_table?view=cache",
    "block_table?view=partitions",
    "block_table?view=heads",
    "block_table?view=serving",
    "bank_conflicts?view=attention",
    "tensor_cores?kernel=12_optimistic",
    "precision",
    "coalescing?view=layouts",
    "occupancy?view=timeline",
    "compare?a=01_naive&b=08b_three_bfloat16",
]


@pytest.fixture(scope="module")
def page(browser, server):
    context = context_of(browser, viewport=SIZE)
    page = context.new_page()
    page.url_of = lambda path: f"{server.url}/{path}"
    yield page
    context.close()


def wrong(page):
    """What is not wholly in the window at some of the steps, each fault once."""
    settled(page)
    last = count(page) - 1
    some = sorted({round(i * last / (STEPS - 1)) for i in range(STEPS)})
    return list(dict.fromkeys(re.sub(r"^step \d+: ", "", line) for line in page.evaluate(MEASURE, some)))


OFTEN = PICTURES[::3]


@pytest.mark.parametrize("path", [p if p in OFTEN else pytest.param(p, marks=pytest.mark.slow) for p in PICTURES])
def test_every_picture_is_in_the_window_at_every_step(page, path):
    page.set_viewport_size(SIZE)
    page.goto(page.url_of(path), wait_until="commit")
    shown(page)
    found = {}
    first = 0 if "?" in path else 1  # test_stage measures the first picture of every story
    for number in range(first, page.locator(".wg .pictures button").count() or 1):
        page.set_viewport_size(SIZE)
        page.keyboard.press(str(number + 1))
        for name, size in TIGHT.items():
            page.set_viewport_size(size)
            if faults := wrong(page):
                found[number + 1, name] = faults
    assert not found


@pytest.mark.parametrize(
    "path",  # a view of steps and a chart; the others look as the first
    [
        "tiling",
        "timing",
        *(pytest.param(p, marks=pytest.mark.slow) for p in ("block_table", "bank_conflicts")),
    ],
)
def test_the_guide_and_a_tab_leave_the_stage_in_the_window(page, path):
    page.set_viewport_size(SIZE)
    page.goto(page.url_of(path), wait_until="commit")
    shown(page)
    guide = page.locator(".wg .guide-button")
    if page.locator(".wg .guide").is_hidden():
        guide.click()
    assert page.locator(".wg .guide").is_visible() and not wrong(page)
    guide.click()
    page.locator(".wg .tabs [data-tab]").first.click()
    page.wait_for_function("() => document.querySelector('.wg').dataset.tab", timeout=60_000)
    assert not wrong(page)
