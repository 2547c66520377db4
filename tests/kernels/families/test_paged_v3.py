"""paged_v3, the cache in 8 bits and the shared prefix: the work list is what it says, the trace is what list and tables
imply, partial results merge to the output, and a bad problem is refused before a launch."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.catalog import KERNELS
from kernels.core.dtypes import element_type
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import PeerUnavailable, ProblemError
from kernels.families.paged.cache import Fp8WriteProblem, to_fp8
from kernels.families.paged.fields import FP8_MAX, K_STREAM, V_STREAM
from kernels.families.paged.ranges import COLUMNS, CascadeProblem, RangesProblem
from kernels.kv_cache.scenarios import PRESETS
from kernels.kv_cache.work_list import FIELDS, work_list
from kernels.run import execute
from kernels.trace.kinds import READS

V3 = KERNELS["paged_v3"]
FP8 = "float8_e4m3"
PROBLEMS = {
    "ragged": RangesProblem((1, 15, 16, 17, 300), ranges=3),
    "one long beside one token": RangesProblem((1, 1000), 8, 2, 128, 32, ranges=5),
    "page 8, bfloat16, ALiBi": RangesProblem((70, 33), 4, 4, 64, 8, "bfloat16", alibi=True, ranges=4),
    "page 64, window": RangesProblem((500, 64), 6, 2, 64, 64, window=100, ranges=2),
    "8 bits, soft cap": RangesProblem((130, 40), 8, 1, 128, 16, cache_dtype=FP8, soft_cap=20.0, ranges=3),
    "forked": RangesProblem.of_cache(PRESETS["shared_prompt"].states(16)[-1][0], ranges=4),
}


def traced(problem, **chosen):
    request = Request(V3, problem, tuple(chosen.items()))
    return execute.run(Request(V3, problem, tuple(chosen.items()), Scope(0, request.plan.items)))


@pytest.fixture(scope="module", params=PROBLEMS)
def run(request):
    return traced(PROBLEMS[request.param])


def fields(units):
    return dict(zip(FIELDS, units.T))


# ---- the work list ----


@st.composite
def batches(draw):
    sequences = draw(st.integers(1, 40))
    pages = draw(st.lists(st.integers(1, 300), min_size=sequences, max_size=sequences))
    firsts = draw(st.lists(st.integers(0, 9), min_size=sequences, max_size=sequences))
    return np.array(firsts), np.array(pages), draw(st.integers(1, 400))


@given(batches())
@settings(max_examples=150, deadline=None)
def test_every_page_is_in_one_unit_and_every_range_is_as_long_as_the_others(batch):
    firsts, pages, wanted = batch
    tokens = (firsts + pages) * 16
    made = work_list(firsts, pages, tokens, wanted)
    u = fields(made.units)
    assert made.units.dtype == np.int32 and made.ranges == min(wanted, pages.sum()) and u["pages"].min() >= 1
    held = [(s, page) for s, first, count in made.units[:, :3].tolist() for page in range(first, first + count)]
    assert sorted(held) == [(s, f + n) for s, (f, count) in enumerate(zip(firsts, pages)) for n in range(count)]
    assert np.array_equal(u["tokens"], tokens[u["seq"]])
    visited, lengths = [], []
    for begin in range(made.ranges):  # a chain begins at the row of its range's number, and all chains hold every unit
        unit, chain = begin, []
        while unit >= 0:
            chain.append(unit)
            unit = int(u["next"][unit])
        visited += chain
        lengths.append(int(u["pages"][chain].sum()))
        assert np.all(np.diff(u["seq"][chain]) > 0)  # in the order of the sequences
    assert sorted(visited) == list(range(len(made.units)))
    assert max(lengths) - min(lengths) <= 1 and sum(lengths) == pages.sum()


@given(batches())
@settings(max_examples=100, deadline=None)
def test_the_partitions_of_a_sequence_have_neighbouring_slots_of_their_own_in_the_order_of_its_pages(batch):
    firsts, pages, wanted = batch
    made = work_list(firsts, pages, (firsts + pages) * 16, wanted)
    taken = []
    for sequence in range(len(pages)):
        u = fields(made.units[made.units[:, 0] == sequence])
        order = np.argsort(u["first"])
        assert u["partition"][order].tolist() == list(range(len(order))) and set(u["partitions"]) == {len(order)}
        if len(order) > 1:
            assert len(set(u["slot"])) == 1
            taken += (u["slot"] + u["partition"]).tolist()
    assert sorted(taken) == list(range(made.slots))


def test_a_work_list_worked_by_hand():
    made = work_list(np.array([0, 0, 0]), np.array([3, 1, 5]), np.array([40, 5, 70]), 3)
    first = [0, 0, 3, -1, 40, 0, 0, 1]
    second = [1, 0, 1, 3, 5, 0, 0, 1]
    third = [2, 2, 3, -1, 70, 0, 1, 2]
    assert made.units.tolist() == [first, second, third, [2, 0, 2, -1, 70, 0, 0, 2]]
    assert (made.ranges, made.slots) == (3, 2)


def test_ranges_are_chosen_for_the_multiprocessors_of_an_h200_and_not_shorter_than_128_tokens():
    assert RangesProblem((16384,), 32, 8, 128).work_list.ranges == 132 // 8
    assert RangesProblem((300, 100), 8, 2, 64).work_list.ranges == 3
    assert RangesProblem((5,), ranges=7).work_list.ranges == 1


# ---- the trace ----


def test_what_is_read_of_the_caches_and_the_tables_is_what_the_list_implies_byte_for_byte(run):
    """Each page that a sequence's query sees, of each KV head, once in K and once in V; its table entry once for each
    KV head; and as many bytes into shared memory."""
    problem, page_bytes = run.request.problem, run.request.problem.layout.page_bytes
    frame = run.trace.frame("event", "space", "tensor", "offset", "bytes", "role")
    wanted = [
        (sequence, entry, problem.layout.page_offset(problem.block_tables[sequence][entry], kv_head))
        for sequence, first, pages in problem.work_list.units[:, :3].tolist()
        for entry in range(first, first + pages)
        for kv_head in range(problem.num_kv_heads)
    ]
    for tensor in ("K", "V"):
        mine = frame[(frame.event == "tma") & (frame.tensor == tensor)]
        pieces = np.concatenate([np.arange(o, o + b, 16) for o, b in zip(mine.offset, mine.bytes)])
        pages = np.concatenate([np.arange(at, at + page_bytes, 16) for _, _, at in wanted])
        assert np.array_equal(np.sort(pieces), np.sort(pages))
    tables = frame[(frame.tensor == "block_tables") & (frame.event == "load")]
    entries = [4 * (sequence * problem.max_blocks_per_seq + entry) for sequence, entry, _ in wanted]
    assert sorted(tables.offset) == sorted(entries) and set(tables.bytes) == {4}
    assert frame[frame.event == "tma_smem"].bytes.sum() == frame[frame.event == "tma"].bytes.sum()
    assert frame[frame.event == "tma"].bytes.sum() == problem.read_bytes
    assert set(frame[frame.event == "tma"].role) == {"producer"}


def test_every_score_is_logged_once_for_each_query_head_and_token_that_it_sees(run):
    problem, frame = run.request.problem, run.trace.frame("event", "sequence", "head", "token", "value")
    score = frame[frame.event == "score"]
    places = sorted(zip(score.sequence.astype(int), score["head"].astype(int), score.token.astype(int)))
    lens = enumerate(zip(problem.begins, problem.context_lens))
    assert places == sorted(
        (s, h, t) for s, (begin, end) in lens for h in range(problem.num_heads) for t in range(begin, end)
    )
    assert np.isfinite(score.value).all()


def test_partial_results_merge_to_the_output_and_its_lse(run):
    """m, l and O of each partition as logged, put together here in float64."""
    problem = run.request.problem
    frame = run.trace.frame("event", "sequence", "head", "partition", "dim", "value")
    values = {
        event: part.set_index(
            [c for c in ("sequence", "head", "partition", "dim") if part[c].notna().all()]
        ).value.sort_index()
        for event, part in frame[frame.value.notna()].groupby("event", observed=True)
    }
    divided = {int(u[0]) for u in problem.work_list.units if u[7] > 1}
    for sequence in range(problem.num_seqs):
        for head in range(problem.num_heads):
            m, l = (values[event].loc[sequence, head].sort_index().to_numpy(np.float64) for event in ("m", "l"))
            weight = np.exp(m - m.max())
            total = (l * weight).sum()
            assert values["m_all"].loc[sequence, head] == pytest.approx(m.max(), abs=1e-6)
            assert values["l_all"].loc[sequence, head] == pytest.approx(total, rel=1e-5)
            assert run.arrays["lse"][sequence, head] == pytest.approx(m.max() + np.log(total), abs=1e-5)
            if sequence not in divided:
                continue
            assert np.allclose(values["weight"].loc[sequence, head].sort_index(), weight, rtol=1e-5)
            parts = values["o_part"].loc[sequence, head].unstack("dim").sort_index().to_numpy(np.float64)
            scale = float(problem.scales[1][head // problem.group])
            merged = scale * (parts * weight[:, None]).sum(axis=0) / total
            assert np.allclose(values["o"].loc[sequence, head].sort_index(), merged, rtol=1e-4, atol=1e-6)
    kind = element_type(problem.dtype)
    logged = values["o"].sort_index().to_numpy(np.float32).reshape(problem.shape).astype(kind.numpy)
    assert np.array_equal(logged, run.arrays["o"])


def test_steps_of_the_producer_and_of_the_consumers_are_marked():
    frame = traced(PROBLEMS["ragged"]).trace.frame("event", "role", "warp")
    producer, consumer = (set(frame[frame.role == role].event) for role in ("producer", "consumer"))
    assert "prefetch_tile" in producer and "scores" not in producer
    assert {"load_q", "tile_begin", "scores", "softmax", "output", "write_part", "combine", "write"} <= consumer
    assert set(frame[frame.role == "producer"].warp) == {4}


@pytest.mark.parametrize("name", ["paged_v3", "paged_cascade"])
def test_the_warps_that_multiply_pass_the_same_marks(name):
    """So that a step of a block is the same of all of them, also where a warp sees no token."""
    spec = KERNELS[name]
    frame = execute.run(Request(spec, spec.problem_type(ranges=2))).trace.frame(
        "launch", "block", "thread", "event", "role"
    )
    marks = {"load_q", "scores", "softmax", "output", "combine_warps", "write_part", "combine", "write", "read_list"}
    mine = frame[frame.event.isin(marks) & (frame.role == "consumer")]
    for _, block in mine.groupby(["launch", "block"], observed=True):
        assert len({tuple(part.event) for _, part in block.groupby("thread")}) == 1


# ---- results ----


def test_slots_without_a_token_hold_nan_and_none_comes_through():
    for problem in PROBLEMS.values():
        arrays = problem.inputs()
        assert (
            np.isnan(arrays["k_cache"].astype(np.float32)).any()
            and np.isnan(arrays["v_cache"].astype(np.float32)).any()
        )
        assert not np.isnan(traced(problem).arrays["lse"]).any()


@pytest.mark.parametrize("case", ["ragged", "one long beside one token"])
def test_however_the_pages_are_cut_the_answer_is_the_same_within_the_types_rounding(case):
    answers = [traced(replace(PROBLEMS[case], ranges=n)).arrays["o"].astype(np.float64) for n in (1, 2, 9)]
    for other in answers[1:]:
        assert np.abs(other - answers[0]).max() < 2e-3


def quantisation_error(problem):
    """The largest difference in o from rounding the cache to its type, apart from the kernel's error."""
    return np.abs(problem.attention()["o"] - problem.attention(dequantised=False)["o"]).max()


