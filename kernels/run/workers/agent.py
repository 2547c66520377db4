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
from kernels.run.workers.forks import warm_up
from kernels.run.workers.place import Local
from kernels.run.workers.process import Died, OutOfTime, Unbegun, answered, garbled
from kernels.run.workers.reader import Unreadable
from kernels.run.workers.wire import message

MARK = "warpglass"
CONNECT = 20.0  # seconds that a scheduler may take to answer
KEPT = 1000  # numbers of stopped tasks that are remembered
Answer = tuple[str, bytes]
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
    """Workers for that scheduler, until they or it are ended: `cpus` of the CPU, and one for each GPU. OSError where no
    scheduler answers."""
    await _find(scheduler)
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
                    death_timeout=CONNECT,
                )
                workers.append(await stack.enter_async_context(worker))
            print(f"{cpus} of the CPU and {len(places) - cpus} of GPUs work for {scheduler}", flush=True)
            try:
                await asyncio.gather(*(worker.finished() for worker in workers))
            finally:
                for place in places:
                    place.end()


async def _find(scheduler: str) -> None:
    """OSError, with the remedy, unless something accepts connections at HOST:PORT: a dask worker tries for ever."""
    host, _, port = scheduler.rpartition(":")
    remedy = "Start one (python -m kernels.run.workers schedule), or correct HOST:PORT"
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise OSError(f"{scheduler!r:.80} is no HOST:PORT with a port from 1 to 65535. {remedy}")
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host.strip("[]"), int(port)), CONNECT)
    except (OSError, TimeoutError) as error:
        said = f"no answer within {CONNECT:g} s" if isinstance(error, TimeoutError) else error
        raise OSError(f"no scheduler answers at {scheduler}: {said}. {remedy}") from None
    writer.close()


# ---- called by the web process, in a dask worker ----


def run(number: str, call: bytes, limit: float) -> Answer:
    """How a task ended, and a message: the worker's answer as it came, or the error of this host. The server checks
    the answer again."""
    how, answer = _run(_places[get_worker().name], number, call, limit)
    return how, bytes(answer)


def _run(place: Local, number: str, call: bytes, limit: float) -> tuple[str, Any]:
    try:
        place.ready()
    except WarpglassError as error:
        return "unusable", message(error)
    with _lock:
        if number in _stopped:
            return "unbegun", message(None)
        _running[place] = number
    try:
        answer = place.answer(call, limit)
        answered(answer, pickle.loads(call)[1])
        return "answered", answer
    except Unreadable as error:
        place.end()
        return "raised", message(garbled(error))
    except Unbegun:
        return "unbegun", message(None)
    except OutOfTime:
        return "out of time", message(None)
    except Died as died:
        return "died", message(died.code)
    except Exception as error:
        return "raised", message(error)
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
