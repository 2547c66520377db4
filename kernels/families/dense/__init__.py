"""Dense attention in fp32: every query attends to every key of its head, or with a causal mask up to itself."""

from kernels.families.dense.problem import DenseProblem, GroupedProblem

PROBLEMS = {"attention": DenseProblem, "grouped": GroupedProblem}
