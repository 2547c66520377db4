"""The promise: every kernel, both builds, over its problem's cases, as near to float64 as core/tolerance.py asks."""

from itertools import product

import numpy as np
import pytest
from conftest import last_of_each_kind
from dropped import odd_kernel
from sampled import MOST_STEPS, sampled

from kernels.catalog import KERNELS, current
from kernels.core.problem import Case
from kernels.core.request import Request
from kernels.core.tolerance import OutputError
from kernels.families.dense import DenseProblem
from kernels.families.lab.patterns import RolesProblem
from kernels.families.paged import CacheCopyProblem, CacheWriteProblem, PagedProblem
from kernels.families.paged.fields import BLOCK_SIZES, DTYPES, HEAD_DIMS
from kernels.run import check, check_report, execute, races
from kernels.run.backends import cpu
from kernels.run.wrong.found import First, Reason

DENSE, PAGED = current().of_problem(DenseProblem), current().of_problem(PagedProblem)
FAMILIES = {kernel.family for kernel in KERNELS.values()}
NUMBERS = {name: n for family in FAMILIES for n, name in enumerate(current().of_family(family))}  # within its family
WRITERS = {**current().of_problem(CacheWriteProblem), **current().of_problem(CacheCopyProblem)}
LONG = 7_000_000  # steps of a dense case


def cases(kernel):
    return list(kernel.problem_type.check_cases(kernel))


def few_of(kernel, cases):
    """Some of a kernel's cases: of a dense kernel, those of all short lengths."""
    return sampled(kernel, cases, NUMBERS[kernel.name], LONG if kernel.name in DENSE else MOST_STEPS)


@pytest.mark.parametrize("kernel", DENSE.values(), ids=DENSE)
def test_the_cases_of_dense_attention_cover_what_was_promised(kernel):
    problems = [case.problem for case in cases(kernel)]
    assert len(problems) >= 40
    assert {p.seq_len for p in problems} >= {1, 17, 31, 33, 63, 65, 100, 129, 257}
    assert {(p.head_dim, p.causal) for p in problems} == {(d, c) for d in (32, 64, 128) for c in (False, True)}
    assert {p.batch for p in problems} >= {1, 2, 3} and {p.num_heads for p in problems} >= {1, 2, 3, 4}
    assert {30.0, 2e5} <= {p.score_scale for p in problems}  # the second: scores far below -10,000


@pytest.mark.parametrize("kernel", PAGED.values(), ids=PAGED)
def test_the_cases_of_paged_attention_cover_what_was_promised(kernel):
    problems = [case.problem for case in cases(kernel)]
    assert len(problems) >= 60
    assert {(length - p.block_size) for p in problems for length in p.context_lens} >= {-1, 0, 1}
    assert {length for p in problems for length in p.context_lens} >= {1, 511, 512, 513, 2049}
    assert {(p.head_dim, p.block_size, p.dtype) for p in problems} == set(product(HEAD_DIMS, BLOCK_SIZES, DTYPES))
    assert {(p.num_heads, p.num_kv_heads) for p in problems} >= {(8, 2), (32, 8), (4, 4), (4, 1)}
    assert {p.alibi for p in problems} == {False, True} and any(len(set(p.context_lens)) > 2 for p in problems)
    chosen = {value for case in cases(kernel) for _, value in case.settings}
    assert {value for constant in kernel.constants for value in constant.values} == chosen
    assert any(len(set(p.families)) < p.num_seqs for p in problems if p.families)


@pytest.mark.parametrize("kernel", WRITERS.values(), ids=WRITERS)
def test_the_cases_of_the_cache_writers_cover_every_layout(kernel):
    layouts = {(case.problem.head_dim, case.problem.block_size, case.problem.dtype) for case in cases(kernel)}
    assert layouts == set(product(HEAD_DIMS, BLOCK_SIZES, DTYPES))


CHECKED = {  # kernels of the lab, the launches and the ring differ little. test_lab runs a case of each of the lab
    *last_of_each_kind(KERNELS),
    *(name for name, kernel in KERNELS.items() if kernel.family not in ("lab", "launches", "ring")),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in CHECKED else pytest.mark.slow) for n in KERNELS])
def test_both_builds_agree_with_float64_on_the_cpu(name):
    """The cases of one build, another one for each neighbour (`sampled`). The slow test below and a GPU (test_gpu) run
    them all."""
    kernel = KERNELS[name]
    possible, reasons = check.cases(kernel, cpu.device())
    assert not reasons or not possible  # the CPU runs all cases of a kernel, or none
    chosen = few_of(kernel, possible)
    assert chosen or not possible
    for case in chosen:
        for verdict in check.check_case(kernel, case, "cpu"):
            assert verdict.ok, verdict


