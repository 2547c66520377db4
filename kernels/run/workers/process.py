"""A worker process, seen from the process that it works for: started when it is needed, ended with all its helpers, and
started again after it died.

forks.py has the process that workers are forked from. Each worker and its helpers are a process group. What leaves the
group ends when the worker ends.
"""

import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Callable
from multiprocessing import connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.build import child, folders
from kernels.errors import RunError, WorkerDied
from kernels.run.backends.driver import FIND_THE_LINE, STICKY, exit_code
from kernels.run.workers import forks, frames, reader, served
from kernels.run.workers.reader import Unreadable, decode, fits

if TYPE_CHECKING:
    from typing_extensions import Buffer

FIRST = 60.0  # seconds until a new worker reads its first task: it may wait for the imports of a slow machine
LAST = 5.0  # seconds that the end of a killed process may take
TRIES, AGAIN = 5, 0.1  # to start one; seconds between them


class Unbegun(Exception):
    """The process was gone before it read the task: another can run it."""


class OutOfTime(Exception):
    """The task outran its limit; its process was ended."""


class Died(Exception):
    """code: what the process that ran the task ended with, -N after signal N; None where nobody knows."""

    def __init__(self, code: int | None):
        super().__init__(code)
        self.code = code


class Process:
    """environment: of the worker, added to this process's. most: bytes that it may take beyond those it starts with, or
    None for no limit. compiling: seconds that its tasks spent compiling."""

    def __init__(self, most: int | None = None, **environment: str):
        self._environment, self._most = environment, most
        self._process: ForkServerProcess | None = None
        self._pipe: connection.Connection | None = None
        self.compiling = 0.0

    def alive(self) -> bool:
        process = self._process
        return process is not None and not connection.wait([process.sentinel], 0)

    def held_bytes(self) -> int:
        """Its resident memory; 0 where nobody says."""
        process = self._process
        try:
            pages = int(Path(f"/proc/{process.pid if process else None}/statm").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")

    def start(self) -> None:
        """Starts it, unless it runs. WorkerDied where it cannot be started."""
        if self.alive():
            return
        self.end()
        for _ in range(TRIES):
            try:
                with forks.starting:
                    return self._start()
            except (OSError, EOFError) as error:  # the process that forks workers was killed just now
                said = f"{type(error).__name__}: {error}"
                time.sleep(AGAIN)
        raise WorkerDied(f"No worker process could be started ({said}). See whether memory or processes are used up.")

    def _start(self) -> None:
        forks.ensure()
        context = multiprocessing.get_context("forkserver")
        ours, theirs = context.Pipe()
        try:
            made = context.Process(
                target=served.serve,
                args=(theirs, {**child.environment(), **folders.handed_down(), **self._environment}, self._most),
                daemon=True,
            )
            made.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._process, self._pipe = made, ours
        forks.began(made.pid or 0)

    def run(self, function: Callable, args: tuple, limit: float) -> object:
        """function(*args), done by the process; an error of the task is raised. Unbegun, OutOfTime, Died."""
        return self.taken(self.answer(called(function, args, limit), limit), args)

    def answer(self, call: bytes, limit: float) -> memoryview:
        """The process's answer to a call, whose bytes nobody has checked. Unbegun, OutOfTime, Died."""
        pipe = self._pipe
        if pipe is None:
            raise Unbegun
        try:
            pipe.send_bytes(call)
            if self._frame(pipe, FIRST) is None:
                raise EOFError
        except (EOFError, OSError, Unreadable):
            self.end()
            raise Unbegun from None
        try:
            found = self._frame(pipe, limit)
        except (EOFError, OSError):
            raise Died(self.end(dying=True)) from None
        except Unreadable as error:
            self.end()
            raise garbled(error) from None
        if found is None:
            self.end()
            raise OutOfTime
        return found

    def taken(self, answer: memoryview, args: tuple) -> object:
        """The value in an answer to a call with these arguments; an error of the task is raised. RunError for bytes
        that no worker of ours sends: then the process is ended."""
        try:
            value, compiling = answered(answer, args)
        except Unreadable as error:
            self.end()
            raise garbled(error) from None
        self.compiling += compiling
        if isinstance(value, Exception):
            raise value
        return value

    def _frame(self, pipe: connection.Connection, seconds: float) -> memoryview | None:
        """The process's next frame, or None after that time. EOFError if it ends; OSError; Unreadable."""
        process = self._process
        if process is None:
            raise EOFError

        def awake(rest: float) -> bool:
            ready = connection.wait([pipe, process.sentinel], rest)
            if ready and pipe not in ready and not pipe.poll(0):
                raise EOFError
            return bool(ready)

        return frames.receive(pipe.fileno(), time.monotonic() + seconds, awake)

    def kill(self) -> None:
        """Ends it and its helpers, from any thread; whoever waits for it hears so."""
        process = self._process
        if process and process.pid:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                if self.alive():  # it was forked just now and leads no group yet
                    process.kill()

    def end(self, dying: bool = False) -> int | None:
        """Ends it and its helpers, and returns its exit code; None where it never ran. dying: it has closed its pipe,
        so its own exit code is about to come."""
        process, pipe = self._process, self._pipe
        if process is None or pipe is None:
            return None
        if dying:
            connection.wait([process.sentinel], LAST)
        self.kill()
        connection.wait([process.sentinel], LAST)
        with forks.starting:
            code = process.exitcode
            forks.ended(process.pid or 0)
        self._process = self._pipe = None
        pipe.close()
        return code


def called(function: Callable, args: tuple, limit: float) -> bytes:
    """The bytes that ask a worker for function(*args), which takes so many seconds at most. They are a pickle: a worker
    trusts its server. They say how long an answer this process accepts."""
    return pickle.dumps((function, args, limit, (frames.most(), reader.most())))


def answered(answer: "Buffer", args: tuple) -> tuple[object, float]:
    """A worker's answer to a call with these arguments: the result, or the error of the task, and the seconds that it
    spent compiling. Unreadable for bytes that no worker of ours sends."""
    found = decode(answer, args)
    if isinstance(found, tuple) and fits(found, tuple[bool, object, float]):
        good, value, compiling = found
        if good != isinstance(value, Exception):
            return value, compiling
    raise Unreadable("it is no answer")


def garbled(error: Unreadable) -> RunError:
    """The error of a task whose worker sent other bytes than an answer."""
    return RunError(
        f"The worker process answered with bytes that cannot be read: {error}. The kernel may have overwritten memory "
        "of its process. Its worker was replaced. Look for a write out of bounds."
    )


def death(what: str, code: int | None) -> RunError:
    """The error of a task whose process ended with that exit code."""
    for status, name in STICKY.items():
        if code == exit_code(status):
            return RunError(
                f"{what} failed on the GPU with CUDA error {name}: the kernel touched memory it must not, or was "
                f"broken off. {FIND_THE_LINE} Its worker process was replaced. The next run is not affected."
            )
    how = f"by signal {-code}" if code and code < 0 else f"with exit code {code}"
    how = "it is not there any more" if code is None else how
    died = f"The worker process running {what} died ({how})."
    if code is None or code == -signal.SIGKILL:
        return WorkerDied(
            f"{died} A new one has taken its place: run it again. If it dies again, choose a smaller problem."
        )
    return WorkerDied(
        f"{died} A new one has taken its place. The kernel itself may have ended it. It may have written outside an "
        "array, or called abort(). Use ldg, stg, lds and sts. They check each access and name its line."
    )
