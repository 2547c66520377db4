"""The paged kernels: what they read is what the block table says, and a bad table is refused before a launch."""

import numpy as np
import pytest

from kernels.catalog import KERNELS, current
from kernels.core.dtypes import element_type
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.tensors import Initial, Role
from kernels.errors import PeerUnavailable, ProblemError
from kernels.families.paged import PROBLEMS as CLASSES
from kernels.families.paged import CacheCopyProblem, CacheWriteProblem, PagedProblem
from kernels.kv_cache.scenarios import PRESETS
from kernels.run import execute

PAGED = current().of_problem(PagedProblem)
PROBLEMS = {
    "ragged": PagedProblem((1, 15, 16, 17, 70)),
    "half": PagedProblem((70, 33), 4, 4, 80, 8, "float16"),
    "wide": PagedProblem((65, 2), 4, 1, 256, 32),
    "half of 96": PagedProblem((40, 8), 6, 3, 96, 16, "float16", alibi=True),
    "forked": PagedProblem.of_cache(PRESETS["shared_prompt"].states(16)[-1][0]),
}


def whole(name, problem, **settings):
    request = Request(KERNELS[name], problem, tuple(settings.items()))
    return execute.run(Request(KERNELS[name], problem, tuple(settings.items()), Scope(0, request.plan.items)))


