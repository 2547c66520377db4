"""The system's C++ compiler: a kernel's files over kernels/device/simt become a shared library that runs on the CPU."""

import os
import re
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from kernels.build.builds import EntryFacts
from kernels.build.log import first_error
from kernels.core.spec import KernelSpec
from kernels.errors import BackendUnavailable, BuildError

SHIM = Path(__file__).parents[1] / "device" / "simt"
_ERROR = r"([^\s:]+\.(?:cuh?|h|cpp)):(\d+):\d+: (?:fatal )?error: (.*)"


@lru_cache
def cpp_compiler() -> tuple[str, ...]:
    """The command of a C++17 compiler: $CXX, g++, clang++, c++, or the ziglang wheel. BackendUnavailable if there is
    none."""
    for name in (os.environ.get("CXX"), "g++", "clang++", "c++"):
        found = shutil.which(name) if name else None
        if found:
            return (found,)
    if _run([sys.executable, "-m", "ziglang", "version"]).returncode == 0:
        return (sys.executable, "-m", "ziglang", "c++")
    raise BackendUnavailable(
        "No C++ compiler was found. Install one (Debian: apt install g++) or the ziglang wheel (pip install "
        "ziglang), or set CXX."
    )


class Toolchain:
    """What builds.build asks of a compiler, for the CPU."""

    suffix = ".so"

    def __init__(self) -> None:
        self.command = cpp_compiler()
        self.version = _version(self.command)
        # No contraction: only the fmaf written in the source is fused, so that the CPU rounds where the GPU does.
        self.options = ["-std=c++17", "-O2", "-ffp-contract=off", *(["-mfma"] if _has_fma() else [])]

    def headers(self) -> tuple[tuple[str, str], ...]:
        """The shim: (name, text) of its headers."""
        return tuple((path.name, path.read_text()) for path in sorted(SHIM.glob("*.h")))

    def compile(self, spec: KernelSpec, options: list[str], folder: Path) -> tuple[str, tuple[EntryFacts, ...]]:
        """Writes the files and the shim into a folder of their own, and the library of them into `folder`. Raises
        BuildError."""
        sources = folder / "sources"
        sources.mkdir()
        for name, text in (*spec.files, *self.headers()):
            (sources / name).write_text(text)
        exports = "".join(f"SIMT_EXPORT({launch.entry})\n" for launch in _entries(spec))
        (sources / "unit.cpp").write_text(f'#include "{spec.files[0][0]}"\n{exports}')
        library = str(folder / f"{spec.name}{self.suffix}")
        done = _run(
            [
                *self.command,
                *options,
                "-fPIC",
                "-shared",
                "-fvisibility=hidden",
                "-x",
                "c++",
                str(sources / "unit.cpp"),
                "-o",
                library,
            ]
        )
        shutil.rmtree(sources)
        if done.returncode:
            raise BuildError(first_error(spec, done.stderr, _ERROR))
        return done.stderr, ()


def _entries(spec: KernelSpec):
    """The launches of a kernel, one for each entry."""
    return {launch.entry: launch for launch in spec.launch_texts}.values()


@lru_cache
def _version(command: tuple[str, ...]) -> str:
    return _run([*command, "--version"]).stdout.splitlines()[0].strip()


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _has_fma() -> bool:
    """Whether an x86 processor has fused multiply-add; without it fmaf is exact too, only slow."""
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.exists() and re.search(r"^flags\s*:.*\bfma\b", cpuinfo.read_text(), re.M) is not None
