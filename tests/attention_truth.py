"""The formula of attention in float64, and the project's rule for an output's error."""

import torch

from kernels.core.dtypes import unit_in_last_place

MATH = torch.nn.attention.SDPBackend.MATH


def mask_of(queries, keys, causal=False, window=0):
    """[queries, keys]: which keys each query sees. The causal mask ends at the last key."""
    made = torch.ones(queries, keys, dtype=torch.bool)
    if causal:
        made = made.tril(keys - queries)
    return made & ~made.tril(keys - queries - window) if window else made


def formula(q, k, v, mask, scale=None, sink=None):
    """o and lse in the type of the inputs. A row without keys has output 0 and lse -inf."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    s = (q @ k.transpose(-1, -2)) * (q.shape[-1] ** -0.5 if scale is None else scale)
    s = s.masked_fill(~mask.to(s.device), -float("inf"))
    if sink is not None:
        s = torch.cat([s, sink.to(s)[None, :, None, None].expand(*s.shape[:3], 1)], -1)
    lse = s.logsumexp(-1)
    p = torch.exp(s - lse.masked_fill(lse.isinf(), 0)[..., None])[..., : k.shape[2]]
    return p @ v, lse


def torch_own(q, k, v, mask, scale=None):
    """torch's answer in the type of the inputs. Rows without keys are 0."""
    with torch.nn.attention.sdpa_kernel([MATH]):
        o = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask.to(q.device), scale=scale, enable_gqa=True
        )
    return o.masked_fill(~mask.to(q.device).any(-1)[:, None], 0)


def check(found, truth, own, largest):
    """Asserts the rule: at most twice torch's own error plus one ulp of the largest term."""
    kind = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}[found.dtype]
    allowed = 2 * (own.double() - truth).abs().max() + unit_in_last_place(float(largest), kind)
    error = (found.double() - truth).abs().max()
    assert error <= allowed, (float(error), float(allowed))


def tensors(queries=40, keys=0, heads=4, kv_heads=2, dim=64, batch=1, dtype=torch.float16, device="cpu", rows=False):
    """Random q, k, v [batch, heads, rows, dim]. rows: in the order [batch, rows, heads, dim] in memory."""
    torch.manual_seed(queries + keys + heads + dim)
    shapes = [(heads, queries), (kv_heads, keys or queries), (kv_heads, keys or queries)]
    made = [torch.randn(batch, s, h, dim).transpose(1, 2) if rows else torch.randn(batch, h, s, dim) for h, s in shapes]
    return [x.to(device, dtype) for x in made]
