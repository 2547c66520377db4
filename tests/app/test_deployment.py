"""The texts for systemd and for a container name options, folders and files that exist."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from app.serve import parser

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "app" / "warpglass.service"
CONTAINER = ROOT / "app" / "Containerfile"


def test_systemd_accepts_the_unit(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed (Debian: apt install systemd)")
    here = tmp_path / UNIT.name
    here.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/sh", UNIT.read_text(), flags=re.M))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", here], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    here.write_text(here.read_text().replace("ProtectHome=yes", "ProtectHoom=yes"))
    told = subprocess.run(["systemd-analyze", "verify", "--man=no", here], capture_output=True, text=True, check=False)
    assert "ProtectHoom" in told.stderr


def test_both_start_the_server_with_options_that_it_knows():
    (unit,) = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(), re.M)
    (container,) = re.findall(r"^CMD \[(.*)\]$", CONTAINER.read_text(), re.M)
    for command in (shlex.split(unit), [word.strip(' "') for word in container.split(",")]):
        assert command[1:3] == ["-m", "app.serve"] and parser().parse_args(command[3:]).strangers


def test_the_container_gets_what_the_app_imports():
    copied = {Path(line.split()[1]) for line in CONTAINER.read_text().splitlines() if line.startswith("COPY")}
    assert all((ROOT / path).exists() for path in copied)
    assert {Path("app"), Path("explainers"), Path("kernels"), Path(".streamlit")} <= copied
