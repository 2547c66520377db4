"""What a kernel is asked to compute: frozen, validated, hashable, and able to make its own seeded inputs.

Every problem has: inputs() -> {name: array}; outputs, {name: dtype} of what is compared; truth(on_gpu) -> {name: float64 array};
torch_outputs(device), the same by torch in the problem's own type; defines, its compile-time constants; input_bytes and
multiply_adds, to estimate a run; size, remedy and shared_remedy, words for messages; item, what a scope counts. Those whose kernels are
compared by time have `work` too.
"""

import math
from dataclasses import dataclass, field, fields
from typing import NamedTuple

import numpy as np

from kernels import reference
from kernels.errors import ProblemError


def problem_field(default, meaning, *, allowed=None, low=None, high=None, nested=None):
    """A dataclass field whose metadata states what it may hold; the CLI, the sidebar and the checks all read it here."""
    return field(default=default, metadata={"meaning": meaning, "allowed": allowed, "low": low, "high": high, "nested": nested})


def check_fields(problem):
    """Every field of a frozen problem as its type, or ProblemError."""
    for f in fields(problem):
        object.__setattr__(problem, f.name, check_value(f.name, getattr(problem, f.name), f.default, f.metadata))


class Work(NamedTuple):
    """What a run does, whatever the kernel. flops: 4 per score and dim, the two matrix products of attention; tokens: those that it gives an
    output for, or moves; touched: array -> bytes, where a run touches only a part of the array or touches it twice."""

    flops: int
    tokens: int
    touched: dict[str, int]


class Exact:
    """What problems share whose answer has no rounding, such as a copy: torch's is the truth itself, and twice its error is none."""

    def torch_outputs(self, device="cpu"):
        return self.truth()


@dataclass(frozen=True)
class AttentionProblem:
    """Self-attention over random Q, K, V of shape [batch, heads, seq_len, head_dim], fp32.

    Q is drawn from a normal distribution of standard deviation `score_scale`, K and V of 1, so that the scores
    q.k / sqrt(head_dim) have a standard deviation of about `score_scale`.
    """

    seq_len: int = problem_field(64, "queries and keys per head", low=1, high=16384)
    head_dim: int = problem_field(32, "numbers per query, key and value", allowed=(32, 64, 128))
    batch: int = problem_field(1, "independent sequences", low=1, high=64)
    heads: int = problem_field(2, "attention heads", low=1, high=64)
    causal: bool = problem_field(False, "each query sees only the keys up to itself", allowed=(False, True))
    score_scale: float = problem_field(1.0, "standard deviation of the scores", low=0.01, high=1000.0)
    seed: int = problem_field(0, "seed of the random inputs", low=0, high=2**32 - 1)

    __post_init__ = check_fields
    item = "query tile"
    outputs = {"o": np.float32}
    remedy = "Choose a smaller seq_len, batch or heads."

    @property
    def shape(self):
        """[batch, heads, seq_len, head_dim] of Q, K, V and O."""
        return (self.batch, self.heads, self.seq_len, self.head_dim)

    @property
    def scale(self):
        """The factor on Q @ K^T: 1 / sqrt(head_dim)."""
        return 1.0 / math.sqrt(self.head_dim)

    @property
    def score_count(self):
        """How many (query, key) pairs are attended, over all heads."""
        n = self.seq_len
        return self.batch * self.heads * (n * (n + 1) // 2 if self.causal else n * n)

    @property
    def defines(self):
        return {"HEAD_DIM": self.head_dim}

    @property
    def input_bytes(self):
        return 3 * 4 * math.prod(self.shape)

    @property
    def multiply_adds(self):
        return 2 * self.score_count * self.head_dim

    @property
    def work(self):
        return Work(2 * self.multiply_adds, self.batch * self.seq_len, {})

    @property
    def size(self):
        return f"seq_len {self.seq_len}, batch {self.batch}, heads {self.heads}"

    @property
    def shared_remedy(self):
        return f"Choose smaller tiles or a smaller head_dim (now {self.head_dim})."

    def inputs(self):
        """q, k, v as float32 arrays of shape [batch, heads, seq_len, head_dim]; the same for the same problem, always."""
        rng = np.random.default_rng(self.seed)
        q, k, v = (rng.standard_normal(self.shape, dtype=np.float32) for _ in range(3))
        return {"q": q * np.float32(self.score_scale), "k": k, "v": v}

    def truth(self, on_gpu=False):
        function = reference.attention_on_gpu if on_gpu else reference.attention
        return {"o": function(*self.inputs().values(), self.scale, self.causal)}

    def torch_outputs(self, device="cpu"):
        return {"o": reference.torch_attention(*self.inputs().values(), self.scale, self.causal, device)}


def check_value(name, value, default, limits):
    """`value` as the type of `default`, or a ProblemError that names field, value and what is allowed.

    `limits` holds `allowed` (a tuple of values) or `low` and `high` (inclusive; of each element, where `default` is a tuple). Text,
    as from a URL or a command line, is read: numbers, or tuples as 1,2,3 and tuples of tuples as 1,2;3.
    """
    allowed, low, high = limits.get("allowed"), limits.get("low"), limits.get("high")
    if isinstance(default, tuple):
        return _check_tuple(name, value, low, high, nested=bool(limits.get("nested")))
    expected = f"one of {', '.join(map(_show, allowed))}" if allowed else \
        f"a {'whole ' if isinstance(default, int) else ''}number from {_show(low)} to {_show(high)}"
    try:
        number = value if isinstance(default, str) else _number(value, default)
    except (ValueError, TypeError, OverflowError):
        raise ProblemError(f"{name} is {value!r}; it must be {expected}.") from None
    if number not in allowed if allowed else not low <= number <= high:
        raise ProblemError(f"{name} is {_show(number)}; it must be {expected}.")
    return number


def _check_tuple(name, value, low, high, nested):
    """A tuple of whole numbers (or of such tuples), each from low to high."""
    if isinstance(value, str):
        value = [part for part in value.split(";" if nested else ",") if part.strip()]
    if not isinstance(value, (tuple, list, np.ndarray)):
        raise ProblemError(f"{name} is {value!r}; it must be {'rows of ' if nested else ''}whole numbers from {low} to {high}.")
    if nested:
        return tuple(_check_tuple(f"{name} row {n}", row, low, high, nested=False) for n, row in enumerate(value))
    return tuple(check_value(f"{name}[{n}]", v, 0, {"low": low, "high": high}) for n, v in enumerate(value))


def _number(value, default):
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.strip().lower(), value)
    number = float(value)
    if isinstance(default, float):
        return number
    if not number.is_integer():
        raise ValueError(value)
    return bool(number) if isinstance(default, bool) and number in (0, 1) else int(value if isinstance(value, int) else number)


def _show(value):
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
