"""An open question covers its answer in texts and pictures, and nothing else. Show me points at the exact thing."""

from browser.conftest import shown
from browser.stepping import HURRIED, asked_now, press, step_of
from browser.test_course import questions_of
from browser.test_stage import axe
from playwright.sync_api import expect

from app.course import stops

STOPS = {stop.name: stop for stop in stops()}
LAPTOP = {"width": 1280, "height": 720}
DRAWN = """window.drawn = [];
  const write = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
    window.drawn.push(String(text)); return write.call(this, text, ...where); };"""
# Every text of the stage that a question may cover, and all that is drawn anew.
SAID = """() => { window.drawn = []; window.clock.set(window.clock.step, 'jump');
  const places = document.querySelectorAll(
    '.wg :is(.narration > [role=status], .clock .title, .strip, .sub, .picture)');
  return [...[...places].map(node => node.textContent), ...window.drawn]; }"""


def opened(visit, name, **options):
    stop = STOPS[name]
    choices = "&".join(f"{key}={value}" for key, value in stop.choices.items())
    options = {"reduced_motion": "reduce"} | options
    page = visit(f"/{stop.story}?stop={name}&{choices}", viewport=LAPTOP, script=DRAWN, **options)
    page.keyboard.press("g")
    expect(page.locator(".wg .guide")).to_be_visible()
    return page, questions_of(page, stop)


def turn_to(page, questions, id):
    for _ in range([question["id"] for question in questions].index(id)):
        page.locator('.wg .guide [data-turn="Next question"]').click()
    return next(question for question in questions if question["id"] == id)


def words(page):
    return " \n".join(page.evaluate(SAID))


def test_a_sentence_with_the_answer_is_hidden_whole_and_the_words_of_an_answer_are_covered_until_it_is_given(visit):
    page, questions = opened(visit, "occupancy")
    frames = page.evaluate("document.querySelector('.wg').stage.frames.map(frame => frame.sentence)")
    whole, words_of = [question for question in questions if question["hides"]]
    turn_to(page, questions, whole["id"])
    said, asks = page.locator(".wg .narration .sentence"), "Answer the question, or press Show me."
    after = "getComputedStyle(document.querySelector('.wg .narration .sentence'), '::after').content"
    expect(said).to_be_visible()  # the first step does not say it
    answers = next(n for n, text in enumerate(frames) if any(word in text for word in whole["hides"]))
    page.evaluate("step => window.clock.set(step, 'jump')", answers)
    expect(said).to_be_hidden()
    assert page.evaluate(after) == f'"{asks}"'
    page.locator(".wg .guide [data-show]").click()
    expect(said).to_be_visible()
    assert page.evaluate(after) == "none" and "?" not in said.inner_text()
    page.locator('.wg .guide [data-turn="Next question"]').click()
    page.evaluate("window.clock.set(window.clock.count - 1, 'jump')")
    drawn = [word for word in words_of["hides"] if word not in frames[-1]]
    assert drawn and not [word for word in drawn if word in words(page)] and "?" in words(page)
    page.keyboard.press("Escape")  # without the card nothing is asked
    page.wait_for_timeout(500)  # the glossary marks its terms
    assert [word for word in drawn if word in words(page)]
    page.keyboard.press("g")
    press(page, "ArrowLeft", "ArrowRight")
    page.wait_for_timeout(500)
    assert not [word for word in drawn if word in words(page)]
    page.locator(".wg .guide [data-show]").click()
    assert [word for word in drawn if word in words(page)]
    assert not page.evaluate("document.querySelector('.wg').classList.contains('covered')")


