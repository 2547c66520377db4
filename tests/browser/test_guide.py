"""The card of the guide: question, options and Show me stand in it whole, and the picture beside or above it."""

import re

import pytest
from browser.conftest import shown
from browser.stepping import asked_now, rail, step_of
from playwright.sync_api import expect

from app.course import stops

LAPTOP, PHONE = {"width": 1280, "height": 720}, {"width": 390, "height": 844}
STOPS = ["tiling", "memory_hierarchy", "fusion"]  # test_course looks at every stop's questions in a large window
HIDDEN = """() => {
  const card = document.querySelector('.wg .guide'), frame = card.querySelector('.body').getBoundingClientRect();
  const out = (node, { top, bottom }) => {
    const box = node.getBoundingClientRect();
    return !box.height || box.top < top - 1 || box.bottom > bottom + 1;
  };
  return [...[...card.querySelectorAll('.question, .option, .number, .hint')].filter(node => out(node, frame)),
    ...[card.querySelector('[data-show]')].filter(node => out(node, { top: 0, bottom: innerHeight }))]
    .map(node => node.textContent.slice(0, 60)); }"""
COVERED = """() => {
  const card = document.querySelector('.wg .guide').getBoundingClientRect();
  const over = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  return [...document.querySelectorAll('.wg .picture canvas')].map(node => node.getBoundingClientRect())
    .some(box => box.width && over(box, card)); }"""


def opened(visit, path, size):
    """A stop by a link, in Guided: its card is open."""
    page = visit(f"/{path}", viewport=size, depth="guided")
    expect(page.locator(".wg .guide .question, .wg .guide .later:not([hidden])")).to_be_visible()
    return page


@pytest.mark.parametrize("path", STOPS)
def test_every_question_stands_whole_in_the_card_beside_the_picture(visit, path):
    page = opened(visit, path, LAPTOP)
    following, wrong = page.locator('.wg .guide [data-turn="Next question"]'), []
    while True:
        asked_now(page)
        for size in (LAPTOP, PHONE):
            page.set_viewport_size(size)
            page.locator(".wg .guide [data-show]").scroll_into_view_if_needed()  # a phone's page scrolls
            page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            if parts := page.evaluate(HIDDEN):
                wrong.append((page.locator(".wg .guide .of").inner_text(), size["width"], parts))
        page.set_viewport_size(LAPTOP)
        if not following.count():
            break
        following.click()
    assert not wrong
    assert not page.evaluate(COVERED)


def test_a_question_waits_for_the_step_of_its_picture(visit):
    page = opened(visit, "block_table?stop=pages", LAPTOP)
    later, asked = page.locator(".wg .guide .later"), page.locator(".wg .guide .question")
    asks = "document.querySelector('.wg').stage.content.questions"
    step = page.evaluate(f"{asks}.find(q => q.id === 'check_block_table').step")
    page.evaluate(f"window.clock.set({step - 1}, 'user')")
    expect(later).to_have_text(f"Question 2 of 2 comes at step {step + 1}.")
    assert not asked.count()
    page.evaluate(f"window.clock.set({step}, 'user')")
    expect(asked).to_be_visible()
    expect(later).to_be_hidden()


def test_a_question_says_that_the_picture_has_shown_its_answer_until_it_is_answered(visit):
    page = opened(visit, "tiling?stop=as_written", LAPTOP)
    line, show = page.locator(".wg .guide .later"), page.locator(".wg .guide [data-show]")
    asks = "document.querySelector('.wg').stage.content.questions"
    asked = page.evaluate(f"{asks}.find(q => q.id === 'square')")
    page.evaluate(f"window.clock.set({asked['step']}, 'user')")
    expect(show).to_be_visible()
    expect(line).to_be_hidden()
    page.locator(f'.wg .guide [data-option="{int(not asked["answer"])}"]').click()
    page.evaluate(f"window.clock.set({asked['step'] + 1}, 'user')")
    expect(line).to_have_text(f"The picture shows the answer at step {asked['step'] + 2}.")
    expect(show).to_have_count(0)
    expect(page.locator(".wg .guide .answer")).to_have_text("Try once more.")
    page.locator(f'.wg .guide [data-option="{asked["answer"]}"]').click()
    expect(page.locator(".wg .guide .answer")).to_contain_text("Right")
    expect(line).to_be_hidden()


def test_a_second_try_is_right_and_a_first_wrong_answer_covers_on_and_keys_lead_from_option_to_option(visit):
    page = opened(visit, "tiling?stop=tiles&kernel=02_tiled&step=3", LAPTOP)
    options, said = page.locator(".wg .guide .option"), page.locator(".wg .guide .answer")
    asked = page.evaluate("document.querySelector('.wg').stage.content.questions.find(q => q.id === 'tile_trips')")
    right = asked["answer"]
    wrong = (right + 1) % options.count()
    options.nth(wrong).focus()
    page.keyboard.press("Enter")
    expect(said).to_have_text("Try once more, or press Show me.")
    expect(options.nth(wrong)).to_have_class("option off")
    assert asked["reasons"][wrong] in page.locator(".wg .guide .options").inner_text()
    assert page.evaluate("document.querySelector('.wg').dataset.veils") and step_of(page) == 2
    page.keyboard.press("Enter")  # a crossed option is no try
    expect(said).to_have_text("Try once more, or press Show me.")
    for _ in range((right - wrong) % options.count()):
        page.keyboard.press("ArrowDown")
    expect(options.nth(right)).to_be_focused()
    page.keyboard.press("Enter")
    expect(said).to_contain_text("Right")
    expect(options.nth(right)).to_have_class("option true")
    assert step_of(page) == 2 and not page.evaluate("document.querySelector('.wg').dataset.veils")
    assert not page.locator(".wg .pin").first.inner_text()


