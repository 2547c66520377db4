"""The page of a watched call: its fastest rung by recorded times, its bytes, and its share of the roof."""

from explainers.stories.any_kernel import call_tab
from kernels.catalog import current
from kernels.core.request import Request
from kernels.families.tensor_cores.problem import SixteenBitProblem


def call(**fields):
    kernel = current().kernels["06_mma"]
    problem = SixteenBitProblem(**fields)
    return Request(kernel, problem, tuple(kernel.settings_for(problem).items()))


def test_a_large_call_names_its_fastest_rung_with_its_share_of_the_roof_and_a_small_one_has_no_near_time():
    request = call(seq_len=4096, head_dim=128, num_heads=16)
    first, *rest = call_tab.rungs(request)
    assert first.us and all(rung.us is None or rung.us >= first.us for rung in rest)
    said = call_tab.fastest(request)
    assert said.startswith(f"{first.name} is the fastest rung for this call: about ") and " % of the " in said
    shown = call_tab.call_tab(request, None)
    assert said in [block.get("text") for block in shown]
    size = 4 * request.problem.tensors()[0].nbytes + 4 * 16 * 4096
    assert f"{size / 2**20:,.1f} MiB" in call_tab.moved(request)
    request = call(seq_len=20)
    assert call_tab.fastest(request) == "" and all(rung.us is None for rung in call_tab.rungs(request))
    assert call_tab.NO_TIME in [block.get("text") for block in call_tab.call_tab(request, None)]
