"""The folders of the system that a compiler, or a compiled library, needs to see."""

import os
import re
import subprocess
from functools import lru_cache
from pathlib import Path

from kernels.errors import BackendUnavailable

_OF_A_COMPILER = (
    *("/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/include", "/usr/local/include"),
)
_LINKS = ("/bin", "/lib", "/lib32", "/lib64")


@lru_cache
def compiler(program: str) -> tuple[Path, ...]:
    """The folders that a C++ compiler reads. Raises BackendUnavailable for a compiler in a private place."""
    folders = [Path(path) for path in (*_OF_A_COMPILER, *_LINKS) if Path(path).exists()]
    real = Path(os.path.realpath(program))
    if real.is_relative_to("/usr/bin") or real.is_relative_to("/usr/lib"):
        return tuple(folders)
    prefix = real.parents[1]
    if prefix in (Path("/"), Path("/usr"), Path.home(), Path.home().parent):
        raise BackendUnavailable(
            f"The jail cannot show {real} alone: {prefix} holds other files. Install g++ (Debian: apt install g++), "
            "or set CXX to a compiler in a folder of its own."
        )
    return (*folders, prefix)


def libraries(program: Path) -> tuple[Path, ...]:
    """The shared libraries of a program of ours, with the loader. Never call it with a stranger's program."""
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True, timeout=60).stdout
    return tuple(Path(path) for path in re.findall(r"(?:=> |^\s*)(/\S+) \(0x", listed, re.M))
