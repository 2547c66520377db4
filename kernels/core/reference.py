"""Attention in float64 as the truth for every kernel, and torch's own attention as the yardstick for errors."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kernels.core.dtypes import element_type

if TYPE_CHECKING:
    from torch import Tensor as TorchTensor

ROWS_AT_ONCE = 2**22  # scores held at a time: 32 MB


class Strips(Protocol):
    """A mask by rows: the visible keys of queries [first, end), bool [end - first, keys]."""

    def strip(self, first: int, end: int) -> np.ndarray: ...


def scores(q: np.ndarray, k: np.ndarray, scale: float, causal: bool, first_query: int = 0) -> np.ndarray:
    """scale * q @ k^T in float64, [..., queries, keys], with -inf for keys hidden by a causal mask.

    q: [..., queries, dim], from query `first_query` of its sequence.
    k: [..., keys, dim], from key 0."""
    s = scale * (np.asarray(q, np.float64) @ np.swapaxes(np.asarray(k, np.float64), -1, -2))
    return np.where(np.tri(s.shape[-2], s.shape[-1], first_query, dtype=bool), s, -np.inf) if causal else s


def softmax(s: np.ndarray) -> np.ndarray:
    """exp(s - m) / sum(exp(s - m)) over the last axis, m the largest of each row."""
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def prefix_max_and_sum(row_scores: np.ndarray, ends: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The running max m and sum l of an online softmax after the keys [0, end), for each end.

    row_scores: [keys] float64. Returns two float64 arrays of len(ends).
    Source: Milakov and Gimelshein 2018, Algorithm 3."""
    m = np.maximum.accumulate(row_scores)[np.asarray(ends) - 1]
    return m, np.array([np.exp(row_scores[:end] - top).sum() for end, top in zip(ends, m)])


def decode_scores(q: np.ndarray, k: np.ndarray, scale: float, slopes: np.ndarray, soft_cap: float = 0.0) -> np.ndarray:
    """The scores of one query over its whole context in float64, [num_heads, length].

    q: [num_heads, head_dim].
    k: [length, num_kv_heads, head_dim]. num_heads / num_kv_heads neighbouring query heads read one KV head.
    slopes: [num_heads], ALiBi's, each times a token's distance to the last one (0 or less).
    soft_cap: the limit of a score by tanh before ALiBi, or 0."""
    grouped = np.asarray(q, np.float64).reshape(k.shape[1], -1, k.shape[2])
    s = scale * (grouped @ np.asarray(k, np.float64).transpose(1, 2, 0)).reshape(len(q), len(k))
    if soft_cap:
        s = soft_cap * np.tanh(s / soft_cap)
    return s + np.asarray(slopes, np.float64)[:, None] * np.arange(1 - len(k), 1)


def decode_attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, slopes: np.ndarray, soft_cap: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """(o [num_heads, head_dim], lse [num_heads]) of one query over its whole context in float64, from decode_scores."""
    s = decode_scores(q, k, scale, slopes, soft_cap)
    m = s.max(axis=1)
    lse = m + np.log(np.exp(s - m[:, None]).sum(axis=1))
    weights = np.exp(s - lse[:, None]).reshape(v.shape[1], -1, len(v))
    return (weights @ np.asarray(v, np.float64).transpose(1, 0, 2)).reshape(q.shape), lse


def grouped_attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, causal: bool, on_gpu: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """(o, lse) in float64: o of the shape of q, lse [batch, num_heads, queries].

    q: [batch, num_heads, queries, head_dim].
    k, v: [batch, num_kv_heads, keys, head_dim] of any float type.
    The causal mask ends at the last key. A row without a visible key has o 0 and lse -inf."""
    o, lse = grouped_tensors(q, k, v, scale, causal, "cuda" if on_gpu else "cpu")
    return o.cpu().numpy(), lse.cpu().numpy()


