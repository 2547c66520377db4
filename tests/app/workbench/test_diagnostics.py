"""Messages with their lines, of every source: the opening comment, the compiler, the shim and the check."""

import re

import pytest

from app.stories.workbench import STARTER
from app.workbench import drafts, examine
from app.workbench.examine import place
from kernels import exercises, jail
from kernels.run.backends import cpu

pytestmark = pytest.mark.skipif(bool(jail.why_none()), reason=jail.why_none())
TEXT = STARTER.read_text()
NAME = drafts.name_of(TEXT, "me")


@pytest.fixture(autouse=True)
def two_problems(monkeypatch):
    monkeypatch.setattr(examine, "FEW", 2)


def line_of(part):
    return 1 + TEXT[: TEXT.index(part)].count("\n")


@pytest.mark.parametrize(
    ("old", "new", "source", "line", "said"),
    [
        ('family = "dense"', 'family = "dens"', "front matter", 'family = "dense"', "Did you mean dense?"),
        ("block = [32]", "block = [32", "front matter", "args =", "is not TOML: Unclosed array"),
        ("grid = ", "grip = ", "front matter", "grid = ", "There is no key launches[0].grip"),
        ('"float32 scale"]', '"float32 scal"]', "front matter", "args =", "'scal' is undefined"),
        ("#include <math.h>", "#include </etc/passwd>", "front matter", "#include", "includes '/etc/passwd'"),
        ("fmaxf(m_new", "fmaxg(m_new", "compiler", "fmaxf(m_new", "'fmaxg' was not declared"),
        ("O[head + row", "O[head + 99999999 + row", "shim", "O[head + row", "illegal address"),
        ("l += p;", "l += 2.0f * p;", "check", "O[head + row", "o is wrong: error"),
    ],
)
def test_a_message_has_its_line_and_its_source(old, new, source, line, said):
    found = examine.examine(TEXT.replace(old, new, 1), False, NAME)
    first = found["diagnostics"][0]
    assert not found["ok"] and (first["source"], first["line"]) == (source, line_of(line)), first
    assert said in first["message"] and "draft_" not in str(found["diagnostics"])


def test_the_compiler_names_every_error_with_its_column():
    found = examine.examine(TEXT.replace("expf(", "expg(").replace("float m_new", "float n_new"), False, NAME)
    lines = TEXT.splitlines()
    assert len(found["diagnostics"]) >= 3
    for one in found["diagnostics"]:
        assert one["source"] == "compiler" and one["column"] <= len(lines[one["line"] - 1])


def test_a_missing_barrier_is_a_race_at_both_lines():
    found = examine.examine(TEXT.replace("    __syncthreads();\n", "", 1), False, NAME)["diagnostics"]
    written, read = line_of("K_smem[i / head_dim]"), line_of("sum[d % 4] = fmaf")
    said = f"Line {written} writes K_smem["
    assert any(one["message"].startswith(said) and "another lane" in one["message"] for one in found), (read, found)


def test_a_text_without_an_opening_comment_gets_a_proposal():
    launch = "int main() {\n  attention<<<dim3((n + 31) / 32, h), 32>>>(Q, K, V, O, n, 64, 0, 0.125f);\n}\n"
    bare = TEXT[TEXT.index("#include <math.h>") :] + launch
    found = examine.examine(bare, False, NAME)
    assert found["diagnostics"][0]["message"].startswith("It does not begin with a comment")
    assert found["proposal"].endswith(bare) and 'title = "My kernel"' in found["proposal"]
    assert found["said"] == "It does not run yet. Press Write the opening comment."
    assert examine.examine("int x;", False, NAME)["diagnostics"][-1]["message"].endswith("so it proposes nothing.")


def test_an_endless_loop_ends_at_the_limit_and_is_marked_at_its_line():
    text = TEXT.replace("m = m_new;", "for (;;) __syncwarp();", 1)
    found = cpu.limited(6.0, examine.examine, text, False, NAME)["diagnostics"]
    assert [one["line"] for one in found] == [line_of("    m = m_new;")] and "limit" in found[0]["message"], found


@pytest.mark.parametrize(
    "added",
    [
        '#include "/etc/passwd"',
        "#include <../../../etc/passwd>",
        'asm(".incbin \\"/etc/passwd\\"");',
        "#define A(x) x x x x\nint y = A(A(A(A(A(A(A(A(A(A(A(A(A(1)))))))))))));",
    ],
)
def test_a_hostile_text_gets_a_message_and_shows_no_file(added):
    found = examine.examine(TEXT.replace("#define TILE", f"{added}\n#define TILE", 1), False, NAME)
    assert not found["ok"] and found["diagnostics"] and "root:" not in str(found), found


def test_the_starter_is_right():
    found = examine.examine(TEXT, False, NAME)
    assert found["ok"] and not found["diagnostics"], found
    assert re.fullmatch(r"ok so far: \d+ of 63 problems checked, all agree\.", found["said"])


@pytest.mark.parametrize(
    ("message", "at"),
    [
        ("launches[0].args has 3 entries", (8, 0)),
        ("launches.main.args[1]: cannot evaluate", (8, 0)),
        ("constants.TILE.values is 3. It must be", (4, 0)),
        ("the key title is missing", (2, 0)),
        ("it does not begin with a comment", (2, 0)),
        ("line 7: it includes", (7, 0)),
        ("the comment is not TOML: Invalid value (at line 3, column 9)", (4, 9)),
    ],
)
def test_the_place_of_a_message_of_the_opening_comment(message, at):
    text = '\n/*\nfamily = "a"\n[constants.TILE]\n[[launches]]\nentry = "b"\n[x]\nargs = []\n*/\n'
    assert place(text, message) == at


def test_a_grade_has_its_evidence_at_lines_and_all_its_cases(monkeypatch):
    evidence = (exercises.Evidence("race", "line 3 writes s[0].", (3, 5)), exercises.Evidence("scale", "One factor."))
    cases = (exercises.CaseResult({"seq_len": "7"}, False, "o: error 1."),)
    made = exercises.Grade("one", False, "1 of 1 problems are wrong.", cases, evidence, True)
    monkeypatch.setattr(exercises, "grade", lambda name, text: made)
    said = examine.graded("one", "// a\n// b\n__global__ void k() {}\n")
    assert [(one["line"], one["source"]) for one in said["diagnostics"]] == [(3, "race"), (3, "scale")]
    assert said["cases"] == [{"problem": {"seq_len": "7"}, "ok": False, "said": "o: error 1."}] and not said["ok"]
