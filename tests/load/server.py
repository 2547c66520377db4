"""The app, started as the README says, with folders of its own, and ended by its process's number."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

from tests.answering import until_it_answers

ROOT = Path(__file__).parents[2]


class Server:
    """`streamlit run app/main.py` on a free port. cache: WARPGLASS_CACHE; a new folder if none is given."""

    def __init__(self, cache: str = "", port: int = 0, **environment: str):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = port or free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.cache = cache or tempfile.mkdtemp(prefix="warpglass-load-")
        self.log = Path(self.cache) / "server.log"
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "streamlit", "run", "app/main.py", "--server.port", str(port)],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env={**os.environ, "WARPGLASS_CACHE": self.cache, **environment},
            )
        until_it_answers(f"{self.url}/", self.log)

    @property
    def pid(self) -> int:
        return self.process.pid

    def workers(self) -> list[psutil.Process]:
        """The processes that run kernels: those that were forked by the server's own fork server."""
        return [below for child in psutil.Process(self.pid).children() for below in child.children()]

    def tracebacks(self) -> int:
        """How many stand in the server's log."""
        return self.log.read_text(errors="replace").count("Traceback (most recent call last)")

    def end(self) -> None:
        """Ends it, and prints what of it is left and what its log says."""
        print(f"tracebacks in the log: {self.tracebacks()} ({self.log})")
        print(f"processes left after SIGTERM: {len(self.stop())}")

    def stop(self, by: signal.Signals = signal.SIGTERM) -> list[psutil.Process]:
        """Ends it; the processes that outlived it by five seconds."""
        below = psutil.Process(self.pid).children(recursive=True)
        self.process.send_signal(by)
        self.process.wait(30)
        _, left = psutil.wait_procs(below, timeout=5)
        return left
