"""The course on GPUs that cannot run every kernel: each stop opens with a kernel that runs there, with the CPU or with
a recording, and says why."""

import pytest
from pages import open_page

from app.choices.estimates import requests_in
from app.course import stops
from app.stories import STORIES
from app.web import asking
from kernels.run import workers
from kernels.run.backends import Device, Survey

HOPPER = {"tensor_cores"}
NOT_ON_THE_GPU = {  # device -> the stops that do without it
    Device("gpu", "Tesla T4", "sm_75", 65_536, "1", 40): HOPPER | {"masks", "fragments", "fusion", "ring", "rounding"},
    Device("gpu", "NVIDIA GeForce RTX 3060", "sm_86", 101_376, "1", 28): HOPPER,
    Device("gpu", "NVIDIA GeForce RTX 5080", "sm_120a", 101_376, "1", 84): HOPPER,
}


ON_A_T4 = pytest.mark.parametrize("survey", [next(iter(NOT_ON_THE_GPU))], ids=["sm_75"], indirect=True)


@pytest.fixture(params=NOT_ON_THE_GPU, ids=lambda device: device.target)
def survey(request, monkeypatch, fresh):
    """The survey of this machine with one of these GPUs."""
    found = workers.survey()
    if "cpu" not in found.devices:
        pytest.skip(found.reasons["cpu"])
    planted = Survey({"gpu": request.param, "cpu": found.devices["cpu"], "recorded": found.devices["recorded"]}, {})
    monkeypatch.setattr(workers, "survey", lambda: planted)
    return planted


def test_each_stop_opens_with_a_run_that_its_gpu_or_another_backend_can_do(survey):
    gpu, elsewhere = survey.devices["gpu"], set()
    for stop in stops():
        asked = asking.ask(STORIES[stop.story], stop.choices, survey)
        assert not asked.error and asked.subject is not None, stop.name
        assert {name: asked.link[name] for name in stop.choices} == stop.choices
        for request in requests_in(asked.subject):
            device = survey.devices[request.backend]
            assert request.kernel.cannot_run(request.problem, request.constants, device) is None, (stop.name, request)
        if asked.backend != "gpu":
            elsewhere.add(stop.name)
            assert asked.backend == "cpu" and asked.link.get("backend", "auto") == "auto"
            (said,) = asked.told
            assert f"and {gpu.name} is {gpu.target}. " in said
            assert said.endswith("This page therefore does not use the GPU.")
        else:
            assert not asked.told
    assert elsewhere == NOT_ON_THE_GPU[gpu]


@ON_A_T4
def test_times_of_another_gpu_are_shown_as_recorded(survey):
    page = open_page("pipeline?kernel=08_pipeline&beneath=07_swizzle", survey)
    assert page.stage.provenance["label"] == "recorded" and "08_pipeline needs sm_80" in page.asked.told[0]


@ON_A_T4
def test_a_press_leaves_the_gpu_with_the_reason_and_comes_back(survey):
    tiling, gpu = STORIES["tiling"], survey.devices["gpu"]
    first = asking.ask(tiling, {"kernel": "03_flash"}, survey)
    assert first.backend == "gpu" and not first.told
    left = asking.ask(tiling, first.link, survey, ("kernel", "12_optimistic"))
    reason = f"12_optimistic needs sm_90a for wgmma and setmaxnreg, and {gpu.name} is {gpu.target}."
    assert left.backend == left.subject.backend == "cpu" and left.told[0].startswith(reason)
    (menu,) = (choice for choice in left.choices if choice["name"] == "backend")
    assert menu["value"] == "auto" and menu["options"][0]["label"].startswith("Automatic: The CPU")
    assert next(option["why"] for option in menu["options"] if option["value"] == "gpu").startswith(reason)
    again = asking.ask(tiling, left.link, survey, ("backend", "auto"))
    assert (again.subject, again.told) == (left.subject, left.told)
    back = asking.ask(tiling, left.link, survey, ("kernel", "03_flash"))
    assert back.backend == "gpu" and not back.told and back.subject == first.subject


@ON_A_T4
def test_a_gpu_that_the_reader_chose_is_not_replaced(survey):
    asked = asking.ask(STORIES["tiling"], {"kernel": "12_optimistic", "backend": "gpu"}, survey)
    assert asked.backend == "gpu" and "12_optimistic needs sm_90a" in asked.error and not asked.told
