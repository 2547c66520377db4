"""Known faults of the pinned packages, where the registries answer with their advisories: pytest -m slow."""

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIMIT = 300  # seconds


def python_faults(report):
    """(name and advisories of each faulty package, names of the packages without an answer) of pip-audit's JSON."""
    packages = report["dependencies"]
    faulty = {one["name"]: [fault["id"] for fault in one["vulns"]] for one in packages if one.get("vulns")}
    return faulty, [one["name"] for one in packages if "skip_reason" in one]


def npm_faults(report):
    """(name and severity of each faulty package, the registry's error or "") of npm's JSON."""
    if "vulnerabilities" not in report:
        return {}, str(report.get("error", report))[:300]
    return {name: one["severity"] for name, one in report["vulnerabilities"].items()}, ""


def test_a_faulty_package_and_a_missing_answer_are_seen():
    skipped = {"name": "b", "skip_reason": "not found on PyPI"}
    clean, faulty = {"name": "a", "vulns": []}, {"name": "c", "vulns": [{"id": "PYSEC-1"}]}
    assert python_faults({"dependencies": [clean, skipped, faulty]}) == ({"c": ["PYSEC-1"]}, ["b"])
    assert npm_faults({"vulnerabilities": {"d": {"severity": "high"}}}) == ({"d": "high"}, "")
    assert npm_faults({"error": {"code": "ENOAUDIT"}}) == ({}, "{'code': 'ENOAUDIT'}")


@pytest.mark.slow
def test_no_python_package_has_a_known_fault():
    if not find_spec("pip_audit"):
        pytest.skip("pip-audit is not installed here: .venv/bin/pip install pip-audit")
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.stdout.startswith("{"), done.stderr
    faulty, unknown = python_faults(json.loads(done.stdout))
    assert not faulty
    if unknown:
        pytest.skip(f"the registry has no advisories for {len(unknown)} packages, {unknown[0]} among them")


@pytest.mark.slow
def test_no_package_of_the_stage_has_a_known_fault():
    if not shutil.which("npm"):
        pytest.skip("npm is not installed")
    command = ["npm", "audit", "--json"]  # --omit=dev would leave out all packages, and find nothing
    folder = ROOT / "app" / "stage"
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT, check=False)
    faulty, reason = npm_faults(json.loads(done.stdout))
    assert not faulty
    if reason:
        pytest.skip(f"the registry answers no audit: {done.stderr.strip()[:200] or reason}")
