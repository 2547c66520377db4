"""The system's C++ compiler: it makes a shared library for the CPU from a kernel's files and kernels/device/simt."""

import errno
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kernels.build import cache, child, child_launches, unset
from kernels.build.product import EntryFacts, first_error
from kernels.core.spec import KernelSpec
from kernels.errors import BackendUnavailable, BuildError

SHIM = Path(__file__).parents[1] / "device" / "simt"
OPTIMIZED = "-Og"
PATTERN = "-ftrivial-auto-var-init=pattern"  # of g++ from 12 and clang
PROBE_SECONDS = 10.0  # for a question to the compiler, in wall-clock time
INVARIANTS = "-fmove-loop-invariants"  # of g++
_ERROR = re.compile(r"(?<![^\s:])([^\s:]+\.(?:cuh?|h|cpp)):(\d+):\d+: (?:fatal )?error: (.*)")
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO)  # in a compiler's log with LC_ALL=C


@lru_cache
def cpp_compiler() -> tuple[str, ...]:
    """The command of a C++17 compiler: $CXX, g++, clang++, c++, or the ziglang wheel. Raises BackendUnavailable."""
    for name in (os.environ.get("CXX"), "g++", "clang++", "c++"):
        found = shutil.which(name) if name else None
        if found:
            return (found,)
    if find_spec("ziglang"):
        return (sys.executable, "-m", "ziglang", "c++")
    raise BackendUnavailable(
        "No C++ compiler was found. Install one (Debian: apt install g++) or the ziglang wheel (pip install "
        "ziglang), or set CXX."
    )


class Toolchain:
    """The compiler for the CPU (product.Toolchain)."""

    suffix = ".so"

    def __init__(self) -> None:
        self.command = cpp_compiler()
        self.version = version(self.command)
        # -Og with loop invariants moved: kernels run as fast as with -O1, and a build takes a third less time.
        # No contraction: only fmaf in the source is fused, so the CPU rounds as the GPU does.
        # An unset local is NaN (unset.py). If only one branch sets a local, g++ may still hide the fault. NVRTC has no
        # such option: a GPU build cannot show this fault.
        # Stack clash protection: a large frame touches each of its pages and cannot jump over a stack's guard.
        # -z defs: a function without a definition is an error of the build, and not of the load.
        cpuinfo = Path("/proc/cpuinfo")  # without fused multiply-add, fmaf is exact but slow
        has_fma = cpuinfo.exists() and re.search(r"^flags\s*:.*\bfma\b", cpuinfo.read_text(), re.M)
        fma = ["-mfma"] if has_fma else []
        self.options = ["-std=c++17", OPTIMIZED, "-ffp-contract=off", "-fstack-clash-protection", "-Wl,-z,defs", *fma]
        self.options += [option for option in (PATTERN, INVARIANTS) if _takes(self.command, option)]
        is_clang = "clang" in self.version or "zig" in self.version
        self.sets_nan = PATTERN in self.options and not is_clang and platform.machine() in ("x86_64", "AMD64")
        self.options += [unset.OPTION, *unset.WARNINGS] if self.sets_nan else []
        # gold reads libstdc++ four times as fast as ld: 15 ms instead of 60 ms for each library.
        self.linker = ["-fuse-ld=gold"] if _links_with(self.command, "-fuse-ld=gold") else []
        self.options += self.linker  # so a build's key has it

    def headers(self) -> tuple[tuple[str, str], ...]:
        return tuple((path.name, path.read_text()) for path in sorted(SHIM.glob("*.h")))

    def compile(self, spec: KernelSpec, options: list[str], folder: Path) -> tuple[str, tuple[EntryFacts, ...]]:
        """Compiles the files and the shim to a library in `folder`. Raises BuildError, or OSError if the compiler
        cannot write."""
        sources = written(spec, self.headers(), folder)
        library = str(folder / f"{spec.name}{self.suffix}")
        flags = ["-fPIC", "-fvisibility=hidden", "-x", "c++", str(sources / "unit.cpp")]
        text = "".join(text for _, text in spec.files)
        log = self.made(spec, [*options, *flags], ["-shared", "-o", library], sources, text)
        shutil.rmtree(sources)
        return log, ()

    def made(self, spec: KernelSpec, flags: list[str], product: list[str], sources: Path, text: str) -> str:
        """Compiles a unit and returns the log. Unset locals are NaN, if this compiler can do so.

        flags: the options and the unit. product: the options for the product.
        text: of the kernel, for unset.as_nan."""
        if not self.sets_nan:
            return self._compiled(spec, [*flags, *product], sources)
        assembler = sources / "unit.s"
        log = self._compiled(spec, [*flags, "-S", "-o", str(assembler)], sources)
        unset.as_nan(assembler, text)
        of_linker = [flag for flag in flags if flag.startswith(("-Wl,", "-fuse-ld="))]
        return unset.kept(log) + compiled(spec, [*self.command, *of_linker, str(assembler), *product], sources)

    def _compiled(self, spec: KernelSpec, options: list[str], sources: Path) -> str:
        return compiled(spec, [*self.command, *options], sources)


