"""V3 in a real Chromium: gone to by the menu, stepped by the keys, its merge read off strip, sentence and picture and
held to the trace; a prefix that is shared; the cache in 8 bits. That every lit line is the run's is tested in
test_stage.py, for every story."""

from dataclasses import replace

import numpy as np
import pytest
from browser.conftest import shown
from browser.stepping import asked, choose, count, hover, press, read, sentence, walked

from app.stories.block_table.choices import kernels_with_ranges
from explainers.stories.block_table import ranges
from kernels.catalog import current
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.kv_cache.scenarios import PRESETS, SHOWN_RANGES
from kernels.run import execute


def run_here(view, preset, **shape):
    spec, cache = kernels_with_ranges(current())[view], PRESETS[preset].states(16)[-1][0]
    request = Request(spec, spec.problem_type.of_cache(cache, ranges=SHOWN_RANGES, **shape))
    return execute.run(replace(request, scope=Scope.everything(request.plan)))


def logged(run, event, sequence, head):
    frame = run.trace.frame()
    return frame[(frame.event == event) & (frame.sequence == sequence) & (frame["head"] == head)]


def test_v3_is_walked_from_its_list_to_its_merge(visit):
    page = visit("/block_table?backend=cpu")
    before = page.evaluate("document.querySelector('.wg').dataset.shown").split(" ")[1]
    page.locator('.wg .toolbar [data-name="view"]').click()
    page.locator('.wg .toolbar [data-choice="view=ranges"]').click()
    shown(page, other=before)
    page.evaluate("document.activeElement.blur()")
    assert asked(page)["scenario"] == "churn" and asked(page)["sequence"] == "1"
    run = run_here("ranges", "churn")
    story = ranges.stage_of(run, "DEF", ["#000"] * 3, (1, 0), None)
    assert count(page) == len(story.frames)
    for frame, said in zip(story.frames, walked(page, count(page))):
        assert (said["sentences"], said["title"]) == ([frame["sentence"]], frame["title"])
    title = "Ranges"
    strip, weights = dict(read(page)["state"]), logged(run, "weight", 1, 0).sort_values("partition").value
    m, l = (float(logged(run, f"{key}_all", 1, 0).value.iloc[0]) for key in ("m", "l"))
    assert float(strip["max m"]) == pytest.approx(m, rel=1e-5) and float(strip["sum l"]) == pytest.approx(l, rel=1e-5)
    assert len(weights) == 3
    for part, weight in enumerate(weights):
        told = hover(page, title, part=part)
        mine = {key: logged(run, key, 1, 0).set_index("partition").value[part] for key in ("m", "l")}
        numbers = [float(piece.split(" = ")[1].split("\n")[0]) for piece in told.split("\n", 1)[1].split(", ")]
        assert np.allclose(numbers, [mine["m"], mine["l"], weight], rtol=1e-6), told
    press(page, "Home")
    assert "not done yet" in hover(page, title, unit=0) and "not merged yet" in hover(page, title, part=0)
    assert "not brought yet" in hover(page, title, list=0, cell=5)
    press(page, "Shift+ArrowRight")
    assert sentence(page).startswith("Range 1, block 2: every lane reads the same 32 bytes, unit 4 of the work list")


def test_another_sequence_and_more_ranges_are_chosen_by_hand(visit):
    page = visit("/block_table?view=ranges&backend=cpu&scenario=one_long&sequence=0")
    assert "cut into 4 ranges of 4 to 5 pages" in sentence(page)
    choose(page, "ranges", "2")
    assert "cut into 2 ranges of 9 to 10 pages" in sentence(page)
    choose(page, "sequence", "2")
    press(page, "End")
    assert "No cut divides B, so O = sums / l is written at once" in sentence(page)


def test_a_shared_prefix_is_read_once(visit):
    page = visit("/block_table?view=prefix&backend=cpu&sequence=1")
    run = run_here("prefix", "shared_prompt")
    story = ranges.stage_of(run, "ABC", ["#000"] * 3, (1, 0), None)
    for number, (frame, said) in enumerate(zip(story.frames, walked(page, 6))):
        assert said["sentences"] == [frame["sentence"]]
        assert number or "A, B and C begin with the same 2 pages" in frame["sentence"]
    assert any("read once for 6 query heads" in frame["sentence"] for frame in story.frames[:6])
    told = hover(page, "Ranges", list=0, cell=0)
    assert told.startswith("page 0: entry 0 of A, B, C's block tables")
