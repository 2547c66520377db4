"""FlashInfer's functions, each planned for tensors of the given shapes and then called with them.

The package is flashinfer-python on PyPI. The calls request only O, because its log-sum-exp has base 2. Over a paged
cache it has several ways, and each has its own name and time (DECODE, CASCADE). Its caches are [pages, slots, KV
heads, dim] (NHD) or [pages, KV heads, slots, dim] (HND). Before the run, our caches are copied into them page by page,
with zeros in slots without a token.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.core.masks import Mask
from kernels.core.paged import CacheCall
from kernels.core.reference import on_device
from kernels.errors import PeerUnavailable

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Run = Callable[..., "Tensor"]
Options = dict[str, Any]  # of Problem.peer_inputs
WORKSPACE = 2**28  # bytes for its plans
LAYOUTS = ("nhd", "hnd")
DECODE = {"cuda_cores": "CUDA cores", "tensor_cores": "tensor cores", "fa3": "FA3", "xqa": "XQA"}
CASCADE = {"cascade_fa2": "cascade FA2", "cascade_fa3": "cascade FA3"}
PAGED = {
    f"flashinfer_{layout}_{way}": f"FlashInfer {words} ({layout.upper()})"
    for way, words in {**DECODE, **CASCADE}.items()
    for layout in LAYOUTS
}
"""Its ways over a paged cache: name of the peer -> the same in words."""


def ways(name: str) -> tuple[str, str]:
    """(layout, way) of a name of PAGED."""
    _, layout, way = name.split("_", 2)
    return layout.upper(), way


def other_layout(name: str) -> str:
    """The name of PAGED of the same way over the other layout."""
    here = ways(name)[0].lower()
    there = next(layout for layout in LAYOUTS if layout != here)
    return name.replace(f"_{here}_", f"_{there}_")


# ---- whole tensors: [batch, tokens, heads, dim] ----


def ragged(tensors: list["Tensor"], options: Options, window: int = 0) -> Run:
    """A function of q, k and v that computes O in q's shape. window: with a causal mask, the number of visible keys of
    a query, its own included. 0 means all."""
    import torch
    from flashinfer import BatchPrefillWithRaggedKVCacheWrapper

    (batch, queries, heads, dim), (keys, kv_heads) = tensors[0].shape, tensors[1].shape[1:3]
    wrapper = BatchPrefillWithRaggedKVCacheWrapper(_workspace(tensors[0].device), "NHD")
    begins = torch.arange(batch + 1, dtype=torch.int32, device=tensors[0].device)
    wrapper.plan(
        begins * queries,
        begins * keys,
        heads,
        kv_heads,
        dim,
        causal=options.get("is_causal", False),
        sm_scale=options["scale"],
        window_left=window - 1,
        q_data_type=tensors[0].dtype,
    )

    def run(q: "Tensor", k: "Tensor", v: "Tensor") -> "Tensor":
        return wrapper.run(*(t.flatten(0, 1) for t in (q, k, v))).view(q.shape)

    return run


def masked(mask: Mask, tensors: list["Tensor"], options: Options) -> Run:
    """The same over a mask (core.masks.Mask): a causal window, or whole blocks. PeerUnavailable for any
    other."""
    if mask.kind in ("all", "window") and mask.causal:
        return ragged(tensors, {**options, "is_causal": True}, mask.window if mask.kind == "window" else 0)
    if mask.kind != "blocks" or mask.causal:
        raise PeerUnavailable("FlashInfer runs only causal windows and masks of whole blocks.")
    return block_sparse(mask, tensors, options)


def block_sparse(mask: Mask, tensors: list["Tensor"], options: Options) -> Run:
    """The same for the visible blocks of a mask, as a block-sparse matrix (BSR)."""
    import torch
    from flashinfer import BlockSparseAttentionWrapper

    (batch, queries, heads, dim), (keys, kv_heads) = tensors[0].shape, tensors[1].shape[1:3]
    if batch > 1 or queries % mask.block or keys % mask.block:
        raise PeerUnavailable("FlashInfer's block-sparse attention runs only one sequence of whole blocks.")
    seen = torch.from_numpy(mask.block_array)
    if not seen.any(1).all():
        raise PeerUnavailable("FlashInfer's block-sparse attention needs a visible key for every query.")
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), seen.sum(1).cumsum(0)])
    device = tensors[0].device
    wrapper = BlockSparseAttentionWrapper(_workspace(device))
    wrapper.plan(
        indptr.to(device, torch.int32),
        seen.nonzero()[:, 1].to(device, torch.int32),
        queries,
        keys,
        mask.block,
        mask.block,
        heads,
        kv_heads,
        dim,
        sm_scale=options["scale"],
        q_data_type=tensors[0].dtype,
        o_data_type=tensors[0].dtype,
    )
    return lambda q, k, v: wrapper.run(q[0], k[0], v[0])[None]


# ---- a paged cache ----


def cache_tensors(name: str, call: CacheCall, device: str) -> tuple[list["Tensor"], np.ndarray]:
    """([q, K, V] on the device in the layout of a name of PAGED, a factor of the resulting O: float32 [num_heads, 1]).

    Our 8-bit cache has a scale for each KV head, and FlashInfer's has one for all. The rest of K's scales is
    multiplied into q before the run, and the rest of V's into O after it."""
    layout, _ = ways(name)
    group = call.q.shape[1] // len(call.k_scale)
    rest = np.repeat(call.k_scale / call.k_scale.max(), group)[:, None]
    q = call.q if (rest == 1).all() else (call.q.astype(np.float32) * rest).astype(call.q.dtype)
    caches = (as_pages(on_device(cache, device), layout) for cache in (call.k_cache, call.v_cache))
    return [on_device(q, device), *caches], np.repeat(call.v_scale, group)[:, None]


