"""Compiles in the jail: a stranger's text reaches a compiler that sees only that text and the toolchain."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from kernels import jail
from kernels.jail import Limits, roots

LIMITS = Limits(seconds=30.0, memory_bytes=2 * 2**30, file_bytes=64 * 2**20, output_bytes=64 * 2**20)
OUT = "product"
LATE = "CPU time limit exceeded"  # as a compiler says it
_compiling: ContextVar[bool] = ContextVar("_compiling", default=False)


@contextmanager
def compiling(jailed: bool) -> Iterator[None]:
    """Within it, compilers of this thread run in the jail, if `jailed`."""
    before = _compiling.set(jailed)
    try:
        yield
    finally:
        _compiling.reset(before)


def is_wanted() -> bool:
    """Whether compilers of this thread run in the jail."""
    return _compiling.get()


def wanted(command: Sequence[str]) -> bool:
    """Whether this command belongs in the jail: it writes a product from a stranger's text."""
    return is_wanted() and "-o" in command


def run(command: Sequence[str], more: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a compiler in the jail, and writes its product where the command says.

    more: its environment. TMPDIR is the folder of its sources, the only one that it reads outside the toolchain.
    """
    words = list(command)
    at = words.index("-o") + 1
    product, words[at] = Path(words[at]), OUT
    reads = [*roots.compiler(words[0]), Path(more["TMPDIR"]), *(Path(word) for word in words if word.endswith(".o"))]
    done = jail.confine(words, reads=[read for read in reads if read.exists()], out=OUT, limits=LIMITS)
    log = done.log + (f"\n{LATE}" if done.stopped == "time" else "")
    if done.stopped and not done.code:
        return subprocess.CompletedProcess(words, 1, "", f"{log}\nKilled signal")
    if not done.code:
        product.write_bytes(done.output)
        product.chmod(0o755)
    return subprocess.CompletedProcess(words, done.code, "", log)
