"""The course walked from its first stop to its last: at each every question is answered wrongly, then rightly, then
asked to be shown; and the start page, which moves by itself."""

import pytest
from browser.conftest import SIZE, shown
from browser.stepping import point_at, step_of
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import expect

from app.stories import STORIES
from explainers.story import encoding, glossary

STOPS = [path for path, story in STORIES.items() if story.stop]
KEPT = "JSON.parse(localStorage.getItem('warpglass-course') ?? '{}')"


def questions_here(page):
    """The questions of the very stage that the page shows, with their answers."""
    bundle = page.evaluate("document.querySelector('.wg').dataset.shown").split(" ")[1]
    sent = page.request.get(f"{page.evaluate('location.origin')}/wg/bundle/{bundle}")
    return encoding.decode(sent.body())["questions"]


def titles(page):
    return page.evaluate("window.clock.views.map(view => view.title)")


def place_of(page, question):
    """Where what the question asks for is drawn. What may be one of several is [first, last]."""
    wanted = {key: due[0] if isinstance(due, list) else due for key, due in question["answer"].items()}
    page.wait_for_function("window.clock.views.length")  # between two stages there is none
    (title, *_) = titles(page)
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


def answer(page, question, right):
    """Answers; what the card then says."""
    ask = page.locator(".wg .guide .ask")
    if question["kind"] == "options":
        n = question["answer"] if right else (question["answer"] + 1) % len(question["options"])
        ask.locator(f'[data-option="{n}"]').click()
    elif question["kind"] == "number":
        ask.get_by_label("Your answer").fill(str(question["answer"] if right else question["answer"] * 3 + 1))
        ask.get_by_role("button", name="Answer").click()
    elif right:
        page.mouse.click(*place_of(page, question))
    else:
        click_beside(page, question)
    return page.locator(".wg .guide .answer").inner_text()


def in_the_window(page):
    """Clock, sentence and the card stand in the window, and nothing covers the sentence."""
    for selector in (".wg .narration", ".wg .guide", ".wg .picture > .view"):
        for box in (node.bounding_box() for node in page.locator(selector).all() if node.is_visible()):
            assert box["x"] >= -1 and box["y"] >= -1, (selector, box)
            assert box["x"] + box["width"] <= SIZE["width"] + 1 and box["y"] + box["height"] <= SIZE["height"] + 1, (
                selector,
                box,
            )


SEEN = """part => [...document.querySelectorAll({
  sentence: '.wg .narration .sentence, .wg .clock .title', strip: '.wg .strip .value',
  headline: '.wg .idea, .wg .sub .summary, .wg .lead p', picture: '.wg .picture > .view',
  tabs: '.wg .tabs button, .wg .drawer > *', side: '.wg .pane.side > *',
}[part])].filter(node => node.checkVisibility({ visibilityProperty: true })).length"""


def veils_what_answers(page, question):
    """What would answer the question is not to be seen, and stands there again as soon as it is answered."""
    assert not [part for part in question["veils"] if page.evaluate(SEEN, part)], question["id"]
    places = page.locator(".wg .bar, .wg .sub, .wg .strip, .wg .tabs")
    before = [places.nth(n).bounding_box() for n in range(places.count())]
    page.keyboard.press("Escape")  # the card is closed
    assert page.locator(".wg").get_attribute("data-veils") == "" and page.evaluate(SEEN, "sentence")
    page.locator(".wg .guide-button").click()
    assert not [part for part in question["veils"] if page.evaluate(SEEN, part)], question["id"]
    assert [places.nth(n).bounding_box()["y"] for n in range(len(before))] == [box["y"] for box in before]


