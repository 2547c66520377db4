"""Workers of a dask scheduler: what runs there, ends, is stopped and is lost, as on one machine."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace

import pytest
from faulty import tasks
from waiting import gone, until

from kernels.errors import BackendUnavailable, ProblemError, RunCancelled, RunError, RunTimeout, WorkerDied
from kernels.run import workers
from kernels.run.messages.decode import decode
from kernels.run.workers import agent
from kernels.run.workers.__main__ import main
from kernels.run.workers.local import LocalWorker
from kernels.run.workers.worker import Unbegun, call_of

ROOT = Path(__file__).parents[3]


class Command:
    """python -m kernels.run.workers ...; said: its first line, once it is there."""

    def __init__(self, *words):
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        environment = {name: text for name, text in os.environ.items() if name != "WARPGLASS_WORKERS"}
        command = [sys.executable, "-m", "kernels.run.workers", *words]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env={**environment, "PYTHONPATH": paths}, stdout=subprocess.PIPE, text=True
        )

    @cached_property
    def said(self):
        return self.process.stdout.readline().strip()

    def kill(self):
        self.process.kill()
        self.process.wait(20)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def cluster():
    """A scheduler and two hosts with a worker of the CPU each; workers.submit goes there."""
    workers.stop()
    scheduler = Command("schedule", "--port", "0")
    setting = scheduler.said.partition("=")[2]
    hosts = [Command("work", setting.removeprefix("dask://"), "--cpu", "1", "--no-gpu") for _ in range(2)]
    assert all(host.said for host in hosts)  # both have begun
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPGLASS_WORKERS", setting)
        yield scheduler, hosts
        workers.stop()
    workers._surveyed.cache_clear()  # what other tests ask is of this machine
    for command in (*hosts, scheduler):
        command.kill()


def submit(function, *args, **options):
    return workers.submit(function, *args, backend="cpu", title=function.__name__, **options)


def blocked(tmp_path, name="blocked", **options):
    path = tmp_path / name
    job = submit(tasks.block, str(path), **options)
    until(path.exists)
    return job, *map(int, path.read_text().split())


def test_results_errors_deaths_pickles_and_a_missing_worker_are_told_as_themselves(cluster, tmp_path):
    assert workers.elsewhere() and submit(int, "7").result(60) == 7
    with pytest.raises(ValueError, match="invalid literal"):
        submit(int, "x").result(60)
    survey = workers.survey()
    assert survey.pick("cpu").backend == "cpu" and survey.gpus == () and "gpu" in survey.reasons
    with pytest.raises(WorkerDied, match="exit_with died .with exit code 3"):
        submit(tasks.exit_with, 3).result(60)
    assert submit(int, "7").result(60) == 7
    path = tmp_path / "ran"
    with pytest.raises(RunError, match="answered with bytes that cannot be read"):
        submit(tasks.send_pickle, str(path), True).result(60)
    assert submit(int, "7").result(60) == 7 and not path.exists()
    with pytest.raises(BackendUnavailable, match=r"No worker with a GPU is connected to dask://.*workers work 127"):
        workers.submit(int, backend="gpu", title="it").result(20)


def test_a_task_is_ended_at_its_limit_and_where_it_is_stopped(cluster, tmp_path):
    late, pid, helper = blocked(tmp_path, "late", time_limit=1)
    with pytest.raises(RunTimeout, match="block ran past its limit of 1 s"):
        late.result(60)
    until(lambda: gone(pid, helper))
    job, pid, helper = blocked(tmp_path)
    job.cancel()
    with pytest.raises(RunCancelled, match="block was stopped"):
        job.result(60)
    until(lambda: gone(pid, helper))


@pytest.mark.slow
def test_a_stop_that_comes_late_ends_no_other_task():
    worker, host = LocalWorker(), SimpleNamespace(name="a host")
    agent._workers[host.name] = worker

    def run(number):
        return decode(agent._run(worker, number, call_of(os.getpid, (), 60), 60))

    try:
        good, pid, _ = run("first")
        assert good
        agent.kill("first", host)
        assert run("second") == (True, pid, 0.0)
        agent.kill("third", host)
        with pytest.raises(Unbegun):
            run("third")
        assert run("fourth") == (True, pid, 0.0)
    finally:
        worker.end()
        del agent._workers[host.name]


@pytest.mark.parametrize("at, why", [("x:99999", "is no HOST:PORT"), ("127.0.0.1:1", "no scheduler answers at")])
def test_a_host_without_a_scheduler_says_so_and_ends(monkeypatch, capsys, at, why):
    monkeypatch.setattr(sys, "argv", ["kernels.run.workers", "work", at])
    with ThreadPoolExecutor(1) as thread:  # a browser test may have left a running loop in this one
        assert thread.submit(main).result(60) == 1
    said = capsys.readouterr().err
    assert why in said and "Start one (python -m" in said


@pytest.mark.slow
def test_a_lost_host_is_told_to_the_run_that_it_ran_and_the_others_run_elsewhere(cluster, tmp_path):
    _, hosts = cluster
    jobs = [blocked(tmp_path, f"on{n}") for n in range(2)]
    order = [submit(tasks.note, str(tmp_path / "order"), name, client=name[0]) for name in ("a1", "a2", "b1")]
    assert [job.ahead() for job in order] == [0, 2, 1] and workers.status()[0].waiting == 3
    hosts[0].kill()
    until(lambda: any(job.done() for job, _, _ in jobs))
    ((lost, *pids),) = [one for one in jobs if one[0].done()]
    ((other, *_),) = [one for one in jobs if not one[0].done()]
    with pytest.raises(WorkerDied, match="block died .it is not there any more"):
        lost.result(0)
    until(lambda: gone(*pids))
    assert not any(job.done() for job in order)
    other.cancel()
    for job in order:
        job.result(60)
    assert (tmp_path / "order").read_text().split() == ["a1", "b1", "a2"]


@pytest.mark.slow
def test_a_lost_scheduler_is_told_with_the_remedy(cluster):
    scheduler, hosts = cluster
    os.kill(scheduler.process.pid, signal.SIGKILL)
    until(lambda: not workers.status())
    with pytest.raises(BackendUnavailable, match="scheduler of WARPGLASS_WORKERS=dask://.* does not answer. Start it"):
        submit(int, "7").result(60)


@pytest.mark.parametrize(
    "said", ["dask", "dask://", "dask://here", "tcp://here:1", "dask://here:99999", "dask://:8786"]
)
def test_a_setting_that_names_nothing_is_refused(monkeypatch, said):
    monkeypatch.setenv("WARPGLASS_WORKERS", said)
    with pytest.raises(ProblemError, match="must be local, or dask://HOST:PORT"):
        workers.warm_up()
