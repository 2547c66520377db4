"""The kernels that skip: what they touch is what the lists say, byte for byte, and nothing else; rows that see nothing;
sinks; and problems that cannot be."""

from dataclasses import replace

import numpy as np
import pytest

from kernels.catalog import KERNELS, current
from kernels.core.scope import Scope
from kernels.errors import ProblemError
from kernels.families.sparse.problem import PRESETS, BlockSparseProblem, CsrProblem, MaskedProblem

LISTED = [name for name, spec in current().of_family("sparse").items() if spec.problem_type is BlockSparseProblem]
SMALL = BlockSparseProblem(seq_len=200, num_heads=1, window=50, block_q=64, block_kv=64)
MASKS = {
    "window": SMALL,
    "rows without blocks": replace(SMALL, mask="drawn", causal=False, drawn=((0, 2), (), (1,))),
    "documents, fewer queries": replace(SMALL, mask="documents", documents=(60, 70), seq_len=130, seq_len_kv=200),
}


@pytest.fixture(scope="module")
def traced(cpu_run):
    """(kernel, problem) -> the Run of all its blocks on the CPU shim."""

    def run(name, problem):
        plan = KERNELS[name].plan(problem)
        return cpu_run(name, problem, scope=Scope(0, plan.items))

    return run


def key_tiles(problem, row):
    """The key blocks on the list of a query block."""
    lists = problem.lists[0]
    partial = lists.kv_indices[row, : lists.kv_num_blocks[row]]
    return [*partial, *lists.full_kv_indices[row, : lists.full_kv_num_blocks[row]]]


def keys_of(problem, blocks):
    return sum(min((block + 1) * problem.block_kv, problem.keys) - block * problem.block_kv for block in blocks)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", LISTED)
