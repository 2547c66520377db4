"""The operators attention, forward and backward, and block_sparse, over the blocks of keys that a matrix gives.

The forward is torch.library.define with an implementation for CUDA and for the CPU, and its gradient is a
torch.autograd.Function. This pair costs less than custom_op and register_autograd.
"""

import torch

from kernels.core.call import ROWS_FIRST, Option, layout_of
from kernels.errors import ProblemError
from kernels.ops import binding, launcher
from kernels.ops.operators import ATTENTION, BLOCKS, GRADIENTS

Tensor = torch.Tensor
NAME, BACKWARD, SPARSE = "warpglass::attention", "warpglass::attention_backward", "warpglass::block_sparse"
torch.library.define(
    NAME, "(Tensor q, Tensor k, Tensor v, Tensor? sink, float scale, bool causal, int window, str kernel)"
    " -> (Tensor, Tensor)",
)  # fmt: skip
torch.library.define(
    BACKWARD, "(Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor do, float scale, bool causal, str kernel)"
    " -> (Tensor, Tensor, Tensor)",
)  # fmt: skip
torch.library.define(
    SPARSE, "(Tensor q, Tensor k, Tensor v, Tensor blocks, float scale, bool causal, int block, str kernel)"
    " -> (Tensor, Tensor)",
)  # fmt: skip
WIDTHS = {torch.float32: (32, 64, 128), torch.float16: (64, 128, 256), torch.bfloat16: (64, 128, 256)}
"""type -> the kernels' numbers per head"""
_OPERATOR = torch.ops.warpglass.attention.default
_GRADIENTS = torch.ops.warpglass.attention_backward.default
_SPARSE = torch.ops.warpglass.block_sparse.default


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

    Returns o and lse [batch, heads, queries], float32, the natural logarithm of the sum of e^score. lse is NaN if the
    named kernel writes none, and the call then has no gradient.
    Zeros pad another head_dim to the next of the kernels (WIDTHS): 80 and 96 run as 128, and 192 as 256.
    Tensors in another order in memory than [batch, heads, rows, dim] or [batch, rows, heads, dim] are copied (explain
    reports them). Raises NoKernel with the reasons if no kernel fits.
    """
    fast = None if sink is not None or window or torch.compiler.is_compiling() else launcher.module
    found = None if fast is None else fast.attention(q, k, v, scale, causal, kernel, backward_kernel)
    if found is None:
        _check_tensors(q=q, k=k, v=v)
    if found is None and torch.is_autocast_enabled(q.device.type):
        wanted = torch.get_autocast_dtype(q.device.type)
        q, k, v = q.to(wanted), k.to(wanted), v.to(wanted)
        found = None if fast is None else fast.attention(q, k, v, scale, causal, kernel, backward_kernel)
    if found is not None:
        return found  # type: ignore[no-any-return]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    width, wide = q.shape[-1], _wide(q)
    if wide != width:
        q, k, v = (torch.nn.functional.pad(x, (0, wide - width)) for x in (q, k, v))
        o, lse = attention(
            q,
            k,
            v,
            causal=causal,
            scale=scale,
            window=window,
            sink=sink,
            kernel=kernel,
            backward_kernel=backward_kernel,
        )
        return o[..., :width], lse
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        if window or sink is not None:
            raise ProblemError("The backward has no window and no sink. Call it under torch.no_grad().")
        if kernel and "lse" in _plan(q, k, v, None, scale, causal, 0, kernel).absent:
            raise ProblemError(f"{kernel} writes no lse, which the backward reads. Call it under torch.no_grad().")
        o, lse = _Attention.apply(q, k, v, scale, causal, kernel or "", backward_kernel or "")
    else:
        o, lse = _OPERATOR(q, k, v, sink, scale, causal, window, kernel or "")
    return o, lse


class _Context(torch.autograd.function.FunctionCtx):
    """The context of a forward for its backward."""

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


def forward_alone(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> tuple[Tensor, Tensor]:
    """o and lse below torch's autograd, which has a formula of its own for the call."""
    fast = launcher.module
    with torch.no_grad():
        found = None if fast is None else fast.attention(q, k, v, scale, causal, None, None)
        o, lse = _OPERATOR(q, k, v, None, scale, causal, 0, "") if found is None else found
    return o, lse


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
    if not torch.compiler.is_compiling() and launcher.module is not None:
        found = launcher.module.backward(q, k, v, o, lse, do, scale, causal, kernel or "")
        if found is not None:
            return found  # type: ignore[no-any-return]
    dq, dk, dv = _GRADIENTS(q, k, v, o, lse, do, scale, causal, kernel or "")
    return dq, dk, dv


