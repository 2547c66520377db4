"""The opening comment of a .cu: what it gives, and that every mistake is one line with file, key and remedy."""

import copy
import os
import re
import tomllib
from pathlib import Path

import pytest

from kernels import catalog
from kernels.catalog import KERNELS, load_kernel
from kernels.core import frontmatter
from kernels.core.scope import Scope
from kernels.core.toml_tables import completed
from kernels.errors import FrontMatterError, ProblemError

GUIDE = Path(__file__).parents[3] / "kernels" / "front-matter.md"
GOOD = """/*
title = "Doubler"
idea = "writes twice what it reads."
changed = "nothing, it is a test."
costs = "little."
limits = "none."
source = "this test."
family = "dense"

[constants.WIDTH]
default = 1
values = [1, 2]
meaning = "elements per thread"

[[tuned]]
when = "seq_len > 100"
WIDTH = 2

[scratch.sums]
shape = ["batch * num_heads", 4]
axes = ["head", "part"]
initial = "zero"

[[launches]]
entry = "twice"
grid = ["ceil_div(seq_len, 32)", "batch * num_heads"]
block = [32]
shared_bytes = "4 * head_dim"
args = ["q", "o", "sums", "int32 seq_len", "float32 scale", {struct = ["int32 seq_len", "float64 scale"]}]
item = "row block"

[[launches]]
entry = "collect"
grid = ["batch * num_heads"]
block = [64]
args = ["sums", "o"]
item = "head"
*/
#include "common.cuh"
struct Pair { int n; double scale; };
extern "C" __global__ void twice(const float* Q_gmem, float* O_gmem, float* sums_gmem, int seq_len, float scale,
                                 const __grid_constant__ Pair pair PROBE_PARAM) {}
extern "C" __global__ void __launch_bounds__(64) collect(const float* sums_gmem, float* O_gmem PROBE_PARAM) {}
"""


@pytest.fixture
def write(tmp_path):
    def make(text=GOOD):
        (tmp_path / "twice.cu").write_text(text)
        return load_kernel(tmp_path / "twice.cu")

    return make


def test_everything_that_the_program_knows_comes_from_the_file(write):
    spec = write()
    assert (spec.name, spec.title, spec.family, spec.rung) == ("twice", "Doubler", "dense", 0)
    problem = spec.problem_type(seq_len=100, num_heads=3, batch=2)
    plan = spec.plan(problem)
    twice, collect = plan.launches
    assert (twice.grid, twice.block, twice.shared_bytes, twice.item) == (
        (4, 6, 1),
        (32, 1, 1),
        4 * problem.head_dim,
        "row block",
    )
    assert twice.args[:3] == ("q", "o", "sums") and twice.args[3] == 100 and twice.args[3].nbytes == 4
    assert twice.args[5].nbytes == 16  # int, four bytes of padding, double: as C lays it out
    assert bytes(twice.args[5])[:4] == (100).to_bytes(4, "little")
    assert plan.tensor("sums").shape == (6, 4) and not plan.tensor("sums").fresh().any()
    assert {t.name for t in plan.written} == {"o", "sums"}
    assert (plan.items, plan.items_of("head")) == (24, 6)
    assert spec.tensor_of_symbol == {"Q": "q", "O": "o", "sums": "sums"}
    assert spec.settings_for(problem) == {"WIDTH": 1} and spec.settings_for(spec.problem_type(seq_len=101)) == {
        "WIDTH": 2
    }


def test_launches_have_items_of_their_own_kind(write):
    plan = write().plan(write().problem_type(seq_len=100))
    scope = Scope(1, 2, (("head", 1, 1),))
    scope.check(plan)
    assert [scope.blocks(launch, plan) for launch in plan.launches] == [(1, 2), (1, 1)]
    assert [Scope.everything(plan).blocks(launch, plan) for launch in plan.launches] == [(0, 8), (0, 2)]
    with pytest.raises(ProblemError, match="scope names 'key tile'. This run has items of the kind row block, head"):
        Scope(0, 1, (("key tile", 0, 1),)).check(plan)
    with pytest.raises(ProblemError, match="scope is heads 2 to 2. This run has heads 0 to 1"):
        Scope(0, 1, (("head", 2, 1),)).check(plan)


