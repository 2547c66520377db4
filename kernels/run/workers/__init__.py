"""Worker processes: all runs happen there, never in the process that serves pages.

    submit -> Job   pool.py: the queue of a backend, fair between clients (fair.py), and its workers (worker.py)
                    local.py, served.py: a worker process from outside and from inside, with its limits
                    forks.py, forked.py: the fork server. frames.py: a worker's pipe. devices.py: the GPUs
    WARPGLASS_WORKERS=dask://HOST:PORT
                    cluster.py: workers on other hosts, from the server's side; agent.py: from theirs

Each task has a time limit. A task that outruns it or loses its process ends, and no other task does. The pool replaces
the process and all its descendants. A sticky CUDA error ends its process too (driver.STICKY). A new worker of a GPU
first proves its GPU. If the GPU does not answer, the pool takes the worker out for a while.
"""

import atexit
import math
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from kernels.errors import BackendUnavailable, ProblemError, RunError
from kernels.run import backends
from kernels.run.backends.cpu import limited
from kernels.run.backends.gpu import driver_missing
from kernels.run.messages import decode
from kernels.run.workers import cluster, devices, frames
from kernels.run.workers.cluster import Cluster
from kernels.run.workers.devices import Gpu
from kernels.run.workers.forks import warm_up as _warm_up
from kernels.run.workers.local import LocalWorker
from kernels.run.workers.pool import Job, Pool, Status

__all__ = [
    "TIME_LIMIT", "Gpu", "Job", "Status", "check_limit", "elsewhere", "gpus", "limit_answers", "ready",
    "status", "stop", "submit", "survey", "warm_up"
]  # fmt: skip


def limit_or(default: float) -> tuple[float, str]:
    """The seconds of WARPGLASS_TIME_LIMIT and "", or the default and the fault of the variable's text."""
    text = os.environ.get("WARPGLASS_TIME_LIMIT")
    if text is None:
        return default, ""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if 0 < seconds < math.inf:
        return seconds, ""
    return default, f"WARPGLASS_TIME_LIMIT is {text!r:.60}. It must be a number of seconds above 0."


CPU_WORKERS = 2  # they read recordings too
TIME_LIMIT, _limit_fault = limit_or(60.0)  # seconds from a task's start
_lock = threading.Lock()
_pools: dict[str, Pool] = {}
_cluster: Cluster | None = None
_looking = threading.Lock()
_failed: backends.Survey | None = None  # the last survey, if it found no GPU


def submit(
    function: Callable[..., object],
    *args: object,
    backend: str,
    title: str,
    time_limit: float = TIME_LIMIT,
    client: str = "",
    gpu: str = "",
    estimate: float = 0.0,
) -> Job:
    """Runs function(*args) in a worker. Both must be picklable.

    backend: "gpu" runs it on a GPU, each other on the CPU. At its limit, a kernel on the CPU stops and names its line.
    client: its submitter. Clients take turns.
    gpu: the id of its GPU, or "" for any. Raises ProblemError for an unknown GPU.
    estimate: seconds. A client's job with a high estimate leaves a worker to short ones."""
    check_limit()
    if gpu and gpu not in (one.id for one in gpus()):
        known = ", ".join(one.id for one in gpus() if one.id) or "none that NVML can name"
        raise ProblemError(f"gpu is {gpu!r:.60}. Known GPUs: {known}.")
    _connected()
    kind, on = ("gpu", devices.gpus()) if backend == "gpu" else ("cpu", (None,) * CPU_WORKERS)
    with _lock:
        if kind not in _pools:
            _pools[kind] = Pool(kind, [LocalWorker(one) for one in on])
        pool = _pools[kind]
    return pool.submit(limited, (time_limit, function, *args), title, time_limit, client, gpu, estimate)


def check_limit() -> None:
    """Raises ProblemError if WARPGLASS_TIME_LIMIT is no number of seconds."""
    if _limit_fault:
        raise ProblemError(_limit_fault)


def survey() -> backends.Survey:
    """The backends of this machine. A worker makes it once, as it calls CUDA. If no GPU works, each call looks again,
    and concurrent calls get the last survey."""
    global _failed
    last = _failed
    if last is None:
        _looking.acquire()
    elif not _looking.acquire(blocking=False):
        return last
    try:
        found = _surveyed(gpus() if elsewhere() else ())
        _failed = None
    except (BackendUnavailable, RunError) as error:
        found = _failed = _without_gpu(str(error))
    finally:
        _looking.release()
    return found


@lru_cache(maxsize=8)
def _surveyed(remote_gpus: tuple[Gpu, ...]) -> backends.Survey:
    if elsewhere() and not remote_gpus:
        found = submit(backends.survey, ("cpu", "recorded"), backend="cpu", title="Looking for a compiler").result()
        return replace(found, reasons={"gpu": "No worker of the scheduler has a GPU.", **found.reasons})
    if not elsewhere() and driver_missing():
        return backends.survey()
    found = submit(backends.survey, backend="gpu", title="Looking for a GPU").result()
    if "gpu" not in found.devices:
        raise BackendUnavailable(found.reasons["gpu"])
    return replace(found, gpus=gpus())


@lru_cache(maxsize=8)
def _without_gpu(reason: str) -> backends.Survey:
    found = backends.survey(("cpu", "recorded"))
    return replace(found, reasons={"gpu": reason, **found.reasons})


def gpus() -> tuple[Gpu, ...]:
    connected = _connected()
    return connected.gpus() if connected else devices.gpus()


def elsewhere() -> bool:
    """Whether a scheduler has the workers. They do not share this process's cache folder. Raises ProblemError."""
    return bool(cluster.address())


def warm_up(*modules: str) -> None:
    """Starts this machine's fork server in the background, with these modules imported. Raises ProblemError."""
    if not elsewhere():
        _warm_up(*modules)


def ready() -> None:
    submit(os.getpid, backend="cpu", title="Warming up").result()


def limit_answers(most_bytes: int, most_json: int) -> None:
    """Sets the accepted bytes of a worker's answer, and of the JSON in it."""
    frames.most_bytes, decode.most_json = most_bytes, most_json


def status() -> list[Status]:
    """A Status for the CPU and for each GPU with tasks so far. It neither waits nor calls CUDA."""
    return [one for pool in list(_pools.values()) for one in pool.status()]


def stop() -> None:
    global _cluster
    with _lock:
        pools, connected = list(_pools.values()), _cluster
        _pools.clear()
        _cluster = None
    if connected:
        return connected.stop()
    for pool in pools:
        pool.stop()
    return None


atexit.register(stop)


def _connected() -> Cluster | None:
    """The workers of the scheduler in WARPGLASS_WORKERS, or None for this machine's workers."""
    global _cluster
    address = cluster.address()
    if address and not _cluster:
        with _lock:
            if not _cluster:
                _cluster = Cluster(address)
                _pools.update(_cluster.pools)
    return _cluster if address else None
