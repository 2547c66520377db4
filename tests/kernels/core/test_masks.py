"""Masks, their lists of blocks and their CSR: what any mask makes, and what each kind is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.core import masks
from kernels.core.masks import KINDS, UNDEFINED, Mask
from kernels.errors import ProblemError


@st.composite
def any_mask(draw):
    sizes = st.integers(1, 90)
    queries, keys, block = draw(sizes), draw(sizes), draw(st.integers(1, 40))
    rows, columns = -(-queries // block), -(-keys // block)
    row = st.lists(st.booleans(), min_size=columns, max_size=columns).map(tuple)
    return Mask(
        draw(st.sampled_from([*KINDS])),
        queries,
        keys,
        draw(st.booleans()),
        draw(st.integers(1, 100)),
        draw(st.integers(0, 8)),
        draw(st.integers(1, 30)),
        draw(st.integers(1, 5)),
        tuple(draw(st.lists(st.integers(1, 40), max_size=5))),
        draw(st.sampled_from((0.02, 0.5, 1.0))),
        draw(st.integers(0, 5)),
        block,
        tuple(draw(st.lists(row, min_size=rows, max_size=rows))),
    )


@given(any_mask(), st.integers(1, 50), st.integers(1, 50))
def test_block_lists_are_the_dense_mask_none_lost_none_double(mask, block_q, block_kv):
    lists, dense = masks.block_lists(mask, block_q, block_kv), mask.dense()
    assert dense.shape == (mask.queries, mask.keys)
    made = np.zeros_like(dense)
    for row in range(len(lists.kv_num_blocks)):
        rows = slice(row * block_q, (row + 1) * block_q)
        partial, full = (
            indices[row, :count]
            for indices, count in (
                (lists.kv_indices, lists.kv_num_blocks[row]),
                (lists.full_kv_indices, lists.full_kv_num_blocks[row]),
            )
        )
        assert not set(partial) & set(full) and all((np.diff(some) > 0).all() for some in (partial, full))
        for block, pattern in zip(partial, lists.kv_patterns[row]):
            part = dense[rows, block * block_kv : (block + 1) * block_kv]
            assert part.any() and not (part.all() and part.shape[1] == block_kv)
            bits = np.unpackbits(lists.patterns[pattern].view(np.uint8), axis=1, bitorder="little")
            assert bits.sum() == part.sum()  # none past the last query or key
            made[rows, block * block_kv : (block + 1) * block_kv] = bits[: part.shape[0], : part.shape[1]]
        for block in full:
            assert (block + 1) * block_kv <= mask.keys
            made[rows, block * block_kv : (block + 1) * block_kv] = True
        assert (lists.kv_indices[row, lists.kv_num_blocks[row] :] == UNDEFINED).all()
        assert (lists.full_kv_indices[row, lists.full_kv_num_blocks[row] :] == UNDEFINED).all()
    assert (made == dense).all()
    assert len({pattern.tobytes() for pattern in lists.patterns}) == len(lists.patterns)
    assert sum(lists.ledger.values()) == lists.kv_indices.size and min(lists.ledger.values()) >= 0


@given(any_mask())
def test_csr_is_the_dense_mask_and_strips_are_its_rows(mask):
    (indptr, indices), dense = masks.csr(mask), mask.dense()
    assert indptr.dtype == indices.dtype == np.int32
    for row, seen in enumerate(dense):
        assert indices[indptr[row] : indptr[row + 1]].tolist() == np.nonzero(seen)[0].tolist()
    assert mask.visible == dense.sum() == len(indices) == indptr[-1]
    assert (np.concatenate([*mask.strips(7)]) == dense).all()


def pairs(queries, keys):
    """(query, key, distance) arrays; the last query stands at the last key."""
    i, j = np.arange(queries)[:, None] + keys - queries, np.arange(keys)[None, :]
    return i, j, i - j


@pytest.mark.parametrize(("queries", "keys"), [(50, 50), (20, 50), (50, 20)])
def test_each_kind_is_what_its_name_says(queries, keys):
    i, j, far = pairs(queries, keys)
    block = np.arange(queries)[:, None] // 16, np.arange(keys)[None, :] // 16
    matrix = masks.random_blocks(-(-queries // 16), -(-keys // 16), 0.5, 3)
    due = {
        "all": far == far,
        "window": abs(far) < 8,
        "sinks": (abs(far) < 8) | (j < 3),
        "documents": np.isin(i, range(20)) & (j < 20)
        | np.isin(i, range(20, 30)) & np.isin(j, range(20, 30))
        | (i >= 30) & (j >= 30),
        "strided": (abs(far) < 8) | (j % 10 == 9),
        "dilated": np.isin(abs(far), range(0, 24, 3)),
        "hierarchical": (i // 16 == j // 16) | (j % 16 == 15),
        "blocks": np.array(matrix)[block],
    }
    assert set(due) == set(KINDS) - {"random"}
    for kind, seen in due.items():
        for causal in (False, True):
            made = Mask(kind, queries, keys, causal, 8, 3, 10, 3, (20, 10), block=16, blocks=matrix).dense()
            assert (made == (seen & (far >= 0) if causal else seen)).all(), (kind, causal)


def test_random_and_top_blocks_have_their_density_order_and_seed():
    for density in (0.02, 0.25, 0.9):
        made = Mask("random", 400, 500, False, density=density, seed=1).dense()
        assert abs(made.mean() - density) < 5 * (density * (1 - density) / made.size) ** 0.5
        assert abs(made.sum(axis=1).std() - (500 * density * (1 - density)) ** 0.5) < 1.5
        assert (made != Mask("random", 400, 500, False, density=density, seed=2).dense()).any()
    assert Mask("random", 40, 50, False, density=1.0).dense().all()
    made = np.array(masks.random_blocks(12, 16, 0.25, 5))
    assert (made.sum(axis=1) == 4).all() and len({tuple(row) for row in made}) > 1
    assert masks.random_blocks(12, 16, 0.25, 5) == masks.as_matrix(made)
    assert np.array(masks.random_blocks(3, 16, 0.001, 5)).sum() == 3
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((100, 8)), rng.standard_normal((100, 8))
    made = np.array(masks.top_blocks(q, k, 32, 2))
    assert made.shape == (4, 4) and (made.sum(axis=1) == [1, 2, 2, 2]).all() and not np.triu(made, 1).any()
    for row in range(4):
        mean = q[row * 32 : (row + 1) * 32].mean(axis=0)
        scores = [mean @ k[c * 32 : (c + 1) * 32].mean(axis=0) for c in range(row + 1)]
        assert set(np.nonzero(made[row])[0]) == set(np.argsort(scores)[::-1][:2])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "spiral"}, "mask is 'spiral'. It must be one of all, window"),
        ({"window": 0}, "window is 0. It must be 1 or more"),
        ({"documents": (3, 0)}, "Each length must be 1 or more"),
        ({"density": 0.0}, "density is 0.0. It must be above 0 and at most 1"),
        ({"sinks": -1}, "sinks is -1. It must be 0 or more"),
        ({"kind": "blocks", "blocks": ((True,),)}, "in blocks of 64 are 2 rows of 2"),
    ],
)
def test_what_cannot_be_a_mask_is_refused_with_its_value(changes, words):
    with pytest.raises(ProblemError, match=words):
        Mask(**{"kind": "window", "queries": 100, "keys": 100, **changes})


def test_no_density_and_more_pairs_than_an_index_counts_are_refused(monkeypatch):
    with pytest.raises(ProblemError, match="density is 0. It must be above 0"):
        masks.random_blocks(2, 2, 0, 0)
    monkeypatch.setattr(masks, "MOST", 5)
    with pytest.raises(ProblemError, match="6 pairs are seen. An int32 index reaches 5"):
        masks.csr(Mask("all", 3, 3))
