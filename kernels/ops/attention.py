"""The operator attention, forward and backward.

The forward is torch.library.define with an implementation for CUDA and for the CPU, and its gradient is a
torch.autograd.Function. This pair costs less than custom_op and register_autograd.
"""

import torch

from kernels.core.call import ROWS_FIRST, layout_of
from kernels.errors import ProblemError
from kernels.ops import binding
from kernels.ops.operators import ATTENTION, GRADIENTS

Tensor = torch.Tensor
NAME, BACKWARD = "warpglass::attention", "warpglass::attention_backward"
torch.library.define(
    NAME, "(Tensor q, Tensor k, Tensor v, Tensor? sink, float scale, bool causal, int window, str kernel)"
    " -> (Tensor, Tensor)",
)  # fmt: skip
torch.library.define(
    BACKWARD, "(Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor do, float scale, bool causal, str kernel)"
    " -> (Tensor, Tensor, Tensor)",
)  # fmt: skip
_OPERATOR = torch.ops.warpglass.attention.default
_GRADIENTS = torch.ops.warpglass.attention_backward.default


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int = 0,
    sink: Tensor | None = None,
    kernel: str | None = None,
    backward_kernel: str | None = None,
) -> tuple[Tensor, Tensor]:
    """softmax(scale * Q @ K^T) @ V and its log-sum-exp, by the fastest kernel that fits. It is differentiable.

    q: [batch, heads, queries, head_dim]. o has its shape, type and order in memory.
    k, v: [batch, kv_heads, keys, head_dim]. Neighbouring query heads share a KV head. Do not repeat the KV heads.
    causal: query i sees the keys up to i + keys - queries, as in FlashAttention. A query without keys has output 0.
    scale: 1 / sqrt(head_dim) by default.
    window: a causal query sees only the last `window` keys, or all with 0.
    sink: a logit for each head, which counts in the sums of its rows as a key without a value.
    kernel, backward_kernel: a kernel's name or the path of a .cu, in place of the fastest.

    Returns o and lse [batch, heads, queries], float32, the natural logarithm of the sum of e^score.
    Tensors in another order in memory than [batch, heads, rows, dim] or [batch, rows, heads, dim] are copied (explain
    reports them). Raises NoKernel with the reasons if no kernel fits.
    """
    kind = q.device.type
    if torch.is_autocast_enabled(kind):
        wanted = torch.get_autocast_dtype(kind)
        q, k, v = q.to(wanted), k.to(wanted), v.to(wanted)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        if window or sink is not None:
            raise ProblemError("The backward has no window and no sink. Call it under torch.no_grad().")
        found: tuple[Tensor, Tensor] = _Attention.apply(q, k, v, scale, causal, kernel or "", backward_kernel or "")
        return found
    found = _OPERATOR(q, k, v, sink, scale, causal, window, kernel or "")
    return found


class _Context(torch.autograd.function.FunctionCtx):
    """What the forward keeps for the backward."""

    saved_tensors: tuple[Tensor, ...]
    given: tuple[float, bool, str]


class _Attention(torch.autograd.Function):
    """The gradient of attention. lse has none."""

    @staticmethod
    def forward(
        ctx: _Context, q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool, kernel: str, backward_kernel: str
    ) -> tuple[Tensor, Tensor]:
        o, lse = _OPERATOR(q, k, v, None, scale, causal, 0, kernel)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.given = scale, causal, backward_kernel
        ctx.mark_non_differentiable(lse)
        return o, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: _Context, do: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        gradients = _GRADIENTS(*ctx.saved_tensors, do, *ctx.given)
        return (*gradients, None, None, None, None)


