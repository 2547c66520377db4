"""The stage's JavaScript and CSS under its own tools."""

import json
from pathlib import Path

from stage_tools import STAGE, run

HERE = Path(__file__).parent


def test_every_file_is_formatted():
    run("prettier", "--config", "package.json", "--check", ".", "../../tests/browser/*.js", "../../tests/app/stage")


def test_eslint_finds_nothing():
    run("eslint", ".")


def test_the_node_tests_pass():
    tests = sorted(HERE.glob("*.test.mjs"))
    assert tests
    run("node", "--test", *map(str, tests))


def test_the_tools_are_pinned():
    for name, version in json.loads((STAGE / "package.json").read_text())["devDependencies"].items():
        assert version.replace(".", "").isdigit(), f"{name} {version}"
