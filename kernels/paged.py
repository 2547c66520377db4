"""The problems of the paged kernels: attention of one query per sequence over a paged KV cache, and writes into that cache.

A bad block table, context length, slot or pair is refused here, before anything is launched, with the place named.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernels import reference
from kernels.errors import ProblemError
from kernels.kv_cache import Layout
from kernels.problem import Exact, Work, check_fields, problem_field

HEAD_SIZES, BLOCK_SIZES, DTYPES = (64, 80, 96, 128, 256), (8, 16, 32), ("float32", "float16")
LONGEST_CONTEXT = 65536  # a probe's key has 16 bits
Q_STREAM, K_STREAM, V_STREAM, TABLE_STREAM, OLD_STREAM = range(5)  # random streams of one seed


def _head_size():
    return problem_field(64, "numbers per query, key and value", allowed=HEAD_SIZES)


def _block_size():
    return problem_field(16, "slots per page", allowed=BLOCK_SIZES)


def _dtype():
    return problem_field("float32", "storage of Q, K, V and O; sums are float32", allowed=DTYPES)


def _seed():
    return problem_field(0, "seed of the random inputs", low=0, high=2**32 - 1)


def random_rows(seed, stream, count, shape, dtype):
    """`count` standard normal arrays of `shape`; row n is the same however many are asked for."""
    return np.random.default_rng((seed, stream)).standard_normal((count, *shape), dtype=np.float32).astype(dtype)


@dataclass(frozen=True)
class PagedProblem:
    """Decoding: one query per sequence attends to the sequence's whole context, whose K and V lie in pages.

    block_tables: per sequence its pages; empty for a random placement by `seed`. token_ids: per sequence the number of each token,
    which decides its K and V; empty for tokens that differ unless their page is shared. families: sequences of the same number were
    forked from one another and may share pages; empty for no forks. num_blocks: the pool; 0 for a little more than needed.
    The query of a sequence is that of its last token, drawn with standard deviation `score_scale`. Slots without a token hold NaN.
    """

    context_lens: tuple = problem_field((40, 5, 70), "tokens of each sequence", low=1, high=LONGEST_CONTEXT)
    num_heads: int = problem_field(4, "query heads", low=1, high=128)
    num_kv_heads: int = problem_field(2, "KV heads; num_heads is a multiple of it", low=1, high=128)
    head_size: int = _head_size()
    block_size: int = _block_size()
    dtype: str = _dtype()
    alibi: bool = problem_field(False, "add ALiBi's slope times the distance to each score", allowed=(False, True))
    score_scale: float = problem_field(1.0, "standard deviation of the scores", low=0.01, high=1000.0)
    seed: int = _seed()
    num_blocks: int = problem_field(0, "pages in the pool; 0 for a little more than needed", low=0, high=2**20)
    block_tables: tuple = problem_field((), "pages of each sequence, in order", low=-2**31, high=2**31 - 1, nested=True)
    token_ids: tuple = problem_field((), "number of each token of each sequence", low=0, high=2**24, nested=True)
    families: tuple = problem_field((), "fork family of each sequence", low=0, high=2**24)

    item = "query head"
    remedy = "Choose shorter contexts, fewer sequences or fewer heads."
    shared_remedy = "Choose a shorter context, or paged_v2, whose shared memory does not grow with it."

    def __post_init__(self):
        check_fields(self)
        if not self.context_lens:
            raise ProblemError("context_lens is empty; it must give at least one sequence's length.")
        if self.num_heads % self.num_kv_heads:
            raise ProblemError(f"num_heads is {self.num_heads} and num_kv_heads {self.num_kv_heads}; num_heads must be a multiple of num_kv_heads.")
        needed = [-(-length // self.block_size) for length in self.context_lens]
        if not self.num_blocks:
            most = max((page + 1 for row in self.block_tables for page in row), default=0)
            object.__setattr__(self, "num_blocks", max(most, sum(needed) + max(2, sum(needed) // 4)))
        if not self.block_tables:
            object.__setattr__(self, "block_tables", self._random_tables(needed))
        for name in ("block_tables", "token_ids", "families"):
            value = getattr(self, name)
            if value and len(value) != self.num_seqs:
                raise ProblemError(f"{name} has {len(value)} rows; context_lens has {self.num_seqs} sequences.")
        self._check_tables(needed)
        self._check_tokens()

    def _random_tables(self, needed):
        if sum(needed) > self.num_blocks:
            raise ProblemError(f"num_blocks is {self.num_blocks}; these contexts need {sum(needed)} pages of {self.block_size} slots.")
        pages = iter(np.random.default_rng((self.seed, TABLE_STREAM)).permutation(self.num_blocks).tolist())
        return tuple(tuple(next(pages) for _ in range(count)) for count in needed)

    def _check_tables(self, needed):
        held = {}  # page -> (sequence, entry) that holds it first
        for seq, (row, count) in enumerate(zip(self.block_tables, needed)):
            if len(row) < count:
                raise ProblemError(f"Sequence {seq} has context length {self.context_lens[seq]}, which needs {count} pages of {self.block_size} slots; "
                                   f"its block table has {len(row)} entries.")
            for entry, page in enumerate(row):
                if not 0 <= page < self.num_blocks:
                    raise ProblemError(f"Sequence {seq}, entry {entry} of its block table is {page}; the pool has pages 0 to {self.num_blocks - 1}.")
                other, place = held.setdefault(page, (seq, entry))
                if other == seq and place != entry:
                    raise ProblemError(f"Sequence {seq}, entries {place} and {entry} of its block table are both page {page}; a page has one place.")
                if other != seq and not self._related(seq, other):
                    raise ProblemError(f"Page {page} is entry {entry} of sequence {seq} and entry {place} of sequence {other}, which did not fork "
                                       "from one another. Give forked sequences the same number in families.")
                if other != seq and place != entry:
                    raise ProblemError(f"Page {page} is entry {entry} of sequence {seq} and entry {place} of sequence {other}; forked sequences "
                                       "share a page only at the same place.")

    def _related(self, a, b):
        return bool(self.families) and self.families[a] == self.families[b]

    def _check_tokens(self):
        for seq, row in enumerate(self.token_ids):
            if len(row) != self.context_lens[seq]:
                raise ProblemError(f"Sequence {seq} has {len(row)} token_ids and context length {self.context_lens[seq]}; they must be equal.")
        slots, ids = self._slots_and_tokens
        order = np.lexsort((ids, slots))
        slots, ids = slots[order], ids[order]
        clash = np.flatnonzero((slots[1:] == slots[:-1]) & (ids[1:] != ids[:-1]))
        if len(clash):
            at = clash[0]
            raise ProblemError(f"Slot {slots[at] % self.block_size} of page {slots[at] // self.block_size} would hold tokens {ids[at]} and "
                               f"{ids[at + 1]}; sequences that share a page share its tokens.")

    @property
    def num_seqs(self):
        return len(self.context_lens)

    @property
    def layout(self):
        return Layout(self.num_blocks, self.num_kv_heads, self.head_size, self.block_size, self.dtype)

    @property
    def shape(self):
        """[num_seqs, num_heads, head_size] of Q and O."""
        return (self.num_seqs, self.num_heads, self.head_size)

    @property
    def group(self):
        """How many query heads read one KV head."""
        return self.num_heads // self.num_kv_heads

    @property
    def max_blocks_per_seq(self):
        return max(map(len, self.block_tables))

    @property
    def scale(self):
        """The factor on q . k: 1 / sqrt(head_size)."""
        return 1.0 / math.sqrt(self.head_size)

    @property
    def slopes(self):
        """ALiBi's slopes 2^(-8 (h + 1) / num_heads), float32; zeros where it is off. Source: Press et al. 2021, arXiv:2108.12409."""
        slopes = 2.0 ** (-8.0 * np.arange(1, self.num_heads + 1) / self.num_heads)
        return (slopes if self.alibi else np.zeros(self.num_heads)).astype(np.float32)

    @property
    def outputs(self):
        return {"o": np.dtype(self.dtype)}

    @property
    def defines(self):
        return {"HEAD_SIZE": self.head_size, "BLOCK_SIZE": self.block_size, "T_BYTES": np.dtype(self.dtype).itemsize}

    @property
    def input_bytes(self):
        return 2 * self.num_blocks * self.num_kv_heads * self.layout.page_bytes + 4 * math.prod(self.shape)

    @property
    def multiply_adds(self):
        return 2 * sum(self.context_lens) * self.num_heads * self.head_size

    @property
    def work(self):
        """Of the caches, the pages' slots that hold a token, each once however many sequences share it."""
        tokens = len(np.unique(self._slots_and_tokens[0]))
        held = tokens * self.num_kv_heads * self.head_size * np.dtype(self.dtype).itemsize
        return Work(2 * self.multiply_adds, self.num_seqs, {"k_cache": held, "v_cache": held})

    @property
    def size(self):
        return f"{self.num_seqs} sequences, {sum(self.context_lens)} tokens, {self.num_heads} heads of {self.head_size}"

    @cached_property
    def _slots_and_tokens(self):
        """Slot and token number of every position of every sequence, one after another."""
        slots = [np.asarray(row)[np.arange(length) // self.block_size] * self.block_size + np.arange(length) % self.block_size
                 for row, length in zip(self.block_tables, self.context_lens)]
        slots = np.concatenate(slots).astype(np.int64)
        if self.token_ids:
            return slots, np.concatenate([np.asarray(row, np.int64) for row in self.token_ids])
        return slots, np.unique(slots, return_inverse=True)[1] if self.families else np.arange(len(slots))

    def tokens(self):
        """Per sequence, the number of each of its tokens."""
        return np.split(self._slots_and_tokens[1], np.cumsum(self.context_lens)[:-1])

    def token_rows(self, stream, heads):
        """What `stream` draws for every token number up to the largest: [tokens, heads, head_size]."""
        return random_rows(self.seed, stream, int(self._slots_and_tokens[1].max()) + 1, (heads, self.head_size), np.float32)

    def inputs(self):
        """q [num_seqs, num_heads, head_size], k_cache and v_cache (kv_cache.Layout), block_tables [num_seqs, max_blocks_per_seq] int32
        (-1 where a row is shorter), context_lens [num_seqs] int32, alibi_slopes [num_heads] float32."""
        slots, ids = self._slots_and_tokens
        last = [row[-1] for row in self.tokens()]
        q = (self.token_rows(Q_STREAM, self.num_heads)[last] * np.float32(self.score_scale)).astype(self.dtype)
        k_cache, v_cache = (np.full(shape, np.nan, self.dtype) for shape in (self.layout.k_shape, self.layout.v_shape))
        key, value = (self.token_rows(stream, self.num_kv_heads)[ids].astype(self.dtype) for stream in (K_STREAM, V_STREAM))
        self.layout.write(k_cache, v_cache, slots, key, value)
        tables = np.full((self.num_seqs, self.max_blocks_per_seq), -1, np.int32)
        for row, pages in zip(tables, self.block_tables):
            row[:len(pages)] = pages
        return {"q": q, "k_cache": k_cache, "v_cache": v_cache, "block_tables": tables, "context_lens": np.array(self.context_lens, np.int32),
                "alibi_slopes": self.slopes}

    def _gathered(self):
        arrays = self.inputs()
        for seq, (table, length) in enumerate(zip(self.block_tables, self.context_lens)):
            yield arrays["q"][seq], *self.layout.gather(arrays["k_cache"], arrays["v_cache"], table, length)

    def truth(self, on_gpu=False):
        """The pages gathered, then attention in float64 (NumPy: one query per sequence is little work)."""
        return {"o": np.stack([reference.decode_attention(q, k, v, self.scale, self.slopes) for q, k, v in self._gathered()])}

    def torch_outputs(self, device="cpu"):
        return {"o": np.stack([reference.torch_decode_attention(q, k, v, self.scale, self.slopes if self.alibi else None, device)
                               for q, k, v in self._gathered()])}


@dataclass(frozen=True)
class _CacheProblem(Exact):
    """What writes into a cache that holds random numbers from before; the result is exact, so any error at all is a miss."""

    num_kv_heads: int = problem_field(2, "KV heads", low=1, high=128)
    head_size: int = _head_size()
    block_size: int = _block_size()
    dtype: str = _dtype()
    num_blocks: int = problem_field(8, "pages in the pool", low=1, high=2**16)
    seed: int = _seed()

    multiply_adds = 0

    def __post_init__(self):
        check_fields(self)
        self.check()

    @property
    def layout(self):
        return Layout(self.num_blocks, self.num_kv_heads, self.head_size, self.block_size, self.dtype)

    @property
    def outputs(self):
        return {"k_cache": np.dtype(self.dtype), "v_cache": np.dtype(self.dtype)}

    @property
    def defines(self):
        return {"HEAD_SIZE": self.head_size, "BLOCK_SIZE": self.block_size, "T_BYTES": np.dtype(self.dtype).itemsize}

    @property
    def input_bytes(self):
        return 2 * self.num_blocks * self.num_kv_heads * self.layout.page_bytes

    @property
    def size(self):
        return f"{self.num_blocks} pages of {self.block_size} slots, {self.num_kv_heads} KV heads of {self.head_size}"

    def _old(self):
        k, v = (random_rows(self.seed, OLD_STREAM + n, self.num_blocks, shape[1:], self.dtype)
                for n, shape in enumerate((self.layout.k_shape, self.layout.v_shape)))
        return {"k_cache": k, "v_cache": v}


@dataclass(frozen=True)
class CacheWriteProblem(_CacheProblem):
    """New tokens to be put into their slots; a negative slot is padding and is skipped."""

    slots: tuple = problem_field((5, 6, 7, 16, -1, 40), "slot of each token: page * block_size + slot in page", low=-1, high=2**31 - 1)

    item = "token"
    remedy = shared_remedy = "Choose fewer tokens or fewer heads."

    def check(self):
        if not self.slots:
            raise ProblemError("slots is empty; it must give at least one token's slot.")
        seen = {}
        for token, slot in enumerate(self.slots):
            if slot >= self.num_blocks * self.block_size:
                raise ProblemError(f"Token {token} has slot {slot}; the cache has slots 0 to {self.num_blocks * self.block_size - 1}.")
            if slot >= 0 and seen.setdefault(slot, token) != token:
                raise ProblemError(f"Tokens {seen[slot]} and {token} both have slot {slot}; a slot holds one token.")

    @property
    def work(self):
        tokens = sum(slot >= 0 for slot in self.slots)
        row = self.num_kv_heads * self.head_size * np.dtype(self.dtype).itemsize
        return Work(0, tokens, {"k_cache": tokens * row, "v_cache": tokens * row})

    def inputs(self):
        """key and value [tokens, num_kv_heads, head_size], slots [tokens] int32, and the caches as they were."""
        rows = (self.num_kv_heads, self.head_size)
        key, value = (random_rows(self.seed, stream, len(self.slots), rows, self.dtype) for stream in (K_STREAM, V_STREAM))
        return {"key": key, "value": value, "slots": np.array(self.slots, np.int32), **self._old()}

    def truth(self, on_gpu=False):
        arrays = self.inputs()
        real = arrays["slots"] >= 0
        self.layout.write(arrays["k_cache"], arrays["v_cache"], arrays["slots"][real], arrays["key"][real], arrays["value"][real])
        return {name: arrays[name].astype(np.float64) for name in self.outputs}


@dataclass(frozen=True)
class CacheCopyProblem(_CacheProblem):
    """Pages to be copied whole, as a copy on write does."""

    copies: tuple = problem_field(((1, 5), (3, 0)), "pairs of pages: from, to", low=0, high=2**16 - 1, nested=True)

    item = "pair"
    remedy = shared_remedy = "Choose fewer pairs or fewer heads."

    def check(self):
        if not self.copies:
            raise ProblemError("copies is empty; it must give at least one pair of pages.")
        sources, targets = {pair[0] for pair in self.copies if pair}, set()
        for n, pair in enumerate(self.copies):
            if len(pair) != 2:
                raise ProblemError(f"Pair {n} is {pair}; it must be two pages: from, to.")
            for page in pair:
                if page >= self.num_blocks:
                    raise ProblemError(f"Pair {n} names page {page}; the pool has pages 0 to {self.num_blocks - 1}.")
            if pair[1] in sources | targets:
                raise ProblemError(f"Pair {n} writes page {pair[1]}, which another pair reads or writes; the order of blocks is not defined.")
            targets.add(pair[1])

    @property
    def work(self):
        """Every page of a pair is read once, or written once."""
        moved = 2 * len(self.copies) * self.num_kv_heads * self.layout.page_bytes
        return Work(0, len(self.copies) * self.block_size, {"k_cache": moved, "v_cache": moved})

    def inputs(self):
        """copies [pairs, 2] int32, and the caches as they were."""
        return {"copies": np.array(self.copies, np.int32), **self._old()}

    def truth(self, on_gpu=False):
        arrays = self.inputs()
        source, target = arrays["copies"].T
        for name in self.outputs:
            arrays[name][target] = arrays[name][source]
        return {name: arrays[name].astype(np.float64) for name in self.outputs}
