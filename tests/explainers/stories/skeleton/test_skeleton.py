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


def test_each_step_shows_a_logged_sum_with_its_questions_and_its_tab(run):
    made = STORY.stage(run.request, RUNNER)
    logged = run.trace.frame("event", "row", "value")
    row = made.frames[0]["row"]
    sums = logged[(logged.event == "l") & (logged.row == row)].value.tolist()
    assert [frame["l"] for frame in made.frames] == sums
    assert made.state[0].values == sums
    change, last = made.questions
    sums = [frame["l"] for frame in made.frames]
    changes = {step: abs(sums[step] - sums[step - 1]) for step in range(1, len(sums))}
    assert changes[change.answer - 1] == max(changes.values()) and change.step == change.answer - 1
    assert last.answer == sums[-1]
    blocks = STORY.parts()["sums"](run.request, RUNNER)
    assert len(blocks[0]["rows"]) == len(STORY.stage(run.request, RUNNER).frames)
    assert encoding.decode(encoding.encode(STORY.stage(run.request, RUNNER)))["frames"]


def test_a_kernel_without_sums_is_refused_with_the_missing_probe():
    refused = [spec for spec in current().kernels.values() if not STORY.accepts(spec)]
    assert refused and all("l(row)" in STORY.refusal(spec) for spec in refused)