def walk_stop(page, path):
    guide = page.locator(".wg .guide")
    expect(guide).to_be_visible()
    story = STORIES[path]
    assert guide.locator("h2").inner_text().endswith(story.title) and guide.locator(".look").inner_text() == story.look
    questions = questions_here(page)
    assert questions, f"{path} asks nothing"
    for number, question in enumerate(questions, 1):
        assert guide.locator(".of").inner_text() == f"Question {number} of {len(questions)}"
        assert guide.locator(".question").inner_text() == question["text"]
        in_the_window(page)
        veils_what_answers(page, question)
        wrong = answer(page, question, right=False)
        assert page.locator(".wg").get_attribute("data-veils") == "", question["id"]
        assert wrong.startswith("Not ") and question["why"] in wrong, (path, question["id"], wrong)
        if page.evaluate("window.clock.count") > 1:
            assert step_of(page) == question["step"], "a wrong answer is shown where it can be seen"
        right = answer(page, question, right=True)
        assert right.startswith("Right") and right.endswith(question["why"]), (path, question["id"], right)
        guide.locator("[data-show]").click()
        told = guide.locator(".answer").inner_text()
        assert told.startswith("Right: ") or question["kind"] == "click"  # its why names the thing
        assert question["why"] in told
        if number < len(questions):
            guide.locator('[data-turn="Next question"]').click()
    kept = page.evaluate(KEPT)[path]
    assert kept["all"] and set(kept["done"]) >= {question["id"] for question in questions}
    mark = page.locator(f'.wg header a[data-story="{path}"] .mark')
    assert "all questions seen" in mark.inner_text() or mark.get_attribute("title") == "all questions seen"


def test_the_course_is_walked_from_the_first_stop_to_the_last(visit):
    page = visit("/", wait=".wg .start .button.first", viewport=SIZE)
    page.set_default_timeout(20_000)
    page.locator(".wg .start .button.first").click()
    wrong = []
    for n, path in enumerate(STOPS):
        shown(page, path)
        try:
            walk_stop(page, path)
        except (AssertionError, PlaywrightError) as error:  # the others are walked all the same
            wrong.append(f"{path}: {error}")
        following = page.locator('.wg .guide [data-go="next"]')
        if n + 1 < len(STOPS):
            following.click()
    assert not following.count() and not wrong, "\n".join(wrong)
    page.goto(page.url.split("/compare")[0])
    page.wait_for_selector(".wg .start .cards a.done")
    assert page.locator(".wg .start .cards a.done").count() == len(STOPS)


def test_the_guide_opens_once_by_itself_and_then_when_it_is_asked_for(visit):
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


@pytest.mark.parametrize("way", ["g", "Escape", "x"])
def test_space_plays_after_the_guide_is_closed(visit, way):
    page = visit("/tiling?backend=cpu")
    guide = page.locator(".wg .guide")
    page.locator(".wg .guide-button").click()
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
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press(" ")  # by then the button is a button again
    expect(guide).to_be_visible()


def test_the_keys_of_the_questions_are_reached_without_a_pointer(visit):
    page = visit("/tiling?backend=cpu")
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
    assert page.locator(".wg .start .label").first.inner_text() in ("executed", "measured", "recorded")
    first = step_of(page)
    page.wait_for_function("first => window.clock.step !== first", arg=first, timeout=20_000)
    page.locator(".wg .start [data-action=play]").click()
    paused = step_of(page)
    page.wait_for_timeout(700)
    assert step_of(page) == paused and page.locator(".wg .start .sentence").inner_text()
    page.wait_for_selector(".wg .start .rungs [data-rung]", timeout=60_000)
    assert page.locator(".wg .start .cards a").count() == len(STOPS)


def test_who_wants_no_motion_is_shown_none(visit):
    page = visit("/", wait=".wg .start [data-alive]", reduced_motion="reduce")
    page.wait_for_timeout(900)
    assert step_of(page) == 0


def test_terms_are_explained_where_they_stand(visit):
    page = visit("/tiling?backend=cpu")
    term = page.locator(".wg .term").first
    term.wait_for(timeout=20_000)  # texts are looked through once the page has rested
    for point in (term.hover, term.focus):
        point()
        meaning = page.locator("#wg-meaning")
        expect(meaning).to_be_visible()
        name = term.get_attribute("data-term")
        assert meaning.inner_text() == f"{name} {glossary.TERMS[name]}"
        page.keyboard.press("Escape")
        expect(meaning).to_be_hidden()
        page.mouse.move(5, 700)