def test_who_steps_past_an_answer_is_asked_the_next_question_and_reads_each_headline_at_once(visit):
    page = opened(visit, "bank_conflicts?stop=banks", LAPTOP)
    asked, way_on = page.locator(".wg .guide .question"), page.locator('.wg .guide [data-go="next"]')
    questions = {q["id"]: q for q in page.evaluate("document.querySelector('.wg').stage.content.questions")}
    first, second, third = (questions[id] for id in ("turns", "wider", "rows_of_48"))
    frames = page.evaluate("document.querySelector('.wg').stage.frames.map(f => f.head ?? f.sentence)")
    expect(way_on).to_be_hidden()
    for step in range(len(frames)):
        due = [q["text"] for q in (first, second, third) if q["step"] <= step]
        assert (asked.inner_text() in due) if asked.count() else page.locator(".wg .guide .later").is_visible()
        assert page.locator(".wg .narration > [role=status]").inner_text() == frames[step]
        page.evaluate("window.clock.set(window.clock.step + 1, 'user')")
    for again in range(2):  # the picture stays at its end, and so does the way on
        page.get_by_label("Your answer").fill(str(third["answer"] * 3 + again))
        page.keyboard.press("Enter")
        assert step_of(page) == len(frames) - 1 and way_on.is_visible()
    expect(page.locator(".wg .guide .answer")).to_contain_text(third["why"])
    page.locator('.wg .guide [data-turn="Previous question"]').click()
    page.locator(f'.wg .guide [data-option="{second["answer"]}"]').click()
    expect(page.locator(".wg .guide .answer")).to_contain_text("Right")
    for option in page.locator(".wg .guide .option").all():
        option.dispatch_event("click")
    expect(page.locator(".wg .guide .answer")).to_contain_text("Right")
    page.keyboard.press("ArrowLeft")  # a step back asks nothing anew
    expect(asked).to_have_text(second["text"])
    assert way_on.is_visible()


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_a_link_from_the_middle_of_a_stop_opens_with_its_title_idea_and_question_and_hides_the_answer(visit, size):
    page = opened(visit, "tiling?stop=tiles&kernel=02_tiled&step=3", size)
    stop = next(stop for stop in stops() if stop.name == "tiles")
    title = page.locator(".wg .guide h2" if size is LAPTOP else ".wg .opening b")
    idea = page.locator(".wg .guide .look" if size is LAPTOP else ".wg .opening")
    expect(title).to_have_text(f"{stop.number} {stop.title}")
    expect(title).to_be_in_viewport(ratio=1)
    expect(idea).to_contain_text(stop.idea)
    expect(idea).to_be_in_viewport(ratio=1)
    assert step_of(page) == 2 and "headline" in page.evaluate("document.querySelector('.wg').dataset.veils")
    if size is PHONE and page.get_by_role("button", name="Question below").is_visible():
        page.get_by_role("button", name="Question below").click()
    expect(page.locator(".wg .guide .question")).to_be_in_viewport(ratio=1)
    for n in (0, 1):  # the question and the chosen option stay in sight
        page.locator(".wg .guide .option").nth(n).click()
        expect(page.locator(".wg .guide .question")).to_be_in_viewport(ratio=1)
        expect(page.locator(".wg .guide .option").nth(n)).to_be_in_viewport(ratio=1)
    page.keyboard.press("Escape")
    page.reload()
    shown(page, "tiling")
    expect(page.locator(".wg .guide")).to_be_hidden()  # closed by the reader


@pytest.mark.parametrize("path", ["tiling", "fusion", pytest.param("block_table", marks=pytest.mark.slow)])
def test_on_a_phone_show_me_leaves_the_picture_in_sight(visit, path):
    page = opened(visit, path, PHONE)
    asked_now(page)
    page.locator(".wg .guide [data-show]").click()
    assert page.locator(".wg .guide .answer").is_visible() and not page.evaluate(COVERED)


def test_the_guide_stays_open_until_it_is_closed_the_picture_fits_and_code_leads_to_its_machine_code(visit):
    page = visit("/tiling", viewport=LAPTOP)
    page.locator(".wg .guide-button").click()
    cut = """() => { const canvas = document.querySelector('.wg .sheet canvas').getBoundingClientRect();
      return canvas.right - document.querySelector('.wg .sheet').getBoundingClientRect().right; }"""
    page.wait_for_function(f"() => ({cut})() <= 0.01")
    way = page.get_by_role("button", name="machine code")
    assert way.get_attribute("title") == "Machine code of these lines, on the page Source"
    guide = page.locator(".wg .guide")
    rail(page, "source")
    assert guide.is_hidden()
    page.go_back()
    shown(page, "tiling")
    assert guide.is_visible()
    page.reload()
    shown(page, "tiling")
    assert guide.is_visible()
    page.keyboard.press("Escape")
    page.reload()
    shown(page, "tiling")
    assert guide.is_hidden()


@pytest.mark.parametrize("size", [(1280, 720), (390, 844), (750, 500)])
def test_the_rail_shows_every_stop_without_a_scroll(visit, size):
    page = visit("/block_table?view=heads", viewport={"width": size[0], "height": size[1]})
    current = page.locator(".wg nav [aria-current=page]:visible")
    expect(current).to_have_text(re.compile("Grouped heads"))
    page.wait_for_function("""() => {
      const rail = document.querySelector('.wg nav').getBoundingClientRect();
      return [...document.querySelectorAll('.wg nav :is(.stops a, .opens-menu)')]
        .map(node => node.getBoundingClientRect())
        .every(at => at.left >= rail.left - 1 && at.right <= rail.right + 1 && at.height >= 24); }""")