def test_a_changed_comment_keeps_the_code_hash_and_a_changed_launch_option_or_header_does_not(write, tmp_path):
    spec = write()
    told = GOOD.replace("writes twice what it reads.", "doubles.").replace("#include", "// a comment\n\n#include")
    assert write(told).code_hash == spec.code_hash
    assert write(GOOD.replace("block = [32]", "block = [64]")).code_hash != spec.code_hash
    assert write(GOOD.replace("{}", "{ ; }")).code_hash != spec.code_hash
    (tmp_path / "mine.cuh").write_text("#pragma once\n")
    with_header = GOOD.replace("#include", '#include "mine.cuh"\n#include')
    first = write(with_header)
    (tmp_path / "mine.cuh").write_text("#pragma once\n// words\n")
    assert write(with_header).code_hash == first.code_hash
    (tmp_path / "mine.cuh").write_text("#pragma once\nconstexpr int A = 1;\n")
    assert write(with_header).code_hash != first.code_hash


SHARED = """/*
[constants.WIDTH]
default = 2
values = [1, 2]
meaning = "elements per thread"
what_if = "Twice"
effect = "nothing."
*/
#pragma once
#include "far.cuh"
"""


@pytest.fixture
def write_shared(write, tmp_path):
    """write_shared(entry) -> the KernelSpec whose constant WIDTH is `entry` and whose header near.cuh has WIDTH too."""
    own = '[constants.WIDTH]\ndefault = 1\nvalues = [1, 2]\nmeaning = "elements per thread"\n'
    (tmp_path / "near.cuh").write_text(SHARED)
    (tmp_path / "far.cuh").write_text(SHARED.replace("elements", "bytes").replace('#include "far.cuh"\n', ""))

    def make(entry):
        changed = GOOD.replace(own, f"[constants]\nWIDTH = {entry}\n")
        return write(changed.replace("#include", '#include "near.cuh"\n#include', 1))

    return make


def test_a_constant_takes_its_keys_from_the_nearest_header_unless_it_has_a_meaning_of_its_own(write_shared):
    (width,) = write_shared("{}").constants
    assert (width.default, width.values, width.meaning) == (2, (1, 2), "elements per thread")
    assert (width.what_if, width.effect) == ("Twice", "nothing.")
    (width,) = write_shared("{default = 1}").constants
    assert (width.default, width.meaning) == (1, "elements per thread")
    (width,) = write_shared('{default = 1, values = [1, 2], meaning = "own"}').constants
    assert (width.meaning, width.what_if, width.effect) == ("own", "", "")
    with pytest.raises(FrontMatterError, match="the key constants.WIDTH.default is missing"):
        write_shared('{values = [1, 2], meaning = "own"}')


SHARED_PLAN = """/*
[scratch.sums]
shape = [4]
axes = ["part"]
initial = "zero"
[launches.row]
grid = [2]
block = [32]
args = ["q"]
*/
"""


def test_scratch_tensors_launches_and_several_constants_come_from_headers_and_a_wrong_one_is_named(
    write, write_shared, tmp_path
):
    files = ("mine.cu", '/**/\n#include "near.cuh"\n'), ("near.cuh", SHARED_PLAN)
    entries = [{"entry": "row", "grid": [3]}, {"entry": "parent", "children": ["child", "row"]}, {"entry": "row"}]
    made = completed("mine.cu", {"scratch": {"sums": {"initial": "poison"}}, "launches": entries[:1]}, files)
    assert made["scratch"] == {"sums": {"shape": [4], "axes": ["part"], "initial": "poison"}}
    assert made["launches"] == [{"entry": "row", "grid": [3], "block": [32], "args": ["q"]}]
    own = completed("mine.cu", {"scratch": {"sums": {"shape": [1]}}, "launches": entries[1:]}, files)
    assert own == {"scratch": {"sums": {"shape": [1]}}, "launches": entries[1:]}  # a child takes nothing
    shared = write_shared('{}\n"DEPTH, WIDE" = {default = 1, values = [1], meaning = "m"}').constants
    assert [(c.name, c.default, c.meaning) for c in shared][1:] == [("DEPTH", 1, "m"), ("WIDE", 1, "m")]
    scratch = write(GOOD.replace("[scratch.sums]", '[scratch."sums, more"]')).scratch
    assert [(made.name, made.axes) for made in scratch] == [(name, ("head", "part")) for name in ("sums", "more")]
    with pytest.raises(FrontMatterError, match="twice.cu: constants.WIDTH is there twice. Keep one of them."):
        write_shared('{}\n"WIDTH, DEPTH" = {}')
    (tmp_path / "near.cuh").write_text("/*\n[constants.WIDTH]\ndefault = \n*/\n")
    with pytest.raises(FrontMatterError, match="near.cuh: the opening comment is not TOML"):
        write_shared("{}")