def test_what_8_bits_cost_is_told_apart_from_what_the_kernel_loses():
    problem = PROBLEMS["8 bits, soft cap"]
    run = traced(problem)
    assert run.max_abs_errors["o"] < 2e-3 < 0.01 < quantisation_error(problem) < 0.3
    assert quantisation_error(replace(problem, cache_dtype="")) < 1e-3


def test_a_window_as_long_as_the_context_and_no_soft_cap_change_nothing():
    plain = traced(PROBLEMS["ragged"])
    assert np.array_equal(plain.arrays["o"], traced(replace(PROBLEMS["ragged"], window=300)).arrays["o"])


# ---- problems ----


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 34, "num_kv_heads": 2}, "17 query heads for a KV head. It can be at most 16"),
        ({"cache_dtype": FP8, "block_size": 8}, "A page of 8-bit numbers needs 16 slots at least"),
        ({"block_size": 128}, "block_size is 128. It must be one of 8, 16, 32, 64"),
        ({"head_dim": 80}, "head_dim is 80. It must be one of 64, 128"),
        ({"dtype": "float32"}, "dtype is float32. It must be one of float16, bfloat16"),
        ({"window": -1}, "window is -1"),
        ({"soft_cap": -2.0}, "soft_cap is -2"),
        ({"block_tables": ((3, 99, 5), (1,), (6, 7, 8, 9, 2))}, "Sequence 0, entry 1 of its block table is 99"),
    ],
)
def test_a_bad_problem_is_refused(changes, message):
    with pytest.raises(ProblemError, match=message):
        RangesProblem(**{"num_blocks": 20, **changes})


