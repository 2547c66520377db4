"""Attention that skips what a mask hides: masks as lists of blocks, and at the level of elements."""

from kernels.families.sparse.problem import BlockSparseProblem, CsrProblem, MaskedProblem

PROBLEMS = {"blocks": BlockSparseProblem, "masked": MaskedProblem, "csr": CsrProblem}
