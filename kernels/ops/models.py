"""The kernels in models: behind torch's scaled_dot_product_attention, and in models of Hugging Face transformers.

torch.nn.attention.activate_flash_attention_impl("WARPGLASS") puts them in the place of torch's FlashAttention, and
restore_flash_attention_impl() takes them out. The import only registers the name.

hugging_face() registers attn_implementation="warpglass" and a mask function of this name, as transformers otherwise
drops the padding mask without a word.
"""

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch.nn import attention as registry
from torch.utils.weak import WeakTensorKeyDictionary

from kernels.errors import ProblemError
from kernels.ops.attention import attention, attention_backward, forward_alone

Tensor = torch.Tensor
NAME = "WARPGLASS"  # in torch's registry
HUGGING_FACE = "warpglass"  # attn_implementation
Rows = list[Tensor]
_unused: dict[torch.device, tuple[Tensor, Tensor, Tensor]] = {}  # outputs of torch's operator that dropout would need
_rows_of: WeakTensorKeyDictionary = WeakTensorKeyDictionary()  # mask -> its rows. All layers get one mask.
_first_of: WeakTensorKeyDictionary = WeakTensorKeyDictionary()  # mask -> the key of the first query


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
        while self.libraries:
            self.libraries.pop()._destroy()


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
    return forward_alone(q, k, v, q.shape[-1] ** -0.5 if scale is None else scale, causal)


def _seen(q: Tensor, x: Tensor, causal: bool) -> Tensor:
    if causal and q.shape[2] > x.shape[2]:
        raise ProblemError(f"{q.shape[2]} queries and {x.shape[2]} keys, causal from the first key: no kernel has it.")
    return x[:, :, : q.shape[2]] if causal and q.shape[2] < x.shape[2] else x


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
    return o, lse, None, None, query.shape[2], key.shape[2], *_without_dropout(query)


