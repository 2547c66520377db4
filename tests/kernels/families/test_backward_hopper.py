"""The backward's rungs for Hopper: what ptxas made of them, and equal bits if dQ is added in a fixed order."""

from itertools import product

import pytest

from kernels.build import Mode, build
from kernels.catalog import current
from kernels.core.request import Request
from kernels.core.tolerance import output_errors
from kernels.families.backward.problem import SixteenBitGradientProblem
from kernels.run import execute, races

RUNGS = {name: spec for name, spec in current().of_family("backward").items() if spec.requires == "sm_90a"}
FIXED = {name: spec for name, spec in RUNGS.items() if any(c.name == "DETERMINISTIC" for c in spec.constants)}
SPLIT = {name: spec for name, spec in RUNGS.items() if any(c.name == "QUERY_HEADS" for c in spec.constants)}
OUTPUTS = ("dq", "dk", "dv")
BUILDS = [(name, ()) for name in RUNGS] + [(name, (("QUERY_HEADS", 1),)) for name in SPLIT]
SIZES = [pytest.param(d, c, marks=[] if (d, c) == (128, True) else pytest.mark.slow) for d in (64, 128) for c in (0, 1)]


@pytest.mark.parametrize(("head_dim", "causal"), SIZES)  # the largest takes the most registers
@pytest.mark.parametrize(("name", "chosen"), BUILDS)
def test_no_rung_spills_and_no_product_is_serialised(name, chosen, head_dim, causal):
    problem = SixteenBitGradientProblem(4096, head_dim, causal=bool(causal))
    request = Request(RUNGS[name], problem, tuple(RUNGS[name].settings_for(problem, chosen).items()))
    made = build(RUNGS[name], request.defines, Mode.TIMED, "sm_90a")
    assert not any(fact.spill_bytes for fact in made.facts), made.facts
    assert "C75" not in made.log


def run_in_both_orders(spec, problem, fixed):
    settings = spec.settings_for(problem, (("DETERMINISTIC", fixed),))
    request = Request(spec, problem, tuple(settings.items()), backend="cpu")
    runs = execute.run_timed_build(request), races.late_outputs(request)
    return [{name: arrays[name].tobytes() for name in OUTPUTS} for arrays in runs]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", FIXED)
def test_a_fixed_order_gives_equal_bits_when_the_blocks_run_the_other_way(name, causal):
    """The blocks take their numbers from a counter, so the order of adds is that of the numbers."""
    problem = SixteenBitGradientProblem(300, 64, num_heads=2, num_kv_heads=1, causal=causal)
    one, other = run_in_both_orders(FIXED[name], problem, 1)
    assert one == other
    one, other = run_in_both_orders(FIXED[name], problem, 0)
    assert one["dk"] == other["dk"] and one["dv"] == other["dv"]
    assert causal or one["dq"] != other["dq"]  # few causal rows have three key tiles, and rounding hides the rest


@pytest.mark.parametrize("fixed", [0, 1])
@pytest.mark.parametrize(("heads", "kv_heads", "most", "causal"), [(3, 1, 2, True), (4, 2, 1, False), (2, 1, 4, True)])
@pytest.mark.parametrize("name", SPLIT)
def test_parts_of_the_query_heads_add_up_to_equal_bits_of_dk_and_dv(name, heads, kv_heads, most, causal, fixed):
    """The last part may have fewer heads, and one part may have all. The counters of turns are 0 again."""
    problem = SixteenBitGradientProblem(130, 64, num_heads=heads, num_kv_heads=kv_heads, causal=causal)
    settings = SPLIT[name].settings_for(problem, (("QUERY_HEADS", most), ("DETERMINISTIC", fixed)))
    request = Request(SPLIT[name], problem, tuple(settings.items()), backend="cpu")
    one, other = execute.run_timed_build(request), races.late_outputs(request)
    assert all(one[name].tobytes() == other[name].tobytes() for name in OUTPUTS[1 - fixed :])
    for arrays in (one, other):
        errors = execute.largest_errors(problem, arrays)
        assert all(e.ok for e in output_errors(errors, execute.yardstick(request), problem.largest_terms()))
        assert not arrays["turns"].any()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kv_heads", [32, 16, 8, 4, 2, 1])
@pytest.mark.parametrize("name", SPLIT)
def test_blocks_share_query_heads_only_while_they_are_few_or_long(name, kv_heads, causal):
    """An H200 has 132 multiprocessors. Blocks of a causal mask have different lengths, so it takes more of them. Long
    blocks find their query tiles in the L2 cache if they have at most 4 heads."""
    for length in (512, 1024, 2048, 4096, 8192, 16384):
        problem = SixteenBitGradientProblem(length, 128, 1, 32, causal, num_kv_heads=kv_heads)
        settings = SPLIT[name].settings_for(problem)
        launch = next(one for one in SPLIT[name].plan(problem, settings).launches if one.heads)
        whole, blocks, most = kv_heads * length // 128, launch.heads * launch.grid[1], 32 * length // 128
        assert (settings["QUERY_HEADS"] > 0) == (blocks > whole)
        enough = 256 if causal else 128
        due = whole if whole >= enough else min(most, enough)
        if causal and (whole < enough or length > 8192):
            due = max(due, most // 4)  # at most 4 heads
        assert blocks == max(due, whole)


@pytest.mark.parametrize("name", SPLIT)
def test_a_section_has_at_most_256_blocks_of_whole_heads(name):
    for length, kv_heads, causal in product((300, 4096, 12000, 16384, 65536), (32, 4, 1), (False, True)):
        problem = SixteenBitGradientProblem(length, 128, 1, 32, causal, num_kv_heads=kv_heads)
        launch = next(one for one in SPLIT[name].plan(problem, SPLIT[name].settings_for(problem)).launches if one.heads)
        near, tiles, sections = launch.grid
        assert near == launch.heads or near * tiles <= 256 < (near + 1) * tiles or near == 1
        assert (sections - 1) * near < launch.heads <= sections * near
