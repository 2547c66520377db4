"""FlashInfer over a paged cache and over masks: asked with a module that stands for it, which reads pages, layouts and
plans as its documentation has them, in float64 by torch."""

import sys
from types import ModuleType

import numpy as np
import pytest
import torch

from kernels.errors import OutOfMemory, PeerUnavailable
from kernels.families.paged import CascadeProblem, PagedProblem, RangesProblem
from kernels.families.sparse.problem import MaskedProblem
from kernels.measure import flashinfer_calls, peers

FP8 = "float8_e4m3"


def attention(q, k, v, scale, seen=None, cap=0.0):
    """(O, the scores' log-sum-exp to base 2) of q [queries, heads, dim], k and v [keys, kv_heads, dim], in float64."""
    group = q.shape[1] // k.shape[1]
    q, k, v = (t.double() for t in (q, k, v))
    k, v = (t.repeat_interleave(group, 1) for t in (k, v))
    s = scale * torch.einsum("qhd,khd->hqk", q, k)
    s = cap * torch.tanh(s / cap) if cap else s
    s = s if seen is None else s.masked_fill(~seen, -torch.inf)
    return torch.einsum("hqk,khd->qhd", torch.softmax(s, -1), v), torch.logsumexp(s, -1).T / np.log(2)


def window(queries, keys, left):
    """Keys that end with the queries, of which each sees its own and `left` before it; -1 for all before it."""
    at, key = torch.arange(queries)[:, None] + keys - queries, torch.arange(keys)
    return (key <= at) & ((key >= at - left) if left >= 0 else True)


class Paged:
    """A cache in one of FlashInfer's layouts, as its tutorial has it."""

    def __init__(self, workspace, layout, use_tensor_cores=False, backend="auto"):
        assert workspace.dtype == torch.uint8 and not workspace.any() and layout in ("NHD", "HND")
        self.layout, self.backend, self.tensor_cores = layout, backend, use_tensor_cores
        made.append(self)

    def plan(self, *tables, sm_scale, q_data_type, kv_data_type, window_left=-1, logits_soft_cap=0.0):
        *tables, heads, kv_heads, dim, page = tables
        assert all(t.dtype == torch.int32 for t in tables)
        *queries, indptr, indices, lasts = (t.tolist() for t in tables)
        self.queries = queries[0] if queries else list(range(len(indptr)))
        assert len(indptr) == len(self.queries) == len(lasts) + 1 and all(1 <= n <= page for n in lasts)
        self.rows = [indices[a:b] for a, b in zip(indptr, indptr[1:])]
        self.lengths = [(len(row) - 1) * page + last for row, last in zip(self.rows, lasts)]
        self.sizes, self.types, self.scale = (heads, kv_heads, dim, page), (q_data_type, kv_data_type), sm_scale
        self.left, self.cap = window_left, logits_soft_cap

    def run(self, q, caches, return_lse=False):
        heads, kv_heads, dim, page = self.sizes
        assert q.dtype == self.types[0] and q.shape[1:] == (heads, dim) and q.is_contiguous()
        for cache in caches:
            shape = (page, kv_heads, dim) if self.layout == "NHD" else (kv_heads, page, dim)
            assert cache.dtype == self.types[1] and cache.shape[1:] == shape and cache.is_contiguous()
            assert torch.isfinite(cache.float()).all()
        parts = []
        for n, (row, length) in enumerate(zip(self.rows, self.lengths)):
            k, v = (gathered(cache, row, length, self.layout) for cache in caches)
            mine = q[self.queries[n] : self.queries[n + 1]]
            seen = window(len(mine), length, self.left) if self.left >= 0 else None
            parts.append(attention(mine, k, v, self.scale, seen, self.cap))
        o, lse = (torch.cat(some) for some in zip(*parts))
        return (o, lse) if return_lse else o.to(q.dtype)


def gathered(cache, row, length, layout):
    pages = cache.float()[torch.tensor(row)]
    return (pages if layout == "NHD" else pages.transpose(1, 2)).flatten(0, 1)[:length]


