"""The picture `loop`: the reader moves the softmax or the copy, and the rest of the tensor cores shrinks or grows."""

from browser.stepping import hover, settled
from browser.test_covering import opened
from playwright.sync_api import expect

TITLE = "One loop, three schedules"
HAND = 7
PICTURE = f"/pipeline?kernel=11_overlap&picture=loop&step={HAND}&backend=recorded"


def headline(page):
    return page.locator(".wg .narration .sentence")


def test_the_length_of_a_piece_says_whether_the_tensor_cores_rest(visit):
    page = visit(PICTURE)
    expect(headline(page)).to_have_text("Drag the end of the softmax until the tensor cores never rest.")
    softmax, copy = (page.locator(f".hands input[aria-label='ns of the {name}']") for name in ("softmax", "copy"))
    softmax.fill("500")
    expect(headline(page)).to_have_text("The softmax ends before the other group's products: no rest.")
    softmax.fill("1000")  # two products of the other warpgroup take 584 ns
    expect(headline(page)).to_have_text("The softmax takes 416 ns more than the other group's products: rest.")
    copy.fill("2500")
    expect(headline(page)).to_have_text("Now the copy takes longest: all other units wait.")
    softmax.focus()
    page.keyboard.press("ArrowLeft")  # the key belongs to the slider
    assert softmax.input_value() == "999" and page.evaluate("window.clock.step") == HAND - 1
    page.get_by_role("button", name="Back to the run").click()
    assert softmax.input_value() == "690"
    expect(headline(page)).to_have_text("Drag the end of the softmax until the tensor cores never rest.")


def test_a_hand_drags_the_end_of_a_bar(visit):
    page = visit(PICTURE)
    box = page.locator("[data-grip=softmax]").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    said = hover(page, TITLE, panel="C", part="P", tile=12, group=0)
    assert said == "group 1: softmax, key tile 12\n690 ns (modelled)"
    before = hover(page, TITLE, kind="row", panel="B")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 60, y, steps=4)
    page.mouse.up()
    ns = int(page.locator(".hands input[aria-label='ns of the softmax']").input_value())
    assert 50 <= ns < 580
    assert (
        hover(page, TITLE, panel="C", part="P", tile=12, group=1)
        == f"group 2: softmax, key tile 12\n{ns} ns (modelled)"
    )
    assert hover(page, TITLE, kind="row", panel="B") != before  # its softmax is shorter, too
    page.evaluate("window.clock.set(5, 'jump')")
    expect(headline(page)).to_contain_text("A real run")
    settled(page)
    run = hover(page, TITLE, panel="run", part="S", tile=3, group=0)
    assert run.endswith("(recorded)")
    assert hover(page, TITLE, kind="least").startswith("At least: only the products count")


def test_show_me_goes_on_to_the_schedule_of_the_answer(visit):
    page, questions = opened(visit, "tensor_cores")
    for number, step in enumerate((1, 3, 4)):
        if number:
            page.locator('.wg .guide [data-turn="Next question"]').click()
        page.wait_for_function(f"window.clock.step === {questions[number]['step']}")
        page.locator(".wg .guide [data-show]").click()
        page.wait_for_function(f"window.clock.step === {step}")
