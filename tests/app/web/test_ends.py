"""However the server ends, nothing that it started is left: workers, what they are forked from, their helpers."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BLOCKED = """
import sys
from faulty import tasks
from kernels.run import workers
if __name__ == "__main__":
    workers.submit(tasks.block, sys.argv[1], backend="cpu", title="blocked").result()
"""
SOON = 15.0  # seconds; the process that forks workers may be importing still


def left(token):
    """The processes that run with that token in their environment: process id -> name. A worker has the environment of
    the process that it was forked from, which holds only named variables: the cache is one of them."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if token in (process / "environ").read_bytes():
                found[int(process.name)] = (process / "comm").read_text().strip()
        except OSError:
            continue
    return found


def sockets_of(pid):
    """The inodes of a process's sockets."""
    found = set()
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        with suppress(OSError):
            found.add(os.readlink(link))
    return {text[8:-1] for text in found if text.startswith("socket:[")}


def socket_at(port):
    """The inode of the socket that listens at a port."""
    rows = [line.split() for file in ("tcp", "tcp6") for line in Path(f"/proc/net/{file}").read_text().splitlines()]
    return next(row[9] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A")


def until(true, seconds):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def default_signals():
    """For a child. Some shells start their jobs with SIGINT ignored, and nohup ignores SIGHUP. Python keeps both."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def started(command, tmp_path):
    token = f"WARPGLASS_CACHE={tmp_path / 'cache'}"
    given = {"WARPGLASS_CACHE": str(tmp_path / "cache")}
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    (tmp_path / "cache").mkdir(mode=0o700)
    with open(tmp_path / "log", "wb") as log:
        environment = {**os.environ, **given, "PYTHONPATH": paths}
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=log, stderr=log, preexec_fn=default_signals
        )
    return process, token.encode()


def ended(process, token, number):
    try:
        process.send_signal(number)
        process.wait(SOON)
        until(lambda: not left(token), SOON)
    finally:
        for pid in left(token):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGTERM])
def test_the_app_leaves_nothing(tmp_path, number):
    """With a new cache it compiles as soon as it runs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app/main.py", "--server.headless=true"]
    process, token = started([*command, f"--server.port={port}"], tmp_path)
    until(lambda: any("cc1plus" in name for name in left(token).values()), 60)
    until(lambda: len([name for name in left(token).values() if "python" in name]) > 3, 60)  # workers are there
    listening = socket_at(port)
    until(lambda: listening in sockets_of(process.pid), 60)
    assert not [name for pid, name in left(token).items() if pid != process.pid and listening in sockets_of(pid)]
    ended(process, token, number)


SLOW = [pytest.param(number, marks=pytest.mark.slow) for number in (signal.SIGINT, signal.SIGHUP)]


@pytest.mark.parametrize("number", [signal.SIGKILL, *SLOW])
def test_whatever_uses_workers_leaves_nothing_that_they_started(tmp_path, number):
    (tmp_path / "blocked.py").write_text(BLOCKED)
    process, token = started([sys.executable, str(tmp_path / "blocked.py"), str(tmp_path / "running")], tmp_path)
    until((tmp_path / "running").exists, 60)
    assert "sleep" in left(token).values()
    ended(process, token, number)
