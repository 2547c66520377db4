"""The bars of a pair: bytes and turns for as much work, and the recorded time."""

from types import SimpleNamespace

from conftest import small_tiles

from explainers.stories.compare import pair_bars
from kernels.core.scope import Scope
from kernels.families.dense.problem import DenseProblem
from kernels.trace.memory import traced

PROBLEM = DenseProblem(seq_len=50, num_heads=1)
ROW = SimpleNamespace(median_us=4000.0, median_us_b=1000.0, seq_len=4096.0, device="a GPU", title="")


def test_the_bars_are_those_of_the_traces(cpu_run):
    runs = [cpu_run(name, PROBLEM, small_tiles(name), Scope(0)) for name in ("03_flash", "04_warp_rows")]
    bars = {one.id: one for one in pair_bars.of(runs, ROW)}
    assert list(bars) == ["bytes", "wavefronts", "time"]
    for n, run in enumerate(runs):
        queries, per = pair_bars.work(run.request)
        table = run.trace.frame("space", "bytes")
        assert per == "query" and bars["bytes"].values[n] == table[table.space == "global"].bytes.sum() / queries
        turns = traced.requests(run.trace, space="shared").costs.wavefronts.sum()
        assert bars["wavefronts"].values[n] == turns / queries
    assert bars["time"].said == ("4 ms", "1 ms") and bars["time"].title == "Time at 4,096 tokens, on a GPU"


def test_one_view_has_both_sides_and_a_missing_time_is_left_out(cpu_run):
    runs = [cpu_run(name, PROBLEM, small_tiles(name), Scope(0)) for name in ("03_flash", "04_warp_rows")]
    (view,) = pair_bars.views(runs, None)
    assert view.meta["names"] == ["03_flash", "04_warp_rows"]
    assert [row["id"] for row in view.meta["rows"]] == ["bytes", "wavefronts"]
