"""The course walked stop by stop: each question is answered wrongly, then asked to be shown, with the picture in sight
and its answer nowhere, and it has its answer on return; and the start page, which moves by itself. `-k NAME` walks one
stop."""

import io
import re
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import numpy as np
import pytest
from browser.conftest import shown
from browser.stepping import HURRIED, asked_now, point_at, step_of
from browser.test_depth import CONTROLS, MOST
from PIL import Image
from playwright.sync_api import expect

from app.course import checks, stops
from explainers.story import encoding, terms

STOPS = stops()
LAPTOP = {"width": 1280, "height": 720}
SIZES = [(1280, 720), *(pytest.param(size, marks=pytest.mark.slow) for size in ((1500, 1000), (390, 844), (750, 500)))]
COURSE = [stop for stop in STOPS if not stop.shelf]
WALKED = [  # every fifth stop of the course, and the others with the slow tests
    stop if stop.number % 5 == 1 else pytest.param(stop, marks=pytest.mark.slow) for stop in STOPS if stop.questions
]
BLANK = 0.005  # the share of painted pixels of a picture with hardly anything in it
KEPT = "JSON.parse(localStorage.getItem('warpglass-stops') ?? '{}')"


def questions_of(page, stop):
    """The questions of the very stage that the page shows, in the stop's order, with their answers."""
    bundle = page.evaluate("document.querySelector('.wg').dataset.shown").split(" ")[1]
    sent = page.request.get(f"{page.evaluate('location.origin')}/wg/bundle/{bundle}")
    found = {question["id"]: question for question in encoding.decode(sent.body())["questions"]}
    return [found[id] for id in stop.questions]


def place_of(page, question):
    """Where what the question asks for is drawn. What may be one of several is [first, last]."""
    wanted = {key: due[0] if isinstance(due, list) else due for key, due in question["answer"].items()}
    page.wait_for_function("window.clock.views.length")  # between two stages there is none
    title = page.evaluate("window.clock.views[0].title")
    return point_at(page, title, **wanted)


def click_beside(page, question):
    """Clicks something of the picture that is not the answer, as far from it as can be; False if there is nothing."""
    box = page.locator(".wg .sheet canvas").first.bounding_box()
    said = page.locator(".wg .guide .answer p")
    away_x, away_y = place_of(page, question)
    places = [
        (box["x"] + box["width"] * (n * 7 % 60) / 60, box["y"] + box["height"] * (n * 11 % 60) / 60)
        for n in range(1, 60)
    ]
    for x, y in sorted(places, key=lambda place: -((place[0] - away_x) ** 2) - (place[1] - away_y) ** 2):
        page.mouse.click(x, y)
        if said.count() and said.first.inner_text().startswith("Not "):
            return True
    return False


def wrong_option(question, again):
    return (question["answer"] + 1 + again) % len(question["options"])


def answer(page, question, right, again=False):
    ask = page.locator(".wg .guide .ask")
    if question["kind"] == "options":
        n = question["answer"] if right else wrong_option(question, again)
        ask.locator(f'[data-option="{n}"]').click()
    elif question["kind"] == "number":
        ask.get_by_label("Your answer").fill(str(question["answer"] if right else question["answer"] * 3 + 1 + again))
        ask.get_by_role("button", name="Answer").click()
    elif right:
        page.mouse.click(*place_of(page, question))
    else:
        click_beside(page, question)
    return page.locator(".wg .guide .answer").inner_text()


def answered_in_sight(page, question, wrong):
    """The question is in sight, and so many wrong options with a cross, the last one chosen, each with its reason."""
    ask = page.locator(".wg .guide .ask")
    expect(ask.locator(".question")).to_be_in_viewport()
    if question["kind"] != "options":
        return
    expect(ask.locator(".option.off")).to_have_count(wrong)
    expect(ask.locator('.option.off[aria-pressed="true"]')).to_be_in_viewport(ratio=1)
    for again in range(wrong):
        reason = question["reasons"][wrong_option(question, again)]
        assert reason and reason in ask.locator(".options").inner_text(), question


def box_of(page, selector):
    return page.locator(selector).first.bounding_box()


def to_the_top(page):
    page.evaluate("document.querySelector('.wg .room').scrollTop = 0")


def in_the_window(page):
    """The clock, the sentence, the picture and the card are inside the window. A small window stacks them and scrolls:
    there the picture may go on below the window, and the card is found by scrolling."""
    size = page.viewport_size
    small = size["width"] <= 760 or size["height"] <= 560
    to_the_top(page)
    for selector in (".wg .clock", ".wg .narration", ".wg .guide", ".wg .picture > .view"):
        box = box_of(page, selector)
        assert box["x"] >= -1 and box["x"] + box["width"] <= size["width"] + 1, (selector, box)
        if small and selector == ".wg .guide":
            continue
        tall = 120 if small and selector.endswith("view") else box["height"]
        assert box["y"] >= -1 and box["y"] + tall <= size["height"] + 1, (selector, box)
    if small:
        page.locator(".wg .guide .question").scroll_into_view_if_needed()
        expect(page.locator(".wg .guide .question")).to_be_in_viewport()


