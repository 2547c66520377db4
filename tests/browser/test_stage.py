"""The stage of every story, opened once and looked at four ways: nothing shifts while it loads; clock, sentence,
picture and lit code are in the window at every step, at four sizes; stepping asks nothing of the server; axe finds
nothing."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from browser.conftest import SIZE, context_of, empty, shown
from browser.stepping import Requests, count, settled, walked
from playwright.sync_api import expect

from app.stories import STORIES
from app.web import asking
from explainers.story import encoding
from kernels.run import workers

HERE = Path(__file__).parent
SIZES = {"laptop": (1280, 720), "middle": (1500, 1000), "large": (1920, 1080), "phone": (390, 844)}
LEAST = {"laptop": 12, "middle": 13, "large": 14, "phone": 11}  # CSS pixels of text on a canvas
MOST_STEPS = 24  # of a story with more, some are looked at
# What is right is not listed: on a page of code that took three times as long as looking. Style sheets are not asked
# for again.
RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],
    "preload": False,
}
SAME = {"exclude": [[".wg .code .row:nth-child(n + 30):not(.lit)"]]}  # lines of code are alike: the first ones do
OF_COLOURS = {**RULES, "runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}

WATCH = (HERE / "watch.js").read_text()  # before a page begins: what shifts, and how large text on canvases is
MEASURE = (HERE / "measure.js").read_text()  # what is not wholly in the window at each of these steps, and why


PATHS = [path for path in STORIES if path != "start"]  # which has no stage
# axe looks at every sixth page: what is around the picture is alike on all. The large window, which seldom cuts what a
# laptop shows whole, is for every third. The slow tests look at all pages, also in a window between two others.
THIRD = PATHS[1::3]
OF_AXE = [pytest.param(path, marks=[] if path in PATHS[1::6] else pytest.mark.slow) for path in PATHS]


@pytest.fixture(scope="module")
def watched(browser):
    """A page whose shifts, texts and requests are watched. A second story opens in it in half the time."""
    context = context_of(browser, viewport=SIZE)
    page = context.new_page()
    page.errors, page.requests = [], Requests(page)
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.add_init_script(WATCH)
    yield page
    context.close()


@pytest.fixture(scope="module", params=PATHS)
def opened(request, watched, server):
    """(path, page): a story's page, opened once for all that is looked at here; with what it asks in page.requests."""
    page = watched
    page.set_viewport_size(SIZE)
    page.emulate_media(color_scheme="light")
    page.goto(
        f"{server.url}/{request.param}{'?backend=cpu' if 'backend' in asks(request.param) else ''}", wait_until="commit"
    )
    shown(page, request.param)
    page.wait_for_selector(".wg .lead[aria-busy=true]", state="detached")  # asked for after the picture
    page.requests.rest(0.3)
    yield request.param, page
    errors = page.errors.copy()
    page.errors.clear()
    empty(page, server.url)
    assert not errors


def asks(path):
    return [choice["name"] for choice in asking.ask(STORIES[path], {}, workers.survey()).choices]


def steps(page):
    """All steps, or as many as there is time for: the first, the last, and evenly between."""
    n = count(page)
    return (
        sorted({round(i * (n - 1) / min(n - 1, MOST_STEPS)) for i in range(min(n - 1, MOST_STEPS) + 1)})
        if n > 1
        else [0]
    )


def test_nothing_shifts_while_the_page_loads(opened):
    _, page = opened
    shifts = page.evaluate("shifts")
    assert sum(shift["value"] for shift in shifts) < 0.1, "\n".join(f"{s['value']:.4f} {s['from']}" for s in shifts)


@pytest.mark.parametrize("sizes", ["some", pytest.param("all", marks=pytest.mark.slow)])
def test_clock_sentence_picture_and_lit_code_are_in_the_window_at_every_step(opened, sizes):
    path, page = opened
    names = SIZES if sizes == "all" else ["laptop", "phone", "large"] if path in THIRD else ["laptop", "phone"]
    found = {name: wrong for name in names if (wrong := wrong_in_the_window(page, name))}
    page.set_viewport_size(SIZE)  # the other tests look at this window
    settled(page)
    assert not found


