"""A worker process of this machine: started on demand, ended with its helpers, and replaced after its death.

forks.py forks it. served.py is its inside. The worker and its helpers are a process group.
"""

import os
import signal
import time
from multiprocessing import connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from kernels.build import child, folders
from kernels.errors import BackendUnavailable
from kernels.run.messages.decode import Unreadable
from kernels.run.workers import devices, forks, frames, served
from kernels.run.workers.devices import Gpu
from kernels.run.workers.worker import Died, OutOfTime, Unbegun, Worker, garbled

FIRST = 60.0  # seconds until a new worker reads its first task, with the imports of a slow machine
LAST = 5.0  # seconds for the end of a killed process
PROOF = 60.0  # seconds for the first answer of a GPU, with the start of CUDA
TRIES = 3  # workers that may die during the proof of a GPU
MOST_HELD, MOST_HELD_GPU = 2**30, 2**32  # bytes of an idle worker, with CUDA's own


class LocalWorker(Worker):
    """A worker process of this machine, for the CPU or pinned to one GPU."""

    def __init__(self, gpu: Gpu | None = None):
        super().__init__(gpu)
        self._environment = {devices.VISIBLE: gpu.id} if gpu and gpu.id else {}  # CUDA then sees only that GPU
        self._most_bytes = None if gpu else served.most_bytes()
        self._process: ForkServerProcess | None = None
        self._pipe: connection.Connection | None = None
        self._killed = False

    def alive(self) -> bool:
        process = self._process
        return process is not None and not connection.wait([process.sentinel], 0)

    def ready(self) -> None:
        """Starts its process if none runs, or if it holds too much memory. A GPU's new process proves its GPU."""
        if self.alive():
            if self._held_bytes() < (MOST_HELD_GPU if self.gpu else MOST_HELD):
                return
        elif self._process and not self._killed:  # it died without a task
            self.deaths += 1
        self.end()
        if self.gpu:
            self._prove()
        else:
            self._start()

    def _start(self) -> None:
        """Starts its process, unless it runs. Raises WorkerDied if the system has no room."""
        if not self.alive():
            self.end()
            environment = {**child.environment(), **folders.handed_down(), **self._environment}
            self._process, self._pipe = forks.fork(served.serve, environment, self._most_bytes)
            self._killed = False

    def _prove(self) -> None:
        """Starts its process and lets it use the GPU. Raises BackendUnavailable if the GPU does not answer."""
        for _ in range(TRIES):
            self._start()
            try:
                self.run(devices.prove, (), PROOF)
                return
            except (Died, Unbegun) as died:
                self.deaths += 1
                code = getattr(died, "code", None)
            except OutOfTime:
                raise BackendUnavailable(f"it did not answer within {PROOF:g} s") from None
            except Exception:  # the next look needs a new process
                self.end()
                raise
        raise BackendUnavailable(f"its worker died {TRIES} times (exit code {code})")

    def _held_bytes(self) -> int:
        """Its resident memory, or 0 if the system does not report it."""
        process = self._process
        try:
            pages = int(Path(f"/proc/{process.pid if process else None}/statm").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")

    def answer(self, call: bytes, limit: float) -> memoryview:
        if self._pipe is None:
            raise Unbegun
        try:
            self._pipe.send_bytes(call)
            receipt = self._frame(FIRST)
        except (EOFError, OSError, Unreadable):
            receipt = None
        if receipt is None:
            self.end()
            raise Unbegun
        try:
            answer = self._frame(limit)
        except (EOFError, OSError):
            raise Died(self.end(dying=True)) from None
        except Unreadable as error:
            self.end()
            raise garbled(error) from None
        if answer is None:
            self.end()
            raise OutOfTime
        return answer

    def _frame(self, seconds: float) -> memoryview | None:
        """The next frame of its process, or None after `seconds`. Raises EOFError at its end, OSError or Unreadable."""
        process, pipe = self._process, self._pipe
        if process is None or pipe is None:
            raise EOFError

        def awake(rest: float) -> bool:
            ready = connection.wait([pipe, process.sentinel], rest)
            if ready and pipe not in ready and not pipe.poll(0):
                raise EOFError
            return bool(ready)

        return frames.receive(pipe.fileno(), time.monotonic() + seconds, awake)

    def kill(self) -> None:
        """Ends its process and helpers, from any thread, without waiting."""
        self._killed = True
        process = self._process
        if process and process.pid:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                if self.alive():  # a new process leads no group yet
                    process.kill()

    def end(self, dying: bool = False) -> int | None:
        """Ends its process and helpers. Returns the exit code, or None if it never ran.

        dying: it has closed its pipe, so its own exit code comes soon."""
        process, pipe = self._process, self._pipe
        if process is None or pipe is None:
            return None
        if dying:
            connection.wait([process.sentinel], LAST)
        self.kill()
        connection.wait([process.sentinel], LAST)
        code = forks.reap(process)
        self._process = self._pipe = None
        pipe.close()
        return code
