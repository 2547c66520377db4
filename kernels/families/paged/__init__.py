"""Attention of one query per sequence over a KV cache that lies in pages, and the kernels that write the cache."""

from kernels.families.paged.cache import CacheCopyProblem, CacheWriteProblem
from kernels.families.paged.problem import PagedProblem

PROBLEMS = {"decode": PagedProblem, "write": CacheWriteProblem, "copy": CacheCopyProblem}