class Cascade:
    def __init__(self, levels, workspace, layout):
        self._batch_prefill_wrappers = [Paged(workspace, layout) for _ in range(levels)]

    def plan(self, *arguments, **more):
        lists, sizes = arguments[:4], arguments[4:]
        assert all(isinstance(one, list) and len(one) == len(self._batch_prefill_wrappers) for one in lists)
        for wrapper, *tables in zip(self._batch_prefill_wrappers, *lists):
            wrapper.plan(*tables, *sizes, **more)

    def run(self, q, caches):
        parts = [wrapper.run(q, caches, return_lse=True) for wrapper in self._batch_prefill_wrappers]
        o, lse = (torch.stack(some) for some in zip(*parts))
        return (o * torch.softmax(lse * np.log(2), 0)[..., None]).sum(0).to(q.dtype)


class Sparse:
    def __init__(self, workspace):
        assert workspace.dtype == torch.uint8

    def plan(
        self, indptr, indices, m, n, r, c, heads, kv_heads, dim, sm_scale=None, q_data_type=None, o_data_type=None
    ):
        assert indptr.dtype == indices.dtype == torch.int32 and q_data_type == o_data_type
        self.seen, self.scale = torch.zeros(m, n, dtype=bool), sm_scale
        for row, (a, b) in enumerate(zip(indptr, indptr[1:])):
            for column in indices[a:b]:
                self.seen[row * r : (row + 1) * r, column * c : (column + 1) * c] = True

    def run(self, q, k, v):
        return attention(q, k, v, self.scale, self.seen)[0].to(q.dtype)


class Ragged:
    def __init__(self, workspace, layout):
        assert layout == "NHD"

    def plan(self, qo, kv, heads, kv_heads, dim, causal, sm_scale, window_left, q_data_type):
        assert causal
        self.planned = qo.tolist(), kv.tolist(), sm_scale, window_left

    def run(self, q, k, v):
        qo, kv, scale, left = self.planned
        spans = zip(zip(qo, qo[1:]), zip(kv, kv[1:]))
        parts = [attention(q[a:b], k[c:d], v[c:d], scale, window(b - a, d - c, left))[0] for (a, b), (c, d) in spans]
        return torch.cat(parts).to(q.dtype)


def xqa(q, caches, workspace, tables, lengths, longest, bmm1_scale, window_left, kv_layout):
    assert not workspace.any() and tables.dtype == lengths.dtype == torch.int32 and longest == lengths.max()
    assert (tables >= 0).all()
    rows = []
    for n, (row, length) in enumerate(zip(tables, lengths)):
        k, v = (gathered(cache, row.tolist(), int(length), kv_layout) for cache in caches)
        seen = window(1, int(length), window_left)
        rows.append(attention(q[n : n + 1], k, v, bmm1_scale, seen)[0])
    return torch.cat(rows).to(q.dtype)


made = []  # the wrappers over a paged cache, in order


@pytest.fixture(autouse=True)
def flashinfer(monkeypatch):
    """A module that stands for FlashInfer, and the CPU for the GPU."""
    made.clear()
    module, decode = ModuleType("flashinfer"), ModuleType("flashinfer.decode")
    module.BatchDecodeWithPagedKVCacheWrapper = module.BatchPrefillWithPagedKVCacheWrapper = Paged
    module.MultiLevelCascadeAttentionWrapper = Cascade
    module.BlockSparseAttentionWrapper, module.BatchPrefillWithRaggedKVCacheWrapper = Sparse, Ragged
    decode.xqa_batch_decode_with_kv_cache = xqa
    monkeypatch.setitem(sys.modules, "flashinfer", module)
    monkeypatch.setitem(sys.modules, "flashinfer.decode", decode)
    monkeypatch.setattr(peers, "installed", lambda name: True)
    monkeypatch.setattr(flashinfer_calls, "WORKSPACE", 64)
    there = peers.on_device
    monkeypatch.setattr(peers, "on_device", lambda array, device: there(array, "cpu"))
    monkeypatch.setattr(flashinfer_calls, "on_device", lambda array, device: there(array, "cpu"))
    for said in ("empty_cache", "reset_peak_memory_stats", "synchronize", "memory_allocated", "max_memory_allocated"):
        monkeypatch.setattr(torch.cuda, said, lambda: 0)


