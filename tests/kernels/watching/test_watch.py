"""watch shows the changes of each save, report writes them as Markdown, and the workflow's commands run."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernels.run import workers
from kernels.watching import command
from kernels.watching.comparison import Row, lines

ROOT = Path(__file__).parents[3]
WORKFLOW = ROOT / "kernels" / "examples" / "ci.yml"
SECONDS = 2.0  # from a save to the changes, warm
KERNEL = (ROOT / "tests" / "kernels" / "plain" / "tutorials" / "t02_dynamic_shared.cu").read_text()
FEWER = KERNEL.replace("block = [64]", "block = [32]")
WRONG = KERNEL.replace("scores[j] = s * scale;", "scores[j] = s * scale * 1.01f;")
BROKEN = KERNEL.replace("if (t < half_size)", "if (t < half_size")
RACE = KERNEL.replace("scratch[t] = value;\n  __syncthreads();", "scratch[t] = value;")
assert len({KERNEL, FEWER, WRONG, BROKEN, RACE}) == 5


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """The texts of five saves, and their seconds."""
    path = tmp_path_factory.mktemp("watch") / "mine.cu"
    workers.survey()

    def versions():
        for text in (KERNEL, WRONG, BROKEN, RACE, FEWER):
            path.write_text(text)
            yield

    texts, times, last = [], [], time.monotonic()
    for text in command.seen(path, [], versions()):
        texts.append(text)
        times.append(time.monotonic() - last)
        last = time.monotonic()
    return texts, times


def test_each_version_shows_its_facts_its_first_wrong_value_its_line_its_race_and_its_changes(said):
    assert re.search(
        r"verdict: right\n  attention_row: \d+ registers, 0 bytes of local memory a thread \(0 bytes spilled\)\n"
        r"  \d+ wavefronts",
        said[0][0],
    )
    assert re.search(r"first different value: o\[0, 0, 0, 0\] +-?\d\S+ \(line \d+\) -> -?\d", said[0][1])
    assert re.search(r"verdict +right -> wrong: o off by \S+, allowed \S+ \(worse\)\n", said[0][1])
    line = next(n for n, text in enumerate(BROKEN.splitlines(), 1) if "if (t < half_size" in text)
    assert said[0][2].startswith("mine.cu: mine.cu line ") and str(line) in said[0][2]
    assert "fault: " in said[0][3] and "No barrier is between them" in said[0][3]
    assert re.search(r"wavefronts of shared memory +[\d,]+ -> [\d,]+", said[0][4])
    assert "different value" not in said[0][4] and "verdict" not in said[0][4]
    assert min(said[1][1:]) < SECONDS, said[1]


def test_a_save_of_the_file_or_a_header_is_seen_at_once_and_lines_without_a_change_say_so(tmp_path):
    path, header = tmp_path / "a.cu", tmp_path / "b.cuh"
    path.write_text("1")

    def saved(_):
        if not header.exists():
            header.write_text("2")
        elif path.read_text() == "1":
            path.write_text("33")
        else:
            raise KeyboardInterrupt

    seen = []
    with pytest.raises(KeyboardInterrupt):
        for _ in command.saves(path, saved):
            seen.append(path.read_text())
    assert seen == ["1", "1", "33"]
    assert lines((Row("registers", "32", "32"),)) == ["No count and no value changed."]
    assert lines((Row("registers", "32", "40"),)) == ["registers  32 -> 40"]


@pytest.mark.slow
def test_the_commands_of_the_workflow_run_and_end_with_their_codes(tmp_path):
    named = re.findall(r"- name: (\w+)\n(?:\s+if: .*\n)?\s+run: (.*)", WORKFLOW.read_text())
    commands = dict(named)
    assert list(commands) == ["before", "check", "registers", "report", "summary"]
    (tmp_path / "before.cu").write_text(KERNEL)
    environment = {**os.environ, "WARPGLASS": str(ROOT), "KERNEL": "attention.cu", "GITHUB_STEP_SUMMARY": "summary.md"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for text, code in ((FEWER, 0), (WRONG, 1)):
        (tmp_path / "attention.cu").write_text(text)
        for name in ("check", "registers", "report", "summary"):
            done = subprocess.run(["sh", "-c", commands[name]], cwd=tmp_path, env=environment)
            assert done.returncode == (code if name == "check" else 0), name
        held = json.loads((tmp_path / "check.json").read_text())
        assert held["ok"] is (code == 0)
    assert "| **wavefronts of shared memory** |" in (tmp_path / "summary.md").read_text()
