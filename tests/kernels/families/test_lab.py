"""The lab: what it refuses and in which words, what its kernels are launched with, its cases, and what a CPU is told
that they take."""

from dataclasses import replace

import numpy as np
import pytest

from kernels import catalog
from kernels.core.launch import Texture
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.tensors import Role
from kernels.errors import ProblemError, RunError, TooLargeError
from kernels.families import lab
from kernels.families.lab.accesses import LAYOUTS, AccessProblem, GlobalProblem
from kernels.families.lab.hierarchy import (
    CHASE_SPACES,
    STREAM_SPACES,
    ChaseProblem,
    ConstantChaseProblem,
    FmaProblem,
    StreamProblem,
    TextureChaseProblem,
)
from kernels.families.lab.patterns import RolesProblem, ShapesProblem
from kernels.families.lab.tiles import TILES, ColumnsProblem, TransposeProblem
from kernels.run.backends.cpu import device
from kernels.run.execute import check_possible, run
from kernels.trace.kinds import LAB_KINDS

KERNELS = catalog.current().of_family("lab")


def refused(kernel, problem, settings=()):
    check_possible(Request(KERNELS[kernel], problem, settings), device())


BAD = [
    (lambda: ColumnsProblem(0), "stride is 0. It must be a whole number from 1 to 4096"),
    (lambda: GlobalProblem(stride=0), "stride is 0"),
    (lambda: GlobalProblem("paged_split", 4), "width is 4. The paged K cache is split in pieces of 16 bytes"),
    (
        lambda: AccessProblem("shared_load", 8, offsets=(4,) * 32),
        "offsets.0. is 4, not a multiple of the width, 8: the hardware would refuse the access",
    ),
    (lambda: AccessProblem("ldmatrix", 8), "width is 8. For ldmatrix it must be one of 16"),
    (lambda: AccessProblem("cp_async", 2), "width is 2. For cp_async it must be one of 4, 8, 16"),
    (lambda: AccessProblem("ldmatrix", 16, 4, (-1,) * 32), "needs the rows of lanes 0 to 31"),
    (lambda: AccessProblem(offsets=(0,)), "offsets has 1 entries. A warp has 32 lanes"),
    (
        lambda: StreamProblem(threads=1024, rounds=2**16 * 2),
        "rounds is 131072. It must be a whole number from 1 to 65536",
    ),
    (
        lambda: refused("lab_columns", ColumnsProblem(32), (("WIDTH", 16), ("PAD", 1))),
        "A row of 32 floats and PAD 1 is 132 bytes. An access of 16 bytes must start at a multiple of 16. Choose a "
        "stride and a PAD that are multiples of 4.",
    ),
    (
        lambda: refused("lab_columns", ColumnsProblem(33), (("WIDTH", 16),)),
        "A row of 33 floats and PAD 0 is 132 bytes. An access of 16 bytes must start at a multiple of 16",
    ),
    (
        lambda: refused("lab_transpose", TransposeProblem(), (("WIDTH", 8), ("PAD", 1))),
        "A row of 32 floats and PAD 1 is 132 bytes. An access of 8 bytes must start at a multiple of 8. Choose a "
        "stride and a PAD that are multiples of 2.",
    ),
    (
        lambda: refused("lab_columns", ColumnsProblem(32), (("MATRICES", 4),)),
        "WIDTH is 4, but an ldmatrix reads rows of 16 bytes. Choose WIDTH 16, or MATRICES 0.",
    ),
    (
        lambda: refused("lab_columns", ColumnsProblem(24), (("SWIZZLE", 1),)),
        "A row of 24 floats holds 24 pieces of 4 bytes. The XOR swizzle needs a power of two. Choose another stride",
    ),
    (
        lambda: refused("lab_columns", ColumnsProblem(4096)),
        "needs 524,288 bytes of shared memory per block. .* allows 232,448. Choose a smaller stride",
    ),
    (
        lambda: refused("lab_chase", ChaseProblem("shared", 2**20)),
        "needs 1,048,576 bytes of shared memory .* or a space that is not shared",
    ),
    (
        lambda: refused("lab_transpose", TransposeProblem(32, 30), (("WIDTH", 16),)),
        "columns is 30. Rows read in pieces of 16 bytes need a multiple of 4.",
    ),
]


@pytest.mark.parametrize("make, says", BAD)
def test_bad_input_is_refused_with_the_reason(make, says):
    with pytest.raises(ProblemError, match=says):
        make()