def planned(name: str, call: CacheCall, tensors: list["Tensor"]) -> Run:
    """A function of these q, K and V that computes O [num_seqs, num_heads, dim] in the way of a name of PAGED."""
    layout, way = ways(name)
    plan = cascade if way in CASCADE else xqa if way == "xqa" else decode
    return plan(tensors, call, layout, way, call.scale * float(call.k_scale.max()))


def as_pages(cache: "Tensor", layout: str) -> "Tensor":
    """Our cache (kv_cache.Layout, K or V) as FlashInfer's, contiguous, with zeros for NaN."""
    import torch

    bits = cache.view(torch.uint8) if cache.element_size() == 1 else cache  # PyTorch moves few fp8 tensors
    pages = bits.permute(0, 1, 3, 2, 4).flatten(3) if bits.dim() == 5 else bits.transpose(2, 3)  # HND
    pages = (pages.transpose(1, 2) if layout == "NHD" else pages).contiguous()
    if pages.dtype == torch.uint8:
        return pages.masked_fill_((pages & 0x7F) == 0x7F, 0).view(cache.dtype)  # e4m3's NaN
    return pages.nan_to_num_(0.0)


def decode(tensors: list["Tensor"], call: CacheCall, layout: str, way: str, scale: float) -> Run:
    """A function of q, K and V by BatchDecodeWithPagedKVCacheWrapper."""
    from flashinfer import BatchDecodeWithPagedKVCacheWrapper

    q, k, _ = tensors
    wrapper = BatchDecodeWithPagedKVCacheWrapper(
        _workspace(q.device),
        layout,
        use_tensor_cores=way != "cuda_cores",
        backend={"tensor_cores": "fa2", "fa3": "fa3"}.get(way, "auto"),
    )
    wrapper.plan(
        *_pages(call.tables, _lasts(call), q.device),
        *_sizes(tensors, call),
        window_left=call.window - 1,
        logits_soft_cap=call.soft_cap,
        sm_scale=scale,
        q_data_type=q.dtype,
        kv_data_type=k.dtype,
    )
    return lambda q, k, v: wrapper.run(q, (k, v))


