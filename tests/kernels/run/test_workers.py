"""Worker processes die, hang and are stopped; the next task runs, and other tasks notice nothing."""

import os
import pickle
import signal
import socket
import threading
from dataclasses import replace
from multiprocessing import forkserver
from types import SimpleNamespace

import pytest
from faulty import spec, tasks
from waiting import gone, until

from kernels.build import CPU, Mode, build, folders
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import BackendUnavailable, ProblemError, RunCancelled, RunError, RunTimeout, WorkerDied
from kernels.families.dense import DenseProblem
from kernels.run import execute, workers
from kernels.run.backends import Device, Survey
from kernels.run.workers import devices, forks, local, pool, worker

GOOD = Request(KERNELS["03_flash"], DenseProblem(seq_len=32, head_dim=32))
ENDLESS = Request(spec("endless"), DenseProblem(seq_len=1))


def submit(request, **options):
    return workers.submit(execute.run, request, backend="cpu", title=request.kernel.name, **options)


def blocked(tmp_path, name="blocked", **options):
    """A task that runs and never ends: its Job, its worker's id and its helper's."""
    path = tmp_path / name
    job = workers.submit(tasks.block, str(path), backend="cpu", title=name, **options)
    until(path.exists)
    return job, *map(int, path.read_text().split())


def cpu():
    return next(one for one in workers.status() if one.backend == "cpu")


def test_a_killed_worker_is_replaced_with_its_helpers_and_the_others_notice_nothing(tmp_path):
    assert submit(GOOD).result().max_abs_error < 1e-6
    doomed, pid, helper = blocked(tmp_path)
    beside, before = submit(GOOD), cpu().deaths
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerDied, match=r"running blocked died \(by signal 9\).*run it again"):
        doomed.result(30)
    assert beside.result(30).max_abs_error < 1e-6 and cpu().deaths == before + 1
    until(lambda: gone(pid) and gone(helper))


def test_whatever_is_killed_again_and_again_the_next_task_runs(tmp_path):
    """All workers, or the process that they are forked from."""
    for number in range(3):
        running = [blocked(tmp_path, f"run{number} {n}") for n in range(workers.CPU_WORKERS)]
        waiting = workers.submit(os.getpid, backend="cpu", title="waiting")
        pids = {pid for _, pid, _ in running}
        if number == 1:
            os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)
        else:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        for job, _, _ in running:
            with pytest.raises(WorkerDied, match="running run"):
                job.result(30)
        assert waiting.result(60) not in pids
        until(lambda running=running: all(gone(pid) and gone(helper) for _, pid, helper in running))
    assert cpu().alive <= workers.CPU_WORKERS and not cpu().running


def test_a_new_process_has_only_the_named_descriptors_and_a_gpus_worker_sees_its_gpu_alone(tmp_path):
    with socket.socket() as held, (tmp_path / "named").open("w") as named:
        held.set_inheritable(True)  # as Streamlit's, which listens at the port
        pid = forks._spawn(b"/bin/sh", ["sh", "-c", f"ls -l /proc/self/fd > {tmp_path}/listed"], [named.fileno()])
        os.waitpid(pid, 0)
        listed = (tmp_path / "listed").read_text()
        assert f" {named.fileno()} -> {tmp_path}/named" in listed and "socket:" not in listed
    gpu = devices.Gpu("GPU-2", "H200")
    pinned = local.LocalWorker(gpu)
    pinned.gpu = None  # no such GPU can prove itself
    try:
        pinned.ready()
        assert pinned.run(tasks.visible, (), 60) == gpu.id
    finally:
        pinned.end()


def test_a_stopped_task_ends_at_once_with_its_helpers(tmp_path):
    job, pid, helper = blocked(tmp_path)
    before = cpu()
    job.cancel()
    with pytest.raises(RunCancelled, match="blocked was stopped"):
        job.result(10)
    until(lambda: gone(pid) and gone(helper))
    assert workers.submit(os.getpid, backend="cpu", title="next").result(30) != pid
    assert (cpu().failed, cpu().deaths) == (before.failed, before.deaths)  # it was asked for, and is no fault