@pytest.mark.parametrize(
    "kernel, problem",
    [
        ("lab_stream", StreamProblem(blocks=2**20, threads=1024, rounds=512)),  # 32 TiB, read once
        ("lab_stream", StreamProblem(blocks=1024, threads=1024, passes=2**16)),  # 128 MiB, read 65,536 times
        ("lab_stream", StreamProblem("copy", blocks=2**14, threads=1024, rounds=16, passes=16)),
        ("lab_fma", FmaProblem(2**16, 2**16)),
    ],
)
def test_what_would_take_a_cpu_minutes_is_refused(kernel, problem):
    with pytest.raises(TooLargeError, match="would take about [0-9,]+ s on the CPU"):
        refused(kernel, problem)


@pytest.mark.parametrize("name", KERNELS)
def test_the_estimate_grows_with_all_that_is_read_and_written(name):
    for case in KERNELS[name].problem_type.check_cases(KERNELS[name]):
        given = sum(
            tensor.size for tensor in case.problem.tensors() if tensor.dtype == "float32" and not tensor.is_written
        )
        assert case.problem.cpu_steps > given
    assert StreamProblem(passes=20).cpu_steps > 10 * StreamProblem().cpu_steps
    assert ColumnsProblem(repeats=20).cpu_steps > 5 * ColumnsProblem().cpu_steps


@pytest.mark.parametrize("name", KERNELS)
def test_every_case_has_a_plan_and_an_answer_of_the_shapes_that_it_declares(name):
    kernel = KERNELS[name]
    cases = list(kernel.problem_type.check_cases(kernel))
    assert len(cases) >= 5
    for case in cases:
        problem, plan = case.problem, kernel.plan(case.problem, case.settings)
        given, truth = problem.inputs(), problem.truth()
        shapes = {tensor.name: tensor.shape for tensor in plan.tensors}
        assert {n: a.shape for n, a in given.items()} == {n: shapes[n] for n in given}
        assert {n: a.shape for n, a in truth.items()} == {t.name: t.shape for t in problem.outputs}
        assert all((a == np.round(a)).all() and np.abs(a).max(initial=0) < 2**24 for a in truth.values())
        assert problem.largest_terms() == {}


def test_recorded_cases_are_traced_whole():
    for kernel in KERNELS.values():
        cases = list(kernel.problem_type.recorded_cases(kernel))
        assert cases and all(case.scope.count == kernel.plan(case.problem, case.settings).items for case in cases)


def test_every_way_to_read_a_tile_is_checked_recorded_and_counted():
    ways = {tuple(tile.items()) for tile in TILES}
    for cases in (ColumnsProblem.check_cases, ColumnsProblem.recorded_cases, ColumnsProblem.counter_cases):
        assert ways <= {case.settings for case in cases(KERNELS["lab_columns"])}
    assert ways <= {case.settings for case in TransposeProblem.check_cases(KERNELS["lab_transpose"])}
    assert len(ways) == 17 and {way[0][1] for way in ways} == {4, 8, 16}


def test_a_kernel_of_the_users_with_fewer_constants_has_the_cases_that_it_can_have():
    bare = replace(KERNELS["lab_columns"], constants=(), conditions=())
    cases = list(ColumnsProblem.check_cases(bare))
    assert cases and all(case.settings == () for case in cases)


@pytest.mark.parametrize(
    "problem, name, choices",
    [(lambda c: AccessProblem(c, 16), "OP", [kind.name for kind in LAB_KINDS]),
     (lambda c: GlobalProblem(c, 16), "LAYOUT", LAYOUTS),
     (ChaseProblem, "SPACE", CHASE_SPACES),
     (StreamProblem, "SPACE", STREAM_SPACES)],
)  # fmt: skip
def test_a_choice_reaches_the_build_by_its_name(problem, name, choices):
    for place, choice in enumerate(choices):
        defines = problem(choice).defines
        assert defines[name] == place == defines[f"{name}_{choice.upper()}"]


def test_every_name_of_a_choice_that_a_kernel_compares_with_is_one():
    """An unknown name would be 0 for the preprocessor, and so the first choice."""
    for kernel in KERNELS.values():
        known = kernel.problem_type().defines
        for name in ("OP", "LAYOUT", "SPACE"):
            compared = {
                word
                for word in kernel.source.replace("(", " ").replace(")", " ").split()
                if word.startswith(f"{name}_")
            }
            assert {word.rstrip(".,:") for word in compared} <= set(known), kernel.name


