"""Where runs happen: worker processes, a pool for each device, never the process that serves pages.

A task has a time limit. A task that outruns it, or whose process dies under it, ends alone: pebble replaces the
process, and tasks that wait in the queue are run by the new one. A sticky CUDA error ends its process too
(driver.STICKY).
"""

import atexit
import concurrent.futures
import multiprocessing
import os
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any

try:
    import pebble
except ImportError:  # a borrowed GPU machine: see _InThisProcess
    pebble = None  # type: ignore[assignment]

from kernels.errors import RunCancelled, RunError, RunTimeout, WorkerDied
from kernels.run import backends
from kernels.run.backends.driver import STICKY, StickyError, exit_code
from kernels.run.backends.gpu import driver_missing

WORKERS = {"gpu": 1, "cpu": 2}  # processes per pool; recordings are read by the CPU's
TIME_LIMIT = float(os.environ.get("WARPGLASS_TIME_LIMIT", "60"))  # seconds per task, from when it starts
_lock = threading.Lock()
_pools: dict[str, Any] = {}


class Job:
    """A submitted task. `what` names it in messages."""

    def __init__(self, future: concurrent.futures.Future, what: str, time_limit: float):
        self._future, self._what, self._time_limit = future, what, time_limit

    def done(self) -> bool:
        return self._future.done()

    def cancel(self) -> None:
        """Stops the task, running or not; its result is RunCancelled."""
        self._future.cancel()

    def result(self, timeout: float | None = None) -> Any:
        """The task's result, or its own error, RunTimeout, RunCancelled or WorkerDied. TimeoutError after `timeout`
        seconds."""
        try:
            concurrent.futures.wait([self._future], timeout)
            if not self._future.done():
                raise TimeoutError
            return self._future.result()
        except concurrent.futures.CancelledError:
            raise RunCancelled(f"{self._what} was stopped.") from None
        except concurrent.futures.TimeoutError:
            if not self._future.done():
                raise
            raise RunTimeout(
                f"{self._what} ran past its limit of {self._time_limit:g} s and was stopped; a new worker has taken "
                "its place. "
                "Choose a smaller problem, or raise WARPGLASS_TIME_LIMIT."
            ) from None
        except Exception as error:
            if pebble and isinstance(error, pebble.ProcessExpired):
                raise _death(self._what, error.exitcode) from None
            raise


def submit(function: Callable, *args: Any, backend: str, what: str, time_limit: float = TIME_LIMIT) -> Job:
    """Runs function(*args), both picklable, in a worker of that backend; returns a Job."""
    pool = _pool("gpu" if backend == "gpu" else "cpu")
    return Job(pool.schedule(_task, args=[function, args], timeout=time_limit), what, time_limit)


@lru_cache
def survey() -> backends.Survey:
    """backends.Survey of this machine, made once; in a worker, as it calls CUDA, unless there is no driver to call. If
    the worker fails, that is raised and not kept: the next call looks again."""
    if driver_missing():
        return backends.survey()
    return submit(backends.survey, backend="gpu", what="Looking for a GPU").result()


def warm_up() -> None:
    """Starts the CPU workers and has one import what the first run needs, so that it need not wait."""
    submit(_import_torch, backend="cpu", what="Warming up")


def stop() -> None:
    """Ends all workers at once."""
    with _lock:
        for pool in _pools.values():
            pool.stop()
            pool.join()
        _pools.clear()


atexit.register(stop)


def _pool(name: str) -> Any:
    with _lock:
        if name not in _pools:
            context = multiprocessing.get_context("spawn")
            _pools[name] = (
                pebble.ProcessPool(max_workers=WORKERS[name], context=context) if pebble else _InThisProcess()
            )
        return _pools[name]


class _InThisProcess:
    """Where pebble is not installed the command line still works: tasks run here, without a time limit or crash
    recovery."""

    def schedule(self, task: Callable, args: list, timeout: float) -> concurrent.futures.Future:
        future: concurrent.futures.Future = concurrent.futures.Future()
        function, arguments = args
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future

    def stop(self) -> None:
        pass

    join = stop


def _task(function: Callable, args: tuple) -> Any:
    try:
        return function(*args)
    except StickyError as error:
        os._exit(error.exit_code)  # the parent reads the code; nothing more can be done in this process


def _import_torch() -> None:
    import torch  # noqa: F401


def _death(what: str, code: int | None) -> RunError:
    """The error of a task whose process ended with that exit code."""
    for status, name in STICKY.items():
        if code == exit_code(status):
            return RunError(
                f"{what} failed on the GPU with CUDA error {name}: the kernel touched memory it must not, or was "
                "broken off. "
                "Its worker process was replaced; the next run is not affected."
            )
    how = f"by signal {-code}" if code and code < 0 else f"with exit code {code}"
    return WorkerDied(
        f"The worker process running {what} died ({how}). A new one has taken its place: run it again. If it dies "
        "again, "
        "choose a smaller problem."
    )
