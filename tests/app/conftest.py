"""What the page tests share: recordings and tables of times made here, in place of a GPU's."""

import sys
import threading
from dataclasses import replace

import pytest

from kernels import catalog
from kernels.build import folders
from kernels.core.problem import Case
from kernels.core.remembered import recordings_changed
from kernels.core.tolerance import OutputError
from kernels.measure import bench, bench_rows, protocol
from kernels.recordings import run_index, tables
from kernels.run import execute, workers
from kernels.run.backends import Device, Survey, recorded

GPU = "NVIDIA Test"
ROOFS = {"copy_gb_per_s": 4000.0, "fp32_tflops": 60.0, "fp16_tflops": 800.0}


@pytest.fixture
def fresh():
    """For a test that changes what pages find: nothing is remembered, before and after."""
    forget()
    yield
    forget()


def forget():
    from app.parts import running
    from app.stories import STORIES
    from app.web import bundles

    bundles.forget()
    running.forget()
    for story in STORIES.values():
        story.page.cache_clear()
    for module in [
        module for name, module in sys.modules.items() if name.startswith("app.") and name != "app.web.server"
    ]:
        for kept in (value for value in vars(module).values() if hasattr(value, "cache_clear")):
            if kept.__module__ == module.__name__:
                kept.cache_clear()


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """The folder of this test's own bundles; workers that run already keep theirs elsewhere."""
    from app.web import asking, bundles

    bundles.forget()
    asking.ask_once.cache_clear()
    monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path))
    monkeypatch.setenv(folders.SPARE, str(tmp_path / "spare"))
    yield tmp_path / "bundles"
    bundles.forget()


_RUNS = threading.RLock()  # a process runs one kernel at a time on the CPU, as a worker does


class Jobs:
    """In place of the workers: jobs that are done in this process, each when it is asked for, or when `let` says so.

    labels: what was submitted. error: what every job ends with, if anything. held: jobs are not done before `let_go`.
    """

    def __init__(self):
        self.labels, self.error, self.held = [], None, False
        self._lock, self._go = threading.Lock(), threading.Event()

    def submit(self, function, *args, backend, title, **more):
        with self._lock:
            self.labels.append(title)
        job = workers.Job(title, workers.TIME_LIMIT)
        if self.held:
            threading.Thread(target=lambda: self._go.wait(30) and self._do(job, function, args)).start()
        else:
            self._do(job, function, args)
        return job

    def let_go(self):
        self._go.set()

    def _do(self, job, function, args):
        if job.done():  # cancelled
            return
        try:
            if self.error:
                raise self.error
            with _RUNS:
                made = function(*args)
            job.set_result(made)
        except Exception as error:
            job.set_exception(error)


@pytest.fixture
def jobs(monkeypatch):
    """Jobs, in place of workers.submit."""
    made = Jobs()
    workers.survey()  # of this machine, asked of a real worker
    monkeypatch.setattr(workers, "submit", made.submit)
    yield made
    made.let_go()


@pytest.fixture
def recordings(monkeypatch, tmp_path, fresh):
    """record(kernel, problem, settings): makes a recording of a run on this CPU, as if on a GPU. Pages find no
    other."""
    monkeypatch.setattr(run_index, "FOLDER", tmp_path / "runs")
    recordings_changed()
    survey = workers.survey()
    devices = {**survey.devices, "recorded": Device("recorded", GPU, "recorded", recorded.SHARED_MAX)}
    here = Survey(devices, {name: reason for name, reason in survey.reasons.items() if name != "recorded"})
    monkeypatch.setattr(workers, "survey", lambda: here)

    def record(kernel, problem=None, settings=()):
        spec = catalog.KERNELS[kernel]
        case = Case(problem or spec.problem_type(), tuple(spec.settings(settings).items()))
        request = run_index.request_of(spec, case, "cpu")
        run = replace(execute.run(request), device=GPU, date="2026-01-02")
        recorded.save(run, execute.traffic(request), execute.yardstick(request))
        return request

    yield record
    recordings_changed()


@pytest.fixture
def times(monkeypatch, tmp_path, fresh):
    """Recorded times of a made-up GPU: every dense kernel and one of torch's, over seq_len and over batch."""
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    made = []
    kind = next(iter(catalog.current().of_family("dense").values())).problem_type
    names = [*catalog.current().of_problem(kind), "sdpa_efficient"]
    for sizes in [{"seq_len": n} for n in (128, 256, 512, 1024)] + [{"seq_len": 512, "batch": b} for b in (2, 4)]:
        problem = replace(kind.bench_default(), **sizes)
        for number, name in enumerate(names):
            spec = catalog.KERNELS.get(name)
            settings = tuple(spec.settings_for(problem).items()) if spec else ()
            us = 10.0 * problem.seq_len * problem.batch / 128 * (number + 1)
            timing = protocol.Timing(
                protocol.Point(name, problem, settings),
                "ok",
                runs=5,
                median_us=us,
                p10_us=0.9 * us,
                p90_us=1.1 * us,
                peak_bytes=10**6,
                moved_bytes=10**6,
                error=OutputError("o", 1e-7, 1e-7, 3e-7),
                code_hash=spec.code_hash if spec else "",
            )
            made.append(bench_rows.row(timing, ROOFS))
    where = tables.Provenance(GPU, "1.0", "2026-01-02", roofs=ROOFS, torch="2.0")
    tables.save(bench_rows.table(made), tables.path_of(bench.KIND, GPU), where)
