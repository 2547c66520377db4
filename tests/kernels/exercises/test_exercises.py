"""Each exercise: the start fails, the solution passes, and each typical wrong answer shows its evidence."""

from dataclasses import replace

import pytest

from kernels import exercises
from kernels.__main__ import main
from kernels.catalog import current, load_kernel
from kernels.errors import ProblemError
from kernels.exercises import grade, grading
from kernels.exercises.exercise import FOLDER, Limit

ALL = exercises.listed()
QUICK = list(ALL)[:2]
WRONG = [(name, number) for name, one in ALL.items() if one.of == name for number in range(len(one.wrong))]


def _kinds(found):
    return {one.kind for one in found.evidence}


@pytest.mark.parametrize("name", ALL)
def test_an_exercise_has_wrong_answers_and_hints_and_draws_other_inputs_each_time(name):
    one = ALL[name]
    texts = {wrong.text for wrong in one.wrong}
    assert len(texts) == len(one.wrong) >= (3 if one.bug else 10 if one.of == name else 9)
    assert one.solution not in texts and one.start != one.solution
    assert one.hints and one.story and len(one.idea.split()) <= 20
    assert all(wrong.evidence for wrong in one.wrong)
    kernel = load_kernel(FOLDER / ALL[name].of / "solution.cu")
    first, second = (ALL[name].drawn(kernel) for _ in range(2))
    assert all(a != b for a, b in zip(first, second, strict=True))
    for problem in first:
        kernel.plan(problem)


@pytest.mark.parametrize("name", QUICK[1:])
def test_a_wrong_answer_shows_its_evidence(name):
    _assert_evidence(name, 0)


OWN = [name for name, one in ALL.items() if one.of == name]


def _some(names):
    """Parameters of a test: these exercises. Without -m slow, one of each kind of limit, and one made of another."""
    asked = (OWN[0], "fewer_sectors", next(name for name in ALL if name not in OWN))
    return [pytest.param(name, marks=[] if name in asked else pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", _some(OWN))
def test_the_solution_is_accepted(name):
    found = grade(name, ALL[name].solution)
    assert found.accepted and not found.evidence, found
    assert found.jailed and all(case.ok for case in found.cases)


@pytest.mark.parametrize("name", _some(ALL))
def test_the_start_is_not_accepted(name):
    found = _grade_of_start(name)
    assert not found.accepted and found.evidence


def _grade_of_start(name):
    """The first grade that refuses the start, of one problem. The last problems are the hardest ones, so mostly one is
    enough."""
    for problem in reversed(ALL[name].problems):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(grading, "find", lambda name: replace(ALL[name], problems=(problem,)))  # noqa: B023
            found = grade(name, ALL[name].start)
        if not found.accepted:
            break
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number"), WRONG)
def test_each_wrong_answer_shows_its_evidence(name, number):
    _assert_evidence(name, number)


def _assert_evidence(name, number):
    wrong = ALL[name].wrong[number]
    found = grade(name, wrong.text)
    assert not found.accepted, wrong.name
    assert _kinds(found) & set(wrong.evidence), (wrong.name, found.evidence)
    assert len(found.cases) == len(ALL[name].problems) or "endless loop" in _kinds(found)


BUGS = {name: one for name, one in ALL.items() if one.bug}


@pytest.mark.parametrize(
    "name", [pytest.param(b, marks=[pytest.mark.slow] if n % 4 else []) for n, b in enumerate(BUGS)]
)
def test_a_public_bug_fails_with_its_fault_and_line_and_its_cure_passes(name):
    one = BUGS[name]
    comment, code = one.start.split("*/", 1)
    line = 1 + (comment + code[: code.index(one.bug.line)]).count("\n")
    found = _grade_of_start(name)
    assert not found.accepted
    assert (one.bug.fault, True) in {(each.kind, line in each.lines) for each in found.evidence}, found.evidence
    assert grade(name, one.solution).accepted


@pytest.mark.parametrize("name", BUGS)
def test_a_public_bug_is_a_small_kernel_with_its_threads(name):
    one = BUGS[name]
    code = one.solution.split("*/", 1)[1]
    assert 15 <= len([line for line in code.splitlines() if line.strip()]) <= 70
    assert one.start.split("*/", 1)[1].count(one.bug.line) == 1 and len(one.bug.symptom.split()) <= 25
    assert len(one.bug.sources) >= 2 and all(
        address.startswith("https://github.com/") for _, address in one.bug.sources
    )
    assert one.bug.problem_of(one.faulty) == one.bug.problem_of(one.kernel)


def _count(found, allowed, conflicts=0, **limit):
    return grading.Count(Limit(**limit), found, allowed, 40, "k_tile", found // 2, found // 64, conflicts)


def test_a_count_names_its_line_and_kind_and_limits_name_a_kernel_of_ours():
    large = _count(6400, 1280, 6200, count="wavefronts")
    assert (large.ok, large.kind) == (False, "bank conflict")
    assert large.text == (
        "The answer takes 6,400 wavefronts of shared memory. At most 1,280 are allowed, the count of the solution. "
        "Line 40 takes the most, for k_tile: 3,200, or 32 for each request."
    )
    assert _count(6400, 1280, 0, count="wavefronts").kind == "shared memory"
    small = _count(6400, 1280, 0, count="sectors", of="a_rung", times=0.9)
    assert small.kind == "global memory" and "0.9 times the count of a_rung" in small.text
    assert _count(1280, 1280, 0, count="sectors").ok
    for one in ALL.values():
        assert all(not limit.of or limit.of in current().kernels for limit in one.limits)
        assert all(limit.count in grading.SPACES for limit in one.limits)


def test_an_answer_that_does_not_compile_has_its_line_and_none_brings_a_launch_of_its_own():
    found = grade(QUICK[0], ALL[QUICK[0]].start.replace("float l = 0.f;", "flaot l = 0.f;"))
    line = 1 + ALL[QUICK[0]].start.split("float l = 0.f;")[0].count("\n")
    assert not found.accepted and not found.cases
    assert [(one.kind, one.lines) for one in found.evidence] == [("does not compile", (line,))]
    one = ALL[QUICK[0]]
    own = load_kernel(FOLDER / one.name / "solution.cu")
    assert grading._kernel(one, FOLDER / one.name / "solution.cu").launch_texts == own.launch_texts


def test_the_command_lists_writes_and_refuses_also_an_unknown_exercise(tmp_path, monkeypatch, capsys):
    with pytest.raises(ProblemError, match=QUICK[0]):
        grade("no_such_exercise", "")
    monkeypatch.chdir(tmp_path)
    assert main(["exercise"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in ALL)
    assert main(["exercise", QUICK[0]]) == 0
    assert (tmp_path / f"{QUICK[0]}.cu").read_text() == ALL[QUICK[0]].start
    assert main(["exercise", QUICK[0]]) == 2
    assert main(["exercise", "no_such"]) == 2
    assert main(["exercise", QUICK[0], "no_such.cu"]) == 2


def test_the_statements_of_the_hints_finish_the_online_update():
    one = exercises.find("flash_update")
    parts = [part for hint in one.hints for part in hint.split("`")[1::2]]
    written = "\n".join(part for part in parts if part.endswith(";"))
    assert one.start.count("// TODO") == 1
    assert exercises.grade(one.name, one.start.replace("// TODO", written)).accepted
