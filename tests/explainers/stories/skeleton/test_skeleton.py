"""The skeleton shows a real run, so that its copy works from the start."""

from types import SimpleNamespace

import pytest
from conftest import cpu_run

from explainers.stories.skeleton.story import EVENT, STORY, data_of
from explainers.story import encoding, probed, stage
from kernels.catalog import current

RUNNER = SimpleNamespace(run=lambda request: cpu_run(request.kernel.name), provenance=stage.provenance)


@pytest.fixture(scope="module", name="run")
def run_of_its_first_kernel():
    return cpu_run(probed.first(STORY).name)


def values_of(run):
    """The logged values of the shown row."""
    logged = run.trace.frame("event", "row", "value")
    logged = logged[logged.event == EVENT]
    return logged[logged.row == data_of(run)["last"]["row"]].value.tolist()


def test_each_step_shows_a_value_that_the_kernel_logged(run):
    made, values = STORY.stage(run.request, RUNNER), values_of(run)
    ((bars,),) = made.views[0].meta.lines
    assert [bar.value for bar in bars.bars] == values == made.state[0].values
    assert len(made.frames) == len(values) and all(frame["lines"] for frame in made.frames)


def test_the_questions_ask_for_the_largest_change_and_for_the_last_value(run):
    change, last = STORY.stage(run.request, RUNNER).questions
    values = values_of(run)
    changes = {step: abs(values[step] - values[step - 1]) for step in range(1, len(values))}
    assert changes[change.answer - 1] == max(changes.values()) and change.step == change.answer - 1
    assert last.answer == values[-1] and last.covers == [{"step": len(values)}]


def test_a_tab_of_the_stage_has_its_part(run):
    blocks = STORY.parts()["values"](run.request, RUNNER)
    assert len(blocks[0]["rows"]) == len(STORY.stage(run.request, RUNNER).frames)


def test_the_stage_goes_to_the_browser(run):
    assert encoding.decode(encoding.encode(STORY.stage(run.request, RUNNER)))["frames"]


def test_a_kernel_without_the_event_is_refused_with_the_missing_probe():
    refused = [spec for spec in current().kernels.values() if not STORY.accepts(spec)]
    assert any(f"{EVENT}(row)" in STORY.refusal(spec) for spec in refused)