def xqa(tensors: list["Tensor"], call: CacheCall, layout: str, way: str, scale: float) -> Run:
    """The same with xqa_batch_decode_with_kv_cache, without a plan."""
    import torch
    from flashinfer.decode import xqa_batch_decode_with_kv_cache

    if call.soft_cap:
        raise PeerUnavailable("FlashInfer's XQA kernel has no soft cap.")
    device = tensors[0].device
    tables = torch.zeros(len(call.tables), max(map(len, call.tables)), dtype=torch.int32)
    for row, pages in zip(tables, call.tables):
        row[: len(pages)] = torch.tensor(pages, dtype=torch.int32)
    tables, lengths = tables.to(device), torch.tensor(call.lengths, dtype=torch.int32, device=device)
    workspace = torch.zeros(WORKSPACE, dtype=torch.uint8, device=device)

    def run(q: "Tensor", k: "Tensor", v: "Tensor") -> "Tensor":
        return xqa_batch_decode_with_kv_cache(
            q,
            (k, v),
            workspace,
            tables,
            lengths,
            max(call.lengths),
            bmm1_scale=scale,
            window_left=call.window - 1,
            kv_layout=layout,
        )

    return run


def cascade(tensors: list["Tensor"], call: CacheCall, layout: str, way: str, scale: float) -> Run:
    """The same with MultiLevelCascadeAttentionWrapper: the common prefix once for all sequences, then the rest of
    each."""
    import torch
    from flashinfer import BatchPrefillWithPagedKVCacheWrapper, MultiLevelCascadeAttentionWrapper

    if not call.prefix:
        raise PeerUnavailable("FlashInfer's cascade needs a prefix that all sequences share.")
    q, k, _ = tensors
    seqs, workspace = len(call.lengths), _workspace(q.device)
    wrapper = MultiLevelCascadeAttentionWrapper(2, workspace, layout)
    wrapper._batch_prefill_wrappers = [  # it offers no choice of the template
        BatchPrefillWithPagedKVCacheWrapper(workspace, layout, backend=way.removeprefix("cascade_")) for _ in range(2)
    ]
    first = _pages([call.tables[0][: call.prefix]], [call.block_size], q.device)
    rest = _pages([row[call.prefix :] for row in call.tables], _lasts(call), q.device)
    queries = [torch.tensor([0, seqs]), torch.arange(seqs + 1)]
    wrapper.plan(
        [row.to(q.device, torch.int32) for row in queries],
        *map(list, zip(first, rest)),
        *_sizes(tensors, call),
        sm_scale=scale,
        logits_soft_cap=call.soft_cap,
        q_data_type=q.dtype,
        kv_data_type=k.dtype,
    )
    return lambda q, k, v: wrapper.run(q, (k, v))


def _pages(tables: Sequence[Sequence[int]], lasts: Sequence[int], device: "torch.device") -> list["Tensor"]:
    """(indptr, indices, tokens in each last page) of block tables."""
    import torch

    indptr = [0, *np.cumsum([len(row) for row in tables]).tolist()]
    rows = (indptr, [page for row in tables for page in row], lasts)
    return [torch.tensor(row, dtype=torch.int32, device=device) for row in rows]


def _lasts(call: CacheCall) -> list[int]:
    """Tokens in the last page of each sequence."""
    return [(length - 1) % call.block_size + 1 for length in call.lengths]


def _sizes(tensors: list["Tensor"], call: CacheCall) -> tuple[int, int, int, int]:
    """Query heads, KV heads, dim and slots per page."""
    _, heads, dim = tensors[0].shape
    return heads, len(call.k_scale), dim, call.block_size


def _workspace(device: "torch.device") -> "Tensor":
    """It must start with zeros (a rule of FlashInfer)."""
    import torch

    return torch.zeros(WORKSPACE, dtype=torch.uint8, device=device)
