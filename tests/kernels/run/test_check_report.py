"""The report of a check: how many problems were tried, and the JSON of formats.md."""

import json
import re
from pathlib import Path

import pytest

from kernels import __main__ as command_line
from kernels.catalog import load_kernel
from kernels.core import fitting
from kernels.core.cases import fitting_cases
from kernels.run import check, check_report
from kernels.run.backends import cpu
from kernels.run.plain.faults import KINDS, STOPS

STARTER = Path(__file__).parents[3] / "app/workbench/starter.cu"
FORMATS = Path(__file__).parents[3] / "kernels/formats.md"


@pytest.fixture
def conditional(tmp_path):
    """conditional(*musts) -> the starter's kernel with these conditions."""

    def make(*musts, name="conditional"):
        path = tmp_path / f"{name}.cu"
        tables = "".join(f'[[conditions]]\nmust = "{must}"\nmessage = "The kernel needs {must}."\n' for must in musts)
        path.write_text(STARTER.read_text().replace("[[launches]]", f"{tables}\n[[launches]]", 1))
        return load_kernel(path)

    return make


@pytest.mark.parametrize(
    ("musts", "holds"),
    [
        (["seq_len % 32 == 0"], lambda p: p.seq_len % 32 == 0),
        (["head_dim == 64"], lambda p: p.head_dim == 64),
        (["not causal", "seq_len % 16 == 0"], lambda p: not p.causal and p.seq_len % 16 == 0),
        (["num_heads == 1", "batch == 1"], lambda p: p.num_heads == p.batch == 1),
    ],
)
def test_the_problems_of_a_check_fit_the_conditions_in_place_of_being_refused(conditional, musts, holds):
    kernel = conditional(*musts)
    found = fitting_cases(kernel)
    free = fitting_cases(conditional(name="free"))
    assert all(holds(case.problem) for case in found.possible)
    assert len(found.possible) > 0.9 * free.named and len(set(found.possible)) == len(found.possible)
    assert found.named == free.named and found.refused.total() == found.named - len(found.possible)
    untouched = [case for case in free.possible if holds(case.problem)]
    assert set(untouched) <= set(found.possible)
    assert {case.problem.seed for case in found.possible} <= {case.problem.seed for case in free.possible}


def test_a_field_that_the_user_sets_stays_and_a_check_of_few_problems_fails_with_the_condition(
    conditional, capsys, monkeypatch
):
    monkeypatch.setattr(fitting, "FARTHEST", 32)
    kernel = conditional("seq_len % 32 == 0")
    assert not fitting_cases(kernel, {"seq_len": "40"}).possible
    few = conditional("seq_len == 17 and seed == 12", name="few")
    chosen = check.choose(few, cpu.device())
    assert not chosen.is_enough and 0 < chosen.fitting < 4
    assert command_line.main(["check", str(few.path), "--backend", "cpu"]) == command_line.FAILED
    said = capsys.readouterr().out
    assert f"{chosen.fitting} of 63 problems tried, so this is no check" in said and "Loosen [[conditions]]" in said
    assert "The kernel needs seq_len == 17 and seed == 12." in said and "all agree" not in said


def test_a_right_check_says_how_many_problems_agree_and_shows_its_progress(conditional, capsys, monkeypatch):
    kernel = conditional("seq_len % 32 == 0")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert command_line.main(["check", str(kernel.path), "--backend", "cpu", "--every", "21"]) == command_line.OK
    printed = capsys.readouterr()
    assert "conditional: 3 of 63 problems tried, all agree, in both builds on " in printed.out
    assert re.findall(r"(\d) of 3  problems", printed.err) == ["1", "2", "3"] and printed.err.count("\n") == 1


def columns(section, heading):
    """The names in the first column of a table of formats.md, after a heading."""
    rows = section.partition(heading)[2].split("\n\n")[1].splitlines()[2:]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_the_json_of_a_check_has_the_documented_keys_and_each_fault_once_with_its_line(tmp_path, capsys):
    path = tmp_path / "racy.cu"
    path.write_text(STARTER.read_text().replace("    __syncthreads();\n", "", 1))
    argv = ["check", str(path), "--backend", "cpu", "--every", "16", "--json"]
    assert command_line.main(argv) == command_line.FAILED
    said = capsys.readouterr().out
    found = json.loads(said, parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))
    section = FORMATS.read_text().partition("## Report of a check")[2].partition("\n## ")[0]
    assert found.keys() == columns(section, "The exit code is 0")
    assert found["summary"][0].keys() == columns(section, "A row of `summary`")
    assert found["verdicts"][0].keys() == columns(section, "A row of `verdicts`")
    assert (found["format"], found["ok"]) == (check_report.FORMAT, False)
    assert (found["named"], found["tried"], found["wrong"]) == (63, 4, found["summary"][0]["wrong"])
    assert found["faults"] and all(fault["line"] in fault["lines"] for fault in found["faults"])
    assert len({(f["kind"], f["level"], *f["lines"]) for f in found["faults"]}) == len(found["faults"])
    assert found["summary"][0]["likely"][0]["kind"] == "barrier" and found["first_wrong"][0]["reason"]["line"]
    kinds = {*KINDS, *(kind for _, kind in STOPS), "refused launch", "too many findings", "stopped"}
    documented = section.partition("Kinds of faults are")[2].partition("A row of")[0]
    assert {*re.findall(r"`([a-z ]+)`", documented)} == kinds
