"""Kernels without a problem: the opening comment of a .cu declares the tensors and sizes of its own run."""

from kernels.families.free.problem import FreeProblem

PROBLEMS = {"free": FreeProblem}
