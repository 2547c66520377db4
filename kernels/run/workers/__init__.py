"""Where runs happen: worker processes, never the process that serves pages.

    submit -> Job   pool.py: each backend's queue, fair between clients (fair.py), and its places: two of the CPU, one
                    for each GPU (devices.py, place.py)
                    process.py: a worker process, from outside; served.py: the same, from inside
                    forks.py, forked.py: the process that workers are forked from; limits.py: how much a worker may take
                    wire.py: an answer as bytes; frames.py, reader.py: how the server reads them, and trusts none
    WARPGLASS_WORKERS=dask://HOST:PORT
                    cluster.py: places on other hosts, from the server's side; agent.py: from theirs

A task has a time limit. A task that outruns it, or whose process dies under it, ends alone: its process is replaced,
with all that it had started, and the tasks that wait notice nothing. A sticky CUDA error ends its process too
(driver.STICKY). A new worker of a GPU first shows that the GPU answers; one that does not is taken out for a while, and
others do its work.
"""

import atexit
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from kernels.errors import BackendUnavailable, ProblemError, RunError
from kernels.run import backends
from kernels.run.backends.cpu import limited
from kernels.run.backends.gpu import driver_missing
from kernels.run.workers import cluster, devices, frames, reader
from kernels.run.workers.cluster import Cluster
from kernels.run.workers.devices import Gpu
from kernels.run.workers.forks import warm_up as _warm_up
from kernels.run.workers.job import Job, asked_limit
from kernels.run.workers.place import Local, Status
from kernels.run.workers.pool import Pool

__all__ = [
    "TIME_LIMIT", "Gpu", "Job", "Status", "check_limit", "elsewhere", "gpus", "limit_answers", "ready", "status",
    "stop", "submit", "survey", "warm_up"
]  # fmt: skip

CPU_WORKERS = 2  # recordings are read by them, too
TIME_LIMIT, _limit_fault = asked_limit(60.0)  # seconds per task, from when it starts; what is wrong with the variable
_lock = threading.Lock()
_pools: dict[str, Pool] = {}
_cluster: Cluster | None = None
_looking = threading.Lock()
_failed: backends.Survey | None = None  # what the last look found, if it found that no GPU answers


def submit(
    function: Callable,
    *args: Any,
    backend: str,
    what: str,
    time_limit: float = TIME_LIMIT,
    client: str = "",
    gpu: str = "",
) -> Job:
    """Runs function(*args), both picklable, in a worker of that backend. A kernel that reaches the limit on the CPU
    stops and names its line.

    client: the one that waits; clients take turns.
    gpu: the id of the GPU that must run it, else any. ProblemError for a GPU that is not there.
    """
    check_limit()
    if gpu and gpu not in (one.id for one in gpus()):
        there = ", ".join(one.id for one in gpus() if one.id) or "none that NVML can name"
        raise ProblemError(f"gpu is {gpu!r:.60}; there is {there}.")
    if backend == "gpu":
        return _pool("gpu").submit(function, args, what, time_limit, client, gpu)
    return _pool("cpu").submit(limited, (time_limit, function, *args), what, time_limit, client, gpu)


def check_limit() -> None:
    """ProblemError for a WARPGLASS_TIME_LIMIT that is no number of seconds."""
    if _limit_fault:
        raise ProblemError(_limit_fault)


def survey() -> backends.Survey:
    """backends.Survey of this machine, made once; in a worker, as it calls CUDA, unless there is no driver to call.
    While no GPU answers it is one without, and each call looks again; who calls while another looks has what was found
    before."""
    global _failed
    before = _failed
    if before is None:
        _looking.acquire()
    elif not _looking.acquire(blocking=False):
        return before
    try:
        found = _surveyed(gpus() if elsewhere() else ())
        _failed = None
    except (BackendUnavailable, RunError) as error:
        found = _failed = _without_gpu(str(error))
    finally:
        _looking.release()
    return found


@lru_cache(maxsize=8)
def _surveyed(of: tuple[Gpu, ...]) -> backends.Survey:
    """of: the GPUs of other hosts, where the workers are there."""
    if elsewhere() and not of:
        found = submit(backends.survey, ("cpu", "recorded"), backend="cpu", what="Looking for a compiler").result()
        return replace(found, reasons={"gpu": "No worker of the scheduler has a GPU.", **found.reasons})
    if not elsewhere() and driver_missing():
        return backends.survey()
    found = submit(backends.survey, backend="gpu", what="Looking for a GPU").result()
    if "gpu" not in found.devices:
        raise BackendUnavailable(found.reasons["gpu"])
    return replace(found, gpus=gpus())


@lru_cache(maxsize=8)
def _without_gpu(reason: str) -> backends.Survey:
    found = backends.survey(("cpu", "recorded"))
    return replace(found, reasons={"gpu": reason, **found.reasons})


def gpus() -> tuple[Gpu, ...]:
    """The GPUs that tasks may run on."""
    made = _connected()
    return made.gpus() if made else devices.gpus()


def elsewhere() -> bool:
    """Whether the workers are a scheduler's: what they write is not in this process's cache folder. ProblemError for a
    WARPGLASS_WORKERS that names nothing."""
    return bool(cluster.address())


def warm_up(*modules: str) -> None:
    """Starts the process that this machine's workers are forked from, with those modules imported, while the caller
    goes on. ProblemError as `elsewhere`."""
    if not elsewhere():
        _warm_up(*modules)


def ready() -> None:
    """Waits until a worker of the CPU is there."""
    submit(os.getpid, backend="cpu", what="Warming up").result()


def limit_answers(most_bytes: int, most_json: int) -> None:
    """Sets the most bytes that this process accepts in a worker's answer, and in the JSON of the answer."""
    frames.limit(most_bytes)
    reader.limit(most_json)


def status() -> list[Status]:
    """What the workers do now: a Status for the CPU, and one for each GPU, of those that were used. It neither waits
    nor calls CUDA."""
    return [one for pool in list(_pools.values()) for one in pool.status()]


def stop() -> None:
    """Ends all workers at once."""
    global _cluster
    with _lock:
        pools, made = list(_pools.values()), _cluster
        _pools.clear()
        _cluster = None
    if made:
        return made.stop()
    for pool in pools:
        pool.stop()


atexit.register(stop)


def _pool(backend: str) -> Pool:
    _connected()
    with _lock:
        if backend not in _pools:
            places = (
                [Local(gpu) for gpu in devices.gpus()] if backend == "gpu" else [Local() for _ in range(CPU_WORKERS)]
            )
            _pools[backend] = Pool(backend, places)
        return _pools[backend]


def _connected() -> Cluster | None:
    """The scheduler's workers, where WARPGLASS_WORKERS names one."""
    global _cluster
    at = cluster.address()
    if at and not _cluster:
        with _lock:
            if not _cluster:
                _cluster = Cluster(at)
                _pools.update(_cluster.pools)
    return _cluster if at else None
