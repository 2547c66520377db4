"""Starts a stranger's launches on the GPU in a process of their own (guest.py), and ends it at its limit."""

import contextlib
import fcntl
import json
import mmap
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from kernels.build import Build, child
from kernels.core.dtypes import element_type
from kernels.core.launch import Plan
from kernels.core.scope import Scope
from kernels.errors import OutOfMemory, ProblemError, RunError, RunTimeout
from kernels.jail import in_place
from kernels.run.backends import cpu
from kernels.run.backends.alone import task as tasks
from kernels.run.backends.alone import walls
from kernels.run.backends.alone.task import Place, Task
from kernels.trace.probes import RECORD
from kernels.trace.trace import RawRecords

SECONDS = 20.0  # of a guest: its start takes about two of them
GRACE = 1.0
GUEST = f"{__package__}.guest"
ROOT = Path(__file__).parents[__name__.count(".")]  # the folder of the top-level package
_ALIGNED = 256
# The starts of the variables that Python and CUDA need.
_NEEDED = (
    *("PATH", "LANG", "LC_", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"),
    *("PYTHON", "CUDA_", "CUPY_", "NVIDIA_"),
)
_ERRORS = {tasks.STOPPED: RunError, tasks.STICKY: RunError, tasks.MEMORY: OutOfMemory}


def launch(
    build: Build, plan: Plan, arrays: dict[str, np.ndarray], scope: Scope | None, capacities: list[int] | None = None
) -> list[RawRecords]:
    """gpu.launch of a stranger's build, in a process of its own."""
    shapes = []
    if capacities is not None:
        assert scope is not None
        for number, step in enumerate(plan.launches):
            first, blocks = scope.blocks(step, plan)
            shapes.append((number, first, step.threads, blocks * step.threads, capacities[number]))
    _, records, counts = _run(build, plan, arrays, scope, capacities, 0, [(n, c) for *_, n, c in shapes])
    return [
        RawRecords(number, first, threads, kept, count)
        for (number, first, threads, *_), kept, count in zip(shapes, records, counts)
    ]


def launch_repeatedly(build: Build, plan: Plan, arrays: dict[str, np.ndarray], runs: int) -> list[float]:
    """gpu.launch_repeatedly of a stranger's build, in a process of its own."""
    times, _, _ = _run(build, plan, arrays, None, None, runs, [])
    return [float(time) for time in times]


def _run(
    build: Build,
    plan: Plan,
    arrays: dict[str, np.ndarray],
    scope: Scope | None,
    capacities: list[int] | None,
    runs: int,
    sizes: list[tuple[int, int]],
) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """The times, and the records and counts of each launch. sizes: threads and capacity of each launch."""
    end = 0

    def place(kind: str, itemsize: int, shape: tuple[int, ...]) -> Place:
        nonlocal end
        start = end
        end += -(-int(np.prod(shape)) * itemsize // _ALIGNED) * _ALIGNED
        return start, kind, shape

    places = {name: place("uint8", array.itemsize, array.shape) for name, array in arrays.items()}
    records = [place("uint8", RECORD.itemsize, size) for size in sizes]
    counts = [place("uint32", 4, size[:1]) for size in sizes]
    times = place("float64", 8, (runs,)) if runs else None
    task = Task(build, plan, scope, capacities, runs, places, records, counts, times, max(end, 1))
    kinds = {tensor.name: element_type(tensor.dtype).numpy for tensor in plan.tensors}
    with os.fdopen(os.memfd_create("arrays", os.MFD_ALLOW_SEALING), "r+b") as shared:
        shared.truncate(task.bytes)
        # a guest cannot change its size
        fcntl.fcntl(shared, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        memory = mmap.mmap(shared.fileno(), task.bytes)
        for name, array in arrays.items():
            tasks.view(memory, places[name], kinds.get(name, array.dtype))[...] = array
        left = cpu.rest()
        _ask(task, shared.fileno(), SECONDS if left is None else max(0.0, min(SECONDS, left - GRACE)))
        for tensor in plan.written:
            arrays[tensor.name][...] = tasks.view(memory, places[tensor.name], kinds[tensor.name])
        found = np.array([] if times is None else tasks.view(memory, times))
        return (
            found,
            [np.array(tasks.view(memory, at, RECORD)) for at in records],
            [np.array(tasks.view(memory, at)) for at in counts],
        )


def _ask(task: Task, shared: int, seconds: float) -> None:
    """Runs a guest to its answer or its limit. Trusts no byte of the answer. Raises RunError or ProblemError."""
    said, code, late = talk(task, shared, seconds)
    kind, text = said[:1], said[1:4096].decode(errors="replace")
    if late:
        raise RunTimeout(
            f"The kernel ran past its limit of {seconds:g} s on the GPU, and its process was ended. Look for an "
            "endless loop, or choose a smaller problem."
        )
    if kind == tasks.WALL:
        raise ProblemError(f"{task.build.kernel} is a user's kernel, and this GPU does not run it: {text}.")
    if kind != tasks.FINE:
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        raise _ERRORS.get(kind, RunError)(text or f"The kernel's process on the GPU ended without an answer ({how}).")


def talk(task: Task, shared: int, seconds: float) -> tuple[bytes, int, bool]:
    """The answer of a guest, its exit code, and whether it was late."""
    with tempfile.TemporaryFile() as told:
        pickle.dump(task, told)
        told.seek(0)
        ours, theirs = os.pipe()
        with os.fdopen(ours, "rb") as pipe:
            with os.fdopen(theirs, "wb"):
                fds = [theirs, shared, told.fileno()]
                process = subprocess.Popen(
                    [sys.executable, "-m", GUEST, *map(str, fds), json.dumps([str(Path(task.build.path).parent)])],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=_environment(),
                    cwd=ROOT,
                    pass_fds=fds,
                    start_new_session=True,
                )
            try:
                end = time.monotonic() + seconds
                answer, late = in_place.answer_of(pipe.fileno(), end, lambda said: len(said) < 4096)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return answer, process.returncode, late


def _environment() -> dict[str, str]:
    kept = {name: text for name, text in child.environment().items() if name.startswith(_NEEDED)}
    return {
        **kept,
        "HOME": "/nonexistent",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), kept.get("PYTHONPATH", "")])),
        "LD_PRELOAD": str(walls.preloaded()),
        "WARPGLASS_UVM_FLAGS": str(walls.uvm_flags()),
        "CUDA_CACHE_DISABLE": "1",
        "CUPY_CACHE_IN_MEMORY": "1",
        "CUPY_CACHE_DIR": str(ROOT),  # CuPy's import makes the folder, so it has to be there
        "PYTHONDONTWRITEBYTECODE": "1",
    }
