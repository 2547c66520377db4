"""The problem of paged attention: one query per sequence attends to a context in pages.

The problem refuses a bad block table or context length before a launch, and names the place.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar, Self

import numpy as np

from kernels.build import own_values
from kernels.core import reference
from kernels.core.distinct import distinct
from kernels.core.dtypes import element_type
from kernels.core.fields import problem_field
from kernels.core.heads import Head
from kernels.core.paged import Cache, CacheCall, CacheUse
from kernels.core.problem import Size, Work
from kernels.core.tensors import Role, Tensor
from kernels.errors import PeerUnavailable, ProblemError
from kernels.families.paged import kept
from kernels.families.paged.calls import DecodeCalls
from kernels.families.paged.cases import PagedCases
from kernels.families.paged.fields import (
    SPELLINGS,
    block_size_field,
    dtype_field,
    head_dim_field,
    numbers_field,
    seed_field,
)
from kernels.families.paged.rows import K_STREAM, Q_STREAM, TABLE_STREAM, V_STREAM, rows_at
from kernels.families.paged.tables import check_tables, check_tokens
from kernels.kv_cache.layout import K_AXES, V_AXES, Layout

LONGEST_CONTEXT = 65536  # a token's number is a key of its probes, and a key is at most 65,535
MOST_PAGES = 2**20


def _of_length(problem: "PagedProblem", length: int) -> dict[str, object]:
    return {"context_lens": (length,) * problem.num_seqs}


def _of_batch(problem: "PagedProblem", count: int) -> dict[str, object]:
    return {"context_lens": problem.context_lens[:1] * count}


@dataclass(frozen=True)
class PagedProblem(DecodeCalls, PagedCases):
    """Decoding: one query per sequence attends to the sequence's whole context, with K and V in pages.

    The query of a sequence belongs to its last token and has standard deviation `score_scale`. Slots without a token
    hold NaN.

    block_tables: the pages of each sequence. Empty for a random placement by `seed`.
    token_ids: the number of each token of each sequence, which decides its K and V. Empty for different tokens, apart
      from shared pages.
    families: forked sequences have equal numbers and may share pages. Empty for no forks.
    num_blocks: the pool. 0 for a little more than needed.
    numbers: random, or the file of a watched call (build/own_values.py) with its block tables.
    """

    context_lens: tuple = problem_field((40, 5, 70), "tokens of each sequence", low=1, high=LONGEST_CONTEXT)
    num_heads: int = problem_field(4, "query heads", low=1, high=128)
    num_kv_heads: int = problem_field(2, "KV heads, a divisor of num_heads", low=1, high=128)
    head_dim: int = head_dim_field()
    block_size: int = block_size_field()
    dtype: str = dtype_field()
    alibi: bool = problem_field(False, "add ALiBi's slope times the distance to each score", allowed=(False, True))
    score_scale: float = problem_field(1.0, "standard deviation of the scores", low=0.01, high=1000.0)
    seed: int = seed_field()
    num_blocks: int = problem_field(0, "pages in the pool, or 0 for a few more than needed", low=0, high=MOST_PAGES)
    block_tables: tuple = problem_field(
        (), "pages of each sequence, in order", low=-(2**31), high=2**31 - 1, nested=True
    )
    token_ids: tuple = problem_field((), "number of each token of each sequence", low=0, high=2**24, nested=True)
    families: tuple = problem_field((), "fork family of each sequence", low=0, high=2**24)
    numbers: str = numbers_field()

    follows: ClassVar[tuple[str, ...]] = ("num_blocks", "block_tables")  # fields that are made where they are not given
    title: ClassVar[str] = "Decoding, paged KV cache"
    cache_use: ClassVar[CacheUse | None] = CacheUse("attend")
    picture: ClassVar[Mapping[str, str]] = {"q": "Q", "k_cache": "K", "v_cache": "V", "o": "O"}
    spellings: ClassVar[Mapping[str, tuple[str, ...]]] = SPELLINGS
    remedy: ClassVar[str] = "Choose shorter contexts, fewer sequences or fewer heads."
    derived_fields: ClassVar[Mapping[str, Callable[[Any, int], dict[str, object]]]] = {
        "seq_len": _of_length,
        "batch": _of_batch,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.context_lens:
            raise ProblemError("context_lens is empty. It must give at least one sequence's length.")
        if self.num_heads % self.num_kv_heads:
            raise ProblemError(
                f"num_heads is {self.num_heads} and num_kv_heads {self.num_kv_heads}, and "
                "num_heads must be a multiple of num_kv_heads."
            )
        needed = [-(-length // self.block_size) for length in self.context_lens]
        if self.has_numbers and not self.block_tables:
            object.__setattr__(self, "block_tables", kept.tables(self))
        if not self.num_blocks:
            most = max((page + 1 for row in self.block_tables for page in row), default=0)
            object.__setattr__(self, "num_blocks", max(most, sum(needed) + max(2, sum(needed) // 4)))
        if self.num_blocks > MOST_PAGES:
            raise ProblemError(
                f"These contexts and block tables need a pool of {self.num_blocks:,} pages of {self.block_size} slots. "
                f"It can have {MOST_PAGES:,}. {self.remedy}"
            )
        given = bool(self.block_tables)
        if not given:
            object.__setattr__(self, "block_tables", self._random_tables(needed))
        for name in ("block_tables", "token_ids", "families"):
            value = getattr(self, name)
            if value and len(value) != self.num_seqs:
                raise ProblemError(f"{name} has {len(value)} rows, and context_lens has {self.num_seqs} sequences.")
        if given:
            check_tables(self)
        check_tokens(self)

    def _random_tables(self, needed: list[int]) -> tuple[tuple[int, ...], ...]:
        if sum(needed) > self.num_blocks:
            raise ProblemError(
                f"num_blocks is {self.num_blocks}. These contexts need {sum(needed)} pages of {self.block_size} slots."
            )
        pages = np.random.default_rng((self.seed, TABLE_STREAM)).permutation(self.num_blocks)[: sum(needed)].tolist()
        ends = list(accumulate(needed))
        return tuple(tuple(pages[end - count : end]) for end, count in zip(ends, needed))

    @property
    def has_numbers(self) -> bool:
        """Whether the numbers come from the file of a call."""
        return own_values.is_name(self.numbers)

    @property
    def num_seqs(self) -> int:
        return len(self.context_lens)

    @property
    def layout(self) -> Layout:
        return Layout(self.num_blocks, self.num_kv_heads, self.head_dim, self.block_size, self.dtype)

    @property
    def shape(self) -> tuple[int, int, int]:
        """[num_seqs, num_heads, head_dim] of Q and O."""
        return (self.num_seqs, self.num_heads, self.head_dim)

    @property
    def group(self) -> int:
        """The query heads of one KV head."""
        return self.num_heads // self.num_kv_heads

    @property
    def max_blocks_per_seq(self) -> int:
        """Entries of the longest block table."""
        return max(map(len, self.block_tables))

    @property
    def scale(self) -> float:
        """The factor on q . k: 1 / sqrt(head_dim)."""
        return 1.0 / math.sqrt(self.head_dim)

    @property
    def slopes(self) -> np.ndarray:
        """ALiBi's slopes 2^(-8 (h + 1) / num_heads), float32, or zeros without ALiBi.

        Source: Press et al. 2021, arXiv:2108.12409.
        """
        slopes = 2.0 ** (-8.0 * np.arange(1, self.num_heads + 1) / self.num_heads)
        return (slopes if self.alibi else np.zeros(self.num_heads)).astype(np.float32)

    def tensors(self) -> tuple[Tensor, ...]:
        """q, the caches (kv_cache.layout.Layout), the tables and lengths, ALiBi's slopes, and o."""
        query = ("sequence", "head", "dim")
        return (
            Tensor("q", self.shape, self.dtype, query),
            Tensor("k_cache", self.layout.k_shape, self.dtype, K_AXES),
            Tensor("v_cache", self.layout.v_shape, self.dtype, V_AXES),
            Tensor("block_tables", (self.num_seqs, self.max_blocks_per_seq), "int32", ("sequence", "entry")),
            Tensor("context_lens", (self.num_seqs,), "int32", ("sequence",)),
            Tensor("alibi_slopes", (self.num_heads,), "float32", ("head",)),
            Tensor("o", self.shape, self.dtype, query, Role.OUTPUT),
        )

    @property
    def sizes(self) -> dict[str, object]:
        return {"scale": self.scale, "num_seqs": self.num_seqs, "max_blocks_per_seq": self.max_blocks_per_seq}

    @property
    def defines(self) -> dict[str, int]:
        return {"HEAD_DIM": self.head_dim, "BLOCK_SIZE": self.block_size, "T_BYTES": element_type(self.dtype).bytes}

    @property
    def cpu_steps(self) -> int:
        """The multiply-adds of q . K and P @ V."""
        return 2 * sum(self.context_lens) * self.num_heads * self.head_dim

    @property
    def work(self) -> Work:
        """The touched bytes of the caches are the slots with a token. A shared slot counts once."""
        tokens = len(distinct(self.slots_and_tokens[0])) if self.families else sum(self.context_lens)
        held = tokens * self.num_kv_heads * self.head_dim * element_type(self.dtype).bytes
        return Work(2 * self.cpu_steps, self.num_seqs, {"k_cache": held, "v_cache": held})

    @property
    def bench_columns(self) -> dict[str, Size]:
        """Empty if the contexts differ in length."""
        if len(set(self.context_lens)) > 1:
            return {}
        heads = {"num_heads": self.num_heads, "num_kv_heads": self.num_kv_heads}
        rest = {"head_dim": self.head_dim, "causal": False, "dtype": self.dtype}
        return {"seq_len": self.context_lens[0], "batch": self.num_seqs, **heads, **rest}

    @property
    def size(self) -> str:
        return f"{self.num_seqs} sequences, {sum(self.context_lens)} tokens, {self.num_heads} heads of {self.head_dim}"

    @property
    def shared_remedy(self) -> str:
        return "Choose a shorter context, or paged_v2, whose shared memory does not grow with it."

    def with_fields(self, **changes: Any) -> Self:
        """A copy with these fields. It places its pool and block tables anew unless the changes give them."""
        return replace(self, **{"num_blocks": 0, "block_tables": (), **changes})

    @classmethod
    def of_cache(cls, cache: Cache, **shape: Any) -> Self:
        if not cache.sequences:
            raise ProblemError("The cache holds no sequence, so there is nothing to attend to. Add one.")
        return cls(
            context_lens=tuple(len(s.tokens) for s in cache.sequences),
            block_tables=tuple(s.table for s in cache.sequences),
            token_ids=tuple(s.tokens for s in cache.sequences),
            families=tuple(s.family for s in cache.sequences),
            num_blocks=cache.num_blocks,
            block_size=cache.block_size,
            **shape,
        )

    @cached_property
    def slots_and_tokens(self) -> tuple[np.ndarray, np.ndarray]:
        """Slot and token number of every position of every sequence, one sequence after another."""
        parts = []
        for row, length in zip(self.block_tables, self.context_lens):
            logical, slot = np.divmod(np.arange(length), self.block_size)
            parts.append(np.asarray(row)[logical] * self.block_size + slot)
        slots = np.concatenate(parts).astype(np.int64)
        if self.token_ids:
            return slots, np.concatenate([np.asarray(row, np.int64) for row in self.token_ids])
        return slots, np.unique(slots, return_inverse=True)[1] if self.families else np.arange(len(slots))

    def tokens(self) -> list[np.ndarray]:
        """Per sequence, the number of each of its tokens."""
        return np.split(self.slots_and_tokens[1], np.cumsum(self.context_lens)[:-1])

    def inputs(self) -> dict[str, np.ndarray]:
        """q [num_seqs, num_heads, head_dim].

        k_cache, v_cache: kv_cache.layout.Layout, NaN in slots without a token.
        block_tables: [num_seqs, max_blocks_per_seq] int32, -1 after the end of a row.
        context_lens: [num_seqs] int32.
        alibi_slopes: [num_heads] float32.
        """
        slots, _ = self.slots_and_tokens
        kind = element_type(self.dtype).numpy
        k_cache, v_cache = (np.full(shape, np.nan, kind) for shape in (self.layout.k_shape, self.layout.v_shape))
        key, value = (self.rows(stream, self.dtype) for stream in (K_STREAM, V_STREAM))
        self.layout.write(k_cache, v_cache, slots, key, value)
        return {
            "q": self.queries(),
            "k_cache": k_cache,
            "v_cache": v_cache,
            "block_tables": self.tables(),
            "context_lens": np.array(self.context_lens, np.int32),
            "alibi_slopes": self.slopes,
        }

    def tables(self) -> np.ndarray:
        """block_tables for a kernel, [num_seqs, max_blocks_per_seq] int32, -1 after a sequence's pages."""
        made = np.full((self.num_seqs, self.max_blocks_per_seq), -1, np.int32)
        for row, pages in zip(made, self.block_tables):
            row[: len(pages)] = pages
        return made

    def queries(self) -> np.ndarray:
        """q [num_seqs, num_heads, head_dim], in the problem's type."""
        if self.has_numbers:
            return kept.load(self, "q").astype(element_type(self.dtype).numpy)
        last = np.array([row[-1] for row in self.tokens()])
        drawn = rows_at(self.seed, Q_STREAM, last, (self.num_heads, self.head_dim), "float32")
        return (drawn * np.float32(self.score_scale)).astype(element_type(self.dtype).numpy)

    def rows(self, stream: int, dtype: str) -> np.ndarray:
        """K (stream K_STREAM) or V of every position of every sequence, [positions, num_kv_heads, head_dim]."""
        if self.has_numbers:
            return kept.rows(self)[stream == V_STREAM].astype(element_type(dtype).numpy)
        ids = self.slots_and_tokens[1]
        return rows_at(self.seed, stream, ids, (self.num_kv_heads, self.head_dim), dtype)

    def _gathered(self, arrays: dict[str, np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Per sequence: q [num_heads, head_dim], and K and V of its pages [length, num_kv_heads, head_dim]."""
        for q, table, length in zip(arrays["q"], self.block_tables, self.context_lens):
            yield q, *self.layout.gather(arrays["k_cache"], arrays["v_cache"], table, length)

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        """Attention in float64 over the gathered pages. NumPy computes it, because one query per sequence is little
        work."""
        made = self._gathered(self.inputs())
        return {"o": np.stack([reference.decode_attention(q, k, v, self.scale, self.slopes) for q, k, v in made])}

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        """o by torch's scaled_dot_product_attention over the gathered pages, in the problem's type."""
        slopes = self.slopes if self.alibi else None
        rows = [
            reference.torch_decode_attention(q, k, v, self.scale, slopes, device)
            for q, k, v in self._gathered(self.inputs())
        ]
        return {"o": np.stack(rows)}

    def largest_terms(self) -> dict[str, float]:
        """The largest |V|. An element of O is a mean of elements of V with the weights of the softmax."""
        v_cache = self.inputs()["v_cache"].astype(np.float32)
        return {"o": float(np.nanmax(np.abs(v_cache)))}

    def heads(self) -> Iterator[Head]:
        for number, (q, k, v) in enumerate(self._gathered(self.inputs())):
            distance = np.arange(len(k)) - (len(k) - 1)
            for head, query in enumerate(q.astype(np.float64)):
                keys, values = (a[:, head // self.group].astype(np.float64) for a in (k, v))
                scores = self.scale * (keys @ query) + float(self.slopes[head]) * distance
                yield Head("o", (number, head), scores[None], values, np.ones((1, len(k)), bool))

    def peer_inputs(self, inputs: dict[str, np.ndarray]) -> tuple[list[np.ndarray], dict[str, object]]:
        """q [num_seqs, num_heads, 1, head_dim], and the gathered K and V of each sequence."""
        if self.alibi or len(set(self.context_lens)) > 1:
            raise PeerUnavailable(
                "torch's attention is only asked for contexts of one length without ALiBi, where it needs no mask."
            )
        _, keys, values = zip(*self._gathered(inputs))
        k, v = (np.ascontiguousarray(np.stack(rows).transpose(0, 2, 1, 3)) for rows in (keys, values))
        return [inputs["q"][:, :, None], k, v], {"scale": self.scale, "enable_gqa": self.group > 1}

    def cache_call(self, inputs: dict[str, np.ndarray]) -> CacheCall:
        """The problem over the cache in pages. Raises PeerUnavailable if engines define it otherwise."""
        if self.alibi:
            raise PeerUnavailable(
                "A paged cache is only asked for without ALiBi, whose slopes every engine has its own."
            )
        needed = (-(-length // self.block_size) for length in self.context_lens)
        tables = tuple(row[:count] for row, count in zip(self.block_tables, needed))
        ones = np.ones(self.num_kv_heads, np.float32)
        q, k, v = (inputs[name] for name in ("q", "k_cache", "v_cache"))
        return CacheCall(q, k, v, tables, self.context_lens, self.block_size, self.scale, ones, ones)

    @classmethod
    def bench_default(cls) -> "PagedProblem":
        return cls((1024,) * 8, 32, 8, 128, dtype="float16")
