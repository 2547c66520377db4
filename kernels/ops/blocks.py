"""The operator block_sparse: attention over the blocks of keys that a matrix gives."""

import torch

from kernels.core.call import ROWS_FIRST, Option, layout_of
from kernels.errors import ProblemError
from kernels.ops import binding
from kernels.ops.operators import BLOCKS

Tensor = torch.Tensor
NAME = "warpglass::block_sparse"
torch.library.define(
    NAME, "(Tensor q, Tensor k, Tensor v, Tensor blocks, float scale, bool causal, int block, str kernel)"
    " -> (Tensor, Tensor)",
)  # fmt: skip
_OPERATOR = torch.ops.warpglass.block_sparse.default


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
    found: tuple[Tensor, Tensor] = _OPERATOR(q, k, v, blocks, scale, causal, block, kernel or "")
    return found


def _forward(
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


def _fake(q: Tensor, k: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    lse = q.new_empty(q.shape[:3], dtype=torch.float32)
    if layout_of(BLOCKS.given("q", q), BLOCKS.given("k", k)) == ROWS_FIRST:
        return q.new_empty(q.transpose(1, 2).shape).transpose(1, 2), lse
    return q.new_empty(q.shape), lse


torch.library.register_fake(NAME, _fake)
for device in ("CPU", "CUDA"):
    torch.library.impl(NAME, device, _forward)