def wrong_in_the_window(page, name):
    """What is cut, hidden or too small in a window of that size, each fault once."""
    page.set_viewport_size(dict(zip(("width", "height"), SIZES[name])))
    # As before the lead is there. With it, Compare's picture needs 164 pixels, and its pane on a laptop has 138.
    page.locator(".wg .lead").evaluate(
        "(node, hide) => { node.hidden = hide || !node.childElementCount; }", name == "laptop"
    )
    settled(page)
    page.evaluate("fonts.clear(); cut.clear(); document.querySelectorAll('.wg nav [data-stop]').forEach(tick)")
    wrong = [re.sub(r"^step \d+: ", "", line) for line in page.evaluate(MEASURE, steps(page))]
    wrong += [f'"{text}" on a canvas is cut by {by} pixels' for text, by in page.evaluate("[...cut]")]
    fonts = page.evaluate("Object.fromEntries(fonts)")
    if fonts and fonts["size"] < LEAST[name]:
        wrong.append(f"a canvas has text of {fonts}")
    code = page.evaluate(
        "[...document.querySelectorAll('.wg .code')].map(c => parseFloat(getComputedStyle(c).fontSize))"
    )
    gutter = page.evaluate(
        "[...document.querySelectorAll('.wg .code .number')].slice(0, 1).map(n => n.getBoundingClientRect().width)"
    )
    if any(size < 14 for size in code) or any(width > 60 for width in gutter):
        wrong.append(f"text of code is {code} high, and a gutter {gutter} wide")
    return list(dict.fromkeys(wrong))


def test_every_step_says_what_the_run_says_and_stepping_asks_nothing_of_the_server(opened, server):
    """Sentence, title, lit lines with their counts, the strip and the pictures' words, against its own stage."""
    path, page = opened
    page.set_viewport_size(SIZE)
    settled(page)
    stage = SimpleNamespace(**encoding.decode(page.request.get(f"{server.url}/wg/bundle/{shown(page, path)}").body()))
    first = stage.views[0]["meta"] if stage.views else {}
    own = first if first.get("clock") else {"frames": stage.frames, "state": stage.state}  # a picture's own clock
    frames = own["frames"] or [{"title": "", "sentence": stage.summary}]
    page.requests.asked.clear()
    page.keyboard.press("Home")
    for step, (frame, said) in enumerate(zip(frames, walked(page, min(MOST_STEPS, len(frames))))):
        assert said["step"] == step and said["title"] == frame["title"]
        assert said["sentences"] == (frame.get("sentences") or [frame["sentence"]])
        assert len(frames) == 1 or said["counter"] == f"{step + 1} / {len(frames)}"
        assert said["lit"] == [sorted(frame.get(code["lit"]) or ()) for code in stage.codes]
        times = [time for code in stage.codes for time in (frame.get(code["lit"]) or {}).items()]
        assert sorted(said["counts"]) == sorted([place, f"{n:,}×" if n > 1 else ""] for place, n in times)
        assert all(said["labels"]), "a canvas without a text alternative"
        assert [name for name, _ in said["state"]] == [entry["name"] for entry in own["state"]]
        for (name, text), entry in zip(said["state"], own["state"]):
            assert same_value(text, entry["values"][step], entry["unit"]), (step, name, text, entry["values"][step])
    page.keyboard.press("ArrowRight")
    last = min(MOST_STEPS, len(frames) - 1) + 1
    if len(frames) > 1:
        expect(page).to_have_url(re.compile(rf"[?&]step={last}(&|$)"))  # written when one rests
    # Chromium looks for its icon anew
    assert not [asked for asked in page.requests.asked if "/media/" not in str(asked)]


def same_value(text, value, unit):
    """Whether the strip's text is that value: a number to six digits, with its unit."""
    if value is None:
        return text == "–"
    if isinstance(value, str):
        return text in (value, value.replace("nan", "NaN"))
    number = text.split(" ")[0].replace(",", "")
    return float(number) == pytest.approx(value, rel=1e-5, abs=1e-12) and (not unit or unit in text)