@pytest.mark.xfail(strict=True, reason="1.23 times the limit: two tokens near a tie, and one chain of 64 terms a score")
def test_lists_of_keys_keep_the_rule_for_two_tokens_near_a_tie():
    kernel = KERNELS["csr_attention"]
    case = next(case for case in cases(kernel) if (case.problem.seq_len, case.problem.seed) == (2, 19))
    assert all(verdict.ok for verdict in check.check_case(kernel, case, "cpu"))


MISSES = {"csr_attention": {19}, "add_layer_norm": {17}, "add_layer_norm_separate": {17}}
"""Kernel -> the seeds of its known misses: 1.23 times the limit for two tokens near a tie, and 1.06 times for a row of
5,120 numbers of mean -50 and spread 0.01."""


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_both_builds_agree_with_float64_on_the_cpu_in_every_case(kernel):
    found = [(case, check.check_case(kernel, case, "cpu")) for case in check.cases(kernel, cpu.device())[0]]
    missed = {case.problem.seed: verdicts for case, verdicts in found if not all(verdict.ok for verdict in verdicts)}
    assert missed.keys() == MISSES.get(kernel.name, set()), missed


def test_the_cases_that_the_cpu_runs_leave_out_no_length_and_no_value_of_any_field():
    """A dense kernel has the short lengths, with and without a mask. Between them, the kernels have the common lengths,
    every length of a short case and all other values."""
    some = {name: few_of(kernel, cases(kernel)) for name, kernel in DENSE.items()}
    for name, kernel in DENSE.items():
        assert values(some[name], "causal") == {False, True} and len(some[name]) < len(cases(kernel))
        assert values(some[name], "seq_len") >= {1, 17, 65}, name
    together, whole = sum(some.values(), []), [case for kernel in DENSE.values() for case in cases(kernel)]
    short = [case for case in whole if case.problem.cpu_steps <= LONG]
    assert values(together, "seq_len") == values(short, "seq_len") >= {1, 17, 31, 33, 63, 65, 100, 129, 257}
    for field in ("head_dim", "batch", "num_heads", "score_scale"):
        assert values(together, field) == values(whole, field)


def values(cases, field):
    return {getattr(case.problem, field) for case in cases}


def test_a_wrong_kernel_is_missed_and_a_case_that_cannot_run_here_is_told():
    verdicts = check.check_case(KERNELS["03_flash"], Case(DenseProblem(), (("RESCALE", 0),)), "cpu")
    assert [v.ok for v in verdicts] == [False, False]
    spec = KERNELS["03_flash"]
    device = cpu.device()
    small = type(device)(device.backend, "A small processor", device.target, 20000)
    possible, reasons = check.cases(spec, small)
    assert possible and all("A small processor allows 20,000" in reason for reason in reasons) and reasons
    row = check.summary(spec, check.choose(spec, small), [])
    assert (row["missed"], row["cannot_run"]) == (0, reasons)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("paged_v1", "scale * dot", "scale * dot * 1.001f"),
        ("paged_v2", "fmaf(o_part, lds<float>(&W_smem[i]), o)", "o + o_part"),
        ("reshape_and_cache", "slot % BLOCK_SIZE", "(slot + 1) % BLOCK_SIZE"),
        ("copy_blocks", "i < page", "i < page - X"),
    ],
)
def test_a_slightly_wrong_paged_kernel_is_missed(variant, name, right, wrong):
    spec = variant(name, right, wrong)
    settings = (("PARTITION", 32),) if name == "paged_v2" else ()
    verdicts = check.check_case(spec, Case(spec.problem_type(), settings), "cpu")
    assert [v.ok for v in verdicts] == [False, False]


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("08_pipeline", "if (WAIT) cp_async_wait_group<AHEAD ? STAGES - 2 : 0>();", ""),
        ("10_warp_roles", "barrier_wait(&rings.V_full[stage], parity);", ""),
        ("11_overlap", "barrier_wait(&rings.K_full[K_turn.stage], K_turn.parity);\n      ping", "ping"),
    ],
)
def test_a_missing_wait_is_reported_as_a_race(variant, name, right, wrong):
    spec = variant(name, right, wrong)
    _, timed = check.check_case(spec, Case(spec.problem_type()), "cpu")
    assert not timed.ok
    if name == "08_pipeline":
        assert "o differs between thread orders / late copies" in timed.message
        assert "first at o[0, 0" in timed.message and "race" in timed.message
    else:
        assert "late copies" in timed.message


HIDDEN = """  const int i = threadIdx.x;
  S_smem[i] = X_gmem[i];
  O_gmem[i] = S_smem[max(i - 1, 0)];
"""


def test_a_race_that_the_threads_order_hides_and_a_sum_that_begins_unset_are_found(small_kernel):
    spec = small_kernel(HIDDEN, threads=64)
    said = races.look_for_race(Request(spec, RolesProblem(), backend="cpu"))
    assert said.startswith("o differs between thread orders / late copies in 63 of 64 elements, first at o[1] (")
    mended = small_kernel(HIDDEN.replace("  O_gmem", "  __syncthreads();\n  O_gmem"), threads=64)
    assert races.look_for_race(Request(mended, RolesProblem(), backend="cpu")) == ""
    # g++ fills with 0xfe, a float of -1.7e38, and clang floats with NaN.
    found = execute.run_timed_build(Request(small_kernel(UNSET), RolesProblem(), backend="cpu"))["o"][0]
    assert not abs(found) < 1e30