def attention_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    do: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    kernel: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """dq, dk and dv of attention, from its inputs, its outputs and the gradient of o."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    found: tuple[Tensor, Tensor, Tensor] = _GRADIENTS(q, k, v, o, lse, do, scale, causal, kernel or "")
    return found


def explain(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int = 0,
    sink: Tensor | None = None,
    kernel: str | None = None,
) -> binding.Bound:
    """The plan of a call of attention, without a run: kernel, settings, copies, and the reasons against other kernels.

    print(explain(...)) shows them.
    """
    return _plan(q, k, v, sink, q.shape[-1] ** -0.5 if scale is None else scale, causal, window, kernel or "")


def _plan(
    q: Tensor, k: Tensor, v: Tensor, sink: Tensor | None, scale: float, causal: bool, window: int, kernel: str
) -> binding.Bound:
    key = (
        *(q.shape, q.stride(), q.dtype, k.shape, k.stride(), k.dtype, v.shape, v.stride(), v.dtype, q.device),
        *(sink is None, scale, causal, window, kernel),
    )
    found = binding.bound(key)
    if found is None:
        _check_shapes(q, k, v, causal, window)
        tensors = {"q": q, "k": k, "v": v} | ({} if sink is None else {"sink": sink})
        found = binding.bind(key, ATTENTION, tensors, {"causal": causal, "window": window}, scale, kernel)
    return found


def _forward(
    q: Tensor, k: Tensor, v: Tensor, sink: Tensor | None, scale: float, causal: bool, window: int, kernel: str
) -> tuple[Tensor, Tensor]:
    found = _plan(q, k, v, sink, scale, causal, window, kernel)
    o, lse = found({"q": q, "k": k, "v": v} if sink is None else {"q": q, "k": k, "v": v, "sink": sink})
    return o, lse


def _backward(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, do: Tensor, scale: float, causal: bool, kernel: str
) -> tuple[Tensor, Tensor, Tensor]:
    key = (
        *(q.shape, q.stride(), q.dtype, k.shape, k.stride(), v.stride(), o.stride(), do.stride(), do.dtype, q.device),
        *("backward", scale, causal, kernel),
    )
    tensors = {"q": q, "k": k, "v": v, "o": o, "lse": lse, "do": do}
    found = binding.bound(key)
    if found is None:
        found = binding.bind(key, GRADIENTS, tensors, {"causal": causal}, scale, kernel)
    dq, dk, dv = found(tensors)
    return dq, dk, dv


def _check_shapes(q: Tensor, k: Tensor, v: Tensor, causal: bool, window: int) -> None:
    """Raises ProblemError for shapes that no kernel can have, in the operator's words."""
    if q.dim() != 4 or k.dim() != 4 or k.shape != v.shape:
        raise ProblemError(
            f"q is {list(q.shape)}, k {list(k.shape)} and v {list(v.shape)}. They must be [batch, heads, rows, "
            "head_dim], and k and v alike."
        )
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3] or not k.shape[1] or q.shape[1] % k.shape[1]:
        raise ProblemError(
            f"q is {list(q.shape)} and k {list(k.shape)}. They must agree in batch and head_dim, and the heads of q "
            "must be a multiple of the heads of k."
        )
    if len({(t.dtype, t.device) for t in (q, k, v)}) > 1:
        said = ", ".join(f"{name} {t.dtype} on {t.device}" for name, t in (("q", q), ("k", k), ("v", v)))
        raise ProblemError(f"{said}. They must have one type and one device.")
    if window and not causal:
        raise ProblemError(
            f"window is {window} without causal. A window ends at the query's own key: pass causal=True."
        )


def _rows_first(q: Tensor, k: Tensor) -> bool:
    """Whether the kernel of a call has the order [batch, rows, heads, dim] in memory."""
    return layout_of(ATTENTION.given("q", q), ATTENTION.given("k", k)) == ROWS_FIRST


def _new(tensor: Tensor, rows_first: bool) -> Tensor:
    """New memory for a tensor's shape in one of the two orders."""
    if rows_first:
        return tensor.new_empty(tensor.transpose(1, 2).shape).transpose(1, 2)
    return tensor.new_empty(tensor.shape)


def _fake_forward(q: Tensor, k: Tensor, v: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    return _new(q, _rows_first(q, k)), q.new_empty(q.shape[:3], dtype=torch.float32)


def _fake_backward(q: Tensor, k: Tensor, v: Tensor, *_: object) -> tuple[Tensor, Tensor, Tensor]:
    order = _rows_first(q, k)
    return _new(q, order), _new(k, order), _new(v, order)


for name, function, fake in ((NAME, _forward, _fake_forward), (BACKWARD, _backward, _fake_backward)):
    torch.library.register_fake(name, fake)
    for device in ("CPU", "CUDA"):
        torch.library.impl(name, device, function)
