"""Requests that are served, in a real Chromium: gone to by the menu, stepped by the keys, and read off canvas, strip
and tab; every number is recomputed from the scheduler or the block manager."""

from browser.conftest import shown
from browser.stepping import asked, count, hover, point_at, press, sentence, step_of, walked
from playwright.sync_api import expect

from explainers.stories.block_table import serving
from explainers.stories.block_table.paging import WORDS
from kernels.kv_cache.scenarios import SERVED

ONE_PROMPT = SERVED["one_prompt"]
TOKEN = 2 * 2 * 64 * 4  # bytes of K and V of a token: two KV heads of 64 numbers in fp32


def look_at(page, view):
    before = page.evaluate("document.querySelector('.wg').dataset.shown").split(" ")[1]
    page.locator('.wg .toolbar [data-name="view"]').click()
    page.locator(f'.wg .toolbar [data-choice="view={view}"]').click()
    shown(page, other=before)
    page.evaluate("document.activeElement.blur()")


def test_requests_are_served_step_by_step_and_the_waste_is_that_of_the_block_manager(visit):
    page = visit("/block_table?backend=cpu")
    look_at(page, "serving")
    assert asked(page)["scenario"] == "one_prompt"
    frames, steps, played = serving.serving_frames(ONE_PROMPT, 16, TOKEN), ONE_PROMPT.steps(16), ONE_PROMPT.states(16)
    assert count(page) == len(frames) == len(steps) + 1
    ends = serving.ends_of(steps)
    for frame, end, said in zip(frames, ends, walked(page, len(frames))):
        cache = played[end][0]
        assert (said["sentences"], said["title"]) == ([frame["sentence"]], frame["title"])
        assert frame["waste"] in said["labels"][0]
        strip, usage = dict(said["state"]), cache.usage(ONE_PROMPT.max_len)
        assert strip["slack"] == f"{usage['slack'] * TOKEN:,} B" and strip["held in pages"] == f"{usage['held']:,}"
        served = [one.name for one in cache.sequences if one.name != "R"]  # without pages a prefix is nobody's
        assert strip["reserved contiguously"] == f"{96 * len(served):,}"
        assert strip["free pages"] == f"{len(cache.free)} of 16"
    press(page, "Home", "Shift+ArrowRight", "Shift+ArrowRight")
    assert step_of(page) == 2  # to the next that is prefilled or has ended


def test_the_kernel_is_run_on_the_cache_of_the_step_and_the_timeline_tells_each_phase(visit):
    page = visit("/block_table?view=serving&backend=cpu&step=13")
    before = page.evaluate("document.querySelector('.wg').dataset.shown").split(" ")[1]
    page.get_by_role("button", name="Run the decode kernel").click()
    shown(page, other=before)
    moment = serving.ends_of(ONE_PROMPT.steps(16))[12]
    assert asked(page)["view"] == "walk" and asked(page)["moment"] == str(moment)
    cache = ONE_PROMPT.states(16)[moment][0]
    sequence = cache.sequences[int(asked(page)["sequence"])]
    press(page, "ArrowRight")
    assert f"Entry 0 of {sequence.name}'s block table" in sentence(page)
    assert f"names page {sequence.table[0]}." in sentence(page) and "tokens 0 to 15" in sentence(page)
    look_at(page, "serving")
    assert step_of(page) == 12 and count(page) == len(ONE_PROMPT.steps(16)) + 1  # and back, to the same step
    assert hover(page, "Serving", request="E", step=10) == "E, step 10: waits"
    assert hover(page, "Serving", request="E", step=12) == "E, step 12: prefill, 30 tokens at once"
    assert hover(page, "Serving", request="A", step=2) == "A, step 2: prefill, 9 tokens at once, after 44 of R"
    assert hover(page, "Serving", request="A", step=6) == "A, step 6: decode, token 4 of 14; 57 in all"
    page.mouse.click(*point_at(page, "Serving", request="A", step=6))
    assert step_of(page) == 6
    cache = ONE_PROMPT.states(16)[serving.ends_of(ONE_PROMPT.steps(16))[6]][0]
    tip = hover(page, "Serving", request="A", step=6)
    assert tip.startswith("A, step 6")
    page_3 = next(n for n, s in enumerate(cache.sequences) if 3 in s.table)
    assert hover(page, "Serving", page=3, slot=0).splitlines()[0].endswith(f"of {cache.sequences[page_3].name}")


def test_the_requests_are_compared_with_a_server_without_pages(visit):
    page = visit("/block_table?view=serving&backend=cpu&step=2&tab=requests")
    drawer = page.locator(".wg .drawer")
    expect(drawer).to_contain_text(WORDS.say("compared", serving.compared(ONE_PROMPT, 16)))
    page.locator('.wg .tabs [data-tab="own"]').click()
    rows = page.locator(".wg form.requests tbody tr")
    expect(rows).to_have_count(7)
    for _ in range(5):
        rows.last.get_by_role("button").click()
    for row, values in zip(rows.all(), (("A", "1", "20", "4"), ("B", "2", "40", "9"))):
        for name, value in zip(("name", "arrives", "prompt", "answer"), values):
            row.locator(f'[name="{name}"]').fill(value)
        row.locator("select").select_option("")
    before = page.evaluate("document.querySelector('.wg').dataset.shown").split(" ")[1]
    page.get_by_role("button", name="Serve these").click()
    shown(page, other=before)
    assert asked(page)["requests"] == "A 1 20 4, B 2 40 9" and count(page) == 12
    press(page, "End")
    assert sentence(page) == "B decodes a token. B takes page 5."  # its 49th
    rows.last.locator('[name="prompt"]').fill("400")
    page.get_by_role("button", name="Serve these").click()
    expect(drawer.get_by_role("alert")).to_contain_text("Nothing was changed")
    assert rows.last.locator('[name="prompt"]').input_value() == "400" and count(page) == 12
