"""The shared fields of problems over a paged cache, and their values."""

from collections.abc import Mapping
from itertools import product
from typing import Any

from kernels.build import own_values
from kernels.core.dtypes import element_type
from kernels.core.fields import problem_field

HEAD_DIMS, BLOCK_SIZES, DTYPES = (64, 80, 96, 128, 256), (8, 16, 32), ("float32", "float16")
RANGE_HEAD_DIMS, RANGE_BLOCK_SIZES, RANGE_DTYPES = (64, 128), (8, 16, 32, 64), ("float16", "bfloat16")
"""The same for the kernels over ranges."""
FP8 = "float8_e4m3"
FP8_MAX = element_type(FP8).largest  # 448
HEADS = ((4, 4), (8, 2), (4, 1), (32, 8), (6, 3), (8, 1), (1, 1))  # query heads, KV heads of check cases
LAYOUTS = tuple(product(HEAD_DIMS, BLOCK_SIZES, DTYPES))
SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "q": ("query", "queries"),
    "k_cache": ("kcache", "keycache", "keypages", "kpages", "k", "kpool"),
    "v_cache": ("vcache", "valuecache", "valuepages", "vpages", "v", "vpool"),
    "o": ("out", "output", "result"),
    "block_tables": ("blocktable", "pagetable", "pagetables", "table"),
    "context_lens": ("lengths", "seqlens", "contextlen", "lens"),
    "num_seqs": ("batch", "b", "sequence", "sequences", "numsequences", "seq"),
    "num_heads": ("heads", "head", "h", "nh"),
    "num_kv_heads": ("kvheads", "hk", "nkvheads"),
    "head_dim": ("headsize", "d", "dim"),
    "block_size": ("pagesize", "page"),
    "max_blocks_per_seq": ("maxblocks", "tablestride", "maxpages", "maxnumblocksperseq"),
    "scale": ("softmaxscale", "smscale"),
}
CACHE_DTYPES = ("", FP8)  # of a cache whose type may differ from that of Q


def head_dim_field() -> Any:
    return problem_field(64, "numbers per query, key and value", allowed=HEAD_DIMS, formerly="head_size")


def block_size_field() -> Any:
    return problem_field(16, "slots per page", allowed=BLOCK_SIZES)


def dtype_field() -> Any:
    return problem_field("float32", "storage of Q, K, V and O, with float32 sums", allowed=DTYPES)


def numbers_field() -> Any:
    meaning = "the numbers of Q, K and V"
    return problem_field("random", meaning, allowed=("random",), also=own_values.PATTERN, later=True)
