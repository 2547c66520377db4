"""Measurements on the GPU at hand, without a GPU: what is refused, one at a time, stopped, and shown by the pages."""

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from pages import open_page

from app.measured import measuring
from app.stories import STORIES
from app.web import asking
from explainers.story import encoding
from kernels.core.tolerance import OutputError
from kernels.errors import ProblemError, RunCancelled, WorkerDied
from kernels.measure import hierarchy, protocol
from kernels.measure.protocol import Timing
from kernels.run import workers
from kernels.run.backends import Device, Survey

GPU = Device("gpu", "NVIDIA Here", "sm_90a", 227 * 1024, "1.0", 132)
ROOFS = {"copy_gb_per_s": 4000.0, "fp32_tflops": 60.0, "fp16_tflops": 800.0}
SWEEP = {"what": "sweep", "kernels": ["02_tiled", "03_flash"], "field": "seq_len", "values": "128, 256, 512"}


class Worker:
    """In place of the GPU's worker. asked: what it was given; error: what every point ends with; held: it waits."""

    def __init__(self):
        self.asked, self.gpus, self.error, self.held = [], [], None, False

    def submit(self, function, *args, backend, title, gpu="", **more):
        assert backend == "gpu"
        self.asked.append((function, *args))
        self.gpus.append(gpu)
        return SimpleNamespace(result=lambda: self.answer(function, *args), cancel=self.cancel)

    def cancel(self):
        self.error, self.held = RunCancelled("It was stopped."), False

    def answer(self, function, *args):
        if function is protocol.roofs:
            return ROOFS
        while self.held:
            time.sleep(0.01)
        if self.error:
            raise self.error
        if function is hierarchy.point:
            (place,) = args
            row = {"kind": place.kind, "space": place.problem.space, "working_set": place.problem.working_set}
            names = ("cycles", "ns") if place.kind == "latency" else ("gb_per_s",)
            return row | {f"{name}{end}": 40.0 for name in names for end in ("", "_least", "_most")}
        (point,) = args
        us, error = 1.0 * point.problem.seq_len, OutputError("o", 1e-7, 1e-7, 3e-7)
        return Timing(point, "ok", "", 9, us, 0.9 * us, 1.1 * us, 10, 10**6, error, point.kernel.code_hash)


@pytest.fixture
def worker(monkeypatch):
    made, found = Worker(), workers.survey()
    survey = Survey({"gpu": GPU, **found.devices}, {k: v for k, v in found.reasons.items() if k != "gpu"})
    monkeypatch.setattr(workers, "survey", lambda: survey)
    monkeypatch.setattr(workers, "submit", made.submit)
    yield made
    made.cancel()
    measuring.stop()
    done()
    for what in ("sweep", "hierarchy"):
        measuring.forget(what)


