"""Small windows, and a page at 200 %: the picture keeps its height, the parts are one under the other, and the room
scrolls."""

import pytest
from browser.stepping import press, settled
from browser.test_depth import CONTROLS, MOST, depth_of
from playwright.sync_api import expect

SIZES = {
    "200 %": {"width": 750, "height": 500},
    "phone": {"width": 390, "height": 844},
    "low": {"width": 1200, "height": 480},
}
LEAST = 200  # pixels
BOXES = """() => ['.bar', '.picture', '.strip', '.guide', '.codes', '.tabs'].map(part => {
  const node = document.querySelector(`.wg .room ${part}`);
  if (!node?.checkVisibility() || !node.childElementCount) return null;
  const { top, bottom, left, right } = node.getBoundingClientRect();
  return { part, top, bottom, left, right };
}).filter(Boolean)"""


SLOW = [pytest.param(path, marks=pytest.mark.slow) for path in ("block_table", "tensor_cores", "bank_conflicts")]


@pytest.mark.parametrize("path", ["tiling", "timing", "compare", *SLOW])  # a view of steps, a chart and two panes
def test_guided_has_few_controls_and_no_probes_and_in_a_small_window_the_picture_keeps_its_height(visit, path):
    page = visit(f"/{path}", depth="guided", viewport={"width": 1280, "height": 720})
    assert depth_of(page) == "guided" and "depth" not in page.url
    if page.locator(".wg .guide").is_hidden():
        press(page, "g")
    controls = page.evaluate(CONTROLS)
    assert len(controls) <= MOST, controls
    for hidden in ("More", "Loop", "Builds", "machine code →"):
        assert hidden not in controls
    assert not page.locator(".wg .code .probe").filter(visible=True).count()
    for size in SIZES.values():
        page.set_viewport_size(size)
        keeps_its_height(page, size)
    page.set_viewport_size(SIZES["phone"])
    expect(page.get_by_role("button", name="More pages")).to_be_visible()


def keeps_its_height(page, size):
    page.evaluate("document.querySelector('.wg .room').scrollTop = 0")
    settled(page)
    boxes = page.evaluate(BOXES)
    picture = next(box for box in boxes if box["part"] == ".picture")
    assert picture["bottom"] - picture["top"] >= LEAST, size
    assert picture["top"] + LEAST <= size["height"], f"the picture is out of sight at {size}"
    stacked = size["width"] <= 760
    for n, one in enumerate(boxes):
        assert one["right"] <= size["width"] + 1, size
        for other in boxes[n + 1 :] if stacked else ():
            assert one["bottom"] <= other["top"] + 1, (size, one, other)
    page.wait_for_function(
        """part => { const room = document.querySelector('.wg .room');
          room.scrollTo(0, room.scrollHeight);
          return room.querySelector(part).getBoundingClientRect().bottom <= innerHeight + 1; }""",
        arg=boxes[-1]["part"],
    )


def test_the_guide_and_a_button_lead_to_the_question_under_the_picture(visit):
    page = visit("/tiling", depth="guided", viewport={"width": 640, "height": 360})
    press(page, "g", "g")
    expect(page.locator(".wg .guide .question")).to_be_in_viewport()
    page.evaluate("document.querySelector('.wg .room').scrollTop = 0")
    way = page.get_by_role("button", name="Question below")
    way.click()
    expect(page.locator(".wg .guide .question")).to_be_in_viewport()
    expect(way).to_be_hidden()
    press(page, "Escape")
    expect(way).to_be_hidden()
