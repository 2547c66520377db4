"""The web process returns freed memory: Arrow's own pool would keep some of it for each session."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.web import server
from kernels.run.workers import served

POOL = "import app.serve, app.classroom.access, pyarrow; print(pyarrow.default_memory_pool().backend_name)"


def test_arrow_has_no_pool_of_its_own():
    """A process of its own, since Arrow chooses its pool once."""
    folder = Path(__file__).parents[3]
    found = subprocess.run([sys.executable, "-c", POOL], cwd=folder, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "system"


def test_the_server_returns_memory_again_and_again(monkeypatch):
    returned, begun = [], []

    def return_memory():
        returned.append(1)
        if len(returned) == 3:
            raise KeyboardInterrupt

    def thread(target, daemon):
        return SimpleNamespace(start=lambda: begun.append(target))

    monkeypatch.setattr(served, "return_memory", return_memory)
    monkeypatch.setattr(server, "TIDY", 0.0)
    monkeypatch.setattr(server, "threading", SimpleNamespace(Thread=thread))
    server.prepare()
    with pytest.raises(KeyboardInterrupt):
        begun[-1]()
    assert len(returned) == 3
