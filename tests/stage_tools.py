"""The tools of the stage: eslint, prettier, tsc, esbuild (npm ci --prefix app/stage) and node. REQUIRE_BROWSER=1 turns
a missing tool into a failure."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

STAGE = Path(__file__).parents[1] / "app" / "stage"


def run(tool: str, *arguments: str, fails: bool = False) -> str:
    """A tool on the stage's folder; its output, if it finds no fault.

    fails: whether it may find faults. The output has them.
    """
    found = shutil.which(tool, path=f"{STAGE / 'node_modules' / '.bin'}:{os.environ['PATH']}")
    if not found:
        message = f"{tool} was not found: run npm ci --prefix app/stage"
        if os.environ.get("REQUIRE_BROWSER"):
            pytest.fail(message)
        pytest.skip(message)
    made = subprocess.run([found, *arguments], cwd=STAGE, capture_output=True, text=True, timeout=300)
    assert fails or made.returncode == 0, made.stdout + made.stderr
    return made.stdout
