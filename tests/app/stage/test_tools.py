"""The stage's JavaScript and CSS under its own tools. They come with `npm ci --prefix app/stage`; REQUIRE_BROWSER=1
turns missing tools into a failure."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
STAGE = ROOT / "app" / "stage"
TOOLS = STAGE / "node_modules" / ".bin"


def run(tool, *arguments):
    if not (TOOLS / tool).exists():
        message = f"{tool} was not found: run npm ci --prefix app/stage"
        if os.environ.get("REQUIRE_BROWSER"):
            pytest.fail(message)
        pytest.skip(message)
    made = subprocess.run([TOOLS / tool, *arguments], cwd=STAGE, capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, made.stdout + made.stderr


def test_every_file_is_formatted():
    run("prettier", "--check", ".", "../../tests/browser/*.js")


def test_eslint_finds_nothing():
    run("eslint", ".")


def test_the_tools_are_pinned():
    for name, version in json.loads((STAGE / "package.json").read_text())["devDependencies"].items():
        assert version.replace(".", "").isdigit(), f"{name} {version}"