def test_the_offsets_go_by_value_as_one_struct():
    offsets = tuple(range(0, 256, 8))
    (launch,) = KERNELS["lab_access"].plan(AccessProblem("global_load", 8, offsets=offsets)).launches
    assert launch.args[:3] == ("x", "y", "o")
    assert np.frombuffer(launch.args[3].tobytes(), np.int32).tolist() == list(offsets)


def test_a_ring_of_the_chase_passes_every_node_and_begins_where_the_kernel_is_told():
    problem = ChaseProblem(working_set=128 * 37, seed=3)
    links, at, seen = problem.inputs()["n"], problem.sizes["start"], []
    for _ in range(problem.nodes):
        seen.append(at // 128)
        at = int(links[at // 128, 0])
    assert sorted(seen) == list(range(37)) and at == problem.sizes["start"]
    assert not links[:, 1:].any()


def test_a_ring_of_constants_passes_every_node_at_any_size():
    for size in (64, 128, 1536, 2**16):
        problem = ConstantChaseProblem(size)
        assert sorted(problem.ring()) == list(range(size // 64)) and problem.ring()[0] == 0


def test_a_ring_of_texels_passes_every_node_and_goes_as_a_texture():
    problem = TextureChaseProblem(128 * 37, seed=3)
    texels, at, seen = problem.inputs()["n"].reshape(-1), problem.sizes["start"], []
    for _ in range(problem.nodes):
        seen.append(at // 32)
        at = int(texels[at])
    assert sorted(seen) == list(range(37)) and at == problem.sizes["start"]
    (launch,) = KERNELS["lab_chase_texture"].plan(problem).launches
    assert launch.args[0] == Texture("n") and launch.tensors == ("n", "o", "times")


def test_a_2d_texture_is_an_argument_and_reads_each_lane_s_texel_on_the_cpu():
    problem = ShapesProblem(columns=4, areas=64, reads=40, seed=2)
    kernel = KERNELS["lab_shapes"]
    (launch,) = kernel.plan(problem).launches
    assert launch.args[:2] == (Texture("x", 2), "x") and launch.tensors[0] == "x"
    image = problem.inputs()["x"]
    for memory in (0, 1):
        made = run(Request(kernel, problem, (("SPACE", memory),), Scope.everything(kernel.plan(problem)), "cpu"))
        texels = made.trace.frame("row", "column", "value", "event").query("event == 'texel'")
        assert len(texels) == 32 * problem.reads
        read = next(site for site in made.sites if site.event == "texel").code_line
        assert ("ldg" if memory else "tex2D") in kernel.source.splitlines()[read - 1]
        assert (image[texels.row.astype(int), texels.column.astype(int)] == texels.value).all()


def test_a_wrong_texture_stops_with_its_line(tmp_path):
    moved = KERNELS["lab_shapes"].source.replace("(X_texture, column", "(X_texture + 128, column")
    (tmp_path / "moved.cu").write_text(moved)
    kernel = catalog.load_kernel(tmp_path / "moved.cu")
    with pytest.raises(RunError, match="a tex2D is no tensor of this launch. .*moved.cu:50"):
        run(Request(kernel, ShapesProblem(reads=1)))


def test_what_an_access_leaves_alone_is_not_judged():
    for op, judged in (("global_store", "y"), ("shared_store", "o"), ("global_load", "o")):
        roles = {tensor.name: tensor.role for tensor in AccessProblem(op).tensors()}
        assert roles == {"x": Role.INPUT, "y": Role.SCRATCH, "o": Role.SCRATCH} | {judged: Role.OUTPUT}


def test_a_consumer_sums_its_share_of_every_tile():
    problem = RolesProblem(tiles=3, tile_size=100, consumers=2, seed=1)
    x, sums = problem.inputs()["x"].reshape(3, 100), problem.truth()["o"]
    assert sums.shape == (64,)
    assert sums[32 + 5] == x[:, 37].sum()  # consumer 1, lane 5: of 100 elements only the 37th is its own
    assert sums[5] == x[:, 5].sum() + x[:, 69].sum()


@pytest.mark.parametrize("name", KERNELS)
def test_the_first_case_runs_on_the_cpu_without_an_error(name):
    case = next(iter(KERNELS[name].problem_type.check_cases(KERNELS[name])))
    found = run(Request(KERNELS[name], case.problem, case.settings))
    assert found.max_abs_error == 0 and len(found.trace.table)


def test_the_family_is_whole():
    assert {kernel.problem_type for kernel in KERNELS.values()} == set(lab.PROBLEMS.values())