def answer(name, problem):
    peer = peers.peer(name, problem, problem.inputs())
    (found,) = peer.first_run().values()
    return peer, found


DECODED = {
    "ragged": PagedProblem((40, 5, 70, 1), 8, 2, 64, 16, "float16"),
    "a page of 8, one KV head": PagedProblem((8, 9, 7), 4, 1, 64, 8, "float16", seed=3),
    "no groups, a page of 64": RangesProblem((64, 65, 200), 4, 4, 128, 64, "float16"),
    "a window": RangesProblem((40, 5, 70), 8, 2, 64, 16, "float16", window=33),
    "bfloat16": RangesProblem((40, 17), 8, 2, 64, 16, "bfloat16"),
    "8 bits": RangesProblem((40, 5, 70), 8, 2, 64, 16, "float16", cache_dtype=FP8),
    "a prefix": CascadeProblem((70, 52, 81, 49), 8, 2, 64, 16, "float16", prefix=48),
}


@pytest.mark.parametrize("name", peers.PAGED)
@pytest.mark.parametrize("which", DECODED)
def test_every_way_reads_our_pages_and_answers_within_what_a_kernel_is_allowed(name, which):
    problem = DECODED[which]
    if name not in peers.asked_of(problem):
        assert "cascade" in name and not isinstance(problem, CascadeProblem)
        return
    peer, found = answer(name, problem)
    assert found.shape == problem.shape
    true, torchs = problem.truth()["o"], problem.yardstick()["o"].astype(np.float64)
    allowed = 2 * np.abs(torchs - true).max() + 2**-23 * problem.largest_terms()["o"]
    assert np.abs(found.astype(np.float64) - true).max() <= allowed
    assert peer.set_bytes >= sum(problem.inputs()[cache].nbytes for cache in ("k_cache", "v_cache"))
    work = problem.work.touched
    assert peer.moved_bytes == 2 * problem.inputs()["q"].nbytes + sum(work.values())


def test_each_name_is_a_layout_and_a_way_of_its_own():
    problem = CascadeProblem()
    said = set()
    for name in peers.PAGED:
        made.clear()
        answer(name, problem)
        said.add((flashinfer_calls.ways(name), *((w.layout, w.tensor_cores, w.backend) for w in made[-2:])))
        layout, way = flashinfer_calls.ways(name)
        assert peers.PAGED[name].endswith(f" ({layout})")
        if way not in ("xqa",):
            assert made[-1].layout == layout
            assert made[-1].tensor_cores == (way in ("tensor_cores", "fa3"))
            backends = {"tensor_cores": "fa2", "fa3": "fa3", "cuda_cores": "auto"}
            assert made[-1].backend == backends.get(way, way.removeprefix("cascade_"))
    assert len(said) == len(peers.PAGED)


@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("dtype", ["float16", FP8])
@pytest.mark.parametrize(("size", "dim"), [(16, 64), (8, 128), (64, 64)])
def test_a_cache_is_copied_slot_by_slot(layout, dtype, size, dim):
    more = {"cache_dtype": FP8} if dtype == FP8 and size > 8 else {}
    problem = RangesProblem((size + 3, 2 * size, 1), 4, 2, dim, size, "float16", seed=5, **more)
    arrays = problem.inputs()
    made_ = [flashinfer_calls.as_pages(peers.on_device(arrays[n], "cpu"), layout) for n in ("k_cache", "v_cache")]
    for table, length in zip(problem.block_tables, problem.context_lens):
        pair = problem.layout.gather(arrays["k_cache"], arrays["v_cache"], table, length)
        for ours, theirs in zip(pair, made_):
            assert (gathered(theirs, list(table), length, layout).numpy() == ours.astype(np.float32)).all()
    assert all(cache.is_contiguous() and torch.isfinite(cache.float()).all() for cache in made_)


