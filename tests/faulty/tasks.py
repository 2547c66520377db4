"""Tasks for workers: they wait, start helpers, or end their process."""

import mmap
import os
import pickle
import struct
import subprocess
import threading
import time
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


class _Touches:
    """Whoever unpickles it makes a file."""

    def __init__(self, path: str):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def send_pickle(path: str, framed: bool) -> None:
    """What a kernel can do: writes a pickle to each socket of its process, as multiprocessing frames it, or as
    Warpglass does."""
    said = pickle.dumps((True, _Touches(path), 0.0))
    for number in _sockets():
        os.write(number, (struct.pack("<Q", len(said)) if framed else struct.pack("!i", len(said))) + said)


def send_half() -> None:
    """Begins a frame of a megabyte, and never ends it."""
    for number in _sockets():
        os.write(number, struct.pack("<Q", 2**20) + b"half")
    threading.Event().wait()


def send_length(size: int) -> None:
    """Says that a frame of that size comes."""
    for number in _sockets():
        os.write(number, struct.pack("<Q", size))


def _sockets() -> list[int]:
    return [number for number, place in descriptors().items() if place.startswith("socket:")]


def descriptors() -> dict[int, str]:
    """This process's open descriptors, each with what it leads to."""
    found = {}
    for path in Path("/proc/self/fd").iterdir():
        try:
            found[int(path.name)] = os.readlink(path)
        except OSError:  # of the list itself
            continue
    return found


def environments() -> tuple[str, bytes]:
    """The environment, and what this process was started with."""
    return repr(dict(os.environ)), Path("/proc/self/environ").read_bytes()


def take(count: int) -> int:
    return len(bytearray(count))


def reserve(count: int) -> int:
    with mmap.mmap(-1, count, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0) as reserved:
        return len(reserved)


def leave_group(path: str) -> None:
    """Starts a process that leaves the group, whose own child does so too, and returns; their ids are in the file."""
    script = f"setsid sh -c 'setsid sleep 1000 & echo $$ $! > {path}.new; mv {path}.new {path}; sleep 1000' &"
    subprocess.run(["sh", "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    while not Path(path).exists():
        time.sleep(0.01)


def leave_group_and_wait(path: str) -> None:
    leave_group(path)
    threading.Event().wait()
