"""Dense self-attention: every query attends to every key of its head, or with a causal mask to those up to itself."""

from kernels.families.dense.problem import DenseProblem

PROBLEMS = {"attention": DenseProblem}