def test_a_cascade_reads_the_prefix_once_and_is_not_asked_without_one():
    problem = CascadeProblem((70, 52, 81, 49), 8, 2, 64, 16, "float16", prefix=48)
    answer("flashinfer_hnd_cascade_fa2", problem)
    first, rest = made[-2:]
    assert first.queries == [0, 4] and first.rows == [list(problem.block_tables[0][:3])] and first.lengths == [48]
    assert rest.queries == [0, 1, 2, 3, 4] and rest.lengths == [22, 4, 33, 1]
    tables = ((0, 1, 2, 3), (0, 1, 4), (7, 8), (7, 9))
    two = CascadeProblem((60, 40, 20, 17), block_tables=tables, families=(1, 1, 2, 2))
    with pytest.raises(PeerUnavailable, match="needs a prefix that all sequences share"):
        answer("flashinfer_nhd_cascade_fa3", two)


def test_what_a_way_does_not_have_is_told():
    capped = RangesProblem((40, 5), 8, 2, 64, 16, "float16", soft_cap=20.0)
    with pytest.raises(PeerUnavailable, match="no soft cap"):
        answer("flashinfer_nhd_xqa", capped)
    true = capped.truth()["o"]
    assert np.abs(answer("flashinfer_nhd_cuda_cores", capped)[1] - true).max() < 2e-3
    with pytest.raises(PeerUnavailable, match="without ALiBi"):
        answer("flashinfer_nhd_cuda_cores", PagedProblem((40,), 8, 2, 64, 16, "float16", alibi=True))
    with pytest.raises(PeerUnavailable, match="computes fp16 and bf16"):
        answer("flashinfer_nhd_cuda_cores", PagedProblem((40,), 8, 2, 64, 16, "float32"))


def test_an_error_of_its_own_is_told_with_its_class_and_no_memory_is_no_room(monkeypatch):
    problem = PagedProblem((40,), 8, 2, 64, 16, "float16")

    def fail(*a, **k):
        raise ValueError("a module that is not there")

    monkeypatch.setattr(Paged, "plan", fail)
    with pytest.raises(PeerUnavailable, match="flashinfer_nhd_fa3: ValueError: a module that is not there"):
        answer("flashinfer_nhd_fa3", problem)

    def full(*a, **k):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(Paged, "plan", full)
    with pytest.raises(OutOfMemory, match="flashinfer_nhd_fa3 ran out of memory"):
        answer("flashinfer_nhd_fa3", problem)


@pytest.mark.parametrize(
    "fields",
    [
        {"mask": "window", "window": 40},
        {"mask": "window", "window": 1, "batch": 2},
        {"mask": "all"},
        {"mask": "random_blocks", "density": 0.3, "causal": False, "mask_block": 32, "seq_len": 128},
        {"mask": "drawn", "drawn": ((0, 2), (3,), (1,), (0, 1, 3)), "causal": False, "mask_block": 32, "seq_len": 128},
    ],
)
@pytest.mark.parametrize("kv_heads", [2, 4])
def test_windows_and_whole_blocks_are_asked_and_answered(fields, kv_heads):
    problem = MaskedProblem(**{"seq_len": 100, "head_dim": 64, "num_heads": 4, "num_kv_heads": kv_heads, **fields})
    _, found = answer("flashinfer", problem)
    true = problem.truth()["o"]
    assert found.shape == true.shape and np.abs(found.astype(np.float64) - true).max() < 2e-3


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"mask": "sinks"}, "only causal windows and masks of whole blocks"),
        ({"mask": "window", "causal": False}, "only causal windows and masks of whole blocks"),
        ({"mask": "random_blocks", "causal": True}, "only causal windows and masks of whole blocks"),
        ({"mask": "random_blocks", "causal": False, "seq_len": 100}, "one sequence of whole blocks"),
        ({"mask": "random_blocks", "causal": False, "seq_len": 128, "batch": 2}, "one sequence of whole blocks"),
        ({"mask": "drawn", "causal": False, "seq_len": 128, "drawn": ((0,), ())}, "a visible key for every query"),
    ],
)
def test_other_masks_are_not_asked_of_it(fields, words):
    problem = MaskedProblem(**{"seq_len": 384, "head_dim": 64, "num_heads": 2, **fields})
    with pytest.raises(PeerUnavailable, match=words):
        answer("flashinfer", problem)