def test_eight_warps_are_refused_where_they_would_spill():
    with pytest.raises(ProblemError, match="168 registers, too few for 16 query heads of 128 numbers. Choose WARPS=4"):
        V3.plan(RangesProblem((40,), 16, 1, 128), (("WARPS", 8),))


def test_torch_is_no_peer_of_what_it_does_not_have():
    problem = RangesProblem((40, 40), soft_cap=5.0)
    with pytest.raises(PeerUnavailable, match="no soft cap, window or cache of another type"):
        problem.peer_inputs(problem.inputs())
    assert problem.bench_columns == {} and RangesProblem((40, 40)).bench_columns["seq_len"] == 40


def test_work_counts_only_what_a_query_sees():
    problem = RangesProblem((100, 30), 4, 2, 64, window=40)
    assert problem.work.touched["k_cache"] == (40 + 30) * 2 * 64 * 2
    assert problem.work.flops == 4 * (40 + 30) * 4 * 64


# ---- writing 8 bits ----


def test_to_fp8_rounds_to_even_and_stops_at_448():
    numbers = np.array([[1.0, 1.0625, 1.1875, 448.0, 464.0, 1e9, -1e9, 2.0**-10]], np.float32)
    assert to_fp8(numbers, np.ones(1, np.float32)).astype(np.float32).tolist() == [
        [1.0, 1.0, 1.25, 448.0, 448.0, 448.0, -448.0, 0.0]
    ]
    assert to_fp8(numbers[:, :1], np.full(1, 0.5, np.float32)).astype(np.float32).tolist() == [[2.0]]


