"""Worker processes die, hang and are stopped; the next task runs, and other tasks notice nothing."""

import os
import re
import signal
import time
from pathlib import Path

import pytest
from faulty import spec

from kernels.catalog import KERNELS
from kernels.core.request import Request, Scope
from kernels.errors import ProblemError, RunCancelled, RunTimeout, WorkerDied
from kernels.families.dense import DenseProblem
from kernels.run import execute, workers

pytestmark = pytest.mark.xdist_group("workers")
GOOD = Request(KERNELS["03_flash"], DenseProblem())
ENDLESS = Request(spec("endless"), DenseProblem(seq_len=1))


def submit(request, **options):
    return workers.submit(execute.run, request, backend="cpu", what=request.kernel.name, **options)


def busy_worker():
    """The pid of the child process that is using the processor."""

    def ticks(pid):
        return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))

    def children():
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            text = stat.read_text() if stat.exists() else ""
            if re.search(rf"\) \w {os.getpid()} ", text) and "spawn_main" in stat.with_name("cmdline").read_text():
                found.append(int(stat.parent.name))
        return found

    time.sleep(2)  # let it load and begin
    before = {pid: ticks(pid) for pid in children()}
    time.sleep(0.5)
    return max(before, key=lambda pid: ticks(pid) - before[pid])


def test_a_killed_worker_is_replaced_and_the_others_notice_nothing():
    warm = [submit(GOOD) for _ in range(2)]
    assert all(job.result().max_abs_error < 1e-6 for job in warm)
    doomed, beside = submit(ENDLESS, time_limit=60), submit(GOOD)
    os.kill(busy_worker(), signal.SIGKILL)
    with pytest.raises(WorkerDied, match=r"running endless died \(by signal 9\).*run it again"):
        doomed.result(30)
    assert beside.result(30).max_abs_error < 1e-6
    assert submit(GOOD).result(30).max_abs_error < 1e-6


def test_an_endless_kernel_is_stopped_at_its_limit():
    job = submit(ENDLESS, time_limit=2)
    with pytest.raises(TimeoutError):
        job.result(0.1)
    with pytest.raises(RunTimeout, match="endless ran past its limit of 2 s and was stopped"):
        job.result(30)
    assert submit(GOOD).result(30).max_abs_error < 1e-6


def test_a_running_task_can_be_stopped():
    job = submit(ENDLESS, time_limit=60)
    time.sleep(2)
    job.cancel()
    with pytest.raises(RunCancelled, match="endless was stopped"):
        job.result(30)
    assert submit(GOOD).result(30).max_abs_error < 1e-6


def test_a_task_error_comes_back_as_itself():
    with pytest.raises(ProblemError, match="query tiles 99"):
        submit(Request(KERNELS["03_flash"], DenseProblem(), scope=Scope(99))).result(30)


def test_the_survey_names_a_reason_for_every_backend_it_lacks():
    survey = workers.survey()
    assert set(survey.devices) | set(survey.reasons) == {"gpu", "cpu", "recorded"}
    assert survey.pick("cpu").backend == "cpu"
    assert all(len(reason) > 20 for reason in survey.reasons.values())


def test_a_survey_that_failed_is_not_kept(monkeypatch):
    def die(*_, **__):
        raise WorkerDied("its worker died")

    monkeypatch.setattr(workers, "driver_missing", lambda: None)
    workers.survey.cache_clear()
    try:
        with monkeypatch.context() as once, pytest.raises(WorkerDied):
            once.setattr(workers, "submit", die)
            workers.survey()
        assert workers.survey().pick("cpu").backend == "cpu"
    finally:
        workers.survey.cache_clear()
