"""The bars of a pair: bytes and turns for as much work, and the recorded time."""

from types import SimpleNamespace

from conftest import small_tiles

from explainers.stories.compare import pair_bars
from kernels.core.scope import Scope
from kernels.families.dense.problem import DenseProblem
from kernels.trace.memory import traced

PROBLEM = DenseProblem(seq_len=50, num_heads=1)
ROW = SimpleNamespace(
    median_us=4000.0, median_us_b=1000.0, ratio_low=3.9, ratio_high=4.1, device="a GPU", date="2026-11-20"
)
SIZES = {"seq_len": 4096.0, "batch": 1.0, "num_heads": 8.0, "head_dim": 64.0, "dtype": "float32", "causal": True}
vars(ROW).update(SIZES)


def test_the_bars_are_those_of_the_traces(cpu_run):
    runs = [cpu_run(name, PROBLEM, small_tiles(name), Scope(0)) for name in ("03_flash", "04_warp_rows")]
    bars = {one["id"]: one for one in pair_bars.of(runs, ROW)}
    assert list(bars) == ["bytes", "wavefronts", "time"]
    for n, run in enumerate(runs):
        queries, per = pair_bars.work(run.request)
        table = run.trace.frame("space", "bytes")
        assert per == "query" and bars["bytes"]["values"][n] == table[table.space == "global"].bytes.sum() / queries
        turns = traced.requests(run.trace, space="shared").costs.wavefronts.sum()
        assert bars["wavefronts"]["values"][n] == turns / queries
    assert bars["time"]["said"] == ["4 ms", "1 ms"] and bars["time"]["title"] == (
        "Time at 4,096 tokens, 8 heads of 64, float32, causal, on a GPU, 2026-11-20"
    )


def test_one_view_has_both_sides_and_a_missing_time_is_left_out(cpu_run):
    runs = [cpu_run(name, PROBLEM, small_tiles(name), Scope(0)) for name in ("03_flash", "04_warp_rows")]
    (view,) = pair_bars.views(runs, None)
    panels = [panel for (panel,) in view.meta.lines]
    assert [[bar.name for bar in panel.bars] for panel in panels] == 2 * [["A: 03_flash", "B: 04_warp_rows"]]
    assert [bar.datum for panel in panels for bar in panel.bars] == [
        {"row": row, "side": side} for row in ("bytes", "wavefronts") for side in "AB"
    ]
