"""Runs on the CPU shim: values against float64, limits, estimates, truncation."""

from collections import OrderedDict

import numpy as np
import pytest
from dropped import odd_kernel

from kernels.catalog import KERNELS, current
from kernels.core import reference
from kernels.core.cases import sample
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import ProblemError, RunError, TooLargeError
from kernels.families.dense import DenseProblem
from kernels.families.lab.hierarchy import StreamProblem
from kernels.run import execute
from kernels.run.backends import Device, cpu, gpu

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
        b, h = divmod(head, problem.num_heads)
        keys = int(row) + 1 if problem.causal else problem.seq_len
        s = reference.scores(run.arrays["q"][b, h, int(row)][None], run.arrays["k"][b, h], problem.scale, False)[0][
            :keys
        ]
        m, l = (part[part.event == name].sort_values("tile") for name in ("m", "l"))
        assert m.tile.tolist() == l.tile.tolist() == list(range(len(m)))
        ends = np.minimum((m.tile.to_numpy().astype(int) + 1) * settings["BLOCK_KV"], keys)
        assert ends[-1] == keys
        true_m, true_l = reference.prefix_max_and_sum(s, ends)
        # m may lie near zero, where only the scores' own size says what is close
        worst = max(
            worst,
            *np.abs(m.value - true_m) / np.maximum(np.abs(true_m), problem.score_scale),
            *np.abs(l.value / true_l - 1),
        )
        seen += 1
    return worst, seen


@pytest.mark.parametrize(
    "problem",
    [
        DenseProblem(),
        DenseProblem(causal=True),
        DenseProblem(seq_len=1),
        DenseProblem(seq_len=100, head_dim=128, batch=2, num_heads=1, causal=True),
        DenseProblem(seq_len=65, head_dim=64, score_scale=10.0, seed=3),
    ],
    ids=lambda p: f"{p.seq_len}x{p.head_dim}{'c' if p.causal else ''}",
)
@pytest.mark.parametrize("settings", [(), (("BLOCK_Q", 8), ("BLOCK_KV", 32))], ids=["16x16", "8x32"])
def test_m_and_l_of_every_row_and_tile_are_those_of_the_prefix_in_float64(problem, settings):
    request = Request(FLASH, problem, settings)
    everything = Scope(0, FLASH.plan(problem, FLASH.settings(settings)).items)
    worst, rows = prefix_errors(execute.run(Request(FLASH, problem, settings, everything)))
    assert rows == problem.batch * problem.num_heads * problem.seq_len
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


def test_naive_reads_k_once_per_query_row_and_whatif_builds_break_as_they_say():
    problem = DenseProblem()
    size = problem.batch * problem.num_heads * problem.seq_len * problem.head_dim * 4
    for name, times in (("01_naive", 64), ("02_tiled", 4), ("03_flash", 4)):
        table = execute.traffic(Request(KERNELS[name], problem)).table
        k = table[(table.tensor == "K") & (table.space == "global") & (table.kind == "load")]
        assert k.bytes.item() == times * size
        assert (table[(table.space == "global")].tensor.isin(["S", "P"]).any()) == (name != "03_flash")
    assert execute.run(Request(FLASH, DenseProblem(), (("RESCALE", 0),))).max_abs_error > 0.1
    for name in current().of_problem(DenseProblem):
        plain = execute.run(Request(KERNELS[name], DenseProblem(score_scale=30.0), (("SUBTRACT_MAX", 0),)))
        assert np.isnan(plain.arrays["o"]).any() and np.isnan(plain.max_abs_error)
        assert (
            execute.run(Request(KERNELS[name], DenseProblem(), (("SUBTRACT_MAX", 0),))).max_abs_error < 1e-6
        )  # small scores do not overflow