def block_sparse(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    blocks: Tensor,
    *,
    block: int = 64,
    causal: bool = False,
    scale: float | None = None,
    kernel: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention of each block of queries to its blocks of keys, for all heads alike.

    q, k, v, causal, scale, kernel: as for attention.
    blocks: bool [ceil(queries / block), ceil(keys / block)] on the CPU. The lists are made once for a matrix.
    block: queries and keys of a block: 16, 32, 64 or 128.

    Returns o and lse. A row without keys has output 0 and lse -inf. It has no gradient.
    """
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        raise ProblemError("block_sparse has no backward. Call it under torch.no_grad().")
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    width, padding = q.shape[-1], _wide(q) - q.shape[-1]
    if padding:
        q, k, v = (torch.nn.functional.pad(x, (0, padding)) for x in (q, k, v))
    o, lse = _SPARSE(q, k, v, blocks, scale, causal, block, kernel or "")
    return o[..., :width] if padding else o, lse


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
    scale, padding = q.shape[-1] ** -0.5 if scale is None else scale, _wide(q) - q.shape[-1]
    if padding:
        q, k, v = (torch.nn.functional.pad(x, (0, padding)) for x in (q, k, v))
    return _plan(q, k, v, sink, scale, causal, window, kernel or "")


def _wide(q: Tensor) -> int:
    """The kernels' head_dim for a call. A head_dim above all of theirs stays, and the choice refuses it."""
    return next((wide for wide in WIDTHS.get(q.dtype, ()) if wide >= q.shape[-1]), q.shape[-1])


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
    if sink is None and not window:
        _keep("f", found, (q, k, v), scale, causal, kernel)
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
    _keep("b", found, (q, k, v, o, lse, do), scale, causal, kernel)
    dq, dk, dv = found(tensors)
    return dq, dk, dv


def _keep(
    kind: str, found: binding.Bound, tensors: tuple[Tensor, ...], scale: float, causal: bool, kernel: str
) -> None:
    """Keeps the plan in the compiled launcher, which takes the next call of these shapes."""
    fast = launcher.module
    if fast is not None and (plan := found.fast_plan(fast)) is not None:
        fast.keep(kind, tensors, scale, causal, kernel, plan)


def _sparse(
    q: Tensor, k: Tensor, v: Tensor, blocks: Tensor, scale: float, causal: bool, block: int, kernel: str
) -> tuple[Tensor, Tensor]:
    if blocks.device.type != "cpu":
        raise ProblemError(f"blocks is on {blocks.device}. Its lists are made on the CPU: pass blocks.cpu().")
    key = (
        *(q.shape, q.stride(), q.dtype, k.shape, k.stride(), v.stride(), q.device, scale, causal, block, kernel),
        *(blocks.shape, blocks.numpy().tobytes()),
    )
    tensors = {"q": q, "k": k, "v": v}
    found = binding.bound(key)
    if found is None:
        needed = [-(-x.shape[2] // block) for x in (q, k)]
        if list(blocks.shape) != needed:
            raise ProblemError(f"blocks is {list(blocks.shape)}. {block}-token blocks of q and k need {needed}.")
        rows = tuple(tuple(row.nonzero().flatten().tolist()) for row in blocks)
        options: dict[str, Option] = {"causal": causal, "block": block, "rows": rows}
        found = binding.bind(key, BLOCKS, tensors, options, scale, kernel)
    o, lse = found(tensors)
    return o, lse


def _check_tensors(**tensors: Tensor) -> None:
    """Raises ProblemError for what is no tensor, or is on a device without kernels."""
    for name, x in tensors.items():
        if not isinstance(x, Tensor):
            raise ProblemError(f"{name} is a {type(x).__module__}.{type(x).__name__}. Pass torch.as_tensor({name}).")
        if x.device.type not in ("cpu", "cuda"):
            raise ProblemError(f"{name} is on {x.device}. The kernels run on cuda and cpu: pass {name}.to('cuda').")


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


def _new(tensor: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """New memory for a tensor's shape, in the order in memory of the kernel of a call."""
    if layout_of(ATTENTION.given("q", q), ATTENTION.given("k", k)) == ROWS_FIRST:
        return tensor.new_empty(tensor.transpose(1, 2).shape).transpose(1, 2)
    return tensor.new_empty(tensor.shape)


def _fake_forward(q: Tensor, k: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    return _new(q, q, k), q.new_empty(q.shape[:3], dtype=torch.float32)


def _fake_backward(q: Tensor, k: Tensor, v: Tensor, *_: object) -> tuple[Tensor, Tensor, Tensor]:
    return _new(q, q, k), _new(k, q, k), _new(v, q, k)


for name, function, fake in (
    (NAME, _forward, _fake_forward),
    (BACKWARD, _backward, _fake_backward),
    (SPARSE, _sparse, _fake_forward),
):
    torch.library.register_fake(name, fake)
    for device in ("CPU", "CUDA"):
        torch.library.impl(name, device, function)