def compiled(spec: KernelSpec, command: list[str], sources: Path) -> str:
    """Runs a compiler's command for a kernel and returns its log. sources: the folder of its files. Raises BuildError,
    or OSError if the compiler cannot write."""
    command = [*command, f"-ffile-prefix-map={sources}/="]  # no text of the kernel holds the server's folders
    done = run(command, {"TMPDIR": str(sources), "LC_ALL": "C"})
    if done.returncode and child.exceeded(done.stderr):
        most, seconds = child.COMPILER_BYTES, child.COMPILER_SECONDS
        if child.is_wanted():
            most, seconds = child.JAIL_LIMITS.memory_bytes, int(child.JAIL_LIMITS.seconds)
        raise BuildError(
            f"{spec.path.name} does not compile: the compiler reached its limit ({most >> 30} GiB, {seconds} s). Look "
            "for a macro, a template or an #include without an end."
        )
    if done.returncode and not done.stderr.strip():
        raise BackendUnavailable(
            f"The C++ compiler {command[0]} ended with the code {done.returncode} and no message. Install one (Debian: "
            "apt install g++), or set CXX to another one."
        )
    if done.returncode:
        for number in _OF_THE_DISK:
            if os.strerror(number) in done.stderr:
                raise OSError(number, os.strerror(number), str(sources.parent))
        if not sources.is_dir():  # the cache was removed under the compiler
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(sources.parent))
        error = BuildError(first_error(spec, done.stderr, _ERROR))
        error.log = done.stderr
        raise error
    return done.stderr


def written(spec: KernelSpec, headers: Iterable[tuple[str, str]], folder: Path) -> Path:
    """A new folder with the kernel's files, the headers (name, text) and unit.cpp. Raises BuildError."""
    sources = folder / "sources"
    sources.mkdir()
    for name, text in (*spec.files, *headers):
        if name != Path(name).name:
            raise BuildError(f"{spec.path.name} has a file {name!r}, which is no plain file name. Rename it.")
        (sources / name).write_text(child_launches.cpu_text(name, text))
    (sources / "unit.cpp").write_text(_unit(spec))
    return sources


def _unit(spec: KernelSpec) -> str:
    """The compiled file: the kernel, its entries, and the text of each line with a probe (lines.h)."""
    own = {name for name, _ in spec.files}
    first = [name for name in ("common.cuh", "hopper.cuh") if name in own] if "common.cuh" in own else []
    included = [*first, *(["lines.h"] if first else []), spec.files[0][0]]
    texts = [
        json.dumps([name, number, line.strip().rstrip(";")], ensure_ascii=False)[1:-1]
        for name, text in spec.files
        for number, line in enumerate(text.splitlines(), 1)
        if "PROBE_" in line and not line.lstrip().startswith(("#", "//"))
    ]
    probes = "".join(f"SIMT_PROBE({text})\n" for text in texts)
    exports = "".join(f"SIMT_EXPORT({entry})\n" for entry in dict.fromkeys(t.entry for t in spec.launch_texts))
    includes = "".join(f'#include "{name}"\n' for name in included)
    return f"{includes}SIMT_PROBES_BEGIN\n{probes}SIMT_PROBES_END\n{exports}"


@lru_cache
def _takes(command: tuple[str, ...], option: str) -> bool:
    words = [*command, "-Werror", option, "-x", "c++", "-fsyntax-only", os.devnull]
    return run(words, seconds=PROBE_SECONDS).returncode == 0


@lru_cache
def _links_with(command: tuple[str, ...], option: str) -> bool:
    """Whether the linker of this option makes a library with this compiler. gold may not find its libstdc++."""
    with tempfile.TemporaryDirectory() as folder:
        library = f"-o{folder}/empty.so"  # in one word: no stranger's text, so no jail (child.wanted)
        words = [*command, option, "-shared", "-x", "c++", os.devnull, library]
        return run(words, seconds=PROBE_SECONDS).returncode == 0


@lru_cache
def version(command: tuple[str, ...], seconds: float = PROBE_SECONDS) -> str:
    said = run([*command, "--version"], seconds=seconds).stdout.strip()
    return said.splitlines()[0] if said else f"{command[0]} without a version"


def run(
    command: list[str], more: Mapping[str, str] | None = None, seconds: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command. more: variables of its environment. Raises BackendUnavailable if it is gone, or hangs."""
    if shutil.which(command[0]):
        try:
            return child.compile_with(command, more or {}, seconds)
        except subprocess.TimeoutExpired as late:
            raise BackendUnavailable(
                f"The C++ compiler {command[0]} did not answer within {late.timeout:.3g} s. Try again on a machine "
                "with less work. If this compiler hangs, set CXX to another one."
            ) from None
    raise BackendUnavailable(
        f"{command[0]} could not be started: {os.strerror(errno.ENOENT)}. Install a C++ compiler (Debian: apt install "
        "g++), or set CXX."
    )


def own_library(source: Path, options: Sequence[str], what: str, libraries: Sequence[str] = ()) -> Path:
    """A shared library of one file of ours, from the cache or new. what: for messages. Raises BackendUnavailable."""
    command, name = [*cpp_compiler(), *options, "-shared", "-fPIC", str(source)], f"{source.stem}.so"

    def make(folder: Path) -> dict[str, Any]:
        done = run([*command, "-o", str(folder / name), *libraries], {"TMPDIR": str(folder), "LC_ALL": "C"})
        if done.returncode:
            raise BackendUnavailable(f"{what} does not compile: {done.stderr.strip()[:500]}")
        return {}

    return cache.get(cache.key_of(*command, *libraries, source.read_text()), name, make)[0] / name