def test_a_trace_that_does_not_fit_says_how_much_is_missing(monkeypatch, cpu_run):
    whole = cpu_run().trace.table.num_rows
    monkeypatch.setattr(execute, "TRACE_BYTES", 256 * 16 * 100)  # 100 records for each of 256 threads
    run = execute.run(Request(FLASH, DenseProblem()))
    assert run.trace.lost > 0
    assert run.trace.table.num_rows + run.trace.lost == whole
    assert run.max_abs_error < 1e-6  # the output is whole, only the trace is cut


def test_a_longer_trace_than_the_first_guess_is_kept_whole(monkeypatch, cpu_run):
    whole = cpu_run().trace.table
    monkeypatch.setattr(execute, "FIRST_CAPACITY", 10)
    assert execute.run(Request(FLASH, DenseProblem())).trace.table.equals(whole)


def test_what_is_known_of_builds_and_their_libraries_is_bounded(monkeypatch):
    monkeypatch.setattr(execute, "FIRST_CAPACITY", 10)
    monkeypatch.setattr(execute, "MOST_NEEDED", 2)
    monkeypatch.setattr(cpu, "LIBRARIES", 2)
    monkeypatch.setattr(cpu, "_loaded", OrderedDict())
    names = ("01_naive", "02_tiled", "03_flash")
    requests = [Request(KERNELS[name], DenseProblem(seq_len=16, head_dim=32)) for name in names]
    first = [execute.run(request) for request in requests]
    assert len(execute._needed) == 2 and len(cpu._loaded) == 2
    for request, before in zip(requests, first):  # one that was unloaded is loaded again
        assert execute.run(request).trace.table.equals(before.trace.table)


def device(**changes):
    return Device(
        **{"backend": "gpu", "name": "A small GPU", "target": "sm_75", "shared_bytes_per_block": 65536, **changes}
    )


def test_too_much_shared_memory_a_scope_outside_and_an_unknown_constant_are_refused():
    request = Request(FLASH, DenseProblem(head_dim=128), (("BLOCK_Q", 32), ("BLOCK_KV", 32)))
    execute.check_possible(request, device())
    with pytest.raises(
        ProblemError,
        match=r"03_flash needs 53,248 bytes of shared memory per block. A small GPU allows 49,152.*\(now 128\)",
    ):
        execute.check_possible(request, device(shared_bytes_per_block=49152))
    with pytest.raises(ProblemError, match="query tiles 8 to 8. This run has query tiles 0 to 7"):
        execute.check_possible(Request(FLASH, DenseProblem(), scope=Scope(8)), device())
    with pytest.raises(ProblemError, match="01_naive has no constant RESCALE"):
        execute.run(Request(KERNELS["01_naive"], DenseProblem(), (("RESCALE", 0),)))
    with pytest.raises(ProblemError, match="BLOCK_Q is 5. It must be one of 8, 16, 32"):
        execute.run(Request(FLASH, DenseProblem(), (("BLOCK_Q", 5),)))


def test_what_would_not_fit_or_take_too_long_now_is_refused_with_the_figures(monkeypatch):
    monkeypatch.setattr(gpu, "free_bytes", lambda: 2**34)
    large = DenseProblem(seq_len=16384, batch=8, num_heads=16)
    with pytest.raises(
        TooLargeError, match=r"01_naive at seq_len 16384, batch 8, num_heads 16 needs .* GiB .* has 16.0 free"
    ):
        execute.check_fits(Request(KERNELS["01_naive"], large), device())
    with pytest.raises(TooLargeError, match="would take about .* s on the CPU"):
        execute.check_possible(Request(FLASH, DenseProblem(seq_len=16384)), device(backend="cpu"))
    request = Request(FLASH, DenseProblem())
    for free, fits in ((2**30, True), (2**20, False), (2**30, True)):
        monkeypatch.setattr(cpu, "free_bytes", lambda free=free: free)
        if fits:
            execute.check_possible(request, cpu.device())
        else:
            with pytest.raises(TooLargeError, match="has 0.0 free"):
                execute.check_possible(request, cpu.device())