def grouped_tensors(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, causal: bool, device: str
) -> "tuple[TorchTensor, TorchTensor]":
    """The same as torch tensors on a device, a block of rows at a time."""
    import torch

    queries, keys, values = (on_device(a, device).to(torch.float64) for a in (q, k, v))
    o, lse = torch.empty_like(queries), torch.empty(q.shape[:3], dtype=torch.float64, device=device)
    count, length, group = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    rows = max(1, (8 if device == "cuda" else 1) * ROWS_AT_ONCE // length)
    for b, h in np.ndindex(q.shape[:2]):
        for first in range(0, count, rows):
            end = min(count, first + rows)
            s = scale * (queries[b, h, first:end] @ keys[b, h // group].T)
            if causal:
                s.masked_fill_(~seen(first, end, length, length - count, device), -torch.inf)
            lse[b, h, first:end] = torch.logsumexp(s, -1)
            o[b, h, first:end] = torch.softmax(s, -1) @ values[b, h // group]
    o[torch.isneginf(lse)] = 0
    return o, lse


def torch_grouped_attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, causal: bool, device: str = "cpu"
) -> tuple[np.ndarray, np.ndarray]:
    """`grouped_attention` by torch in the arrays' own type. o comes from scaled_dot_product_attention, lse from
    products of that type with sums in float32."""
    import torch

    group, offset = q.shape[1] // k.shape[1], k.shape[2] - q.shape[2]
    queries, keys, values = (on_device(a, device) for a in (q, k, v))
    keys, values = (a.repeat_interleave(group, 1) for a in (keys, values))
    mask = seen(0, q.shape[2], k.shape[2], offset, device) if causal and offset else None
    with torch.inference_mode():
        o = torch.nn.functional.scaled_dot_product_attention(
            queries, keys, values, mask, scale=scale, is_causal=causal and mask is None
        )
        lse = torch.stack(
            [_lse(*pair, scale, causal, offset) for pair in zip(queries.flatten(0, 1), keys.flatten(0, 1))]
        )
        lse = lse.reshape(q.shape[:3])
        o[torch.isneginf(lse)] = 0
    return on_host(o), lse.cpu().numpy()


def masked_attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    scale: float,
    masks: Sequence[Strips],
    sinks: np.ndarray,
    on_gpu: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """(o, lse) in float64 as in grouped_attention, with any mask.

    masks: one for all heads, or one for each head, batch by batch.
    sinks: [num_heads] logits, -inf for none. Each adds e^sink to the sums of its head's rows, without a value.
    A row without a visible key has o 0, and lse -inf if it has no sink."""
    import torch

    device = "cuda" if on_gpu else "cpu"
    queries, keys, values = (on_device(a, device).to(torch.float64) for a in (q, k, v))
    o, lse = torch.zeros_like(queries), torch.empty(q.shape[:3], dtype=torch.float64, device=device)
    logits = torch.from_numpy(sinks.astype(np.float64)).to(device)
    count, length, group = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    rows = max(1, (8 if on_gpu else 1) * ROWS_AT_ONCE // length)
    for first in range(0, count, rows):
        end, kept = min(count, first + rows), None
        for head, (b, h) in enumerate(np.ndindex(q.shape[:2])):
            if kept is None or len(masks) > 1:
                kept = _strip(masks, head, first, end, device)
            s = scale * (queries[b, h, first:end] @ keys[b, h // group].T)
            s.masked_fill_(~kept, -torch.inf)
            total = torch.logaddexp(torch.logsumexp(s, -1), logits[h])
            lse[b, h, first:end] = total
            weights = torch.exp(s - torch.where(total.isneginf(), 0.0, total)[:, None])
            o[b, h, first:end] = weights @ values[b, h // group]
    return o.cpu().numpy(), lse.cpu().numpy()


def torch_masked_attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    scale: float,
    masks: Sequence[Strips],
    sinks: np.ndarray,
    device: str = "cpu",
) -> tuple[np.ndarray, np.ndarray]:
    """`masked_attention` by torch in the arrays' own type, as torch_grouped_attention, with a dense mask. A sink is one
    more key, with the logit as its score and the value 0."""
    import torch

    group = q.shape[1] // k.shape[1]
    queries, keys, values = (on_device(a, device) for a in (q, k, v))
    o, lse = torch.empty_like(queries), torch.empty(q.shape[:3], dtype=torch.float32, device=device)
    kept = None
    for head, (b, h) in enumerate(np.ndindex(q.shape[:2])):
        if kept is None or len(masks) > 1:
            kept = _strip(masks, head, 0, q.shape[2], device)
        bias = torch.zeros(kept.shape, dtype=queries.dtype, device=device).masked_fill_(~kept, -torch.inf)
        one, key, value = queries[b, h], keys[b, h // group], values[b, h // group]
        row = torch.logsumexp((scale * _product(one, key)).masked_fill_(~kept, -torch.inf), -1)
        if np.isfinite(sinks[h]):
            logit = torch.full((len(one), 1), float(sinks[h]), device=device)
            row = torch.logaddexp(row, logit[:, 0])
            bias = torch.cat([bias, logit.to(bias.dtype)], 1)
            key, value = (torch.cat([a, torch.zeros_like(a[:1])]) for a in (key, value))
        with torch.inference_mode():
            made = torch.nn.functional.scaled_dot_product_attention(
                one[None, None], key[None, None], value[None, None], bias[None, None], scale=scale
            )
        o[b, h] = torch.where(row.isneginf()[:, None], 0, made[0, 0])
        lse[b, h] = row
    return on_host(o), lse.cpu().numpy()


def _strip(masks: Sequence[Strips], head: int, first: int, end: int, device: str) -> "TorchTensor":
    import torch

    return torch.from_numpy(masks[head % len(masks)].strip(first, end).copy()).to(device)


def _product(q: "TorchTensor", k: "TorchTensor") -> "TorchTensor":
    """q @ k^T added up in float32. On a GPU the tensor cores multiply 16-bit numbers, as in the kernels."""
    import torch

    on_tensor_cores = q.is_cuda and q.element_size() == 2
    return torch.mm(q, k.T, out_dtype=torch.float32) if on_tensor_cores else q.float() @ k.float().T


def _lse(q: "TorchTensor", k: "TorchTensor", scale: float, causal: bool, offset: int) -> "TorchTensor":
    import torch

    s = scale * _product(q, k)
    if causal:
        s.masked_fill_(~seen(0, len(q), len(k), offset, str(q.device)), -torch.inf)
    return torch.logsumexp(s, -1)


def seen(first: int, end: int, keys: int, offset: int, device: str) -> "TorchTensor":
    """Which keys the queries [first, end) see under a causal mask, bool [end - first, keys]."""
    import torch

    return torch.arange(keys, device=device) <= torch.arange(first, end, device=device)[:, None] + offset


def on_device(array: np.ndarray, device: str) -> "TorchTensor":
    """An array as a torch tensor on a device, in its own type. bfloat16 and float8 go to torch as bits."""
    import torch

    kind, array = element_type(array.dtype), np.ascontiguousarray(array)
    bits = array.view(f"u{kind.bytes}") if array.dtype.kind == "V" else array
    return torch.from_numpy(bits).to(device).view(getattr(torch, kind.torch))


def on_host(tensor: "TorchTensor") -> np.ndarray:
    import torch

    tensor = tensor.detach().cpu().contiguous()
    kind = element_type(str(tensor.dtype).removeprefix("torch."))
    if tensor.dtype in (torch.bfloat16, torch.float8_e4m3fn):
        return tensor.view(getattr(torch, f"uint{8 * kind.bytes}")).numpy().view(kind.numpy)
    return tensor.numpy()
