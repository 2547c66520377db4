"""The kernels behind torch.nn.functional.scaled_dot_product_attention, by torch's own registry.

torch.nn.attention.activate_flash_attention_impl("WARPGLASS") puts them in the place of torch's FlashAttention, and
restore_flash_attention_impl() takes them out. The import only registers the name.
"""

import warnings

import torch
from torch.nn import attention as registry

from kernels.errors import ProblemError
from kernels.ops.attention import attention, attention_backward

Tensor = torch.Tensor
NAME = "WARPGLASS"


def register() -> bool:
    """Registers the name, but activates nothing. Returns False for a torch without the registry."""
    if not hasattr(registry, "register_flash_attention_impl"):
        return False
    registry.register_flash_attention_impl(NAME, register_fn=_activate)
    return True


def activate() -> None:
    """Makes torch's FlashAttention ours. Raises ProblemError for a torch without the registry."""
    if not register():
        raise ProblemError(
            f"torch {torch.__version__} has no registry of FlashAttention (register_flash_attention_impl). Install a "
            "later torch, or call warpglass.ops.attention."
        )
    registry.activate_flash_attention_impl(NAME)


class _Active:
    """The overrides. remove() takes them out."""

    def __init__(self, libraries: list[torch.library.Library]):
        self.libraries = libraries

    def remove(self) -> None:
        """Gives the operators of torch back."""
        for library in self.libraries:
            library._destroy()
        self.libraries = []


def _activate() -> _Active:
    libraries = []
    names = "_scaled_dot_product_flash_attention"
    places = {
        "CUDA": {names: _on_gpu, f"{names}_backward": _on_gpu_backward},
        "CPU": {f"{names}_for_cpu": _on_cpu, f"{names}_for_cpu_backward": _on_cpu_backward},
    }
    for device, functions in places.items():
        library = torch.library.Library("aten", "IMPL", device)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Warning only once for all operators")
            for name, function in functions.items():
                library.impl(name, function, device)
        libraries.append(library)
    return _Active(libraries)


def _forward(
    q: Tensor, k: Tensor, v: Tensor, dropout: float, causal: bool, scale: float | None
) -> tuple[Tensor, Tensor]:
    """torch's causal mask starts at the first key. So the later keys of a causal call are left out."""
    if dropout:
        raise ProblemError(f"dropout_p is {dropout}. The kernels have no dropout.")
    k, v = _seen(q, k, causal), _seen(q, v, causal)
    return attention(q, k, v, causal=causal, scale=scale)


def _seen(q: Tensor, x: Tensor, causal: bool) -> Tensor:
    if causal and q.shape[2] > x.shape[2]:
        raise ProblemError(f"{q.shape[2]} queries and {x.shape[2]} keys, causal from the first key: no kernel has it.")
    return x[:, :, : q.shape[2]] if causal else x


def _backward(
    do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool, scale: float | None
) -> tuple[Tensor, ...]:
    given = _seen(q, k, causal), _seen(q, v, causal)
    gradients = attention_backward(q, *given, o, lse, do, causal=causal, scale=scale)
    missing = k.shape[2] - given[0].shape[2]
    if not missing:
        return gradients
    dq, *rest = gradients
    return (dq, *[torch.nn.functional.pad(x, (0, 0, 0, missing)) for x in rest])


def _on_gpu(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, is_causal: bool = False,
    return_debug_mask: bool = False, *, scale: float | None = None,
) -> tuple[object, ...]:  # fmt: skip
    o, lse = _forward(query, key, value, dropout_p, is_causal, scale)
    none, state = query.new_empty(0), torch.zeros(2, dtype=torch.uint64, device=query.device)
    offset = torch.zeros((), dtype=torch.uint64, device=query.device)
    return o, lse, None, None, query.shape[2], key.shape[2], state, offset, none


def _on_gpu_backward(
    grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor,
    cum_seq_q: object, cum_seq_k: object, max_q: int, max_k: int, dropout_p: float, is_causal: bool,
    philox_seed: object, philox_offset: object, *, scale: float | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    return _backward(grad_out, query, key, value, out, logsumexp, is_causal, scale)


def _on_cpu(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, is_causal: bool = False, *,
    attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    if attn_mask is not None:
        raise ProblemError("The call has attn_mask, and the kernels behind torch's registry take none.")
    return _forward(query, key, value, dropout_p, is_causal, scale)


def _on_cpu_backward(
    grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor, dropout_p: float,
    is_causal: bool, *, attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    return _backward(grad_out, query, key, value, out, logsumexp, is_causal, scale)


register()