def loads(run):
    """The K and V loads of the first launch: seq, head, tensor, offset, bytes."""
    frame = run.trace.frame("launch", "block", "event", "tensor", "offset", "bytes")
    frame = frame[(frame.launch == 0) & (frame.event == "load") & frame.tensor.isin(["K", "V", "block_tables"])]
    item = frame.block // run.request.plan.launches[0].blocks_per_item
    return frame.assign(seq=item // run.request.problem.num_heads, head=item % run.request.problem.num_heads)


@pytest.mark.parametrize("name", PAGED)
@pytest.mark.parametrize("case", PROBLEMS)
def test_every_key_and_value_that_the_table_names_is_read_once_and_nothing_else(name, case):
    problem = PROBLEMS[case]
    layout, size = problem.layout, np.dtype(problem.dtype).itemsize
    run = whole(name, problem, **({"PARTITION": 32} if name == "paged_v2" else {}))
    seen = 0
    for (seq, head, tensor), part in loads(run).groupby(["seq", "head", "tensor"], observed=True):
        table, length, kv_head = problem.block_tables[seq], problem.context_lens[seq], head // problem.group
        places = [(table[t // problem.block_size], kv_head, t % problem.block_size) for t in range(length)]
        if tensor == "block_tables":
            entries = np.arange(-(-length // problem.block_size)) * 4 + 4 * seq * problem.max_blocks_per_seq
            assert np.array_equal(np.unique(part.offset), entries)
            continue
        wanted = [(layout.k_offsets if tensor == "K" else layout.v_offsets)(*place) for place in places]
        unit = 16 if tensor == "K" else size  # a V load of 16 bytes is that many neighbouring elements
        read = np.concatenate(
            [np.arange(offset, offset + width, unit) for offset, width in zip(part.offset, part.bytes)]
        )
        assert np.array_equal(np.sort(read), np.sort(np.concatenate(wanted)))
        seen += 1
    assert seen == 2 * problem.num_seqs * problem.num_heads


@pytest.mark.parametrize("name", PAGED)
def test_the_entries_read_are_those_that_lead_to_the_pages(name):
    """Each K load of a logical block lies in the page that the table entry of that block holds."""
    problem = PROBLEMS["ragged"]
    run = whole(name, problem)
    frame = run.trace.frame("launch", "block", "event", "tensor", "token", "offset")
    k = frame[(frame.launch == 0) & (frame.tensor == "K") & (frame.event == "load")]
    seq = k.block // run.request.plan.launches[0].blocks_per_item // problem.num_heads
    page = np.array([problem.block_tables[s][int(t) // problem.block_size] for s, t in zip(seq, k.token)])
    assert np.array_equal(k.offset.to_numpy() // problem.layout.page_bytes // problem.num_kv_heads, page)


@pytest.mark.parametrize("name", PAGED)
def test_a_shuffle_changes_the_addresses_and_not_one_bit_of_the_output(name):
    cache = PRESETS["churn"].states(16)[-1][0]
    first, second = (whole(name, PagedProblem.of_cache(c)) for c in (cache, cache.shuffled(1)))
    assert np.array_equal(first.arrays["o"], second.arrays["o"])
    a, b = loads(first), loads(second)
    assert len(a) == len(b) and not np.array_equal(a[a.tensor == "K"].offset, b[b.tensor == "K"].offset)


def test_v2_logs_each_partitions_m_and_l_and_combines_them():
    problem = PagedProblem((100, 20))
    run = whole("paged_v2", problem, PARTITION=32)
    frame = run.trace.frame("launch", "block", "event", "partition", "head", "token", "dim", "value")
    part = frame[frame.launch == 0]
    for item in range(problem.num_seqs * problem.num_heads):
        mine = part[part.block // 4 == item]
        score, m, l = (mine[mine.event == name] for name in ("score", "m", "l"))
        partitions = score.token // 32
        assert m.partition.tolist() == sorted(partitions.unique())
        true_m = score.groupby(partitions).value.max()
        assert m.value.tolist() == true_m.tolist()
        true_l = np.exp(score.value.astype(np.float64) - partitions.map(true_m)).groupby(partitions).sum()
        assert np.allclose(l.value, true_l, rtol=1e-5)
        reduced = frame[(frame.launch == 1) & (frame.block == item)].set_index("event").value
        assert reduced["m_all"] == true_m.max()
        assert reduced["l_all"] == pytest.approx((true_l * np.exp(true_m - true_m.max())).sum(), rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"block_tables": ((3, 99, 5), (1,))},
            "Sequence 0, entry 1 of its block table is 99. The pool has pages 0 to 19",
        ),
        (
            {"block_tables": ((3, 4, 5), (-1,))},
            "Sequence 1, entry 0 of its block table is -1. The pool has pages 0 to 19",
        ),
        (
            {"block_tables": ((3, 4), (1,))},
            "Sequence 0 has context length 40, which needs 3 pages of 16 slots. Its block table has 2 entries",
        ),
        (
            {"block_tables": ((3, 4, 5), (4,))},
            "Page 4 is entry 0 of sequence 1 and entry 1 of sequence 0, which did not fork",
        ),
        ({"block_tables": ((3, 4, 3), (1,))}, "Sequence 0, entries 0 and 2 of its block table are both page 3"),
        (
            {"block_tables": ((3, 4, 5), (4,)), "families": (7, 7)},
            "Forked sequences share a page only at the same place",
        ),
        (
            {
                "block_tables": ((3, 4, 5), (3,)),
                "families": (7, 7),
                "token_ids": (tuple(range(40)), (50, 51, 52, 53, 54)),
            },
            "Slot 0 of page 3 would hold tokens 0 and 50",
        ),
        ({"block_tables": ((3, 4, 5),)}, "block_tables has 1 rows, and context_lens has 2 sequences"),
        ({"context_lens": (40, 0)}, r"context_lens\[1\] is 0. It must be a whole number from 1"),
        ({"context_lens": ()}, "context_lens is empty"),
        ({"context_lens": "many"}, r"context_lens\[0\] is 'many'"),
        ({"context_lens": 7}, "context_lens is 7"),
        (
            {"num_heads": 6, "num_kv_heads": 4},
            "num_heads is 6 and num_kv_heads 4, and num_heads must be a multiple of num_kv_heads",
        ),
        ({"head_dim": 72}, "head_dim is 72. It must be one of 64, 80, 96, 128, 256"),
        ({"block_size": 12}, "block_size is 12"),
        ({"dtype": "int8"}, "dtype is int8. It must be one of float32, float16"),
        ({"num_blocks": 2}, "These contexts need 4 pages of 16 slots"),
        ({"token_ids": ((1, 2), (3,))}, "Sequence 0 has 2 token_ids and context length 40"),
    ],
)
def test_a_bad_table_is_refused_with_sequence_and_entry(changes, message):
    with pytest.raises(ProblemError, match=message):
        PagedProblem(**{"context_lens": (40, 5), "num_blocks": 20, **changes})


def test_the_tables_fields_can_be_given_as_text():
    problem = PagedProblem(context_lens="20,5", block_tables="7,2;3", num_blocks="9")
    assert (problem.context_lens, problem.block_tables, problem.num_blocks) == ((20, 5), ((7, 2), (3,)), 9)


def test_a_longer_table_than_the_context_needs_is_taken_and_its_rest_not_read():
    run = whole("paged_v1", PagedProblem((20,), block_tables=((4, 1, 0, 3),)))
    entries = loads(run)
    assert set(entries[entries.tensor == "block_tables"].offset) == {0, 4}


def test_slots_without_a_token_hold_nan_so_that_reading_one_would_show():
    arrays = PagedProblem((20,)).inputs()
    assert np.isnan(arrays["k_cache"]).any() and np.isnan(arrays["v_cache"]).any()


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        ((3, 128), "Token 1 has slot 128. The cache has slots 0 to 127"),
        ((3, 4, 3), "Tokens 0 and 2 both have slot 3"),
        ((), "slots is empty"),
    ],
)
def test_bad_slots_are_refused(slots, message):
    with pytest.raises(ProblemError, match=message):
        CacheWriteProblem(slots=slots)


@pytest.mark.parametrize(
    ("copies", "message"),
    [
        (((1, 8),), "Pair 0 names page 8. The pool has pages 0 to 7"),
        (((1, 2), (2, 3)), "Pair 0 writes page 2, which another pair reads or writes"),
        (((1, 2), (3, 2)), "Pair 1 writes page 2"),
        (((1, 2, 3),), "Pair 0 is"),
        ((), "copies is empty"),
    ],
)
def test_bad_copies_are_refused(copies, message):
    with pytest.raises(ProblemError, match=message):
        CacheCopyProblem(copies=copies)


@pytest.mark.parametrize("kind", CLASSES.values(), ids=CLASSES)
def test_tensors_inputs_and_truth_agree(kind):
    problem = kind()
    arrays, truth = problem.inputs(), problem.truth()
    given = [t for t in problem.tensors() if t.initial is Initial.GIVEN]
    said = {t.name: (t.shape, element_type(t.dtype).numpy) for t in given}
    assert said == {name: (array.shape, array.dtype) for name, array in arrays.items()}
    assert {t.name: t.shape for t in problem.outputs} == {name: array.shape for name, array in truth.items()}
    assert problem.input_bytes == sum(array.nbytes for array in arrays.values())


@pytest.mark.parametrize("kind", [CacheWriteProblem, CacheCopyProblem])
def test_the_caches_are_given_and_written_and_nothing_is_rounded(kind):
    caches = [t for t in kind().tensors() if t.name.endswith("_cache")]
    assert [(t.role, t.initial) for t in caches] == [(Role.OUTPUT, Initial.GIVEN)] * 2
    assert kind().largest_terms() == {}
    assert all(np.array_equal(kind().yardstick()[name], array) for name, array in kind().truth().items())


def test_no_term_of_the_output_is_larger_than_the_largest_v_of_a_token():
    problem = PROBLEMS["half"]
    values = [v for _, _, v, _ in problem.seen()]
    assert problem.largest_terms()["o"] == max(np.abs(v).max() for v in values)


@pytest.mark.parametrize(
    ("kind", "fewer", "more"),
    [
        (CacheWriteProblem, {"slots": (1,)}, {"slots": tuple(range(100))}),
        (CacheCopyProblem, {"copies": ((0, 1),)}, {"copies": ((0, 1), (2, 3))}),
    ],
)
def test_a_copy_on_the_cpu_is_estimated_by_what_it_accesses(kind, fewer, more):
    """It was estimated to take no time at all, as it multiplies nothing."""
    assert 0 < kind(**fewer).cpu_steps < kind(**more).cpu_steps


@pytest.mark.parametrize(
    ("name", "cases"), [("reshape_and_cache", {"slots": (3, 4, 9)}), ("copy_blocks", {"copies": ((0, 1), (2, 3))})]
)
def test_that_estimate_is_the_number_of_accesses_that_are_logged(name, cases):
    run = whole(name, KERNELS[name].problem_type(**cases))
    frame = run.trace.frame("event", "tensor")
    moved = frame[frame.event.isin(["load", "store"]) & frame.tensor.isin(["K", "V", "key", "value"])]
    assert len(moved) == run.request.problem.cpu_steps


def test_with_fields_places_the_pages_anew():
    problem = PagedProblem((40, 5)).with_fields(context_lens=(400,), block_size=8)
    assert (len(problem.block_tables), len(problem.block_tables[0])) == (1, 50)
    assert problem == PagedProblem((400,), block_size=8)


def test_seq_len_and_batch_change_the_context_lens():
    problem = PagedProblem((40, 5))
    assert problem.derived_fields["seq_len"](problem, 7) == {"context_lens": (7, 7)}
    assert problem.derived_fields["batch"](problem, 3) == {"context_lens": (40, 40, 40)}


def test_torch_is_only_asked_for_contexts_of_one_length_without_alibi():
    problem = PagedProblem((20, 20), 8, 2)
    (q, k, v), options = problem.peer_inputs(problem.inputs())
    assert q.shape == (2, 8, 1, 64) and k.shape == v.shape == (2, 2, 20, 64)
    assert options == {"scale": 1 / 8, "enable_gqa": True}
    for odd in (PagedProblem((20, 21)), PagedProblem((20, 20), alibi=True)):
        with pytest.raises(PeerUnavailable, match="contexts of one length without ALiBi"):
            odd.peer_inputs(odd.inputs())


def test_v1_and_v2_log_the_same_walk_from_the_same_lines():
    """What both rungs do is written once: with one partition their records differ only where the .cu files do."""
    problem, columns = PROBLEMS["ragged"], ["block", "thread", "line", "event", "tensor", "offset", "value"]
    first, second = (whole(name, problem).trace.frame("launch", "file", *columns) for name in ("paged_v1", "paged_v2"))
    walks = [f[(f.file == "walk.cuh") & (f.launch == 0)][columns].astype(object).to_numpy() for f in (first, second)]
    assert len(walks[0]) > 1000 and np.array_equal(walks[0].astype(str), walks[1].astype(str))
