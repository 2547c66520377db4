"""The gradients of attention: in float64 by the closed formula, and by torch's own backward in the arrays' type."""

from typing import TYPE_CHECKING

import numpy as np

from kernels.core.reference import ROWS_AT_ONCE, on_device, on_host

if TYPE_CHECKING:
    from torch import Tensor

Four = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
Three = tuple[np.ndarray, np.ndarray, np.ndarray]


def exact_gradients(arrays: Four, scale: float, causal: bool, device: str = "cpu") -> Three:
    """(dq, dk, dv) in float64, a block of query rows at a time.

    P = softmax(S), dP = dO V^T, dS = P * (dP - rowsum(P * dP)), dQ = scale dS K, dK = scale dS^T Q, dV = P^T dO.
    arrays: q, k, v, do [batch, heads, rows, dim]. A KV head gets the sum over its query heads.
    A query without a visible key has dq 0.
    """
    import torch

    q, k, v, do = (on_device(a, device).to(torch.float64) for a in arrays)
    dq, dk, dv = (torch.zeros_like(a) for a in (q, k, v))
    count, length, group = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    rows = max(1, (8 if device == "cuda" else 1) * ROWS_AT_ONCE // length)
    for b, h in np.ndindex(q.shape[:2]):
        kv = h // group
        for first in range(0, count, rows):
            part = slice(first, min(count, first + rows))
            s = scale * (q[b, h, part] @ k[b, kv].T)
            if causal:
                s.masked_fill_(~_seen(part, length, length - count, device), -torch.inf)
            p = torch.softmax(s, -1).nan_to_num_(0.0)
            dp = do[b, h, part] @ v[b, kv].T
            ds = scale * p * (dp - (p * dp).sum(-1, keepdim=True))
            dq[b, h, part] = ds @ k[b, kv]
            dk[b, kv] += ds.T @ q[b, h, part]
            dv[b, kv] += p.T @ do[b, h, part]
    return dq.cpu().numpy(), dk.cpu().numpy(), dv.cpu().numpy()


def torch_gradients(arrays: Four, o: np.ndarray, lse: np.ndarray, scale: float, causal: bool, device: str) -> Three:
    """The same by torch's own backward of scaled_dot_product_attention, in the arrays' type, from the given O and lse.

    torch's causal mask begins with the first key. So a causal problem becomes square: queries without a key are cut,
    and missing queries have zeros. Each query head has a copy of its K and V, whose gradients are added up at the end,
    as FlashAttention-2 does.
    """
    import torch

    q, k, v, do = (on_device(a, device) for a in arrays)
    group, pad = q.shape[1] // k.shape[1], torch.nn.functional.pad
    missing = k.shape[2] - q.shape[2] if causal else 0  # below 0: the queries without a key
    rows, grads, outputs = (pad(a, (0, 0, missing, 0)) for a in (q, do, on_device(o, device)))
    keys, values = (a.repeat_interleave(group, 1) for a in (k, v))
    sums = pad(on_device(lse, device), (missing, 0))
    dq, dk, dv = _backward((rows, keys, values, grads), outputs, sums, scale, causal)
    dq = pad(dq, (0, 0, -missing, 0))
    of_group, of_values = (a.unflatten(1, (k.shape[1], group)).sum(2) for a in (dk, dv))
    return on_host(dq), on_host(of_group), on_host(of_values)


def _backward(
    tensors: tuple["Tensor", ...], o: "Tensor", lse: "Tensor", scale: float, causal: bool
) -> tuple["Tensor", "Tensor", "Tensor"]:
    """torch's implementation for the device and type: FlashAttention-2 in 16 bits, else the memory-efficient one.

    A forward first makes the arguments that only torch needs.
    """
    import torch

    aten, (q, k, v, do) = torch.ops.aten, tensors
    if q.device.type == "cpu":
        cpu = aten._scaled_dot_product_flash_attention_for_cpu_backward
        return cpu(do, q, k, v, o, lse, 0.0, causal, scale=scale)
    if q.element_size() == 2:
        made = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=scale)
        flash = aten._scaled_dot_product_flash_attention_backward
        return flash(do, q, k, v, o, lse, *made[2:6], 0.0, causal, *made[6:8], scale=scale)
    made = aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.0, causal, scale=scale)
    made[1][..., : lse.shape[2]] = lse  # torch's has more columns
    efficient, asked = aten._scaled_dot_product_efficient_attention_backward, [True, True, True, False]
    return efficient(do, q, k, v, None, o, made[1], *made[2:], 0.0, asked, causal, scale=scale)[:3]


def _seen(part: slice, keys: int, offset: int, device: str) -> "Tensor":
    """Which keys the queries of a part see under a causal mask, bool [queries, keys]."""
    import torch

    return torch.arange(keys, device=device) <= torch.arange(part.start, part.stop, device=device)[:, None] + offset
