"""The fork server of multiprocessing: workers are forked from it, with their imports done.

The imports cost time and memory only once. The fork server never calls CUDA, and its environment holds no secret. It
adopts each process that leaves a worker's group, so each descendant ends with its worker and its server.
"""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from multiprocessing import connection, forkserver, spawn, util
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from kernels.build import child
from kernels.errors import WorkerDied

ROOT = Path(__file__).parents[__name__.count(".")]  # the folder of the top-level package
LAST = 5.0  # seconds for the end of strays
TRIES, AGAIN = 5, 0.1  # to start a worker, seconds between two tries
_lock = threading.Lock()  # multiprocessing keeps one list of children, and reads an exit code once
_modules: list[str] = []
_workers: set[int] = set()  # the process ids of live workers
_prepared = spawn.get_preparation_data
# No main module, since Streamlit makes it the page's script. A worker imports the tasks' modules. No command line,
# which may hold a password.
_KEPT_BACK = ("init_main_from_name", "init_main_from_path", "sys_argv", "orig_dir")
spawn.get_preparation_data = lambda name: {k: v for k, v in _prepared(name).items() if k not in _KEPT_BACK}


def _spawn(path: bytes, args: Sequence[Any], passfds: Sequence[int]) -> int:
    """Replaces multiprocessing's spawnv_passfds: a clean environment, imports from this repository, and no descriptor
    but 0 to 2 and `passfds`. Streamlit's socket is inheritable: a child would keep its port."""
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**child.environment(), "PYTHONPATH": paths, "PYTHONSAFEPATH": "1"}
    kept = {0, 1, 2, *map(int, passfds)}
    actions: list[tuple[int, ...]] = [(os.POSIX_SPAWN_CLOSE, number) for number in descriptors() if number not in kept]
    actions += [(os.POSIX_SPAWN_DUP2, number, number) for number in map(int, passfds)]  # else they close on exec
    return os.posix_spawn(path, list(args), environment, file_actions=actions)


util.spawnv_passfds = _spawn


def descriptors() -> list[int]:
    found = []
    for path in Path("/proc/self/fd" if sys.platform == "linux" else "/dev/fd").iterdir():
        with contextlib.suppress(OSError):  # the list's own descriptor
            os.fstat(int(path.name))
            found.append(int(path.name))
    return found


def warm_up(*modules: str) -> None:
    """Starts the fork server in the background, with the imports of a run and these modules."""
    with _lock:
        _modules.extend(module for module in modules if module not in _modules)
        _ensure()


def _ensure() -> None:
    multiprocessing.set_forkserver_preload([f"{__package__}.forked", *_modules])
    forkserver.ensure_running()


def fork(target: Callable[..., None], *args: object) -> tuple[ForkServerProcess, connection.Connection]:
    """A process that runs target(pipe, *args), and our end of the pipe. Raises WorkerDied if none can be started."""
    for _ in range(TRIES):
        try:
            with _lock:
                _ensure()
                context = multiprocessing.get_context("forkserver")
                ours, theirs = context.Pipe()
                try:
                    process = context.Process(target=target, args=(theirs, *args), daemon=True)
                    process.start()
                except BaseException:
                    ours.close()
                    raise
                finally:
                    theirs.close()
                _workers.add(process.pid or 0)
                return process, ours
        except (OSError, EOFError) as error:  # the fork server was killed a moment ago
            reason = f"{type(error).__name__}: {error}"
            time.sleep(AGAIN)
    raise WorkerDied(f"No worker process could be started ({reason}). See whether memory or processes are used up.")


def reap(process: ForkServerProcess) -> int | None:
    """The exit code of an ended worker. Its descendants outside its group end too."""
    with _lock:
        code = process.exitcode
        _workers.discard(process.pid or 0)
        server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
        end = time.monotonic() + LAST
        while server and time.monotonic() < end:  # the server adopts the children of each killed stray
            strays = [pid for pid in children(server) if pid not in _workers and not _is_zombie(pid)]
            if not strays:
                break
            kill(strays)
            time.sleep(0.001)
        return code


def children(of: int) -> list[int]:
    """The process ids of a process's children, if the system reports them."""
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
