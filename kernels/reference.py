"""Attention in float64: what every kernel is compared with; and torch's own float32 attention, the yardstick for error."""

import numpy as np

ROWS_AT_ONCE = 2**22  # scores held at a time: 32 MB


def attention(q, k, v, scale, causal):
    """softmax(scale * q @ k^T) @ v in float64, a block of rows at a time so that no N x N is held.

    q, k, v: arrays [batch, heads, seq_len, head_dim] of any float type. Returns a float64 array of that shape.
    """
    o = np.empty(q.shape, np.float64)
    n = q.shape[2]
    rows = max(1, ROWS_AT_ONCE // n)
    for b, h in np.ndindex(q.shape[:2]):
        for first in range(0, n, rows):
            end = min(n, first + rows)
            keys = end if causal else n  # what lies after the last query of the block is masked anyway
            s = scores(q[b, h, first:end], k[b, h, :keys], scale, causal, first)
            o[b, h, first:end] = softmax(s) @ v[b, h, :keys].astype(np.float64)
    return o


def attention_on_gpu(q, k, v, scale, causal):
    """The same in float64 through torch on the GPU, for problems whose float64 would take minutes on the CPU."""
    import torch

    shape = q.shape
    q, k, v = (torch.from_numpy(np.ascontiguousarray(a)).to("cuda", torch.float64).flatten(0, 1) for a in (q, k, v))
    o, n = torch.empty_like(q), shape[2]
    rows = max(1, 8 * ROWS_AT_ONCE // n)
    for head in range(len(q)):
        for first in range(0, n, rows):
            s = scale * (q[head, first:first + rows] @ k[head].T)
            if causal:
                query = torch.arange(first, first + len(s), device="cuda")
                s.masked_fill_(torch.arange(n, device="cuda") > query[:, None], -torch.inf)
            o[head, first:first + rows] = torch.softmax(s, -1) @ v[head]
    return o.cpu().numpy().reshape(shape)


def scores(q, k, scale, causal, first_query=0):
    """scale * q @ k^T in float64, -inf where a causal mask hides the key; [..., queries, keys]. q begins at `first_query`."""
    s = scale * (np.asarray(q, np.float64) @ np.swapaxes(np.asarray(k, np.float64), -1, -2))
    return np.where(np.tri(s.shape[-2], s.shape[-1], first_query, dtype=bool), s, -np.inf) if causal else s


def softmax(s):
    """Row by row over the last axis, the row's max subtracted first."""
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def prefix_max_and_sum(row_scores, ends):
    """The running max m and sum l that an online softmax must hold after the keys [0, end), for each end.

    row_scores: [keys] float64. Returns two float64 arrays of len(ends). Source: Milakov and Gimelshein 2018, Algorithm 3.
    """
    m = np.maximum.accumulate(row_scores)[np.asarray(ends) - 1]
    return m, np.array([np.exp(row_scores[:end] - top).sum() for end, top in zip(ends, m)])


def max_abs_error(o, reference):
    """The largest |o - reference|; inf where o holds a NaN, so that a poisoned output never passes."""
    if o.shape != reference.shape:
        raise ValueError(f"o has shape {o.shape}, the reference {reference.shape}")
    error = np.abs(o.astype(np.float64) - reference).max()
    return float("inf") if np.isnan(error) else float(error)


def torch_attention(q, k, v, scale, causal, device="cpu"):
    """torch's scaled_dot_product_attention in float32 on `device`, its own choice of kernel; a NumPy array."""
    import torch

    q, k, v = (torch.from_numpy(np.ascontiguousarray(a)).to(device) for a in (q, k, v))
    with torch.inference_mode():
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=scale, is_causal=causal).cpu().numpy()


def decode_attention(q, k, v, scale, slopes):
    """One query's attention over its whole context, float64. q: [num_heads, head_size]; k, v: [length, num_kv_heads, head_size], each
    KV head read by num_heads / num_kv_heads neighbouring query heads; slopes [num_heads]: ALiBi's, times the distance to the last token."""
    length, kv_heads, _ = k.shape
    q, k, v = (np.asarray(a, np.float64) for a in (q, k, v))
    distance = np.arange(length) - (length - 1)
    heads = []
    for head, query in enumerate(q):
        kv = head // (len(q) // kv_heads)
        p = softmax(scale * (k[:, kv] @ query) + float(slopes[head]) * distance)
        heads.append(p @ v[:, kv])
    return np.stack(heads)


def torch_decode_attention(q, k, v, scale, slopes, device="cpu"):
    """The same by torch's scaled_dot_product_attention in the arrays' own type; slopes is None without ALiBi."""
    import torch

    q, k, v = (torch.from_numpy(np.ascontiguousarray(a)).to(device) for a in (q, k, v))
    group, bias = len(q) // k.shape[1], None
    if slopes is not None:
        distance = torch.arange(1 - len(k), 1, device=device)
        bias = (torch.from_numpy(slopes).to(device)[:, None, None] * distance).to(q.dtype)
    q, k, v = q[:, None], *(a.transpose(0, 1).repeat_interleave(group, 0) for a in (k, v))  # [heads, tokens, head_size]
    with torch.inference_mode():
        o = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], bias if bias is None else bias[None], scale=scale)
    return o[0, :, 0].cpu().numpy()
