"""Compiles in the jail: a stranger's text reaches a compiler that sees only that text and the toolchain."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path

from kernels import jail
from kernels.errors import BuildError
from kernels.jail import Limits, roots

LIMITS = Limits(seconds=30.0, memory_bytes=2 * 2**30, file_bytes=64 * 2**20, output_bytes=64 * 2**20)
OUT = "product"
LATE = "CPU time limit exceeded"  # as a compiler says it
_ABSENT = re.compile("Permission denied|No such file or directory")
"""Landlock's engine answers the first for a file of the server. One sentence for both tells nothing of it."""
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
    log = _ABSENT.sub("the jail has no file of this name", done.log) + (f"\n{LATE}" if done.stopped == "time" else "")
    if done.stopped and not done.code:
        return subprocess.CompletedProcess(words, 1, "", f"{log}\nKilled signal")
    if not done.code:
        product.write_bytes(done.output)
        product.chmod(0o755)
    return subprocess.CompletedProcess(words, done.code, "", log)


def tool(command: Sequence[str], file: Path, seconds: float, what: str, writes: bool = False) -> str:
    """The output of a tool of binutils for an object file, in the jail if it is a stranger's.

    what: the code that it reads, for the message.
    Raises BuildError.
    """
    try:
        done = _tool(command, file, seconds, writes)
    except subprocess.TimeoutExpired:
        late = f"{command[0]} did not read {what} within {seconds:g} s. Try again with less work."
        raise BuildError(late) from None
    if done.returncode:
        raise BuildError(f"{command[0]} cannot read {what}: {done.stderr[:200]}. Install binutils.")
    return done.stdout


def _tool(command: Sequence[str], file: Path, seconds: float, writes: bool) -> subprocess.CompletedProcess[str]:
    if not is_wanted():
        return subprocess.run([*command, str(file)], capture_output=True, text=True, timeout=seconds)
    program, out = shutil.which(command[0]) or command[0], [OUT] if writes else []
    words = [program, *command[1:], str(file), *out]
    reads = [path for path in (*roots.compiler(program), file) if path.exists()]
    done = jail.confine(words, reads=reads, out="".join(out), limits=replace(LIMITS, seconds=seconds))
    if done.stopped:
        raise subprocess.TimeoutExpired(words, seconds)
    if writes and not done.code:
        file.write_bytes(done.output)
    return subprocess.CompletedProcess(words, done.code, "" if writes else done.output.decode(), done.log)