def test_what_is_written_in_8_bits_is_what_ml_dtypes_rounds_to_and_some_of_it_is_cut_off():
    spec, problem = KERNELS["reshape_and_cache_fp8"], Fp8WriteProblem(3, 128, 32, slots=(5, 6, 70, -1, 33), seed=1)
    run = execute.run(Request(spec, problem))
    assert run.max_abs_errors == {"k_cache": 0.0, "v_cache": 0.0}
    k, v = problem.layout.gather(run.arrays["k_cache"], run.arrays["v_cache"], (0, 1, 2), 96)
    arrays = problem.inputs()
    assert np.array_equal(k[5].astype(np.float32), to_fp8(arrays["key"], arrays["k_scale"])[0].astype(np.float32))
    largest = [np.abs(rows[[5, 6, 70, 33]].astype(np.float32)).max(axis=(0, 2)) for rows in (k, v)]
    assert np.max(largest) == FP8_MAX


def test_a_cache_written_in_8_bits_is_read_as_it_was_written():
    """The same tokens: what the writer leaves is what RangesProblem holds where the scales are the same."""
    problem = RangesProblem((40,), 4, 2, 64, cache_dtype=FP8, block_tables=((0, 1, 2),))
    arrays, (k_scale, v_scale) = problem.inputs(), problem.scales
    k, v = problem.layout.gather(arrays["k_cache"], arrays["v_cache"], (0, 1, 2), 40)
    drawn = [problem.rows(stream, "float32") for stream in (K_STREAM, V_STREAM)]
    assert np.array_equal(k.astype(np.float32), to_fp8(drawn[0], k_scale).astype(np.float32))
    assert np.array_equal(v.astype(np.float32), to_fp8(drawn[1], v_scale).astype(np.float32))


