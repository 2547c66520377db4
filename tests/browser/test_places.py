"""The picture `places`: numbers come from their memories, and the reader's data spills."""

from browser.test_covering import opened, turn_to
from playwright.sync_api import expect

PICTURE = "/memory_hierarchy?picture=places&depth=guided"


def headline(page):
    return page.locator(".wg .narration .sentence")


def thing(page, level):
    return page.evaluate("level => window.clock.where('Where bytes live', { kind: 'level', level })", level)


def test_a_memory_recedes_to_its_distance_and_its_number_needs_the_wait(visit):
    page = visit(PICTURE)
    before = thing(page, 1)["x"], thing(page, 3)["x"], thing(page, 4)["x"]
    assert abs(before[0] - before[1]) < 5  # not known yet: all are as far
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(1500)
    assert thing(page, 1)["x"] < before[0] - 200 and thing(page, 3)["x"] == before[1]
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(2500)
    assert thing(page, 1)["x"] < thing(page, 3)["x"] < before[1]
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(3500)
    assert thing(page, 4)["x"] == before[2]


def test_more_data_spills_and_says_its_recorded_wait(visit):
    page = visit(f"{PICTURE}&step=7")
    slider = page.locator(".hands input.wide")
    for place, said in (
        ("15", "192 KiB of data fits into L1: 43 cycles."),
        ("17", "256 KiB of data spills out of L1: 175 cycles."),
        ("25", "4 MiB of data fits into L2: 287 cycles."),
        ("39", "512 MiB of data fits into no cache: 686 cycles."),
    ):
        slider.fill(place)
        expect(headline(page)).to_have_text(said)
    slider.focus()
    page.keyboard.press("ArrowLeft")  # the key belongs to the slider
    expect(headline(page)).to_contain_text("384 MiB")
    assert page.evaluate("window.clock.step") == 6
    expect(page.locator(".of-hand")).to_contain_text("Waits recorded on H100")


def test_the_right_answer_moves_the_data_out_of_l1(visit):
    page, questions = opened(visit, "levels")
    turn_to(page, questions, "l1_holds")
    page.locator(".wg .guide .option", has_text="It jumps to the wait for L2").click()
    expect(headline(page)).to_contain_text("of data fits into L2")
    assert page.locator(".hands input.wide").input_value() != "0"


def test_without_motion_the_numbers_are_there_at_once(visit):
    page = visit(PICTURE, reduced_motion="reduce")
    before = thing(page, 1)["x"]
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(100)
    assert thing(page, 1)["x"] < before - 200


def test_the_stairs_grow_by_themselves_at_the_last_step(visit):
    page = visit(f"{PICTURE}&step=6")
    slider = page.locator(".hands input.wide")
    assert slider.input_value() == "0"
    page.keyboard.press("ArrowRight")
    expect(slider).to_have_value(slider.get_attribute("max"), timeout=10_000)
    assert page.evaluate("window.clock.where('Where bytes live', { kind: 'size', size: 0 })")


def test_another_height_of_a_tile_is_another_run_at_the_same_step(visit):
    page = visit("/tiling?kernel=02_tiled&seq_len=48&step=2&picture=matrices&backend=cpu", depth="guided")
    head = page.locator(".wg .narration .said-short")
    expect(head.first).to_have_text("One copy of K, 16 reads: a score for each query.")
    for rows in ("8", "32"):
        page.locator(f"[data-height='{rows}']").click()
        expect(head.first).to_have_text(f"One copy of K, {rows} reads: a score for each query.", timeout=30_000)
        expect(page.locator(f"[data-height='{rows}']")).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".of-hand")).to_have_text("All query tiles together read K 2 times. Without tiles: 48 times.")
    assert page.evaluate("window.clock.step") == 1