def test_after_a_stopped_task_another_worker_is_there_before_it_is_wanted(tmp_path):
    own, path = pool.Pool("cpu", [local.LocalWorker()]), tmp_path / "blocked"
    job = own.submit(tasks.block, (str(path),), "it", 60, "", "")
    until(path.exists)
    pid = int(path.read_text().split()[0])
    job.cancel()
    until(lambda: gone(pid) and own.status()[0].alive)
    own.stop()


def test_a_worker_that_holds_too_much_is_replaced_between_two_tasks(monkeypatch):
    one = local.LocalWorker()

    def pid():
        one.ready()
        return one.run(os.getpid, (), 30)

    try:
        first = pid()
        assert pid() == first
        monkeypatch.setattr(local, "MOST_HELD", 2**20)
        assert pid() != first and gone(first) and not one.deaths
    finally:
        one.end()


def test_clients_take_turns_and_are_told_their_place(tmp_path):
    held = [blocked(tmp_path, f"held{n}")[0] for n in range(workers.CPU_WORKERS)]
    order = tmp_path / "order"

    def note(name):
        return workers.submit(tasks.note, str(order), name, backend="cpu", title=name, client=name[0])

    first, second, third, other = [note(name) for name in ("a1", "a2", "a3", "b1")]
    assert [job.ahead() for job in (first, second, third, other)] == [0, 2, 3, 1]
    assert first.seconds() is None and held[0].seconds() > 0
    assert (cpu().running, cpu().waiting) == (2, 4)
    second.cancel()
    assert [job.ahead() for job in (first, third, other)] == [0, 2, 1] and cpu().waiting == 3
    held[0].cancel()
    for job in (first, third, other):
        job.result(30)
    with pytest.raises(RunCancelled):
        second.result(0)
    held[1].cancel()
    assert order.read_text().split() == ["a1", "b1", "a3"]


def test_each_error_of_a_task_comes_back_as_itself_with_its_place_and_the_next_task_runs(monkeypatch):
    with pytest.raises(WorkerDied, match=r"running exits died \(with exit code 3\)"):
        workers.submit(tasks.exit_with, 3, backend="cpu", title="exits").result(30)
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        workers.submit(threading.Lock, backend="cpu", title="a lock").result(30)
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        workers.submit(lambda: 1, backend="cpu", title="a lambda").result(30)
    assert workers.submit(os.getpid, backend="cpu", title="next").result(30) > 0
    with pytest.raises(ValueError, match="invalid literal") as raised:
        workers.submit(int, "x", backend="cpu", title="int").result(30)
    assert "served.py" in "".join(raised.value.__notes__)
    with pytest.raises(ProblemError, match="query tiles 99"):
        submit(Request(KERNELS["03_flash"], DenseProblem(), scope=Scope(99))).result(30)
    with pytest.raises(RunError, match="CUDA error ILLEGALADDRESS"):
        workers.submit(tasks.catch_sticky, backend="cpu", title="it").result(60)
    assert workers.submit(int, "7", backend="cpu", title="it").result(60) == 7
    with pytest.raises(RuntimeError, match="Unsendable: no") as fault:
        workers.submit(tasks.raise_unsendable, backend="cpu", title="it").result(60)
    assert "tasks.py" in "".join(fault.value.__notes__)


@pytest.mark.parametrize("code", [-signal.SIGSEGV, -signal.SIGABRT, 3])
def test_a_worker_that_its_kernel_ended_is_no_reason_for_a_smaller_problem(code):
    said = str(worker.death("mine", code))
    assert "The kernel itself may have ended it" in said and "smaller problem" not in said
    assert "choose a smaller problem" in str(worker.death("mine", -signal.SIGKILL))


def test_a_stack_overflow_and_an_endless_kernel_end_their_launch_and_not_their_worker():
    submit(GOOD).result()
    before = cpu().deaths
    with pytest.raises(RunError, match=r"thread \(0, 0, 0\): stack overflow.*before its first probe"):
        submit(Request(spec("overflow"), DenseProblem(seq_len=1))).result()
    assert cpu().deaths == before
    job = submit(ENDLESS, time_limit=4)  # on a busy machine, more than a second passes before the launch
    with pytest.raises(TimeoutError):
        job.result(0.1)
    with pytest.raises(RunTimeout, match="the time limit is over.*after endless.cu:"):
        job.result(30)
    assert submit(GOOD).result(30).max_abs_error < 1e-6


