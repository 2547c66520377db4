"""A place where tasks run, one at a time: a worker process of this machine, for the CPU or for one GPU."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernels.errors import BackendUnavailable, WarpglassError, WorkerDied
from kernels.run.workers import devices, limits
from kernels.run.workers.process import Died, OutOfTime, Process, Unbegun

PROOF = 60.0  # seconds that a GPU may take to answer; the first time CUDA starts
MOST_HELD, MOST_HELD_GPU = 2**30, 2**32  # bytes that a worker may hold between two tasks; CUDA itself holds a lot
TRIES = 3  # times that a worker may die while it proves its GPU


@dataclass(frozen=True)
class Status:
    """One of the workers' places, or several alike. alive: worker processes; waiting: tasks, of which those that any
    GPU may run are counted at the first; out: why nothing is given to it now, else empty; compiling: seconds spent
    so far. done, failed, deaths: tasks that went well, that did not, and workers that died under one or idle."""

    name: str
    backend: str
    gpu: str
    alive: int
    running: int
    waiting: int
    done: int
    failed: int
    deaths: int
    out: str
    compiling: float


class Place:
    """Where one task runs at a time. gpu: that it is pinned to; None for the CPU. out: why nothing is given to it
    before look_at (by time.monotonic), else empty. done, failed, deaths, compiling: as Status has them."""

    again = 20.0  # seconds after which one that was taken out is looked at again

    def __init__(self, gpu: devices.Gpu | None = None):
        self.gpu = gpu
        self.name = gpu.name if gpu else "CPU"
        self.done = self.failed = self.deaths = 0
        self.compiling = 0.0
        self.out, self.look_at = "", 0.0

    def alive(self) -> bool:
        raise NotImplementedError

    def ready(self) -> None:
        """Makes it fit to run, or raises a WarpglassError that says why it is not."""
        raise NotImplementedError

    def run(self, function: Callable, args: tuple, limit: float) -> Any:
        """function(*args), within so many seconds. Unbegun, OutOfTime, Died, or what the task raises."""
        raise NotImplementedError

    def kill(self) -> None:
        """Ends what runs, from any thread; it does not wait for that."""
        raise NotImplementedError

    def end(self) -> None:
        """Ends it for good."""
        raise NotImplementedError

    def take_out(self, error: WarpglassError) -> None:
        self.out, self.look_at = str(error), time.monotonic() + self.again

    def unusable(self) -> WarpglassError:
        """Why nothing can run here now."""
        if self.gpu:
            return BackendUnavailable(
                f"{self.name} ({self.gpu.id or 'the GPU'}) was taken out: {self.out.rstrip('.')}. It is tried again "
                f"every {self.again:g} s; choose backend=cpu meanwhile."
            )
        return WorkerDied(self.out)


class Local(Place):
    """A worker process of this machine."""

    def __init__(self, gpu: devices.Gpu | None = None):
        super().__init__(gpu)
        self._process = Process(None if gpu else limits.most_bytes(), **(devices.environment(gpu) if gpu else {}))
        self._used = False

    def alive(self) -> bool:
        return self._process.alive()

    def ready(self) -> None:
        """Starts the worker if it does not run, or holds too much; a GPU's first shows that it answers."""
        if self.alive():
            if self._process.held_bytes() < (MOST_HELD_GPU if self.gpu else MOST_HELD):
                return
            self._process.end()
            self._used = False
        self.deaths += self._used  # it died while it had nothing to do
        self._used = False
        for _ in range(TRIES):
            self._process.start()
            self._used = True
            if not self.gpu:
                return
            try:
                self._process.run(devices.prove, (), PROOF)
                return
            except (Died, Unbegun) as died:
                self.deaths += 1
                said = f"its worker died of it {TRIES} times (exit code {getattr(died, 'code', None)})"
            except OutOfTime:
                self._used = False
                raise BackendUnavailable(f"it did not answer within {PROOF:g} s") from None
            except Exception:  # it says why it cannot be used; the next look is a new worker's
                self._process.end()
                self._used = False
                raise
            self._used = False
        raise BackendUnavailable(said)

    def run(self, function: Callable, args: tuple, limit: float) -> Any:
        try:
            return self._process.run(function, args, limit)
        except (OutOfTime, Died):
            self._used = False  # it is counted where it ran
            raise
        finally:
            self.compiling = self._process.compiling

    def answer(self, call: bytes, limit: float) -> memoryview:
        """As run, by the bytes of a call: the answer, whose bytes nobody has checked."""
        try:
            return self._process.answer(call, limit)
        except (OutOfTime, Died):
            self._used = False
            raise

    def kill(self) -> None:
        self._used = False
        self._process.kill()

    def end(self) -> None:
        self._process.end()
