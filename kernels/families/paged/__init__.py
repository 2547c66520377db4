"""Attention of one query per sequence over a paged KV cache, and the kernels that write the cache."""

from kernels.families.paged.cache import CacheCopyProblem, CacheWriteProblem, Fp8WriteProblem
from kernels.families.paged.plan import PlanProblem
from kernels.families.paged.problem import PagedProblem
from kernels.families.paged.ranges import CascadeProblem, RangesProblem

PROBLEMS = {
    "decode": PagedProblem,
    "write": CacheWriteProblem,
    "copy": CacheCopyProblem,
    "ranges": RangesProblem,
    "write_fp8": Fp8WriteProblem,
    "cascade": CascadeProblem,
    "plan": PlanProblem,
}