def painted(page):
    """The share of the picture's pixels that are not its background, without the card over it."""
    to_the_top(page)  # a small window has scrolled to the card
    size, card, box = page.viewport_size, box_of(page, ".wg .guide"), box_of(page, ".wg .picture > .view")
    left, top = max(0, int(box["x"])), max(0, int(box["y"]))
    width = min(size["width"], int(box["x"] + box["width"])) - left
    height = min(size["height"], int(box["y"] + box["height"])) - top
    shot = page.screenshot(clip={"x": left, "y": top, "width": width, "height": height})
    seen = np.asarray(Image.open(io.BytesIO(shot)).convert("L"), dtype=float)
    apart = np.ones(seen.shape, dtype=bool)
    if card:
        x, y = card["x"] - left, card["y"] - top
        apart[max(0, int(y)) : max(0, int(y + card["height"])), max(0, int(x)) : max(0, int(x + card["width"]))] = False
    pixels = seen[apart]
    background = np.bincount(pixels.astype(int)).argmax()
    return float((abs(pixels - background) > 8).mean())


def not_blank(page, name):
    for _ in range(20):  # a chart is drawn a moment later
        if painted(page) > BLANK:
            return
        page.wait_for_timeout(200)
    raise AssertionError(f"{name}: the picture is blank, with {painted(page):.2%} of its pixels painted")


# The visible texts apart from the card.
TEXTS = """() => { const found = [], root = document.querySelector('.wg');
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (parent.closest('.guide, .code, header, .toolbar, option, title, desc') || !node.data.trim()) continue;
    if (parent.checkVisibility({ visibilityProperty: true, opacityProperty: true })) found.push(node.data.trim());
  }
  return [...found, ...window.clock.views.flatMap(view => view.texts ?? [])]; }"""


def tells(page, question):
    """The visible texts with what the question hides."""
    words = [re.compile(rf"(?<![\w.,]){re.escape(word)}(?![\w]|[.,]\d)") for word in question["hides"]]
    return [text for text in page.evaluate(TEXTS) if any(word.search(text) for word in words)]


def inert(page, question):
    """Whether the card takes no answer. Its text stays, whatever is pressed."""
    said = page.locator(".wg .guide .answer").inner_text()
    if question["kind"] == "options":
        for option in page.locator(".wg .guide .option").all():
            assert option.get_attribute("aria-disabled") == "true", option.inner_text()
            option.dispatch_event("click")
    elif question["kind"] == "click":
        page.mouse.click(*place_of(page, question))
    elif page.locator(".wg .guide .ask [type=submit]").is_enabled():
        return False
    return page.locator(".wg .guide .answer").inner_text() == said


def walk_stop(page, stop):
    """Each question of a stop, with wrong answers and Show me, and on return with its answer."""
    guide = page.locator(".wg .guide")
    expect(guide).to_be_visible()
    assert stop.title in guide.locator("h2").inner_text()
    questions = questions_of(page, stop)
    assert len(questions) == len(stop.questions)
    for number, question in enumerate(questions, 1):
        name = f"{stop.name}, {question['id']}"
        asked_now(page)
        expect(guide.locator(".question")).to_have_text(question["text"])
        if number > 1 and page.evaluate("window.clock.count") > 1:
            assert step_of(page) == question["step"], f"{name}: asked where the question before ended"
        in_the_window(page)
        not_blank(page, name)
        assert not tells(page, question), f"{name}: {question['hides']} in {tells(page, question)}"
        first = answer(page, question, right=False)
        assert question["why"] not in first and "Try once more" in first, (name, first)
        assert question["id"] not in page.evaluate(KEPT).get(stop.name, {}).get("done", ()), name
        assert not tells(page, question), f"{name}: a first wrong answer uncovers it"
        answered_in_sight(page, question, 1)
        if len(question["options"]) == 2:
            guide.locator("[data-show]").click()
            told = guide.locator(".answer").inner_text()
        else:
            told = answer(page, question, right=False, again=True)
            answered_in_sight(page, question, 2)
        assert page.locator(".wg").get_attribute("data-veils") == "", name
        assert question["why"] in told and "Right" not in told, (name, told)
        if page.evaluate("window.clock.count") > 1:
            seen_at = (question["shows"] or {}).get("to", question["step"])
            assert step_of(page) == seen_at, f"{name}: a second wrong answer is shown where it can be seen"
        assert inert(page, question), f"{name}: who was told the answer can still answer"
        guide.locator("[data-show]").click()
        assert question["why"] in guide.locator(".answer").inner_text(), name
        not_blank(page, f"{name}, answered")
        if number < len(questions):
            guide.locator('[data-turn="Next question"]').click()
    for question in questions[-2::-1]:
        guide.locator('[data-turn="Previous question"]').click()
        assert question["why"] in guide.locator(".answer").inner_text() and inert(page, question), question["id"]
        assert guide.locator('[data-go="next"]').is_visible() or stop.shelf or stop is COURSE[-1]
    kept = page.evaluate(KEPT)[stop.name]
    assert kept["all"] and set(kept["done"]) == {question["id"] for question in questions}
    assert page.locator(f'.wg nav [data-stop="{stop.name}"] .mark').get_attribute("title") == "all questions seen"


