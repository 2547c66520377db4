"""Attention with masks as lists of blocks, and with masks of single elements."""

from kernels.families.sparse.problem import BlockSparseProblem, CsrProblem, MaskedProblem

PROBLEMS = {"blocks": BlockSparseProblem, "masked": MaskedProblem, "csr": CsrProblem}
