"""The skeleton shows a real run, so that its copy works from the start."""

from types import SimpleNamespace

import pytest
from conftest import cpu_run

from explainers.stories.skeleton.story import STORY
from explainers.story import encoding, probed, stage
from kernels.catalog import current

RUNNER = SimpleNamespace(run=lambda request: cpu_run(request.kernel.name), provenance=stage.provenance)


@pytest.fixture(scope="module", name="run")
def run_of_its_first_kernel():
    return cpu_run(probed.first(STORY).name)


def sums_of(run):
    """The logged sums of the first row."""
    logged = run.trace.frame("event", "row", "value")
    logged = logged[logged.event == "l"]
    return logged[logged.row == logged.row.min()].value.tolist()


def test_each_step_shows_a_sum_that_the_kernel_logged(run):
    made, sums = STORY.stage(run.request, RUNNER), sums_of(run)
    ((bars,),) = made.views[0].meta.lines
    assert [bar.value for bar in bars.bars] == sums == made.state[0].values
    assert len(made.frames) == len(sums) and all(frame["lines"] for frame in made.frames)


def test_the_questions_ask_for_the_largest_change_and_for_the_last_sum(run):
    change, last = STORY.stage(run.request, RUNNER).questions
    sums = sums_of(run)
    changes = {step: abs(sums[step] - sums[step - 1]) for step in range(1, len(sums))}
    assert changes[change.answer - 1] == max(changes.values()) and change.step == change.answer - 1
    assert last.answer == sums[-1] and last.covers == [{"step": len(sums)}]


def test_a_tab_of_the_stage_has_its_part(run):
    blocks = STORY.parts()["sums"](run.request, RUNNER)
    assert len(blocks[0]["rows"]) == len(STORY.stage(run.request, RUNNER).frames)


def test_the_stage_goes_to_the_browser(run):
    assert encoding.decode(encoding.encode(STORY.stage(run.request, RUNNER)))["frames"]


def test_a_kernel_without_sums_is_refused_with_the_missing_probe():
    refused = [spec for spec in current().kernels.values() if not STORY.accepts(spec)]
    assert refused and all("l(row)" in STORY.refusal(spec) for spec in refused)