MISTAKES = [
    ("/*\ntitle", "\ntitle", "twice.cu: it does not begin with a comment"),
    ('title = "Doubler"', "title = Doubler", "twice.cu: the opening comment is not TOML: .*Put texts in quotes"),
    (
        'idea = "writes twice what it reads."\n',
        "",
        r"twice.cu: the key idea is missing. Add it \(kernels/front-matter.md",
    ),
    ('costs = "little."', 'cost = "little."', "twice.cu: there is no key cost. There are title, idea"),
    ('title = "Doubler"', "title = 3", "twice.cu: title is 3. It must be a text in quotes"),
    ('family = "dense"', 'family = "danse"', "twice.cu: family is 'danse'. There are .*dense"),
    ('family = "dense"', 'family = "dense"\nproblem = "x"', "twice.cu: problem is 'x'. Family dense has"),
    (
        'family = "dense"',
        'family = "dense"\nrequires = "hopper"',
        "requires is 'hopper'. It must be an architecture such as sm_80 or sm_90a, or sm_80 for cp.async.",
    ),
    ('family = "dense"', 'family = "dense"\nrung = "one"', "rung is 'one'. It must be a whole number"),
    ("default = 1\n", "default = 3\n", r"constants.WIDTH.default is 3, which is not among its values \[1, 2\]"),
    ("values = [1, 2]\n", "", "the key constants.WIDTH.values is missing"),
    ("values = [1, 2]", "values = [1, 2]\nwhat_if = 'x'", "constants.WIDTH has only one of what_if and effect"),
    ("values = [1, 2]", "values = [1, 'two']", "constants.WIDTH is 'two'. It must be whole numbers"),
    ("WIDTH = 2", "WIDE = 2", r"tuned\[0\].WIDE is 2. It must be a value of one of the constants WIDTH"),
    ('initial = "zero"', 'initial = "one"', "scratch.sums.initial is 'one'. It must be poison, zero, restored"),
    (
        'family = "dense"',
        'family = "dense"\ninitial = {o = "poison"}',
        "initial.o is 'poison'. It must be zero or lowest",
    ),
    ('initial = "zero"', 'dtype = "double"', "scratch.sums.dtype is 'double'. It must be one of float32, float16"),
    ('axes = ["head", "part"]', 'axes = ["head"]', "scratch.sums has 2 sizes and 1 axes"),
    (
        'entry = "twice"',
        'entry = "thrice"',
        r"launches\[0\].entry is 'thrice', and the file has no extern \"C\" __global__ function",
    ),
    ("block = [32]", "block = 32", r"launches\[0\].block is 32. It must be a list of one to three sizes"),
    ('["sums", "o"]', '["sums"]', r"launches\[1\].args has 1 entries, and collect takes 2 \(sums_gmem, O_gmem\)"),
    (
        '"int32 seq_len", "float32 scale", {',
        '"long seq_len", "float32 scale", {',
        r"args\[3\] is 'long seq_len'. A number is written as its type",
    ),
    ('{struct = ["int32 seq_len"', '{struct = ["seq_len"', r"args\[5\].struct holds 'seq_len'. A member is a type"),
    ("{struct = [", "{structure = [", r"launches\[0\].args\[5\] is .*. It must be a tensor's name"),
    (
        "#include",
        '#include "nowhere.cuh"\n#include',
        "it includes 'nowhere.cuh', and neither its folder nor kernels/device has that file",
    ),
]