UNSET = """  float l;
  for (int i = 0; i < tiles; ++i) l += X_gmem[i];
  O_gmem[0] = l;
"""


def test_check_reports_each_kernel_as_it_ends_and_what_fails_is_not_blamed_for_its_probes(small_kernel):
    spec = small_kernel("  if (threadIdx.x == 0) O_gmem[0] = X_gmem[0];\n")
    probed, timed = check.check_case(spec, Case(RolesProblem()), "cpu")
    assert probed.records == 0
    assert not probed.ok and "includes common.cuh, and no probe logged a record" in probed.message
    row = check.summary(spec, chosen_of(1), [probed, timed])
    assert any("no probe logged anything" in line for line in check_report.lines(row, [], "here"))
    right = check.check_case(KERNELS["lab_roles"], Case(RolesProblem()), "cpu")
    assert right[0].records > 0
    spec = small_kernel("  O_gmem[0] = X_gmem[0];\n")
    failed = check.Verdict(spec.name, "probed", RolesProblem(), (), (), False, "It did not compile.")
    row = check.summary(spec, chosen_of(1), [failed])
    lines = check_report.lines(row, [failed], "here")
    assert not any("no probe logged anything" in line for line in lines) and "did not compile" in lines[-1]
    spec, told = small_kernel("  if (threadIdx.x == 0) O_gmem[0] = X_gmem[0];\n"), []
    verdicts, rows = check.check(
        [spec], cpu.device(), 1000, 60.0, finished=lambda row, own: told.append((row["kernel"], len(own)))
    )
    assert told == [(spec.name, len(verdicts))] and rows[0]["problems"] == 1


def chosen_of(count, named=None):
    """The choice of a check with so many problems."""
    return check.Chosen([Case(RolesProblem(seed=seed)) for seed in range(count)], [], count, named or count, {})


def test_one_wrong_output_of_several_is_missed_and_named(monkeypatch):
    spec = odd_kernel(monkeypatch)
    request_of, wrong = execute.start_arrays, {}

    def start(request):
        arrays = request_of(request)
        arrays["light"] += wrong.get("light", 0)
        return arrays

    monkeypatch.setattr(execute, "start_arrays", start)
    for added, ok in ((0, True), (1e-3, False)):  # far less than glow, in bfloat16, may be off
        wrong["light"] = np.float32(added)
        for verdict in check.check_case(spec, Case(spec.problem_type()), "cpu"):
            errors = {e.output: e.ok for e in verdict.errors}
            assert (verdict.ok, errors) == (ok, {"glow": True, "light": ok})
            assert ok or verdict.share > 1


def test_a_wrong_kernel_gives_its_first_problem_and_one_that_does_not_compile_says_so_once(small_kernel):
    """Both builds of a problem are one. --all shows each problem."""
    spec, wrong = small_kernel("  O_gmem[0] = X_gmem[0];\n"), (OutputError("o", 2.5, 1e-7, 1e-6),)
    unknown = Reason("unknown", "", first=First("S", "score", "a.cu", 3, (0,), 1, None, 2, 0, 5, 0.5, 0.25))
    problems = [RolesProblem(seed=seed) for seed in range(44)]
    missed = [
        check.Verdict(spec.name, build, problem, (), wrong, False, records=1, reason=unknown)
        for problem in problems
        for build in ("probed", "timed")
    ]
    row = check.summary(spec, chosen_of(63), missed)
    lines = check_report.lines(row, missed, "here")
    assert len(lines) <= 6 and "63 of 63 problems tried, 44 wrong" in lines[0]
    assert lines[-1] == "  and 43 more of 44 (--all)"
    assert "    The first wrong value is S of row 1, key 2, from line 3 of lane 5: 0.5, not 0.25." in lines
    assert not any("likely" in line for line in lines)
    assert sum("allowed" in line for line in lines) == 1
    everything = check_report.lines(row, missed, "here", everything=True)
    assert sum(line.startswith("  wrong: ") for line in everything) == 44
    spec = small_kernel("  O_gmem[0] = X_gmem[0];\n")
    said = "BuildError: small.cu line 3: expected ';'"
    missed = [check.Verdict(spec.name, "both", RolesProblem(seed=seed), (), (), False, said) for seed in range(63)]
    lines = check_report.lines(check.summary(spec, chosen_of(63), missed), missed, "here")
    assert len(lines) == 3 and sum(said in line for line in lines) == 1 and "62 more problems" in lines[-1]
    assert "inf" not in "".join(lines)