@pytest.mark.parametrize(
    "sizes",
    [{"blocks": 2**20, "rounds": 2**9}, {"blocks": 2**10, "rounds": 2**3, "passes": 2**16}],
    ids=["32 TiB", "32 TiB of passes"],
)
def test_a_stream_of_32_tib_is_refused_before_anything_is_allocated(monkeypatch, sizes):
    def allocate(*_):
        raise AssertionError("it was allocated")

    monkeypatch.setattr(StreamProblem, "inputs", allocate)
    problem = StreamProblem(threads=1024, **sizes)
    assert problem.working_set * problem.passes >= 2**42
    with pytest.raises(TooLargeError, match="would take about .* s on the CPU"):
        execute.run(Request(KERNELS["lab_stream"], problem))


def test_what_a_kernel_adds_to_begins_at_zero_also_when_it_is_launched_again(monkeypatch):
    spec = odd_kernel(monkeypatch)
    request = Request(spec, spec.problem_type())
    once = execute.run(request)
    monkeypatch.setattr(execute, "FIRST_CAPACITY", 1)
    twice = execute.run(request)
    assert twice.trace.lost == 0 and twice.trace.table.equals(once.trace.table)
    for run in (once, twice):
        assert all(e.ok for e in execute.judge(run.max_abs_errors, execute.yardstick(request), request.problem))
        assert run.arrays["glow"].dtype.name == "bfloat16"


def test_outputs_that_are_given_are_as_given_when_the_kernel_is_launched_again(monkeypatch):
    spec, launches = KERNELS["reshape_and_cache"], []
    request = Request(spec, spec.problem_type())

    def launch(build, plan, arrays, *more):
        launches.append({name: array.copy() for name, array in arrays.items()})
        return real(build, plan, arrays, *more)

    real = cpu.launch
    monkeypatch.setattr(cpu, "launch", launch)
    monkeypatch.setattr(execute, "FIRST_CAPACITY", 1)
    execute.run(request)
    first, second = launches
    assert all(np.array_equal(first[name], second[name]) for name in ("k_cache", "v_cache"))


def test_each_output_has_a_yardstick_of_its_own_and_arrays_that_no_tensor_describes_are_told(monkeypatch):
    spec = odd_kernel(monkeypatch)
    request = Request(spec, spec.problem_type(samples=1000))
    errors = {
        e.output: e
        for e in execute.judge(execute.run(request).max_abs_errors, execute.yardstick(request), request.problem)
    }
    assert set(errors) == {"glow", "light"}
    assert errors["glow"].yardstick > 100 * errors["light"].yardstick  # bfloat16 beside float32
    assert errors["light"].allowed < errors["glow"].largest  # which one number for both would have let pass
    monkeypatch.setattr(spec.problem_type, "inputs", lambda self: {"sun": np.zeros((3, 40), np.float32)})
    with pytest.raises(
        ProblemError,
        match=r"OddProblem.inputs\(\) gives float32 \(3, 40\) for the tensor sun. Its tensors\(\) say bfloat16",
    ):
        execute.run(Request(spec, spec.problem_type()))


def test_no_run_shares_an_array_with_its_problem_and_a_changed_input_is_named(small_kernel):
    kinds = {kernel.problem_type: kernel for kernel in current().kernels.values()}
    assert len(kinds) > 20
    for kernel in kinds.values():
        shown = sample(kernel)
        given = shown.problem.inputs()
        started = execute.start_arrays(Request(kernel, shown.problem, shown.settings))
        shared = [name for name in given.keys() & started.keys() if np.shares_memory(given[name], started[name])]
        assert not shared, kernel.problem_type
    kernel = small_kernel("  const_cast<float*>(X_gmem)[0] += 1;")
    shown = sample(kernel)
    with pytest.raises(RunError, match=r"changed its input x\. It may write only outputs"):
        execute.run(Request(kernel, shown.problem, shown.settings))