def test_k_and_v_are_loaded_as_the_lists_say_and_skipped_tiles_never(traced, name, mask):
    problem = MASKS[mask]
    frame = traced(name, problem).trace.frame("event", "tensor", "space", "offset", "bytes", "block")
    loads = frame[(frame.space == "global") & frame.tensor.isin(["K", "V"])]
    rows = range(problem.sizes["query_blocks"])
    width = problem.head_dim * 2
    for tensor in ("K", "V"):
        part = loads[loads.tensor == tensor]
        touched = {
            int(key)
            for begin, size in zip(part.offset, part.bytes)
            for key in range(int(begin) // width, -(-int(begin + min(size, width)) // width))
        }
        if part.bytes.max() == 16:  # a tensor map's box is logged whole, and past the last key it is zeros
            due = sum(keys_of(problem, key_tiles(problem, row)) for row in rows) * width
            assert part.bytes.sum() == due
        else:
            tiles = sum(len(key_tiles(problem, row)) for row in rows)
            assert part.bytes.sum() == tiles * problem.block_kv * width
        listed = {block for row in rows for block in key_tiles(problem, row)}
        assert {key // problem.block_kv for key in touched} == listed


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", LISTED)
def test_scores_are_logged_where_the_mask_shows_a_pair_and_nowhere_else(traced, name, mask):
    problem = MASKS[mask]
    frame = traced(name, problem).trace.frame("event", "row", "col")
    for event in ("score", "p"):
        found = frame[frame.event == event]
        made = np.zeros((problem.seq_len, problem.keys), int)
        np.add.at(made, (found.row.astype(int), found.col.astype(int)), 1)
        assert (made == problem.masks[0].dense()).all()


@pytest.mark.parametrize("name", [*current().of_family("sparse")])
def test_a_row_that_sees_nothing_is_zero_with_lse_minus_infinity_and_a_sink_alone_is_its_lse(cpu_run, name):
    kind = KERNELS[name].problem_type
    fields = {"mask": "drawn", "drawn": ((0,), (), (1,))} if kind is not MaskedProblem else {"seq_len_kv": 100}
    problem = kind(seq_len=192, num_heads=2, causal=kind is MaskedProblem, **fields)
    blind = ~problem.masks[0].dense().any(axis=1)
    assert 0 < blind.sum() < problem.seq_len
    arrays = cpu_run(name, problem).arrays
    assert (arrays["o"][:, :, blind] == 0).all() and np.isneginf(arrays["lse"][:, :, blind]).all()
    assert np.isfinite(arrays["lse"][:, :, ~blind]).all()
    if kind is not CsrProblem:
        sunk = replace(problem, sink_logits=True)
        arrays = cpu_run(name, sunk).arrays
        assert (arrays["o"][:, :, blind] == 0).all()
        assert np.allclose(arrays["lse"][0][:, blind], sunk.logits[:, None], atol=1e-6)


def test_a_sink_takes_its_share_of_every_row():
    plain = MaskedProblem(seq_len=64, num_heads=3)
    sunk = replace(plain, sink_logits=True)
    before, after = plain.truth(), sunk.truth()
    share = np.exp(before["lse"] - after["lse"])
    assert np.allclose(after["lse"], np.logaddexp(before["lse"], sunk.logits[None, :, None]))
    assert np.allclose(after["o"], before["o"] * share[..., None]) and (share < 1).all()


@pytest.mark.parametrize("title", PRESETS)
def test_truth_over_a_mask_is_torch_s_in_float64(title):
    import torch

    problem = BlockSparseProblem(**{"num_heads": 2, **PRESETS[title]})
    q, k, v = (torch.from_numpy(problem.inputs()[name].astype(np.float64)) for name in ("q", "k", "v"))
    seen = np.stack([problem.masks[head % len(problem.masks)].dense() for head in range(2)])
    rows = torch.from_numpy(seen.any(axis=-1))
    if problem.sink_logits:
        return  # torch has none: test_a_sink_takes_its_share_of_every_row
    due = torch.nn.functional.scaled_dot_product_attention(q, k, v, torch.from_numpy(seen)[None], scale=problem.scale)
    due = torch.where(rows[None, :, :, None], due, 0).numpy()
    assert np.allclose(problem.truth()["o"], due, atol=1e-12)


def test_top_blocks_differ_from_head_to_head_and_share_their_patterns():
    problem = BlockSparseProblem(num_heads=3, mask="top_blocks", top=1, batch=2)
    assert len(problem.lists) == 6 and problem.inputs()["kv_indices"].shape[0] == 6
    assert len({lists.full_kv_indices.tobytes() + lists.kv_indices.tobytes() for lists in problem.lists}) > 1
    highest = max(int(lists.kv_patterns[lists.kv_patterns < 2**31 - 1].max(initial=-1)) for lists in problem.lists)
    assert highest + 1 == len(problem.patterns)


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        (BlockSparseProblem, {"mask": "spiral"}, "mask is spiral. It must be one of all, window"),
        (BlockSparseProblem, {"density": 0.0}, "density is 0. It must be a number from 0.0001 to 1"),
        (
            BlockSparseProblem,
            {"mask": "drawn", "drawn": ((0, 6),)},
            "drawn row 0 holds block 6. These keys have blocks 0 to 5. Leave it out, or choose more keys or a smaller",
        ),
        (
            BlockSparseProblem,
            {"mask": "drawn", "drawn": ((0,),) * 7},
            "drawn has 7 rows of blocks. These queries have 6. Leave rows out, or choose a larger seq_len or a smaller",
        ),
        (BlockSparseProblem, {"block_kv": 48}, "block_kv is 48. It must be one of 32, 64, 128"),
        (CsrProblem, {"window": 0}, "window is 0. It must be a whole number from 1"),
    ],
)
def test_a_mask_that_cannot_be_is_refused_with_its_value_and_what_may_be(kind, fields, words):
    with pytest.raises(ProblemError, match=words):
        kind(**fields)


def test_pairs_that_are_listed_are_known_before_any_list_is_made():
    problem = BlockSparseProblem(seq_len=100, seq_len_kv=200, batch=2, num_heads=3)
    assert problem.listed_pairs == 20_000 and replace(problem, mask="top_blocks").listed_pairs == 120_000
    assert not {"masks", "lists"} & set(vars(problem)) and CsrProblem(seq_len=30).listed_pairs == 900


def test_a_list_of_keys_is_one_of_all_heads():
    with pytest.raises(ProblemError, match="mask is top_blocks, which differs from head to head"):
        KERNELS["csr_attention"].plan(CsrProblem(mask="top_blocks"))


def test_a_kernel_of_windows_says_what_it_is_given_and_what_to_take():
    with pytest.raises(ProblemError, match="knows only windows, and mask is documents. Choose mask=window"):
        KERNELS["sliding_window"].plan(MaskedProblem(mask="documents"))
