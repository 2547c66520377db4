"""Waits for another process or thread."""

import time
from contextlib import suppress
from pathlib import Path


def until(true, seconds=60):
    """Until true() holds; a failure after so long."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def gone(*pids):
    """Whether these processes have ended, and are no zombies."""
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def command_of(pid):
    """The command line of a process; nothing of one that has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""
