"""What a kernel is asked to compute: frozen, validated, hashable, and able to make its own seeded inputs."""

import math
from dataclasses import dataclass, field, fields

import numpy as np

from kernels.errors import ProblemError


def _field(default, meaning, *, allowed=None, low=None, high=None):
    """A dataclass field whose metadata states what it may hold; the CLI, the sidebar and the checks all read it here."""
    return field(default=default, metadata={"meaning": meaning, "allowed": allowed, "low": low, "high": high})


@dataclass(frozen=True)
class AttentionProblem:
    """Self-attention over random Q, K, V of shape [batch, heads, seq_len, head_dim], fp32.

    Q is drawn from a normal distribution of standard deviation `score_scale`, K and V of 1, so that the scores
    q.k / sqrt(head_dim) have a standard deviation of about `score_scale`.
    """

    seq_len: int = _field(64, "queries and keys per head", low=1, high=16384)
    head_dim: int = _field(32, "numbers per query, key and value", allowed=(32, 64, 128))
    batch: int = _field(1, "independent sequences", low=1, high=64)
    heads: int = _field(2, "attention heads", low=1, high=64)
    causal: bool = _field(False, "each query sees only the keys up to itself", allowed=(False, True))
    score_scale: float = _field(1.0, "standard deviation of the scores", low=0.01, high=1000.0)
    seed: int = _field(0, "seed of the random inputs", low=0, high=2**32 - 1)

    def __post_init__(self):
        for f in fields(self):
            object.__setattr__(self, f.name, check_value(f.name, getattr(self, f.name), f.default, f.metadata))

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

    def inputs(self):
        """q, k, v as float32 arrays of shape [batch, heads, seq_len, head_dim]; the same for the same problem, always."""
        rng = np.random.default_rng(self.seed)
        q, k, v = (rng.standard_normal(self.shape, dtype=np.float32) for _ in range(3))
        return {"q": q * np.float32(self.score_scale), "k": k, "v": v}


def check_value(name, value, default, limits):
    """`value` as the type of `default`, or a ProblemError that names field, value and what is allowed.

    `limits` holds `allowed` (a tuple of values) or `low` and `high` (inclusive). Text, as from a URL or a command line,
    is read as a number.
    """
    allowed, low, high = limits.get("allowed"), limits.get("low"), limits.get("high")
    expected = f"one of {', '.join(map(_show, allowed))}" if allowed else \
        f"a {'whole ' if isinstance(default, int) else ''}number from {_show(low)} to {_show(high)}"
    try:
        number = _number(value, default)
    except (ValueError, TypeError, OverflowError):
        raise ProblemError(f"{name} is {value!r}; it must be {expected}.") from None
    if number not in allowed if allowed else not low <= number <= high:
        raise ProblemError(f"{name} is {_show(number)}; it must be {expected}.")
    return number


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