def opened(visit, stop, size):
    """The stop by its link, in the Guided depth and with the card open."""
    choices = urlencode({"stop": stop.name, **stop.choices, **({"picture": stop.picture} if stop.picture else {})})
    ready = "sessionStorage.setItem('warpglass-guide', 'open')"
    window = dict(zip(("width", "height"), size))
    return visit(f"/{stop.story}?{choices}", viewport=window, depth="guided", script=ready)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("stop", WALKED, ids=lambda stop: stop.name)
def test_a_stop_is_walked_with_wrong_and_right_answers(visit, stop, size):
    page = opened(visit, stop, size)
    controls = page.evaluate(CONTROLS)
    walk_stop(page, stop)
    assert len(controls) <= MOST, controls


def go_on(page):
    """To the next stop. The card offers it at the last step."""
    following = page.locator('.wg .guide [data-go="next"]')
    page.wait_for_function("window.clock.count > 1")
    page.evaluate("window.clock.set(0, 'user')")
    assert following.is_hidden()
    page.evaluate("window.clock.set(window.clock.count - 1, 'user')")
    following.click()


LAST = COURSE[-3:]
THROUGH = [pytest.param(LAST, id="ends"), pytest.param(COURSE[2:], id="all", marks=pytest.mark.slow)]


@pytest.mark.parametrize("then", THROUGH)
def test_the_course_leads_from_the_first_stop_to_the_last_and_back_by_the_rail(visit, then):
    """By the buttons of the first two stops and of the last three, and of all when there is time."""
    page = visit("/", wait=".wg .start .button.first", viewport=LAPTOP)
    assert page.locator(".wg .start .cards a").count() == len(STOPS)
    page.locator(".wg .start .button.first").click()
    for stop in COURSE[:2]:
        at_stop(page, stop)
        go_on(page)
    at_stop(page, COURSE[2])
    if then is LAST:
        page.locator(f'.wg nav .stops [data-stop="{LAST[0].name}"]').click()
    for stop in then[:-1]:
        at_stop(page, stop)
        go_on(page)
    at_stop(page, COURSE[-1])
    page.go_back()
    at_stop(page, COURSE[-2])
    page.locator(f'.wg nav .stops [data-stop="{COURSE[0].name}"]').click()
    at_stop(page, COURSE[0])
    page.reload()
    at_stop(page, COURSE[0])


def at_stop(page, stop):
    shown(page, stop.story)
    expect(page.locator(".wg nav .stops [aria-current]")).to_have_attribute("data-stop", stop.name)
    assert dict(parse_qsl(urlsplit(page.url).query))["stop"] == stop.name
    for name, text in stop.choices.items():
        if name != "moment":  # the address has its step
            assert dict(parse_qsl(urlsplit(page.url).query))[name] == text, (stop.name, name)


def test_a_link_without_a_stop_marks_the_stop_of_its_choices(visit):
    for link, name in (
        ("/tiling?kernel=02_tiled&backend=cpu", "tiles"),
        ("/block_table?view=heads&backend=cpu", "grouped_heads"),
        ("/tiling?kernel=05_register_tiles&backend=cpu", "as_written"),  # of none: the page's first
    ):
        page = visit(link)
        expect(page.locator(".wg nav .stops [aria-current]")).to_have_attribute("data-stop", name)
    page = visit("/block_table?stop=partitions&backend=cpu")  # its choices are the stop's
    assert dict(parse_qsl(urlsplit(page.url).query))["view"] == "partitions"
    page = visit("/source?kernel=02_tiled")
    assert not page.locator(".wg nav .stops [aria-current]:visible").count()


