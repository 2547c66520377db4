"""The ladder of attention kernels, rung by rung: how many lines each idea costs, and what the compiler made of it."""

import re
from contextlib import suppress
from difflib import SequenceMatcher
from pathlib import Path

import pytest

from kernels.build import Mode, build
from kernels.catalog import current
from kernels.core.request import Request
from kernels.core.sources import without_comments
from kernels.errors import ProblemError

ROOT = Path(__file__).parents[3]
RUNGS = {**current().of_family("dense"), **current().of_family("tensor_cores")}
BACKWARD = current().of_family("backward")
LADDERS = {**RUNGS, **BACKWARD}
MOST = 60  # new lines of a rung, front matter aside
# The rungs with more than one idea, and their lines: none may grow. Splitting 06_mma and 09_wgmma needs new times.
# 05b_any_shape and 08b_three_bfloat16 are branches of their own.
LONG = {"02_tiled": 90, "04_warp_rows": 77, "06_mma": 87, "08b_three_bfloat16": 224, "09_wgmma": 87}
LONG |= {"backward_4_mma": 137, "backward_5_hopper": 93, "backward_6_overlap": 74}
BRANCHES = ("05b_any_shape", "08b_three_bfloat16")
WIDTH = 120  # characters of a line, in kernels/ and tests/
SUFFIXES = (".cu", ".cuh", ".h")
FOLDERS = (ROOT / "kernels", ROOT / "tests")
PLAIN = ROOT / "tests" / "kernels" / "plain"  # as strangers write
SOURCES = sorted(
    p
    for folder in FOLDERS
    for p in folder.rglob("*")
    if p.suffix in SUFFIXES and PLAIN not in p.parents and p.parent.name != "cases"
)
# (rung, causal) -> bytes at head_dim 128. No other rung spills.
SPILLS = {("08b_three_bfloat16", False): 40, ("08b_three_bfloat16", True): 40}


def code_of(spec):
    body = spec.path.read_text().split("*/", 1)[1]
    return [line.strip() for line in body.splitlines() if line.strip()]


def new_lines(before, after):
    codes = SequenceMatcher(None, code_of(before), code_of(after), autojunk=False).get_opcodes()
    return sum(end - begin for tag, _, _, begin, end in codes if tag != "equal")


@pytest.mark.parametrize("name", [name for name, spec in LADDERS.items() if spec.changed_from])
def test_a_rung_is_its_idea_and_little_more(name, record_property):
    spec = LADDERS[name]
    count = new_lines(LADDERS[spec.changed_from], spec)
    record_property("new_lines", count)
    print(f"{spec.changed_from} to {name}: {count} new lines")
    assert 0 < count <= LONG.get(name, MOST)


def test_no_line_of_a_source_is_too_long():
    lines = ((path.name, n, line) for path in SOURCES for n, line in enumerate(path.read_text().splitlines(), 1))
    assert not [(name, n) for name, n, line in lines if len(line) > WIDTH]


def test_no_name_hides_one_of_the_standard_library():
    texts = {path.name: without_comments(path.read_text()) for path in SOURCES if path.suffix != ".h"}
    assert not [name for name, text in texts.items() if re.search(r"\b(begin|free)\b", text)]


def test_the_rungs_are_one_chain_from_the_naive_kernel_on():
    above, chain = {spec.changed_from: name for name, spec in RUNGS.items() if name not in BRANCHES}, [""]
    while chain[-1] in above:
        chain.append(above[chain[-1]])
    assert chain[1:] == [name for name in RUNGS if name not in BRANCHES]


def _builds():
    """Every rung at every head_dim: causal where that is compiled in, which takes more registers. Without -m slow only
    at the largest one, whose tiles take the most registers."""
    for name, spec in LADDERS.items():
        problems = []
        for head_dim in spec.problem_type.__dataclass_fields__["head_dim"].metadata["allowed"]:
            problem = spec.problem_type(seq_len=4096, head_dim=head_dim, causal=True)
            with suppress(ProblemError):  # the kernel refuses this head_dim
                spec.plan(problem, spec.settings_for(problem))
                problems.append(problem)
        for problem in problems:
            marks = [] if problem is problems[-1] else pytest.mark.slow
            yield pytest.param(spec, problem, id=f"{name}-{problem.head_dim}", marks=marks)


@pytest.mark.parametrize(("spec", "problem"), [*_builds()])
def test_no_rung_spills_and_no_product_is_serialised(spec, problem):
    """Of the timed build as tuned, for Hopper. C7510 and its kin say that ptxas waits after each product."""
    request = Request(spec, problem, tuple(spec.settings_for(problem).items()))
    made = build(spec, request.defines, Mode.TIMED, "sm_90a")
    allowed = SPILLS.get((spec.name, problem.causal), 0) if problem.head_dim == 128 else 0
    assert {step.entry for step in request.plan.launches} <= {fact.entry for fact in made.facts}
    assert all(8 <= fact.registers <= 255 and fact.spill_bytes <= allowed for fact in made.facts), made.facts
    assert "C75" not in made.log
