"""The limits of a command in the jail, and its result."""

from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """The limits of a command in the jail.

    seconds: of a clock. The CPU time has the same limit for each process.
    memory_bytes: address space of each process.
    file_bytes: of each written file. 0 forbids files.
    output_bytes: of its output, and of its log.
    forks: whether it may start processes and threads.
    files: open files of each process."""

    seconds: float = 30.0
    memory_bytes: int = 2048 * MIB
    file_bytes: int = 64 * MIB
    output_bytes: int = 64 * MIB
    forks: bool = True
    files: int = 64


@dataclass(frozen=True)
class Result:
    """The end of a command in the jail.

    code: its exit code, -N after signal N.
    output: its standard output, or the file that it was asked for.
    stopped: the limit at which the jail ended it, else ""."""

    code: int
    output: bytes
    log: str
    stopped: str = ""
