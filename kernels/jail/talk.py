"""Runs a command with limits: bytes to its input, and bounded bytes from its output and log."""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

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


CHUNK = 2**20
LOG_BYTES = 2**20
# The limits hold for the engine and for all processes that it starts. -f counts blocks of 512 bytes.
_LIMITED = 'ulimit -c 0; ulimit -v "$1"; ulimit -t "$2"; ulimit -f "$3"; ulimit -n "$4"; shift 4; exec "$@"'


def run(
    command: Sequence[str],
    stdin: bytes | memoryview,
    limits: Limits,
    environment: Mapping[str, str],
    inherited: Sequence[int] = (),
) -> Result:
    """Runs a command to its end or to a limit. Then no process is left.

    inherited: the descriptors that it keeps. All others are closed.
    Raises OSError if it cannot start."""
    sizes = (limits.memory_bytes // 1024, int(limits.seconds) + 1, limits.file_bytes // 512, limits.files)
    process = subprocess.Popen(
        ["/bin/sh", "-c", _LIMITED, "sh", *map(str, sizes), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
        cwd="/",
        start_new_session=True,
        pass_fds=inherited,
    )
    stopped = ""
    output, log = bytearray(), bytearray()
    try:
        stopped = _exchange(process, memoryview(stdin), output, log, limits)
    finally:
        _end(process)
    return Result(process.returncode, bytes(output), log.decode(errors="replace"), stopped)


def _exchange(
    process: subprocess.Popen[bytes], stdin: memoryview, output: bytearray, log: bytearray, limits: Limits
) -> str:
    """Moves the bytes until both outputs are closed. Returns the limit that was reached, or ""."""
    assert process.stdin and process.stdout and process.stderr
    end, sent = time.monotonic() + limits.seconds, 0
    into: dict[IO[bytes], tuple[bytearray, int]] = {
        process.stdout: (output, limits.output_bytes),
        process.stderr: (log, min(LOG_BYTES, limits.output_bytes)),
    }
    with selectors.DefaultSelector() as ready:
        for pipe in (process.stdin, *into):
            os.set_blocking(pipe.fileno(), False)
            ready.register(pipe, selectors.EVENT_WRITE if pipe is process.stdin else selectors.EVENT_READ)
        reading = len(into)
        while reading:
            rest = end - time.monotonic()
            if rest <= 0:
                return "time"
            for key, _ in ready.select(rest):
                if key.fileobj is process.stdin:
                    sent += _write(process.stdin, stdin[sent : sent + CHUNK])
                    if sent == len(stdin) or process.stdin.closed:
                        ready.unregister(process.stdin)
                        process.stdin.close()
                    continue
                pipe = next(one for one in into if one is key.fileobj)
                taken, most = into[pipe]
                data = os.read(pipe.fileno(), CHUNK)
                taken += data[: most - len(taken)]
                if not data:
                    ready.unregister(pipe)
                    reading -= 1
                elif len(taken) == most:
                    return "output"
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, end - time.monotonic()))
        return ""
    return "time"


def _write(pipe: IO[bytes], data: memoryview) -> int:
    """Writes some of the bytes. A reader that is gone takes all bytes."""
    try:
        return os.write(pipe.fileno(), data) if data else 0
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return 2**62


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        for pid in _descendants(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            with contextlib.suppress(OSError):
                pipe.close()


def _descendants(of: int) -> list[int]:
    """The process and all below it, as far as the system reports them."""
    found = [of]
    for pid in found:
        for thread in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, thread.read_text().split())
    return found