def test_compiling_is_counted(monkeypatch, tmp_path):
    monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path))
    workers.stop()  # workers have the environment of when they were started
    assert submit(GOOD).result(60).max_abs_error < 1e-6
    assert cpu().compiling > 0.1 and cpu().done == 1
    workers.stop()
    assert not workers.status()


def test_the_survey_names_a_reason_for_each_missing_backend_and_plain_kernels_need_a_named_gpu():
    survey = Survey({name: Device(name, name, "", 0) for name in ("gpu", "cpu", "recorded")}, {})
    assert survey.pick().backend == "gpu" and survey.pick("gpu", plain=True).backend == "gpu"
    assert survey.pick("auto", plain=True).backend == "cpu"
    assert replace(survey, devices={"recorded": survey.devices["recorded"]}).pick("auto", True).backend == "recorded"
    survey = workers.survey()
    assert set(survey.devices) | set(survey.reasons) == {"gpu", "cpu", "recorded"}
    assert survey.pick("cpu").backend == "cpu"
    assert all(len(reason) > 20 for reason in survey.reasons.values())


@pytest.fixture
def surveyed(monkeypatch):
    """workers.survey, which looks for a GPU; what it finds is forgotten at the end."""
    monkeypatch.setattr(workers, "driver_missing", lambda: None)
    monkeypatch.setattr(workers, "_failed", None)
    workers._surveyed.cache_clear()
    yield workers.survey
    workers._surveyed.cache_clear()


def test_a_survey_that_failed_is_told_and_not_kept(monkeypatch, surveyed):
    def die(*_, **__):
        raise WorkerDied("its worker died")

    with monkeypatch.context() as once:
        once.setattr(workers, "submit", die)
        assert surveyed().reasons["gpu"] == "its worker died" and surveyed() is surveyed()
    found = SimpleNamespace(result=lambda: Survey({"gpu": None}, {}))
    monkeypatch.setattr(workers, "submit", lambda *_, **__: found)
    assert "gpu" in surveyed().devices and not surveyed().reasons


def test_while_one_looks_again_for_a_gpu_the_others_have_what_was_found_before(monkeypatch, surveyed):
    looking, go = threading.Event(), threading.Event()

    def die(*_, **__):
        raise BackendUnavailable("it hangs")

    def hang(*_, **__):
        looking.set()
        assert go.wait(20)
        raise BackendUnavailable("it hangs still")

    monkeypatch.setattr(workers, "submit", die)
    before = surveyed()
    monkeypatch.setattr(workers, "submit", hang)
    thread = threading.Thread(target=surveyed)
    thread.start()
    assert looking.wait(20) and surveyed() is before
    go.set()
    thread.join(20)
    monkeypatch.setattr(workers, "submit", die)
    assert surveyed() is before  # the same words are the same survey: what is asked stays the same question


def test_a_worker_keeps_what_cannot_go_to_the_cache_where_its_server_looks_for_it():
    assert workers.submit(folders.spare, backend="cpu", title="spare").result() == folders.spare()


def test_a_library_that_is_cut_short_under_the_workers_harms_none_of_them(variant):
    own = variant("01_naive", "// S = ", "// here S = ")  # a build that no other test uses
    request = Request(own, DenseProblem(seq_len=32, head_dim=32), backend="cpu")
    for job in [submit(request) for _ in range(4)]:
        job.result()
    made = build(own, request.defines, Mode.PROBED, CPU)
    whole = made.path.stat().st_size
    os.truncate(made.path, 0)
    for job in [submit(replace(request, problem=DenseProblem(seq_len=n, head_dim=32))) for n in (31, 30, 29, 28)]:
        assert job.result().trace.table.num_rows
    assert made.path.stat().st_size == whole