def _without_dropout(query: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The state and offset of the random numbers and the debug mask, which nobody reads: one of each for a device."""
    if query.device not in _unused:
        with ThreadPoolExecutor(1) as pool:  # no graph of this thread owns them
            _unused[query.device] = pool.submit(_unused_tensors, query.device).result()
    return _unused[query.device]


def _unused_tensors(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    state, offset = (torch.zeros(size, dtype=torch.uint64, device=device) for size in ((2,), ()))
    return state, offset, torch.empty(0, device=device)


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


# ---- Hugging Face ----


def hugging_face() -> None:
    """Registers attn_implementation="warpglass". Raises ProblemError without transformers."""
    try:
        from transformers import AttentionInterface
        from transformers.masking_utils import AttentionMaskInterface
    except ImportError as error:
        raise ProblemError(f"transformers cannot be imported ({error}). pip install 'transformers>=5'.") from None
    AttentionInterface.register(HUGGING_FACE, hugging_face_attention)
    AttentionMaskInterface.register(HUGGING_FACE, hugging_face_mask)


def hugging_face_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    is_causal: bool | None = None,
    s_aux: Tensor | None = None,
    **options: object,
) -> tuple[Tensor, None]:
    """Attention for transformers: query [batch, heads, rows, dim], and key and value with their own KV heads.

    attention_mask: None, or bool [batch, keys] from hugging_face_mask, or bool [batch, 1, rows, keys].
    s_aux: the sinks' logits.

    Returns [batch, rows, heads, dim]. A fully masked row has output 0. Raises ProblemError for what no kernel has.
    """
    absent = [name for name in ("softcap", "position_bias", "cache") if options.get(name) is not None]
    absent += ["dropout"] * bool(dropout) + ["output_attentions"] * bool(options.get("output_attentions"))
    if absent:
        raise ProblemError(f"The kernels have no {', no '.join(absent)}. Choose another attn_implementation.")
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    keys, queries = key.shape[2], query.shape[2]
    window = sliding_window if sliding_window and sliding_window < keys else 0
    causal = causal and (queries > 1 or bool(window))

    def one(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, causal=causal, scale=scaling, window=window, sink=s_aux)[0]

    if attention_mask is None:
        found = one(query, key, value)
    else:
        first = _first_of.get(attention_mask, keys - queries)
        rows = _rows(attention_mask, queries, first, causal or queries == 1, window)
        found = _by_sequence(one, query, key, value, rows, first, bool(window))
    return found.transpose(1, 2).contiguous(), None


def hugging_face_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., object] | None = None,
    attention_mask: Tensor | None = None,
    **options: Any,
) -> Tensor | None:
    """The mask of a call: None without padding, bool [batch, keys] for a causal mask with padding, else 4-D.

    A cache of a fixed size has keys after the last token. They count as padding.
    """
    from transformers import masking_utils as known

    plain = (None, known.causal_mask_function, known.bidirectional_mask_function)
    if mask_function not in plain:  # a window, packed sequences, or a model's own
        kept = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
        full = known.sdpa_mask(
            batch_size, q_length, kv_length, q_offset, kv_offset, mask_function, attention_mask, **{**options, **kept}
        )
        if full is not None:
            _first_of[full] = int(q_offset) - kv_offset
        return full
    end = int(q_offset) + q_length - kv_offset
    unused = kv_length - end if mask_function is known.causal_mask_function else 0
    if attention_mask is None and unused <= 0:
        return None
    device = options.get("device") if attention_mask is None else attention_mask.device
    seen = torch.ones(batch_size, kv_length, dtype=torch.bool, device=device)
    if attention_mask is not None:
        given = attention_mask[:, kv_offset : kv_offset + kv_length].bool()
        seen[:, given.shape[1] :] = False
        seen[:, : given.shape[1]] = given
    if unused > 0:
        seen[:, end:] = False
    _first_of[seen] = end - q_length
    return None if bool(seen.all()) else seen


def _rows(mask: Tensor, queries: int, first: int, causal: bool, window: int) -> Rows:
    """The visible keys of each sequence. Raises ProblemError for a mask that is more than padding, causal and window.

    It waits for the GPU, once for a mask.
    """
    if mask not in _rows_of:
        seen = mask if mask.dim() == 2 else mask[:, 0].any(1)
        if mask.dim() == 4:
            whole = torch.ones(queries, seen.shape[1], dtype=torch.bool, device=mask.device)
            whole = whole.tril(first) if causal else whole
            whole = whole & ~whole.tril(first - window) if window else whole
            if not torch.equal(whole & seen[:, None], mask[:, 0].bool()):
                raise ProblemError(
                    "The mask is more than padding, causal and a window, as for packed sequences. No kernel takes it. "
                    "Choose another attn_implementation."
                )
        _rows_of[mask] = [row.nonzero().flatten() for row in seen]
    rows: Rows = _rows_of[mask]
    return rows


def _by_sequence(
    one: Callable[[Tensor, Tensor, Tensor], Tensor],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    rows: Rows,
    first_query: int,
    window: bool,
) -> Tensor:
    """Each sequence by a call of its own, over its visible keys. Rows of padding are 0."""
    found, queries = [], q.shape[2]
    for number, seen in enumerate(rows):
        q1, k1, v1 = (x[number : number + 1] for x in (q, k, v))
        tokens = seen - first_query  # the rows of q that are tokens
        tokens = tokens[(tokens >= 0) & (tokens < queries)]
        if not len(seen) or queries > 1 and not len(tokens):
            found.append(torch.zeros_like(q1))
            continue
        first, last = int(seen[0]), int(seen[-1]) + 1
        holes = last - first != len(seen)
        if holes and window:
            raise ProblemError("The mask has holes, and a window counts tokens. Choose another attn_implementation.")
        k1, v1 = (x[:, :, seen] if holes else x[:, :, first:last] for x in (k1, v1))
        if queries == 1 or len(tokens) == queries:
            found.append(one(q1, k1, v1))
        else:
            made = one(q1[:, :, tokens], k1, v1).to(q.dtype)
            found.append(torch.zeros_like(q1).index_copy(2, tokens, made))
    return torch.cat(found)
