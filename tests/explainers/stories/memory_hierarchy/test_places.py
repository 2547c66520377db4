"""The picture `places`: distances, sizes and the spill, against the recorded table."""

import re

import pytest

from explainers.models import memory_levels
from explainers.stories.memory_hierarchy import places, story
from kernels.measure import hierarchy

RECORDED = [hierarchy.recorded(device) for device in hierarchy.devices()]
LINES = story.lines_of(story.probed.first(story.STORY))


def picture(measured):
    (view,) = places.view(measured, "recorded", story.data_of(measured.table), LINES)
    return view.meta


@pytest.mark.parametrize("measured", RECORDED, ids=lambda measured: measured.device)
def test_each_level_is_as_far_as_its_recorded_wait_and_the_far_ones_are_larger(measured):
    cycles = memory_levels.plateaus(measured.table).set_index("level").cycles
    levels = picture(measured)["levels"]
    assert [level["name"] for level in levels] == list(memory_levels.LEVELS)
    assert [level["cycles"] for level in levels[1:]] == [cycles[name] for name in places.WAITS]
    assert [level["wait"] for level in levels[1:]] == [f"{cycles[name]:.0f} cycles" for name in places.WAITS]
    assert levels[3]["bytes"] > 100 * levels[1]["bytes"] and levels[4]["bytes"] > 1000 * levels[3]["bytes"]


def test_each_step_lights_the_loads_that_it_is_about():
    near, l2, _, race = (frame["lines"] for frame in picture(RECORDED[0])["frames"][1:5])
    assert set(near) == {LINES["shared"], LINES["through_l1"]} and set(l2) == {LINES["from_l2"], LINES["through_l1"]}
    assert set(race) == {*near, *l2} and all(frame["lines"] for frame in picture(RECORDED[0])["frames"])


@pytest.mark.parametrize("measured", RECORDED, ids=lambda measured: measured.device)
def test_every_size_has_its_recorded_wait_and_a_level_one_figure(measured):
    known, shown = memory_levels.latencies(measured.table), picture(measured)
    own = {level["wait"] for level in shown["levels"]}
    for size in shown["sizes"]:
        cycles, _ = known["through_l1", size["bytes"]]
        level = shown["levels"][size["home"]]
        assert abs(size["cycles"] / cycles - 1) <= memory_levels.NEAR
        assert size["wait"] in own or "spills out" in size["said"] or "far half" in size["said"]
        assert size["bytes"] <= level["bytes"] and size["said"].endswith(f"{size['wait']}.")
    waits = [size["cycles"] for size in shown["sizes"]]
    assert waits == sorted(waits) and len(set(waits)) < 10


@pytest.mark.parametrize("measured", RECORDED, ids=lambda measured: measured.device)
def test_device_memory_has_one_figure_on_the_page(measured):
    """In headlines, sentences, marks of the chart, strip and lesson."""
    page = story.stage_of(measured, memory_levels.labelled(measured.table, "recorded"), "recorded", _spec(), [])
    far = memory_levels.plateaus(measured.table).set_index("level").cycles["Device memory"]
    chart = next(view for view in page.views if view.id == "latency").meta["spec"]["datasets"]["levels"]
    texts = [page.summary, *(row["said"] for row in chart), *(str(state.values) for state in page.state)]
    for frames in (page.frames, page.views[0].meta["frames"]):
        texts += [frame.get("head", "") + frame["sentence"] for frame in frames]
    found = {int(figure) for text in texts for figure in re.findall(r"\b6\d\d\b(?= cycles|$| in|\.| and)", text)}
    assert found == {round(far)}


def test_no_headline_answers_a_question_before_its_step():
    page = picture(RECORDED[0])
    farther, holds = story.WORDS.questions(story.data_of(RECORDED[0].table), 0)
    for question in (farther, holds):
        right = question.options[question.answer]
        figures = re.findall(r"\d+ times", right) or [right]
        for frame in page["frames"][: question.step]:
            assert not any(figure in frame["head"] + frame["sentence"] for figure in figures)
    assert max(len(frame["head"].split()) for frame in page["frames"]) <= 12
    assert max(len(frame["sentence"].split()) for frame in page["frames"]) <= 25


def test_a_table_without_a_level_has_no_picture():
    measured = RECORDED[0]
    part = measured.table[measured.table.space == "shared"]
    assert not story.data_of(part)["known"] and not places.view(measured, "recorded", story.data_of(part), LINES)


def _spec():
    return story.probed.first(story.STORY)
