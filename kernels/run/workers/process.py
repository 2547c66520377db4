"""A worker process, seen from the process that it works for: started when it is needed, ended with all its helpers, and
started again after it died.

Workers are forked from one process (multiprocessing's fork server) that has imported what they need and holds nothing
else: it costs the time and the memory of those imports once, and a worker that is replaced is there at once. That
process never calls CUDA. It ends with the server, and its workers with it; if it dies alone, it is started again.
"""

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing import connection, forkserver, spawn
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from kernels.build import folders
from kernels.errors import RunError, WorkerDied
from kernels.run.backends.driver import FIND_THE_LINE, STICKY, exit_code
from kernels.run.workers import served

ROOT = Path(__file__).parents[3]
FIRST = 60.0  # seconds until a new worker reads its first task: it may wait for the imports of a slow machine
LAST = 5.0  # seconds that the end of a killed process may take
TRIES, AGAIN = 5, 0.1  # to start one; seconds between them
_prepared = spawn.get_preparation_data
# Not with the main module, which is the page's script once Streamlit has run it: a worker imports what its tasks name.
spawn.get_preparation_data = lambda name: {k: v for k, v in _prepared(name).items() if not k.startswith("init_main")}
_starting = threading.Lock()  # multiprocessing keeps what was started in one place, and reads an exit code once
_modules: list[str] = []


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
    """environment: of the worker, added to this process's. compiling: seconds that its tasks spent compiling."""

    def __init__(self, **environment: str):
        self._environment = environment
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
                with _starting:
                    return self._start()
            except (OSError, EOFError) as error:  # the process that forks workers was killed just now
                said = f"{type(error).__name__}: {error}"
                time.sleep(AGAIN)
        raise WorkerDied(f"No worker process could be started ({said}). See whether memory or processes are used up.")

    def _start(self) -> None:
        _start_server()
        context = multiprocessing.get_context("forkserver")
        ours, theirs = context.Pipe()
        try:
            made = context.Process(
                target=served.serve,
                args=(theirs, {**os.environ, **folders.handed_down(), **self._environment}),
                daemon=True,
            )
            made.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._process, self._pipe = made, ours

    def run(self, function: Callable, args: tuple, limit: float) -> Any:
        """function(*args), done by the process; what it raises is raised. Unbegun, OutOfTime, Died."""
        call, pipe = pickle.dumps((function, args)), self._pipe
        if pipe is None:
            raise Unbegun
        try:
            pipe.send_bytes(call)
            if not self._hear(pipe, FIRST):
                raise EOFError
            pipe.recv_bytes()
        except (EOFError, OSError):
            self.end()
            raise Unbegun from None
        try:
            if not self._hear(pipe, limit):
                self.end()
                raise OutOfTime
            good, value, compiling = pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            raise Died(self.end(dying=True)) from None
        self.compiling += compiling
        if not good:
            raise value
        return value

    def _hear(self, pipe: connection.Connection, seconds: float) -> bool:
        """Whether it says something within that time. EOFError if it ends."""
        process = self._process
        if process is None:
            raise EOFError
        ready = connection.wait([pipe, process.sentinel], seconds)
        if ready and pipe not in ready and not pipe.poll(0):
            raise EOFError
        return bool(ready)

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
        with _starting:
            code = process.exitcode
        self._process = self._pipe = None
        pipe.close()
        return code


def warm_up(*modules: str) -> None:
    """Starts the process that workers are forked from, unless it runs already: it imports what a run needs, and
    `modules` beside it, while the caller goes on."""
    with _starting:
        _modules.extend(module for module in modules if module not in _modules)
        _start_server()


def _start_server() -> None:
    """Its imports come from this repository, whatever folder this was started in."""
    multiprocessing.set_forkserver_preload(["kernels.run.workers.forked", *_modules])
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    given = {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        forkserver.ensure_running()
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


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
