"""A host's workers for a dask scheduler: single-threaded dask workers, each in front of one LocalWorker.

Time limits, stops, crashes and sticky CUDA errors therefore work as on one machine. No kernel runs in dask's process.
A dask worker's name is the JSON of [MARK, backend, id of the GPU, its name, host and process, number].
"""

import asyncio
import contextlib
import json
import pickle
import socket
import tempfile
import threading
from os import getpid

import distributed
from distributed.worker import get_worker

from kernels.errors import RunError, WarpglassError
from kernels.run.messages.decode import Unreadable
from kernels.run.workers.devices import gpus
from kernels.run.workers.forks import warm_up
from kernels.run.workers.local import LocalWorker
from kernels.run.workers.worker import Died, OutOfTime, Unbegun, garbled, read_answer

MARK = "warpglass"
CONNECT = 20.0  # seconds for a scheduler's answer
KEPT = 1000  # remembered numbers of stopped tasks
_workers: dict[str, LocalWorker] = {}
_lock = threading.Lock()
_running: dict[LocalWorker, str] = {}  # worker -> the number of its task
_stopped: dict[str, None] = {}


class Unusable(Exception):
    """The worker did not get ready. Its text is the reason."""


async def schedule(host: str, port: int) -> None:
    """Runs a scheduler to its end. The loss of a worker ends only the worker's task."""
    async with distributed.Scheduler(host=host, port=port, allowed_failures=0, dashboard=False) as scheduler:
        print(f"WARPGLASS_WORKERS=dask://{scheduler.address.split('://')[-1]}", flush=True)
        await scheduler.finished()


async def work(scheduler: str, host: str, cpus: int, with_gpus: bool = True) -> None:
    """Runs workers for a scheduler to their or its end. OSError if no scheduler answers.

    cpus: the number of workers of the CPU.
    with_gpus: whether to add a worker for each GPU."""
    await _find(scheduler)
    warm_up()
    ours = [LocalWorker() for _ in range(cpus)] + [LocalWorker(gpu) for gpu in gpus() if with_gpus and gpu.id]
    with tempfile.TemporaryDirectory() as folder:
        async with contextlib.AsyncExitStack() as stack:
            theirs = []
            for number, worker in enumerate(ours):
                dask_worker = _dask_worker(scheduler, host, number, worker, folder)
                theirs.append(await stack.enter_async_context(dask_worker))
            print(f"{cpus} of the CPU and {len(ours) - cpus} of GPUs work for {scheduler}", flush=True)
            try:
                await asyncio.gather(*(dask_worker.finished() for dask_worker in theirs))
            finally:
                for worker in ours:
                    worker.end()


def _dask_worker(scheduler: str, host: str, number: int, worker: LocalWorker, folder: str) -> distributed.Worker:
    backend, gpu = ("gpu", worker.gpu.id) if worker.gpu else ("cpu", "")
    name = json.dumps([MARK, backend, gpu, worker.name, f"{socket.gethostname()} {getpid()}", number])
    _workers[name] = worker
    return distributed.Worker(
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


async def _find(scheduler: str) -> None:
    """Raises OSError with the remedy if nothing listens at HOST:PORT. A dask worker would try for ever."""
    host, _, port = scheduler.rpartition(":")
    remedy = "Start one (python -m kernels.run.workers schedule), or correct HOST:PORT"
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise OSError(f"{scheduler!r:.80} is no HOST:PORT with a port from 1 to 65535. {remedy}")
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host.strip("[]"), int(port)), CONNECT)
    except (OSError, TimeoutError) as error:
        reason = f"no answer within {CONNECT:g} s" if isinstance(error, TimeoutError) else error
        raise OSError(f"no scheduler answers at {scheduler}: {reason}. {remedy}") from None
    writer.close()


# ---- called by the web process, in a dask worker ----


def run(number: str, call: bytes, limit: float) -> bytes | Exception:
    try:
        return bytes(_run(_workers[get_worker().name], number, call, limit))
    except (Unusable, Unbegun, OutOfTime, Died, WarpglassError) as error:
        return error
    except Exception as error:
        return RunError(f"The host of the worker failed: {type(error).__name__}: {error}.")


def _run(worker: LocalWorker, number: str, call: bytes, limit: float) -> memoryview:
    try:
        worker.ready()
    except WarpglassError as error:
        raise Unusable(str(error)) from None
    with _lock:
        if number in _stopped:
            raise Unbegun
        _running[worker] = number
    try:
        answer = worker.answer(call, limit)
        read_answer(answer, pickle.loads(call)[1])
        return answer
    except Unreadable as error:
        worker.end()
        raise garbled(error) from None
    finally:
        with _lock:
            _running.pop(worker, None)


def kill(number: str, dask_worker: distributed.Worker) -> None:
    """Ends the task of that number, running or not yet begun. A later task of its worker goes on."""
    worker = _workers[dask_worker.name]
    with _lock:
        _stopped[number] = None
        for old in list(_stopped)[:-KEPT]:
            del _stopped[old]
        if _running.get(worker) == number:
            worker.kill()


def parts_of_name(name: str) -> list[str] | None:
    """The parts of a dask worker's name after MARK, or None for a foreign dask worker."""
    try:
        mark, *parts = json.loads(name)
    except (TypeError, ValueError):
        return None
    return parts if mark == MARK and len(parts) == 5 else None