def done():
    while measuring.progress().running:
        time.sleep(0.01)
    return measuring.progress()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (None, "It must be one of sweep, hierarchy"),
        ({"what": "everything"}, "It must be one of sweep, hierarchy"),
        ({**SWEEP, "kernels": []}, "Choose at least one"),
        ({**SWEEP, "kernels": ["../../mine.cu"]}, "There is no kernel '../../mine.cu'"),
        ({**SWEEP, "values": ""}, "takes FIELD=VALUE"),
        ({**SWEEP, "values": "-5"}, "seq_len is -5. It must be a whole number"),
        ({**SWEEP, "field": "colour"}, "has no field or constant 'colour'"),
        ({**SWEEP, "set": "head_dim=48"}, "head_dim is 48"),
        ({**SWEEP, "values": ",".join(map(str, range(1, 900)))}, "The limit is 400"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_launched(worker, asked, words):
    with pytest.raises(ProblemError, match=words.replace("(", r"\(")):
        measuring.start(asked)
    assert not worker.asked and not measuring.progress().running


@pytest.mark.skipif("gpu" in workers.survey().devices, reason="this machine has a GPU")
def test_without_a_gpu_nothing_is_measured_and_the_pages_have_no_such_tab():
    with pytest.raises(ProblemError, match="No GPU was found"):
        measuring.start(SWEEP)
    for path in ("timing", "memory_hierarchy"):
        story = STORIES[path]
        made = story.make(asking.ask(story, {}, workers.survey()).subject)
        assert "now" not in [tab.id for tab in made.tabs]


def test_a_sweep_is_measured_point_after_point_and_shown_as_measured(worker):
    assert measuring.start(SWEEP).of == 6
    assert (done().done, done().error) == (6, "")
    assert [function for function, *_ in worker.asked] == [protocol.roofs] + 6 * [protocol.measure]
    made = open_page("timing?gpus=this GPU, now")
    assert not made.asked.told and [f["title"] for f in made.stage.frames] == [f"{n} tokens" for n in (128, 256, 512)]
    assert "03_flash takes 256 µs" in made.stage.frames[1]["sentence"]
    assert made.stage.provenance["label"] == "measured" and "NVIDIA Here" in made.stage.provenance["said"]
    tab = next(tab for tab in made.stage.tabs if tab["id"] == "now")
    assert tab["blocks"][0]["view"] == "measure" and tab["blocks"][0]["meta"]["measured"] == 6


def test_of_several_gpus_the_chosen_one_is_measured_and_named(worker, monkeypatch):
    assert measuring.start({**SWEEP, "gpu": ""}).of == 6
    done()
    with pytest.raises(ProblemError, match="gpu is 'GPU-2'. No GPU has a known id here"):
        measuring.start({**SWEEP, "gpu": "GPU-2"})
    two = (workers.Gpu("GPU-1", "NVIDIA Here"), workers.Gpu("GPU-2", "NVIDIA There"))
    survey = replace(workers.survey(), gpus=two)
    monkeypatch.setattr(workers, "survey", lambda: survey)
    with pytest.raises(ProblemError, match=r"one of GPU-1 \(NVIDIA Here\), GPU-2 \(NVIDIA There\)"):
        measuring.start({**SWEEP, "gpu": "GPU-3"})
    for gpu in two:
        worker.gpus.clear()
        measuring.start({**SWEEP, "gpu": gpu.id})
        assert done().error == "" and set(worker.gpus) == {gpu.id}
        assert (measuring.times().device, len(measuring.times().rows)) == (gpu.name, 6)
    measuring.start({**SWEEP, "values": "1024"})  # the first
    done()
    assert measuring.times().gpu == "GPU-1" and len(measuring.times().rows) == 2
    (panel,) = next(tab for tab in open_page("timing").stage.tabs if tab["id"] == "now")["blocks"]
    assert [tuple(one) for one in panel["meta"]["gpus"]] == [(gpu.id, gpu.name) for gpu in two]


def test_what_is_measured_makes_another_bundle(worker):
    story = STORIES["timing"]
    before = asking.ask(story, {}, workers.survey()).subject
    measuring.start(SWEEP)
    done()
    after = asking.ask(story, {}, workers.survey()).subject
    assert before != after and len(after.now.rows) == 6 and hash(after) is not None


def test_the_same_point_measured_again_takes_the_place_of_the_first(worker):
    for _ in range(2):
        measuring.start(SWEEP)
        done()
    assert len(measuring.times().rows) == 6
    measuring.start({**SWEEP, "warm": True, "values": "128"})
    done()
    assert len(measuring.times().rows) == 8


def test_one_at_a_time_and_a_stop_keeps_what_is_done(worker):
    measuring.start({**SWEEP, "values": "128"})
    done()
    worker.held = True
    measuring.start({**SWEEP, "values": "512, 1024"})
    with pytest.raises(ProblemError, match="A measurement is under way: 0 of 4 points"):
        measuring.start(SWEEP)
    with pytest.raises(ProblemError, match="Stop it first"):
        measuring.forget("sweep")
    measuring.stop()
    ended = done()
    assert ended.error == "" and len(measuring.times().rows) == 2
    worker.error = None
    measuring.start({**SWEEP, "values": "512"})
    assert done().done == 2 and len(measuring.times().rows) == 4


def test_a_point_whose_worker_died_is_a_row_with_the_reason_and_the_others_go_on(worker):
    worker.error = WorkerDied("The worker process died.")
    measuring.start({**SWEEP, "kernels": ["03_flash"], "values": "128, 256"})
    assert done().done == 2
    assert {row["status"] for row in measuring.times().records()} == {"failed"}
    assert all("died" in row["reason"] for row in measuring.times().records())


def test_the_levels_are_measured_anew_and_told_as_measured(worker):
    measuring.start({"what": "hierarchy"})
    ended = done()
    assert ended.done == ended.of == len(hierarchy.sweep(GPU.multiprocessors))
    story = STORIES["memory_hierarchy"]
    made = encoding.decode(encoding.encode(story.make(asking.ask(story, {}, workers.survey()).subject)))
    assert made["provenance"]["label"] == "measured" and "NVIDIA Here" in made["provenance"]["said"]
    assert "With 1 KiB of data, a load takes 40 cycles." in made["frames"][0]["sentence"]
    measuring.forget("hierarchy")
    assert measuring.levels().rows == ()


def test_a_failure_of_the_hierarchy_ends_it_with_its_words(worker):
    worker.error = WorkerDied("The worker process died.")
    measuring.start({"what": "hierarchy"})
    assert "died" in done().error and not measuring.progress().running