IN_EXPRESSIONS = [
    (
        'family = "dense"',
        'family = "dense"\ninitial = {q = "zero"}',
        "twice.cu: initial names q. The problem's outputs are o",
    ),
    (
        '"ceil_div(seq_len, 32)"',
        '"ceil_div(length, 32)"',
        "launches.twice.grid: cannot evaluate 'ceil_div.length, 32.' .*names .*seq_len",
    ),
    (
        '"ceil_div(seq_len, 32)"',
        '"seq_len / 3"',
        "launches.twice.grid: 'seq_len / 3' is 21.33.*. It must be a whole number from 1. Use //",
    ),
    (
        '"ceil_div(seq_len, 32)"',
        '"seq_len - 64"',
        "launches.twice.grid: 'seq_len - 64' is 0. It must be a whole number from 1",
    ),
    ('"ceil_div(seq_len, 32)"', "\"__import__('os')\"", "launches.twice.grid: cannot evaluate"),
    ('"ceil_div(seq_len, 32)"', '"seq_len +"', "launches.twice.grid: cannot evaluate 'seq_len .'"),
    (
        'args = ["q", "o", "sums"',
        'args = ["q", "o", "totals"',
        r"launches.twice.args\[2\]: there is no tensor 'totals'. .* have k, o, q, sums, v",
    ),
    (
        'args = ["q", "o", "sums"',
        'args = ["q", {texture = "o"}, "sums"',
        r"launches.twice.args\[1\]: the texture o has the role output, .* Name an input of int32 or float32, or pass",
    ),
    (
        'args = ["q", "o", "sums"',
        'args = [{texture = "q", dimensions = 2}, "o", "sums"',
        r"launches.twice.args\[0\]: the texture q has .* Name an input of int32 or float32 with two axes, or pass",
    ),
    (
        'item = "row block"',
        'item = "row block"\nblocks_per_item = 3',
        "launches.twice: 2 blocks are no whole number of items of 3",
    ),
    ('when = "seq_len > 100"', 'when = "long"', r"tuned\[0\].when: cannot evaluate 'long'"),
]


NO_NAMES = [  # none of them reaches a compiler
    ("[constants.WIDTH]", '[constants."X(a)=1"]', "twice.cu: "),
    ("[constants.WIDTH]", '[constants."-include"]', "twice.cu: "),
    ('entry = "twice"', """entry = 'f(); system("id")'""", "twice.cu: "),
    ('entry = "twice"', 'entry = "../twice"', "twice.cu: "),
]
ALL_MISTAKES = [*MISTAKES, *IN_EXPRESSIONS, *NO_NAMES]


@pytest.mark.parametrize(("right", "wrong", "words"), ALL_MISTAKES, ids=[m[1][:48] for m in ALL_MISTAKES])
def test_a_mistake_is_one_line_with_file_key_and_remedy(write, right, wrong, words):
    assert right in GOOD
    with pytest.raises(FrontMatterError, match=words) as told:
        spec = write(GOOD.replace(right, wrong, 1))
        problem = spec.problem_type(num_heads=1)
        spec.settings_for(problem)
        spec.plan(problem)
    assert "\n" not in str(told.value) and str(told.value).startswith("twice.cu: ")


def test_the_guide_lists_exactly_the_keys_that_are_read():
    rows = re.findall(r"^\| `([\w.\[\]]+)` \|", GUIDE.read_text(), re.M)
    there = set(frontmatter.KEYS) - {"constants", "scratch", "launches", "tuned", "conditions"}
    for table, keys in (
        ("constants.NAME", frontmatter.CONSTANT_KEYS),
        ("scratch.NAME", frontmatter.SCRATCH_KEYS),
        ("launches", frontmatter.LAUNCH_KEYS),
        ("conditions[]", frontmatter.CONDITION_KEYS),
    ):
        there |= {f"{table}.{key}" for key in keys}
    assert there <= set(rows), there - set(rows)


def test_of_two_kernels_of_one_name_one_is_left_out_and_both_paths_are_told(tmp_path, monkeypatch):
    (tmp_path / "03_flash.cu").write_text(KERNELS["03_flash"].source)
    monkeypatch.setattr(catalog.families, "__path__", [*catalog.families.__path__, str(tmp_path)])
    found = catalog.refreshed(None)
    (fault,) = found.faults
    assert (
        found.kernels["03_flash"] == KERNELS["03_flash"]
        and "have the same name, 03_flash. The catalogue omits the first" in fault
    )


