"""Tasks for workers: they wait, start helpers, or end their process."""

import os
import subprocess
import threading
from pathlib import Path


def note(path: str, line: str) -> None:
    """Adds a line to a file, whose order is that of the tasks."""
    with open(path, "a") as file:
        file.write(f"{line}\n")


def block(path: str) -> None:
    """Writes its process's id and its helper's, a process of its own, and never ends."""
    helper = subprocess.Popen(["sleep", "1000"])
    Path(f"{path}.new").write_text(f"{os.getpid()} {helper.pid}")
    os.replace(f"{path}.new", path)
    threading.Event().wait()


def exit_with(code: int) -> None:
    os._exit(code)


def visible() -> str:
    return os.environ.get("CUDA_VISIBLE_DEVICES", "")


def which_gpu() -> tuple[str, int]:
    """The UUID of the GPU that CUDA uses here, and how many it sees."""
    import cupy
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByPciBusId(cupy.cuda.runtime.deviceGetPCIBusId(0).encode())
    return pynvml.nvmlDeviceGetUUID(handle), cupy.cuda.runtime.getDeviceCount()


def catch_sticky() -> None:
    """As a page that goes on with the next kernel after one has failed."""
    from kernels.run.backends import driver

    try:
        raise driver.failure(700, "an illegal memory access")
    except driver.StickyError:
        pass


class Unsendable(Exception):
    def __reduce__(self):
        raise TypeError("not to be pickled")


def raise_unsendable() -> None:
    raise Unsendable("no")
