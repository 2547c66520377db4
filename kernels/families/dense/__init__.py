"""Dense attention in fp32: every query attends to every key of its head, or with a causal mask up to itself."""

from kernels.families.dense.grouped import GroupedProblem
from kernels.families.dense.problem import DenseProblem

PROBLEMS = {"attention": DenseProblem, "grouped": GroupedProblem}
