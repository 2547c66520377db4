"""The backward's rungs for Hopper: what ptxas made of them, and equal bits if dQ is added in a fixed order."""

import pytest

from kernels.build import Mode, build
from kernels.catalog import current
from kernels.core.request import Request
from kernels.families.backward.problem import SixteenBitGradientProblem
from kernels.run import execute, races

RUNGS = {name: spec for name, spec in current().of_family("backward").items() if spec.requires == "sm_90a"}
FIXED = {name: spec for name, spec in RUNGS.items() if any(c.name == "DETERMINISTIC" for c in spec.constants)}
OUTPUTS = ("dq", "dk", "dv")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("name", RUNGS)
def test_no_rung_spills_and_no_product_is_serialised(name, head_dim, causal):
    problem = SixteenBitGradientProblem(4096, head_dim, causal=causal)
    request = Request(RUNGS[name], problem, tuple(RUNGS[name].settings_for(problem).items()))
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
