"""The walls around a process with CUDA: files and devices by Landlock, system calls by a filter, host memory by UVM.

Landlock holds for one thread and its later threads, so it comes before CUDA. CUDA needs more calls for its start than
later, so the filter comes after CUDA's start, for all threads at once.
"""

import os
import re
import resource
import sys
from pathlib import Path

from kernels.build import cpp
from kernels.jail import filter, in_place

SOURCE = Path(__file__).parents[3] / "jail" / "no_hmm.cpp"
NO_HMM, NO_PAGEABLE = 0x1, 0x4  # flags of UVM_INITIALIZE. The second one is known from this driver on:
SINCE = 610
_SYSTEM = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local", "/usr/share/zoneinfo", "/lib", "/lib64", "/opt")
_FACTS = (
    *("/etc/ld.so.cache", "/etc/localtime", "/proc/self", "/proc/driver", "/proc/devices", "/proc/modules"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/version", "/proc/sys/vm", "/proc/sys/kernel", "/sys"),
)


def uvm_flags() -> int:
    """The flags that take host memory from the GPU, for this machine's driver."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return NO_HMM
    version = re.search(r"\b(\d{3})\.\d+(?:\.\d+)?\b", text)
    return NO_HMM | (NO_PAGEABLE if version and int(version[1]) >= SINCE else 0)


def preloaded() -> Path:
    """The library that sets these flags, from the cache or new. Raises BackendUnavailable."""
    return cpp.own_library(SOURCE, ["-O1"], "The library against HMM")


def hide_files(reads: list[Path]) -> None:
    """This thread and its later ones read Python, the system's libraries, these files, and use NVIDIA's devices."""
    own = Path(__file__).parents[3]  # our own package, and the folders of others, but not that of a command's start
    chosen = set(os.environ.get("PYTHONPATH", "").split(os.pathsep)) - {"", str(own.parent)}
    packages = [p for p in sys.path if p in chosen or Path(p).name in ("site-packages", "dist-packages")]
    python = [Path(path) for path in {sys.prefix, sys.base_prefix, sys.exec_prefix, str(own), *packages}]
    devices = [*Path("/dev").glob("nvidia*"), Path("/dev/null"), Path("/dev/zero"), Path("/dev/urandom")]
    devices += [Path("/proc/self/task")]  # CUDA names its threads there, and does not start otherwise
    in_place.hide_files([*python, *map(Path, _SYSTEM), *map(Path, _FACTS), *reads], devices)


def refuse_calls() -> None:
    """No thread of this process starts a program or a process, signals another one, or talks to a network. None changes
    a file or its mode. This thread has no capabilities. CUDA's threads keep theirs, under the same filter."""
    for limit in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(limit, (0, 0))
    in_place.drop_powers()
    in_place.filter_all_threads(filter.refusing_with_gpu(os.getpid()))
