"""The operators over a KV cache in pages: paged_decode and reshape_and_cache."""

from collections.abc import Sequence

import torch

from kernels.core.call import Option
from kernels.errors import ProblemError
from kernels.ops import binding
from kernels.ops.operators import DECODE, WRITE

Tensor = torch.Tensor
NAME, WRITER = "warpglass::paged_decode", "warpglass::reshape_and_cache"
torch.library.define(
    NAME,
    "(Tensor q, Tensor k_cache, Tensor v_cache, Tensor block_tables, Tensor context_lens, Tensor? k_scale, "
    "Tensor? v_scale, float scale, int window, float soft_cap, str kernel) -> Tensor",
)
torch.library.define(
    WRITER,
    "(Tensor key, Tensor value, Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor slots, Tensor? k_scale, "
    "Tensor? v_scale, str kernel) -> ()",
)
_DECODE, _WRITE = torch.ops.warpglass.paged_decode.default, torch.ops.warpglass.reshape_and_cache.default


def paged_decode(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_tables: Tensor,
    context_lens: Tensor | Sequence[int],
    *,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    scale: float | None = None,
    window: int = 0,
    soft_cap: float = 0.0,
    kernel: str | None = None,
) -> Tensor:
    """Attention of one query for each sequence to its context, by the fastest kernel that fits.

    q: [sequences, heads, head_dim]. The result has its shape and type.
    k_cache: [pages, kv_heads, head_dim / x, block_size, x], with x numbers in 16 bytes.
    v_cache: [pages, kv_heads, head_dim, block_size].
    block_tables: [sequences, entries] int32, the pages of each sequence.
    context_lens: [sequences], the tokens of each sequence. On the CPU, a kernel with a plan for each step can run. On
      the GPU, only kernels without a plan can, and a CUDA graph may contain the call.
    k_scale, v_scale: [kv_heads] float32, the factors of a cache of 8 bits.
    window: a query sees only the last `window` tokens, or all with 0.
    soft_cap: the limit of a score by tanh, or 0.
    """
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    lengths = context_lens if isinstance(context_lens, Tensor) else torch.tensor(context_lens)
    given = (q, k_cache, v_cache, block_tables, lengths.to(torch.int32), k_scale, v_scale)
    found: Tensor = _DECODE(*given, scale, window, soft_cap, kernel or "")
    return found


def reshape_and_cache(
    key: Tensor,
    value: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    slots: Tensor,
    *,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    kernel: str | None = None,
) -> None:
    """Writes new tokens into their slots of a cache in pages, in place.

    key, value: [tokens, kv_heads, head_dim].
    slots: [tokens], page * block_size + slot in the page. A negative slot is padding.
    k_scale, v_scale: [kv_heads] float32, for a cache of 8 bits.
    """
    if key.dtype == k_cache.dtype == torch.bfloat16:  # a copy only moves bits
        key, value, k_cache, v_cache = (x.view(torch.float16) for x in (key, value, k_cache, v_cache))
    _WRITE(key, value, k_cache, v_cache, slots.to(torch.int32), k_scale, v_scale, kernel or "")


def _decode(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, block_tables: Tensor, context_lens: Tensor, k_scale: Tensor | None,
    v_scale: Tensor | None, scale: float, window: int, soft_cap: float, kernel: str,
) -> Tensor:  # fmt: skip
    on_cpu = context_lens.device.type == "cpu"
    lengths = context_lens.numpy().astype("int64") if on_cpu else None
    if on_cpu and q.is_cuda:
        context_lens = context_lens.pin_memory().to(q.device, non_blocking=True)
    tensors = _given(
        q=q, k_cache=k_cache, v_cache=v_cache, block_tables=block_tables, context_lens=context_lens,
        k_scale=k_scale, v_scale=v_scale,
    )  # fmt: skip
    key = (*_key(tensors), on_cpu, scale, window, soft_cap, kernel)
    found = binding.bound(key)
    if found is None:
        if q.dim() != 3 or q.shape[0] != len(block_tables):
            raise ProblemError(
                f"q is {list(q.shape)} and block_tables {list(block_tables.shape)}. q must be [sequences, heads, "
                "head_dim], and block_tables has a row for each sequence."
            )
        options: dict[str, Option] = {"lengths": on_cpu, "window": window, "soft_cap": soft_cap}
        found = binding.bind(key, DECODE, tensors, options, scale, kernel)
    if lengths is None:
        return found(tensors)[0]
    step, sizes = found.choice.problem.of_step(lengths)
    moved = {name: torch.from_numpy(array) for name, array in step.items()}
    if q.is_cuda:
        moved = {name: tensor.pin_memory().to(q.device, non_blocking=True) for name, tensor in moved.items()}
    return (binding.resized(found, sizes) if sizes else found)(tensors, moved)[0]


def _write(
    key: Tensor, value: Tensor, k_cache: Tensor, v_cache: Tensor, slots: Tensor, k_scale: Tensor | None,
    v_scale: Tensor | None, kernel: str,
) -> None:  # fmt: skip
    tensors = _given(
        key=key, value=value, slots=slots, k_cache=k_cache, v_cache=v_cache, k_scale=k_scale, v_scale=v_scale
    )
    plan = (*_key(tensors), kernel)
    found = binding.bound(plan)
    if found is None:
        found = binding.bind(plan, WRITE, tensors, {}, 1.0, kernel)
    found(tensors)


def _given(**tensors: Tensor | None) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def _key(tensors: dict[str, Tensor]) -> tuple[object, ...]:
    return tuple((name, x.shape, x.stride(), x.dtype, x.device) for name, x in tensors.items())


torch.library.register_fake(NAME, lambda q, *_: q.new_empty(q.shape))
torch.library.register_fake(WRITER, lambda *_: None)
for device in ("CPU", "CUDA"):
    torch.library.impl(NAME, device, _decode)
    torch.library.impl(WRITER, device, _write)
