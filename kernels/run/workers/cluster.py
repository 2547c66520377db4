"""The workers of a dask scheduler as workers of our own pools.

dask carries tasks and answers, and knows the connected workers. pool.py chooses the next task and its worker.
"""

import contextlib
import functools
import os
import threading
import time
import uuid
from typing import Any

from kernels.errors import BackendUnavailable, ProblemError, WarpglassError, WorkerDied
from kernels.run.workers.devices import Gpu
from kernels.run.workers.pool import Pool
from kernels.run.workers.worker import Died, OutOfTime, Unbegun, Worker

SETTING = "WARPGLASS_WORKERS"
CONNECT = 5.0  # seconds
LOOK = 1.0  # seconds between two looks at the connected workers
SLACK = 240.0  # seconds after a task's limit until it is lost: its worker may start CUDA first


def address() -> str:
    """HOST:PORT of the scheduler in WARPGLASS_WORKERS, or "" for this machine's workers. Raises ProblemError."""
    setting = os.environ.get(SETTING, "local")
    if setting in ("", "local"):
        return ""
    scheme, _, found = setting.partition("://")
    host, _, port = found.rpartition(":")
    if scheme == "dask" and host and port.isdigit() and 0 < int(port) < 65536:
        return found
    raise ProblemError(f"{SETTING} is {setting!r:.80}. It must be local, or dask://HOST:PORT of a scheduler.")


class RemoteWorker(Worker):
    """A worker of the scheduler."""

    again = 5.0

    def __init__(self, cluster: "Cluster", address: str, gpu: Gpu | None):
        super().__init__(gpu)
        self.address, self.gone = address, False
        self._cluster = cluster
        self._number = ""  # of its task
        self._stopped_early = False  # before its task had a number
        self._lock = threading.Lock()

    def alive(self) -> bool:
        return not self.gone

    def ready(self) -> None:
        """Its host does the rest before each task."""
        if self.gone:
            raise WorkerDied("The host of this worker is not connected any more.")

    def answer(self, call: bytes, limit: float) -> bytes:
        with self._lock:
            stopped, self._stopped_early = self._stopped_early, False
            self._number = "" if stopped else uuid.uuid4().hex
        if stopped:
            raise Unbegun
        try:
            found = self._ask(self._number, call, limit)
        finally:
            with self._lock:
                self._number, self._stopped_early = "", False
        if isinstance(found, Exception):
            raise found
        return found

    def _ask(self, number: str, call: bytes, limit: float) -> bytes | Exception:
        from distributed import CancelledError, KilledWorker

        from kernels.run.workers import agent

        end = time.monotonic() + limit + SLACK
        future = None
        try:
            future = self._cluster.client.submit(
                agent.run,
                number,
                call,
                limit,
                key=f"{agent.MARK}-{number}",
                workers=[self.address],
                allow_other_workers=False,
                resources={"gpu" if self.gpu else "cpu": 1},
                retries=0,
                pure=False,
            )
            while not self.gone:
                try:
                    found = future.result(timeout=LOOK)
                except TimeoutError:
                    if time.monotonic() > end:
                        self.kill()
                        return OutOfTime()
                    continue
                if not isinstance(found, agent.Unusable):
                    return found
                self.take_out(str(found))
                return Unbegun()
            future.cancel()
            return Unbegun()  # a begun task is reported as lost
        except (CancelledError, KilledWorker, OSError, AttributeError):  # AttributeError: no scheduler
            self.gone = True
            return Died(None)
        finally:
            if future:
                future.release()

    def kill(self) -> None:
        from kernels.run.workers import agent

        def ask(number: str) -> None:
            try:
                self._cluster.client.run(agent.kill, number, workers=[self.address])
            except Exception:  # the worker is gone, with its task
                self.gone = True

        with self._lock:
            number, self._stopped_early = self._number, not self._number
        if number:
            threading.Thread(target=ask, args=[number], daemon=True).start()

    def end(self) -> None:
        """Its host ends it."""


class Cluster:
    """A connection to a scheduler. pools: backend -> the pool of the connected workers."""

    def __init__(self, address: str):
        self.address = address
        self.client: Any = None
        self.pools = {name: Pool(name, absent=functools.partial(self._absent, name)) for name in ("gpu", "cpu")}
        self._workers: dict[str, tuple[str, RemoteWorker]] = {}  # address -> backend, worker
        self._stopped, self._looked = threading.Event(), threading.Event()
        threading.Thread(target=self._look, daemon=True).start()
        self._looked.wait(2 * CONNECT)

    def gpus(self) -> tuple[Gpu, ...]:
        return tuple(worker.gpu for _, worker in list(self._workers.values()) if worker.gpu)

    def stop(self) -> None:
        self._stopped.set()
        for pool in self.pools.values():
            pool.stop()
        if self.client:
            self.client.close(timeout=CONNECT)

    def _look(self) -> None:
        from distributed import Client

        while not self._stopped.is_set():
            try:
                if not self.client or self.client.status != "running":
                    self.client = Client(self.address, timeout=CONNECT, set_as_default=False)
                found = self.client.scheduler_info(n_workers=-1)["workers"]
            except Exception:  # no scheduler: _absent reports it, and the next look tries again
                found, lost, self.client = {}, self.client, None
                if lost:
                    with contextlib.suppress(Exception):
                        lost.close(timeout=1)
            self._update({address: worker["name"] for address, worker in found.items()})
            self._looked.set()
            self._stopped.wait(LOOK)

    def _update(self, names: dict[str, str]) -> None:
        from kernels.run.workers.agent import parts_of_name

        lost = [address for address, (_, worker) in self._workers.items() if address not in names or worker.gone]
        for address in lost:
            backend, worker = self._workers.pop(address)
            worker.gone = True
            self.pools[backend].remove(worker)
        for address, name in sorted(names.items(), key=lambda item: str(item[1])):
            parts = parts_of_name(name)
            if parts and address not in self._workers:
                backend, gpu, gpu_name, _, _ = parts
                worker = RemoteWorker(self, address, Gpu(gpu, gpu_name) if backend == "gpu" else None)
                self._workers[address] = backend, worker
                self.pools[backend].add(worker)

    def _absent(self, backend: str) -> WarpglassError:
        if not self.client:
            return BackendUnavailable(
                f"The scheduler of {SETTING}=dask://{self.address} does not answer. Start it "
                f"(python -m kernels.run.workers schedule), or unset {SETTING} to run on this machine."
            )
        device = "a GPU" if backend == "gpu" else "the CPU"
        return BackendUnavailable(
            f"No worker with {device} is connected to dask://{self.address}. Start one: python -m kernels.run.workers "
            f"work {self.address}"
        )
