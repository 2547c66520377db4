"""The operators' arguments: the axes of each tensor, as problems name them, and torch's types by our names."""

from dataclasses import dataclass, field

import torch

from kernels.core.call import Call, Given, Option
from kernels.core.dtypes import DTYPES

Axes = dict[str, tuple[str, ...]]
TORCH_TYPES = {getattr(torch, kind.torch): kind.name for kind in DTYPES.values()}
QUERIES, KEYS = ("batch", "head", "query", "dim"), ("batch", "head", "key", "dim")


@dataclass(frozen=True)
class Operator:
    """An operator.

    inputs: name -> axes of each given tensor. The axes of one name have equal sizes.
    outputs: name -> axes of each new tensor.
    updated: the inputs that the operator also writes.
    """

    name: str
    inputs: Axes
    outputs: Axes = field(default_factory=dict)
    updated: tuple[str, ...] = ()

    def call(self, tensors: dict[str, torch.Tensor], options: dict[str, Option]) -> Call:
        """The Call of these tensors. Options with an empty value are left out."""
        given = tuple((name, self.given(name, tensor)) for name, tensor in tensors.items())
        chosen = tuple((name, value) for name, value in options.items() if value)
        return Call(self.name, given, chosen, tuple(self.outputs))

    def given(self, name: str, tensor: torch.Tensor) -> Given:
        """A tensor's shape, strides and type with the axes of its argument."""
        kind = TORCH_TYPES.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))
        return Given(tuple(tensor.shape), self.inputs[name], tuple(tensor.stride()), kind)


ATTENTION = Operator(
    "attention",
    {"q": QUERIES, "k": KEYS, "v": KEYS, "sink": ("head",)},
    {"o": QUERIES, "lse": ("batch", "head", "query")},
)
GRADIENTS = Operator(
    "attention_backward",
    {"q": QUERIES, "k": KEYS, "v": KEYS, "o": QUERIES, "lse": ("batch", "head", "query"), "do": QUERIES},
    {"dq": QUERIES, "dk": KEYS, "dv": KEYS},
)
CACHES = {"k_cache": ("page", "kv_head", "piece", "slot", "element"), "v_cache": ("page", "kv_head", "dim", "slot")}
SCALES = {"k_scale": ("kv_head",), "v_scale": ("kv_head",)}
DECODE = Operator(
    "paged_decode",
    {
        "q": ("sequence", "head", "dim"),
        **CACHES,
        "block_tables": ("sequence", "entry"),
        "context_lens": ("sequence",),
        **SCALES,
    },
    {"o": ("sequence", "head", "dim")},
)
PLAN = Operator("plan_ranges", {"context_lens": ("sequence",)}, {"units": ("unit", "field")})
WRITE = Operator(
    "reshape_and_cache",
    {"key": ("token", "kv_head", "dim"), "value": ("token", "kv_head", "dim"), "slots": ("token",), **CACHES, **SCALES},
    updated=("k_cache", "v_cache"),
)
BLOCKS = Operator(
    "block_sparse",
    {"q": QUERIES, "k": KEYS, "v": KEYS},
    {"o": QUERIES, "lse": ("batch", "head", "query")},
)
