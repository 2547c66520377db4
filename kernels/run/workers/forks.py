"""The process that workers are forked from: multiprocessing's fork server, with their imports done and nothing else.

The imports cost time and memory only once. A replacement worker starts at once. It never calls CUDA, and its
environment holds no secret. It adopts each process that left a worker's group, so that no descendant of
a worker outlives the worker for long, or the server. If it dies, it is started again.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterable, Sequence
from multiprocessing import forkserver, spawn, util
from pathlib import Path
from typing import Any

from kernels.build import child

ROOT = Path(__file__).parents[3]
LAST = 5.0  # seconds that the end of strays may take
starting = threading.Lock()  # multiprocessing keeps what was started in one place, and reads an exit code once
_modules: list[str] = []
_workers: set[int] = set()  # the process ids of live workers
_prepared = spawn.get_preparation_data
# Not with the main module, which is the page's script once Streamlit has run it: a worker imports what its tasks name.
spawn.get_preparation_data = lambda name: {k: v for k, v in _prepared(name).items() if not k.startswith("init_main")}


def _spawn(path: str | bytes, args: Sequence[Any], passfds: Iterable[int]) -> int:
    """multiprocessing's spawnv_passfds, with an environment of ours. Its imports come from this repository, whatever
    folder this was started in."""
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    given = {**child.environment(), "PYTHONPATH": paths, "PYTHONSAFEPATH": "1"}
    kept = [(os.POSIX_SPAWN_DUP2, number, number) for number in map(int, passfds)]  # a child inherits these only
    return os.posix_spawn(path, list(args), given, file_actions=kept)


util.spawnv_passfds = _spawn


def warm_up(*modules: str) -> None:
    """Starts the process that workers are forked from, unless it runs already: it imports what a run needs, and
    `modules` beside it, while the caller goes on."""
    with starting:
        _modules.extend(module for module in modules if module not in _modules)
        ensure()


def ensure() -> None:
    """Starts it, unless it runs. Its caller holds `starting`."""
    multiprocessing.set_forkserver_preload(["kernels.run.workers.forked", *_modules])
    forkserver.ensure_running()


def began(worker: int) -> None:
    """A worker of that process id was forked. Its caller holds `starting`."""
    _workers.add(worker)


def ended(worker: int) -> None:
    """A worker has ended: what it started and left its group ends now. Its caller holds `starting`."""
    _workers.discard(worker)
    server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    end = time.monotonic() + LAST
    while time.monotonic() < end:  # each may have children, which the server adopts when their parent has ended
        strays = [pid for pid in children(server) if pid not in _workers and not _is_zombie(pid)] if server else []
        if not strays:
            return
        kill(strays)
        time.sleep(0.001)


def children(of: int) -> list[int]:
    """The process ids of a process's children; empty where the system does not say."""
    found: list[int] = []
    for thread in Path(f"/proc/{of}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, thread.read_text().split())
    return found


def kill(processes: Iterable[int]) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _is_zombie(pid: int) -> bool:
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    return True