def test_the_bytes_that_a_page_takes_are_half_in_8_bits():
    plain = RangesProblem((40, 70), 4, 2, 64, ranges=2)
    halved = replace(plain, cache_dtype=FP8)
    assert plain.read_bytes == 2 * halved.read_bytes
    frame = traced(halved).trace.frame("event", "space", "bytes")
    assert frame[frame.event.isin(READS) & (frame.event == "tma")].bytes.sum() == halved.read_bytes


@pytest.mark.parametrize("kernel, problem", [("paged_v3", RangesProblem()), ("paged_cascade", CascadeProblem())])
def test_the_traffic_of_k_and_v_is_what_the_work_list_implies(kernel, problem):
    table = execute.traffic(Request(KERNELS[kernel], problem)).table
    bulk = table[(table.kind == "tma") & table.tensor.isin(["K", "V"])]
    assert set(bulk.tensor) == {"K", "V"} and bulk.bytes.sum() == problem.read_bytes


# ---- a shared prefix ----

CASCADE = KERNELS["paged_cascade"]
SHARED = {
    "one family": CascadeProblem(ranges=3),
    "more sequences than a block takes": CascadeProblem((40,) * 40, 4, 2, 64, 16, prefix=32, ranges=4),
    "several families, 8 bits": CascadeProblem(
        (60, 40, 64, 20, 17, 48),
        block_tables=((0, 1, 2, 3), (0, 1, 4), (0, 1, 5, 6), (7, 8), (9, 10), (9, 11, 12)),
        families=(1, 1, 1, 2, 3, 3),
        cache_dtype=FP8,
        ranges=2,
    ),
}


def test_what_neighbours_share_is_found_in_their_block_tables():
    assert SHARED["several families, 8 bits"].prefix_pages.tolist() == [2, 2, 2, 0, 1, 1]
    assert SHARED["one family"].prefix_pages.tolist() == [3] * 4
    assert set(SHARED["more sequences than a block takes"].prefix_pages) == {2}


