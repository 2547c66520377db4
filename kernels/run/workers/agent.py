"""What a host lends to a dask scheduler: single-threaded dask workers, each in front of one of our worker processes,
for the CPU or pinned to one GPU. So a time limit, a stop, a crash and a sticky CUDA error are what they are on one
machine, and no kernel runs in a process of dask's.

A dask worker's name says what it is: the JSON of [MARK, backend, id of the GPU, its name, host and process, number].
"""

import asyncio
import contextlib
import json
import os
import pickle
import socket
import tempfile
import threading
from collections.abc import Sequence
from typing import Any

import distributed
from distributed.worker import get_worker

from kernels.errors import WarpglassError
from kernels.run.workers.devices import gpus
from kernels.run.workers.place import Local
from kernels.run.workers.process import Died, OutOfTime, Unbegun, warm_up

MARK = "warpglass"
KEPT = 1000  # numbers of stopped tasks that are remembered
Answer = tuple[str, bytes, float]
_places: dict[str, Local] = {}
_lock = threading.Lock()
_running: dict[Local, str] = {}  # the number of the task that each place runs
_stopped: dict[str, None] = {}


async def schedule(host: str, port: int) -> None:
    """A scheduler, until it is ended. A task is lost with its worker: who asked is told, and no other worker dies of
    it."""
    async with distributed.Scheduler(host=host, port=port, allowed_failures=0, dashboard=False) as made:
        print(f"WARPGLASS_WORKERS=dask://{made.address.split('://')[-1]}", flush=True)
        await made.finished()


async def work(scheduler: str, host: str, cpus: int, with_gpus: bool = True) -> None:
    """Workers for that scheduler, until they or it are ended: `cpus` of the CPU, and one for each GPU."""
    warm_up()
    places = [Local() for _ in range(cpus)] + [Local(gpu) for gpu in gpus() if with_gpus and gpu.id]
    here = f"{socket.gethostname()} {os.getpid()}"
    with tempfile.TemporaryDirectory() as folder:
        async with contextlib.AsyncExitStack() as stack:
            workers = []
            for number, place in enumerate(places):
                backend, gpu = ("gpu", place.gpu) if place.gpu else ("cpu", None)
                name = json.dumps([MARK, backend, gpu.id if gpu else "", place.name, here, number])
                _places[name] = place
                worker = distributed.Worker(
                    scheduler,
                    host=host,
                    name=name,
                    nthreads=1,
                    resources={backend: 1},
                    memory_limit=0,
                    dashboard=False,
                    local_directory=folder,
                )
                workers.append(await stack.enter_async_context(worker))
            print(f"{cpus} of the CPU and {len(places) - cpus} of GPUs work for {scheduler}", flush=True)
            try:
                await asyncio.gather(*(worker.finished() for worker in workers))
            finally:
                for place in places:
                    place.end()


# ---- called by the web process, in a dask worker ----


def run(number: str, call: bytes, limit: float) -> Answer:
    """How a task ended, what it gave, and the seconds that the worker has spent compiling so far."""
    place = _places[get_worker().name]
    how, given = _run(place, number, call, limit)
    return how, pickle.dumps(given), place.compiling


def _run(place: Local, number: str, call: bytes, limit: float) -> tuple[str, Any]:
    try:
        place.ready()
    except WarpglassError as error:
        return "unusable", error
    with _lock:
        if number in _stopped:
            return "unbegun", None
        _running[place] = number
    try:
        function, args = pickle.loads(call)
        return "done", place.run(function, args, limit)
    except Unbegun:
        return "unbegun", None
    except OutOfTime:
        return "out of time", None
    except Died as died:
        return "died", died.code
    except Exception as error:
        return "raised", error
    finally:
        with _lock:
            _running.pop(place, None)


def kill(number: str, dask_worker: distributed.Worker) -> None:
    """Ends the task of that number, whether it has begun or not; no other that has its place by now."""
    place = _places[dask_worker.name]
    with _lock:
        _stopped[number] = None
        for old in list(_stopped)[:-KEPT]:
            del _stopped[old]
        if _running.get(place) == number:
            place.kill()


def described(name: Any) -> Sequence[Any] | None:
    """What the name of a dask worker says; None for one that is not ours."""
    try:
        mark, *said = json.loads(name)
    except (TypeError, ValueError):
        return None
    return said if mark == MARK and len(said) == 5 else None
