"""Runs on the CPU shim: values against float64, limits, estimates, truncation."""

import numpy as np
import pytest

from kernels import execute, reference
from kernels.backends import Device
from kernels.catalog import ATTENTION, KERNELS
from kernels.errors import ProblemError, TooLargeError
from kernels.execute import Request, Scope
from kernels.problem import AttentionProblem

FLASH = KERNELS["03_flash"]


def prefix_errors(run):
    """The largest relative differences of the logged m and l from float64, over every row and tile of the trace."""
    assert run.trace.lost == 0
    problem, settings = run.request.problem, run.request.kernel.settings(run.request.settings)
    frame = run.trace.frame("block", "event", "row", "tile", "value")
    tiles_per_head = -(-problem.seq_len // settings["BLOCK_Q"])
    worst, seen = 0.0, 0
    for (block, row), part in frame[frame.event.isin(["m", "l"])].groupby(["block", "row"], observed=True):
        head = int(block) // tiles_per_head
        b, h = divmod(head, problem.heads)
        keys = int(row) + 1 if problem.causal else problem.seq_len
        s = reference.scores(run.arrays["q"][b, h, int(row)][None], run.arrays["k"][b, h], problem.scale, False)[0][:keys]
        m, l = (part[part.event == name].sort_values("tile") for name in ("m", "l"))
        assert m.tile.tolist() == l.tile.tolist() == list(range(len(m)))
        ends = np.minimum((m.tile.to_numpy().astype(int) + 1) * settings["BLOCK_KV"], keys)
        assert ends[-1] == keys
        true_m, true_l = reference.prefix_max_and_sum(s, ends)
        # m may lie near zero, where only the scores' own size says what is close
        worst = max(worst, *np.abs(m.value - true_m) / np.maximum(np.abs(true_m), problem.score_scale), *np.abs(l.value / true_l - 1))
        seen += 1
    return worst, seen


@pytest.mark.parametrize("problem", [
    AttentionProblem(), AttentionProblem(causal=True), AttentionProblem(seq_len=1), AttentionProblem(seq_len=100, head_dim=128, batch=2, heads=1, causal=True),
    AttentionProblem(seq_len=65, head_dim=64, score_scale=10.0, seed=3),
], ids=lambda p: f"{p.seq_len}x{p.head_dim}{'c' if p.causal else ''}")
@pytest.mark.parametrize("settings", [(), (("BLOCK_Q", 8), ("BLOCK_KV", 32))], ids=["16x16", "8x32"])
def test_m_and_l_of_every_row_and_tile_are_those_of_the_prefix_in_float64(problem, settings):
    request = Request(FLASH, problem, settings)
    everything = Scope(0, FLASH.plan(problem, FLASH.settings(settings)).items)
    worst, rows = prefix_errors(execute.run(Request(FLASH, problem, settings, everything)))
    assert rows == problem.batch * problem.heads * problem.seq_len
    assert worst < 1e-5, request


def test_logged_scores_and_outputs_are_the_arrays(cpu_run):
    run = cpu_run("01_naive")
    frame = run.trace.frame("event", "row", "col", "dim", "value")
    s = reference.scores(run.arrays["q"], run.arrays["k"], run.request.problem.scale, False)[0, 0]
    score = frame[frame.event == "score"]
    assert len(score) == 16 * 64
    assert np.allclose(score.value, s[score.row.astype(int), score.col.astype(int)], rtol=1e-5, atol=1e-5)
    o = frame[frame.event == "o"]
    assert np.array_equal(o.value, run.arrays["o"][0, 0][o.row.astype(int), o.dim.astype(int)])


def test_naive_reads_k_once_per_query_row_and_the_others_once_per_query_tile():
    problem = AttentionProblem()
    size = problem.batch * problem.heads * problem.seq_len * problem.head_dim * 4
    for name, times in (("01_naive", 64), ("02_tiled", 4), ("03_flash", 4)):
        table = execute.traffic(Request(KERNELS[name], problem)).table
        k = table[(table.tensor == "K") & (table.space == "global") & (table.kind == "load")]
        assert k.bytes.item() == times * size
        assert (table[(table.space == "global")].tensor.isin(["S", "P"]).any()) == (name != "03_flash")


def test_the_whatif_builds_break_as_they_say():
    assert execute.run(Request(FLASH, AttentionProblem(), (("RESCALE", 0),))).max_abs_error > 0.1
    for name in ATTENTION:
        plain = execute.run(Request(KERNELS[name], AttentionProblem(score_scale=30.0), (("SUBTRACT_MAX", 0),)))
        assert np.isnan(plain.arrays["o"]).any() and plain.max_abs_error == float("inf")
        assert execute.run(Request(KERNELS[name], AttentionProblem(), (("SUBTRACT_MAX", 0),))).max_abs_error < 1e-6  # small scores do not overflow


def test_a_trace_that_does_not_fit_says_how_much_is_missing(monkeypatch, cpu_run):
    whole = cpu_run().trace.table.num_rows
    monkeypatch.setattr(execute, "TRACE_BYTES", 256 * 16 * 100)  # 100 records for each of 256 threads
    run = execute.run(Request(FLASH, AttentionProblem()))
    assert run.trace.lost > 0
    assert run.trace.table.num_rows + run.trace.lost == whole
    assert run.max_abs_error < 1e-6  # the output is whole, only the trace is cut


def test_a_longer_trace_than_the_first_guess_is_kept_whole(monkeypatch, cpu_run):
    whole = cpu_run().trace.table
    monkeypatch.setattr(execute, "FIRST_CAPACITY", 10)
    assert execute.run(Request(FLASH, AttentionProblem())).trace.table.equals(whole)


def device(**changes):
    return Device(**{"backend": "gpu", "name": "A small GPU", "target": "sm_75", "shared_bytes_per_block": 65536, "memory_bytes": 2**34, **changes})


def test_too_much_shared_memory_is_refused_before_launch():
    request = Request(FLASH, AttentionProblem(head_dim=128), (("BLOCK_Q", 32), ("BLOCK_KV", 32)))
    execute.check_possible(request, device())
    with pytest.raises(ProblemError, match=r"03_flash needs 53,248 bytes of shared memory per block; A small GPU allows 49,152.*head_dim \(now 128\)"):
        execute.check_possible(request, device(shared_bytes_per_block=49152))


def test_what_would_not_fit_or_take_too_long_is_refused_with_the_figures():
    with pytest.raises(TooLargeError, match=r"01_naive at seq_len 16384, batch 8, heads 16 needs .* GiB"):
        execute.check_possible(Request(KERNELS["01_naive"], AttentionProblem(seq_len=16384, batch=8, heads=16)), device())
    with pytest.raises(TooLargeError, match="would take about .* s on the CPU"):
        execute.check_possible(Request(FLASH, AttentionProblem(seq_len=16384)), device(backend="cpu"))


def test_a_scope_outside_the_run_is_refused():
    with pytest.raises(ProblemError, match="query tiles 8 to 8; this run has query tiles 0 to 7"):
        execute.check_possible(Request(FLASH, AttentionProblem(), scope=Scope(8)), device())


def test_a_constant_that_the_kernel_has_not_is_refused():
    with pytest.raises(ProblemError, match="01_naive has no RESCALE"):
        execute.run(Request(KERNELS["01_naive"], AttentionProblem(), (("RESCALE", 0),)))
    with pytest.raises(ProblemError, match="BLOCK_Q is 5; it must be one of 8, 16, 32"):
        execute.run(Request(FLASH, AttentionProblem(), (("BLOCK_Q", 5),)))
