"""Launches: links to what it cannot show are reported and replaced, and a server with a GPU measures."""

from dataclasses import replace

import pytest
from pages import page_of

from app.stories import STORIES, launches
from app.web import asking
from explainers.stories.launches import story
from kernels.errors import BackendUnavailable
from kernels.measure import launch_times
from kernels.run import workers


def test_a_problem_or_a_kernel_that_the_page_cannot_show_is_reported():
    told = asking.ask(
        STORIES["launches"], {"kernel": "launch_graph", "size": "9", "against": "launch_graph"}, workers.survey()
    )
    assert told.told == [
        "size is 9. Here it can be 0 to 2.",
        "against is 'launch_graph'. It must be another kernel with the problem of launch_graph.",
    ]
    assert told.link["size"] == "2" and told.link["against"] == "before" and len(told.subject.requests) == 2


def test_a_server_with_a_gpu_measures_both_runs_and_shows_them_as_measured(monkeypatch):
    asked = []

    def measured(request):
        asked.append(request)
        recording = launch_times.find(replace(request, backend="recorded")).load()
        return replace(recording, request=request, provenance="measured")

    story.load.cache_clear()
    monkeypatch.setattr(launch_times, "launch_times", measured)
    state = {"kernel": "launch_children", "against": launches.BEFORE, "size": 0}
    look = launches.subject(page_of("launches"), state, "gpu")
    made = story.STORY.stage(look, None)
    assert [request.kernel.name for request in asked] == ["launch_padded", "launch_children"]
    assert all(request.backend == "gpu" for request in asked)
    assert made.provenance.label == "measured" and "measured on" in made.views[0].meta.lines[0][0].spans[0].tip


def test_a_server_with_a_gpu_and_no_linker_says_the_remedy(monkeypatch):
    def missing(request):
        raise BackendUnavailable("nvJitLink could not be loaded. Install it, or choose the recorded backend.")

    story.load.cache_clear()
    monkeypatch.setattr(launch_times, "launch_times", missing)
    state = {"kernel": "launch_children", "against": launches.NONE, "size": 0}
    with pytest.raises(BackendUnavailable, match="choose the recorded backend"):
        story.STORY.stage(launches.subject(page_of("launches"), state, "gpu"), None)
