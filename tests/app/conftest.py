"""What the page tests share: recordings and tables of times made here, in place of a GPU's."""

from dataclasses import replace

import pytest

from kernels import catalog
from kernels.core.problem import Case
from kernels.core.tolerance import OutputError
from kernels.run import execute, workers
from kernels.run.backends import Device, Survey, recorded
from kernels.timing import bench, protocol, rows, tables

GPU = "NVIDIA Test"
ROOFS = {"copy_gb_per_s": 4000.0, "fp32_tflops": 60.0, "fp16_tflops": 800.0}


@pytest.fixture(autouse=True)
def fresh_results():
    from app import runs

    runs._results.clear()


class Done:
    """A job that was done here and now."""

    def __init__(self, answer):
        self.answer = answer

    def result(self, timeout=None):
        return self.answer

    def done(self):
        return True


@pytest.fixture
def recordings(monkeypatch, tmp_path):
    """record(kernel, problem, settings): makes a recording of a run on this CPU, as if on a GPU. Pages find no
    other."""
    monkeypatch.setattr(recorded, "FOLDER", tmp_path / "runs")
    recorded.refresh()
    real, survey = workers.submit, workers.survey()
    devices = {**survey.devices, "recorded": Device("recorded", GPU, "recorded", recorded.SHARED_MAX)}
    here = Survey(devices, {name: reason for name, reason in survey.reasons.items() if name != "recorded"})
    monkeypatch.setattr(workers, "survey", lambda: here)
    monkeypatch.setattr(
        workers,  # a worker process would look at the repository's recordings
        "submit",
        lambda f, *a, backend, **kw: Done(f(*a)) if backend == "recorded" else real(f, *a, backend=backend, **kw),
    )

    def record(kernel, problem=None, settings=()):
        spec = catalog.KERNELS[kernel]
        case = Case(problem or spec.problem_type(), tuple(spec.settings(settings).items()))
        request = recorded.request_of(spec, case, "cpu")
        run = replace(execute.run(request), device=GPU, date="2026-01-02")
        recorded.save(run, execute.traffic(request), execute.yardstick(request))

    yield record
    recorded.refresh()


@pytest.fixture
def times(monkeypatch, tmp_path):
    """Recorded times of a made-up GPU: every dense kernel and one of torch's, over seq_len and over batch."""
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    made = []
    names = [*catalog.of_family("dense"), "sdpa_efficient"]
    kind = next(iter(catalog.of_family("dense").values())).problem_type
    for sizes in [{"seq_len": n} for n in (128, 256, 512, 1024)] + [{"seq_len": 512, "batch": b} for b in (2, 4)]:
        problem = replace(kind.bench_begin(), **sizes)
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
            made.append(rows.row(timing, ROOFS))
    where = tables.Provenance(GPU, "1.0", "2026-01-02", roofs=ROOFS, torch="2.0")
    tables.save(rows.table(made), tables.path_of(bench.KIND, GPU), where)
