"""The stage's own controls: chips and their lists, the divider, what hides probes, values of pictures by keyboard."""

import pytest
from browser.conftest import shown
from browser.stepping import choose, point_at, press, rail, step_of
from playwright.sync_api import expect

from explainers.models import tiling
from explainers.story import probed

LAPTOP, PHONE = {"width": 1280, "height": 720}, {"width": 390, "height": 844}
SMALL = "kernel=03_flash&seq_len=32&head_dim=32&backend=cpu"
HEARD = "[...document.querySelectorAll('.wg .view [aria-live]')].map(n => n.textContent).filter(text => text)"


# ---- chips ----


def test_a_kernel_is_a_chip_that_opens_a_list_by_pointer_and_by_keys(visit):
    page = visit(f"/tiling?{SMALL}")
    chip = page.locator('.wg .toolbar [data-name="kernel"]')
    assert chip.inner_text() == "03_flash FlashAttention" and not page.locator(".wg .toolbar select").count()
    chip.click()
    options = page.get_by_role("listbox", name="Kernel").get_by_role("option")
    assert options.count() == len(probed.accepting(tiling)) and chip.get_attribute("aria-expanded") == "true"
    expect(page.locator('.wg [data-choice="kernel=03_flash"]')).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox")).to_be_hidden()
    expect(chip).to_be_focused()
    page.keyboard.press("ArrowDown")
    before, step = page.locator(".wg").get_attribute("data-shown").split(" ")[1], step_of(page)
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    expect(page.locator('.wg [data-choice="kernel=02_tiled"]')).to_be_focused()
    page.keyboard.press("Enter")
    shown(page, "tiling", other=before)
    assert "kernel=02_tiled" in page.url and step_of(page) == step == 0  # the keys did not step
    expect(page.locator('.wg .toolbar [data-name="kernel"]')).to_be_focused()


def test_an_option_that_does_not_go_with_the_others_says_why_in_its_list(visit):
    page = visit("/tiling?backend=cpu")
    page.get_by_role("button", name="More", exact=True).click()
    page.locator('.wg .more [data-name="backend"]').click()
    gone = page.locator('.wg [data-choice^="backend="][aria-disabled=true]')
    if gone.count():
        assert gone.first.locator("small").inner_text()
        gone.first.dispatch_event("click")
        assert "backend=cpu" in page.url
    page.keyboard.press("Escape")
    expect(page.locator(".wg .more")).to_be_visible()  # only the list is closed


@pytest.mark.parametrize(
    ("path", "size"),
    [
        ("tiling", LAPTOP),
        ("timing", LAPTOP),
        ("compare", PHONE),
        pytest.param("block_table", PHONE, marks=pytest.mark.slow),
        pytest.param("bank_conflicts", LAPTOP, marks=pytest.mark.slow),
    ],
)
def test_the_toolbar_fits(visit, path, size):
    page = visit(f"/{path}{'' if path == 'timing' else '?backend=cpu'}", viewport=size)
    bar, clock = page.locator(".wg .toolbar").bounding_box(), page.locator(".wg .bar").bounding_box()
    assert bar["x"] + bar["width"] <= size["width"] and bar["y"] + bar["height"] <= clock["y"] + 1
    most = 36 if size is PHONE or path in ("tiling", "compare") else 108 if path == "timing" else 72
    assert bar["height"] < most  # How fast has a button for each line
    for name in ("More", "Copy link"):
        one = page.get_by_role("button", name=name, exact=True)
        assert not one.count() or (box := one.bounding_box())["x"] + box["width"] <= size["width"]


# ---- the divider ----


def heights(page):
    return [page.locator(f".wg .{name}").bounding_box()["height"] for name in ("picture", "codes")]


@pytest.mark.parametrize(("path", "size"), [("block_table?view=partitions", LAPTOP)])
def test_where_code_is_under_the_picture_a_divider_lies_between_them(visit, path, size):
    page = visit(f"/{path}{'&' if '?' in path else '?'}backend=cpu", viewport=size)
    divider = page.locator(".wg .divider")
    assert divider.get_attribute("aria-orientation") == "horizontal"
    over, under = heights(page)
    divider.focus()
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    assert heights(page)[0] > over + 10 and heights(page)[1] < under - 10 and step_of(page) == 0
    box = divider.bounding_box()
    page.mouse.move(box["x"] + 50, box["y"] + 3)
    page.mouse.down()
    page.mouse.move(box["x"] + 50, box["y"] - 37, steps=4)
    page.mouse.up()
    moved = divider.bounding_box()["y"]
    assert moved == pytest.approx(box["y"] - 40, abs=4)
    page.reload()
    shown(page)
    assert divider.bounding_box()["y"] == pytest.approx(moved, abs=2)


