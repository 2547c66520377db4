"""The workers of a dask scheduler, on this host or others, as places of our own queues: dask carries tasks and results,
and knows who is there; which task goes next, and to whom, is decided here (pool.py)."""

import contextlib
import functools
import os
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from kernels.errors import BackendUnavailable, ProblemError, WarpglassError, WorkerDied
from kernels.run.workers.devices import Gpu
from kernels.run.workers.place import Place
from kernels.run.workers.pool import Pool
from kernels.run.workers.process import Died, OutOfTime, Unbegun, answered, called, garbled
from kernels.run.workers.reader import Unreadable, decode

SETTING = "WARPGLASS_WORKERS"
CONNECT = 5.0  # seconds
LOOK = 1.0  # seconds between two looks at who is there
SLACK = 240.0  # seconds beyond its limit after which a task is lost: its worker may start CUDA before it


def address() -> str:
    """HOST:PORT of the scheduler that WARPGLASS_WORKERS names; empty for this machine's own workers. ProblemError."""
    said = os.environ.get(SETTING, "local")
    if said in ("", "local"):
        return ""
    scheme, _, place = said.partition("://")
    host, _, port = place.rpartition(":")
    if scheme == "dask" and host and port.isdigit() and 0 < int(port) < 65536:
        return place
    raise ProblemError(f"{SETTING} is {said!r:.80}; it must be local, or dask://HOST:PORT of a scheduler.")


class Remote(Place):
    """One worker of the scheduler's. name: its name for people; at: its address."""

    again = 5.0

    def __init__(self, cluster: "Cluster", at: str, gpu: Gpu | None):
        super().__init__(gpu)
        self.at, self.gone = at, False
        self._cluster, self._number, self._ended = cluster, "", False  # _ended: before its task had its number
        self._lock = threading.Lock()

    def alive(self) -> bool:
        return not self.gone

    def ready(self) -> None:
        """Its host sees to the rest, when it runs something."""
        if self.gone:
            raise WorkerDied("The host of this worker is not connected any more.")

    def run(self, function: Callable, args: tuple, limit: float) -> Any:
        call, number = called(function, args, limit), uuid.uuid4().hex
        with self._lock:
            self._number = "" if self._ended else number
            self._ended = False
        if not self._number:
            raise Unbegun
        given: Any
        how, said = self._answer(number, call, limit, time.monotonic() + limit + SLACK)
        with self._lock:
            self._number, self._ended = "", False
        try:
            if how == "answered":
                given, compiling = answered(said, args)
                self.compiling += compiling
                how = "raised" if isinstance(given, Exception) else "done"
            else:  # the host's own words
                given = decode(said) if isinstance(said, bytes) else said
        except Unreadable as error:
            raise garbled(error) from None
        if how == "raised":
            raise given
        if how == "unusable":
            self.take_out(given)
        if how in ENDS:
            raise ENDS[how]()
        if how == "died":
            raise Died(given)
        return given

    def _answer(self, number: str, call: bytes, limit: float, end: float) -> tuple[str, Any]:
        from distributed import CancelledError, KilledWorker

        from kernels.run.workers import agent

        future = None
        try:
            future = self._cluster.client.submit(
                agent.run,
                number,
                call,
                limit,
                key=f"{agent.MARK}-{number}",
                workers=[self.at],
                allow_other_workers=False,
                resources={"gpu" if self.gpu else "cpu": 1},
                retries=0,
                pure=False,
            )
            while not self.gone:
                try:
                    return future.result(timeout=LOOK)
                except TimeoutError:
                    if time.monotonic() > end:
                        self.kill()
                        return "out of time", None
            future.cancel()
            return "unbegun", None  # what its worker had begun would have been told as lost
        except (CancelledError, KilledWorker, OSError, AttributeError):  # AttributeError: there is no scheduler
            self.gone = True
            return "died", None
        except Exception as error:
            return "raised", error
        finally:
            if future:
                future.release()

    def kill(self) -> None:
        from kernels.run.workers import agent

        def ask(number: str) -> None:
            try:
                self._cluster.client.run(agent.kill, number, workers=[self.at])
            except Exception:  # it is gone, and what it ran with it
                self.gone = True

        with self._lock:
            number, self._ended = self._number, not self._number
        if number:
            threading.Thread(target=ask, args=[number], daemon=True).start()

    def end(self) -> None:
        """It is not ours to end."""


ENDS: dict[str, type[Exception]] = {"unusable": Unbegun, "unbegun": Unbegun, "out of time": OutOfTime}


class Cluster:
    """A connection to a scheduler, and a pool of each backend with the workers that it has now."""

    def __init__(self, at: str):
        self.at, self.client = at, None  # type: Any, Any
        self.pools = {
            backend: Pool(backend, absent=functools.partial(self._absent, backend)) for backend in ("gpu", "cpu")
        }
        self._places: dict[str, tuple[str, Remote]] = {}  # a dask worker's address -> its backend, its place
        self._stopped, self._looked = threading.Event(), threading.Event()
        threading.Thread(target=self._look, daemon=True).start()
        self._looked.wait(2 * CONNECT)

    def gpus(self) -> tuple[Gpu, ...]:
        return tuple(place.gpu for _, place in list(self._places.values()) if place.gpu)

    def stop(self) -> None:
        self._stopped.set()
        for pool in self.pools.values():
            pool.stop()
        if self.client:
            self.client.close(timeout=CONNECT)

    def _look(self) -> None:
        while not self._stopped.is_set():
            try:
                if not self.client or self.client.status != "running":
                    self._connect()
                found = self.client.scheduler_info(n_workers=-1)["workers"]
            except Exception:  # not there: told to who asks (_absent), tried again
                found, lost, self.client = {}, self.client, None
                if lost:
                    with contextlib.suppress(Exception):
                        lost.close(timeout=1)
            self._take({at: worker["name"] for at, worker in found.items()})
            self._looked.set()
            self._stopped.wait(LOOK)

    def _connect(self) -> None:
        from distributed import Client

        self.client = Client(self.at, timeout=CONNECT, set_as_default=False)

    def _take(self, names: dict[str, Any]) -> None:
        """The places are those of the workers of these addresses and names."""
        from kernels.run.workers.agent import described

        for at in [at for at, (_, place) in self._places.items() if at not in names or place.gone]:
            backend, place = self._places.pop(at)
            place.gone = True
            self.pools[backend].remove(place)
        for at, name in sorted(names.items(), key=lambda one: str(one[1])):
            if at not in self._places and (said := described(name)):
                backend, uuid_, title, _, _ = said
                place = Remote(self, at, Gpu(uuid_, title) if backend == "gpu" else None)
                self._places[at] = backend, place
                self.pools[backend].add(place)

    def _absent(self, backend: str) -> WarpglassError:
        """Why nothing can run."""
        if not self.client:
            return BackendUnavailable(
                f"The scheduler of {SETTING}=dask://{self.at} does not answer. Start it (python -m kernels.run.workers "
                f"schedule), or unset {SETTING} to run on this machine."
            )
        what = "a GPU" if backend == "gpu" else "the CPU"
        return BackendUnavailable(
            f"No worker with {what} is connected to dask://{self.at}. Start one: python -m kernels.run.workers work "
            f"{self.at}"
        )
