"""Rotary embedding, the truth and torch's way: each pair of dims turns by an angle of its token's position.

Source: Su et al. 2021, "RoFormer", arXiv:2104.09864.
"""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

PAIRS = ("halves", "neighbours")


def table(positions: int, head_dim: int, theta: float) -> np.ndarray:
    """cos_sin [positions, head_dim] in float32: head_dim / 2 cosines, then as many sines."""
    turns = theta ** (-np.arange(0, head_dim, 2) / head_dim)
    angles = np.arange(positions)[:, None] * turns
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def turned(x: np.ndarray, cos_sin: np.ndarray, pairs: str) -> np.ndarray:
    """x [tokens, heads, head_dim], turned in float64. cos_sin: [tokens, head_dim]."""
    half = x.shape[-1] // 2
    first, second = _sides(pairs, half)
    rows = cos_sin.astype(np.float64)[:, None]
    cos, sin = rows[..., :half], rows[..., half:]
    made = np.empty(x.shape)
    made[..., first] = x[..., first] * cos - x[..., second] * sin
    made[..., second] = x[..., second] * cos + x[..., first] * sin
    return made


def torch_turned(x: "Tensor", cos_sin: "Tensor", pairs: str) -> "Tensor":
    """The same by torch in the type of x: the table and each operation are rounded to it."""
    import torch

    half = x.shape[-1] // 2
    first, second = _sides(pairs, half)
    rows = cos_sin.to(x.dtype)[:, None]
    cos, sin = rows[..., :half], rows[..., half:]
    made = torch.empty_like(x)
    made[..., first] = x[..., first] * cos - x[..., second] * sin
    made[..., second] = x[..., second] * cos + x[..., first] * sin
    return made


def _sides(pairs: str, half: int) -> tuple[slice, slice]:
    """The first and the second dims of all pairs."""
    return (slice(0, half), slice(half, None)) if pairs == "halves" else (slice(0, None, 2), slice(1, None, 2))