def test_beside_the_code_the_divider_stands_and_keeps_its_own_place(visit):
    page = visit(f"/tiling?{SMALL}", viewport=LAPTOP)
    divider = page.locator(".wg .divider")
    assert divider.get_attribute("aria-orientation") == "vertical"
    before = divider.bounding_box()["x"]
    divider.focus()
    press(page, "ArrowLeft", "ArrowLeft")
    assert divider.bounding_box()["x"] < before - 20
    assert divider.get_attribute("aria-valuenow") == "54"


# ---- code ----


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_probes_stay_hidden_and_machine_code_is_reached_at_every_width(visit, size):
    page = visit(f"/tiling?{SMALL}", viewport=size)
    probes = page.locator(".wg .code .probe:not(.lit)")
    assert probes.first.evaluate("row => getComputedStyle(row).display") == "grid"
    page.get_by_label("hide probes").check()
    assert probes.first.evaluate("row => getComputedStyle(row).display") == "none"
    choose(page, "what_if", "RESCALE")
    expect(page.get_by_label("hide probes")).to_be_checked()
    rail(page, "online_softmax")
    page.reload()
    shown(page)
    expect(page.get_by_label("hide probes")).to_be_checked()
    assert probes.first.evaluate("row => getComputedStyle(row).display") == "none"
    page.keyboard.press("Escape")  # the guide, which opens at a stop's first visit, stands over a phone's code
    page.get_by_role("button", name="machine code").click()
    shown(page, "source")


def test_two_panes_hide_their_probes_together(visit):
    page = visit("/compare?backend=cpu")
    page.get_by_label("hide probes").first.check()
    expect(page.get_by_label("hide probes").nth(1)).to_be_checked()
    assert page.locator(".wg .code.without-probes").count() == 2


# ---- values by keyboard ----


def test_what_the_keyboards_cursor_is_on_is_announced(visit):
    page = visit(f"/tiling?{SMALL}")
    page.mouse.move(*point_at(page, "Matrices", tensor="Q", query=3, dim=5))
    assert not page.evaluate(HEARD)  # a pointer is not
    page.locator(".wg .sheet canvas").focus()
    press(page, "Alt+ArrowRight")
    said = page.locator(".wg .tip:not([hidden])").inner_text().replace("\n", "; ")
    assert said and page.evaluate(HEARD) == [said]


@pytest.mark.parametrize("path", ["timing", "memory_hierarchy?picture=latency"])
def test_values_of_a_chart_are_walked_by_keys_and_announced(visit, path):
    page = visit(f"/{path}")
    page.wait_for_selector(".wg .view > .chart[tabindex]", timeout=30_000)
    chart, told, step = page.locator(".wg .view > .chart"), set(), step_of(page)
    chart.focus()
    for key in ["Alt+ArrowRight"] * 4 + ["Alt+ArrowUp", "Alt+ArrowLeft"]:
        press(page, key)
        (heard,) = page.evaluate(HEARD)
        tip = page.locator(".wg .view .tip:not([hidden])")
        assert heard == tip.inner_text().replace("\n", "; ") and heard.count("; ") >= 3
        inside, box = tip.bounding_box(), chart.bounding_box()
        assert inside["x"] >= box["x"] and inside["x"] + inside["width"] <= box["x"] + box["width"] + 1
        told.add(heard)
    assert len(told) >= 5 and step_of(page) == step
    for _ in range(10):  # neighbours can have one nearest step
        press(page, "Enter")  # as a click there
        if step_of(page) != step:
            break
        press(page, "Alt+ArrowRight")
    assert step_of(page) != step
    page.evaluate("document.activeElement.blur()")
    expect(page.locator(".wg .view .tip")).to_be_hidden()
    press(page, "ArrowLeft")