def test_a_sentence_is_veiled_at_the_question_s_own_step_only_and_who_steps_past_it_reads_on(visit):
    page, questions = opened(visit, "launches")
    question = next(one for one in questions if "sentence" in one["veils"])
    turn_to(page, questions, question["id"])
    said = page.locator(".wg .narration > [role=status]")
    for step in range(page.evaluate("window.clock.count")):
        page.evaluate("step => window.clock.set(step, 'jump')", step)
        assert said.is_visible() == (step != question["step"]), step
    page, questions = opened(visit, "serving")
    question = next(question for question in questions if question["hides"])
    turn_to(page, questions, question["id"])
    frames = page.evaluate("document.querySelector('.wg').stage.frames.map(frame => frame.sentence)")
    later = next(n for n, text in enumerate(frames) if n > question["step"] and question["hides"][0] in text)
    sentence = page.locator(".wg .narration .sentence")
    page.evaluate("step => window.clock.set(step, 'jump')", later)
    expect(sentence).to_be_hidden()  # as by a link
    for step in (later - 1, later):
        page.evaluate("step => window.clock.set(step, 'play')", step)
    expect(sentence).to_be_visible()
    assert sentence.inner_text() == frames[later]


def test_a_covered_thing_has_a_patch_and_tells_nothing(visit):
    page, questions = opened(visit, "fragments")
    question = next(question for question in questions if question["covers"])
    turn_to(page, questions, question["id"])
    (thing, *_) = question["covers"]
    at = page.evaluate("thing => window.clock.where(window.clock.views[0].title, thing)", thing)
    assert "?" in page.evaluate(SAID)
    page.mouse.move(at["x"], at["y"])
    expect(page.locator(".tip:not([hidden])")).to_have_text("?")
    page.mouse.move(at["x"], 5)
    page.locator(".wg .guide [data-show]").click()
    page.mouse.move(at["x"], at["y"])
    expect(page.locator(".tip:not([hidden])")).not_to_have_text("?")


def test_show_me_points_at_the_thing_of_the_question(visit):
    page, questions = opened(visit, "tiles")
    question = next(question for question in questions if question["shows"])
    turn_to(page, questions, question["id"])
    page.locator(".wg .guide [data-show]").click()
    step = question["shows"].get("to", question["step"])
    assert page.evaluate("window.clock.point") == question["shows"] and step_of(page) == step
    assert not page.locator(".wg .pin").first.inner_text()  # nobody asked for its value


def test_the_card_says_where_the_idea_leads_at_its_end(visit):
    page, questions = opened(visit, "pages")
    guide, stop = page.locator(".wg .guide"), STOPS["pages"]
    assert guide.locator(".look").inner_text() == stop.idea and len(questions) <= 3
    for _ in questions:
        assert guide.locator(".end").is_hidden()
        asked_now(page)
        guide.locator("[data-show]").click()
        if guide.locator('[data-turn="Next question"]').count():
            guide.locator('[data-turn="Next question"]').click()
    expect(guide.locator(".end")).to_be_visible()
    guide.locator(".end summary").click()
    assert guide.locator(".further a").all_inner_texts() == [
        f"Go deeper: {stop.deeper.label}",
        f"Source: {stop.paper.label}",
    ]
    axe(page)
    guide.locator(".further a").first.click()
    shown(page, stop.deeper.link.partition("?")[0])


def test_a_chart_covers_its_words_and_marks(visit):
    page = visit("/memory_hierarchy?picture=latency", viewport=LAPTOP)
    page.wait_for_function("window.clock.views[0]?.vega")
    page.evaluate("window.clock.cover({ covers: [{ space: 'shared' }] })")
    expect(page.locator(".wg .chart .patch")).to_have_text("?")
    page.evaluate("window.clock.cover({ covers: [] })")
    expect(page.locator(".wg .chart .patch")).to_have_count(0)


def test_no_stop_plays_by_itself(visit):
    page = visit("/tiling?stop=tiles&kernel=02_tiled", viewport=LAPTOP, script=HURRIED)
    page.locator('.wg nav a[data-stop="one_pass"]').click()
    shown(page, "online_softmax")
    page.wait_for_timeout(600)
    assert step_of(page) == 0 and not page.evaluate("window.clock.playing")