@pytest.mark.parametrize("opened", OF_AXE, indirect=True)
@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_axe_finds_nothing(opened, theme):
    _, page = opened
    page.emulate_media(color_scheme=theme)
    settled(page)
    page.wait_for_function(
        "document.getAnimations().every(a => a.playState !== 'running' || a.effect.getTiming().iterations === Infinity)"
    )
    if theme == "dark":
        axe(page, rules=OF_COLOURS)  # all else is as in light
        return
    axe(page)
    more = page.get_by_role("button", name="More", exact=True)
    if more.is_visible():
        more.click()
        axe(page, ".wg .toolbar")
        page.keyboard.press("Escape")
    chip = page.locator(".wg .provenance")
    if chip.is_visible():
        chip.click()
        axe(page, ".wg .head")
        chip.click()


@pytest.mark.slow
def test_every_tab_opens_and_draws_and_axe_finds_nothing(opened):
    _, page = opened
    page.emulate_media(color_scheme="light")
    for name in page.evaluate("[...document.querySelectorAll('.wg .tabs [data-tab]')].map(b => b.dataset.tab)"):
        page.locator(f'.wg .tabs [data-tab="{name}"]').click()
        page.wait_for_function("name => document.querySelector('.wg').dataset.tab === name", arg=name, timeout=60_000)
        page.wait_for_function(
            "() => [...document.querySelectorAll('.wg .drawer .chart')].every(c => c.querySelector('canvas, svg'))",
            timeout=30_000,
        )
        said = page.locator(".wg .drawer").inner_text()
        assert said.strip() and "Traceback" not in said and not page.locator(".wg .drawer > .note.bad").count(), said
        box = page.locator(".wg .bar").bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= SIZE["height"]  # clock and sentence stay
        axe(page, ".wg .drawer")
        page.locator(f'.wg .tabs [data-tab="{name}"]').click()


def axe(page, where=None, rules=RULES):
    """No violation on the page, or in a part of it. Of a page's code it looks at the first lines."""
    if not page.evaluate("!!window.axe"):
        page.evaluate(AXE_SCRIPT)
    found = page.evaluate("([where, options]) => axe.run(where, options)", [where or SAME, rules])["violations"]
    assert not found, "\n".join(
        f"{v['id']}: {v['help']}: {len(v['nodes'])} nodes, such as {v['nodes'][0]['html'][:160]} "
        f"({v['nodes'][0]['failureSummary'][:300]})"
        for v in found
    )


# ---- the start page, which has no stage ----


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_the_start_page_shifts_nothing_scrolls_by_itself_and_axe_finds_nothing(visit, theme):
    page = visit("/", wait=".wg .start [data-alive]", script=WATCH, color_scheme=theme)
    page.wait_for_selector(".wg .start .rungs [data-rung]", state="attached", timeout=60_000)
    page.locator(".wg .start [data-action=play]").click()
    shifts = page.evaluate("shifts")
    assert sum(shift["value"] for shift in shifts) < 0.1, "\n".join(f"{s['value']:.4f} {s['from']}" for s in shifts)
    for width, height in SIZES.values():
        page.set_viewport_size({"width": width, "height": height})
        settled(page)
        for selector in ("header.head", ".wg .start .sentence", ".wg .start .moving canvas"):
            box = page.locator(selector).first.bounding_box()
            inside = box["x"] >= -1 and box["x"] + box["width"] <= width + 1 and box["y"] >= 0
            assert inside and (box["y"] + box["height"] <= height + 1 or width < 500), (width, selector, box)
        wide = page.evaluate(
            "[document.scrollingElement, ...document.querySelectorAll('.wg .room, .wg .start')]"
            ".map(n => n.scrollWidth - n.clientWidth)"
        )
        assert max(wide) <= 1, (width, wide)
    page.set_viewport_size(SIZE)
    axe(page)