def test_a_gpu_that_lacks_an_instruction_a_type_or_room_for_tuned_blocks_is_told_before_the_launch(write):
    from kernels.run.backends import Device

    spec = write(GOOD.replace('family = "dense"', 'family = "dense"\nrequires = "sm_90a for wgmma"'))
    a100 = Device("gpu", "NVIDIA A100", "sm_80", 163 * 1024)
    said = spec.cannot_run(spec.problem_type(), {}, a100)
    assert said.startswith("twice needs sm_90a for wgmma, and NVIDIA A100 is sm_80. ")
    assert said.endswith("It can still be compiled, inspected and shown from recordings.")
    assert spec.cannot_run(spec.problem_type(), {}, Device("gpu", "NVIDIA H200", "sm_90a", 227 * 1024)) is None
    spec = KERNELS["add_rms_norm"]
    said = spec.lacks(spec.problem_type(dtype="bfloat16"), "sm_75")
    assert said == "sm_80 or later for rounding to bfloat16"
    assert not spec.lacks(spec.problem_type(dtype="float16"), "sm_75")
    assert not spec.lacks(spec.problem_type(dtype="bfloat16"), "sm_80")
    spec = KERNELS["backward_4_mma"]
    problem = spec.problem_type(head_dim=64)
    assert spec.settings_for(problem) == spec.settings_for(problem, shared_bytes=163 * 1024)
    assert spec.settings_for(problem)["BLOCK_Q"] == 128
    assert spec.settings_for(problem, shared_bytes=99 * 1024) == spec.settings()
    assert spec.settings_for(problem, {"BLOCK_Q": 128}, 99 * 1024)["BLOCK_Q"] == 128


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("int seq_len, float scale", "float seq_len, float scale", "'int32 seq_len', the type int32, .* float seq_len"),
        ("int seq_len, float scale", "int seq_len, double scale", "'float32 scale', the type float32, .* double scale"),
        ("const float* Q_gmem, float* O", "int Q_gmem, float* O", "'q', a pointer to a tensor, .* int Q_gmem"),
        ("int seq_len, float scale", "size_t seq_len, float scale", "the type int32, .* size_t seq_len"),
        ("int seq_len, float scale", "int* seq_len, float scale", r"'int32 seq_len', the type int32, .* int\* seq_len"),
    ],
)
def test_a_signature_of_another_type_than_the_comment_is_refused(write, right, wrong, said):
    with pytest.raises(FrontMatterError, match=f"twice.cu: .*{said}. Give both the same type"):
        write(GOOD.replace(right, wrong))


def test_attributes_with_nested_parentheses_stand_before_the_name(write):
    text = GOOD.replace("__launch_bounds__(64) ", "__launch_bounds__((WIDTH + 1) * 32, (1)) __cluster_dims__(2, 1, 1) ")
    assert text != GOOD and write(text).symbols("collect") == ("sums_gmem", "O_gmem")
    text = GOOD.replace("void __launch_bounds__(64) ", "__launch_bounds__(min(64, (WIDTH + 1) * 32)) void ")
    assert text != GOOD and write(text).symbols("collect") == ("sums_gmem", "O_gmem")


# ---- a file that nobody should write: it is left out, its message names it, and it hides no other ----

ODD_VALUES = [3, -1, 2.5, True, "x", "", [], [[]], [1, "x"], [{}], {}, {"x": 1}, {"x": {}}, 10**30]
PLACES = [
    *((key,) for key in frontmatter.KEYS),
    *(("constants", "WIDTH", key) for key in frontmatter.CONSTANT_KEYS),
    *(("scratch", "sums", key) for key in frontmatter.SCRATCH_KEYS),
    *(("launches", 0, key) for key in frontmatter.LAUNCH_KEYS),
    *(("launches", 0, "args", n) for n in range(6)),
    ("launches", 0, "args", 5, "struct", 0),
    ("launches", 0, "grid", 0),
    ("scratch", "sums", "shape", 0),
    ("tuned", 0, "when"),
    ("tuned", 0, "WIDTH"),
    ("constants", "WIDTH"),
    ("constants", "WIDTH", "values", 0),
    ("launches", 0),
    ("tuned", 0),
    ("scratch", "sums"),
]