@pytest.mark.parametrize("case", SHARED)
def test_a_prefix_is_read_once_for_the_sequences_of_a_block_and_the_rest_once_for_each(case):
    problem = SHARED[case]
    request = Request(CASCADE, problem)
    run = execute.run(Request(CASCADE, problem, (), Scope(0, request.plan.items)))
    frame = run.trace.frame("launch", "event", "tensor", "bytes")
    frame = frame[frame.event == "tma"]
    page = problem.num_kv_heads * problem.layout.page_bytes
    chunks, sharers = 0, COLUMNS // problem.group
    for family in dict.fromkeys(problem.families):
        members = [n for n, number in enumerate(problem.families) if number == family]
        chunks += int(problem.prefix_pages[members[0]]) * -(-len(members) // sharers)
    own = sum(-(-n // problem.block_size) for n in problem.context_lens) - int(problem.prefix_pages.sum())
    for tensor in ("K", "V"):
        mine = frame[frame.tensor == tensor].groupby("launch").bytes.sum()
        assert mine.tolist() == [chunks * page, own * page]
    assert frame.bytes.sum() == problem.read_bytes < replace_kind(problem).read_bytes


def replace_kind(problem):
    """The same cache without a cascade: every sequence reads its prefix itself."""
    names = (
        "context_lens",
        "num_heads",
        "num_kv_heads",
        "head_dim",
        "block_size",
        "dtype",
        "num_blocks",
        "block_tables",
    )
    return RangesProblem(
        **{name: getattr(problem, name) for name in (*names, "families", "seed", "ranges", "cache_dtype")}
    )


@pytest.mark.parametrize("case", SHARED)
def test_a_cascade_gives_what_v3_gives_over_the_same_cache_within_rounding(case):
    problem = SHARED[case]
    cascade, plain = execute.run(Request(CASCADE, problem)), execute.run(Request(V3, replace_kind(problem)))
    assert np.abs(cascade.arrays["o"].astype(np.float64) - plain.arrays["o"].astype(np.float64)).max() < 2e-3
    assert np.allclose(cascade.arrays["lse"], plain.arrays["lse"], atol=1e-5)


ALL = [*((V3, problem) for problem in PROBLEMS.values()), *((CASCADE, problem) for problem in SHARED.values())]


@pytest.mark.parametrize(("spec", "problem"), ALL, ids=[*PROBLEMS, *SHARED])
def test_two_runs_and_a_run_in_the_opposite_order_are_the_same_to_the_bit(spec, problem):
    request = Request(spec, problem)
    made, plan, arrays = execute.prepare(request, execute.Mode.TIMED)
    outputs = []
    for reversed_order in (False, False, True):
        arrays["o"][:], arrays["lse"][:] = np.nan, np.nan
        execute.backends.module("cpu").launch(made, plan, arrays, request.scope, None, reversed_order)
        outputs.append((arrays["o"].tobytes(), arrays["lse"].tobytes()))
        assert not arrays["arrived"].any()  # the counters are as they were
    assert len(set(outputs)) == 1 and not np.isnan(arrays["o"].astype(np.float32)).any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alibi": True}, "alibi is on or window is not 0. Over a shared prefix neither is computed"),
        ({"window": 9}, "alibi is on or window is not 0"),
        ({"prefix": 5}, "No two neighbours of the batch share a page and have one of their own. Give a longer prefix"),
        ({"context_lens": (70,)}, "No two neighbours of the batch share a page"),
    ],
)
def test_a_cascade_without_a_shared_prefix_is_refused(changes, message):
    with pytest.raises(ProblemError, match=message):
        CascadeProblem(**changes)


def test_each_launch_of_a_cascade_reads_the_list_that_its_trace_names():
    kernel, problem = KERNELS["paged_cascade"], CascadeProblem(ranges=3)
    request = Request(kernel, problem)
    trace = execute.run(replace(request, scope=Scope.everything(request.plan))).trace
    frame = trace.frame("launch", "tensor", "unit", "offset", "bytes")
    frame = frame[frame.unit.notna()]
    for launch, (name, units) in enumerate(
        zip(("prefix_units", "units"), (problem.lists[0].units, problem.lists[1].units))
    ):
        part = frame[frame.launch == launch]
        assert set(part.tensor) == {name} and int((part.offset + part.bytes).max()) == units.nbytes


@pytest.mark.parametrize(
    "given",
    [
        {"context_lens": "130,145,190"},
        {"block_size": "32"},
        {"prefix": "20"},
        {"num_blocks": "40"},
        {"seed": "3"},
        {"context_lens": "130,145,190", "block_size": "32", "prefix": "64", "num_blocks": "40", "seed": "3"},
    ],
    ids=str,
)
def test_a_cascade_takes_its_fields_as_text_as_the_command_line_gives_them(given):
    read = {name: tuple(map(int, text.split(","))) if "," in text else int(text) for name, text in given.items()}
    problem = CascadeProblem(**given)
    assert problem == CascadeProblem(**read) and problem.prefix_pages.all()


@pytest.mark.parametrize("given", [{"block_size": "x"}, {"block_size": 0}, {"prefix": "-1"}, {"context_lens": "1,x"}])
def test_a_cascade_refuses_a_field_that_cannot_be(given):
    with pytest.raises(ProblemError, match=f"{next(iter(given))}.* It must be"):
        CascadeProblem(**given)