def test_the_guide_opens_when_it_is_asked_for_and_space_plays_after_it_is_closed(visit):
    page = visit("/tiling?backend=cpu")  # by a link: nobody is asked
    guide = page.locator(".wg .guide")
    expect(guide).to_be_hidden()
    page.locator(".wg .guide-button").click()
    expect(guide).to_be_visible()
    page.keyboard.press("Escape")
    expect(guide).to_be_hidden()
    expect(page.locator(".wg .guide-button")).to_be_focused()
    page.locator(".wg .guide-button").click()
    page.keyboard.press("ArrowRight")
    assert step_of(page) == 1  # the clock goes on beside it
    guide.get_by_label("Close the guide").click()
    expect(guide).to_be_hidden()
    page.locator(".wg .guide-button").click()
    for way in ("g", "Escape", "x"):
        expect(guide).to_be_visible()
        if way == "x":
            guide.get_by_label("Close the guide").click()
        else:
            page.keyboard.press(way)
        expect(guide).to_be_hidden()
        page.keyboard.press(" ")
        page.wait_for_function("window.clock.playing")
        expect(guide).to_be_hidden()
        page.keyboard.press(" ")
        page.wait_for_function("!window.clock.playing")
        page.keyboard.press("Tab")
        page.keyboard.press("Shift+Tab")
        page.keyboard.press(" ")  # by then the button is a button again
        expect(guide).to_be_visible()


def test_terms_are_explained_where_they_stand_and_answers_are_reached_without_a_pointer(visit):
    page = visit("/tiling?backend=cpu")
    term = page.locator(".wg .term").first
    term.wait_for(timeout=20_000)  # texts are looked through once the page has rested
    for point in (term.hover, term.focus):
        point()
        meaning = page.locator("#wg-meaning")
        expect(meaning).to_be_visible()
        name = term.get_attribute("data-term")
        assert meaning.inner_text() == f"{name} {terms.TERMS[name].said}"
        page.keyboard.press("Escape")
        expect(meaning).to_be_hidden()
        page.mouse.move(5, 700)
    page.locator(".wg .guide-button").focus()
    page.keyboard.press("Enter")
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.wg .guide .option, .wg .guide input')"):
            break
    else:
        raise AssertionError("no answer can be reached by Tab")


# ---- the start page ----


def test_the_start_page_moves_by_itself_says_where_from_and_can_be_paused(visit):
    page = visit("/", wait=".wg .start [data-alive]")
    assert page.locator(".wg .start .label").first.inner_text() == "modelled"
    page.wait_for_function("window.clock.step > 0", timeout=20_000)
    page.locator(".wg .start [data-action=play]").click()
    paused = step_of(page)
    page.wait_for_timeout(3000)  # longer than a step
    assert step_of(page) == paused and page.locator(".wg .start .sentence").inner_text()
    page.locator(".wg .start summary").click()
    page.wait_for_selector(".wg .start .rungs [data-rung]", timeout=60_000)
    assert page.locator(".wg .start h1").inner_text() == "The same answer, with fewer trips to memory."
    assert "GB of memory" in page.locator(".wg .start .result").inner_text()
    assert page.locator(".wg .start .cards a").count() == len(STOPS)


def test_who_wants_no_motion_is_shown_none(visit):
    page = visit("/", wait=".wg .start [data-alive]", reduced_motion="reduce", script=HURRIED)
    page.wait_for_timeout(200)
    assert step_of(page) == page.evaluate("window.clock.count") - 1  # the end, at rest


# ---- the checks ----


def test_the_checks_are_asked_and_one_sentence_of_each_stop_is_saved(visit):
    page = visit("/checks", viewport=LAPTOP)
    cards = page.locator(".wg .checks .asked > li")
    asked = cards.count()
    assert asked == len(checks()) == 7
    for n, card in enumerate(cards.all()):
        for option in card.locator(".option").all()[n % 3 :]:
            if card.get_attribute("data-state") == "open":
                option.click()
        state = card.get_attribute("data-state")
        start = "Right." if state == "right" else "The right answer has a tick."
        assert card.locator(".reply").inner_text().startswith(start)
    right = page.locator('.wg .checks [data-state="right"]').count()
    expect(page.locator(".wg .checks .result")).to_have_text(f"{right} of {asked} are right.")
    page.locator(".wg .checks summary").click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as text").click()
    text = Path(saved.value.path()).read_text()
    assert all(f"**{stop.title}.** {stop.idea}" in text for stop in STOPS if stop.questions)
    page.reload()
    expect(page.locator(".wg .checks .result")).to_have_text(f"{right} of {asked} are right.")  # kept in this browser
    page.get_by_role("button", name="Start again").click()
    assert page.locator('.wg .checks [data-state="open"]').count() == asked
    page.locator('.wg .checks [data-check="rescale"] .back a').click()
    at_stop(page, next(stop for stop in STOPS if stop.name == "one_pass"))
