"""A worker runs one task at a time: local.py on this machine, cluster.py on other hosts."""

import pickle
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernels.errors import BackendUnavailable, RunError, WarpglassError, WorkerDied
from kernels.run.backends.driver import FIND_THE_LINE, STICKY, exit_code
from kernels.run.messages import decode
from kernels.run.messages.decode import Unreadable
from kernels.run.workers import frames
from kernels.run.workers.devices import Gpu

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Unbegun(Exception):
    """The worker was gone before it read the task. Another worker can run it."""


class OutOfTime(Exception):
    """The task passed its limit, and its process was ended."""


class Died(Exception):
    """The task's process ended. code: its exit code, -N after signal N, None if unknown."""

    def __init__(self, code: int | None):
        super().__init__(code)
        self.code = code


class Worker(ABC):
    """Runs one task at a time.

    done, failed, deaths: the numbers of its results, errors and dead processes.
    out: the reason why it takes no tasks before `look_at` (time.monotonic), else ""."""

    again = 20.0  # seconds until the next look at an unusable worker

    def __init__(self, gpu: Gpu | None = None):
        self.gpu = gpu
        self.name = gpu.name if gpu else "CPU"
        self.done = self.failed = self.deaths = 0
        self.compiling = 0.0
        self.out, self.look_at = "", 0.0

    @abstractmethod
    def alive(self) -> bool:
        """Whether its process runs."""

    @abstractmethod
    def ready(self) -> None:
        """Makes it fit to run. Raises a WarpglassError with the reason if it cannot."""

    @abstractmethod
    def answer(self, call: bytes, limit: float) -> "Buffer":
        """The unchecked bytes of the answer to a call. Raises Unbegun, OutOfTime or Died."""

    @abstractmethod
    def kill(self) -> None:
        """Ends its task, from any thread, without waiting."""

    @abstractmethod
    def end(self) -> object:
        """Ends its process."""

    def run(self, function: Callable[..., object], args: tuple[object, ...], limit: float) -> Any:
        """function(*args) within `limit` seconds. Raises the task's error, Unbegun, OutOfTime or Died."""
        try:
            value, compiling = read_answer(self.answer(call_of(function, args, limit), limit), args)
        except Unreadable as error:
            self.end()
            raise garbled(error) from None
        self.compiling += compiling
        if isinstance(value, Exception):
            raise value
        return value

    def take_out(self, reason: str) -> None:
        self.out, self.look_at = reason, time.monotonic() + self.again

    def unusable(self) -> WarpglassError:
        if self.gpu:
            return BackendUnavailable(
                f"{self.name} ({self.gpu.id or 'the GPU'}) was taken out: {self.out.rstrip('.')}. It is tried again "
                f"every {self.again:g} s. Choose backend=cpu meanwhile."
            )
        return WorkerDied(self.out)


def call_of(function: Callable[..., object], args: tuple[object, ...], limit: float) -> bytes:
    """The pickle of a call, with this process's limits of answers. A worker trusts its server."""
    return pickle.dumps((function, args, limit, (frames.most_bytes, decode.most_json)))


def read_answer(answer: "Buffer", args: tuple[object, ...]) -> tuple[object, float]:
    """The result or error in an answer, and the seconds spent compiling. Raises Unreadable for other bytes."""
    found = decode.decode(answer, args)
    if isinstance(found, tuple) and decode.fits(found, tuple[bool, object, float]):
        good, value, compiling = found
        if good != isinstance(value, Exception):
            return value, compiling
    raise Unreadable("it is no answer")


def garbled(error: Unreadable) -> RunError:
    return RunError(
        f"The worker process answered with bytes that cannot be read: {error}. The kernel may have overwritten memory "
        "of its process. Its worker was replaced. Look for a write out of bounds."
    )


def death(title: str, code: int | None) -> RunError:
    for status, name in STICKY.items():
        if code == exit_code(status):
            return RunError(
                f"{title} failed on the GPU with CUDA error {name}: the kernel touched memory it must not, or was "
                f"broken off. {FIND_THE_LINE} Its worker process was replaced. The next run is not affected."
            )
    how = f"by signal {-code}" if code and code < 0 else f"with exit code {code}"
    how = "it is not there any more" if code is None else how
    died = f"The worker process running {title} died ({how})."
    if code is None or code == -signal.SIGKILL:
        return WorkerDied(
            f"{died} A new one has taken its place: run it again. If it dies again, choose a smaller problem."
        )
    return WorkerDied(
        f"{died} A new one has taken its place. The kernel itself may have ended it. It may have written outside an "
        "array, or called abort(). Use ldg, stg, lds and sts. They check each access and name its line."
    )
