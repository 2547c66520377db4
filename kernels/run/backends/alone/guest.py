"""The process of a stranger's launches on the GPU. Run it by parent.py.

It takes its powers away, starts CUDA, refuses a GPU that reads the host's memory, and launches. Its arrays are in
memory that it shares with its parent. Its answer is one byte and a text.
"""

import ctypes.util
import json
import mmap
import os
import pickle
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from kernels.run.backends.alone import walls
from kernels.run.backends.alone.task import FINE, MEMORY, STICKY, STOPPED, WALL, Task, view

NOWHERE = "/nonexistent"


def main() -> None:
    """argv: the descriptor of the answer, of the shared memory, of the task, and the folders to read as JSON."""
    answer, shared, task_fd, folders = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
    try:
        said = _walled(shared, task_fd, [Path(folder) for folder in folders])
    except Exception as error:
        said = WALL + f"{type(error).__name__}: {error}".encode()
    os.write(answer, said[:4096])
    os._exit(0)  # without CUDA's own end, which may wait for an endless kernel


def _walled(shared: int, task_fd: int, folders: list[Path]) -> bytes:
    with os.fdopen(task_fd, "rb") as file:
        task: Task = pickle.load(file)
    find_nothing()
    walls.hide_files(folders)
    import cupy

    cupy.cuda.runtime.free(0)  # starts CUDA
    pageable = cupy.cuda.runtime.deviceGetAttribute(88, 0)  # cudaDevAttrPageableMemoryAccess
    if pageable:
        return WALL + (
            b"this GPU's kernels read the host's memory (HMM). Load the module nvidia_uvm with uvm_disable_hmm=1"
        )
    cupy.cuda.runtime.deviceSetLimit(1, 2**20)  # cudaLimitPrintfFifoSize
    cupy.cuda.runtime.deviceSetLimit(2, 2**23)  # cudaLimitMallocHeapSize
    walls.refuse_calls()
    return _launched(task, mmap.mmap(shared, task.bytes))


def find_nothing() -> None:
    """Makes CuPy's import look for no temporary folder, and run neither ldconfig nor gcc: the walls hold all three."""
    tempfile.tempdir = NOWHERE
    ctypes.util.find_library = lambda name: None  # its callers then take the usual file name


def _launched(task: Task, memory: mmap.mmap) -> bytes:
    from kernels.core.dtypes import element_type
    from kernels.errors import OutOfMemory, RunError
    from kernels.run.backends import gpu

    kinds = {tensor.name: element_type(tensor.dtype).numpy for tensor in task.plan.tensors}
    arrays = {name: view(memory, place, kinds.get(name)) for name, place in task.places.items()}
    build = replace(task.build, jailed=False)  # its jail is this process
    try:
        if task.times is not None:
            view(memory, task.times)[...] = gpu.launch_repeatedly(build, task.plan, arrays, task.runs)
            return FINE
        found = gpu.launch(build, task.plan, arrays, task.scope, task.capacities)
        for raw, records, counts in zip(found, task.records, task.counts):
            view(memory, records, raw.records.dtype)[...] = raw.records
            view(memory, counts)[...] = raw.counts
    except OutOfMemory as error:
        return MEMORY + str(error).encode()
    except gpu.StickyError as error:
        return STICKY + str(error).encode()
    except RunError as error:
        return STOPPED + str(error).encode()
    return FINE


if __name__ == "__main__":
    main()