@pytest.mark.parametrize("place", PLACES, ids=[".".join(map(str, place)) for place in PLACES])
def test_a_value_of_any_kind_at_any_key_is_taken_or_refused_with_the_file(tmp_path, monkeypatch, place):
    """The table is handed over as TOML would give it."""
    right = tomllib.loads(GOOD[2 : GOOD.index("*/")])
    path = tmp_path / "twice.cu"
    path.write_text(GOOD)
    for value in ODD_VALUES:
        table = copy.deepcopy(right)
        inner = table
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = value
        monkeypatch.setattr(frontmatter, "parse", lambda name, text, table=table: table if name == path.name else {})
        try:
            spec = load_kernel(path)
            problem = spec.problem_type(num_heads=1)
            spec.plan(problem, spec.settings_for(problem))
            texts = [spec.title, *(c.meaning + c.what_if + c.effect for c in spec.constants)]
            texts += [text.item for text in spec.launch_texts] + [axis for made in spec.scratch for axis in made.axes]
            assert spec.code_hash and all(isinstance(text, str) for text in texts), value
        except ProblemError as told:
            assert "\n" not in str(told) and "twice" in str(told), (value, told)


BROKEN_TOML = {
    "deep": f"x = {'[' * 100_000}{']' * 100_000}",
    "deep_tables": f"x = {'{a = ' * 20_000}1{'}' * 20_000}",
    "long_number": f"rung = {'9' * 5000}",
}
QUITTING = {"exits": "raise SystemExit", "exits_3": "import sys; sys.exit(3)", "raises": "raise BaseException('odd')"}
QUITTING |= {"odd": "PROBLEMS = nothing"}


def test_what_cannot_be_read_is_left_out_with_its_file_and_hides_no_other(tmp_path, monkeypatch):
    for name, text in BROKEN_TOML.items():
        (tmp_path / f"{name}.cu").write_text(GOOD.replace("/*\n", f"/*\n{text}\n", 1))
    for name, line in QUITTING.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"{line}\n")
        (tmp_path / name / "quits.cu").write_text(GOOD.replace('"dense"', f'"{name}"'))
    os.mkfifo(tmp_path / "pipe.cu")
    (tmp_path / "huge.cu").write_text(GOOD.replace('"ceil_div(seq_len, 32)"', '"len([0] * 10**10)"'))
    (tmp_path / "power.cu").write_text(GOOD.replace('"ceil_div(seq_len, 32)"', '"9**9**9**9"'))
    (tmp_path / "never.cu").write_text(
        GOOD.replace("[[launches]]", '[[conditions]]\nmust = "seq_len < 0"\nmessage = "never"\n\n[[launches]]', 1)
    )
    monkeypatch.setattr(catalog.families, "__path__", [*catalog.families.__path__, str(tmp_path)])
    found = catalog.refreshed(None)
    kernels, faults = found.kernels, found.faults
    assert list(kernels) == list(KERNELS) and len(faults) == 11
    said = "\n".join(faults)
    assert len(said) < 5000 and len(said.splitlines()) == len(faults)
    for name in BROKEN_TOML:
        assert f"{name}.cu: the opening comment cannot be read" in said
    for name in QUITTING:
        assert f"quits.cu: family {name} cannot be imported" in said
    assert "pipe.cu cannot be read: it is not a regular file" in said
    assert "huge.cu: launches.twice.grid: cannot evaluate" in said
    assert "power.cu: launches.twice.grid: cannot evaluate" in said
    assert "never.cu: its conditions refuse every check problem" in said


def _constants(names):
    return "\n".join(f'[constants.{name}]\ndefault = 1\nvalues = [1]\nmeaning = "x"' for name in names)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (_constants(f"C{n}" for n in range(101)), "constants has 102 tables"),
        (_constants(['"' + ",".join(f"C{n}" for n in range(101)) + '"']), "constants has 102 tables"),
        ("[watch]\n" + "\n".join(f'"a{n}" = "x"' for n in range(1001)), "more than 1,000 values"),
        ("[a" + ".b" * 900 + "]", "tables more than 8 deep"),
    ],
)
def test_an_opening_comment_has_a_limit(tmp_path, more, said):
    file = tmp_path / "twice.cu"
    file.write_text(GOOD.replace("[[tuned]]", f"{more}\n\n[[tuned]]", 1))
    with pytest.raises(FrontMatterError, match=said):
        load_kernel(file)
