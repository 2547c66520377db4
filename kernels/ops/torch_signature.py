"""scaled_dot_product_attention with torch's own signature and torch's own rules, by the kernels of `attention`."""

import torch

from kernels.errors import ProblemError
from kernels.ops.attention import attention

Tensor = torch.Tensor
NO_KERNEL = "No kernel takes this mask. Call torch's scaled_dot_product_attention."


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention, with the same arguments and one output.

    query: [..., heads, queries, head_dim], or [batch, queries, head_dim].
    key, value: [..., kv_heads, keys, head_dim]. kv_heads differs from heads only with enable_gqa.
    attn_mask: None, or a mask that hides whole keys of a sequence (padding), alone or with a causal mask. Booleans, or
        0 and -inf.
    is_causal: query i sees the keys up to i, counted from the first key. `attention` counts from the last one.

    Raises ProblemError for dropout and for other masks, NoKernel if no kernel fits.
    """
    if dropout_p:
        raise ProblemError(f"dropout_p is {dropout_p}. The kernels have no dropout.")
    if attn_mask is not None and is_causal:
        raise ProblemError("attn_mask and is_causal are both given. Pass one of them, as for torch's function.")
    if query.dim() != key.dim() or key.shape != value.shape or query.dim() < 3:
        shapes = f"query is {list(query.shape)}, key {list(key.shape)} and value {list(value.shape)}"
        raise ProblemError(f"{shapes}. They must be [..., heads, rows, head_dim], and key and value alike.")
    if query.dim() > 3 and query.shape[-3] != key.shape[-3] and not enable_gqa:
        raise ProblemError(
            f"query has {query.shape[-3]} heads and key {key.shape[-3]}. Pass enable_gqa=True for grouped heads."
        )
    q, k, v = map(_of_four, (query, key, value))
    if attn_mask is not None:
        made = _masked(q, k, v, attn_mask, scale)
    elif is_causal and q.shape[2] != k.shape[2]:
        made = _causal(q, k, v, scale, 0, 0, k.shape[2])
    else:
        made = attention(q, k, v, causal=is_causal, scale=scale)[0]
    return made.reshape(query.shape)


def _of_four(x: Tensor) -> Tensor:
    """[batch, heads, rows, dim]."""
    return x[:, None] if x.dim() == 3 else x.reshape(-1, *x.shape[-3:])


def _causal(q: Tensor, k: Tensor, v: Tensor, scale: float | None, shift: int, first: int, end: int) -> Tensor:
    """Query i sees the keys from `first` to i + shift, and none from `end` on. A query without keys has output 0."""
    queries = q.shape[2]
    begins, whole = min(max(first - shift, 0), queries), min(max(end - shift, 0), queries)
    parts = [torch.zeros_like(q[:, :, :begins])] if begins else []
    for start, stop, last, causal in ((begins, whole, whole + shift, True), (whole, queries, end, False)):
        if stop > start:
            rows, keys = slice(start, stop), slice(first, last)
            parts.append(attention(q[:, :, rows], k[:, :, keys], v[:, :, keys], causal=causal, scale=scale)[0])
    return torch.cat(parts, 2)


def _masked(q: Tensor, k: Tensor, v: Tensor, given: Tensor, scale: float | None) -> Tensor:
    """Each sequence by calls of its own, over its visible keys. It waits for the GPU, to read the mask."""
    queries, keys = q.shape[2], k.shape[2]
    mask = _as_bool(given)
    mask = mask.reshape(-1, *mask.shape[-3:]) if mask.dim() > 3 else mask[(None,) * (4 - mask.dim())]
    if mask.shape[1] > 1 and not torch.equal(mask, mask[:, :1].expand_as(mask)):
        raise ProblemError(f"attn_mask differs from head to head. {NO_KERNEL}")
    mask = mask[:, 0].expand(q.shape[0], queries, keys)
    seen, ones = mask.any(1), torch.ones(queries, keys, dtype=torch.bool, device=mask.device)
    shifts = (None, keys - queries, 0)
    fits = [s for s in shifts if torch.equal(mask, seen[:, None] & (ones if s is None else ones.tril(s)))]
    if not fits:
        raise ProblemError(f"attn_mask is more than padding and a causal mask. {NO_KERNEL}")
    shift, found = fits[0], list[Tensor]()
    for number, row in enumerate(seen):
        q1, k1, v1 = (x[number : number + 1] for x in (q, k, v))
        kept = row.nonzero().flatten()
        if not len(kept):
            found.append(torch.zeros_like(q1))
        elif shift is None:
            found.append(attention(q1, k1[:, :, kept], v1[:, :, kept], scale=scale)[0])
        else:
            first, end = int(kept[0]), int(kept[-1]) + 1
            if end - first != len(kept):
                raise ProblemError(f"attn_mask is causal with hidden keys between others. {NO_KERNEL}")
            found.append(_causal(q1, k1, v1, scale, shift, first, end))
    return torch.cat(found)


def _as_bool(mask: Tensor) -> Tensor:
    if mask.dtype == torch.bool:
        return mask
    seen = mask == 0
    if not torch.equal(seen, ~torch.isneginf(mask)):
        raise ProblemError(f"attn_mask adds other numbers than 0 and -inf to the scores. {NO_KERNEL}")
    return seen
